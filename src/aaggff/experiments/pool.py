"""Many independent jobs on all cores: processes that start once and say how far they are.

Each worker has a pipe of its own and one job at a time. So progress needs no shared queue, a
worker that dies is noticed by its pipe closing, and stopping is safe at any moment: no lock can
be left held, and runs on disk are resumed by whoever starts next.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar, cast

from aaggff.errors import UserError

Job = TypeVar("Job")

Tell = Callable[[Any], None]
"""What a job calls to say how far it is; must not block or be called often."""


def cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


PRELOAD = ("torch", "aaggff.federation.run", "aaggff.federation.federation")


def _forks() -> bool:
    return "forkserver" in multiprocessing.get_all_start_methods()


def warm_up(preload: Sequence[str] = PRELOAD) -> None:
    """Let what workers import be imported meanwhile; whoever calls this has a `Pool` sooner."""
    if _forks():
        from multiprocessing import forkserver

        forkserver.set_forkserver_preload(list(preload))
        forkserver.ensure_running()


class Pool:
    """Workers that run `function(job, tell)` for job after job, torch with one thread each.

    `function` is found by name in the workers, so it must be defined in a module. `preload` names
    modules that take long to import; where the system can fork they are imported once for all.
    With one worker everything happens in this process.
    """

    def __init__(
        self,
        function: Callable[[Any, Tell], Any],
        workers: int,
        preload: Sequence[str] = PRELOAD,
    ) -> None:
        self.function = function
        self._workers: dict[Connection, BaseProcess] = {}
        if workers <= 1:
            return
        context: Any = multiprocessing.get_context("forkserver" if _forks() else "spawn")
        warm_up(preload)
        for _ in range(workers):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, function), daemon=True)
            process.start()
            theirs.close()
            self._workers[ours] = process

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop at once. What a job has written so far stays as it is."""
        for connection, process in self._workers.items():
            process.terminate()
            connection.close()
        for process in self._workers.values():
            process.join()
        self._workers.clear()

    def run(
        self,
        jobs: Sequence[Job],
        *,
        alike: Callable[[Job], Hashable] = lambda job: None,
        told: Callable[[Job, Any], None] = lambda job, message: None,
    ) -> Iterator[tuple[Job, Any]]:
        """Every job with its result, in the order in which they finish.

        A worker prefers a job that is `alike` its last one, so that what that one loaded (the
        data of a seed) serves again. `told` hears what jobs tell. The first job to fail ends it
        all with its error.
        """
        if not self._workers:
            for job in jobs:
                yield job, self.function(job, partial(told, job))
            return
        waiting = list(jobs)
        busy: dict[Connection, Job] = {}
        last: dict[Connection, Hashable] = {}

        def give(worker: Connection) -> None:
            if waiting:
                others = {value for one, value in last.items() if one is not worker}
                job = min(
                    waiting,
                    key=lambda each: (alike(each) != last.get(worker), alike(each) in others),
                )
                waiting.remove(job)
                busy[worker], last[worker] = job, alike(job)
                worker.send(job)

        for worker in self._workers:
            give(worker)
        while busy:
            for ready in wait(list(busy)):
                worker = cast(Connection, ready)
                job = busy[worker]
                try:
                    kind, value = worker.recv()
                except (EOFError, ConnectionResetError):
                    process = self._workers[worker]
                    process.join()
                    raise RuntimeError(
                        f"a worker process ended without a word (exit code {process.exitcode}); "
                        "was memory short? --workers 1 needs the least"
                    ) from None
                if kind == "told":
                    told(job, value)
                    continue
                if kind == "mistake":
                    raise UserError(value)
                if kind == "crash":
                    raise RuntimeError(f"a worker process failed:\n{value}")
                del busy[worker]
                give(worker)
                yield job, value


def _serve(connection: Connection, function: Callable[[Any, Tell], Any]) -> None:
    """A worker's life: jobs in, words and results out, until the pipe closes."""
    # Ctrl-C reaches the whole process group; the parent decides what happens then.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_parent()
    import torch

    torch.set_num_threads(1)
    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        try:
            answer = ("done", function(job, lambda message: connection.send(("told", message))))
        except UserError as error:
            answer = ("mistake", str(error))
        except Exception:
            answer = ("crash", traceback.format_exc())
        try:
            connection.send(answer)
        except BrokenPipeError:
            return


def _end_with_parent() -> None:
    """A killed parent cannot stop its workers, so they watch it."""
    parent = multiprocessing.parent_process()
    if parent is not None:

        def watch() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=watch, daemon=True).start()
