"""What one sees while a federation trains: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from aaggff.federation.callbacks import Callback

REFRESH = 0.1
"""Seconds between redraws at least: showing must not cost what training needs."""
QUIET = 30.0
"""Off a terminal, seconds after which a line is due even without an evaluation."""

METRICS = {"auroc": "AUROC", "top1": "top-1", "top5": "top-5"}


class Progress(Callback):
    """Follows a run of `rounds` rounds and shows where it stands, at most ten times a second."""

    def __init__(
        self, console: Console, rounds: int, *, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.console, self.rounds, self.clock = console, rounds, clock
        self.began = self.shown = clock()
        self.first: int | None = None
        self.latest: dict[str, Any] = {}
        self.when = self.measured = ""
        self._live: Live | None = None

    def start(self) -> None:
        """Show from now on."""
        if self.console.is_terminal and not self.console.is_dumb_terminal:
            self._live = Live(
                Text("loading data ..."),
                console=self.console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start(refresh=True)

    def stop(self) -> None:
        """Leave the terminal as it was."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def on_round(self, federation: Any, record: dict[str, Any]) -> None:
        now = self.clock()
        if self.first is None:
            # The first round has no duration of its own: what came before it was loading.
            self.first, self.began = record["round"], now
        self.latest = record
        if "metric" in record:
            self.measured = _measured(federation.data.task.metric, record)
            self.when = f"test after round {record['round']}:"
        if self._live is not None:
            if now - self.shown >= REFRESH or record["round"] == self.rounds:
                self.shown = now
                self._live.update(self._drawn(federation, now), refresh=True)
        elif "metric" in record or now - self.shown >= QUIET:
            self.shown = now
            self.console.print(self._line(federation, now), highlight=False, soft_wrap=True)

    def on_end(self, federation: Any) -> None:
        self.stop()

    def _drawn(self, federation: Any, now: float) -> Group:
        """Lines that are cut at the edge of the screen, never wrapped, so that nothing jumps."""
        done = self.latest["round"]
        row = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=self.rounds, completed=done, width=self.console.width // 3)
        row.add_row(bar, _cut(f"{done}/{self.rounds}", "bold"), _cut("  ".join(self._pace(now))))
        lines = [_cut("  ".join(self._losses(federation)))]
        if self.measured:
            lines.append(_cut(f"{self.when} {self.measured}", "dim"))
        return Group(row, *lines)

    def _line(self, federation: Any, now: float) -> str:
        width = len(str(self.rounds))
        parts = [f"round {self.latest['round']:>{width}}/{self.rounds}"]
        text = "  ".join(parts + self._losses(federation) + self._pace(now))
        return f"{text}  | test {self.measured}" if "metric" in self.latest else text

    def _losses(self, federation: Any) -> list[str]:
        parts = [f"loss {_short(self.latest['objective'])}"]
        losses, clients = self.latest["losses"], self.latest["clients"]
        known = [(loss, who) for loss, who in zip(losses, clients) if _usable(loss)]
        if known:
            loss, who = max(known)
            parts.append(f"worst {federation.data.client_name(who)} {_short(loss)}")
        return parts

    def _pace(self, now: float) -> list[str]:
        done = self.latest["round"] - (self.first or 0)
        elapsed = now - self.began
        if done <= 0 or elapsed <= 0:
            return []
        rate = done / elapsed
        speed = f"{rate:,.0f} rounds/s" if rate >= 10 else f"{rate:.2g} rounds/s"
        if rate < 1:
            speed = f"{1 / rate:.3g} s/round"
        remaining = self.rounds - self.latest["round"]
        return [speed, f"{duration(remaining / rate)} left"] if remaining else [speed]


def duration(seconds: float) -> str:
    """Seconds as people say them.

    >>> duration(0.42), duration(75), duration(7300)
    ('0.4 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _cut(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _usable(loss: float | None) -> bool:
    return loss is not None and math.isfinite(loss)


def _short(value: float | None) -> str:
    if value is None or value != value:
        return "-"
    return f"{value:.3f}" if abs(value) < 1000 else f"{value:.3g}"


def _number(value: float | None) -> str:
    return "-" if value is None or value != value else f"{value:.1f}"


def _measured(metric: str, record: dict[str, Any]) -> str:
    found, loss = record["metric"], record["loss"]
    return (
        f"{METRICS.get(metric, metric)} {_number(found['avg'])} %, worst tenth "
        f"{_number(found['worst'])} %; loss {_short(loss['avg'])}, "
        f"worst client {_short(loss['worst_client'])}"
    )
