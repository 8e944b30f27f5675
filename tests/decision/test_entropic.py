"""FedAvg, uniform, q-FedAvg, TERM and PropFair, each against its own paper's formula."""

from __future__ import annotations

import math

import numpy as np
import pytest

from aaggff import decision_maker
from aaggff.decision.entropic import Entropic, entropic_step, prior_weights, softmax
from aaggff.errors import UserError

IDS = ["a", "b", "c", "d"]
LOSSES = np.array([0.3, 1.7, 0.9, 4.9])
SIZES = np.array([40, 10, 30, 20])


def weights_of(name, losses=LOSSES, sizes=SIZES, **options):
    return decision_maker(name, **options).decide(IDS, losses, sizes)


def normalised(values):
    return np.asarray(values) / math.fsum(values)


def test_fedavg_weighs_by_samples():
    assert weights_of("fedavg").tolist() == pytest.approx([0.4, 0.1, 0.3, 0.2], abs=1e-15)


def test_uniform_weighs_all_the_same():
    assert weights_of("uniform").tolist() == [0.25] * 4


@pytest.mark.parametrize("q", [0, 0.1, 1, 5])
def test_q_fedavg_weighs_by_samples_times_a_power_of_the_loss(q):
    expected = normalised([40 * 0.3**q, 10 * 1.7**q, 30 * 0.9**q, 20 * 4.9**q])
    found = weights_of("qfedavg", q=q, step="plain")
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("lam", [0, 0.1, 1, 10])
def test_term_weighs_by_samples_times_the_exponential_of_the_loss(lam):
    expected = normalised([n * math.exp(lam * loss) for n, loss in zip(SIZES, LOSSES)])
    np.testing.assert_allclose(weights_of("term", lam=lam), expected, rtol=1e-12)


def test_propfair_weighs_by_samples_over_what_is_left_to_the_baseline():
    expected = normalised([40 / 4.7, 10 / 3.3, 30 / 4.1, 20 / 0.2])  # 5 - 4.9 is held at 0.2
    np.testing.assert_allclose(weights_of("propfair", baseline=5), expected, rtol=1e-12)
    expected = normalised([40 / 1.7, 10 / 0.3, 30 / 1.1, 20 / 0.01])
    found = weights_of("propfair", baseline=2, margin=0.01)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_fedavg_is_what_the_others_are_with_their_dial_at_zero():
    fedavg = weights_of("fedavg")
    for name, options in {"qfedavg": {"q": 0, "step": "plain"}, "term": {"lam": 0}}.items():
        assert np.array_equal(weights_of(name, **options), fedavg)


def test_a_loss_of_zero_weighs_nothing_for_q_above_zero_unless_all_are():
    found = weights_of("qfedavg", [0.0, 1.0, 0.0, 1.0], q=1, step="plain")
    assert found.tolist() == pytest.approx([0, 1 / 3, 0, 2 / 3], abs=1e-15)
    none = weights_of("qfedavg", [0.0] * 4, q=1, step="plain")
    assert none.tolist() == pytest.approx([0.4, 0.1, 0.3, 0.2], abs=1e-15)


def test_losses_of_any_size_leave_the_weights_exact():
    """exp(1e99) is no float; the weights are."""
    assert weights_of("term", [1e99, 0.0, 1e99, 5.0], lam=10).tolist() == pytest.approx(
        [4 / 7, 0, 3 / 7, 0], abs=1e-15
    )
    huge = weights_of("qfedavg", LOSSES * 1e90, q=5, step="plain")
    np.testing.assert_allclose(huge, weights_of("qfedavg", q=5, step="plain"), rtol=1e-10)


def test_the_step_is_the_minimiser_of_eq_6():
    """<p, -r> + eta KL(p, prior) is least at the closed form, among all neighbours tried."""
    rng = np.random.default_rng(0)
    prior, r, eta = rng.dirichlet(np.ones(5)), rng.normal(size=5), 0.7
    p = entropic_step(np.log(prior), r, eta)

    def cost(x):
        return -x @ r + eta * (x @ np.log(x / prior))

    for _ in range(200):
        other = 0.99 * p + 0.01 * rng.dirichlet(np.ones(5))
        assert cost(other) > cost(p)


def test_an_unknown_prior_is_refused():
    with pytest.raises(UserError, match="unknown prior 'sizes'; did you mean 'size'"):
        Entropic(lambda losses: losses, prior="sizes")


def test_softmax_and_priors():
    assert softmax(np.array([-1e308, 0.0])).tolist() == [0.0, 1.0]
    assert prior_weights(np.array([1e100, 1e-300]), "size").tolist() == [1.0, 0.0]
    assert prior_weights(np.array([1.0, 9.0]), "uniform").tolist() == [0.5, 0.5]
