"""A frontier in print: which method is best at which average, and how much each one dominates."""

from __future__ import annotations

from collections.abc import Iterator

from aaggff.experiments.frontier import Frontier
from aaggff.experiments.tables import METRICS, Cell, Sheet, mean_cell

SOURCES = ("metric", "loss")


def sheets(frontier: Frontier) -> list[Sheet]:
    """All points; the best of them by metric and by loss; the hypervolumes."""
    found = [_points(frontier)]
    if len(frontier.points) > 1:
        found += [_best(frontier, source) for source in SOURCES]
        found.append(_volumes(frontier))
    return found


def _points(frontier: Frontier) -> Sheet:
    best = {source: {index for index, _ in frontier.best(source)} for source in SOURCES}
    rows = []
    for index, point in enumerate(frontier.points):
        cells = []
        for source, digits in (("metric", 2), ("loss", 3)):
            cells += [
                mean_cell(point.values(source, "avg"), digits, index in best[source]),
                mean_cell(point.values(source, "worst"), digits, index in best[source]),
            ]
        rows.append((point.label, cells))
    count = len(frontier.seeds)
    return Sheet(
        f"{frontier.dataset}: {METRICS[frontier.metric]} in per cent and loss after "
        f"{frontier.rounds} rounds, {count} seed{'s' if count > 1 else ''}",
        ["avg", "worst 10 %", "loss", "worst 10 % loss"],
        rows,
        list(_notes(frontier)),
    )


def _notes(frontier: Frontier) -> Iterator[str]:
    if frontier.stand_in:
        yield "STAND-IN DATA: a likeness; its numbers say nothing about the real data set."
    yield "* on the frontier: no other point is as good on both and better on one, in the mean."
    yield from frontier.notes


def _best(frontier: Frontier, source: str) -> Sheet:
    what = METRICS[frontier.metric] if source == "metric" else "loss"
    digits = 2 if source == "metric" else 3
    few = len(frontier.seeds) < 2
    rows = []
    for index, share in frontier.best(source):
        point = frontier.points[index]
        cells = [mean_cell(point.values(source, entry), digits) for entry in ("avg", "worst")]
        cells.append(Cell("one seed" if few else f"{100 * share:.0f} %"))
        rows.append((point.label, cells))
    compared = "at most" if source == "loss" else "at least"
    return Sheet(
        f"Who is best where, by {what}",
        [f"avg {compared}", "worst 10 %", "stays"],
        rows,
        [
            "The best for the worst tenth of clients among those whose average is as good or "
            "better. stays: in how many resamples of the seeds it is still on the frontier."
        ],
    )


def _volumes(frontier: Frontier) -> Sheet:
    few = len(frontier.seeds) < 2
    columns: list[str] = []
    rows: dict[str, list[Cell]] = {}
    for source, title in (("metric", "area"), ("loss", "area, loss")):
        columns += [title, "95 % interval", "largest"]
        digits = 2 if source == "metric" else 4
        for line, volume in frontier.volumes(source).items():
            cells = [Cell(f"{volume.area:.{digits}f}")]
            if few:
                cells += [Cell("one seed"), Cell("one seed")]
            else:
                cells.append(Cell(f"{volume.low:.{digits}f} to {volume.high:.{digits}f}"))
                cells.append(Cell(f"{100 * volume.largest:.0f} %"))
            rows.setdefault(line, []).extend(cells)
    return Sheet(
        "Hypervolume: the area that a method's points dominate",
        columns,
        list(rows.items()),
        [
            "Measured from the worst average and the worst 10 % among all points, so it grows with "
            "the points shown. largest: in how many resamples of the seeds no area is larger."
        ],
    )
