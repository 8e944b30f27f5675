"""A data set of two numbers a line, to try `aaggff data` on: loaded for real, from real files."""

from __future__ import annotations

from pathlib import Path

import torch

from aaggff.data.memory import ArrayData, split_pairs
from aaggff.data.spec import DatasetSpec, Option, PaperSettings, RemoteFile, Statistics
from aaggff.federation.data import Task


def load(root: Path | None = None, *, seed: int = 0, double: bool = False) -> ArrayData:
    folder = SPEC.require(root)
    pairs = []
    for file in sorted((folder / "clients").iterdir()):
        values = torch.tensor([[float(word)] for word in file.read_text().split()])
        values = torch.cat([values, values]) if double else values
        pairs.append((values, (values[:, 0] > 0).long()))
    return split_pairs("tiny", Task("binary", 1, "auroc"), pairs, seed=seed)


def missing(folder: Path) -> list[str]:
    have = len(list((folder / "clients").iterdir()))
    return [f"clients has {have} of 3 files"] if have < 3 else []


SPEC = DatasetSpec(
    name="tiny",
    title="Tiny numbers",
    licence="CC0",
    credit="nobody",
    settings=PaperSettings(rounds=1, per_round=None, model="logistic", lr=0.1),
    load=load,
    options={"double": Option(False, "every row twice", (False, True))},
    files=(
        RemoteFile("tiny.zip", unpacks=("clients",)),
        RemoteFile("about.txt", optional=True),
    ),
    statistics=Statistics(3, 12, 4.0, 1.0),
    missing=missing,
)
