"""What goes wrong at one client stays with it; what goes wrong for all stops the run."""

import json

import numpy as np
import pytest
import torch
from torch import nn

from aaggff.data.memory import ArrayData
from aaggff.errors import UserError
from aaggff.federation.data import Task
from aaggff.federation.federation import Federation
from aaggff.federation.local import LocalTraining
from aaggff.federation.record import json_line
from aaggff.federation.sampling import Available
from tests.federation.makers import binary_data, class_data

EXECUTORS = ["sequential", "batched", "processes"]
METHODS = ["fedavg", "qfedavg", "fedmgda", "aaggff-s"]


def with_outlier(value, sizes=(50, 30, 7, 21)):
    """Client 2's inputs are `value` times what they were."""
    data = binary_data(sizes)
    parts = [data.train(k) for k in range(len(sizes))]
    parts[2] = (parts[2][0] * value, parts[2][1])
    test = [data.test(k) for k in range(len(sizes))]
    return ArrayData("made", data.task, parts, test)


def finite(federation):
    return all(torch.isfinite(p).all() for p in federation.model.parameters())


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("method", METHODS)
def test_a_client_whose_loss_is_nan_is_set_aside_and_the_run_goes_on(method, executor):
    data = with_outlier(float("nan"))
    federation = Federation(data, "logistic", method, executor=executor, workers=2)
    try:
        for _ in range(3):
            record = federation.step()
            assert record["clients"] == [0, 1, 2, 3]
            assert record["set_aside"] == {"2": "loss is nan"}
            assert record["weights"][2] == 0.0
            assert sum(record["weights"]) == pytest.approx(1)
            assert np.isnan(record["losses"][2])
            assert json.loads(json_line(record))["losses"][2] is None
        assert finite(federation)
    finally:
        federation.close()


def test_who_is_set_aside_is_logged_once(caplog):
    federation = Federation(with_outlier(float("nan")))
    federation.run(3)
    assert caplog.messages == ["round 1: client 2 is set aside: loss is nan"]


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("method", METHODS)
def test_a_client_whose_update_is_nan_is_left_out_of_the_mix(method, executor):
    """Inputs of 1e30: the loss of the model received is huge but a number, training is not."""
    local = LocalTraining(lr=0.1, batch_size=4)
    federation = Federation(
        with_outlier(1e30), "logistic", method, local=local, executor=executor, workers=2, seed=1
    )
    other = Federation(with_outlier(1.0), "logistic", method, local=local, seed=1)
    try:
        record = federation.step()
        assert np.isfinite(record["losses"][2])
        assert record["set_aside"] == {"2": "update is not finite"}
        assert finite(federation)
        federation.step()
        assert finite(federation)
    finally:
        federation.close()
    if method == "fedavg":  # its weight went to the others, in proportion
        other.sampler = Available(other.data.train_sizes, lambda _: [0, 1, 3])
        expected = other.step()
        federation = Federation(with_outlier(1e30), "logistic", local=local, seed=1)
        federation.step()
        for a, b in zip(federation.model.parameters(), other.model.parameters()):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
        assert sum(expected["weights"]) == pytest.approx(1)


class Poisoned(nn.Module):
    """Whoever trains it gets nan."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 1)

    def forward(self, x):
        out = self.linear(x)
        return out * float("nan") if self.training else out


@pytest.mark.parametrize("method", METHODS)
def test_if_every_update_is_nan_the_run_stops_with_the_round_and_the_likely_cause(method):
    federation = Federation(
        binary_data(), Poisoned(), method, local=LocalTraining(lr=3.0, decay=0.5)
    )
    with pytest.raises(
        UserError,
        match=r"round 1: no client's update was finite.*learning rate.*lr 3 in this round",
    ):
        federation.step()
    assert federation.round == 0
    assert finite(federation)


def test_if_the_global_model_becomes_nan_the_run_stops_with_the_round_and_the_likely_cause():
    from aaggff.federation.server_optimizers import SGD

    federation = Federation(
        binary_data(), server_optimizer=SGD(lr=1e38), local=LocalTraining(lr=100.0)
    )
    with pytest.raises(
        UserError, match=r"round 1: the global model holds values.*too large a step"
    ):
        federation.run(3)


@pytest.mark.parametrize("executor", ["sequential", "batched"])
def test_a_model_that_nobody_can_use_stops_the_run(executor):
    """Finite parameters so large that every loss is not."""
    federation = Federation(
        class_data(), "mlp", executor=executor, local=LocalTraining(lr=0.1, steps=1)
    )
    with torch.no_grad():
        for parameter in federation.model.parameters():
            parameter.mul_(1e25)
    with pytest.raises(UserError, match=r"round 1: every client's loss .*unusable.*diverged.*clip"):
        federation.step()


def with_empty(sizes):
    data = class_data(tuple(max(1, size) for size in sizes))
    parts = [
        (x[:size], y[:size]) for size, (x, y) in zip(sizes, map(data.train, range(len(sizes))))
    ]
    return ArrayData("made", data.task, parts, [data.test(k) for k in range(len(sizes))])


def test_a_client_without_training_data_is_never_asked_and_still_judged(caplog):
    federation = Federation(with_empty((20, 0, 12)), per_round=2)
    assert "1 of 3 clients have no training data and are never asked: 1" in caplog.text
    assert all(federation.step()["clients"] == [0, 2] for _ in range(3))
    assert np.isfinite(federation.evaluate().loss).all()


class Fixed:
    def __init__(self, *ids):
        self.ids = np.array(ids)

    def sample(self, round):
        return self.ids


def test_a_sampler_that_asks_one_all_the_same_gets_it_set_aside():
    federation = Federation(with_empty((20, 0, 12)), sampler=Fixed(0, 1, 2))
    record = federation.step()
    assert record["clients"] == [0, 2]
    assert record["set_aside"] == {"1": "has no training data"}
    assert record["dropped"] == []
    federation.sampler = Fixed(1)
    with pytest.raises(UserError, match="round 2: no sampled client has training data"):
        federation.step()


def test_nobody_has_training_data():
    with pytest.raises(UserError, match="no client has training data"):
        Federation(with_empty((0, 0)))


def test_a_model_whose_output_does_not_fit_names_both_shapes():
    data = class_data(classes=4)
    with pytest.raises(UserError, match=r"outputs of shape \(2, 3\), expected \(2, 4\) for a mult"):
        Federation(data, nn.Linear(5, 3))


def test_who_is_available_is_the_users_to_say():
    data = class_data()
    federation = Federation(
        data, sampler=Available(data.train_sizes, lambda t: [0, 3] if t % 2 else [1, 2])
    )
    assert [federation.step()["clients"] for _ in range(3)] == [[0, 3], [1, 2], [0, 3]]


def test_the_response_uses_the_rounds_own_share():
    """C is 3/4 where three of four answer, 1/2 where two do, whatever was planned."""
    data = class_data()
    there = Available(data.train_sizes, lambda t: [0, 1, 3] if t == 1 else [0, 1])
    federation = Federation(data, "logistic", "aaggff-d", per_round=2, sampler=there)
    scores = np.zeros(4)
    for share in (3 / 4, 2 / 4):
        record = federation.step()
        r = np.array(record["responses"])
        assert len(r) == share * 4
        # score_i += (r_i - rbar) / (C (1 + rbar))
        scores[record["clients"]] += (r - r.mean()) / (share * (1 + r.mean()))
    state = federation.decision_maker.state_dict()
    kept = dict(zip(state["ids"].tolist(), state["scores"].tolist()))
    assert kept == pytest.approx({client: scores[client] for client in (0, 1, 3)})


def test_an_empty_test_part_is_counted_as_missing():
    parts = [(torch.randn(6, 3), torch.tensor([0, 1] * 3)) for _ in range(3)]
    test = [*parts[:2], (torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64))]
    federation = Federation(ArrayData("made", Task("binary", 1, "auroc"), parts, test))
    evaluation = federation.run(2)
    assert evaluation.metric_summary()["missing"] == 1
    assert np.isfinite(evaluation.metric_summary()["avg"])


@pytest.mark.parametrize("rounds", [0, -1])
def test_rounds_are_at_least_one(rounds):
    with pytest.raises(UserError, match="rounds: expected a whole number of at least 1"):
        Federation(binary_data()).run(rounds)
