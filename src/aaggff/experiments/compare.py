"""Methods against each other, seed by seed: same split, same first model, same sampled clients."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aaggff.errors import UserError, unknown
from aaggff.experiments import jobs
from aaggff.experiments.jobs import Failed, Job, Outcome
from aaggff.experiments.labels import Labelled, parse_method
from aaggff.experiments.limits import partial_copy
from aaggff.experiments.pool import Pool, Tell, cores
from aaggff.experiments.statistics import Difference, paired

REFERENCES = ("fedavg", "uniform")


@dataclass(frozen=True)
class Measure:
    """A column of the table: where it comes from and how it is printed."""

    key: str
    title: str
    source: str
    """"metric" or "loss": which of a run's two summaries."""
    entry: str
    larger_is_better: bool
    digits: int = 2


MEASURES = (
    Measure("avg", "avg", "metric", "avg", True),
    Measure("worst", "worst", "metric", "worst", True),
    Measure("best", "best", "metric", "best", True),
    Measure("gini", "Gini", "metric", "gini", False),
    Measure("gap", "gap", "metric", "gap", False),
    Measure("loss_avg", "loss", "loss", "avg", False, 3),
    Measure("loss_worst", "worst loss", "loss", "worst_client", False, 3),
)
"""What is shown and tested. `worst` and `best` are tenths of the clients, `loss_worst` is one."""

# Further figures of a run that --json and load_runs have, but that are not tested.
FURTHER = {
    "mean": ("metric", "mean"),
    "worst_client": ("metric", "worst_client"),
    "best_client": ("metric", "best_client"),
    "variance": ("metric", "variance"),
    "jain": ("metric", "jain"),
    "entropy": ("metric", "entropy"),
    "missing": ("metric", "missing"),
    "loss_worst_tenth": ("loss", "worst"),
    "loss_gini": ("loss", "gini"),
    "loss_variance": ("loss", "variance"),
}


@dataclass(frozen=True)
class Comparison:
    """The outcomes of every method under every seed, aligned by seed."""

    dataset: str
    metric: str
    rounds: int
    seeds: list[int]
    outcomes: dict[str, list[Outcome]]
    notes: list[str] = field(default_factory=list)
    """What else to know: a partial copy of the data, methods of "all" not run; a line each."""
    stand_in: bool = False
    directory: Path | None = None

    def values(self, measure: Measure) -> dict[str, list[float]]:
        """One number per seed, by method."""
        return {
            label: [getattr(outcome, measure.source)[measure.entry] for outcome in found]
            for label, found in self.outcomes.items()
        }

    @property
    def references(self) -> list[str]:
        return [name for name in REFERENCES if name in self.outcomes and len(self.outcomes) > 1]

    def differences(self) -> dict[str, dict[str, dict[str, Difference]]]:
        """`[reference][measure][method]`, corrected over all of them together."""
        columns = {measure.key: self.values(measure) for measure in MEASURES}
        return paired(columns, self.references)

    def tests(self) -> int:
        """How many tests `differences` corrects for."""
        others = len(self.outcomes)
        pairs = sum(others - 1 - index for index in range(len(self.references)))
        return pairs * len(MEASURES)

    def as_json(self) -> dict[str, Any]:
        """The plain form of DESIGN: per cent for metrics, natural units for losses."""
        methods = {}
        for label, found in self.outcomes.items():
            numbers = {measure.key: self.values(measure)[label] for measure in MEASURES}
            for key, (source, entry) in FURTHER.items():
                numbers[key] = [getattr(outcome, source)[entry] for outcome in found]
            methods[label] = {
                key: [value if math.isfinite(value) else None for value in values]
                for key, values in numbers.items()
            }
        return {
            "dataset": self.dataset,
            "rounds": self.rounds,
            "seeds": self.seeds,
            "metric": self.metric,
            "methods": methods,
            **({"stand_in": True} if self.stand_in else {}),
        }


@dataclass(frozen=True)
class Heard:
    """What a comparison says while it goes on; every call may be left out."""

    planned: Callable[[list[Job]], None] = lambda planned: None
    at: Callable[[Job, int], None] = lambda job, round: None
    done: Callable[[Job, Outcome | Failed, bool], None] = lambda job, outcome, was_there: None


def compare(
    dataset: str,
    methods: Sequence[str | Labelled] | None = None,
    seeds: Sequence[int] = (2, 4, 6),
    *,
    settings: Mapping[str, Any] | None = None,
    tuned: Mapping[str, Mapping[str, Any]] | None = None,
    out: Path | None = None,
    workers: int | None = None,
    heard: Heard | None = None,
) -> Comparison:
    """Run every method under every seed, in parallel, and gather what came out.

    `settings` are those of `RunConfig`; `tuned` are options by method, which options in a
    method's own label override. With `out` each run is kept in `out`/LABEL/seed-N and what is
    done there already is not done again. Without methods: all that can be run.

    >>> few = {"rounds": 3}
    >>> found = compare("heart", ["fedavg", "qfedavg:q=5"], [1, 2], settings=few, workers=1)
    >>> sorted(found.as_json()["methods"])
    ['fedavg', 'qfedavg:q=5']
    >>> found.differences()["fedavg"]["loss_worst"]["qfedavg:q=5"].p >= 0.5  # two seeds are too few
    True
    """
    chosen, left_out = choose(dataset, methods, settings or {})
    planned = plan(dataset, chosen, seeds, settings=settings, tuned=tuned, out=out)
    outcomes = run_all(planned, workers=workers, heard=heard)
    by_label = {each.label: [outcomes[each.label, seed] for seed in seeds] for each in chosen}
    first = next(iter(outcomes.values()))
    return Comparison(
        dataset,
        first.metric_name,
        planned[0].config.rounds,
        list(seeds),
        by_label,
        [*partial_copy(planned[0].config), *left_out],
        first.stand_in,
        out,
    )


def choose(
    dataset: str, methods: Sequence[str | Labelled] | None, settings: Mapping[str, Any]
) -> tuple[list[Labelled], list[str]]:
    """The methods to run; of all, those that need everybody are left out where some are sampled."""
    from aaggff.decision.methods import METHODS
    from aaggff.federation.config import RunConfig

    if methods is not None:
        return [m if isinstance(m, Labelled) else parse_method(m) for m in methods], []
    plain = {name: value for name, value in settings.items() if name != "method_options"}
    config = RunConfig.for_dataset(dataset, **{**plain, "method": "fedavg"})
    everybody = config.per_round is None or (
        isinstance(config.per_round, float) and config.per_round == 1.0
    )
    whole = everybody and not (config.drop_out or config.slow)
    kept = [name for name, method in METHODS.items() if whole or not method.everybody]
    out = [name for name in METHODS if name not in kept]
    reason = "clients are sampled" if not everybody else "clients drop out"
    said = [f"{name} left out: it needs everybody every round, and here {reason}" for name in out]
    return [Labelled(name, name) for name in kept], said


def plan(
    dataset: str,
    methods: Sequence[Labelled],
    seeds: Sequence[int],
    *,
    settings: Mapping[str, Any] | None = None,
    tuned: Mapping[str, Mapping[str, Any]] | None = None,
    out: Path | None = None,
) -> list[Job]:
    """The runs to be made, seed after seed, each checked before any starts."""
    from aaggff.federation.config import RunConfig

    shared = dict(settings or {})
    for_all = dict(shared.pop("method_options", {}))
    _check_for_all(for_all, methods)
    planned = []
    for seed in seeds:
        for each in methods:
            options = dict((tuned or {}).get(each.method, {}))
            options |= {k: v for k, v in for_all.items() if k in _options(each.method)}
            options |= each.options
            config = RunConfig.for_dataset(
                dataset,
                **{**shared, "method": each.method, "method_options": options, "seed": seed},
            )
            directory = None if out is None else out / each.label / f"seed-{seed}"
            planned.append(Job(each.label, config, directory))
    return planned


def _options(method: str) -> Mapping[str, Any]:
    from aaggff.decision.methods import METHODS

    return METHODS[method].options


def _check_for_all(options: Mapping[str, Any], methods: Sequence[Labelled]) -> None:
    """An option that is set for all must be known to at least one of them."""
    known = {name for each in methods for name in _options(each.method)}
    for name in options:
        if name not in known:
            raise unknown("option (no method compared has it)", name, known)


def run_all(
    planned: Sequence[Job], *, workers: int | None = None, heard: Heard | None = None
) -> dict[tuple[str, int], Outcome]:
    """Every job's outcome by label and seed; what is done already is read, the rest is run."""
    return _run(jobs.work, planned, workers, heard)


def try_all(
    planned: Sequence[Job],
    *,
    workers: int | None = None,
    heard: Heard | None = None,
    needed: bool = True,
) -> dict[tuple[str, int], Outcome | Failed]:
    """The same, where a run may fail: of a grid of values the boldest often diverge.

    needed: that all fail is an error, the first one's.
    """
    found = _run(jobs.attempt, planned, workers, heard)
    failed = [each.reason for each in found.values() if isinstance(each, Failed)]
    if needed and failed and len(failed) == len(found):
        raise UserError(failed[0])
    return found


def _run(
    function: Callable[[Job, Tell], Any],
    planned: Sequence[Job],
    workers: int | None,
    heard: Heard | None,
) -> dict[tuple[str, int], Any]:
    heard = heard or Heard()
    if workers is not None and workers < 1:
        raise UserError(f"workers: expected at least 1, got {workers}")
    outcomes: dict[tuple[str, int], Any] = {}
    heard.planned(list(planned))
    missing = []
    for job in planned:  # all are looked at before any starts, so that a clash costs no run
        outcome = jobs.finished(job)
        if outcome is None:
            missing.append(job)
        else:
            outcomes[job.label, job.seed] = outcome
            heard.done(job, outcome, True)
    if not missing:
        return outcomes
    with Pool(function, min(workers or cores(), len(missing))) as pool:
        for job, outcome in pool.run(missing, alike=lambda job: job.seed, told=heard.at):
            outcomes[job.label, job.seed] = outcome
            heard.done(job, outcome, False)
    return outcomes


def default_directory(dataset: str, settings: Mapping[str, Any], tuned: Mapping[str, Any]) -> Path:
    """Where a comparison is kept if nobody says: other settings, another place.

    Methods and seeds are not part of the name, so that asking for more of them adds to it.
    """
    told = json.dumps([settings, tuned], sort_keys=True, default=str)
    if not settings and not tuned:
        return Path("runs") / dataset
    return Path("runs") / f"{dataset}-{hashlib.blake2b(told.encode(), digest_size=3).hexdigest()}"


def json_text(content: Mapping[str, Any]) -> str:
    """Strict JSON."""
    return json.dumps(content, indent=1, allow_nan=False)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Atomically; the folder is made."""
    from aaggff.federation.record import write_atomically

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json_text(content).encode() + b"\n")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error
