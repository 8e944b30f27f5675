"""FairStrategy with real messages: who counts how much, and what no client can break."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg
from hypothesis import given, settings
from hypothesis import strategies as st

import aaggff
from aaggff.deploy.flower import FairStrategy
from aaggff.errors import UserError
from tests.deploy.fake_grid import Answer, FakeGrid, quadratic_client, record, reply

TARGETS, SIZES = (1.0, 2.0, 4.0, 8.0), (10, 20, 30, 40)


def grid(seed: int = 0, nodes: tuple[int, ...] = (11, 22, 33, 44)) -> FakeGrid:
    apps = [quadratic_client(target, size) for target, size in zip(TARGETS, SIZES)]
    return FakeGrid(dict(zip(nodes, apps)), seed=seed)


def fair(method: str = "aaggff-s", **options: object) -> FairStrategy:
    options = {"clients": 4, "fraction_evaluate": 0.0, "start_timeout": 0.0} | options
    return FairStrategy(method, **options)  # type: ignore[arg-type]


def start(strategy: FairStrategy, on: FakeGrid, rounds: int = 3, **arrays: object) -> ArrayRecord:
    first = record(**(arrays or {"w": np.zeros(3, np.float32)}))
    return strategy.start(on, first, num_rounds=rounds, timeout=5).arrays  # type: ignore[arg-type]


def test_it_does_what_the_decision_maker_says() -> None:
    maker = aaggff.decision_maker("aaggff-s", clients=4, rate=1.0)
    theta = np.zeros(3)
    for _ in range(5):
        losses = [np.mean((theta - target) ** 2) / 2 for target in TARGETS]
        weights = maker.decide([0, 1, 2, 3], losses, SIZES)
        theta = theta - sum(w * 0.5 * (theta - t) for w, t in zip(weights, TARGETS))
    strategy = fair()
    (found,) = start(strategy, grid(), 5).to_numpy_ndarrays()
    np.testing.assert_allclose(found, theta, rtol=1e-6)
    np.testing.assert_allclose(strategy.record["weights"], weights, rtol=1e-6)


def test_as_fedavg_it_equals_flowers_own() -> None:
    own = FedAvg(fraction_evaluate=0.0, min_available_nodes=4)
    (expected,) = own.start(grid(), record(w=np.zeros(3, np.float32)), num_rounds=4).arrays.values()
    (found,) = start(fair("fedavg"), grid(), 4).values()
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)
    assert found.dtype == "float32"


@pytest.mark.parametrize("method", ["aaggff-s", "fedmgda", "qfedavg", "term", "afl"])
def test_the_order_of_arrival_changes_no_bit(method: str) -> None:
    options = {"client_lr": 0.5, "seed": 3}
    first, second = (
        start(fair(method, **options), grid(seed), 4).to_numpy_ndarrays()[0] for seed in (1, 2)
    )
    np.testing.assert_array_equal(first, second)


def test_node_ids_change_nothing_either() -> None:
    one = start(fair(), grid(), 4).to_numpy_ndarrays()[0]
    other = start(fair(), grid(nodes=(2**63 + 5, 7, 2**64 - 1, 3)), 4).to_numpy_ndarrays()[0]
    np.testing.assert_array_equal(one, other)


def test_shapes_and_types_survive() -> None:
    def client(message: Message, context: object) -> Message:
        arrays = message.content["arrays"]
        moved = {
            name: Array(np.asarray(array.numpy() + np.ones((), array.numpy().dtype)))
            for name, array in arrays.items()
        }
        return reply(message, ArrayRecord(moved), num_examples=5, received_loss=0.5)

    on = FakeGrid({1: client, 2: client, 3: client, 4: client})
    model = {
        "scalar": np.float32(1.5),
        "half": np.zeros((2, 2), np.float16),
        "w": np.zeros((3, 2), np.float32, order="F"),
        "double": np.zeros(2),
        "seen": np.int64(7),
        "empty": np.zeros((0, 4), np.float32),
    }
    found = start(fair(), on, 2, **model)
    assert list(found) == list(model)
    for name, array in found.items():
        values = array.numpy()
        assert values.shape == np.shape(model[name])
        assert values.dtype == np.asarray(model[name]).dtype
        np.testing.assert_array_equal(values, np.asarray(model[name]) + 2)


def test_what_a_bad_client_sends_is_set_aside_with_a_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    good = quadratic_client(1.0, 10)
    ones = record(w=np.ones(3, np.float32))
    bad = {
        "a nan": lambda m, c: reply(m, record(w=np.float32([1, np.nan, 1])), **ok(c)),
        "another shape": lambda m, c: reply(m, record(w=np.zeros(4, np.float32)), **ok(c)),
        "other names": lambda m, c: reply(m, record(v=np.zeros(3, np.float32)), **ok(c)),
        "text": lambda m, c: reply(m, record(w=np.array(["a", "b", "c"])), **ok(c)),
        "no arrays": lambda m, c: reply(m, None, **ok(c)),
        "no size": lambda m, c: reply(m, ones, **(ok(c) | {"num_examples": 0})),
        "a size that nobody has": lambda m, c: reply(m, ones, **(ok(c) | {"num_examples": 1e15})),
        "an endless size": lambda m, c: reply(m, ones, **(ok(c) | {"num_examples": 10**400})),
        "no size at all": lambda m, c: reply(m, ones, received_loss=0.5, client_id=place(c)),
        "no loss at all": lambda m, c: reply(m, ones, num_examples=10, client_id=place(c)),
        "huge": lambda m, c: reply(m, record(w=np.float32([0, 3e38, 0])), **ok(c)),
        "a missing array": lambda m, c: reply(m, ArrayRecord(), **ok(c)),
        "more than it holds": lambda m, c: reply(m, lying(), **ok(c)),
        "a nan loss": lambda m, c: reply(m, ones, **(ok(c) | {"received_loss": float("nan")})),
        "garbage": lambda m, c: reply(m, garbage(), **ok(c)),
        "no metrics": lambda m, c: Message(RecordDict({"arrays": ones}), reply_to=m),
    }

    def place(context: object) -> int:
        return context.node_config["partition-id"]  # type: ignore[attr-defined]

    def ok(context: object) -> dict[str, float]:
        return {"num_examples": 10, "received_loss": 0.5, "client_id": place(context)}

    def lying() -> ArrayRecord:
        buffer = BytesIO()
        header = {"descr": "<f4", "fortran_order": False, "shape": (2**62, 4)}
        np.lib.format.write_array_header_1_0(buffer, header)
        return ArrayRecord({"w": Array("float32", (3,), "numpy.ndarray", buffer.getvalue())})

    def garbage() -> ArrayRecord:
        return ArrayRecord({"w": Array("float32", (3,), "numpy.ndarray", b"no array")})

    on = FakeGrid({1: good, 2: good, **{10 + i: bad[name] for i, name in enumerate(bad)}})
    strategy = fair(clients=len(on.answers))
    (found,) = start(strategy, on, 1).to_numpy_ndarrays()
    np.testing.assert_allclose(found, 0.5)
    written = strategy.record
    assert len(written["set_aside"]) == len(bad)
    assert written["dropped"] == []
    weights = dict(zip(written["clients"], written["weights"]))
    assert weights[0] + weights[1] == pytest.approx(1.0)
    reasons = {name: written["set_aside"].get(str(2 + at)) for at, name in enumerate(bad)}
    assert "not finite" in reasons["a nan"]
    assert "(4,)" in reasons["another shape"]
    assert "'v'" in reasons["other names"]
    assert reasons["huge"] == "array 'w' holds 3e+38, too large to be mixed"
    assert reasons["no size at all"] == "reports no 'num-examples'"
    assert reasons["a size that nobody has"] == "num-examples is 1e+15, expected a positive number"
    assert "reports no loss: none of 'received-loss'" in reasons["no loss at all"]
    assert any("set aside" in line.getMessage() for line in caplog.records)


def test_if_nobody_can_be_used_the_model_stays(caplog: pytest.LogCaptureFixture) -> None:
    def client(message: Message, context: object) -> Message:
        return reply(message, record(w=np.full(3, np.inf, np.float32)), num_examples=1, loss=0.5)

    strategy = fair(clients=2)
    (found,) = start(strategy, FakeGrid({1: client, 2: client}), 2).to_numpy_ndarrays()
    np.testing.assert_array_equal(found, np.zeros(3))
    assert set(strategy.record["weights"]) == {0.0}


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_bytes_a_client_can_send_end_the_run(data: st.DataObject) -> None:
    whole = record(w=np.ones(3, np.float32))["w"].data
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 6))):
        damaged[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(damaged)[: data.draw(st.integers(0, len(whole)))]
    sent = data.draw(st.sampled_from([bytes(damaged), cut]))

    def client(message: Message, context: object) -> Message:
        arrays = ArrayRecord({"w": Array("float32", (3,), "numpy.ndarray", sent)})
        return reply(message, arrays, num_examples=10, received_loss=0.5, client_id=9)

    on = grid()
    on.answers[11] = client
    strategy = fair()
    (found,) = start(strategy, on, 1).to_numpy_ndarrays()
    assert np.isfinite(found).all()
    assert sum(strategy.record["weights"]) == pytest.approx(1.0)


def test_with_updates_to_look_at_a_nan_is_set_aside_too() -> None:
    def client(message: Message, context: object) -> Message:
        sent = record(w=np.float32([1, np.nan, 1]))
        return reply(message, sent, num_examples=10, received_loss=0.5, client_id=9)

    for method in ("fedmgda", "qfedavg"):
        on = grid()
        on.answers[11] = client
        strategy = fair(method, client_lr=0.5)
        (found,) = start(strategy, on, 1).to_numpy_ndarrays()
        assert np.isfinite(found).all()
        assert strategy.record["set_aside"] == {"9": "update is not finite"}


def test_counters_take_the_rounded_mean_and_no_nonsense() -> None:
    def client(seen: object) -> Answer:
        def answer(message: Message, context: object) -> Message:
            arrays = record(w=np.ones(1, np.float32), seen=seen, big=np.uint64(2**64 - 1))
            return reply(message, arrays, num_examples=10, received_loss=0.5)

        return answer

    on = FakeGrid({1: client(np.int64(9)), 2: client(np.int64(11)), 3: client(np.float64(1e300))})
    strategy = fair("uniform", clients=3)
    model = {"w": np.zeros(1, np.float32), "seen": np.int64(7), "big": np.uint64(2**64 - 1)}
    found = start(strategy, on, 1, **model)
    assert found["seen"].numpy() == 10
    assert found["big"].numpy() == 2**64 - 1  # what nobody changed keeps its last digit
    assert strategy.record["set_aside"] == {"3": "array 'seen' holds what int64 cannot"}


def test_too_large_a_step_of_the_server_is_said_to_be_one() -> None:
    with pytest.raises(UserError, match="learning rate of the server"):
        start(fair("uniform", server_options={"lr": 1e39}), grid(), 2)


def test_errors_and_silence_are_drop_outs() -> None:
    on = grid()
    strategy = fair("aaggff-d", min_train_nodes=1)
    start(strategy, on, 1)

    def fails(message: Message, context: object) -> Message:
        raise RuntimeError("out of memory")

    on.answers[11], on.answers[33] = fails, lambda message, context: None
    strategy.server.round = 1
    start(strategy, on, 2)
    assert strategy.record["dropped"] == [0, 2]
    assert strategy.record["clients"] == [1, 3]
    assert sum(strategy.record["weights"]) == pytest.approx(1.0)
    # They reach the decision as drop-outs: two of K = 4 reported, not two of two.
    maker = aaggff.decision_maker("aaggff-d", clients=4, rate=1.0)
    theta = np.zeros(3, np.float32)
    for heard in ([0, 1, 2, 3], [1, 3]):
        losses = [np.mean((theta - TARGETS[i]) ** 2) / 2 for i in heard]
        expected = maker.decide(heard, losses, [SIZES[i] for i in heard])
    np.testing.assert_allclose(strategy.record["weights"], expected, rtol=1e-6)
    of_two = aaggff.decision_maker("aaggff-d", clients=2, rate=1.0)
    assert abs(of_two.decide([1, 3], losses, [20, 40]) - expected).max() > 1e-3
    del on.answers[11]  # cut off: Flower does not even list it any more
    strategy.server.round = 2
    start(strategy, on, 3)
    assert strategy.record["dropped"] == [0, 2]


def test_a_metric_that_one_client_leaves_out_does_not_end_the_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def client(**metrics: float) -> Answer:
        def answer(message: Message, context: Context) -> Message:
            said = {"num_examples": 3, "received_loss": 0.5} | metrics
            return reply(message, message.content["arrays"], **said)

        return answer

    def own(replies: list[RecordDict], size_key: str) -> MetricRecord:
        return MetricRecord({"speed": max(each["metrics"]["speed"] for each in replies)})

    on = FakeGrid({1: client(speed=1.0), 2: client(speed=2.0)})
    strategy = fair(clients=2, train_metrics_aggr_fn=own)
    result = strategy.start(on, record(w=np.zeros(1)), num_rounds=1, timeout=5)  # type: ignore[arg-type]
    assert dict(result.train_metrics_clientapp[1]) == {"speed": 2.0}
    on.answers[2] = client()
    result = strategy.start(on, record(w=np.zeros(1)), num_rounds=2, timeout=5)  # type: ignore[arg-type]
    assert dict(result.train_metrics_clientapp[2]) == {"received-loss": 0.5}
    assert any("train_metrics_aggr_fn failed" in line.getMessage() for line in caplog.records)


def test_an_app_without_losses_is_told_what_to_add() -> None:
    def client(message: Message, context: object) -> Message:
        return reply(message, message.content["arrays"], num_examples=3, speed=1.0)

    with pytest.raises(UserError, match=r"report_loss.*"):
        start(fair(clients=2), FakeGrid({1: client, 2: client}))


@pytest.mark.parametrize(
    ("key", "option"),
    [("received-loss", None), ("train_loss", None), ("train-loss", None), ("loss", None),
     ("loss_of_what_came", "loss_of_what_came")],
)  # fmt: skip
def test_the_loss_is_found_under_the_apps_own_name(key: str, option: str | None) -> None:
    def client(loss: float) -> Answer:
        def answer(message: Message, context: Context) -> Message:
            place = context.node_config["partition-id"]
            said = {key: loss, "accuracy": 0.5, "num-examples": 10, "partition-id": place}
            content = {"arrays": message.content["arrays"], "metrics": MetricRecord(said)}
            return Message(RecordDict(content), reply_to=message)

        return answer

    strategy = fair(clients=2, loss_key=option)
    start(strategy, FakeGrid({1: client(0.25), 2: client(0.75)}), 1)
    assert strategy.record["losses"] == [0.25, 0.75]
    assert strategy.record["weights"][0] < strategy.record["weights"][1]


def test_after_the_start_timeout_those_who_are_there_begin() -> None:
    on = grid()
    fourth = on.answers.pop(44)
    strategy = fair(start_timeout=0.0)
    start(strategy, on, 1)
    assert strategy.record["clients"] == [0, 1, 2]
    assert strategy.server.maker.clients == 4  # the decision is still about four
    on.answers[44] = fourth
    strategy.server.round = 1
    start(strategy, on, 2)
    assert strategy.record["clients"] == [0, 1, 2, 3]


def test_a_first_round_waits_until_all_have_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    on = grid()
    everybody, seen = list(on.answers), []

    def registering() -> list[int]:
        seen.append(1)
        return everybody[: len(seen)]

    monkeypatch.setattr(on, "get_node_ids", registering)
    monkeypatch.setattr("aaggff.deploy.flower.nodes.PAUSE", 0.0)
    strategy = fair(start_timeout=60.0)
    start(strategy, on, 1)
    assert strategy.record["clients"] == [0, 1, 2, 3]


def test_sampling_follows_from_the_seed_alone() -> None:
    def asked(seed: int) -> list[list[int]]:
        strategy = fair("aaggff-d", fraction_train=0.5, seed=seed, min_train_nodes=1)
        on, rounds = grid(), []
        for number in range(1, 8):
            messages = strategy.configure_train(number, record(w=np.zeros(3)), ConfigRecord(), on)  # type: ignore[arg-type]
            rounds.append([message.metadata.dst_node_id for message in messages])
        return rounds

    assert asked(1) == asked(1) != asked(2)
    assert all(len(round) == 2 for round in asked(1))


@pytest.mark.parametrize("optimizer", ["momentum", "adam", "yogi", "adagrad"])
def test_server_optimizers_take_the_mix_as_gradient(optimizer: str) -> None:
    import torch

    from aaggff.federation.server_optimizers import server_optimizer

    expected, theta = server_optimizer(optimizer), torch.zeros(3)
    for _ in range(3):
        mix = sum(n / 100 * 0.5 * (theta - t) for n, t in zip(SIZES, TARGETS))
        theta = expected.step(theta, mix)
    (found,) = start(fair("fedavg", server_optimizer=optimizer), grid(), 3).to_numpy_ndarrays()
    np.testing.assert_allclose(found, theta.numpy(), rtol=1e-5)


def test_updates_of_a_client_do_not_outlive_the_round() -> None:
    import gc
    import weakref

    strategy, on = fair(), grid()
    config = ConfigRecord()
    sent = strategy.configure_train(1, record(w=np.zeros(3, np.float32)), config, on)  # type: ignore[arg-type]
    replies = on.send_and_receive(sent)
    gone = [weakref.ref(message) for message in replies]
    strategy.aggregate_train(1, replies)
    del replies, sent
    on.sent.clear()
    gc.collect()
    assert [ref() for ref in gone] == [None] * 4


@pytest.mark.parametrize("wrong", [{"decision_maker": "agff"}, {"server_optimizer": "adamw"}])
def test_a_wrong_name_is_refused_at_once(wrong: dict[str, str]) -> None:
    with pytest.raises(UserError, match=r"did you mean|known"):
        FairStrategy(**wrong)  # type: ignore[arg-type]
