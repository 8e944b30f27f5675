"""`train` keeps what it says it keeps, and the same settings give the same result."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from aaggff import fairness
from aaggff.errors import UserError
from aaggff.federation.callbacks import Callback
from aaggff.federation.checkpoint import load_checkpoint
from aaggff.federation.config import RunConfig
from aaggff.federation.run import build, judged_clients, train
from tests.report.made_runs import write_run

CONFIG = RunConfig.for_dataset(
    "digits", method="aaggff-d", data={"clients": 6}, per_round=3, rounds=7, evaluate_every=3
)


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def without_times(path: Path) -> list[dict]:
    return [{k: v for k, v in line.items() if k != "seconds"} for line in lines(path)]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    directory = tmp_path_factory.mktemp("runs") / "one"
    return directory, train(CONFIG, directory)


def test_the_directory_holds_what_the_documentation_says(run):
    directory, result = run
    assert sorted(each.name for each in directory.iterdir()) == [
        "checkpoint.safetensors", "clients.jsonl", "config.toml", "done.json", "rounds.jsonl",
    ]  # fmt: skip
    rounds, clients = lines(directory / "rounds.jsonl"), lines(directory / "clients.jsonl")
    assert [line["round"] for line in rounds] == [1, 2, 3, 4, 5, 6, 7]
    assert [line["round"] for line in clients] == [3, 6, 7]
    done = json.loads((directory / "done.json").read_text())
    assert (done["rounds"], done["metric"], done["stand_in"]) == (7, "top1", False)
    assert done["seconds"] == pytest.approx(result.seconds, abs=1e-3)


def test_lines_have_the_keys_that_the_report_was_written_against(run, tmp_path):
    directory, _ = run
    made = write_run(tmp_path / "made", per_round=3, rounds=2, every=2)
    for name in ("rounds.jsonl", "clients.jsonl"):
        ours, theirs = lines(directory / name), lines(made / name)
        assert set(ours[-1]) - {"names"} == set(theirs[-1]) - {"names"}
        assert list(ours[0]) == list(theirs[0]) or name == "clients.jsonl"
    assert set(lines(directory / "clients.jsonl")[0]) == set(lines(made / "clients.jsonl")[0])
    assert "names" not in lines(directory / "clients.jsonl")[1]
    assert set(json.loads((directory / "done.json").read_text())) == set(
        json.loads((made / "done.json").read_text())
    )


def test_the_record_is_about_what_happened(run):
    directory, result = run
    for line in lines(directory / "rounds.jsonl"):
        assert len(line["clients"]) == len(line["losses"]) == len(line["weights"]) == 3
        assert sum(line["weights"]) == pytest.approx(1)
        assert line["objective"] == pytest.approx(np.dot(line["weights"], line["losses"]))
        assert ("metric" in line) == ("loss" in line) == (line["round"] in (3, 6, 7))
    last = lines(directory / "clients.jsonl")[-1]
    summary = fairness.summary(100 * np.array(last["top1"]), last["sizes"])
    assert summary == pytest.approx(lines(directory / "rounds.jsonl")[-1]["metric"])
    assert summary == pytest.approx(result.metric)
    np.testing.assert_array_equal(result.evaluation.values, last["top1"])


def test_the_saved_configuration_gives_the_identical_result(run, tmp_path):
    directory, _ = run
    config = RunConfig.read(directory / "config.toml")
    assert config == CONFIG
    train(config, tmp_path / "again")
    for name in ("rounds.jsonl", "clients.jsonl"):
        assert without_times(tmp_path / "again" / name) == without_times(directory / name)
    one, other = (
        load_checkpoint(each / "checkpoint.safetensors")[0]
        for each in (directory, tmp_path / "again")
    )
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_without_a_directory_nothing_is_written(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    result = train(CONFIG)
    assert list(tmp_path.iterdir()) == []
    assert result.directory is None
    assert result.metric == run[1].metric


def test_a_directory_that_holds_a_run_is_refused_and_says_how_to_go_on(run):
    with pytest.raises(UserError, match="already holds a run: `aaggff run --resume"):
        train(CONFIG, run[0])


def test_methods_are_paired_by_seed():
    """The same seed: the same split, the same first model, the same clients asked."""
    one, other = (build(CONFIG.but(method=method)) for method in ("fedavg", "term"))
    for k in range(6):
        assert torch.equal(one.data.train(k)[0], other.data.train(k)[0])
    first, second = one.state_dict()[0], other.state_dict()[0]
    assert torch.equal(first["model.linear.weight"], second["model.linear.weight"])
    assert [one.step()["clients"] for _ in range(4)] == [other.step()["clients"] for _ in range(4)]


def test_another_seed_is_another_run():
    one, other = (build(CONFIG.but(seed=seed)) for seed in (0, 1))
    assert not torch.equal(one.data.train(0)[0][:5], other.data.train(0)[0][:5])
    assert not torch.equal(
        one.state_dict()[0]["model.linear.weight"], other.state_dict()[0]["model.linear.weight"]
    )


def test_drop_outs_are_in_the_record(tmp_path):
    train(CONFIG.but(per_round=5, drop_out=0.4, slow=0.3, rounds=20), tmp_path / "run")
    rounds = lines(tmp_path / "run" / "rounds.jsonl")
    assert all(len(line["clients"]) + len(line["dropped"]) == 5 for line in rounds)
    assert not any(set(line["clients"]) & set(line["dropped"]) for line in rounds)
    assert 1 < np.mean([len(line["dropped"]) for line in rounds]) < 4


class Watching(Callback):
    def __init__(self):
        self.seen = []

    def on_evaluation(self, federation, evaluation, record):
        self.seen.append(("evaluation", record["round"], record["metric"]["avg"]))

    def on_round(self, federation, record):
        assert federation.round == record["round"]
        self.seen.append(("round", record["round"], "metric" in record))

    def on_end(self, federation):
        self.seen.append("end")


def test_callbacks_hear_of_evaluations_then_rounds_then_the_end():
    watching = Watching()
    result = train(CONFIG.but(rounds=4), callbacks=[watching])
    kinds = [each if each == "end" else each[:2] for each in watching.seen]
    assert kinds == [
        ("round", 1), ("round", 2), ("evaluation", 3), ("round", 3), ("evaluation", 4),
        ("round", 4), "end",
    ]  # fmt: skip
    assert watching.seen[-3][2] == result.metric["avg"]


def test_a_callback_that_fails_ends_the_run_but_not_its_record(tmp_path):
    class Failing(Watching):
        def on_round(self, federation, record):
            super().on_round(federation, record)
            if record["round"] == 5:
                raise RuntimeError("mine")

    failing = Failing()
    with pytest.raises(RuntimeError, match="mine"):
        train(CONFIG, tmp_path / "run", callbacks=[failing])
    assert failing.seen[-1] == "end"
    assert len(lines(tmp_path / "run" / "rounds.jsonl")) == 5
    assert train(CONFIG, tmp_path / "run", resume=True).rounds == 7


def test_a_sample_of_clients_stands_for_all_and_says_so(tmp_path):
    config = RunConfig.for_dataset(
        "synthetic", data={"clients": 50}, rounds=4, evaluate_every=2, evaluate_clients=9
    )
    result = train(config, tmp_path / "run")
    first, second = lines(tmp_path / "run" / "clients.jsonl")
    assert len(first["top1"]) == len(first["names"]) == len(set(first["clients"])) == 9
    assert first["of"] == 50
    assert first["clients"] == result.evaluation.clients.tolist() == sorted(first["clients"])
    assert second["sizes"] == first["sizes"]
    chosen = judged_clients(config, 50)
    np.testing.assert_array_equal(chosen, judged_clients(config.but(method="fedavg"), 50))
    assert not np.array_equal(chosen, judged_clients(config.but(seed=5), 50))
    everybody = train(config.but(evaluate_clients=None))
    np.testing.assert_array_equal(everybody.evaluation.loss[chosen], result.evaluation.loss)


@pytest.mark.parametrize(
    ("asked", "clients", "judged"),
    [(None, 20_000, None), (None, 20_001, 2_000), (30, 30, None), (30, 31, 30), (90, 31, None)],
)
def test_how_many_are_evaluated(asked, clients, judged):
    found = judged_clients(CONFIG.but(evaluate_clients=asked), clients)
    assert (None if found is None else len(found)) == judged


def test_without_the_extra_flower_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "aaggff.deploy.flower.engine", None)
    with pytest.raises(UserError, match=r"pip install 'aaggff\[flower\]'"):
        train(CONFIG.but(engine="flower"))


def test_flower_is_handed_the_configuration(monkeypatch):
    from types import SimpleNamespace

    seen = []
    engine = SimpleNamespace(train=lambda *given, **more: seen.append((given, more)))
    monkeypatch.setitem(__import__("sys").modules, "aaggff.deploy.flower.engine", engine)
    config = CONFIG.but(engine="flower")
    train(config, Path("nowhere"), resume=True, until=3)
    ((given, more),) = seen
    assert given == (config, Path("nowhere"))
    assert (more["resume"], more["until"]) == (True, 3)
