"""The table of results: mean and deviation over seeds, and what differs from FedAvg."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aaggff.experiments.statistics import paired, pairs_needed
from aaggff.report.collect import Floats
from aaggff.report.groups import Group

# Heading, where a round's record holds it, what it means.
COLUMNS = (
    ("avg", ("metric", "avg"), "average over clients, weighted by test-set size"),
    ("worst 10 %", ("metric", "worst"), "mean over the worst tenth of clients"),
    ("best 10 %", ("metric", "best"), "mean over the best tenth of clients"),
    ("Gini", ("metric", "gini"), "Gini coefficient over clients x 100: 0 is equal"),
    ("gap", ("metric", "gap"), "best client less worst client"),
    ("test loss", ("loss", "avg"), "average test loss, weighted by test-set size"),
    ("worst loss", ("loss", "worst_client"), "test loss of the worst client"),
)
LEVEL = 0.05
REFERENCE = "fedavg"


@dataclass(frozen=True)
class Column:
    name: str
    help: str


@dataclass(frozen=True)
class Cell:
    text: str
    small: str = ""
    value: str = ""
    mark: bool = False


@dataclass(frozen=True)
class Row:
    key: str
    label: str
    cells: list[Cell]


@dataclass(frozen=True)
class Table:
    columns: list[Column]
    rows: list[Row]
    caption: str


def table(groups: Sequence[Group]) -> Table:
    """One row per method, one column per measure; marks only what is significant against FedAvg."""
    values = {
        name: {group.label: group.final(*path) for group in groups} for name, path, _ in COLUMNS
    }
    marks, seeds = _significant(values)
    columns, cells = [], []
    for name, _, meaning in COLUMNS:
        by_label = values[name]
        if not any(by_label.values()):
            continue
        columns.append(Column(name, meaning))
        cells.append(
            [_cell(list(by_label[g.label].values()), (name, g.label) in marks) for g in groups]
        )
    rows = [
        Row(group.key, group.label, [column[i] for column in cells])
        for i, group in enumerate(groups)
    ]
    return Table(columns, rows, _caption(groups, seeds, tests=len(columns) * (len(groups) - 1)))


def _significant(
    values: Mapping[str, Mapping[str, Mapping[int, float]]],
) -> tuple[set[tuple[str, str]], int]:
    """Which methods differ from FedAvg in which measure, and over how many seeds that was asked.

    Holm's correction runs over the whole table: the chance of one false mark anywhere is 5 %.
    """
    seeds: set[int] | None = None
    for by_label in values.values():
        for by_seed in by_label.values():
            if by_seed:
                seeds = set(by_seed) if seeds is None else seeds & set(by_seed)
    if not seeds:
        return set(), 0
    order = sorted(seeds)
    aligned = {
        name: {
            label: np.array([by_seed[seed] for seed in order])
            for label, by_seed in by_label.items()
            if by_seed
        }
        for name, by_label in values.items()
        if by_label.get(REFERENCE)
    }
    if not aligned:
        return set(), 0
    found = paired(aligned, [REFERENCE])[REFERENCE]
    marks = {
        (name, label)
        for name, differences in found.items()
        for label, difference in differences.items()
        if difference.significant(LEVEL)
    }
    return marks, len(order)


def _cell(values: list[float], mark: bool) -> Cell:
    there: Floats = np.array([v for v in values if math.isfinite(v)])
    if not there.size:
        return Cell("none", value="nan")
    mean = float(there.mean())
    deviation = f"± {there.std(ddof=1):.2f}" if there.size > 1 else ""
    return Cell(f"{mean:.2f}", deviation, f"{mean:.6g}", mark)


def _caption(groups: Sequence[Group], seeds: int, tests: int) -> str:
    several = max(len(group.runs) for group in groups)
    text = f"Mean and standard deviation over {several} seed{'s' if several > 1 else ''}."
    if not seeds or not tests:
        return text
    needed = pairs_needed(tests, LEVEL)
    if seeds < needed:
        return (
            f"{text} With {seeds} seed{'s' if seeds > 1 else ''} no difference from FedAvg can be "
            f"significant (Wilcoxon's test with Holm's correction over {tests} tests); "
            f"{needed} seeds could show one."
        )
    return (
        f"{text} * differs from FedAvg seed by seed (Wilcoxon's signed-rank test, Holm's "
        f"correction over {tests} tests, level {LEVEL:g}, {seeds} seeds)."
    )
