"""Train with someone watching: progress, a clean end on Ctrl-C, the final tables."""

from __future__ import annotations

import logging
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import typer
from rich.console import Console

from aaggff.cli.progress import Progress
from aaggff.cli.summary import EACH_CLIENT_UP_TO, farewell, free_directory, show
from aaggff.federation.callbacks import Callback
from aaggff.federation.config import RunConfig
from aaggff.federation.run import train


def watch(
    config: RunConfig,
    out: Path | None = None,
    *,
    resume: Path | None = None,
    tensorboard: Path | None = None,
    mlflow: bool = False,
) -> None:
    """Run `config` in a new directory, or go on in the one to resume."""
    console = Console(highlight=False)
    directory = (
        resume
        or out
        or free_directory(Path("runs") / f"{config.dataset}-{config.method}-seed-{config.seed}")
    )
    trackers = _trackers(config, directory, tensorboard, mlflow)
    progress, people = Progress(console, config.rounds), _People(console, config)
    everybody = "everybody" if config.per_round is None else f"{config.per_round} a round"
    console.print(
        f"[bold]{config.dataset}[/bold]{' STAND-IN' if config.stand_in else ''}  "
        f"{_titled(config)}  {config.model}, {config.rounds} rounds, "
        f"{everybody}, seed {config.seed}"
    )
    with _log_on(console), _Stop(console) as stop:
        progress.start()
        try:
            result = train(
                config,
                directory,
                resume=resume is not None,
                callbacks=[people, progress, *trackers],
                stop=stop,
            )
        finally:
            progress.stop()
    if result.rounds < config.rounds:
        where = shlex.quote(str(directory))
        console.print(f"stopped after round {result.rounds} of {config.rounds}; it is saved")
        console.print(f"go on: aaggff run --resume {where}", soft_wrap=True)
        raise typer.Exit(128 + (stop.signal or signal.SIGINT))
    names = people.names(result.evaluation.clients)
    show(console, result, names if len(names) <= EACH_CLIENT_UP_TO else None)
    for note in people.notes:
        console.print(f"note: {note}", soft_wrap=True)
    farewell(console, result, people.total)


def _titled(config: RunConfig) -> str:
    options = ", ".join(f"{key} {value}" for key, value in config.method_options.items())
    return f"{config.method} ({options})" if options else config.method


def _trackers(
    config: RunConfig, directory: Path, tensorboard: Path | None, mlflow: bool
) -> list[Callback]:
    from aaggff.federation import trackers

    chosen: list[Callback] = []
    if tensorboard is not None:
        chosen.append(trackers.TensorBoard(tensorboard))
    if mlflow:
        chosen.append(trackers.MLflow(config, run_name=directory.name))
    return chosen


class _People(Callback):
    """Says who trains the clients, and remembers who took part: the final table names them."""

    def __init__(self, console: Console, config: RunConfig) -> None:
        self.console, self.automatic = console, config.executor == "auto"
        self.total = 0
        self.notes: tuple[str, ...] = ()
        """What one should know about the files: a partial copy, samples left out."""
        self._data: Any = None

    def on_round(self, federation: Any, record: dict[str, Any]) -> None:
        executor = getattr(federation, "executor", None)
        if self.automatic and executor is not None:
            self.console.print(f"executor: {executor.name} ({executor.why})", style="dim")
        self.automatic = False

    def on_end(self, federation: Any) -> None:
        self._data, self.total = federation.data, len(federation.data)
        self.notes = getattr(federation.data, "notes", ())

    def names(self, clients: Any) -> list[str]:
        return [self._data.client_name(int(k)) for k in clients[: EACH_CLIENT_UP_TO + 1]]


class _Stop:
    """Ctrl-C (or SIGTERM) asks for an end after this round; a second one ends at once.

    Until the first round is done there is nothing to save, and one is enough.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.signal = 0
        self._begun = False
        self._before: dict[int, Any] = {}

    def __call__(self) -> bool:
        """Asked after every round."""
        self._begun = True
        return self.signal != 0

    def __enter__(self) -> _Stop:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._asked)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _asked(self, number: int, frame: FrameType | None) -> None:
        if self.signal or not self._begun:
            raise KeyboardInterrupt
        self.signal = number
        self.console.print("finishing this round, then saving (again: stop at once)")


@contextmanager
def _log_on(console: Console) -> Iterator[None]:
    """What the library logs appears above the progress, one line each."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            console.print(record.getMessage(), style="yellow", soft_wrap=True, markup=False)

    log, handler = logging.getLogger("aaggff"), Handler(logging.WARNING)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
