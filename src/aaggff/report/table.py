"""The tables of the page: results over seeds, paired differences, every client's numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aaggff.experiments.statistics import Difference, paired, pairs_needed
from aaggff.experiments.tables import number, signed
from aaggff.report.collect import Floats
from aaggff.report.groups import Group

# Heading, where a round's record holds it, digits, what it means.
COLUMNS = (
    ("avg", ("metric", "avg"), 2, "average over clients, weighted by test-set size"),
    ("worst 10 %", ("metric", "worst"), 2, "mean over the worst tenth of clients"),
    ("best 10 %", ("metric", "best"), 2, "mean over the best tenth of clients"),
    ("Gini", ("metric", "gini"), 2, "Gini coefficient over clients x 100: 0 is equal"),
    ("gap", ("metric", "gap"), 2, "best client less worst client"),
    ("test loss", ("loss", "avg"), 3, "average test loss, weighted by test-set size"),
    ("worst loss", ("loss", "worst_client"), 3, "test loss of the worst client"),
)
LEVEL = 0.05
REFERENCES = {"fedavg": "FedAvg", "uniform": "uniform weights"}

Values = Mapping[str, Mapping[str, Mapping[int, float]]]
"""By column, method and seed."""


@dataclass(frozen=True)
class Column:
    name: str
    help: str = ""


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
    heading: str = ""
    first: str = "method"


@dataclass(frozen=True)
class Tests:
    """The paired tests that `aaggff compare` makes, over the seeds that every method has."""

    references: list[str]
    found: dict[str, dict[str, dict[str, Difference]]]
    """By reference, column and method."""
    seeds: int
    count: int
    """How many tests Holm's correction runs over: all of them, so that the chance of one false
    mark anywhere is 5 %."""


def tables(groups: Sequence[Group]) -> list[Table]:
    """The results, and what changes against each reference, seed by seed."""
    values = {
        name: {group.label: group.final(*path) for group in groups} for name, path, *_ in COLUMNS
    }
    tests = _tests({name: by_label for name, by_label in values.items() if any(by_label.values())})
    made = [_results(groups, values, tests)]
    if tests.seeds > 1:
        made += [_changes(groups, tests, reference) for reference in tests.references]
    return [each for each in made if each.rows]


def _tests(values: Values) -> Tests:
    nothing = Tests([], {}, 0, 0)
    have = [
        set(by_seed) for by_label in values.values() for by_seed in by_label.values() if by_seed
    ]
    order = sorted(set.intersection(*have)) if have else []
    labels = {label for by_label in values.values() for label, v in by_label.items() if v}
    references = [name for name in REFERENCES if name in labels and len(labels) > 1]
    if not order or not references:
        return nothing
    aligned = {
        name: {label: [v[seed] for seed in order] for label, v in by_label.items() if v}
        for name, by_label in values.items()
        if all(by_label.get(reference) for reference in references)
    }
    found = paired(aligned, references)
    pairs = [
        {reference, label}
        for reference in references
        for by_label in aligned.values()
        for label in by_label
        if label != reference
    ]
    both = sum(set(references) == pair for pair in pairs)  # two references are tested once
    return Tests(references, found, len(order), len(pairs) - both // 2)


def _results(groups: Sequence[Group], values: Values, tests: Tests) -> Table:
    against = tests.found.get(tests.references[0], {}) if tests.references else {}
    columns, cells = [], []
    for name, _, digits, meaning in COLUMNS:
        by_label = values[name]
        if not any(by_label.values()):
            continue
        columns.append(Column(name, meaning))
        marked = {label for label, d in against.get(name, {}).items() if d.significant(LEVEL)}
        cells.append(
            [_cell(list(by_label[g.label].values()), digits, g.label in marked) for g in groups]
        )
    rows = [Row(g.key, g.label, [column[i] for column in cells]) for i, g in enumerate(groups)]
    return Table(columns, rows, _caption(groups, tests))


def _cell(values: list[float], digits: int, mark: bool) -> Cell:
    there: Floats = np.array([v for v in values if math.isfinite(v)])
    if not there.size:
        return Cell("none", value="nan")
    mean = float(there.mean())
    deviation = f"± {number(float(there.std(ddof=1)), digits)}" if there.size > 1 else ""
    return Cell(number(mean, digits), deviation, f"{mean:.6g}", mark)


def _changes(groups: Sequence[Group], tests: Tests, reference: str) -> Table:
    """Every method less a reference; two references are shown together once."""
    found = tests.found[reference]
    before = tests.references[: tests.references.index(reference)]
    kept = [column for column in COLUMNS if column[0] in found]
    rows = []
    for group in groups:
        if group.label in (reference, *before):
            continue
        differences = [found[name].get(group.label) for name, *_ in kept]
        cells = [_change(d, digits) for d, (_, _, digits, _) in zip(differences, kept, strict=True)]
        rows.append(Row(group.key, group.label, cells))
    return Table(
        [Column(name, meaning) for name, _, _, meaning in kept],
        rows,
        f"Mean difference over {tests.seeds} seeds, its 95 % interval, and p after Holm's "
        f"correction over all {tests.count} tests of this page where it is below {LEVEL:g}.",
        f"Less {REFERENCES[reference]}, seed by seed",
    )


def _change(difference: Difference | None, digits: int) -> Cell:
    if difference is None or not math.isfinite(difference.mean):
        return Cell("none", value="nan")
    mark = difference.significant(LEVEL)
    small = f"{signed(difference.low, digits)} to {signed(difference.high, digits)}"
    p = f", p {difference.corrected:.0e}".replace("e-0", "e-") if mark else ""
    return Cell(signed(difference.mean, digits), small + p, f"{difference.mean:.6g}", mark)


def _caption(groups: Sequence[Group], tests: Tests) -> str:
    several = max(len(group.runs) for group in groups)
    text = f"Mean and standard deviation over {several} seed{'s' if several > 1 else ''}."
    if not tests.count:
        return text
    reference = REFERENCES[tests.references[0]]
    needed = pairs_needed(tests.count, LEVEL)
    if tests.seeds < needed:
        return (
            f"{text} With {tests.seeds} seed{'s' if tests.seeds > 1 else ''} no difference from "
            f"{reference} can be significant (Wilcoxon's test with Holm's correction over "
            f"{tests.count} tests); {needed} seeds could show one."
        )
    return (
        f"{text} * differs from {reference} seed by seed (Wilcoxon's signed-rank test, Holm's "
        f"correction over {tests.count} tests, level {LEVEL:g}, {tests.seeds} seeds)."
    )


def each_client(groups: Sequence[Group], measure: str, title: str, most: int) -> Table | None:
    """Every client's final value by method, where the clients are few enough to be read."""
    found = [(group, v) for group in groups if (v := group.clients(measure)) is not None]
    clients = max((len(v) for _, v in found), default=0)
    if not 0 < clients <= most:
        return None
    names = next((run.names() for group, _ in found for run in group.runs if run.names()), [])
    digits = 3 if measure == "loss" else 2
    rows = []
    for i in range(clients):
        cells = [_cell([float(v[i])] if i < len(v) else [], digits, False) for _, v in found]
        rows.append(Row("", names[i] if i < len(names) else f"client {i}", cells))
    columns = [Column(group.label) for group, _ in found]
    return Table(columns, rows, "Averages over seeds.", f"Every client's {title}", "client")
