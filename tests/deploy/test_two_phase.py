"""Losses first, then updates the clients have scaled: the same model, from nothing but a sum."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod, adaptiveclipping_mod, fixedclipping_mod, message_size_mod
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideFixedClipping,
)

from aaggff.deploy.flower import FairStrategy, fair_mod
from aaggff.errors import UserError
from tests.deploy.fake_grid import FakeGrid, quadratic_client, record, reply

TARGETS, SIZES = (1.0, 2.0, 4.0, 8.0), (10, 20, 30, 40)
NODES = (11, 22, 33, 44)
METHODS = ("aaggff-s", "aaggff-d", "fedavg", "uniform", "term", "propfair", "afl")
Mod = Callable[..., Message]


def taught(target: float, size: int, *, before: tuple[Mod, ...] = (), after: tuple[Mod, ...] = ()):  # type: ignore[no-untyped-def]
    """An app that reports no loss itself, and learns to with `fair_mod`."""

    def loss_of(message: Message, context: Context) -> tuple[float, int]:
        theta = message.content["arrays"]["w"].numpy()
        return float(np.mean((theta - target) ** 2) / 2), size

    app = ClientApp(mods=[*before, fair_mod(loss_of), *after])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        arrays = {name: array.numpy() for name, array in message.content["arrays"].items()}
        arrays["w"] = (arrays["w"] + 0.5 * (target - arrays["w"])).astype(np.float32)
        if "seen" in arrays:
            arrays["seen"] = arrays["seen"] + size
        return reply(message, record(**arrays), num_examples=size)

    return app


def grid(seed: int = 0, **mods: tuple[Mod, ...]) -> FakeGrid:
    apps = [taught(target, size, **mods) for target, size in zip(TARGETS, SIZES)]
    return FakeGrid(dict(zip(NODES, apps)), seed=seed)


def fair(method: str = "aaggff-s", **options: object) -> FairStrategy:
    options = {
        "clients": 4, "fraction_evaluate": 0.0, "start_timeout": 0.0, "min_train_nodes": 1,
    } | options  # fmt: skip
    return FairStrategy(method, **options)  # type: ignore[arg-type]


def start(strategy: object, on: FakeGrid, rounds: int = 3, **arrays: object) -> ArrayRecord:
    first = record(**(arrays or {"w": np.zeros(3, np.float32)}))
    return strategy.start(on, first, num_rounds=rounds, timeout=5).arrays  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("method", METHODS)
def test_it_gives_the_model_of_one_phase(method: str) -> None:
    model = {"w": np.linspace(-1, 1, 5, dtype=np.float32), "seen": np.int64(7)}
    one = start(fair(method), grid(), 5, **model)
    strategy = fair(method, two_phase=True)
    two = start(strategy, grid(1), 5, **model)
    np.testing.assert_allclose(two["w"].numpy(), one["w"].numpy(), rtol=2e-6)
    assert two["seen"].numpy() == one["seen"].numpy()
    assert two["w"].dtype == "float32"
    assert strategy.record["dropped"] == []
    assert strategy.record["set_aside"] == {}


def test_the_mod_is_the_same_as_one_line_in_the_app() -> None:
    apps = [quadratic_client(target, size) for target, size in zip(TARGETS, SIZES)]
    own = start(fair(), FakeGrid(dict(zip(NODES, apps))), 4)["w"].numpy()
    np.testing.assert_array_equal(start(fair(), grid(), 4)["w"].numpy(), own)


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_with_a_server_optimizer_too(optimizer: str) -> None:
    one = start(fair(server_optimizer=optimizer), grid(), 4)["w"].numpy()
    two = start(fair(server_optimizer=optimizer, two_phase=True), grid(), 4)["w"].numpy()
    np.testing.assert_allclose(two, one, rtol=1e-4, atol=1e-6)


def test_what_is_sent_is_the_clients_share_of_its_update() -> None:
    on, came = grid(), []

    def watch(node: int) -> None:
        app = on.answers[node]

        def answer(message: Message, context: Context) -> Message:
            answered = app(message, context)
            assert answered is not None
            came.append((dict(message.content["config"]), answered.content))
            return answered

        on.answers[node] = answer

    for node in NODES:
        watch(node)
    strategy = fair(two_phase=True)
    start(strategy, on, 1)
    losses, updates = came[:4], came[4:]
    assert [config["aaggff-phase"] for config, _ in losses] == ["loss"] * 4
    assert all(not content.array_records for _, content in losses)
    for (config, content), target, weight in zip(
        updates, TARGETS, strategy.record["weights"], strict=True
    ):
        assert config["aaggff-weight"] == pytest.approx(weight)
        np.testing.assert_allclose(content["arrays"]["w"].numpy(), weight * target / 2, rtol=1e-6)


def lose(on: FakeGrid, node: int, phase: str, *, error: bool = False) -> None:
    """This node does not answer in that phase."""
    app = on.answers[node]

    def answer(message: Message, context: Context) -> Message | None:
        if message.content["config"]["aaggff-phase"] != phase:
            return app(message, context)
        if error:
            raise RuntimeError("out of memory")
        return None

    on.answers[node] = answer


@pytest.mark.parametrize("error", [False, True], ids=["silent", "with an error"])
def test_a_drop_out_before_the_decision_is_one_of_one_phase(error: bool) -> None:
    two, one = grid(), grid()
    lose(two, 22, "loss", error=error)
    one.answers[22] = lambda message, context: None
    strategy, plain = fair(two_phase=True), fair()
    found = start(strategy, two, 3)["w"].numpy()
    np.testing.assert_allclose(found, start(plain, one, 3)["w"].numpy(), rtol=2e-6)
    assert strategy.record["dropped"] == plain.record["dropped"]
    assert strategy.record["clients"] == [0, 2, 3]
    np.testing.assert_allclose(strategy.record["weights"], plain.record["weights"], rtol=1e-6)


@pytest.mark.parametrize("error", [False, True], ids=["silent", "with an error"])
def test_a_drop_out_after_the_decision_leaves_its_share_to_the_others(error: bool) -> None:
    on = grid()
    strategy = fair(two_phase=True)
    start(strategy, on, 1)
    before = dict(zip(strategy.record["clients"], strategy.record["weights"]))
    lose(on, 22, "update", error=error)
    strategy = fair(two_phase=True)
    found = start(strategy, on, 1)["w"].numpy()
    left = {0: before[0], 2: before[2], 3: before[3]}
    whole = sum(left.values())
    assert strategy.record["weights"] == pytest.approx(
        [left[0] / whole, 0.0, left[2] / whole, left[3] / whole]
    )
    expected = sum(left[i] / whole * TARGETS[i] / 2 for i in left)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert strategy.record["set_aside"] == {"1": "its loss came, its update did not"}
    assert strategy.record["dropped"] == []
    assert strategy.record["losses"][1] == pytest.approx(2.0)  # what it said was heard


def test_a_bad_update_and_a_bad_loss_are_set_aside_and_not_called_missing() -> None:
    on = grid()
    whole = on.answers[33]

    def spoiled(message: Message, context: Context) -> Message | None:
        answer = whole(message, context)
        if message.content["config"]["aaggff-phase"] == "update":
            answer.content["arrays"] = record(w=np.float32([1, np.nan, 1]))
        return answer

    def lost(message: Message, context: Context) -> Message:
        return reply(message, None, num_examples=3, received_loss=float("nan"), client_id=3)

    on.answers[33], on.answers[44] = spoiled, lost
    strategy = fair(two_phase=True)
    found = start(strategy, on, 1)["w"].numpy()
    assert np.isfinite(found).all()
    assert strategy.record["set_aside"] == {
        "2": "array 'w' is not finite", "3": "loss is nan",
    }  # fmt: skip
    assert strategy.record["dropped"] == []
    assert strategy.record["weights"][2:] == [0.0, 0.0]
    assert sum(strategy.record["weights"]) == pytest.approx(1.0)


class Masks:
    """A mod that hides each client's share: every two clients of a round have a secret, which one
    adds and the other takes away."""

    def __init__(self) -> None:
        self.sent: dict[int, np.ndarray] = {}

    def __call__(self, message: Message, context: Context, call_next: Mod) -> Message:
        answer = call_next(message, context)
        config, me = message.content["config"], int(context.node_config["partition-id"])
        for key, arrays in answer.content.array_records.items():
            hidden = arrays["w"].numpy()
            for other in map(int, config["aaggff-peers"]):
                if other != me:
                    secret = [config["server-round"], min(me, other), max(me, other)]
                    noise = np.random.default_rng(secret).integers(-(2**10), 2**10, 3)
                    hidden = hidden + np.float32(np.sign(other - me)) * noise.astype(np.float32)
            self.sent[me] = hidden
            answer.content[key] = ArrayRecord({"w": Array(hidden)})
        return answer


def test_updates_may_be_masked_as_long_as_their_sum_is_right() -> None:
    masks = Masks()
    strategy = fair(masked=True)
    found = start(strategy, grid(before=(masks,)), 3)["w"].numpy()
    plain = start(fair(), grid(), 3)["w"].numpy()
    np.testing.assert_allclose(found, plain, atol=1e-3)  # masks of 1,000 in float32 cost digits
    assert min(np.abs(each).max() for each in masks.sent.values()) > 50  # none could be read


def test_masks_are_made_among_those_whose_losses_were_heard() -> None:
    masked, plain = grid(before=(Masks(),)), grid()
    lose(masked, 22, "loss")
    plain.answers[22] = lambda message, context: None
    found = start(fair(masked=True), masked, 3)["w"].numpy()
    np.testing.assert_allclose(found, start(fair(), plain, 3)["w"].numpy(), atol=1e-3)


def test_a_round_whose_masks_do_not_cancel_is_void() -> None:
    on = grid(before=(Masks(),))
    lose(on, 22, "update")
    strategy = fair(masked=True)
    np.testing.assert_array_equal(start(strategy, on, 2)["w"].numpy(), np.zeros(3))
    assert set(strategy.record["weights"]) == {0.0}
    assert "did not" in strategy.record["set_aside"]["1"]
    assert "masked" in strategy.record["set_aside"]["0"]


def test_an_app_that_does_not_know_the_phases_is_told_what_to_add() -> None:
    apps = [quadratic_client(target, size) for target, size in zip(TARGETS, SIZES)]
    with pytest.raises(UserError, match="fair_mod"):
        start(fair(two_phase=True), FakeGrid(dict(zip(NODES, apps))), 1)


def test_one_client_that_does_not_know_them_is_set_aside() -> None:
    on = grid()
    on.answers[11] = quadratic_client(100.0, 10)
    trains = on.answers[22]

    def forgets(message: Message, context: Context) -> Message:
        if message.content["config"]["aaggff-phase"] == "loss":
            return trains(message, context)
        return reply(message, record(w=np.full(3, 50.0, np.float32)), num_examples=20, client_id=1)

    on.answers[22] = forgets
    strategy = fair(two_phase=True)
    found = start(strategy, on, 1)["w"].numpy()
    assert "no fair_mod" in strategy.record["set_aside"]["0"]
    assert "did not scale" in strategy.record["set_aside"]["1"]
    weights = dict(zip(strategy.record["clients"], strategy.record["weights"]))
    np.testing.assert_allclose(found, weights[2] * 2.0 + weights[3] * 4.0, rtol=1e-6)


@pytest.mark.parametrize("method", ["fedmgda", "qfedavg"])
def test_rules_that_look_at_updates_are_refused(method: str) -> None:
    with pytest.raises(UserError, match="decides from the updates"):
        FairStrategy(method, two_phase=True)


@pytest.mark.parametrize("two", [False, True], ids=["one phase", "two phases"])
def test_flowers_mods_see_the_whole_update(two: bool) -> None:
    """Clipping after `fair_mod` is of the update itself; what is sent is a share of that."""
    norm = 0.1
    on = grid(after=(fixedclipping_mod, message_size_mod))
    strategy = fair(two_phase=two)
    wrapped = DifferentialPrivacyClientSideFixedClipping(strategy, 0.0, norm, 4)
    found = start(wrapped, on, 1)["w"].numpy()
    assert strategy.record["clients"] == [0, 1, 2, 3]
    # All four updates point the same way and are longer than the norm.
    np.testing.assert_allclose(found, norm / np.sqrt(3), rtol=1e-5)


@pytest.mark.parametrize("two", [False, True], ids=["one phase", "two phases"])
def test_flowers_adaptive_clipping_and_local_noise(two: bool) -> None:
    on = grid(after=(adaptiveclipping_mod,))
    strategy = fair(two_phase=two)
    wrapped = DifferentialPrivacyClientSideAdaptiveClipping(
        strategy, 0.0, 4, initial_clipping_norm=0.1
    )
    found = start(wrapped, on, 1)["w"].numpy()
    np.testing.assert_allclose(found, 0.1 / np.sqrt(3), rtol=1e-5)
    noise = LocalDpMod(clipping_norm=0.1, sensitivity=0.0, epsilon=1.0, delta=0.1)
    found = start(fair(two_phase=two), grid(after=(noise,)), 1)["w"].numpy()
    np.testing.assert_allclose(found, 0.1 / np.sqrt(3), rtol=1e-5)


def test_the_state_of_a_wrapped_strategy_is_the_model_with_its_noise(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from aaggff.deploy.state import CHECKPOINT, read_checkpoint

    strategy = fair(directory=tmp_path)
    wrapped = DifferentialPrivacyServerSideFixedClipping(strategy, 1.0, 0.1, 4)
    found = start(wrapped, grid(), 2)["w"].numpy()
    tensors, facts = read_checkpoint(tmp_path / CHECKPOINT)
    np.testing.assert_array_equal(tensors["model/w"], found)
    assert facts["round"] == 2
    with pytest.raises(UserError, match="another directory"):
        start(DifferentialPrivacyServerSideFixedClipping(fair(directory=tmp_path), 1.0, 0.1, 4),
              grid(), 2)  # fmt: skip


def test_a_round_that_a_wrapper_skips_is_in_the_record(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """Flower's wrappers aggregate nothing if one client sent an error."""
    on = grid(after=(fixedclipping_mod,))
    whole, calls = on.answers[22], []

    def fails_once(message: Message, context: Context) -> Message | None:
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("out of memory")
        return whole(message, context)

    on.answers[22] = fails_once
    strategy = fair(directory=tmp_path)
    start(DifferentialPrivacyClientSideFixedClipping(strategy, 0.0, 0.1, 4), on, 3)
    lines = [json.loads(line) for line in (tmp_path / "rounds.jsonl").read_text().splitlines()]
    assert [(line["round"], len(line["clients"])) for line in lines] == [(1, 4), (2, 0), (3, 4)]


@pytest.mark.deploy
@pytest.mark.slow
def test_in_flowers_simulation_with_flowers_clipping_between_real_processes() -> None:
    """One phase and two, on the same nodes."""
    from flwr.app import ConfigRecord
    from flwr.serverapp import Grid

    from aaggff.deploy.flower.loop import train_round
    from aaggff.deploy.flower.simulation import simulate

    def loss_of(message: Message, context: Context) -> tuple[float, int]:
        place = int(context.node_config["partition-id"])
        theta = message.content["arrays"]["w"].numpy()
        return float(np.mean((theta - TARGETS[place]) ** 2) / 2), SIZES[place]

    app = ClientApp(mods=[fair_mod(loss_of), fixedclipping_mod])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        place = int(context.node_config["partition-id"])
        theta = message.content["arrays"]["w"].numpy()
        moved = (theta + 0.5 * (TARGETS[place] - theta)).astype(np.float32)
        metrics = MetricRecord({"num-examples": SIZES[place]})
        arrays = ArrayRecord({"w": Array(moved)})
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    def main(grid: Grid) -> list[tuple[np.ndarray, list[float]]]:
        found = []
        for two in (False, True):
            strategy, arrays = fair(two_phase=two), record(w=np.zeros(3, np.float32))
            for number in range(1, 4):
                config = ConfigRecord({"clipping_norm": 1.5})
                new, _ = train_round(strategy, grid, number, arrays, config)
                assert new is not None
                arrays = new
            found.append((arrays["w"].numpy(), strategy.record["weights"]))
        return found

    (one, first), (two, second) = simulate(main, app, nodes=4, workers=2)
    np.testing.assert_allclose(two, one, rtol=2e-6)
    np.testing.assert_allclose(second, first, rtol=1e-6)
    # And both are what the same clients give in this process: clipped, then weighed.
    expected = start(
        DifferentialPrivacyClientSideFixedClipping(fair(), 0.0, 1.5, 4),
        grid(after=(fixedclipping_mod,)), 3,
    )  # fmt: skip
    np.testing.assert_allclose(one, expected["w"].numpy(), rtol=1e-6)


def test_the_records_metrics_are_those_of_the_update() -> None:
    on = grid()
    strategy = fair(two_phase=True, train_metrics_aggr_fn=count)
    result = strategy.start(on, record(w=np.zeros(3, np.float32)), num_rounds=1, timeout=5)  # type: ignore[arg-type]
    assert result.train_metrics_clientapp[1]["replies"] == 4


def count(replies: list[RecordDict], weighted_by: str) -> MetricRecord:
    assert all(weighted_by in record for each in replies for record in each.metric_records.values())
    return MetricRecord({"replies": len(replies)})
