"""AFL: its authors' projected ascent, and what it does where they ask for everybody."""

from __future__ import annotations

import numpy as np
import pytest
import quadprog

from aaggff import decision_maker
from aaggff.errors import UserError


def nearest_on_simplex(v):
    """The projection, by an independent solver."""
    n = v.size
    sides = np.vstack([np.ones(n), np.eye(n)]).T.copy()
    return quadprog.solve_qp(np.eye(n), v, sides, np.r_[1.0, np.zeros(n)], 1)[0]


@pytest.mark.parametrize("gamma", [0.01, 0.1, 1.0])
def test_every_round_is_the_projection_of_p_plus_gamma_f(gamma):
    rng = np.random.default_rng(3)
    maker, p = decision_maker("afl", gamma=gamma), np.full(6, 1 / 6)
    for _ in range(40):
        losses = rng.gamma(1.0, 1.0, 6)
        p = nearest_on_simplex(p + gamma * losses)
        order = rng.permutation(6)
        weights = maker.decide(order, losses[order], np.ones(6))
        np.testing.assert_allclose(weights, p[order], rtol=0, atol=1e-12)


def test_it_ends_at_the_worst_client():
    maker = decision_maker("afl", gamma=0.1)
    for _ in range(30):
        weights = maker.decide(["a", "b", "c"], [0.2, 0.9, 0.4], [1, 1, 1])
    assert weights.tolist() == [0.0, 1.0, 0.0]


def test_who_is_missing_keeps_its_share():
    maker = decision_maker("afl", gamma=0.1)
    maker.decide(["a", "b", "c"], [0.5, 1.0, 1.5], [1, 1, 1])
    before = dict(maker.shares)
    weights = maker.decide(["a", "c"], [0.5, 0.7], [1, 1])
    assert maker.shares["b"] == before["b"]
    mass = before["a"] + before["c"]
    expected = nearest_on_simplex(
        np.array([before["a"], before["c"]]) / mass + 0.1 * np.array([0.5, 0.7])
    )
    np.testing.assert_allclose(weights, expected, atol=1e-12)
    assert sum(maker.shares.values()) == pytest.approx(1, abs=1e-15)


def test_who_joins_gets_one_share_of_all_and_who_leaves_hands_it_on():
    maker = decision_maker("afl", gamma=0.0)
    maker.decide(["a", "b", "c"], [1, 1, 1], [1, 1, 1])
    assert maker.decide(["a", "b", "c", "d"], [1] * 4, [1] * 4).tolist() == [0.25] * 4
    maker.forget(["d", "c", "nobody"])
    assert maker.shares == {"a": 0.5, "b": 0.5}


def test_a_state_that_is_no_share_is_refused():
    maker = decision_maker("afl")
    maker.decide(["a", "b"], [1, 2], [1, 1])
    with pytest.raises(UserError, match=r"'shares' sum to 1\.5, expected 1"):
        maker.load_state_dict({**maker.state_dict(), "shares": np.array([0.5, 1.0])})
