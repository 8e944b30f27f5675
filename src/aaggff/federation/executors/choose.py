"""Which executor runs the clients."""

from __future__ import annotations

import multiprocessing
import time

import numpy as np

from aaggff.errors import UserError, unknown
from aaggff.federation.executors.base import Executor, Work
from aaggff.federation.executors.batched import Batched, cannot_batch
from aaggff.federation.executors.processes import Processes, cores
from aaggff.federation.executors.sequential import OneClient, Sequential
from aaggff.federation.executors.threads import one_thread

EXECUTORS = ("auto", "sequential", "batched", "processes")
WORTH = 2e-4
"""Seconds: how long F_i of one client must take for processes to pay.

Handing a client to another process and mixing what comes back costs some tenths of a millisecond;
training takes a few times as long as F_i. In `bench/executors.py` processes gain next to nothing
where F_i takes 0.07 ms, and a third of a round where it takes 0.26 ms.
"""


def executor(name: str, work: Work, *, cohort: int, workers: int | None = None) -> Executor:
    """The executor of that name; "auto" picks one for this model and cohort and says why."""
    if workers is not None and workers < 1:
        raise UserError(f"workers: expected at least 1, got {workers!r}")
    if name == "sequential":
        return Sequential(work)
    if name == "batched":
        return Batched(work)
    if name == "processes":
        return Processes(work, workers=workers)
    if name == "auto":
        return _pick(work, cohort, workers)
    raise unknown("executor", name, EXECUTORS)


def _pick(work: Work, cohort: int, workers: int | None) -> Executor:
    reason = cannot_batch(work)
    if not isinstance(reason, str):
        return Batched(work, "linear layers and ReLU train as one stack")
    number = min(workers or cores(), cohort)
    if number < 2 or work.flat.device.type != "cpu" or not _may_fork():
        return Sequential(work, f"{reason}, and there is one core or client at a time")
    if seconds_of_one(work) < WORTH:
        return Sequential(work, f"{reason}, and a client is done sooner than handed to a process")
    return Processes(work, f"{reason}, so its clients share {number} cores", workers=number)


def seconds_of_one(work: Work) -> float:
    """How long F_i of a client of about mean size takes; the results do not depend on it."""
    sizes = work.data.train_sizes
    client = int(np.abs(sizes - sizes.mean()).argmin())
    one = OneClient(work)
    taken = []
    with one_thread():
        for _ in range(4):  # the first time everything is slower, and others may be at work
            began = time.perf_counter()
            one.loss(client)
            taken.append(time.perf_counter() - began)
            if sum(taken) > 0.1:
                break
    return min(taken)


def _may_fork() -> bool:
    """A worker process of something else must not start processes of its own."""
    return not multiprocessing.current_process().daemon
