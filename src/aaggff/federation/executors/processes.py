"""Clients on all cores: one process a core, models and updates in shared memory.

Every process does exactly what the sequential executor does, on one thread, and updates are mixed
in the order of the clients: the result is the same to the last bit, whatever the number of
processes.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import weakref
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np
import torch
import torch.multiprocessing  # makes tensors travel through shared memory
from torch import Tensor

from aaggff.errors import UserError
from aaggff.federation.executors.base import Array, Index, Sink, Work
from aaggff.federation.executors.sequential import OneClient

_PATIENCE = 5.0
"""After so many seconds without work a process looks whether its parent is still there."""


class Processes:
    """One worker process a core, started when first needed.

    Args:
        workers: how many processes; None: as many as there are cores for this process.
        start: "fork" (default on Linux) or "spawn" (elsewhere; data and model are then pickled).
    """

    name = "processes"

    def __init__(
        self,
        work: Work,
        why: str = "asked for",
        *,
        workers: int | None = None,
        start: str | None = None,
    ) -> None:
        self.work, self.why = work, why
        self.workers = workers or cores()
        if self.workers < 1:
            raise UserError(f"workers: expected at least 1, got {workers!r}")
        if multiprocessing.current_process().daemon:
            raise UserError(
                "executor 'processes' cannot be used inside a worker process of something else; "
                "choose 'sequential' there"
            )
        if work.flat.device.type != "cpu":
            raise UserError("executor 'processes' is for the CPU: choose 'sequential' on a device")
        self._start = start or ("fork" if sys.platform == "linux" else "spawn")
        self._pool: _Pool | None = None
        self._sent = 0

    def losses(self, round: int, clients: Index) -> Array:
        found = np.empty(len(clients))
        with self._ready() as pool:
            tasks = [("loss", round, client, self._sent) for client in clients.tolist()]
            for place, _, value in pool.work(tasks):
                found[place] = value
        return found

    def train(self, round: int, clients: Index, sink: Sink) -> None:
        waiting: dict[int, int] = {}
        following = 0
        with self._ready() as pool:
            tasks = [("train", round, client, self._sent) for client in clients.tolist()]
            for place, slot, _ in pool.work(tasks):
                # In the clients' order, so that sums do not depend on who is done first.
                waiting[place] = slot
                while following in waiting:
                    done = waiting.pop(following)
                    sink.add(following, pool.slots[done].unsqueeze(0))
                    pool.free.append(done)
                    following += 1

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    @contextlib.contextmanager
    def _ready(self) -> Iterator[_Pool]:
        """The processes, with the present global model before them."""
        if self._pool is None:
            self._pool = _Pool(self.work, self.workers, self._start)
        theta, integers = self.work.received()
        self._pool.theta.copy_(theta)
        if integers is not None:
            self._pool.integers.copy_(integers)
        self._sent += 1
        try:
            yield self._pool
        except BaseException:
            # Some are still at work on what nobody waits for any more: start anew next time.
            self.close()
            raise


class _Pool:
    """The processes and the memory they share with us."""

    def __init__(self, work: Work, workers: int, start: str) -> None:
        flat = work.flat
        self.theta = _shared(torch.empty_like(work.theta))
        self.integers = _shared(torch.zeros(flat.size - flat.floats, dtype=torch.int64))
        # Two slots a process: one that waits to be mixed, one that is being written.
        self.slots = _shared(torch.empty((2 * workers, flat.size), dtype=flat.dtype))
        self.free = list(range(len(self.slots)))
        self.idle: list[Connection] = []
        context: Any = multiprocessing.get_context(start)
        processes: list[BaseProcess] = []
        for _ in range(workers):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_serve,
                args=(theirs, work, self.theta, self.integers, self.slots, os.getpid()),
                name="aaggff client",
                daemon=True,
            )
            try:
                process.start()
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                raise UserError(
                    f"executor 'processes': the data or the model cannot be sent to another "
                    f"process ({error}); choose 'sequential'"
                ) from error
            theirs.close()
            processes.append(process)
            self.idle.append(ours)
        self.close = weakref.finalize(self, _stop, list(self.idle), processes)

    def work(self, tasks: list[tuple[str, int, int, int]]) -> Iterator[tuple[int, int, float]]:
        """Hand out tasks in order; yields (place, slot, value) as they are done.

        A training task occupies a slot until its number is put back into `free`.
        """
        busy: dict[Connection, tuple[int, int]] = {}
        following = 0
        while following < len(tasks) or busy:
            training = following < len(tasks) and tasks[following][0] == "train"
            while following < len(tasks) and self.idle and (self.free or not training):
                worker = self.idle.pop()
                slot = self.free.pop() if training else -1
                busy[worker] = following, slot
                try:
                    worker.send((*tasks[following], slot))
                except OSError as error:
                    raise _ended() from error
                following += 1
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                try:
                    answer = ready.recv()
                except (EOFError, OSError) as error:
                    raise _ended() from error
                place, slot = busy.pop(ready)
                self.idle.append(ready)
                if isinstance(answer, BaseException):
                    raise answer
                yield place, slot, answer


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _serve(
    connection: Connection,
    work: Work,
    theta: Tensor,
    integers: Tensor,
    slots: Tensor,
    parent: int,
) -> None:
    """What a worker process does until its parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    torch.set_num_threads(1)
    client = OneClient(work)
    counters = integers if len(integers) else None
    received = 0
    while True:
        while not connection.poll(_PATIENCE):
            if os.getppid() != parent:
                return
        try:
            task = connection.recv()
        except (EOFError, OSError):
            return
        if task is None:
            return
        kind, round, who, sent, slot = task
        answer: float | BaseException = 0.0
        try:
            if kind == "loss":
                if received != sent:
                    client.receive(theta, counters)
                    received = sent
                answer = client.loss(who)
            else:
                slots[slot].copy_(client.update(round, who, theta, counters))
                received = 0
        except Exception as error:
            answer = _portable(error)
        connection.send(answer)


def _portable(error: Exception) -> Exception:
    """The error itself if it survives the journey to another process, else its words."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - bytes of our own making
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _shared(tensor: Tensor) -> Tensor:
    tensor.share_memory_()  # type: ignore[no-untyped-call]
    return tensor


def _ended() -> UserError:
    return UserError(
        "a worker process ended unexpectedly (out of memory?): use fewer workers, or the executor "
        "'sequential'"
    )


def _stop(connections: list[Connection], processes: list[BaseProcess]) -> None:
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.send(None)
            connection.close()
    for process in processes:
        process.join(1.0)
        if process.is_alive():
            process.terminate()
            process.join()
