"""Projections onto the simplex, held to what defines the nearest point."""

from __future__ import annotations

import numpy as np
import pytest
import quadprog
from hypothesis import given, settings
from hypothesis import strategies as st

from aaggff.decision.simplex import project, project_within
from aaggff.errors import UserError


@pytest.mark.parametrize("size", [1, 2, 5, 60])
def test_equals_quadprog(size):
    rng = np.random.default_rng(size)
    sides = np.vstack([np.ones(size), np.eye(size)]).T.copy()
    bounds = np.r_[1.0, np.zeros(size)]
    for scale in (0.01, 1.0, 100.0):
        v = scale * rng.normal(size=size)
        expected = quadprog.solve_qp(np.eye(size), v, sides, bounds, 1)[0]
        np.testing.assert_allclose(project(v), expected, rtol=0, atol=1e-12 * max(1, scale))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-1e308, 1e308), min_size=1, max_size=30), st.randoms())
def test_any_finite_vector_has_a_projection_that_follows_its_order(values, random):
    v = np.array(values)
    p = project(v)
    assert np.isfinite(p).all()
    assert (p >= 0).all()
    assert p.sum() == pytest.approx(1, abs=1e-14)
    # v_i - p_i is one number wherever p_i > 0, and no larger anywhere else.
    apart = v / 2 - p / 2
    level = apart[p > 0]
    assert np.ptp(level) <= 1e-15 * np.abs(v[p > 0]).max() + 1e-14
    assert (apart <= level.max() + 1e-14 + 1e-15 * np.abs(v)).all()
    order = list(range(v.size))
    random.shuffle(order)
    assert np.array_equal(project(v[order]), p[order])


def test_a_point_of_the_simplex_is_its_own_projection():
    p = np.random.default_rng(0).dirichlet(np.ones(7))
    np.testing.assert_allclose(project(p), p, atol=1e-16)


@pytest.mark.parametrize("bad", [[], [np.nan], [np.inf, 0.0], [[1.0]]])
def test_what_has_no_projection_is_refused(bad):
    with pytest.raises(UserError, match="finite numbers"):
        project(bad)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(-100, 100), min_size=1, max_size=12), st.floats(0, 0.99), st.floats(1.01, 9)
)
def test_within_bounds_it_is_the_nearest_too(values, below, above):
    v = np.array(values)
    low, high = below / v.size, above / v.size
    p = project_within(v, low, high)
    assert p.sum() == pytest.approx(1, abs=1e-10)
    assert low <= p.min() <= p.max() <= high
    inside = (p > low) & (p < high)
    if inside.any():
        level = (v - p)[inside]
        assert np.ptp(level) <= 1e-12
        assert ((v - p)[p <= low] <= level.max() + 1e-12).all()
        assert ((v - p)[p >= high] >= level.min() - 1e-12).all()
