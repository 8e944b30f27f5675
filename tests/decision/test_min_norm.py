"""FedMGDA+: the shortest mixture of directions against a solver of its own, by either input."""

from __future__ import annotations

import numpy as np
import pytest

from aaggff import decision_maker
from aaggff.decision.min_norm import shortest
from aaggff.errors import UserError


def by_clarabel(directions, epsilon):
    """argmin |sum p_i u_i|^2, |p_i - 1/n| <= epsilon, stated with the directions themselves."""
    import cvxpy as cp

    n = len(directions)
    p = cp.Variable(n)
    limits = [p >= 0, cp.sum(p) == 1, cp.abs(p - 1 / n) <= epsilon]
    problem = cp.Problem(cp.Minimize(cp.sum_squares(directions.T @ p)), limits)
    tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-12)
    problem.solve(solver=cp.CLARABEL, **tight)
    return p.value


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.5, 1.0])
@pytest.mark.parametrize(("clients", "size"), [(2, 5), (5, 40), (12, 100)])
def test_the_update_is_the_shortest_mixture_of_directions(clients, size, epsilon):
    rng = np.random.default_rng([clients, size])
    # A common part, so that no mixture is zero and the minimiser is one.
    updates = (rng.normal(size=(clients, size)) + 0.5) * rng.lognormal(0, 1, (clients, 1))
    lengths = np.linalg.norm(updates, axis=1)
    expected = by_clarabel(updates / lengths[:, None], epsilon)
    report = (list(range(clients)), np.ones(clients), np.ones(clients))

    maker = decision_maker("fedmgda", epsilon=epsilon, length="unit")
    weights = maker.decide(*report, updates=updates)
    np.testing.assert_allclose(maker.last.step * weights * lengths, expected, rtol=0, atol=1e-7)

    # With the median length the same mixture, that much longer.
    maker = decision_maker("fedmgda", epsilon=epsilon)
    assert np.array_equal(maker.decide(*report, updates=updates), weights)
    mixed = maker.last.step * weights * lengths / np.median(lengths)
    np.testing.assert_allclose(mixed, expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("clients", [3, 9])
def test_more_directions_than_dimensions(clients):
    """Several mixtures are shortest: it must be one of them."""
    updates = np.random.default_rng(clients).normal(size=(clients, 2))
    u = updates / np.linalg.norm(updates, axis=1)[:, None]
    p = shortest(u @ u.T, 1.0)
    assert np.linalg.norm(u.T @ p) <= np.linalg.norm(u.T @ by_clarabel(u, 1.0)) + 1e-6


def test_the_gram_matrix_does_instead_of_the_updates():
    updates = np.random.default_rng(0).normal(size=(5, 30))
    report = ([3, 1, 4, 15, 9], np.ones(5), np.ones(5))
    one, other = decision_maker("fedmgda"), decision_maker("fedmgda")
    by_updates = one.decide(*report, updates=updates)
    by_gram = other.decide(*report, gram=updates @ updates.T)
    np.testing.assert_allclose(by_updates, by_gram, rtol=0, atol=1e-14)
    assert one.last.step == pytest.approx(other.last.step, rel=1e-13)


def test_every_client_gains_with_no_limit():
    """The property the method is for: <d, u_i> >= |d|^2 for every direction."""
    updates = np.random.default_rng(5).normal(size=(6, 20)) + 0.3
    maker = decision_maker("fedmgda", epsilon=1.0, length="unit")
    weights = maker.decide(list(range(6)), np.ones(6), np.ones(6), updates=updates)
    d = maker.last.step * weights @ updates
    u = updates / np.linalg.norm(updates, axis=1)[:, None]
    assert (u @ d >= d @ d - 1e-9).all()


def test_updates_equally_long_are_mixed_with_step_one():
    updates = np.array([[3.0, 0.0], [0.0, 3.0]])
    maker = decision_maker("fedmgda", epsilon=1.0)
    assert maker.decide(["a", "b"], [1, 1], [1, 1], updates=updates).tolist() == [0.5, 0.5]
    assert maker.last.step == pytest.approx(1.0, abs=1e-15)


def test_who_did_not_move_has_no_direction():
    maker = decision_maker("fedmgda", epsilon=1.0)
    updates = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]
    weights = maker.decide(["a", "b", "c"], [1, 1, 1], [1, 1, 1], updates=updates)
    assert weights.tolist() == pytest.approx([0, 2 / 3, 1 / 3])
    still = maker.decide(["a", "b"], [1, 1], [1, 1], updates=np.zeros((2, 2)))
    assert still.tolist() == [0.5, 0.5]
    assert maker.last.step == 1.0


def test_an_update_that_is_not_finite_sets_its_client_aside():
    maker = decision_maker("fedmgda", epsilon=1.0)
    updates = [[1.0, 0.0], [np.inf, 0.0], [0.0, 1.0]]
    weights = maker.decide(["a", "b", "c"], [1, 1, 1], [1, 1, 1], updates=updates)
    assert weights.tolist() == [0.5, 0.0, 0.5]
    assert maker.last.set_aside == {"b": "update is not finite"}


def test_a_squared_length_below_zero_sets_its_client_aside():
    maker = decision_maker("fedmgda")
    gram = [[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 1.0]]
    assert maker.decide(["a", "b", "c"], [1, 1, 1], [1, 1, 1], gram=gram).tolist() == [0.5, 0, 0.5]
    assert set(maker.last.set_aside) == {"b"}


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({}, "updates: this method decides from the updates, pass updates= or gram="),
        ({"updates": np.ones(2)}, "updates: expected 2 rows"),
        ({"gram": np.ones((3, 3))}, r"gram: expected shape \(2, 2\)"),
        ({"gram": [[1.0, np.nan], [np.nan, 1.0]]}, "gram: holds a value that is not finite"),
    ],
)
def test_what_it_needs_is_asked_for(extra, message):
    with pytest.raises(UserError, match=message):
        decision_maker("fedmgda").decide(["a", "b"], [1, 1], [1, 1], **extra)
