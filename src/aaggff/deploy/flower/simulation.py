"""Flower's simulation, started, watched and ended from Python: Ray's processes, and no trace."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from aaggff.deploy.flower.processes import MARK, end, find
from aaggff.errors import UserError

Answer = TypeVar("Answer")

OBJECT_STORE = 512 * 2**20
"""Bytes for messages under way between processes; what is more goes to disk."""


def simulate(
    main: Callable[[Grid], Answer], client_app: ClientApp, *, nodes: int, workers: int
) -> Answer:
    """What `main` makes of a grid of `nodes` clients, run by `workers` processes.

    The answer of `main`, or its exception; every process has ended by then.
    """
    over = threading.Event()
    outcome: list[Answer] = []
    failure: list[BaseException] = []
    server = ServerApp()

    @server.main()
    def serve(grid: Grid, context: Context) -> None:
        try:
            outcome.append(main(Watched(grid, over)))
        except BaseException as error:  # it belongs to our caller, not to Flower's log
            failure.append(error)

    with _prepared() as folder:
        backend: dict[str, Any] = {
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {
                "num_cpus": workers,
                "object_store_memory": OBJECT_STORE,
                "_temp_dir": folder,
                "_node_ip_address": "127.0.0.1",
                "logging_level": "ERROR",
                "log_to_driver": False,
            },
        }
        try:
            run_simulation(server, client_app, nodes, backend_config=backend)
        except RuntimeError as error:
            over.set()
            if not failure:
                raise UserError(f"Flower's simulation ended: {error.__cause__ or error}") from error
        finally:
            over.set()
    if failure:
        raise failure[0]
    return outcome[0]


class Watched(Grid):
    """A grid that stops waiting when a client fails or the simulation behind it has ended."""

    PAUSE = 0.02
    """Seconds between two looks for replies."""

    def __init__(self, grid: Grid, over: threading.Event) -> None:
        self._grid, self._over = grid, over

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        waiting = set(self.push_messages(messages))
        end = None if timeout is None else time.monotonic() + timeout
        replies: list[Message] = []
        while waiting and (end is None or time.monotonic() < end):
            new = list(self.pull_messages(waiting))
            replies += new
            for reply in new:
                if reply.has_error():  # in a simulation there are no accidents
                    raise UserError(f"a client failed: {reply.error.reason}")
            waiting -= {reply.metadata.reply_to_message_id for reply in new}
            if waiting and self._over.wait(self.PAUSE):
                raise UserError("Flower's simulation ended before its clients had answered")
        return replies

    def set_run(self, run: Any) -> None:
        self._grid.set_run(run)

    @property
    def run(self) -> Any:
        return self._grid.run

    def create_message(self, *given: Any, **named: Any) -> Message:
        return self._grid.create_message(*given, **named)

    def get_node_ids(self) -> Iterable[int]:
        return self._grid.get_node_ids()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return self._grid.pull_messages(message_ids)


@contextlib.contextmanager
def _prepared() -> Iterator[str]:
    """A folder for Ray; afterwards it and Ray's processes are gone, logs and environment as before.

    Ray's workers end when they notice that their parent has ended, a while after Flower returns.
    Flower says that `run_simulation` will go one day: this file is the one place that calls it.
    """
    log = logging.getLogger("flwr")
    level = log.level
    folder = tempfile.mkdtemp(prefix="aaggff-")
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", MARK)}
    log.setLevel(logging.CRITICAL)  # what goes wrong is raised
    os.environ[MARK] = folder
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            yield folder
    finally:
        log.setLevel(level)
        for name, value in before.items():  # Flower sets PYTHONPATH for Ray
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        end(lambda: find(folder), patience=5)
        shutil.rmtree(folder, ignore_errors=True)
