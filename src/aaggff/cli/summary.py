"""What one sees when a run is over: how well, how evenly, where it is kept, what to do next."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from aaggff.cli.progress import METRICS, duration
from aaggff.federation.run import RunResult

EACH_CLIENT_UP_TO = 40
"""With more clients than this, a table of them is no longer something one reads."""


def show(console: Console, result: RunResult, names: list[str] | None) -> None:
    """The final tables; `names` of the clients, where there are few enough to list."""
    console.print()
    console.print(_fairness(result))
    if names is not None:
        console.print()
        console.print(_clients(result, names))
    missing = int(result.metric["missing"])
    if missing:
        which = METRICS.get(result.evaluation.metric, result.evaluation.metric)
        console.print(
            f"{missing} of {len(result.evaluation.values)} clients have no {which} of their own "
            "(too few test samples, or one class only) and are left out of it",
            soft_wrap=True,
        )


def farewell(console: Console, result: RunResult, total: int) -> None:
    """How long it took, where the record is, what one may want to do with it."""
    pace = f"{result.rounds} rounds in {duration(result.seconds)}"
    counted = len(result.evaluation.values)
    if counted < total:
        pace += f"; evaluated on a fixed sample of {counted:,} of {total:,} clients"
    console.print(pace, soft_wrap=True)
    if result.directory is None:
        return
    where = shlex.quote(str(result.directory))
    report = shlex.quote(str(result.directory / "report.html"))
    config = result.config
    console.print(f"record: {where}", soft_wrap=True)
    console.print(f"report: aaggff report {where} -o {report}", soft_wrap=True)
    others = "" if config.stand_in is False else " --stand-in"
    console.print(f"other methods: aaggff compare {config.dataset}{others}", soft_wrap=True)


def _fairness(result: RunResult) -> Table:
    metric = METRICS.get(result.evaluation.metric, result.evaluation.metric)
    title = f"{result.config.dataset}, {result.config.method}: clients' test parts"
    if result.stand_in:
        title += " (STAND-IN data: says nothing about the real)"
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("")
    for column in ("average", "worst 10 %", "best 10 %", "gap", "Gini"):
        table.add_column(column, justify="right")
    for name, values, digits in ((f"{metric}, %", result.metric, 2), ("loss", result.loss, 4)):
        cells = [
            *(_number(values[key], digits) for key in ("avg", "worst", "best", "gap")),
            _number(values["gini"], 2),
        ]
        table.add_row(name, *cells)
    return table


def _clients(result: RunResult, names: list[str]) -> Table:
    evaluation = result.evaluation
    metric = METRICS.get(evaluation.metric, evaluation.metric)
    table = Table(title="client by client, highest loss first", title_justify="left")
    table.add_column("client")
    for column in ("test samples", f"{metric}, %", "loss"):
        table.add_column(column, justify="right")
    order = np.argsort(-np.nan_to_num(evaluation.loss, nan=-np.inf), kind="stable")
    for place in order.tolist():
        table.add_row(
            names[place],
            str(int(evaluation.sizes[place])),
            _number(100 * evaluation.values[place], 2),
            _number(evaluation.loss[place], 4),
        )
    return table


def _number(value: Any, digits: int) -> str:
    value = float(value)
    if not np.isfinite(value):
        return "-"
    return f"{value:.{digits}f}" if abs(value) < 1e6 else f"{value:.3g}"


def free_directory(stem: Path) -> Path:
    """`stem`, or the first of stem-2, stem-3, ... that does not exist.

    >>> free_directory(Path("surely/not/there"))
    PosixPath('surely/not/there')
    """
    number, directory = 1, stem
    while directory.exists():
        number += 1
        directory = stem.with_name(f"{stem.name}-{number}")
    return directory
