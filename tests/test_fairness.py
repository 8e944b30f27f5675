"""Fairness measures against their textbook definitions and the properties they must have."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aaggff import fairness

values_lists = st.lists(st.floats(0.0, 1e6), min_size=1, max_size=60)
measures = [
    fairness.gini,
    fairness.jain,
    fairness.entropy,
    fairness.variance,
    fairness.gap,
    fairness.worst_mean,
    fairness.best_mean,
]


def gini_by_definition(values):
    values = np.asarray(values)
    if values.sum() == 0:
        return 0.0
    return 100 * np.abs(values[:, None] - values).mean() / (2 * values.mean())


@given(values_lists)
def test_gini_is_the_mean_absolute_difference(values):
    assert fairness.gini(values) == pytest.approx(gini_by_definition(values), abs=1e-9, rel=1e-9)


@given(values_lists)
def test_lorenz_area_gives_gini(values):
    clients, held = fairness.lorenz(values)
    assert len(clients) == len(held) == len(values) + 1
    assert clients[0] == held[0] == 0.0
    assert clients[-1] == held[-1] == 1.0
    assert (np.diff(held) >= -1e-12).all()
    assert (held <= clients + 1e-9).all()
    area = np.trapezoid(held, clients)
    assert 100 * (1 - 2 * area) == pytest.approx(fairness.gini(values), abs=1e-6)


@given(values_lists)
def test_bounds(values):
    clients = len(values)
    assert 0.0 <= fairness.gini(values) <= 100 * (1 - 1 / clients) + 1e-9
    assert 1 / clients - 1e-9 <= fairness.jain(values) <= 1.0
    assert 0.0 <= fairness.entropy(values) <= math.log(clients) + 1e-9
    summary = fairness.summary(values)
    tolerance = 1e-9 * (1 + max(values))
    ordered = [summary[key] for key in ("worst_client", "worst", "mean", "best", "best_client")]
    for below, above in itertools.pairwise(ordered):
        assert below <= above + tolerance
    assert summary["gap"] == pytest.approx(summary["best_client"] - summary["worst_client"])


@given(values_lists, st.randoms())
def test_order_does_not_matter(values, random):
    shuffled = list(values)
    random.shuffle(shuffled)
    for measure in measures:
        assert measure(shuffled) == pytest.approx(measure(values), rel=1e-9, abs=1e-9)


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=30), st.floats(1e-3, 1e3))
def test_shares_do_not_depend_on_the_unit(values, factor):
    scaled = [factor * value for value in values]
    for measure in (fairness.gini, fairness.jain, fairness.entropy):
        assert measure(scaled) == pytest.approx(measure(values), rel=1e-9, abs=1e-9)


@given(st.lists(st.floats(0.01, 1e3), min_size=2, max_size=20), st.integers(2, 4))
def test_gini_and_jain_do_not_change_when_the_population_is_copied(values, times):
    for measure in (fairness.gini, fairness.jain):
        assert measure(values * times) == pytest.approx(measure(values), rel=1e-9, abs=1e-9)


@given(st.floats(1e-6, 1e6), st.integers(1, 40))
def test_equal_values_are_perfectly_fair(value, clients):
    summary = fairness.summary([value] * clients)
    assert summary["gini"] == pytest.approx(0.0, abs=1e-9)
    assert summary["jain"] == pytest.approx(1.0)
    assert summary["entropy"] == pytest.approx(math.log(clients), abs=1e-9)
    assert summary["gap"] == 0.0
    assert summary["variance"] == pytest.approx(0.0, abs=1e-9)


@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=30), st.data())
def test_giving_from_the_best_to_the_worst_is_fairer(values, data):
    """The Pigou-Dalton principle: a transfer from rich to poor that stops at their mean."""
    low, high = int(np.argmin(values)), int(np.argmax(values))
    amount = data.draw(st.floats(0.0, 0.5)) * (values[high] - values[low])
    after = list(values)
    after[low] += amount
    after[high] -= amount
    assert fairness.gini(after) <= fairness.gini(values) + 1e-9
    assert fairness.jain(after) >= fairness.jain(values) - 1e-9
    assert fairness.entropy(after) >= fairness.entropy(values) - 1e-9
    assert fairness.variance(after) <= fairness.variance(values) + 1e-12


@pytest.mark.parametrize(
    ("clients", "tail"), [(1, 1), (4, 1), (9, 1), (10, 1), (19, 1), (20, 2), (817, 81)]
)
def test_a_tenth_is_the_floor_and_at_least_one(clients, tail):
    values = np.arange(1.0, clients + 1.0)
    assert fairness.tail_size(clients) == tail
    assert fairness.worst_mean(values) == pytest.approx(values[:tail].mean())
    assert fairness.best_mean(values) == pytest.approx(values[-tail:].mean())


def test_average_is_weighted_by_size_and_nothing_else_is():
    summary = fairness.summary([0.2, 0.8], sizes=[30, 10])
    assert summary["avg"] == pytest.approx(0.35)
    assert summary["mean"] == pytest.approx(0.5)
    assert list(summary) == list(fairness.KEYS)


def test_losses_are_worst_where_they_are_highest():
    summary = fairness.summary([0.2, 0.8, 3.0], larger_is_better=False)
    assert (summary["worst_client"], summary["best_client"]) == (3.0, 0.2)
    assert (summary["worst"], summary["best"]) == (3.0, 0.2)
    assert summary["gap"] == pytest.approx(2.8)


@given(values_lists, st.integers(1, 5))
def test_missing_clients_are_counted_and_left_out(values, missing):
    sizes = np.arange(1.0, len(values) + 1.0)
    full = fairness.summary(values, sizes)
    holed = fairness.summary(list(values) + [math.nan] * missing, list(sizes) + [1e9] * missing)
    assert holed.pop("missing") == missing
    assert full.pop("missing") == 0
    assert holed == full


def test_nobody_has_a_value():
    summary = fairness.summary([math.nan, math.nan])
    assert summary.pop("missing") == 2
    assert all(math.isnan(value) for value in summary.values())
    assert fairness.summary([])["missing"] == 0


def test_a_diverged_client_is_seen_and_breaks_nothing():
    summary = fairness.summary([1.0, math.inf], larger_is_better=False)
    assert summary["worst_client"] == math.inf
    assert summary["gap"] == math.inf
    assert math.isnan(summary["gini"])


def test_huge_values_do_not_overflow():
    values = [1e300, 1e300, 2e300]
    assert fairness.gini(values) == pytest.approx(fairness.gini([1.0, 1.0, 2.0]))
    assert fairness.jain(values) == pytest.approx(fairness.jain([1.0, 1.0, 2.0]))
    assert fairness.entropy(values) == pytest.approx(fairness.entropy([1.0, 1.0, 2.0]))


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match="2 entries for 3 values"):
        fairness.summary([1, 2, 3], sizes=[1, 2])
    with pytest.raises(ValueError, match="values >= 0"):
        fairness.gini([-1.0, 2.0])
