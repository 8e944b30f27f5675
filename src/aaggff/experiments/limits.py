"""What a reader of results should know about the data they were made with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aaggff.data import dataset_spec

if TYPE_CHECKING:
    from aaggff.federation.config import RunConfig


def partial_copy(config: RunConfig) -> list[str]:
    """What the copy of the data at hand lacks, a line each.

    >>> from aaggff.federation.config import RunConfig
    >>> partial_copy(RunConfig.for_dataset("heart"))
    []
    """
    spec = dataset_spec(config.dataset)
    root = None if config.data_dir is None else Path(config.data_dir).expanduser()
    if config.stand_in or spec.missing is None or not spec.available(root):
        return []
    lacks = spec.missing(spec.folder(root))
    return [f"PARTIAL DATA: {each}; the numbers are of this part." for each in lacks]
