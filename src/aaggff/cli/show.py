"""How experiments look in a terminal: progress by method on stderr, tables on stdout."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from aaggff.experiments import tables
from aaggff.experiments.compare import Heard
from aaggff.experiments.jobs import Failed, Job, Outcome
from aaggff.experiments.tables import Cell, Sheet

WIDTH = 100
"""What a table is made for where there is no terminal to ask."""


def console(*, err: bool = False) -> Console:
    """Plain text of a fixed width unless a person is watching."""
    stream = sys.stderr if err else sys.stdout
    width = None if stream.isatty() else WIDTH
    return Console(stderr=err, width=width, highlight=False, soft_wrap=False)


def print_sheets(sheets: Sequence[Sheet], *, latex: bool = False, markdown: bool = False) -> bool:
    """To stdout as asked; True if that was for people, who may be told more."""
    if latex or markdown:
        written = tables.latex if latex else tables.markdown
        typer.echo("\n".join(map(written, sheets)), nl=False)
        return False
    show(sheets)
    return True


def show(sheets: Sequence[Sheet]) -> None:
    """Draw tables, each with its notes below."""
    out = console()
    for index, sheet in enumerate(sheets):
        if index:
            out.print()
        out.print(Text(sheet.title, style="bold"))
        out.print(fitted(sheet, out.width))
        for note in sheet.notes:
            out.print(Text(note, style="dim"))


def fitted(sheet: Sheet, width: int) -> Table:
    """The widest form of a table that fits; columns that do not fit even so are cut by rich."""
    plain = Console(width=10 * width)
    forms = [(False, sheet.below, False), (True, sheet.below, False)]
    for folded, below, split in [*forms, (True, True, False), (True, True, True)]:
        table = drawn(sheet, folded=folded, below=below, split=split)
        if plain.measure(table).maximum <= width:
            break
    return table


def drawn(sheet: Sheet, *, folded: bool = False, below: bool = False, split: bool = False) -> Table:
    """A table of numbers; what is small stands beside the number, or below it.

    folded: options stand below their method's name. split: the ends of an interval stand below
    each other.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 1 if below else 2, 0, 0))
    table.header_style = "bold"
    table.add_column("method", no_wrap=True)
    for name in sheet.columns:
        table.add_column(name, justify="right", no_wrap=True)
    for label, cells in sheet.rows:
        name = label.replace(":", ":\n  ") if folded else label
        table.add_row(Text(name), *(_drawn_cell(cell, sheet, below, split) for cell in cells))
    return table


def _drawn_cell(cell: Cell, sheet: Sheet, below: bool, split: bool) -> Text:
    text = Text(cell.text, style="bold" if cell.mark else "")
    star = "" if sheet.below else "*" if cell.mark else " "
    text.append(star, style="bold")
    if cell.small:
        small = cell.small if sheet.below else f"±{cell.small}"
        small = small.replace(" ", "\n") if split else small
        text.append(f"\n{small}" if below else small, style="not bold dim")
    return text


class Watch:
    """Progress by method: bars for a person, a line per finished method for a file.

    Used as `with Watch() as heard`, where `heard` is what an experiment tells. `by` names the
    line a run is counted in; an experiment may plan several times over.
    """

    def __init__(
        self, by: Callable[[Job], str] = lambda job: job.label, unit: str = "seed"
    ) -> None:
        self.by, self.unit = by, unit
        self.console = console(err=True)
        self.live = self.console.is_terminal
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[seeds]}"),
            TimeRemainingColumn(compact=True),
            console=self.console,
            transient=True,
            disable=not self.live,
        )
        self.tasks: dict[str, TaskID] = {}
        self.rounds: dict[tuple[str, int, int | None], int] = {}
        self.drawn: Counter[str] = Counter()
        self.runs: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.reused = 0

    def __enter__(self) -> Heard:
        self.bars.start()
        return Heard(self._planned, self._at, self._done)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.bars.stop()
        if kind is KeyboardInterrupt:
            self.console.print("stopped; the same command goes on from here")
            raise typer.Exit(130)
        if kind is None and self.reused:
            were = "was" if self.reused == 1 else "were"
            total = sum(self.runs.values())
            self.console.print(f"{self.reused} of {total} runs {were} there already", style="dim")

    def _planned(self, planned: list[Job]) -> None:
        self.runs.update(self.by(job) for job in planned)
        widest = max(len(line) for line in self.runs)
        totals: Counter[str] = Counter()
        for job in planned:
            totals[self.by(job)] += job.until or job.config.rounds
        for line, total in totals.items():
            if line not in self.tasks:
                self.tasks[line] = self.bars.add_task(
                    line.ljust(widest), total=0, seeds=self._runs(line)
                )
            before = self.bars.tasks[self.tasks[line]].total or 0
            self.bars.update(self.tasks[line], total=before + total)

    def _at(self, job: Job, round: int) -> None:
        self._draw(job, round)

    def _done(self, job: Job, outcome: Outcome | Failed, was_there: bool) -> None:
        line = self.by(job)
        self.done[line] += 1
        self.reused += was_there
        self._draw(job, job.until or job.config.rounds)
        if not self.live and not was_there and self.done[line] == self.runs[line]:
            self.console.print(f"{line}: {self._runs(line)}")

    def _draw(self, job: Job, round: int) -> None:
        line, which = self.by(job), (job.label, job.seed, job.until)
        self.drawn[line] += round - self.rounds.get(which, 0)
        self.rounds[which] = round
        self.bars.update(self.tasks[line], completed=self.drawn[line], seeds=self._runs(line))

    def _runs(self, line: str) -> str:
        runs = self.runs[line]
        return f"{self.done[line]}/{runs} {self.unit}{'s' if runs > 1 else ''}"
