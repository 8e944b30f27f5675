"""How evenly performance is spread over clients: numpy in, plain numbers out.

Conventions are the paper's (appendix C): the average is weighted by test-set size, the worst and
the best 10 % are plain means over max(1, floor(K / 10)) clients, the gap (Delta AG) is the best
client less the worst, and Gini is over clients, unweighted, times 100. A client without a value
(nan: a test part with one class has no AUROC) is left out of everything and counted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

KEYS = (
    "avg",
    "mean",
    "worst",
    "best",
    "worst_client",
    "best_client",
    "gap",
    "gini",
    "variance",
    "jain",
    "entropy",
    "missing",
)
"""What `summary` returns, in this order."""


def _present(values: ArrayLike) -> Array:
    array = np.asarray(values, dtype=np.float64).ravel()
    return array[~np.isnan(array)]


def tail_size(clients: int) -> int:
    """How many clients make up a tenth: max(1, floor(K / 10))."""
    return max(1, clients // 10)


def worst_mean(values: ArrayLike, *, larger_is_better: bool = True) -> float:
    """Mean over the worst tenth of clients.

    >>> worst_mean([0.5, 0.9, 0.7])
    0.5
    >>> worst_mean([0.5, 0.9, 0.7], larger_is_better=False)  # losses
    0.9
    """
    array = np.sort(_present(values))
    tail = tail_size(array.size)
    if array.size == 0:
        return float("nan")
    return float((array[:tail] if larger_is_better else array[-tail:]).mean())


def best_mean(values: ArrayLike, *, larger_is_better: bool = True) -> float:
    """Mean over the best tenth of clients.

    >>> best_mean([0.5, 0.9, 0.7])
    0.9
    """
    return worst_mean(values, larger_is_better=not larger_is_better)


def gap(values: ArrayLike) -> float:
    """Best client less worst client (Delta AG): never negative.

    >>> gap([0.5, 0.75])
    0.25
    """
    array = _present(values)
    return float(array.max() - array.min()) if array.size else float("nan")


def variance(values: ArrayLike) -> float:
    """Variance over clients, each counting once.

    >>> variance([1.0, 3.0])
    1.0
    """
    array = _present(values)
    return float(array.var()) if array.size and np.isfinite(array).all() else float("nan")


def gini(values: ArrayLike) -> float:
    """Gini coefficient times 100: 0 when all are equal, 100 (1 - 1/K) when one has everything.

    sum_ij |v_i - v_j| / (2 K^2 mean v), by sorting: O(K log K).

    >>> gini([1.0, 1.0, 1.0]), gini([0.0, 0.0, 0.0, 1.0])
    (0.0, 75.0)
    """
    array = np.sort(_non_negative(values))
    total = array.sum()
    if array.size == 0 or not np.isfinite(total):
        return float("nan")
    if total == 0.0:
        return 0.0
    clients = array.size
    ranks = 2.0 * np.arange(1, clients + 1) - clients - 1.0
    # Divided first, so that huge values cannot overflow; clipped, since rounding may give -1e-17.
    return 100.0 * max(0.0, float(ranks @ (array / total)) / clients)


def jain(values: ArrayLike) -> float:
    """Jain's index (sum v)^2 / (K sum v^2): 1 when all are equal, 1/K when one has everything.

    >>> jain([0.0, 1.0]), jain([2.0, 2.0])
    (0.5, 1.0)
    """
    array = _non_negative(values)
    if array.size == 0 or not np.isfinite(array).all():
        return float("nan")
    largest = array.max()
    if largest == 0.0:
        return 1.0
    scaled = array / largest
    return min(1.0, float(scaled.sum() ** 2 / (array.size * (scaled @ scaled))))


def entropy(values: ArrayLike) -> float:
    """Entropy (nats) of the shares v_i / sum v: log K when all are equal, 0 when one has all.

    >>> entropy([0.0, 3.0])
    0.0
    """
    array = _non_negative(values)
    if array.size == 0 or not np.isfinite(array).all():
        return float("nan")
    largest = array.max()
    if largest == 0.0:
        return float(np.log(array.size))
    shares = array / largest
    shares = shares / shares.sum()
    shares = shares[shares > 0.0]
    return max(0.0, float(-(shares * np.log(shares)).sum()))


def lorenz(values: ArrayLike) -> tuple[Array, Array]:
    """The Lorenz curve: share of clients (worst first) and the share of the total they hold.

    Both start at 0 and end at 1 and have K + 1 points.

    >>> lorenz([3.0, 1.0])
    (array([0. , 0.5, 1. ]), array([0.  , 0.25, 1.  ]))
    """
    array = np.sort(_non_negative(values))
    clients = np.linspace(0.0, 1.0, array.size + 1)
    total = array.sum()
    if total == 0.0:  # everybody holds the same: nothing
        return clients, clients.copy()
    held = np.concatenate([[0.0], np.cumsum(array / total)])
    held[-1] = 1.0
    return clients, held


def summary(
    values: ArrayLike, sizes: ArrayLike | None = None, *, larger_is_better: bool = True
) -> dict[str, float]:
    """Everything above at once, for one number per client.

    `values` are one per client, nan where a client has none; `sizes` are test-set sizes (default:
    all alike) and weigh `avg` only. Set `larger_is_better=False` for losses: `worst` is then the
    mean of the highest tenth and `worst_client` the highest.

    >>> s = summary([0.5, 1.0, float("nan")], sizes=[3, 1, 9])
    >>> s["avg"], s["mean"], s["worst_client"], s["gap"], s["missing"]
    (0.625, 0.75, 0.5, 0.5, 1)
    """
    array = np.asarray(values, dtype=np.float64).ravel()
    weights = np.ones(array.size) if sizes is None else np.asarray(sizes, np.float64).ravel()
    if weights.shape != array.shape:
        raise ValueError(f"sizes has {weights.size} entries for {array.size} values")
    there = ~np.isnan(array)
    array, weights = array[there], weights[there]
    missing = int((~there).sum())
    if array.size == 0:
        return {key: float("nan") for key in KEYS} | {"missing": missing}
    low, high = float(array.min()), float(array.max())
    weighted = weights.sum() > 0.0
    return {
        "avg": float(np.average(array, weights=weights)) if weighted else float("nan"),
        "mean": float(array.mean()),
        "worst": worst_mean(array, larger_is_better=larger_is_better),
        "best": best_mean(array, larger_is_better=larger_is_better),
        "worst_client": low if larger_is_better else high,
        "best_client": high if larger_is_better else low,
        "gap": high - low if high > low else 0.0,
        "gini": gini(array),
        "variance": variance(array),
        "jain": jain(array),
        "entropy": entropy(array),
        "missing": missing,
    }


def _non_negative(values: ArrayLike) -> Array:
    array = _present(values)
    if array.size and array.min() < 0.0:
        raise ValueError(f"shares need values >= 0; the smallest is {array.min():g}")
    return array
