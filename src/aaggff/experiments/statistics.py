"""Paired statistics over seeds: is a difference more than the luck of the split?

Every method sees the same split, first model and sampled clients under one seed, so methods are
compared seed by seed. All functions take one value per seed and leave pairs with a nan out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, stdtrit

Array = NDArray[np.float64]

ROUNDING = 1e-9
"""Two results closer than this, relative to the larger, are the same result."""

EXACT_LIMIT = 200
"""Up to this many pairs the signed-rank distribution is counted out; beyond it is normal."""


@dataclass(frozen=True)
class Difference:
    """A paired comparison: mean difference, its interval, Wilcoxon's p raw and corrected."""

    mean: float
    low: float
    high: float
    p: float
    corrected: float
    pairs: int

    def significant(self, level: float = 0.05) -> bool:
        """Whether Holm's correction leaves it standing."""
        return self.corrected < level


def wilcoxon(differences: ArrayLike) -> float:
    """Two-sided p of Wilcoxon's signed-rank test, exact with ties.

    Zero differences are left out, ties share the mean of their ranks, and under the null every
    rank's sign is a fair coin: the distribution of the rank sum over all 2^n sign patterns is
    counted by dynamic programming, so nothing is assumed about ties. More than `EXACT_LIMIT`
    pairs use the normal limit.

    >>> wilcoxon([1.0, 2.0, 3.0])  # three seeds can never say more than 0.25
    0.25
    >>> wilcoxon([0.0, 0.0])
    1.0
    """
    values = _finite(differences)
    values = values[values != 0.0]
    count = values.size
    if count == 0:
        return 1.0
    # Metrics are fractions of a few samples, so equal differences differ in their last bits only.
    magnitudes = np.round(np.abs(values) / np.abs(values).max(), 9)
    _, inverse, tied = np.unique(magnitudes, return_inverse=True, return_counts=True)
    last = np.cumsum(tied)
    doubled = (2 * last - tied + 1)[inverse]  # twice the mean rank: an integer even with ties
    positive = int(doubled[values > 0.0].sum())
    total = int(doubled.sum())
    if count > EXACT_LIMIT:
        deviation = math.sqrt(float((doubled.astype(np.float64) ** 2).sum()))
        return min(1.0, 2.0 * float(ndtr(-abs(2 * positive - total) / deviation)))
    chance = np.zeros(total + 1)
    chance[0] = 1.0
    for rank in doubled:
        moved = np.zeros_like(chance)
        moved[rank:] = chance[: total + 1 - rank]
        chance = 0.5 * (chance + moved)
    tail = float(chance[: min(positive, total - positive) + 1].sum())
    return min(1.0, 2.0 * tail)


def smallest_p(pairs: int) -> float:
    """The smallest p `wilcoxon` can give for so many pairs: 2 / 2^n.

    >>> smallest_p(3), smallest_p(6)
    (0.25, 0.03125)
    """
    return min(1.0, 2.0 ** (1 - pairs)) if pairs > 0 else 1.0


def pairs_needed(comparisons: int, level: float = 0.05) -> int:
    """The fewest seeds with which one of `comparisons` can be significant after Holm.

    >>> pairs_needed(1), pairs_needed(8)
    (6, 9)
    """
    pairs = 1
    while smallest_p(pairs) * max(1, comparisons) >= level:
        pairs += 1
    return pairs


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: family-wise error at most the level, whatever depends on what.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    corrected = [1.0] * len(p_values)
    running = 0.0
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    for step, index in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - step) * p_values[index]))
        corrected[index] = running
    return corrected


@cache
def resamples(pairs: int, draws: int = 10_000, seed: int = 0) -> Array:
    """Bootstrap weights: row b says how often each seed was drawn in resample b, over n."""
    counts = np.random.default_rng(seed).multinomial(pairs, np.full(pairs, 1.0 / pairs), draws)
    return counts / pairs


def tails(pairs: int, confidence: float = 0.95) -> float:
    """The quantile at which to cut the bootstrap so that the interval is as wide as Student's.

    The plain percentile interval is too narrow for few seeds, by sqrt((n-1)/n) and by taking the
    normal's quantile for t's; cutting at Phi(-sqrt(n/(n-1)) t) instead puts both right.
    With 3 seeds this is the whole range of the resamples.
    """
    if pairs < 2:
        return 0.0
    student = float(stdtrit(pairs - 1, 0.5 + confidence / 2))
    return float(ndtr(-math.sqrt(pairs / (pairs - 1)) * student))


def interval(means: ArrayLike, pairs: int, confidence: float = 0.95) -> tuple[float, float]:
    """The interval from bootstrapped means of `pairs` seeds (expanded percentile)."""
    tail = tails(pairs, confidence)
    low, high = np.quantile(np.asarray(means, dtype=np.float64), [tail, 1.0 - tail])
    return float(low), float(high)


def bootstrap_interval(
    values: ArrayLike, confidence: float = 0.95, draws: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """An interval for the mean of `values`, resampling seeds; the same each time it is asked.

    >>> bootstrap_interval([1.0, 1.0, 1.0])
    (1.0, 1.0)
    """
    array = _finite(values)
    if array.size < 2:
        return math.nan, math.nan
    means = resamples(array.size, draws, seed) @ (array - array[0])
    low, high = interval(means, array.size, confidence)
    return low + float(array[0]), high + float(array[0])


def paired_differences(values: ArrayLike, reference: ArrayLike) -> Array:
    """One difference per seed that has both. What only rounding tells apart is no difference.

    >>> paired_differences([0.1 + 0.2, 2.0, float("nan")], [0.3, 1.0, 1.0])
    array([0., 1.])
    """
    first = np.asarray(values, dtype=np.float64).ravel()
    second = np.asarray(reference, dtype=np.float64).ravel()
    if first.shape != second.shape:
        raise ValueError(f"pairs need equal lengths, got {first.size} and {second.size}")
    there = np.isfinite(first) & np.isfinite(second)
    first, second = first[there], second[there]
    difference = first - second
    scale = np.maximum(np.abs(first), np.abs(second))
    return np.where(np.abs(difference) <= ROUNDING * scale, 0.0, difference)


def paired(
    columns: Mapping[str, Mapping[str, ArrayLike]],
    references: Sequence[str],
    confidence: float = 0.95,
) -> dict[str, dict[str, dict[str, Difference]]]:
    """Every method against every reference in every column, corrected together.

    `columns` maps a measure to one number per seed and method, aligned. The result is read as
    `result[reference][measure][method]`. Holm's correction runs over all tests of the table, so
    the chance of a single false mark anywhere in it is at most the level. Two references are
    compared with each other once.

    >>> table = paired({"avg": {"a": [1.0, 2.0, 4.0], "b": [2.0, 4.0, 7.0]}}, ["a"])
    >>> table["a"]["avg"]["b"].mean, table["a"]["avg"]["b"].p
    (2.0, 0.25)
    """
    tests: list[tuple[str, str, str]] = []
    for reference in references:
        for measure, methods in columns.items():
            tests += [(reference, measure, name) for name in methods if name != reference]
    gained = {
        (reference, measure, name): paired_differences(
            columns[measure][name], columns[measure][reference]
        )
        for reference, measure, name in tests
    }
    once = [
        (reference, measure, name)
        for reference, measure, name in tests
        if not (name in references and references.index(name) < references.index(reference))
    ]
    raw = [wilcoxon(gained[test]) for test in once]
    corrected = dict(zip(once, zip(raw, holm(raw), strict=True), strict=True))
    result: dict[str, dict[str, dict[str, Difference]]] = {
        reference: {measure: {} for measure in columns} for reference in references
    }
    for reference, measure, name in tests:
        test = (reference, measure, name)
        p, p_corrected = corrected[test if test in corrected else (name, measure, reference)]
        values = gained[test]
        low, high = bootstrap_interval(values, confidence)
        mean = float(values.mean()) if values.size else math.nan
        result[reference][measure][name] = Difference(mean, low, high, p, p_corrected, values.size)
    return result


def _finite(values: ArrayLike) -> Array:
    array = np.asarray(values, dtype=np.float64).ravel()
    return array[np.isfinite(array)]
