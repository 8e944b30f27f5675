"""aaggff's decision makers in Flower: `FairStrategy` on the server, one line or one mod on clients.

>>> from aaggff.deploy.flower import FairStrategy
>>> strategy = FairStrategy("aaggff-s", clients=4)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aaggff.deploy.flower.client import fair_mod, report_loss
    from aaggff.deploy.flower.strategy import FairStrategy

# Name -> the module that defines it: a client needs nothing of the server's.
_ON_DEMAND = {
    "FairStrategy": "aaggff.deploy.flower.strategy",
    "fair_mod": "aaggff.deploy.flower.client",
    "report_loss": "aaggff.deploy.flower.client",
}

__all__ = ["FairStrategy", "fair_mod", "report_loss"]


def __getattr__(name: str) -> Any:
    if name in _ON_DEMAND:
        return getattr(import_module(_ON_DEMAND[name]), name)
    raise AttributeError(f"module 'aaggff.deploy.flower' has no attribute {name!r}")
