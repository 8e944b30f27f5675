"""aaggff: the server of a federated system as a sequential decision maker.

Deciding (losses in, mixing weights out) needs numpy and scipy only, and is what this module
imports. What trains models is imported when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from aaggff.decision import decision_maker, methods
from aaggff.version import __version__

if TYPE_CHECKING:
    from aaggff.data.arrays import from_arrays, from_dataframe, from_torch_datasets
    from aaggff.decision.tracked import track_regret
    from aaggff.experiments.load import load_runs
    from aaggff.federation.federation import Federation

# Name -> the module that defines it; imported on first use, so `import aaggff` never loads torch.
_ON_DEMAND = {
    "Federation": "aaggff.federation.federation",
    "from_arrays": "aaggff.data.arrays",
    "from_dataframe": "aaggff.data.arrays",
    "from_torch_datasets": "aaggff.data.arrays",
    "load_runs": "aaggff.experiments.load",
    "track_regret": "aaggff.decision.tracked",
}

__all__ = [
    "Federation",
    "__version__",
    "decision_maker",
    "from_arrays",
    "from_dataframe",
    "from_torch_datasets",
    "load_runs",
    "methods",
    "track_regret",
]


def __getattr__(name: str) -> Any:
    if name in _ON_DEMAND:
        try:
            return getattr(import_module(_ON_DEMAND[name]), name)
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("aaggff"):
                raise
            needed = f"aaggff.{name} needs the package {error.name!r}"
            raise ImportError(f"{needed}: pip install 'aaggff[train]'", name=error.name) from error
    raise AttributeError(f"module 'aaggff' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
