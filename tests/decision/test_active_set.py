"""The quadratic programmes against quadprog, and against their optimality conditions."""

from __future__ import annotations

import numpy as np
import pytest
import quadprog
from hypothesis import given, settings
from hypothesis import strategies as st

from aaggff.decision.active_set import descend, minimise, minimise_in_box
from aaggff.decision.quadratic import Dense, LowRank, on_face
from tests.decision.kkt import residual


def by_quadprog(matrix, linear, low=0.0, high=None):
    n = linear.size
    rows, bounds = [np.ones((1, n)), np.eye(n)], [np.ones(1), np.full(n, low)]
    if high is not None:
        rows.append(-np.eye(n))
        bounds.append(np.full(n, -high))
    return quadprog.solve_qp(matrix, -linear, np.vstack(rows).T, np.concatenate(bounds), 1)[0]


def made(size, rank, rng, ridge=1.0):
    """B = ridge I + H H' / size and a c that leaves some at 0 and some not."""
    history = rng.normal(size=(size, rank))
    matrix = ridge * np.eye(size) + history @ history.T / size
    return matrix, history, rng.normal(size=size) * rng.choice([0.01, 1.0, 10.0])


@pytest.mark.parametrize("size", [1, 2, 3, 8, 30, 90])
def test_equals_quadprog_in_both_forms_from_any_start(size):
    rng = np.random.default_rng(size)
    for rank in (1, size, 3 * size):
        for _ in range(10):
            matrix, history, linear = made(size, rank, rng)
            expected = by_quadprog(matrix, linear)
            guess = rng.integers(0, 2, size).astype(float)
            for form in (Dense(matrix), LowRank(1.0, 1 / size, history)):
                for start in (None, guess):
                    p = minimise(form, linear, start)
                    np.testing.assert_allclose(p, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("ridge", [1e-6, 1.0])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("size", [3, 40, 150])
def test_optimal_to_rounding_however_badly_scaled(ridge, scale, size):
    """One client's history a million times the others', and nearly collinear rounds."""
    rng = np.random.default_rng(size)
    for rank in (2, size // 2 + 1, 2 * size):
        history = np.outer(rng.normal(size=size), np.ones(rank)) + 1e-7 * rng.normal(
            size=(size, rank)
        )
        history[0] *= 1e6
        linear = scale * rng.normal(size=size)
        dense = ridge * np.eye(size) + history @ history.T
        p = minimise(Dense(dense), linear)
        assert residual(dense, linear, p) <= 1e-10
        p = minimise(LowRank(ridge, 1.0, history), linear)
        assert residual((ridge, 1.0, history), linear, p) <= 1e-10


def test_a_multiplier_that_is_barely_wrong_is_seen():
    """The third client is better by 1e-9 than the level of the two who share: it must get some."""
    linear = np.array([0.0, 0.0, 0.5 - 1e-9])
    p = minimise(Dense(np.eye(3)), linear, np.array([1.0, 1.0, 0.0]))
    np.testing.assert_allclose(p[2], 2e-9 / 3, rtol=1e-6)
    assert minimise(Dense(np.eye(3)), np.array([0.0, 0.0, 0.5 + 1e-9])).tolist()[2] == 0.0


def test_a_tie_that_is_no_ones_is_left_at_zero():
    p = minimise(Dense(np.eye(4)), np.array([0.0, 0.0, 0.5, 0.5]))
    np.testing.assert_allclose(p, [0.5, 0.5, 0.0, 0.0], atol=1e-15)


SMALL_NUMBERS = st.integers(-3, 3)


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(1, 7))
def test_degenerate_programmes_end_at_their_optimum(data, size):
    """Small integers make ties, equal rows and multipliers that are exactly 0."""
    draw = data.draw
    rank = draw(st.integers(0, 3))
    history = np.array(
        draw(
            st.lists(
                st.lists(SMALL_NUMBERS, min_size=rank, max_size=rank), min_size=size, max_size=size
            )
        ),
        dtype=float,
    ).reshape(size, rank)
    linear = np.array(draw(st.lists(SMALL_NUMBERS, min_size=size, max_size=size)), dtype=float)
    low = draw(st.sampled_from([0.0, 0.5 / size, 1 / size - 1e-3 / size]))
    high = draw(st.sampled_from([np.inf, 1.0, min(1.0, 1.5 / size), 1 / size + 1e-3 / size]))
    matrix = np.eye(size) + history @ history.T
    start = np.full(size, 1 / size)
    answers = [
        minimise_in_box(Dense(matrix), linear, low, high, start),
        descend(LowRank(1.0, 1.0, history), linear, start, low, high),
    ]
    if low == 0.0 and high == np.inf:
        answers += [minimise(Dense(matrix), linear), minimise(LowRank(1.0, 1.0, history), linear)]
    for p in answers:
        assert residual(matrix, linear, p, low, high) <= 1e-10


@pytest.mark.parametrize("size", [2, 5, 30])
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 2.0])
def test_within_a_box_equals_quadprog_by_exchange_and_by_descent(size, epsilon):
    rng = np.random.default_rng(size)
    low, high = max(0.0, (1 - epsilon) / size), (1 + epsilon) / size
    for _ in range(20):
        matrix, _, linear = made(size, size, rng)
        expected = by_quadprog(matrix, linear, low, high)
        start = np.full(size, 1 / size)
        p = minimise_in_box(Dense(matrix), linear, low, high, start)
        np.testing.assert_allclose(p, expected, rtol=0, atol=1e-10)
        p = descend(Dense(matrix), linear, start, low, high)
        np.testing.assert_allclose(p, expected, rtol=0, atol=1e-10)


def test_descent_leaves_a_corner_it_was_started_in():
    p = descend(Dense(np.eye(3)), np.array([0.0, -0.2, 5.0]), np.array([0.0, 0.0, 1.0]))
    np.testing.assert_allclose(p, [0.4, 0.6, 0.0], atol=1e-15)


def test_what_exchange_hands_over_to_gets_there_by_itself(monkeypatch):
    """Exchange has no proof that it ends. One exchange is allowed, so nearly all is descent."""
    monkeypatch.setattr("aaggff.decision.active_set.EXCHANGES", 1)
    rng = np.random.default_rng(0)
    at_zero = 0
    for _ in range(20):
        matrix, _, linear = made(40, 10, rng)
        p = minimise(Dense(matrix), linear)
        np.testing.assert_allclose(p, by_quadprog(matrix, linear), rtol=0, atol=1e-10)
        at_zero += np.count_nonzero(p == 0)
    assert at_zero > 100


def test_on_a_face_the_gradient_is_level_and_the_others_stay():
    rng = np.random.default_rng(1)
    matrix, _, linear = made(6, 4, rng)
    free, held = np.array([0, 2, 5]), np.array([0, 0.1, 0, 0.2, 0.05, 0])
    p, slack, rounding = on_face(Dense(matrix), linear, free, held)
    assert p[[1, 3, 4]].tolist() == [0.1, 0.2, 0.05]
    assert p.sum() == pytest.approx(1, abs=1e-15)
    gradient = matrix @ p + linear
    assert np.ptp(gradient[free]) <= 1e-13
    np.testing.assert_allclose(slack, gradient - gradient[0], atol=1e-13)
    assert 0 < rounding < 1e-10
