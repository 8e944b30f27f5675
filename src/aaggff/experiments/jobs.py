"""One run among many: where it lies, whether it is done, how it is done in a worker."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aaggff.errors import UserError
from aaggff.experiments.load import lines, metric_name

if TYPE_CHECKING:
    from aaggff.experiments.pool import Tell
    from aaggff.federation.config import RunConfig
    from aaggff.federation.data import FederatedData

# How a run is carried out, which does not change what comes out of it.
SAME_RESULT = (
    *("executor", "workers", "device", "engine", "data_dir"),
    *("checkpoint_every", "evaluate_every", "track_regret"),
)
HEARD_EVERY = 0.1
"""Seconds between two words of a run about its progress."""


@dataclass(frozen=True)
class Job:
    """A run of a comparison: shown under `label`, kept in `directory` (None: not kept)."""

    label: str
    config: RunConfig
    directory: Path | None = None
    until: int | None = None
    """Go no further than this round for now; None: to the end."""

    @property
    def seed(self) -> int:
        return self.config.seed


@dataclass(frozen=True)
class Outcome:
    """What a finished run is compared by: the summaries of its last evaluation."""

    metric: Mapping[str, float]
    loss: Mapping[str, float]
    metric_name: str
    stand_in: bool
    seconds: float
    objective: float
    """Sum over all rounds of sum_i p_i F_i, the cumulative global objective."""


@dataclass(frozen=True)
class Failed:
    """What ended a run that could not be finished, such as a divergence."""

    reason: str


def finished(job: Job) -> Outcome | None:
    """The outcome on disk, if this very run is done; an error if another one lies in its place."""
    if job.directory is None or not (job.directory / "config.toml").exists():
        return None
    _same_run(job)
    if job.until is not None:
        return _so_far(job)
    done = job.directory / "done.json"
    if not done.exists():
        return None
    facts = json.loads(done.read_text(encoding="utf-8"))
    records = list(lines(job.directory / "rounds.jsonl"))
    return _outcome(job, records, facts["metric"], facts["stand_in"], facts["seconds"])


def _so_far(job: Job) -> Outcome | None:
    """Where a run stood after round `job.until`, if it ever came that far."""
    assert job.directory is not None
    records = list(lines(job.directory / "rounds.jsonl"))[: job.until]
    if len(records) != job.until or records[-1].get("metric") is None:
        return None
    first = next(lines(job.directory / "clients.jsonl"), {})
    seconds = sum(record["seconds"] for record in records)
    return _outcome(job, records, metric_name(first) or "", job.config.stand_in, seconds)


def _same_run(job: Job) -> None:
    from aaggff.federation.config import RunConfig

    assert job.directory is not None
    there = RunConfig.read(job.directory / "config.toml").model_dump()
    asked = job.config.model_dump()
    for name in asked:
        if name not in SAME_RESULT and there[name] != asked[name]:
            raise UserError(
                f"{job.directory} holds a run with {name} = {shown(there[name])}, and this one "
                f"has {shown(asked[name])}: choose another --out, or remove that directory"
            )


def shown(value: Any) -> str:
    """A setting as it would be written on a command line."""
    if isinstance(value, Mapping):
        return ",".join(f"{key}={each}" for key, each in value.items()) or "no options"
    return "none" if value is None else str(value)


def _outcome(
    job: Job, records: list[dict[str, Any]], metric_name: str, stand_in: bool, seconds: float
) -> Outcome:
    last = next((each for each in reversed(records) if each.get("metric") is not None), None)
    if last is None:
        raise UserError(
            f"{job.directory} has no evaluation in it; remove that run to have it made again"
        )
    objective = (record["objective"] for record in records)
    return Outcome(
        _numbers(last["metric"]),
        _numbers(last["loss"]),
        metric_name,
        stand_in,
        seconds,
        math.fsum(math.nan if each is None else each for each in objective),
    )


def _numbers(summary: Mapping[str, float | None]) -> dict[str, float]:
    return {key: math.nan if value is None else float(value) for key, value in summary.items()}


def work(job: Job, tell: Tell) -> Outcome:
    """Train one federation, or go on where an interrupted one stopped. Runs in a worker."""
    try:
        return _train(job, tell)
    except UserError as error:
        raise UserError(f"{job.label} under seed {job.seed}: {error}") from error


def _train(job: Job, tell: Tell) -> Outcome:
    from aaggff.federation.callbacks import Callback
    from aaggff.federation.run import train

    class Listener(Callback):
        def __init__(self) -> None:
            self.objective: list[float] = []
            self.next = 0.0

        def on_round(self, federation: Any, record: dict[str, Any]) -> None:
            self.objective.append(float(record["objective"]))
            now = time.monotonic()
            if now >= self.next:
                self.next = now + HEARD_EVERY
                tell(record["round"])

    listener = Listener()
    result = train(
        job.config,
        job.directory,
        resume=True,
        callbacks=[listener],
        data=_data(job.config),
        until=job.until,
    )
    if job.directory is not None:
        outcome = finished(job)
        assert outcome is not None
        return outcome
    return Outcome(
        result.metric,
        result.loss,
        result.evaluation.metric,
        result.stand_in,
        result.seconds,
        math.fsum(listener.objective),
    )


def attempt(job: Job, tell: Tell) -> Outcome | Failed:
    """`work`, where one run that fails says why and does not end the others."""
    try:
        return _train(job, tell)
    except UserError as error:
        return Failed(str(error))


_loaded: dict[str, FederatedData] = {}


def _data(config: RunConfig) -> FederatedData:
    """The data of a seed, loaded once for all the methods that this process runs on it."""
    from aaggff.federation.run import load_data

    which = json.dumps(
        [config.dataset, config.seed, config.data, config.data_dir, config.stand_in],
        sort_keys=True,
        default=str,
    )
    if which not in _loaded:
        _loaded.clear()  # one seed at a time: the largest data sets fill the memory
        _loaded[which] = load_data(config)
    return _loaded[which]
