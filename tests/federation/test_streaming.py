"""Updates are mixed as they are made: one at a time, except where a rule looks at all of them."""

import gc

import numpy as np
import pytest
import torch

import aaggff
from aaggff.federation.executors.base import Hold, Mix
from aaggff.federation.federation import Federation
from aaggff.federation.flat import Flat
from tests.federation.makers import class_data

HOLD = {"fedmgda", "qfedavg"}
FEW, MANY = 4, 12


def alive():
    """Bytes of all tensors there are; views of the same memory count once."""
    storages = {}
    for each in gc.get_objects():
        if type(each) is torch.Tensor or type(each) is torch.nn.Parameter:
            storage = each.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


def most_during_a_round(method, clients, monkeypatch, executor):
    federation = Federation(
        class_data(sizes=(6,) * clients, features=500, classes=7), "logistic", method,
        executor=executor, workers=2,
    )  # fmt: skip
    federation.step()
    seen = []
    gc.collect()
    before = alive()
    for sink in (Mix, Hold):
        add = sink.add

        def watched(self, first, updates, add=add):
            assert len(updates) == 1
            add(self, first, updates)
            if first % 3 == 0:  # looking through all objects takes its time
                seen.append(alive() - before)

        monkeypatch.setattr(sink, "add", watched)
    federation.step()
    federation.close()
    monkeypatch.undo()
    assert len(seen) > 1
    return max(seen) / (4 * 501 * 7)


ON = [(method, "sequential") for method in aaggff.methods()]
ON += [("aaggff-d", "processes"), ("fedmgda", "processes")]


@pytest.mark.parametrize(("method", "executor"), ON)
def test_more_clients_need_no_more_memory(method, executor, monkeypatch):
    """In models: what is alive while a round of 4 and of 12 clients is mixed."""
    few = most_during_a_round(method, FEW, monkeypatch, executor)
    many = most_during_a_round(method, MANY, monkeypatch, executor)
    if method in HOLD:
        assert many - few == pytest.approx(MANY - FEW, abs=0.1)
        assert aaggff.decision_maker(method, clients=4).wants_updates
    else:
        assert many == pytest.approx(few, abs=0.1)
        assert many < 2


def test_plain_q_fedavg_streams_too():
    maker = aaggff.decision_maker("qfedavg", clients=4, step="plain")
    assert not maker.wants_updates


def made(weights):
    module = torch.nn.Linear(3, 2)
    flat = Flat(module)
    generator = torch.Generator().manual_seed(0)
    return flat, torch.randn(len(weights), flat.size, generator=generator)


@pytest.mark.parametrize("at_once", [1, 2, 3, 5])
def test_the_mix_is_the_weighted_sum_however_updates_arrive(at_once):
    weights = np.array([0.1, 0.2, 0.3, 0.15, 0.25])
    flat, updates = made(weights)
    mix = Mix(weights, flat)
    for first in range(0, 5, at_once):
        mix.add(first, updates[first : first + at_once].clone())
    torch.testing.assert_close(mix.result(), torch.tensor(weights).float() @ updates)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_an_update_that_is_not_finite_gives_its_weight_to_the_others(at_once, value):
    weights = np.array([0.1, 0.2, 0.3, 0.15, 0.25])
    flat, updates = made(weights)
    broken = updates.clone()
    broken[[1, 3], 2] = value
    mix, held = Mix(weights, flat), Hold(5, flat)
    for first in range(0, 5, at_once):
        for sink in (mix, held):
            sink.add(first, broken[first : first + at_once].clone())
    kept = [0, 2, 4]
    expected = torch.tensor(weights[kept] / weights[kept].sum()).float() @ updates[kept]
    assert mix.lost == held.lost == [1, 3]
    torch.testing.assert_close(mix.result(), expected)
    gram = held.gram()
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(gram.diagonal())), [1, 3])
    whole = updates[kept].double()
    np.testing.assert_allclose(gram[np.ix_(kept, kept)], whole @ whole.T, rtol=1e-6)


def test_if_nobodys_is_finite_there_is_no_mix():
    weights = np.array([0.5, 0.5])
    flat, updates = made(weights)
    mix, held = Mix(weights, flat), Hold(2, flat)
    for sink in (mix, held):
        sink.add(0, torch.full_like(updates, torch.nan))
    held.gram()
    assert mix.result() is None
    assert held.mix(weights) is None


def test_a_sum_that_overflows_is_not_mistaken_for_a_client_that_diverged():
    """Finite entries whose sum is infinite: the quick check fails, the exact one does not."""
    flat, updates = made([1.0])
    updates[0, :] = 3e38
    mix = Mix(np.array([1.0]), flat)
    mix.add(0, updates)
    assert mix.lost == []
    assert torch.equal(mix.result(), updates[0])
