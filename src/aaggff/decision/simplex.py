"""The set of weights: finite, >= 0, sum 1."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from aaggff.decision.base import Array
from aaggff.errors import UserError


def project(v: ArrayLike) -> Array:
    """The point of the simplex nearest to `v`: max(v - theta, 0), theta such that it sums to 1.

    Args:
        v: finite numbers, at least one.

    Sorted from the largest down, the first m entries stay positive for the largest m with
    v_(m) > (v_(1) + ... + v_(m) - 1) / m, which is then theta. Only the sorted values enter, so
    the result follows a reordering of `v` bit for bit.

    >>> print(project([0.5, 0.5, -1.0]))
    [0.5 0.5 0. ]
    >>> print(project([3.0, 1.0]))
    [1. 0.]
    """
    x = np.asarray(v, dtype=np.float64)
    if x.ndim != 1 or x.size == 0 or not np.isfinite(x).all():
        raise UserError("project: expected a non-empty vector of finite numbers")
    # A common shift changes nothing; unshifted, large entries would swallow the 1. Who is 1 or
    # more below the largest gets 0. (In halves, the difference of two huge entries is finite.)
    y = np.maximum(x / 2 - x.max() / 2, -1.0) * 2
    down = np.sort(y)[::-1]
    over = np.cumsum(down) - 1.0
    count = int(np.count_nonzero(down * np.arange(1, x.size + 1) > over))
    p: Array = np.maximum(y - over[count - 1] / count, 0.0)
    p /= np.sort(p).sum()
    return p


def project_within(v: Array, low: float, high: float) -> Array:
    """The p nearest to `v` with low <= p_i <= high and sum 1, by bisection.

    >>> print(project_within(np.array([9.0, 0.0, 0.0]), 0.0, 0.5))
    [0.5  0.25 0.25]
    """
    most = float(v.max()) - low  # here all are at low
    least = float(v.min()) - min(high, 1.0)  # here all are at high, or at 1 and more
    for _ in range(200):
        middle = (least + most) / 2
        if not least < middle < most:
            break
        if float(np.clip(v - middle, low, high).sum()) > 1.0:
            least = middle
        else:
            most = middle
    return np.clip(v - most, low, high)
