"""Ours beside the paper's numbers, in print."""

from __future__ import annotations

import math
from collections.abc import Iterator

from aaggff.experiments.compare import MEASURES
from aaggff.experiments.objective import BY_KEY
from aaggff.experiments.reproduce import BASES, TITLES, Found, NotRun
from aaggff.experiments.statistics import paired
from aaggff.experiments.tables import (
    METRICS,
    Cell,
    Sheet,
    change_cell,
    few_seeds,
    mean_cell,
    signed,
)

FAR = 2.0
"""Deviations apart from which on a number is marked."""


def sheets(found: Found) -> list[Sheet]:
    """The block, and for table 6 what AAggFF changes."""
    made = [_beside(found)]
    if found.block.table == "plug-and-play" and len(found.seeds) > 1:
        made.append(_with_and_without(found))
    return made


def _beside(found: Found) -> Sheet:
    block = found.block
    figure = block.table == "cdf-figure"
    smallest = _smallest(found) if figure else ""
    rows = []
    for row, outcomes in found.outcomes.items():
        cells = [mean_cell(found.ours(row, c), BY_KEY[c].digits) for c in block.columns]
        if figure:
            sums = [outcome.objective for outcome in outcomes]
            cells.insert(0, mean_cell(sums, 3, row == smallest))
        rows.append((row, cells))
        printed = block.rows.get(row)
        if printed:
            gap = [Cell("")] if figure else []
            theirs = [_theirs(printed.get(column)) for column in block.columns]
            rows.append(("  paper", gap + theirs))
            rows.append(("  apart", gap + [_apart(found.apart(row, c)) for c in block.columns]))
    count = len(found.seeds)
    seeds = "1 seed" if count == 1 else f"{count} seeds"
    return Sheet(
        f"{block.dataset} ({TITLES[block.table]}): {METRICS[found.metric]} in per cent, "
        f"{found.rounds} round{'s' * (found.rounds != 1)}, {seeds}",
        [*(["objective"] if figure else []), *(BY_KEY[column].title for column in block.columns)],
        rows,
        list(_notes(found, smallest)),
    )


def _theirs(printed: tuple[float, float | None] | None) -> Cell:
    if printed is None:
        return Cell("")
    mean, deviation = printed
    return Cell(f"{mean:.2f}", "" if deviation is None else f"{deviation:.2f}")


def _apart(value: float) -> Cell:
    if not math.isfinite(value):
        return Cell("none")
    return Cell(f"{signed(value, 1)} sd", mark=abs(value) > FAR)


def _smallest(found: Found) -> str:
    sums = {row: math.fsum(each.objective for each in of) for row, of in found.outcomes.items()}
    return min(sums, key=lambda row: sums[row])


def _notes(found: Found, smallest: str) -> Iterator[str]:
    block = found.block
    if found.stand_in:
        yield "STAND-IN DATA: a likeness; its numbers say nothing about the real data set."
    yield from (note for note in found.notes if note.startswith("PARTIAL"))
    distances = [found.apart(row, c) for row in block.rows for c in block.columns]
    known = [abs(each) for each in distances if math.isfinite(each)]
    if known:
        near = sum(each <= 1 for each in known)
        far = sum(each > FAR for each in known)
        yield (
            f"{near} of {len(known)} numbers lie within one standard deviation of the paper's, "
            f"{far} (*) further than two. apart: ours less the paper's over the root of the mean "
            "of both variances."
        )
    if smallest:
        yield (
            f"objective: the sum over rounds of the clients' losses weighted by p. The smallest "
            f"is {smallest}'s here (*) and {block.smallest}'s in the paper."
        )
    if "gap" in block.columns:
        yield "gap: best less worst 10 % of the clients, as the paper prints Delta AG."
    for limit in block.limits:
        yield f"Of the paper's numbers: {limit}"
    yield from (note for note in found.notes if not note.startswith("PARTIAL"))


def _with_and_without(found: Found) -> Sheet:
    """What AAggFF changes under each server optimiser, paired by seed, corrected together."""
    measures = [m for m in MEASURES if m.key in ("avg", "worst", "loss_avg", "loss_worst")]
    columns = {}
    for base in BASES:
        for measure in measures:
            columns[f"{base} {measure.key}"] = {
                which: [getattr(o, measure.source)[measure.entry] for o in found.outcomes[row]]
                for which, row in (("plain", base), ("aaggff", f"{base}+aaggff"))
            }
    differences = paired(columns, ["plain"])["plain"]
    rows = []
    for base in BASES:
        cells = [change_cell(differences[f"{base} {m.key}"]["aaggff"], m) for m in measures]
        rows.append((base, cells))
        plain, fair = found.block.rows[base], found.block.rows[f"{base}+aaggff"]
        theirs = {column: fair[column][0] - plain[column][0] for column in plain}
        shown = [signed(theirs[m.key], 2) if m.key in theirs else "" for m in measures]
        rows.append(("  paper", list(map(Cell, shown))))
    return Sheet(
        "What AAggFF changes, seed by seed: mean difference, 95 % interval, corrected p if below "
        "0.05",
        [measure.title for measure in measures],
        rows,
        list(few_seeds(len(found.seeds), len(columns))),
        below=True,
    )


def not_run(missing: NotRun) -> str:
    """One plain line."""
    return f"{missing.block.dataset}: not run. {missing.why}"
