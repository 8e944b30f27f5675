"""A kill at any moment costs nothing but the rounds since the checkpoint.

The runs are real processes and die of a real SIGKILL. A fork server imports torch once, so that
a new process costs milliseconds.
"""

import json
import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import pytest
import torch

from aaggff.errors import UserError
from aaggff.federation.checkpoint import load_checkpoint
from aaggff.federation.config import RunConfig
from aaggff.federation.run import train

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["aaggff.federation.run", "aaggff.federation.federation"])

DIGITS = {"dataset": "digits", "data": {"clients": 8}, "rounds": 60}
SETTINGS = {
    "aaggff-d and adam, clients drop out": {
        "method": "aaggff-d", "method_options": {"fit": "spacing", "strength": 5},
        "per_round": 4, "server_optimizer": "adam", "drop_out": 0.2, "checkpoint_every": 7,
    },
    "aaggff-s and momentum": {
        "method": "aaggff-s", "per_round": "everybody", "server_optimizer": "momentum",
        "checkpoint_every": 1,
    },
    "q-fedavg and yogi, an mlp that drops out": {
        "method": "qfedavg", "server_optimizer": "yogi", "checkpoint_every": 5, "model": "mlp",
        "model_options": {"hidden": 8, "dropout": 0.3},
    },
}  # fmt: skip


def configured(name: str) -> RunConfig:
    return RunConfig.for_dataset(**(DIGITS | SETTINGS[name]))


def work(config: RunConfig, directory: Path) -> None:
    torch.set_num_threads(1)
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    train(config, directory, resume=True, stop=lambda: bool(stopped))


def rounds_written(directory: Path) -> int:
    path = directory / "rounds.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def state(directory: Path) -> tuple[dict, list[dict], list[dict], dict]:
    tensors, facts = load_checkpoint(directory / "checkpoint.safetensors")
    facts.pop("seconds")
    rounds, clients = (
        [json.loads(line) for line in (directory / name).read_text().splitlines()]
        for name in ("rounds.jsonl", "clients.jsonl")
    )
    for line in rounds:
        line.pop("seconds")
    return tensors, rounds, clients, facts


def assert_same_run(directory: Path, other: Path) -> None:
    (tensors, *rest), (expected, *expected_rest) = state(directory), state(other)
    assert tensors.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(tensors[name], tensor), name
    assert rest == expected_rest
    assert (directory / "done.json").exists()
    assert not list(directory.glob(".*"))


@pytest.mark.parametrize("name", SETTINGS)
def test_killed_at_random_moments_it_still_ends_at_the_identical_model(name, tmp_path):
    config = configured(name)
    whole, directory = tmp_path / "whole", tmp_path / "killed"
    train(config, whole)
    moments = random.Random(name)
    kills = 0
    while not (directory / "done.json").exists():
        process = processes.Process(target=work, args=(config, directory))
        before = rounds_written(directory)
        process.start()
        goal = before + moments.randint(1, 18)
        while process.is_alive() and rounds_written(directory) < goal:
            time.sleep(0.001)
        time.sleep(moments.random() * 0.01)
        if process.is_alive() and kills < 5:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.join()
    assert kills >= 2
    for leftover in directory.glob(".*.part"):  # of a write the kill cut short
        leftover.unlink()
    assert_same_run(directory, whole)


def test_asked_to_stop_it_finishes_the_round_saves_and_goes_on_later(tmp_path):
    config = configured("aaggff-d and adam, clients drop out")
    whole, directory = tmp_path / "whole", tmp_path / "stopped"
    train(config, whole)
    counted = []

    def after_eleven() -> bool:
        counted.append(1)
        return len(counted) == 11

    result = train(config, directory, stop=after_eleven)
    assert result.rounds == 11
    assert load_checkpoint(directory / "checkpoint.safetensors")[1]["round"] == 11
    assert rounds_written(directory) == 11
    assert not (directory / "done.json").exists()
    train(config, directory, resume=True)
    assert_same_run(directory, whole)


def test_more_rounds_can_be_added_to_a_finished_run(tmp_path):
    settings = {"evaluate_every": 10, "checkpoint_every": 10}
    config = configured("aaggff-s and momentum").but(**settings)
    train(config, tmp_path / "whole")
    train(config.but(rounds=30), tmp_path / "longer")
    train(config, tmp_path / "longer", resume=True)
    assert_same_run(tmp_path / "longer", tmp_path / "whole")


def test_resuming_a_finished_run_trains_nothing_and_gives_its_result(tmp_path):
    config = configured("aaggff-s and momentum").but(rounds=5)
    first = train(config, tmp_path / "run")
    before = (tmp_path / "run" / "rounds.jsonl").read_bytes()
    again = train(config, tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "rounds.jsonl").read_bytes() == before
    assert again.metric == first.metric
    assert again.loss == first.loss


def test_resuming_with_other_settings_changes_nothing_on_disk(tmp_path):
    config = configured("aaggff-s and momentum").but(rounds=5)
    train(config, tmp_path / "run")
    before = {each.name: each.read_bytes() for each in (tmp_path / "run").iterdir()}
    with pytest.raises(UserError, match=r"saved with lr = 0\.1, and the run to resume has 0\.2"):
        train(config.but(lr=0.2), tmp_path / "run", resume=True)
    assert {each.name: each.read_bytes() for each in (tmp_path / "run").iterdir()} == before


@pytest.mark.parametrize("executor", ["sequential", "batched", "processes"])
def test_a_run_can_be_resumed_with_any_executor(executor, tmp_path):
    config = RunConfig.for_dataset("heart", method="aaggff-s", rounds=6, checkpoint_every=3)
    train(config.but(executor="sequential"), tmp_path / "whole")
    train(config.but(rounds=3, executor="sequential"), tmp_path / "run")
    train(config.but(executor=executor, workers=2), tmp_path / "run", resume=True)
    ours, theirs = (
        load_checkpoint(tmp_path / each / "checkpoint.safetensors")[0] for each in ("run", "whole")
    )
    for name, tensor in theirs.items():
        torch.testing.assert_close(ours[name], tensor, rtol=1e-5, atol=1e-5)
