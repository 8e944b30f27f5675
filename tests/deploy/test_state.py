"""What survives the ServerApp's process: model, decision, optimiser, record; each round once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from flwr.app import ArrayRecord

from aaggff.deploy.flower import FairStrategy
from aaggff.deploy.state import CHECKPOINT, FairServer, Optimizer, read_checkpoint
from aaggff.errors import UserError
from aaggff.federation.config import RunConfig
from aaggff.federation.run import train
from aaggff.report.collect import read_run
from aaggff.report.page import write_report
from tests.deploy.fake_grid import FakeGrid, quadratic_client, record

TARGETS, SIZES, NODES = (1.0, 2.0, 4.0, 8.0), (10, 20, 30, 40), (11, 22, 33, 44)


class Killed(BaseException):
    """The process ends here: nothing after it runs."""


def grid(nodes: tuple[int, ...] = NODES) -> FakeGrid:
    apps = [quadratic_client(target, size) for target, size in zip(TARGETS, SIZES)]
    return FakeGrid(dict(zip(nodes, apps)))


def fair(directory: Path | None, method: str = "aaggff-s", **options: object) -> FairStrategy:
    options = {"clients": 4, "start_timeout": 0.0, "client_lr": 0.5} | options
    return FairStrategy(method, directory=directory, **options)  # type: ignore[arg-type]


def start(strategy: FairStrategy, on: FakeGrid, rounds: int, **arrays: object) -> ArrayRecord:
    first = record(**(arrays or {"w": np.zeros(3, np.float32)}))
    return strategy.start(on, first, num_rounds=rounds, timeout=5).arrays  # type: ignore[arg-type]


def rounds_of(directory: Path) -> list[dict]:
    return [json.loads(line) for line in (directory / "rounds.jsonl").read_text().splitlines()]


def die_at(on: FakeGrid, call: int) -> None:
    """The process ends when it asks its clients for the so-many-th time."""
    ask, calls = on.send_and_receive, []

    def dying(messages, *, timeout=None):  # type: ignore[no-untyped-def]
        calls.append(1)
        if len(calls) == call:
            raise Killed
        return ask(messages, timeout=timeout)

    on.send_and_receive = dying  # type: ignore[method-assign]


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam", "yogi", "adagrad"])
@pytest.mark.parametrize("method", ["aaggff-s", "aaggff-d", "afl", "qfedavg"])
def test_a_restarted_server_ends_where_an_uninterrupted_one_does(
    method: str, optimizer: str, tmp_path: Path
) -> None:
    options = {"server_optimizer": optimizer, "method_options": {}}
    whole = start(fair(None, method, **options), grid(), 6)["w"].numpy()
    on = grid()
    die_at(on, 6)  # in the evaluation of round 3: trained, and not yet written down
    with pytest.raises(Killed):
        start(fair(tmp_path, method, **options), on, 6)
    assert [each["round"] for each in rounds_of(tmp_path)] == [1, 2]
    # The SuperLink was started again too: every node has another id.
    again = start(fair(tmp_path, method, **options), grid((5, 6, 7, 8)), 6)["w"].numpy()
    np.testing.assert_array_equal(again, whole)
    assert [each["round"] for each in rounds_of(tmp_path)] == [1, 2, 3, 4, 5, 6]
    assert rounds_of(tmp_path)[-1]["clients"] == [0, 1, 2, 3]
    straight = tmp_path / "straight"
    start(fair(straight, method, **options), grid(), 6)
    for one, other in zip(rounds_of(tmp_path), rounds_of(straight), strict=True):
        assert one | {"seconds": 0} == other | {"seconds": 0}


@pytest.mark.parametrize("call", range(1, 9))
def test_wherever_it_is_killed_no_round_is_counted_twice(call: int, tmp_path: Path) -> None:
    expected = start(fair(None), grid(), 4)["w"].numpy()
    on = grid()
    die_at(on, call)
    with pytest.raises(Killed):
        start(fair(tmp_path), on, 4)
    found = start(fair(tmp_path), grid(), 4)["w"].numpy()
    np.testing.assert_array_equal(found, expected)
    assert [each["round"] for each in rounds_of(tmp_path)] == [1, 2, 3, 4]


@pytest.mark.parametrize("after", ["rounds.jsonl", "clients.jsonl"])
def test_killed_between_the_record_and_the_state_the_round_is_done_again(
    after: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(fair(tmp_path), grid(), 2)
    strategy = fair(tmp_path)
    monkeypatch.setattr(strategy.server, "save", lambda *given: (_ for _ in ()).throw(Killed))
    with pytest.raises(Killed):
        start(strategy, grid(), 4)
    with (tmp_path / after).open("a") as file:  # and in the middle of a line
        file.write('{"round": 4, "cli')
    found = start(fair(tmp_path), grid(), 4)["w"].numpy()
    np.testing.assert_array_equal(found, start(fair(None), grid(), 4)["w"].numpy())
    assert [each["round"] for each in rounds_of(tmp_path)] == [1, 2, 3, 4]


def test_a_state_is_replaced_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(fair(tmp_path), grid(), 1)
    before = (tmp_path / CHECKPOINT).read_bytes()
    monkeypatch.setattr("os.fsync", lambda descriptor: (_ for _ in ()).throw(OSError("disk full")))
    server = FairServer("uniform", clients=2, directory=tmp_path)
    server.begin(2)
    with pytest.raises(OSError, match="disk full"):
        server.save(9, {"w": np.zeros(3)}, {})
    assert (tmp_path / CHECKPOINT).read_bytes() == before
    assert list(tmp_path.glob("*.part")) + list(tmp_path.glob(".*.part")) == []


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    first = start(fair(tmp_path), grid(), 3)["w"].numpy()
    on = grid()
    np.testing.assert_array_equal(start(fair(tmp_path), on, 3)["w"].numpy(), first)
    assert on.sent == []
    np.testing.assert_array_equal(
        start(fair(tmp_path), grid(), 5)["w"].numpy(), start(fair(None), grid(), 5)["w"].numpy()
    )


def test_shapes_types_and_layouts_survive(tmp_path: Path) -> None:
    model = {
        "scalar": np.float32(1.5),
        "half": np.ones((2, 2), np.float16),
        "w": np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
        "seen": np.int64(7),
        "flag": np.array([True, False]),
        "empty": np.zeros((0, 4), np.float32),
    }
    server = FairServer("uniform", clients=2, directory=tmp_path)
    server.begin(2)
    server.save(1, model, {"who": "x"})
    found, facts = FairServer("uniform", clients=2, directory=tmp_path).resume() or ({}, {})
    assert facts["who"] == "x"
    for name, values in model.items():
        assert found[name].dtype == np.asarray(values).dtype
        assert found[name].shape == np.shape(values)
        np.testing.assert_array_equal(found[name], values)


def test_what_is_no_state_of_this_run_is_refused_in_one_line(tmp_path: Path) -> None:
    start(fair(tmp_path), grid(), 1)
    with pytest.raises(UserError, match=r"run of 'aaggff-s', not of 'term'.*another directory"):
        start(fair(tmp_path, "term"), grid(), 2)
    with pytest.raises(UserError, match=r"another model: array 'w' is \(3,\) there and \(4,\)"):
        start(fair(tmp_path), grid(), 2, w=np.zeros(4, np.float32))
    whole = (tmp_path / CHECKPOINT).read_bytes()
    for damage in (b"", b"no state", whole[: len(whole) // 2]):
        (tmp_path / CHECKPOINT).write_bytes(damage)
        with pytest.raises(UserError, match="is no checkpoint"):
            start(fair(tmp_path), grid(), 2)
    (tmp_path / CHECKPOINT).write_bytes(whole)
    (tmp_path / "rounds.jsonl").write_text("")
    with pytest.raises(UserError, match="changed or lost"):
        start(fair(tmp_path), grid(), 2)


def test_a_hospital_that_joins_is_let_in_by_saying_so(tmp_path: Path) -> None:
    for method in ("aaggff-s", "aaggff-d"):
        where = tmp_path / method
        start(fair(where, method), grid(), 2)
        on = grid()
        on.join(55, quadratic_client(16.0, 50))
        start(fair(where, method, clients=5), on, 4)
        assert rounds_of(where)[-1]["clients"] == [0, 1, 2, 3, 4]
        assert rounds_of(where)[-1]["set_aside"] == {}


def test_the_record_has_the_keys_of_a_local_run_and_makes_a_report(tmp_path: Path) -> None:
    here, there = tmp_path / "local", tmp_path / "deployed"
    train(RunConfig.for_dataset("heart", rounds=2, evaluate_every=1), here)
    names = dict(enumerate(("north", "south", "east", "west")))
    start(fair(there, names=names, dataset="wards", metric="accuracy"), grid(), 3)
    local, deployed = rounds_of(here)[0], rounds_of(there)[0]
    assert local.keys() == deployed.keys()
    assert 0 <= deployed["regret"] <= deployed["regret_bound"]
    run = read_run(there)
    assert run.names() == ["north", "south", "east", "west"]
    assert run.config["dataset"] == "wards"
    assert run.config["engine"] == "flower"
    assert run.done["rounds"] == 3
    page = tmp_path / "report.html"
    write_report([there], page)
    assert "south" in page.read_text()


@pytest.mark.parametrize("name", ["sgd", "momentum", "adam", "yogi", "adagrad"])
def test_an_optimizer_moves_named_arrays_as_it_moves_one_vector(name: str) -> None:
    import torch

    from aaggff.federation.server_optimizers import server_optimizer

    rng = np.random.default_rng(0)
    model = {
        "a": rng.normal(size=(2, 3)).astype(np.float32),
        "b": np.float32(0.5).reshape(()),
        "c": rng.normal(size=0).astype(np.float32),
    }
    theta = torch.from_numpy(np.concatenate([each.reshape(-1) for each in model.values()]))
    expected, found = server_optimizer(name), Optimizer(name, {})
    for _ in range(3):
        update = {n: rng.normal(size=v.shape).astype(np.float32) for n, v in model.items()}
        flat = np.concatenate([each.reshape(-1) for each in update.values()])
        theta = expected.step(theta, torch.from_numpy(0.5 * flat))
        model = found.step(model, {n: v.copy() for n, v in update.items()}, 0.5)
    moved = np.concatenate([np.asarray(each).reshape(-1) for each in model.values()])
    np.testing.assert_allclose(moved, theta.numpy(), rtol=1e-6)
    again = Optimizer(name, {})
    again.load_state_dict(found.state_dict())
    assert {n: v.tolist() for n, v in again.state_dict().items()} == {
        n: v.tolist() for n, v in found.state_dict().items()
    }


def test_running_statistics_are_averaged_and_never_optimised() -> None:
    server = FairServer("uniform", clients=2, server_optimizer="adam")
    server.begin(2)
    server.decide([0, 1], [1.0, 1.0], [5, 5])
    model = {"bn.running_mean": np.zeros(2, np.float32), "w": np.zeros(2, np.float32)}
    moved = server.step(model, {name: np.full(2, -0.25, np.float32) for name in model})
    np.testing.assert_array_equal(moved["bn.running_mean"], 0.25)
    assert (moved["w"] != 0.25).all()


def test_a_checkpoint_holds_what_it_is_said_to(tmp_path: Path) -> None:
    start(fair(tmp_path, server_optimizer="adam"), grid(), 2)
    tensors, facts = read_checkpoint(tmp_path / CHECKPOINT)
    assert {name.partition("/")[0] for name in tensors} == {
        "model", "decision", "optimizer", "regret",
    }  # fmt: skip
    assert facts["round"] == 2
    assert facts["nodes"] == {"11": 0, "22": 1, "33": 2, "44": 3}
    assert facts["clients"] == 4
