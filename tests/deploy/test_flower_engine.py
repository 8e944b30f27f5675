"""`aaggff run --engine flower`: Flower's simulation computes what the local engine does."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from aaggff.errors import UserError
from aaggff.federation.checkpoint import load_checkpoint
from aaggff.federation.config import RunConfig
from aaggff.federation.run import train

pytestmark = [pytest.mark.deploy, pytest.mark.slow]

SETTINGS = {
    "aaggff-s": {},
    "aaggff-d, sampled, some drop out, adam": {
        "method": "aaggff-d", "per_round": 3, "drop_out": 0.3, "server_optimizer": "adam",
    },
    "a net with batch norm and dropout, fedmgda, fedprox": {
        "method": "fedmgda", "model": f"{__name__}:net", "prox": 1e-3,
    },
}  # fmt: skip


MARK = "AAGGFF_TEST_OF_THE_ENGINE"


@pytest.fixture(autouse=True)
def _marked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(MARK, str(tmp_path))  # all that is started from here on inherits it


def net(shape: tuple[int, ...], task: object) -> nn.Module:
    return nn.Sequential(
        nn.Linear(shape[0], 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 1)
    )


def fails_elsewhere(shape: tuple[int, ...], task: object) -> nn.Module:
    if "default_worker" in sys.argv[0]:
        raise ValueError("no such luck")
    return nn.Linear(shape[0], 1)


@pytest.mark.parametrize("name", SETTINGS)
def test_it_equals_the_local_engine(name: str, tmp_path: Path) -> None:
    config = RunConfig.for_dataset("heart", rounds=3, seed=2, **SETTINGS[name])  # type: ignore[arg-type]
    here, there = tmp_path / "local", tmp_path / "flower"
    own = train(config, here)
    on_flower = config.but(engine="flower")
    if "sampled" in name:  # stopped in between, and gone on with
        train(on_flower, there, until=2)
    found = train(on_flower, there, resume="sampled" in name)
    models = [load_checkpoint(each / "checkpoint.safetensors")[0] for each in (here, there)]
    assert models[0].keys() == models[1].keys()
    for tensor, value in models[0].items():
        torch.testing.assert_close(models[1][tensor], value, rtol=1e-5, atol=1e-5)
    assert found.metric == pytest.approx(own.metric, abs=1e-3, nan_ok=True)
    assert found.rounds == 3
    for one, other in zip(lines(here / "rounds.jsonl"), lines(there / "rounds.jsonl"), strict=True):
        assert one.keys() == other.keys()
        for key in ("round", "clients", "sizes", "dropped", "set_aside", "lr"):
            assert one[key] == other[key]
        assert one["weights"] == pytest.approx(other["weights"], abs=1e-5)
        assert one["losses"] == pytest.approx(other["losses"], abs=1e-5)
    assert (there / "done.json").exists()
    assert left_running() == []


def test_a_client_that_fails_ends_the_run_with_its_reason() -> None:
    config = RunConfig.for_dataset("heart", rounds=2, model=f"{__name__}:fails_elsewhere")
    with pytest.raises(UserError, match="no such luck"):
        train(config.but(engine="flower"))
    assert left_running() == []


def test_what_the_simulation_cannot_do_is_said_before_it_starts() -> None:
    many = RunConfig.for_dataset("synthetic", data={"clients": 20_000}, per_round=5)
    with pytest.raises(UserError, match=r"20,000 .*--engine local"):
        train(many.but(engine="flower"))


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def left_running() -> list[str]:
    """Command lines of what this test started, directly or not, and did not end."""
    mark, found = f"{MARK}={os.environ[MARK]}".encode(), []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:  # gone meanwhile, or somebody else's
            continue
    return found
