"""Comparisons: paired by seed, kept on disk, never done twice, and honest about what differs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from aaggff.errors import UserError
from aaggff.experiments import jobs
from aaggff.experiments.compare import (
    MEASURES,
    Comparison,
    Heard,
    choose,
    compare,
    default_directory,
    plan,
)
from aaggff.experiments.jobs import Job, Outcome
from aaggff.experiments.labels import Labelled
from aaggff.experiments.tables import mean_cell, signed
from aaggff.federation.config import RunConfig
from aaggff.federation.run import train
from tests.experiments.test_pool import wait_until

THREE = ["fedavg", "uniform", "term"]


def few(out: Path | None = None, **more: object) -> Comparison:
    return compare(
        "heart", THREE, [2, 4], **{"settings": {"rounds": 6}, "out": out, "workers": 1, **more}
    )  # type: ignore[arg-type]


def test_every_method_under_every_seed_is_the_run_that_train_makes(tmp_path: Path) -> None:
    found = few(tmp_path)
    assert (found.dataset, found.rounds, found.seeds) == ("heart", 6, [2, 4])
    assert list(found.outcomes) == ["fedavg", "uniform", "term"]
    alone = train(RunConfig.for_dataset("heart", method="term", seed=4, rounds=6))
    assert found.outcomes["term"][1].metric == pytest.approx(alone.metric, rel=1e-12)
    assert found.outcomes["term"][1].loss == pytest.approx(alone.loss, rel=1e-12)
    assert (tmp_path / "term" / "seed-4" / "done.json").exists()


def test_what_is_kept_and_what_is_not_is_the_same(tmp_path: Path) -> None:
    assert few(tmp_path).as_json() == few(None).as_json()
    kept, not_kept = few(tmp_path), few(None)
    for label, outcomes in kept.outcomes.items():
        for ours, theirs in zip(outcomes, not_kept.outcomes[label]):
            assert ours.objective == pytest.approx(theirs.objective, rel=1e-12)


def test_one_worker_and_two_give_the_same_numbers(tmp_path: Path) -> None:
    assert few(tmp_path / "one").as_json() == few(tmp_path / "two", workers=2).as_json()


def test_methods_are_paired_by_seed(tmp_path: Path) -> None:
    """The clients' first losses are of the same model on the same split."""
    few(tmp_path)
    first = {
        label: json.loads((tmp_path / label / "seed-2" / "rounds.jsonl").open().readline())
        for label in ("fedavg", "term")
    }
    assert first["fedavg"]["losses"] == first["term"]["losses"]
    other = json.loads((tmp_path / "fedavg" / "seed-4" / "rounds.jsonl").open().readline())
    assert other["losses"] != first["fedavg"]["losses"]


def test_what_is_done_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = few(tmp_path)
    heard: list[bool] = []
    monkeypatch.setattr(jobs, "work", lambda *_: pytest.fail("ran again"))
    after = few(tmp_path, heard=Heard(done=lambda job, outcome, there: heard.append(there)))
    assert heard == [True] * 6
    assert after.as_json() == before.as_json()


def test_more_methods_and_seeds_add_to_it(tmp_path: Path) -> None:
    few(tmp_path)
    heard: list[tuple[str, int, bool]] = []
    compare(
        "heart",
        [*THREE, Labelled("term:lam=5", "term", {"lam": 5})],
        [2, 4, 6],
        settings={"rounds": 6},
        out=tmp_path,
        workers=1,
        heard=Heard(done=lambda job, _, there: heard.append((job.label, job.seed, there))),
    )
    again = {(label, seed) for label, seed, there in heard if not there}
    assert again == {("fedavg", 6), ("uniform", 6), ("term", 6)} | {
        ("term:lam=5", seed) for seed in (2, 4, 6)
    }


def test_another_run_in_the_same_place_is_an_error_that_says_so(tmp_path: Path) -> None:
    few(tmp_path)
    with pytest.raises(UserError, match=r"seed-2 holds a run with rounds = 6.*has 7.*--out"):
        few(tmp_path, settings={"rounds": 7})
    with pytest.raises(UserError, match=r"lr = 0.01, and this one has 0.5"):
        few(tmp_path, settings={"rounds": 6, "lr": 0.5})
    # The half-done count as well.
    (tmp_path / "fedavg" / "seed-2" / "done.json").unlink()
    with pytest.raises(UserError, match="seed-2 holds a run"):
        few(tmp_path, settings={"rounds": 6, "lr": 0.5})


def test_how_a_run_is_carried_out_may_differ(tmp_path: Path) -> None:
    few(tmp_path)
    heard: list[bool] = []
    few(
        tmp_path,
        settings={"rounds": 6, "checkpoint_every": 2, "executor": "sequential"},
        heard=Heard(done=lambda job, outcome, there: heard.append(there)),
    )
    assert heard == [True] * 6


def test_a_half_done_run_is_resumed(tmp_path: Path) -> None:
    whole = few(tmp_path / "whole")
    config = RunConfig.for_dataset("heart", method="fedavg", seed=2, rounds=6)
    half = tmp_path / "half" / "fedavg" / "seed-2"
    asked = iter([False, False, False, True])
    train(config, half, stop=lambda: next(asked))
    assert (half / "checkpoint.safetensors").exists()
    assert not (half / "done.json").exists()
    first_lines = (half / "rounds.jsonl").read_text().splitlines()
    assert few(tmp_path / "half").as_json() == whole.as_json()
    lines = (half / "rounds.jsonl").read_text().splitlines()
    assert len(lines) == 6
    assert lines[:4] == first_lines[:4]


def test_options_in_a_label_beat_set_and_set_beats_what_was_tuned() -> None:
    methods = [Labelled("qfedavg", "qfedavg"), Labelled("qfedavg:q=5", "qfedavg", {"q": 5})]
    tuned = {"qfedavg": {"q": 0.1, "step": "plain"}, "term": {"lam": 3}}
    planned = plan("heart", methods, [1], tuned=tuned)
    assert [job.config.method_options for job in planned] == [
        {"q": 0.1, "step": "plain"},
        {"q": 5.0, "step": "plain"},
    ]
    planned = plan("heart", methods, [1], tuned=tuned, settings={"method_options": {"q": 2}})
    assert [job.config.method_options["q"] for job in planned] == [2.0, 5.0]


def test_an_option_set_for_all_goes_to_those_that_have_it() -> None:
    methods = [Labelled(name, name) for name in ("fedavg", "aaggff-d")]
    planned = plan("heart", methods, [1], settings={"method_options": {"cdf": "weibull"}})
    assert planned[0].config.method_options == {}
    assert planned[1].config.method_options["cdf"] == "weibull"
    with pytest.raises(UserError, match="strenght"):
        plan("heart", methods, [1], settings={"method_options": {"strenght": 3}})


def test_all_leaves_out_what_needs_everybody_where_clients_are_sampled() -> None:
    everybody, none = choose("heart", None, {})
    assert none == []
    kept, said = choose("synthetic", None, {"per_round": 5})
    names = {each.method for each in kept}
    assert {each.method for each in everybody} - names == {"afl", "aaggff-s"}
    assert len(said) == 2
    assert all("needs everybody every round, and here clients are sampled" in line for line in said)
    assert "aaggff-d" in names
    with pytest.raises(UserError, match="'afl' needs everybody"):
        plan("synthetic", [Labelled("afl", "afl")], [1], settings={"per_round": 5})


def test_an_option_set_for_all_methods_need_not_be_known_to_all_of_them() -> None:
    option = {"method_options": {"cdf": "weibull"}}
    methods, _ = choose("heart", None, option)
    planned = {job.label: job.config.method_options for job in plan(
        "heart", methods, [1], settings=option)}  # fmt: skip
    assert {name for name, options in planned.items() if options.get("cdf") == "weibull"} == {
        "aaggff-s",
        "aaggff-d",
    }


def test_the_leader_may_be_used_with_everybody() -> None:
    found = compare(
        "heart", [Labelled("aaggff-d", "aaggff-d")], [2], settings={"rounds": 2}, workers=1
    )
    assert found.references == []
    assert found.tests() == 0


def test_json_is_as_designed(tmp_path: Path) -> None:
    content = few().as_json()
    assert list(content) == ["dataset", "rounds", "seeds", "metric", "methods"]
    for numbers in content["methods"].values():
        assert {"avg", "worst", "best", "gini", "gap", "loss_avg", "loss_worst"} <= set(numbers)
        assert all(len(values) == 2 for values in numbers.values())
        assert all(0 <= value <= 100 for value in numbers["avg"])
    json.dumps(content, allow_nan=False)


def test_the_number_of_tests_is_what_is_corrected_for() -> None:
    found = few()
    measures = len(MEASURES)
    assert found.tests() == 3 * measures  # three pairs: one of them of the two references
    raw = {
        (reference, measure, *sorted([reference, label])): (d.p, d.corrected)
        for reference, by_measure in found.differences().items()
        for measure, by_label in by_measure.items()
        for label, d in by_label.items()
    }
    assert len({key[1:] for key in raw}) == found.tests()


def test_other_settings_have_another_place() -> None:
    plain = default_directory("heart", {}, {})
    assert plain == Path("runs/heart")
    places = {default_directory("heart", {"rounds": n}, {}) for n in (1, 2)} | {plain}
    places.add(default_directory("heart", {}, {"term": {"lam": 2.0}}))
    assert len(places) == 4


def test_a_missing_value_is_null_and_not_nan() -> None:
    outcome = Outcome(
        dict.fromkeys(("avg", "worst", "best", "gini", "gap"), np.nan), {}, "auroc", False, 0, 0
    )
    found = Comparison("heart", "auroc", 1, [1], {"fedavg": [outcome]})
    assert found.values(MEASURES[0])["fedavg"] == pytest.approx([np.nan], nan_ok=True)


@pytest.mark.slow
def test_interrupted_by_the_keyboard_and_killed_it_goes_on_where_it_was(tmp_path: Path) -> None:
    """The command in processes of its own: Ctrl-C, then SIGKILL, then to the end."""
    place = tmp_path / "runs"
    command = [
        *(sys.executable, "-c", "from aaggff.cli import main; main()"),
        *("compare", "heart", "--methods", "fedavg,term", "--seeds", "1-4", "--rounds", "40"),
        *("--out", str(place), "--json"),
    ]
    command += [str(tmp_path / "found.json"), "--workers", "2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}

    def done() -> dict[Path, int]:
        return {file: file.stat().st_mtime_ns for file in place.rglob("done.json")}

    seen: dict[Path, int] = {}
    for least, how in ((1, signal.SIGINT), (3, signal.SIGKILL)):
        process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        wait_until(lambda least=least, p=process: len(done()) >= least or p.poll() is not None)
        assert process.poll() is None, "finished before it could be interrupted"
        os.killpg(process.pid, how) if how == signal.SIGINT else process.kill()
        said = process.communicate(timeout=60)[1]
        if how == signal.SIGINT:
            assert process.returncode == 130
            assert "the same command goes on from here" in said
            assert "Traceback" not in said
        assert all(done()[file] == when for file, when in seen.items())
        seen = done()
    last = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert last.returncode == 0, last.stderr
    assert f"{len(seen)} of 8 runs were there already" in last.stderr
    assert all(done()[file] == when for file, when in seen.items())
    two = ["fedavg", "term"]
    straight = compare("heart", two, [1, 2, 3, 4], settings={"rounds": 40}, workers=1)
    assert json.loads((tmp_path / "found.json").read_text()) == straight.as_json()


def test_a_run_that_cannot_go_on_says_which_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def diverge(job: Job, tell: object) -> Outcome:
        raise UserError("round 3: the model has diverged")

    monkeypatch.setattr(jobs, "_train", diverge)
    with pytest.raises(UserError, match=r"^fedavg under seed 2: round 3: the model has diverged$"):
        few()


def test_what_has_diverged_is_printed_in_a_few_digits() -> None:
    wild = [2e30, 4e30]
    assert mean_cell(wild, 3).text == "3e+30"
    assert mean_cell(wild, 3).small == "1.41e+30"
    assert [signed(value, 2) for value in (-3e30, 3e30, 0.001, -0.001)] == [
        "-3e+30",
        "+3e+30",
        "0.00",
        "0.00",
    ]


def test_jobs_know_their_seed() -> None:
    assert Job("a", RunConfig.for_dataset("heart", seed=9)).seed == 9
