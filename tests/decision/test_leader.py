"""AAggFF-D against the paper's formula over all K clients, and what the paper leaves open."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from aaggff import decision_maker
from aaggff.errors import UserError
from tests.decision.dense import DISTRIBUTIONS, DensePaper


@pytest.mark.parametrize("cdf", DISTRIBUTIONS)
@pytest.mark.parametrize(("clients", "n"), [(50, 5), (817, 5), (2005, 40)])
def test_equals_the_papers_dense_formula(cdf, clients, n):
    rng = np.random.default_rng([clients, n])
    paper = DensePaper(clients, n / clients, cdf)
    maker = decision_maker("aaggff-d", clients=clients, rate=n / clients, cdf=cdf)
    for _ in range(300):
        asked = rng.choice(clients, n, replace=False)
        losses = rng.gamma(1.0, 1.0, n)
        expected = paper.decide(asked, losses)
        weights = maker.decide(asked, losses, rng.integers(1, 100, n))
        np.testing.assert_allclose(weights, expected, rtol=1e-12, atol=0)
    np.testing.assert_allclose(maker.everybody(), paper.p, rtol=1e-12, atol=0)


@pytest.mark.parametrize("correction", [False, True])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.5, 2.0)])
def test_equals_the_dense_formula_with_drop_outs_other_ranges_and_the_correction(
    low, high, correction
):
    rng = np.random.default_rng(3)
    paper = DensePaper(60, 0.2, "weibull", low, high, correction)
    maker = decision_maker(
        "aaggff-d", clients=60, rate=0.2, cdf="weibull", low=low, high=high, correction=correction
    )
    for _ in range(100):
        n = int(rng.integers(2, 13))  # of 12 asked some drop out
        asked = rng.choice(60, n, replace=False)
        losses = rng.gamma(1.0, 1.0, n)
        expected = paper.decide(asked, losses)
        np.testing.assert_allclose(maker.decide(asked, losses, np.ones(n)), expected, rtol=1e-12)
    np.testing.assert_allclose(maker.everybody(), paper.p, rtol=1e-12)


def test_a_client_set_aside_counts_as_a_drop_out():
    paper = DensePaper(10, 0.3)
    maker = decision_maker("aaggff-d", clients=10, rate=0.3)
    weights = maker.decide([4, 5, 6], [1.0, math.nan, 3.0], [1, 1, 1])
    np.testing.assert_allclose(weights[[0, 2]], paper.decide([4, 6], np.array([1.0, 3.0])))
    assert weights[1] == 0
    assert maker.last.set_aside == {5: "loss is nan"}


def test_a_round_without_one_good_report_changes_nothing():
    one, other = (decision_maker("aaggff-d", clients=10, rate=0.3) for _ in range(2))
    for maker in (one, other):
        maker.decide([1, 2, 3], [1.0, 2.0, 3.0], [1, 1, 1])
    prior = one.decide([1, 2], [math.nan, -1.0], [30, 10])
    assert prior.tolist() == [0.5, 0.5]
    again = ([2, 3], [0.1, 0.2], [1, 1])
    assert np.array_equal(one.decide(*again), other.decide(*again))


def test_three_billion_clients_decide_as_the_formula_says():
    """Nothing of size K: the score written out by hand for one round."""
    K, n = 3_000_000_000, 3
    losses = np.array([1.0, 2.0, 6.0])
    maker = decision_maker("aaggff-d", clients=K, rate=n / K)
    weights = maker.decide([7, 2_999_999_999, 12], losses, np.ones(n))
    C = n / K
    r = C * np.array([0.5 * math.erfc((1 - x) / math.sqrt(2)) for x in losses / 3])
    score = (r - r.mean()) / (C * (1 + r.mean()))
    e = np.exp(math.sqrt(math.log(K)) * score / ((C + 2) * math.sqrt(2)))
    np.testing.assert_allclose(weights, e / e.sum(), rtol=1e-12)
    assert len(maker.scores) == 3


@pytest.mark.parametrize("correction", [False, True])
def test_expected_response_by_enumerating_all_samples(correction):
    """K = 6, n = 3: unbiased with the correction, shrunk by exactly the known factor without."""
    K, n = 6, 3
    r = np.array([0.05, 0.9, 0.31, 0.47, 0.02, 0.66])
    maker = decision_maker("aaggff-d", clients=K, rate=n / K, correction=correction)
    samples = list(combinations(range(K), n))
    mean = np.zeros(K)
    for S in map(list, samples):
        rbar = r[S].mean()
        # The maker's increment is (r~_i - rbar) / (1 + rbar) for i in S; elsewhere r~_i = rbar.
        estimate = np.full(K, rbar)
        estimate[S] += maker._increments(r[S]) * (1 + rbar)
        mean += estimate / len(samples)
    factor = 1.0 if correction else 1 - (K - n) / (n * (K - 1))
    np.testing.assert_allclose(mean - r.mean(), factor * (r - r.mean()), atol=1e-15)


def test_strength_multiplies_the_exponent():
    rounds = [([1, 2, 3], [0.2, 0.5, 1.5]), ([3, 4, 1], [1.0, 0.1, 0.3])]
    logs = {}
    for strength in (0.0, 1.0, 2.5):
        maker = decision_maker("aaggff-d", clients=9, rate=1 / 3, strength=strength)
        for ids, losses in rounds:
            p = maker.decide(ids, losses, [1, 1, 1])
        logs[strength] = np.log(p / p[0])
    np.testing.assert_allclose(logs[0.0], 0, atol=1e-15)
    np.testing.assert_allclose(logs[2.5], 2.5 * logs[1.0], rtol=1e-12)


def test_size_prior_multiplies_the_weights():
    uniform = decision_maker("aaggff-d", clients=9, rate=1 / 3)
    sized = decision_maker("aaggff-d", clients=9, rate=1 / 3, prior="size")
    report = ([1, 2, 3], [0.2, 0.5, 1.5], np.array([5.0, 20.0, 1.0]))
    p = uniform.decide(*report) * report[2]
    np.testing.assert_allclose(sized.decide(*report), p / p.sum(), rtol=1e-12)
    sizes = np.array([9, 5, 20, 1, 1, 1, 1, 1, 1])
    everybody = uniform.everybody() * sizes
    np.testing.assert_allclose(sized.everybody(sizes), everybody / everybody.sum(), rtol=1e-12)


def test_everybody_before_the_first_round_is_the_prior():
    maker = decision_maker("aaggff-d", clients=4, rate=0.5)
    assert maker.everybody().tolist() == [0.25] * 4


def test_rate_and_range_default_to_what_the_first_round_shows():
    told = decision_maker("aaggff-d", clients=20, rate=0.2)
    inferred = decision_maker("aaggff-d", clients=20)
    report = ([3, 1, 4, 15], [1.0, 0.5, 2.0, 0.1], [1, 1, 1, 1])
    assert np.array_equal(told.decide(*report), inferred.decide(*report))
    # Full participation: C2 = 1/K.
    full = decision_maker("aaggff-d", clients=4)
    full.decide(*report)
    assert full.response.high == 0.25
    saved = inferred.state_dict()
    resumed = decision_maker("aaggff-d", clients=20)
    resumed.load_state_dict(saved)
    later = ([3, 1], [1.0, 0.5], [1, 1])
    assert np.array_equal(inferred.decide(*later), resumed.decide(*later))


def test_one_client_in_the_federation():
    maker = decision_maker("aaggff-d", clients=1, rate=1.0)
    assert maker.decide(["only"], [0.3], [5]).tolist() == [1.0]


def test_forgotten_clients_start_anew():
    maker = decision_maker("aaggff-d", clients=9, rate=1 / 3)
    maker.decide([1, "b", 3], [0.1, 5.0, 1.0], [1, 1, 1])
    maker.forget(["b", 3, "nobody"])
    assert maker.scores.items()[0].tolist() == [1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"clients": None}, "clients: method 'aaggff-d' needs the number of clients"),
        ({"clients": 2, "rate": 0.5}, "clients: 3 report in one round, but clients=2"),
        ({"clients": 9, "rate": 0.3, "low": 0.5}, "0 <= low < high, got low=0.5, high=0.3"),
    ],
)
def test_what_cannot_be_is_refused(arguments, message):
    with pytest.raises(UserError, match=message.replace("(", r"\(")):
        decision_maker("aaggff-d", **arguments).decide([1, 2, 3], [1, 2, 3], [1, 1, 1])


def test_the_full_decision_needs_integer_ids_and_sizes_for_a_size_prior():
    maker = decision_maker("aaggff-d", clients=9, rate=0.3)
    maker.decide(["a", 2, 3], [1, 2, 3], [1, 1, 1])
    with pytest.raises(UserError, match="integers from 0 to 8"):
        maker.everybody()
    with pytest.raises(UserError, match="sizes"):
        decision_maker("aaggff-d", clients=9, rate=0.3, prior="size").everybody()


def test_with_everybody_there_the_gradient_is_the_exact_one():
    """The setting of theorem 2: -r / (1 + <p, r>), and L where sampling has L~."""
    K, rng = 6, np.random.default_rng(9)
    maker = decision_maker("aaggff-d", clients=K, rate=1.0)
    p, gradients = np.full(K, 1 / K), np.zeros(K)
    for t in range(1, 80):
        losses = rng.gamma(1.0, 1.0, K)
        r = DISTRIBUTIONS["normal"].cdf(losses / losses.mean()) / K
        gradients -= r / (1 + p @ r)
        e = np.exp(-math.sqrt(math.log(K)) * gradients / (1 / K * math.sqrt(t + 1)))
        p = e / e.sum()
        order = rng.permutation(K)
        weights = maker.decide(order, losses[order], np.ones(K))
        np.testing.assert_allclose(weights, p[order], rtol=1e-12)


def test_a_drop_out_where_everybody_was_expected_is_estimated():
    """Five of six answer: their increment is the doubly robust one with C = 5/6."""
    K, losses = 6, np.array([0.2, 0.9, 0.4, 1.5, 0.7])
    maker = decision_maker("aaggff-d", clients=K, rate=1.0)
    weights = maker.decide([0, 1, 2, 3, 4], losses, np.ones(5))
    r = DISTRIBUTIONS["normal"].cdf(losses / losses.mean()) / K
    score = (r - r.mean()) / (5 / 6 * (1 + r.mean()))
    e = np.exp(math.sqrt(math.log(K)) * score / (1 / K * math.sqrt(2)))
    np.testing.assert_allclose(weights, e / e.sum(), rtol=1e-12)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rate", np.array([0.5, 0.5])),
        ("rate", np.array([0.0])),
        ("rate", np.empty(0)),
        ("round", np.array(1.5)),
        ("scores", np.array([1.0])),
        ("scores", np.array([1.0, np.nan, 0.0])),
        ("ids", np.array([1, 1, 2])),
    ],
)
def test_a_damaged_state_is_refused_and_changes_nothing(key, value):
    maker, other = (decision_maker("aaggff-d", clients=9) for _ in range(2))
    for each in (maker, other):
        each.decide([1, 2, 3], [0.1, 0.5, 0.9], [1, 1, 1])
    with pytest.raises(UserError, match="state"):
        maker.load_state_dict({**maker.state_dict(), key: value})
    report = ([1, 2, 3], [0.4, 0.2, 0.9], [1, 1, 1])
    assert np.array_equal(maker.decide(*report), other.decide(*report))
