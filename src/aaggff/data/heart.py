"""UCI Heart Disease: four hospitals, who has heart disease. Shipped with the package."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from aaggff.data.memory import ArrayData, split_pairs
from aaggff.data.spec import DatasetSpec, Option, PaperSettings
from aaggff.errors import unknown
from aaggff.federation.data import Task

Table = NDArray[np.float64]

HOSPITALS = {
    "Cleveland": "processed.cleveland.data",
    "Hungary": "processed.hungarian.data",
    "Switzerland": "processed.switzerland.data",
    "Long Beach VA": "processed.va.data",
}
VARIANTS = ("paper", "flamby")

# age sex cp trestbps chol fbs restecg thalach exang oldpeak | slope ca thal | diagnosis
_KEPT = slice(0, 10)
_CP, _RESTECG = 2, 6
_CP_LEVELS, _RESTECG_LEVELS = (1, 2, 3, 4), (0, 1, 2)


def load(root: Path | None = None, *, seed: int = 0, variant: str = "paper") -> ArrayData:
    """Four clients, one a hospital; target 1 where the diagnosis is above 0.

    variant "paper": all 920 rows, what is missing filled with the hospital's column mean, 15
    features. "flamby": the 740 rows without gaps, first level of each category dropped, 13
    features. Both are standardised per hospital by its own training part. `root` is not needed.

    >>> load().train_sizes.tolist(), load(variant="flamby").train_sizes.tolist()
    ([242, 235, 98, 160], [242, 209, 37, 104])
    """
    if variant not in VARIANTS:
        raise unknown("variant of heart", variant, VARIANTS)
    pairs = [
        (torch.from_numpy(features), torch.from_numpy(labels))
        for features, labels in (_hospital(name, variant) for name in HOSPITALS)
    ]
    return split_pairs(
        "heart",
        Task("binary", 1, "auroc"),
        pairs,
        seed=seed,
        names=list(HOSPITALS),
        standardise=True,
    )


@cache
def _hospital(name: str, variant: str) -> tuple[Table, NDArray[np.int64]]:
    """One hospital's features and labels; the same for every seed, so read once."""
    source = files("aaggff.data").joinpath("heart_files", HOSPITALS[name])
    lines = source.read_text(encoding="ascii").split()
    table = np.array(
        [[np.nan if cell == "?" else float(cell) for cell in line.split(",")] for line in lines]
    )
    features, labels = table[:, _KEPT], (table[:, -1] > 0).astype(np.int64)
    if variant == "flamby":
        whole = ~np.isnan(features).any(axis=1)
        return _indicators(features[whole], first_level=1), labels[whole]
    features = np.where(np.isnan(features), np.nanmean(features, axis=0), features)
    # A category filled with a mean is put on the nearest level, so that the levels stay 4 and 3.
    features[:, [_CP, _RESTECG]] = np.rint(features[:, [_CP, _RESTECG]])
    return _indicators(features, first_level=0), labels


def _indicators(features: Table, first_level: int) -> Table:
    """cp and restecg as one indicator per level, from the given level on."""
    numbers = np.delete(features, [_CP, _RESTECG], axis=1)
    chest = [features[:, _CP] == level for level in _CP_LEVELS[first_level:]]
    rest = [features[:, _RESTECG] == level for level in _RESTECG_LEVELS[first_level:]]
    return np.column_stack([numbers, *chest, *rest]).astype(np.float64)


SPEC = DatasetSpec(
    name="heart",
    title="UCI Heart Disease, 4 hospitals",
    licence="CC BY 4.0",
    credit="Andras Janosi, William Steinbrunn, Matthias Pfisterer, Robert Detrano",
    settings=PaperSettings(
        rounds=200,
        per_round=None,
        model="logistic",
        lr=0.01,
        decay=0.999,
        decay_every=2,
        cdf="frechet",
    ),
    load=load,
    options={
        "variant": Option(
            "paper", "paper: 920 rows, gaps filled; flamby: the 740 rows without gaps", VARIANTS
        )
    },
    needs_files=False,
)
