"""Which executor runs the clients."""

from __future__ import annotations

from aaggff.errors import unknown
from aaggff.federation.executors.base import Executor, Work
from aaggff.federation.executors.sequential import Sequential

EXECUTORS = ("auto", "sequential", "batched", "processes")


def executor(name: str, work: Work, *, cohort: int, workers: int | None = None) -> Executor:
    """The executor of that name; "auto" picks one for this model and cohort and says why."""
    if name not in EXECUTORS:
        raise unknown("executor", name, EXECUTORS)
    if name == "batched":
        from aaggff.federation.executors.batched import Batched

        return Batched(work)
    return Sequential(work)
