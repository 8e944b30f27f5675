"""How clients are run never changes what comes out."""

import numpy as np
import pytest
import torch
from torch import nn

from aaggff.errors import UserError
from aaggff.federation.executors import processes
from aaggff.federation.executors.batched import Batched
from aaggff.federation.federation import Federation
from aaggff.federation.local import LocalTraining
from tests.federation.makers import binary_data, class_data, shaped_data, token_data, trained

LOCAL = {
    "plain": {},
    "two epochs": {"epochs": 2},
    "steps beyond the part": {"steps": 7},
    "one step": {"steps": 1, "batch_size": 3},
    "batches larger than clients": {"batch_size": 1000},
    "momentum": {"momentum": 0.9},
    "weight decay": {"weight_decay": 0.1},
    "decayed to nothing": {"decay": 1e-30, "decay_every": 1},
    "clip": {"clip": 0.05},
    "prox": {"prox": 0.5, "epochs": 2},
    "all at once": {
        "momentum": 0.5, "weight_decay": 0.01, "clip": 0.3, "prox": 0.1, "steps": 9,
        "decay": 0.5,
    },
}  # fmt: skip
SMALL = {
    "logistic": (binary_data, "logistic", {}),
    "logistic, several classes": (class_data, "logistic", {}),
    "logistic, clients alike": (lambda: binary_data(sizes=(40, 40, 40)), "logistic", {}),
    "mlp": (class_data, "mlp", {"hidden": 6}),
    "mlp, one logit": (binary_data, "mlp", {"hidden": [7, 3]}),
}
LARGE = {
    "mlp that drops out": (class_data, "mlp", {"hidden": 6, "dropout": 0.4}),
    "convnet": (lambda: shaped_data((3, 16, 16)), "convnet", {}),
    "m5, batch norm": (lambda: shaped_data((1, 1100)), "m5", {}),
    "stackedlstm": (token_data, "stackedlstm", {"embedding": 4, "hidden": 5}),
}


def settings(local, options, executor, **more):
    return {
        "decision_maker": "aaggff-s",
        "model_options": options,
        "local": LocalTraining(**({"lr": 0.2, "batch_size": 4} | local)),
        "executor": executor,
        "seed": 3,
    } | more


def same(one, other):
    (state, records), (expected, expected_records) = one, other
    assert records == expected_records
    assert all(torch.equal(state[name], tensor) for name, tensor in expected.items())


def close(one, other):
    (state, records), (expected, expected_records) = one, other
    for name, tensor in expected.items():
        torch.testing.assert_close(state[name], tensor, rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(records, expected_records, strict=True):
        np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(ours["weights"], theirs["weights"], rtol=1e-5, atol=1e-5)
        assert ours["clients"] == theirs["clients"]


@pytest.mark.parametrize("local", LOCAL)
@pytest.mark.parametrize("kind", SMALL)
def test_batched_agrees_with_sequential(kind, local):
    make, model, options = SMALL[kind]
    data = make()
    close(
        trained(data, model, **settings(LOCAL[local], options, "batched")),
        trained(data, model, **settings(LOCAL[local], options, "sequential")),
    )


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("kind", [*LARGE, "mlp"])
def test_processes_agree_with_sequential_bit_for_bit(kind, workers):
    make, model, options = (SMALL | LARGE)[kind]
    data, local = make(), LOCAL["all at once"]
    same(
        trained(data, model, **settings(local, options, "processes", workers=workers)),
        trained(data, model, **settings(local, options, "sequential")),
    )


@pytest.mark.parametrize("local", LOCAL)
def test_processes_agree_whatever_local_training_is(local):
    make, model, options = LARGE["convnet"]
    data = make()
    same(
        trained(data, model, 2, **settings(LOCAL[local], options, "processes", workers=2)),
        trained(data, model, 2, **settings(LOCAL[local], options, "sequential")),
    )


def test_processes_that_are_spawned_agree_too():
    data = class_data()
    federation = Federation(data, "mlp", executor="processes", workers=2, seed=3)
    federation.executor = processes.Processes(federation.executor.work, workers=2, start="spawn")
    other = Federation(data, "mlp", executor="sequential", seed=3)
    try:
        ours, theirs = federation.step(), other.step()
        assert ours["losses"] == theirs["losses"]
        assert all(
            torch.equal(a, b)
            for a, b in zip(federation.model.parameters(), other.model.parameters())
        )
    finally:
        federation.close()


@pytest.mark.parametrize("executor", ["batched", "sequential"])
def test_the_number_of_torchs_threads_changes_no_bit(executor):
    data = class_data(sizes=(300, 200, 250), features=40)
    chosen = settings({"batch_size": 64}, {"hidden": 128}, executor)
    before = torch.get_num_threads()
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        try:
            found.append(trained(data, "mlp", **chosen))
            assert torch.get_num_threads() == threads
        finally:
            torch.set_num_threads(before)
    same(*found)


@pytest.mark.parametrize("kind", SMALL)
def test_what_batched_remembers_changes_no_bit(kind, monkeypatch):
    """Small memories: groups of clients, samples gathered, cohorts forgotten."""
    from aaggff.federation.executors import batched

    make, model, options = SMALL[kind]
    data = make()
    chosen = settings({"epochs": 2}, options, "batched", per_round=3)
    roomy = trained(data, model, 6, **chosen)
    monkeypatch.setattr(batched, "KEPT_BYTES", 64 * 60)
    monkeypatch.setattr(batched, "BLOCK_BYTES", 64 * 32)
    monkeypatch.setattr(batched, "MODEL_BYTES", 400)
    close(trained(data, model, 6, **chosen), roomy)


@pytest.mark.parametrize("executor", ["sequential", "batched", "processes"])
def test_a_clients_work_does_not_depend_on_who_else_is_asked(executor):
    """Its F_i and its Delta_i, alone or among others, in whichever order."""
    federation = Federation(class_data(), "logistic", executor=executor, workers=2, seed=1)

    class Kept:
        def __init__(self):
            self.rows = {}

        def add(self, first, updates):
            for at, row in enumerate(updates):
                self.rows[first + at] = row.clone()

    def updates(ids):
        kept = Kept()
        federation.executor.train(4, np.array(ids), kept)
        losses = federation.executor.losses(4, np.array(ids))
        return {i: (kept.rows[at], losses[at]) for at, i in enumerate(ids)}

    try:
        together, backwards, alone = updates([0, 1, 2, 3]), updates([3, 1, 0]), updates([1])
        for other in (backwards, alone):
            for client, (update, loss) in other.items():
                torch.testing.assert_close(update, together[client][0], rtol=1e-6, atol=1e-7)
                assert loss == pytest.approx(together[client][1], rel=1e-6)
    finally:
        federation.close()


def picked(data, model, options=None, **settings):
    federation = Federation(data, model, model_options=options, **settings)
    federation.close()
    return federation.executor


def test_auto_picks_by_model_and_cohort_and_says_why(monkeypatch):
    from aaggff.federation.executors import choose

    monkeypatch.setattr(choose, "cores", lambda: 4)
    monkeypatch.setattr(choose, "seconds_of_one", lambda work: 2 * choose.WORTH)
    images = shaped_data((3, 16, 16))
    small = picked(binary_data(), "logistic")
    assert (small.name, small.why) == ("batched", "linear layers and ReLU train as one stack")
    assert picked(class_data(), "mlp").name == "batched"
    alone = picked(images, "convnet", per_round=1)
    assert alone.name == "sequential"
    assert "one core or client at a time" in alone.why
    assert picked(images, "convnet", workers=1).name == "sequential"
    many = picked(images, "convnet")
    assert (many.name, many.workers) == ("processes", 3)
    assert many.why == "it has a layer Conv2d, so its clients share 3 cores"
    monkeypatch.setattr(choose, "seconds_of_one", lambda work: choose.WORTH / 2)
    light = picked(images, "convnet")
    assert light.name == "sequential"
    assert "done sooner than handed to a process" in light.why
    monkeypatch.setattr(choose, "cores", lambda: 1)
    assert picked(images, "convnet").name == "sequential"


def test_what_auto_measures_is_a_clients_work():
    from aaggff.federation.executors.choose import seconds_of_one

    federation = Federation(class_data(), "mlp", model_options={"dropout": 0.5})
    before = [p.clone() for p in federation.model.parameters()]
    assert seconds_of_one(federation.executor.work) > 0
    assert all(torch.equal(p, q) for p, q in zip(federation.model.parameters(), before))


WHY_NOT = [
    (class_data, "mlp", {"dropout": 0.5}, "it has dropout"),
    (lambda: shaped_data((3, 16, 16)), "convnet", {}, "it has a layer Conv2d"),
    (token_data, "stackedlstm", {}, "its task is a sequence's"),
    (class_data, nn.Linear(5, 4, bias=False), {}, "linear layer without bias"),
    (
        class_data,
        nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 4)),
        {},
        "not linear and ReLU in turn",
    ),
    (class_data, nn.Sequential(nn.Linear(5, 4), nn.Tanh()), {}, "it has a layer Tanh"),
]


@pytest.mark.parametrize(("make", "model", "options", "why"), WHY_NOT, ids=[w[-1] for w in WHY_NOT])
def test_a_model_that_cannot_be_batched_says_why(make, model, options, why):
    with pytest.raises(UserError, match=f"executor 'batched' cannot run this model: .*{why}"):
        Federation(make(), model, model_options=options, executor="batched")


def test_frozen_layers_are_not_batched():
    model = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 4))
    model[0].requires_grad_(False)
    with pytest.raises(UserError, match="some of its parameters are frozen"):
        Federation(class_data(), model, executor="batched")


def test_an_unknown_executor_suggests_the_nearest():
    with pytest.raises(UserError, match="unknown executor 'proceses'; did you mean 'processes'"):
        Federation(binary_data(), executor="proceses")
    with pytest.raises(UserError, match="workers: expected at least 1, got 0"):
        Federation(binary_data(), executor="processes", workers=0)


def test_batched_is_not_for_data_it_cannot_hold_in_one_group():
    """A cohort larger than the samples kept still runs: in groups of one client at least."""
    from aaggff.federation.executors import batched

    federation = Federation(binary_data(), executor="batched")
    assert isinstance(federation.executor, Batched)
    groups = federation.executor._divide(np.arange(4))
    assert [group.tolist() for group in groups] == [[0, 1, 2, 3]]
    kept, batched.KEPT_BYTES = batched.KEPT_BYTES, 1
    try:
        groups = federation.executor._divide(np.arange(4))
    finally:
        batched.KEPT_BYTES = kept
    assert [group.tolist() for group in groups] == [[0], [1], [2], [3]]


class Failing(nn.Module):
    """Fails at training only, in whichever process."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 4)

    def forward(self, x):
        if self.training:
            raise ValueError("mine")
        return self.linear(x)


@pytest.mark.parametrize("executor", ["sequential", "processes"])
def test_what_goes_wrong_in_a_model_is_heard_and_the_executor_recovers(executor):
    federation = Federation(class_data(), Failing(), executor=executor, workers=2)
    try:
        for _ in range(2):
            with pytest.raises(ValueError, match="mine"):
                federation.step()
        assert federation.round == 0
        assert np.isfinite(federation.executor.losses(1, np.arange(4))).all()
    finally:
        federation.close()


def test_a_worker_that_dies_is_a_clear_error_and_the_next_round_starts_anew():
    import multiprocessing
    import os
    import signal

    federation = Federation(class_data(), "mlp", executor="processes", workers=2)
    try:
        federation.step()
        for process in multiprocessing.active_children():
            if process.name == "aaggff client":
                os.kill(process.pid, signal.SIGKILL)
                process.join()
        with pytest.raises(UserError, match="a worker process ended unexpectedly"):
            federation.step()
        assert federation.step()["round"] == 2
    finally:
        federation.close()


def test_processes_leave_nothing_behind():
    import multiprocessing

    def ours():
        return [p for p in multiprocessing.active_children() if p.name == "aaggff client"]

    federation = Federation(class_data(), "mlp", executor="processes", workers=2)
    federation.step()
    assert len(ours()) == 2
    federation.close()
    assert ours() == []
