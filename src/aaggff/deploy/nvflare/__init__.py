"""The same decision makers in an NVFlare federation.

    from aaggff.deploy.nvflare import FairAggregator, fair_recipe, report

`report` is what a site's training script calls; `FairAggregator` decides at the server;
`fair_recipe` puts both into a job. NVFlare is imported when one of the last two is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from aaggff.deploy.nvflare.report import report

if TYPE_CHECKING:
    from aaggff.deploy.nvflare.aggregator import FairAggregator
    from aaggff.deploy.nvflare.recipe import fair_recipe

_ON_DEMAND = {
    "FairAggregator": "aaggff.deploy.nvflare.aggregator",
    "fair_recipe": "aaggff.deploy.nvflare.recipe",
}

__all__ = ["FairAggregator", "fair_recipe", "report"]


def __getattr__(name: str) -> Any:
    if name in _ON_DEMAND:
        return getattr(import_module(_ON_DEMAND[name]), name)
    raise AttributeError(f"module 'aaggff.deploy.nvflare' has no attribute {name!r}")
