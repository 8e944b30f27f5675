"""How experiments look in a terminal: progress by method on stderr, tables on stdout."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from aaggff.experiments.compare import Heard
from aaggff.experiments.jobs import Job, Outcome
from aaggff.experiments.tables import Sheet

WIDTH = 100
"""What a table is made for where there is no terminal to ask."""


def console(*, err: bool = False) -> Console:
    """Plain text of a fixed width unless a person is watching."""
    stream = sys.stderr if err else sys.stdout
    width = None if stream.isatty() else WIDTH
    return Console(stderr=err, width=width, highlight=False, soft_wrap=False)


def show(sheets: Sequence[Sheet]) -> None:
    """Draw tables, each with its notes below."""
    out = console()
    for index, sheet in enumerate(sheets):
        if index:
            out.print()
        out.print(Text(sheet.title, style="bold"))
        out.print(drawn(sheet))
        for note in sheet.notes:
            out.print(Text(note, style="dim"))


def drawn(sheet: Sheet) -> Table:
    """A table of numbers: what is small stands beside the number, or below a change."""
    gap = 1 if sheet.below else 2
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    table.add_column("method", no_wrap=True)
    for name in sheet.columns:
        table.add_column(name, justify="right", no_wrap=True)
    for label, cells in sheet.rows:
        table.add_row(Text(label.replace(":", ":\n  ")), *(_drawn_cell(c, sheet) for c in cells))
    return table


def _drawn_cell(cell: Any, sheet: Sheet) -> Text:
    text = Text(cell.text, style="bold" if cell.mark else "")
    if sheet.below:
        text.append("\n" + cell.small, style="not bold dim")
    elif cell.small:
        text.append("*" if cell.mark else " ", style="bold")
        text.append(f"±{cell.small}", style="not bold dim")
    return text


class Watch:
    """Progress by method: bars for a person, a line per finished method for a file.

    Used as `with Watch() as heard`, where `heard` is what an experiment tells.
    """

    def __init__(self) -> None:
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
        self.rounds: dict[tuple[str, int], int] = {}
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
        self.runs.update(job.label for job in planned)
        widest = max(len(label) for label in self.runs)
        for job in planned:
            if job.label not in self.tasks:
                total = sum(j.config.rounds for j in planned if j.label == job.label)
                self.tasks[job.label] = self.bars.add_task(
                    job.label.ljust(widest), total=total, seeds=self._seeds(job.label)
                )

    def _at(self, job: Job, round: int) -> None:
        self.rounds[job.label, job.seed] = round
        self._draw(job.label)

    def _done(self, job: Job, outcome: Outcome, was_there: bool) -> None:
        self.rounds[job.label, job.seed] = job.config.rounds
        self.done[job.label] += 1
        self.reused += was_there
        self._draw(job.label)
        if not self.live and not was_there and self.done[job.label] == self.runs[job.label]:
            self.console.print(f"{job.label}: {self._seeds(job.label)}")

    def _draw(self, label: str) -> None:
        rounds = sum(done for (name, _), done in self.rounds.items() if name == label)
        self.bars.update(self.tasks[label], completed=rounds, seeds=self._seeds(label))

    def _seeds(self, label: str) -> str:
        runs = self.runs[label]
        return f"{self.done[label]}/{runs} seed{'s' if runs > 1 else ''}"
