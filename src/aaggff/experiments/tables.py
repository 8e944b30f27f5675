"""A comparison in print: the paper's layout, differences seed by seed, other programs' formats."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from aaggff.experiments.compare import MEASURES, Comparison, Measure
from aaggff.experiments.statistics import Difference, pairs_needed, smallest_p

LEVEL = 0.05
FEW = 6
"""With fewer seeds than this no interval made of their differences reaches 95 %: 1 - 2^(1-n)."""
NAMES = {"fedavg": "FedAvg", "uniform": "uniform weights"}
METRICS = {"auroc": "AUROC", "top1": "top-1 accuracy", "top5": "top-5 accuracy"}


@dataclass(frozen=True)
class Cell:
    """A number, what stands small beside or below it, and whether it is marked as significant."""

    text: str
    small: str = ""
    mark: bool = False


@dataclass(frozen=True)
class Sheet:
    """A table before it is drawn."""

    title: str
    columns: list[str]
    rows: list[tuple[str, list[Cell]]]
    notes: list[str] = field(default_factory=list)
    below: bool = False
    """Whether small print stands below the number; else beside it, as a deviation."""


def sheets(comparison: Comparison) -> list[Sheet]:
    """The results, and one table of differences for each reference."""
    differences = comparison.differences()
    return [
        results(comparison, differences),
        *(changes(comparison, differences, reference) for reference in comparison.references),
    ]


def results(comparison: Comparison, differences: Differences) -> Sheet:
    """Mean and deviation over seeds; marked where the difference from FedAvg is significant."""
    reference = comparison.references[0] if comparison.references else ""
    against = differences.get(reference, {})
    columns = [comparison.values(measure) for measure in MEASURES]
    rows = []
    for label in comparison.outcomes:
        cells = []
        for measure, column in zip(MEASURES, columns, strict=True):
            found = against.get(measure.key, {}).get(label)
            marked = found is not None and found.significant(LEVEL)
            cells.append(mean_cell(column[label], measure.digits, marked))
        rows.append((label, cells))
    return Sheet(
        f"{comparison.dataset}: {METRICS[comparison.metric]} in per cent after "
        f"{comparison.rounds} rounds, {_seeds(len(comparison.seeds))}",
        [measure.title for measure in MEASURES],
        rows,
        list(_notes(comparison, reference)),
    )


def mean_cell(values: Sequence[float], digits: int, marked: bool = False) -> Cell:
    """Mean and deviation (n - 1) of what is there."""
    there = np.array([value for value in values if math.isfinite(value)])
    if not there.size:
        return Cell("none")
    small = number(float(there.std(ddof=1)), digits) if there.size > 1 else ""
    return Cell(number(float(there.mean()), digits), small, marked)


def number(value: float, digits: int) -> str:
    """With so many digits behind the point; what has diverged, in a few digits.

    >>> number(0.5, 3), number(1.2345e9, 3)
    ('0.500', '1.23e+09')
    """
    return f"{value:.{digits}f}" if abs(value) < 1e6 else f"{value:.3g}"


def _seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"mean and deviation over {count} seeds"


def _notes(comparison: Comparison, reference: str) -> Iterator[str]:
    if comparison.stand_in:
        yield "STAND-IN DATA: a likeness; its numbers say nothing about the real data set."
    yield (
        "avg: over clients, by test-set size. worst, best: the worst and best tenth of clients (at "
        "least one). Gini: x 100. gap: best client less worst. loss: on test parts; worst loss: "
        "one client's."
    )
    yield from comparison.notes
    if not reference:
        if len(comparison.outcomes) > 1:
            yield "Add fedavg or uniform to the methods to see differences and their intervals."
        return
    seeds, tests = len(comparison.seeds), comparison.tests()
    yield from few_seeds(seeds, tests)
    if seeds >= pairs_needed(tests, LEVEL):
        yield (
            f"* differs from {NAMES[reference]} (Wilcoxon's signed-rank test over {seeds} seeds, "
            f"Holm's correction for all {tests} tests below, level {LEVEL:g})."
        )


def few_seeds(seeds: int, tests: int) -> Iterator[str]:
    """What so few seeds cannot say, if they are few."""
    if 1 < seeds < FEW:
        yield (
            f"With {seeds} seeds an interval is the range of the differences, and holds the true "
            f"mean {100 * (1 - smallest_p(seeds)):.0f} times in 100, not 95."
        )
    needed = pairs_needed(tests, LEVEL)
    if seeds < needed:
        yield (
            f"Nothing is marked: with {seeds} seed{'s' if seeds > 1 else ''} no difference can be "
            f"significant. Wilcoxon's smallest p is {smallest_p(seeds):.2g}, before Holm's "
            f"correction for {tests} tests; {needed} seeds could show one."
        )


Differences = dict[str, dict[str, dict[str, Difference]]]
"""`[reference][measure][method]`, as `Comparison.differences` returns it."""


def changes(comparison: Comparison, differences: Differences, reference: str) -> Sheet:
    """Every method less a reference, seed by seed: mean, 95 % interval, p where significant."""
    before = comparison.references[: comparison.references.index(reference)]
    measures = [measure for measure in MEASURES if measure.key != "best"]  # a page is so wide
    rows = []
    for label in comparison.outcomes:
        if label != reference and label not in before:  # two references are shown together once
            found = [differences[reference][measure.key][label] for measure in measures]
            rows.append((label, [change_cell(d, m) for d, m in zip(found, measures, strict=True)]))
    return Sheet(
        f"Less {NAMES[reference]}, seed by seed: mean difference, 95 % interval, corrected p if "
        f"below {LEVEL:g}",
        [measure.title for measure in measures],
        rows,
        below=True,
    )


def change_cell(difference: Difference, measure: Measure) -> Cell:
    """A difference, its interval, and its corrected p where that is small."""
    if not math.isfinite(difference.mean):
        return Cell("none")
    digits = measure.digits
    small = ""
    if math.isfinite(difference.low):
        small = f"{signed(difference.low, digits)} {signed(difference.high, digits)}"
    significant = difference.significant(LEVEL)
    text = signed(difference.mean, digits)
    if significant:
        text += f" p {difference.corrected:.0e}".replace("e-0", "e-")
    return Cell(text, small, significant)


def signed(value: float, digits: int) -> str:
    """With its sign, but no sign on a zero.

    >>> signed(0.126, 2), signed(-0.001, 2), signed(-1.0, 1)
    ('+0.13', '0.00', '-1.0')
    """
    text = number(value, digits)
    if float(text) == 0.0:
        return text.removeprefix("-")
    return text if value < 0 else f"+{text}"


def markdown(sheet: Sheet) -> str:
    """For a README or an issue."""
    lines = [f"**{sheet.title}**", "", "| method | " + " | ".join(sheet.columns) + " |"]
    lines.append("|---|" + "---:|" * len(sheet.columns))
    for label, cells in sheet.rows:
        lines.append(f"| {label} | " + " | ".join(map(_markdown_cell, cells)) + " |")
    return "\n".join(lines + [""] + [f"{note}  " for note in sheet.notes]).rstrip() + "\n"


def _markdown_cell(cell: Cell) -> str:
    star = r"\*" if cell.mark and " p " not in cell.text else ""
    return f"{cell.text}{star} ({cell.small})" if cell.small else f"{cell.text}{star}"


def latex(sheet: Sheet) -> str:
    """For a paper, with booktabs."""
    lines = [f"% {sheet.title}", r"\begin{tabular}{l" + "r" * len(sheet.columns) + "}", r"\toprule"]
    lines.append(" & ".join(["method", *sheet.columns]) + r" \\")
    lines.append(r"\midrule")
    for label, cells in sheet.rows:
        shown = [rf"\texttt{{{_escaped(label)}}}", *map(_latex_cell, cells)]
        lines.append(" & ".join(shown) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    return "\n".join(lines + [f"% {note}" for note in sheet.notes]) + "\n"


def _latex_cell(cell: Cell) -> str:
    number, _, p = cell.text.partition(" p ")
    text = f"${number}$" if number[0] in "+-" else number
    star = "$^{*}$" if cell.mark else ""
    small = rf" {{\scriptsize ({cell.small.replace(' ', ', ')})}}" if cell.small else ""
    return f"{text}{star}{small}" + (rf" {{\scriptsize $p={p}$}}" if p else "")


def _escaped(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "_%&#$" else letter for letter in text)


def as_csv(comparison: Comparison) -> str:
    """One line per method and measure, with everything the tests found, unrounded."""
    differences = comparison.differences()
    told = ("difference", "low", "high", "p", "p_holm")
    head = ["method", "measure", "seeds", "mean", "deviation"]
    head += [f"vs_{reference}_{each}" for reference in comparison.references for each in told]
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(head)
    for label in comparison.outcomes:
        for measure in MEASURES:
            values = np.array(comparison.values(measure)[label])
            values = values[np.isfinite(values)]
            mean = float(values.mean()) if values.size else math.nan
            deviation = float(values.std(ddof=1)) if values.size > 1 else math.nan
            row: list[object] = [label, measure.key, values.size, mean, deviation]
            for reference in comparison.references:
                d = differences[reference][measure.key].get(label)
                row += [""] * 5 if d is None else [d.mean, d.low, d.high, d.p, d.corrected]
            writer.writerow(["" if each != each else each for each in row])
    return written.getvalue()
