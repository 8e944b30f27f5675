"""Which executor runs the clients."""

from __future__ import annotations

import multiprocessing

from aaggff.errors import UserError, unknown
from aaggff.federation.executors.base import Executor, Work
from aaggff.federation.executors.batched import Batched, cannot_batch
from aaggff.federation.executors.processes import Processes, cores
from aaggff.federation.executors.sequential import Sequential

EXECUTORS = ("auto", "sequential", "batched", "processes")


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
    if number > 1 and work.flat.device.type == "cpu" and _may_fork():
        return Processes(work, f"{reason}, so its clients share {number} cores", workers=number)
    return Sequential(work, f"{reason}, and there is one core or client at a time")


def _may_fork() -> bool:
    """A worker process of something else must not start processes of its own."""
    return not multiprocessing.current_process().daemon
