"""Data sets by name. Each lives in one module, imported when it is asked for."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aaggff.data.spec import DatasetSpec

# Name -> module; each module defines SPEC, a DatasetSpec.
DATASETS = {
    "heart": "aaggff.data.heart",
    "digits": "aaggff.data.digits",
    "synthetic": "aaggff.data.synthetic",
    "berka": "aaggff.data.berka",
    "mqp": "aaggff.data.mqp",
    "isic2019": "aaggff.data.isic2019",
    "celeba": "aaggff.data.celeba",
    "reddit": "aaggff.data.reddit",
    "speechcommands": "aaggff.data.speechcommands",
    "tinyimagenet": "aaggff.data.tinyimagenet",
}


def data_dir(chosen: str | Path | None = None) -> Path:
    """Where data lives: the one chosen, else AAGGFF_DATA, else `~/.cache/aaggff/data`."""
    if chosen is not None:
        return Path(chosen)
    return Path(os.environ.get("AAGGFF_DATA") or "~/.cache/aaggff/data").expanduser()


def dataset_spec(name: str) -> DatasetSpec:
    """The description of a data set; an unknown name suggests the nearest one."""
    if name not in DATASETS:
        from aaggff.errors import unknown

        raise unknown("data set", name, DATASETS)
    spec: DatasetSpec = import_module(DATASETS[name]).SPEC
    return spec
