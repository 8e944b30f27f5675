"""The statistics against other people's code, against counting by hand, and by simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from aaggff.experiments import statistics
from aaggff.experiments.statistics import (
    bootstrap_interval,
    holm,
    paired,
    paired_differences,
    pairs_needed,
    smallest_p,
    wilcoxon,
)


@pytest.mark.parametrize("pairs", [3, 6, 10, 25, 60])
def test_wilcoxon_is_scipy_s_where_nothing_is_tied(pairs: int) -> None:
    rng = np.random.default_rng(pairs)
    for shift in (0.0, 0.3, 1.0):
        values = rng.normal(shift, 1.0, pairs)
        expected = stats.wilcoxon(values, mode="exact").pvalue
        assert wilcoxon(values) == pytest.approx(expected, rel=1e-10)


def by_enumeration(values: list[float]) -> float:
    """All sign patterns of the mean ranks, counted one by one."""
    there = [v for v in values if v != 0]
    ranks = stats.rankdata(np.abs(there))
    total = ranks.sum()
    seen = min(ranks[np.array(there) > 0].sum(), ranks[np.array(there) < 0].sum())
    sums = [ranks @ np.array(signs) for signs in itertools.product((0, 1), repeat=len(there))]
    as_extreme = [min(s, total - s) <= seen + 1e-9 for s in sums]
    return float(np.mean(as_extreme))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=9))
def test_wilcoxon_with_ties_and_zeros_is_the_count_over_all_signs(values: list[int]) -> None:
    if any(values):
        assert wilcoxon(values) == pytest.approx(by_enumeration([float(v) for v in values]))
    else:
        assert wilcoxon(values) == 1.0


def test_rounding_does_not_untie() -> None:
    tied = [0.1, 0.1, 0.1, -0.1, 0.1, 0.1]
    shaken = [v + 1e-15 * i for i, v in enumerate(tied)]
    assert wilcoxon(shaken) == wilcoxon(tied)


def test_many_pairs_use_the_normal_limit_and_join_the_exact_one() -> None:
    values = np.random.default_rng(0).normal(0.15, 1.0, statistics.EXACT_LIMIT + 1)
    exact = stats.wilcoxon(values[:-1], mode="exact").pvalue
    assert wilcoxon(values[:-1]) == pytest.approx(exact, rel=1e-8)
    assert wilcoxon(values) == pytest.approx(stats.wilcoxon(values, mode="approx").pvalue, rel=1e-6)


@pytest.mark.parametrize("pairs", range(1, 12))
def test_the_smallest_p_is_reached_when_all_agree_and_never_undercut(pairs: int) -> None:
    assert wilcoxon(np.arange(1.0, pairs + 1)) == pytest.approx(smallest_p(pairs))


@pytest.mark.parametrize("comparisons", [1, 2, 8, 16, 105])
def test_pairs_needed_is_the_first_number_with_which_holm_can_pass(comparisons: int) -> None:
    needed = pairs_needed(comparisons)
    assert holm([smallest_p(needed)] + [1.0] * (comparisons - 1))[0] < 0.05
    assert holm([smallest_p(needed - 1)] + [1.0] * (comparisons - 1))[0] >= 0.05


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12))
def test_holm_rejects_what_its_definition_rejects(p_values: list[float]) -> None:
    corrected = holm(p_values)
    level = 0.05
    order = np.argsort(p_values, kind="stable")
    rejected = set()
    for step, index in enumerate(order):  # step down: stop at the first that fails
        if not (len(p_values) - step) * p_values[index] < level:
            break
        rejected.add(int(index))
    assert {i for i, p in enumerate(corrected) if p < level} == rejected
    assert all(c >= p for c, p in zip(corrected, p_values))


def test_the_interval_is_as_wide_as_student_s_for_normal_data() -> None:
    values = np.random.default_rng(1).normal(0.0, 1.0, 30)
    low, high = bootstrap_interval(values)
    student = stats.t.interval(0.95, 29, values.mean(), stats.sem(values))
    assert (low, high) == pytest.approx(student, abs=0.04)


def test_the_interval_covers_the_mean_in_95_of_100_cases() -> None:
    """Over 2,000 draws the share has a deviation of half a point; skewed data are the hard case."""
    rng = np.random.default_rng(2)
    for draw in (lambda: rng.normal(1.0, 1.0, 20), lambda: rng.gamma(4.0, 0.25, 20)):
        covered = 0
        for _ in range(2000):
            low, high = bootstrap_interval(draw(), draws=2000)
            covered += low <= 1.0 <= high
        assert 0.93 <= covered / 2000 <= 0.97


def test_three_seeds_give_their_whole_range_and_one_gives_none() -> None:
    assert bootstrap_interval([1.0, 2.0, 6.0]) == (1.0, 6.0)
    assert all(math.isnan(end) for end in bootstrap_interval([1.0]))
    assert bootstrap_interval([3.0, math.nan, 5.0]) == (3.0, 5.0)


def test_the_same_data_give_the_same_interval() -> None:
    values = [0.3, 0.1, 0.4, 0.1, 0.5]
    assert bootstrap_interval(values) == bootstrap_interval(values)
    shifted = bootstrap_interval(np.array(values) + 100)
    assert np.array(shifted) - 100 == pytest.approx(bootstrap_interval(values), abs=1e-9)


def test_pairs_need_equal_lengths() -> None:
    with pytest.raises(ValueError, match="2 and 3"):
        paired_differences([1.0, 2.0], [1.0, 2.0, 3.0])


def test_references_are_compared_with_each_other_once_and_signs_mirror() -> None:
    rng = np.random.default_rng(3)
    columns = {
        measure: {name: rng.normal(size=12) for name in ("fedavg", "uniform", "a")}
        for measure in ("avg", "worst")
    }
    table = paired(columns, ["fedavg", "uniform"])
    there, back = table["fedavg"]["avg"]["uniform"], table["uniform"]["avg"]["fedavg"]
    assert there.mean == -back.mean
    assert (there.p, there.corrected) == (back.p, back.corrected)
    # Three pairs in two measures: the smallest p is multiplied by six.
    every = [
        table[r][m][n]
        for r, m, n in [
            (r, m, n)
            for r in table
            for m in table[r]
            for n in table[r][m]
            if (r, n) != ("uniform", "fedavg")
        ]
    ]
    assert len(every) == 6
    first = min(every, key=lambda d: d.p)
    assert first.corrected == pytest.approx(min(1.0, 6 * first.p))


def test_a_difference_that_is_only_rounding_is_none() -> None:
    same = {"avg": {"fedavg": [0.1 + 0.2] * 8, "uniform": [0.3] * 8}}
    difference = paired(same, ["fedavg"])["fedavg"]["avg"]["uniform"]
    assert (difference.mean, difference.p) == (0.0, 1.0)


def test_under_the_null_a_whole_table_is_marked_in_at_most_5_of_100_cases() -> None:
    """400 tables of 5 methods that differ by noise alone, in 3 correlated measures, 12 seeds.

    Binomial(400, 0.05) exceeds 31 with probability 1 %; single tests must stay near their level
    too, neither above (false alarms) nor far below (no power).
    """
    rng = np.random.default_rng(4)
    marked, single, tests = 0, 0, 0
    for _ in range(400):
        seeds = rng.normal(size=12)  # what a seed does to everybody, which pairing takes out
        columns: dict[str, dict[str, np.ndarray]] = {"avg": {}, "worst": {}, "loss": {}}
        for name in ("fedavg", "uniform", "a", "b", "c"):
            own = seeds + rng.normal(size=12)
            for measure in columns:
                columns[measure][name] = own + 0.5 * rng.standard_t(4, size=12)
        table = paired(columns, ["fedavg", "uniform"])
        found = [d for r in table.values() for m in r.values() for d in m.values()]
        marked += any(d.significant() for d in found)
        single += sum(d.p < 0.05 for d in found)
        tests += len(found)
    assert marked <= 31
    assert 0.03 <= single / tests <= 0.065


def test_a_real_difference_is_found() -> None:
    rng = np.random.default_rng(5)
    seeds = rng.normal(size=30)
    columns = {"loss": {"fedavg": seeds, "a": seeds - 0.5 + 0.2 * rng.normal(size=30)}}
    difference = paired(columns, ["fedavg"])["fedavg"]["loss"]["a"]
    assert difference.corrected < 1e-6
    assert -0.7 < difference.low < difference.high < -0.3
