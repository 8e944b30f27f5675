"""Synthetic(alpha, beta) is the law it says, client by client from the seed, and never stored."""

import tracemalloc

import numpy as np
import pytest
import torch
from scipy import stats

from aaggff.data.synthetic import CLASSES, FEATURES, load
from aaggff.errors import UserError
from aaggff.federation.federation import Federation
from aaggff.federation.local import LocalTraining


def test_a_client_is_the_same_whoever_else_there_is():
    """Its samples follow from the seed and its number."""
    data = load(clients=50, seed=3)
    x, y = data.train(7)
    again = load(clients=50, seed=3)
    again.train(30)
    assert torch.equal(again.train(7)[0], x)
    assert torch.equal(again.train(7)[1], y)
    assert not torch.equal(load(clients=50, seed=4).train(7)[0][:20], x[:20])
    assert not torch.equal(data.train(8)[0][:20], x[:20])
    assert not torch.equal(data.test(7)[0][:5], x[:5])


def test_targets_are_what_the_clients_own_model_says():
    """All samples of a client fit one linear model; another client's model does not fit them."""
    data = load(clients=20, seed=1, alpha=1.0, beta=1.0)
    for client in (0, 13):
        weights, bias, _ = data._law(client)
        for x, y in (data.train(client), data.test(client)):
            assert np.array_equal((x.numpy() @ weights + bias).argmax(1), y.numpy())
    other, bias, _ = data._law(1)
    assert (
        (data.train(0)[0].numpy() @ other + bias).argmax(1) == data.train(0)[1].numpy()
    ).mean() < 1


def test_inputs_have_the_clients_centre_and_the_papers_spread():
    """x ~ N(v_k, diag(j^-1.2)): means and variances over many samples of one client."""
    data = load(clients=3, seed=2, min_size=40_000, max_size=60_000)
    _, _, centre = data._law(1)
    x = data.train(1)[0].double().numpy()
    spread = np.arange(1, FEATURES + 1) ** -1.2
    z = (x.mean(0) - centre) / np.sqrt(spread / len(x))
    assert np.abs(z).max() < 5
    np.testing.assert_allclose(x.var(0) / spread, 1, atol=0.05)
    assert np.abs(np.corrcoef(x[:, :10].T) - np.eye(10)).max() < 0.03


def test_models_differ_by_alpha_and_inputs_by_beta():
    """u_k ~ N(0, alpha), W_k ~ N(u_k, 1); B_k ~ N(0, beta), v_k ~ N(B_k, 1)."""

    def drawn(alpha, beta):
        data = load(clients=400, seed=6, alpha=alpha, beta=beta)
        laws = [data._law(k) for k in range(400)]
        return [np.array([part.mean() for part in column]) for column in zip(*laws)]

    for alpha, beta in ((0.0, 0.0), (4.0, 0.25)):
        weights, _, centres = drawn(alpha, beta)
        # Of the mean of 600 weights and of 60 coordinates: the client's own variance and noise's.
        for values, variance in (
            (weights, alpha + 1 / (FEATURES * CLASSES)),
            (centres, beta + 1 / FEATURES),
        ):
            ratio = values.var() / variance
            low, high = stats.chi2.ppf([1e-4, 1 - 1e-4], 399) / 399
            assert low < ratio < high


def test_sizes_are_log_normal_above_a_minimum():
    data = load(clients=5_000, seed=8, size_mean=3.0, size_deviation=1.0, min_size=20)
    sizes = data.train_sizes + data.test_sizes
    assert sizes.min() >= 20
    logs = np.log(np.maximum(sizes - 20, 0.5))
    assert stats.norm.fit(logs)[0] == pytest.approx(3.0, abs=0.1)
    assert np.abs(data.test_sizes - 0.2 * sizes).max() <= 0.5 + 1e-9
    cut = load(clients=5_000, seed=8, max_size=100)
    assert (cut.train_sizes + cut.test_sizes).max() == 100


def test_a_million_and_a_half_clients_are_never_stored():
    tracemalloc.start()
    try:
        data = load(clients=1_500_000, seed=0)
        federation = Federation(
            data, "logistic", "aaggff-d", per_round=5, local=LocalTraining(lr=0.01, steps=2)
        )
        kept, _ = tracemalloc.get_traced_memory()
        for _ in range(30):
            record = federation.step()
            assert len(record["clients"]) == 5
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 100 * 2**20  # two numbers a client, and who can be asked
    assert after - kept < 40 * 2**20  # some clients' samples, and scores of those seen
    assert federation.decision_maker.state_dict()["ids"].size <= 150


MISTAKES = [
    ({"clients": 0}, "data.clients must be at least 1"),
    ({"alpha": -1.0}, "data.alpha must be a number >= 0"),
    ({"beta": float("nan")}, "data.beta must be a number >= 0"),
    ({"min_size": 1}, r"data.min_size \(1\) must be at least 2"),
    ({"min_size": 60, "max_size": 50}, "at most max_size"),
]


@pytest.mark.parametrize(("options", "said"), MISTAKES, ids=[m[-1] for m in MISTAKES])
def test_mistakes_are_named(options, said):
    with pytest.raises(UserError, match=said):
        load(**options)
