"""Choose methods' options on seeds of their own, by grid or by successive halving."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aaggff.errors import UserError
from aaggff.experiments.compare import MEASURES, Heard, Measure, choose, plan, try_all
from aaggff.experiments.grids import PAPER, Grid, candidates, check_grid, own
from aaggff.experiments.jobs import Failed, Job, Outcome
from aaggff.experiments.labels import Labelled
from aaggff.experiments.limits import partial_copy
from aaggff.experiments.objective import Objective, parse_objective

KEEP = 3
"""Successive halving keeps one candidate in so many, and trains it so many times longer."""


@dataclass(frozen=True)
class Trial:
    """One candidate: how far it was trained and what came out, seed by seed."""

    candidate: Labelled
    rounds: int
    outcomes: list[Outcome | Failed]
    score: float

    @property
    def failed(self) -> str:
        """Why it could not be finished, if so."""
        return next((each.reason for each in self.outcomes if isinstance(each, Failed)), "")


@dataclass(frozen=True)
class Tuning:
    """Every candidate of every method, and the best of each."""

    dataset: str
    metric: str
    seeds: list[int]
    rounds: int
    objective: Objective
    trials: dict[str, list[Trial]]
    """By method, in the grid's order."""
    notes: list[str] = field(default_factory=list)
    stand_in: bool = False

    def chosen(self) -> dict[str, Trial]:
        """The best trial by method: of those trained furthest, and of equals the first.

        A trial without a score is never chosen, and a method with nothing else not at all.
        """
        scored = {
            method: [trial for trial in trials if math.isfinite(trial.score)]
            for method, trials in self.trials.items()
        }
        return {
            method: max(trials, key=lambda trial: (trial.rounds, trial.score))
            for method, trials in scored.items()
            if trials
        }

    def as_json(self) -> dict[str, Any]:
        """Every trial with its numbers."""
        chosen = self.chosen()
        methods = {
            method: [
                {
                    "label": trial.candidate.label,
                    "options": dict(trial.candidate.options),
                    "rounds": trial.rounds,
                    "score": trial.score if math.isfinite(trial.score) else None,
                    "chosen": trial is chosen.get(method),
                    "failed": trial.failed or None,
                    **{
                        measure.key: [_value(each, measure) for each in trial.outcomes]
                        for measure in MEASURES
                    },
                }
                for trial in trials
            ]
            for method, trials in self.trials.items()
        }
        return {
            "dataset": self.dataset,
            "rounds": self.rounds,
            "seeds": self.seeds,
            "metric": self.metric,
            "tuned_for": self.objective.text,
            "methods": methods,
            **({"stand_in": True} if self.stand_in else {}),
        }


def _value(outcome: Outcome | Failed, measure: Measure) -> float | None:
    if isinstance(outcome, Failed):
        return None
    value = float(getattr(outcome, measure.source)[measure.entry])
    return value if math.isfinite(value) else None


def tune(
    dataset: str,
    methods: Sequence[str | Labelled] | None = None,
    *,
    grid: Grid | None = None,
    seeds: Sequence[int] = (0,),
    metric: str = "avg",
    halving: bool = False,
    settings: Mapping[str, Any] | None = None,
    out: Path | None = None,
    workers: int | None = None,
    heard: Heard | None = None,
) -> Tuning:
    """Try every value of the paper's grids, or of one's own `grid`, and score them by `metric`.

    An option in `grid` replaces the paper's grid of the methods that have it. With `out` runs are
    kept there in `out`/LABEL/seed-N, and what is done is not done again. `halving` needs `out`:
    all begin, and every so often only the best third goes on from where it is.

    >>> found = tune("heart", ["term"], grid={"lam": [0.1, 1.0]}, metric="worst", workers=1,
    ...              settings={"rounds": 2})
    >>> [trial.candidate.label for trial in found.trials["term"]]
    ['term:lam=0.1', 'term:lam=1.0']
    """
    objective = parse_objective(metric)
    if not seeds:
        raise UserError("seeds: name at least one to tune on")
    if halving and out is None:
        raise UserError("halving goes on from what is kept, so it needs a directory, `out`")
    bases, left_out = choose(dataset, methods, settings or {})
    families = _families(bases, dict(grid or {}), named=methods is not None)
    # Planned together, so that all are checked before any runs.
    everyone = [each for family in families.values() for each in family]
    planned = plan(dataset, everyone, seeds, settings=settings, out=out)
    trials = _search(families, planned, objective, halving, workers, heard)
    finished = [each for t in trials.values() for each in t.outcomes if isinstance(each, Outcome)]
    return Tuning(
        dataset,
        finished[0].metric_name,
        list(seeds),
        planned[0].config.rounds,
        objective,
        {method: [trials[each.label] for each in family] for method, family in families.items()},
        [*partial_copy(planned[0].config), *left_out],
        finished[0].stand_in,
    )


def _families(bases: Sequence[Labelled], given: Grid, *, named: bool) -> dict[str, list[Labelled]]:
    """The candidates of every method that has something to tune."""
    check_grid(given, bases)
    families: dict[str, list[Labelled]] = {}
    for base in bases:
        grid = own(base.method, given)
        if not grid:
            paper = PAPER.get(base.method, {})
            grid = {name: values for name, values in paper.items() if name not in base.options}
        if base.method in families:
            raise UserError(f"methods: {base.method!r} is named twice, and is tuned once")
        if grid:
            families[base.method] = candidates(base, grid)
        elif named:
            raise UserError(f"methods: {base.label!r} has nothing to tune; leave it out")
    return families


def _search(
    families: Mapping[str, list[Labelled]],
    planned: Sequence[Job],
    objective: Objective,
    halving: bool,
    workers: int | None,
    heard: Heard | None,
) -> dict[str, Trial]:
    """Every candidate's trial, by label."""
    config = planned[0].config
    ladders: dict[str, list[int | None]] = {
        method: _ladder(len(family), config.rounds, config.evaluate_every) if halving else [None]
        for method, family in families.items()
    }
    alive = {each.label for family in families.values() for each in family}
    trials: dict[str, Trial] = {}
    for step in range(max(map(len, ladders.values()))):
        goals = {m: ladder[step] for m, ladder in ladders.items() if step < len(ladder)}
        due = [
            replace(job, until=goals[job.config.method])
            for job in planned
            if job.label in alive and job.config.method in goals
        ]
        outcomes = try_all(due, workers=workers, heard=heard, needed=step == 0)
        for method, goal in goals.items():
            trained = [each for each in families[method] if each.label in alive]
            for each in trained:
                found = [outcome for (label, _), outcome in outcomes.items() if label == each.label]
                score = objective.mean(found)
                trials[each.label] = Trial(each, goal or config.rounds, found, score)
            best = sorted(trained, key=lambda each: -trials[each.label].score)
            alive -= {each.label for each in best[max(1, len(best) // KEEP) :]}
    return trials


def _ladder(count: int, rounds: int, evaluate_every: int | None) -> list[int | None]:
    """After which rounds candidates are sorted out, so that one is left in the end.

    Evaluated rounds, so that a run that has gone further already has the numbers of them all.
    """
    from aaggff.federation.run import EVALUATIONS

    every = evaluate_every or max(1, rounds // EVALUATIONS)
    steps = 0
    while count > 1:
        count, steps = max(1, count // KEEP), steps + 1
    wanted = [rounds / KEEP**left for left in range(max(steps, 1), 0, -1)]
    return list(dict.fromkeys(min(rounds, max(1, round(each / every)) * every) for each in wanted))
