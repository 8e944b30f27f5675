"""Tuning: the paper's grids or one's own, on a seed of their own, for what one asks, kept apart."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from aaggff.decision.responses import CDFS
from aaggff.errors import UserError
from aaggff.experiments import jobs, tuned_file
from aaggff.experiments.compare import Heard, compare
from aaggff.experiments.grids import PAPER
from aaggff.experiments.jobs import Failed, Job, Outcome
from aaggff.experiments.labels import Labelled
from aaggff.experiments.objective import parse_objective
from aaggff.experiments.tune import Trial, Tuning, tune
from aaggff.experiments.tune_table import sheet

FEW = {"rounds": 3}


def quick(methods: list[str] | None = None, **more: Any) -> Tuning:
    return tune("heart", methods, **{"settings": FEW, "workers": 1, **more})


def test_the_paper_s_grids_are_its_appendix_s() -> None:
    paper = {
        "afl": {"gamma": [0.01, 0.1, 1]},
        "qfedavg": {"q": [0.1, 1, 5]},
        "term": {"lam": [0.1, 1, 10]},
        "fedmgda": {"epsilon": [0.1, 0.5, 1]},
        "propfair": {"baseline": [2, 3, 5]},
        "aaggff-s": {"cdf": list(CDFS)},
        "aaggff-d": {"cdf": list(CDFS)},
    }
    assert paper == PAPER
    assert len(CDFS) == 6


def test_without_methods_everything_that_has_a_grid_is_tried_on_seed_0() -> None:
    planned: list[Job] = []
    found = quick(heard=Heard(planned=planned.extend), settings={"rounds": 1})
    assert {name: len(trials) for name, trials in found.trials.items()} == {
        **dict.fromkeys(("qfedavg", "term", "propfair", "afl", "fedmgda"), 3),
        **dict.fromkeys(("aaggff-s", "aaggff-d"), 6),
    }
    assert {job.seed for job in planned} == {0}
    assert found.seeds == [0]


def test_every_candidate_is_the_run_that_compare_makes_and_the_best_is_chosen() -> None:
    found = quick(["term"], grid={"lam": [0.1, 5.0]}, seeds=[7, 8], metric="loss_worst")
    labels = ["term:lam=0.1", "term:lam=5.0"]
    alone = compare("heart", labels, [7, 8], settings=FEW, workers=1)
    for trial in found.trials["term"]:
        outcomes = alone.outcomes[trial.candidate.label]
        mean = sum(each.loss["worst_client"] for each in outcomes) / 2
        assert trial.score == pytest.approx(-mean, rel=1e-12)
    best = found.chosen()["term"]
    assert best.score == max(trial.score for trial in found.trials["term"])
    assert best.candidate.label == "term:lam=5.0"  # what favours the worst-off lowers its loss


def test_a_grid_of_one_s_own_replaces_the_paper_s_where_a_method_has_the_option() -> None:
    found = quick(["qfedavg", "term"], grid={"q": [2.0], "step": ["plain", "authors"]})
    assert [trial.candidate.label for trial in found.trials["qfedavg"]] == [
        "qfedavg:q=2.0:step=plain",
        "qfedavg:q=2.0:step=authors",
    ]
    assert len(found.trials["term"]) == 3


@pytest.mark.parametrize(
    ("methods", "grid", "said"),
    [
        (["term"], {"lambda": [1]}, "did you mean 'lam'"),
        (["term"], {"lam": ["much"]}, "lam"),
        (["term:lam=1"], {"lam": [2]}, "leave one of them out"),
        (["fedavg"], {}, "'fedavg' has nothing to tune"),
        (["term", "term:lam=1"], {}, "named twice"),
    ],
)
def test_a_grid_that_fits_nobody_is_refused_before_anything_runs(
    methods: list[str], grid: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "attempt", lambda *_: pytest.fail("ran"))
    with pytest.raises(UserError, match=said):
        quick(methods, grid=grid)


def made(**values: float) -> Outcome:
    metric = dict.fromkeys(("avg", "worst", "best", "gini", "gap"), 0.0) | values
    loss = {"avg": values.get("loss_avg", 0.0), "worst_client": values.get("loss_worst", 0.0)}
    return Outcome(metric, loss, "auroc", False, 0.0, 0.0)


@pytest.mark.parametrize(
    ("text", "better", "worse"),
    [
        ("avg", made(avg=80), made(avg=79, worst=99)),
        ("worst", made(worst=50), made(worst=49, avg=99)),
        ("0.7*avg+0.3*worst", made(avg=80, worst=60), made(avg=81, worst=57)),
        ("gini", made(gini=3), made(gini=4)),
        ("avg+10*loss_worst", made(avg=80, loss_worst=0.5), made(avg=80, loss_worst=0.6)),
    ],
)
def test_a_metric_or_a_mix_prefers_what_is_better(
    text: str, better: Outcome, worse: Outcome
) -> None:
    objective = parse_objective(text)
    assert objective.score(better) > objective.score(worse)
    assert objective.score(worse) > objective.score(Failed("diverged"))
    assert objective.score(made(avg=math.nan, worst=math.nan, gini=math.nan)) == -math.inf


@pytest.mark.parametrize("text", ["", "avrg", "0.5avg", "avg-worst", "0*avg", "avg+"])
def test_a_metric_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UserError):
        parse_objective(text)


def test_a_value_that_diverges_is_named_and_never_chosen(tmp_path: Path) -> None:
    found = quick(["qfedavg"], grid={"q": [0.1, 1.0]}, settings={"rounds": 3})
    first, second = found.trials["qfedavg"]
    failed = Trial(first.candidate, 3, [Failed("round 2: the model is not finite")], -math.inf)
    mixed = Tuning("heart", "auroc", [0], 3, found.objective, {"qfedavg": [failed, second]})
    assert mixed.chosen() == {"qfedavg": second}
    assert mixed.as_json()["methods"]["qfedavg"][0] | {"options": None} == {
        "label": "qfedavg:q=0.1", "options": None, "rounds": 3, "score": None, "chosen": False,
        "failed": "round 2: the model is not finite", "avg": [None], "worst": [None],
        "best": [None], "gini": [None], "gap": [None], "loss_avg": [None], "loss_worst": [None],
    }  # fmt: skip
    assert "qfedavg:q=0.1 failed: round 2: the model is not finite" in sheet(mixed).notes
    none = Tuning("heart", "auroc", [0], 3, found.objective, {"qfedavg": [failed]})
    assert none.chosen() == {}
    assert "qfedavg: nothing could be chosen, no value has a score." in sheet(none).notes
    tuned_file.write(tmp_path / "tuned.toml", none, {}, {})
    assert tuned_file.read(tmp_path / "tuned.toml", "heart", [1]) == {}


def test_successive_halving_trains_the_best_furthest_and_does_a_third_of_the_work(
    tmp_path: Path,
) -> None:
    rounds = 27
    settings = {"rounds": rounds, "evaluate_every": 1}
    grid = {"lam": [0.1, 0.3, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]}
    far: dict[tuple[str, int], int] = {}

    def at(job: Job, outcome: Outcome | Failed, was_there: bool) -> None:
        far[job.label, job.seed] = max(far.get((job.label, job.seed), 0), job.until or rounds)

    options = {"grid": grid, "metric": "loss_worst", "settings": settings}
    found = quick(["term"], **options, halving=True, out=tmp_path, heard=Heard(done=at))
    trials = found.trials["term"]
    assert sorted((trial.rounds for trial in trials), reverse=True) == [9, 9, 9, *[3] * 6]
    assert sum(far.values()) <= rounds * len(trials) / 3
    # Each trial's score is that of a plain run of so many rounds, under the same schedule.
    for trial in trials:
        lines = (tmp_path / trial.candidate.label / "seed-0" / "rounds.jsonl").read_text()
        assert len(lines.splitlines()) == trial.rounds
    early = {trial.candidate.label: trial.score for trial in trials if trial.rounds == 3}
    best = found.chosen()["term"]
    assert best.rounds == 9
    assert best.score == max(trial.score for trial in trials if trial.rounds == 9)
    again = quick(["term"], **options, halving=True, out=tmp_path)
    assert again.as_json() == found.as_json()
    assert len(early) == 6
    whole = quick(["term"], **options, out=tmp_path)
    assert {trial.rounds for trial in whole.trials["term"]} == {rounds}


def test_halving_falls_back_on_who_came_less_far_if_the_last_one_diverges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = jobs.attempt

    def attempt(job: Job, tell: Any) -> Outcome | Failed:
        return Failed("it diverged") if (job.until or 0) > 2 else true(job, tell)

    monkeypatch.setattr(jobs, "attempt", attempt)
    grid = {"lam": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}
    settings = {"rounds": 18, "evaluate_every": 2}
    found = quick(["term"], grid=grid, settings=settings, halving=True, out=tmp_path)
    assert found.chosen()["term"].rounds == 2
    assert sum(bool(trial.failed) for trial in found.trials["term"]) == 2


def test_halving_needs_a_place_and_seeds_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="needs a directory"):
        quick(["term"], halving=True)
    with pytest.raises(UserError, match="at least one to tune on"):
        quick(["term"], seeds=[])


def test_what_is_tuned_feeds_compare_but_never_on_the_same_seed(tmp_path: Path) -> None:
    found = quick(["term", "qfedavg"], metric="loss_worst", seeds=[100])
    file = tmp_path / "tuned.toml"
    tuned_file.write(file, found, {}, FEW)
    options = tuned_file.read(file, "heart", [2, 4])
    assert options == {
        name: dict(trial.candidate.options) for name, trial in found.chosen().items()
    }
    tuned = compare("heart", ["term"], [2], settings=FEW, tuned=options, workers=1)
    spelled = found.chosen()["term"].candidate.label
    alone = compare("heart", [spelled], [2], settings=FEW, workers=1)
    assert tuned.as_json()["methods"]["term"] == alone.as_json()["methods"][spelled]
    plain = compare("heart", ["term"], [2], settings=FEW, workers=1)
    assert tuned.as_json() != plain.as_json()
    with pytest.raises(UserError, match="tuned on seed 100, which is among the seeds compared"):
        tuned_file.read(file, "heart", [2, 100])
    with pytest.raises(UserError, match="tuned on heart, not on berka"):
        tuned_file.read(file, "berka", [2])


def test_a_tuned_file_keeps_methods_tuned_alike_and_refuses_others(tmp_path: Path) -> None:
    file = tmp_path / "tuned.toml"
    way = {"dataset": "heart", "seeds": [100], "metric": "avg", "settings": FEW}
    assert tuned_file.before(file, way, replaceable=False) == {}
    tuned_file.write(file, quick(["term"], seeds=[100]), {}, FEW)
    kept = tuned_file.before(file, way, replaceable=False)
    tuned_file.write(file, quick(["propfair"], seeds=[100]), kept, FEW)
    assert set(tuned_file.read(file, "heart", [1])) == {"term", "propfair"}
    other = way | {"metric": "worst"}
    with pytest.raises(UserError, match="tuned with metric = avg, and this is with worst"):
        tuned_file.before(file, other, replaceable=False)
    assert tuned_file.before(file, other, replaceable=True) == {}


@pytest.mark.parametrize(
    "text", ["", "not toml [", 'dataset = "heart"\nseeds = ["x"]\n[methods]\n', "seeds = [1]\n"]
)
def test_a_file_that_tune_did_not_write_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tuned.toml"
    file.write_text(text)
    with pytest.raises(UserError, match=r"tuned\.toml is not a file written by"):
        tuned_file.read(file, "heart", [1])
    with pytest.raises(UserError, match="cannot read"):
        tuned_file.read(tmp_path / "nothing.toml", "heart", [1])


def test_options_that_are_fixed_in_a_name_are_chosen_with_it() -> None:
    found = quick(["qfedavg:step=plain"])
    chosen = found.chosen()["qfedavg"].candidate
    assert isinstance(chosen, Labelled)
    assert chosen.options["step"] == "plain"
    assert set(chosen.options) == {"step", "q"}
