"""A tuning in print: every value tried, and which was chosen."""

from __future__ import annotations

import math
from collections.abc import Iterator

from aaggff.experiments.jobs import Outcome
from aaggff.experiments.objective import BY_KEY
from aaggff.experiments.tables import METRICS, Cell, Sheet, mean_cell
from aaggff.experiments.tune import Trial, Tuning

SHOWN = ("avg", "worst", "gini", "loss_avg", "loss_worst")


def sheet(tuning: Tuning) -> Sheet:
    """One row per candidate; the chosen ones are marked."""
    chosen = tuning.chosen()
    measures = [BY_KEY[key] for key in SHOWN]
    sorted_out = any(t.rounds < tuning.rounds for each in tuning.trials.values() for t in each)
    rows = []
    for method, trials in tuning.trials.items():
        for trial in trials:
            cells = [_score(trial, trial is chosen.get(method))]
            cells += [Cell(str(trial.rounds))] if sorted_out else []
            done = [each for each in trial.outcomes if isinstance(each, Outcome)]
            for measure in measures:
                values = [getattr(each, measure.source)[measure.entry] for each in done]
                cells.append(mean_cell(values, measure.digits))
            rows.append((trial.candidate.label, cells))
    seeds = ", ".join(map(str, tuning.seeds))
    return Sheet(
        f"{tuning.dataset}: tuned for {tuning.objective.text} on seed{'s' * (len(seeds) > 1)} "
        f"{seeds}, {tuning.rounds} rounds, {METRICS[tuning.metric]} in per cent",
        ["score", *(["rounds"] if sorted_out else []), *(m.title for m in measures)],
        rows,
        list(_notes(tuning, sorted_out)),
    )


def _score(trial: Trial, chosen: bool) -> Cell:
    if trial.failed:
        return Cell("failed")
    return Cell(f"{trial.score:.3f}" if math.isfinite(trial.score) else "none", mark=chosen)


def _notes(tuning: Tuning, sorted_out: bool) -> Iterator[str]:
    if tuning.stand_in:
        yield "STAND-IN DATA: a likeness; its numbers say nothing about the real data set."
    yield "* chosen: the best score of its method (of equal ones the first)."
    small = [m.title for _, m in tuning.objective.parts if not m.larger_is_better]
    if small:
        yield f"A score is larger where it is better, so {' and '.join(small)} count negatively."
    if sorted_out:
        yield (
            "Successive halving: whoever was behind after its rounds was not trained further; "
            "scores after different numbers of rounds do not compare."
        )
    if len(tuning.seeds) == 1:
        yield (
            "One seed decides here: where scores differ by less than a seed's luck (compare shows "
            "it as a deviation), so does the choice. --seeds 100-104 would average over five."
        )
    for method in tuning.trials.keys() - tuning.chosen().keys():
        yield f"{method}: nothing could be chosen, no value has a score."
    for trials in tuning.trials.values():
        for trial in trials:
            if trial.failed:
                yield f"{trial.candidate.label} failed: {trial.failed}"
    yield from tuning.notes
