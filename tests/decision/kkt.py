"""How far from optimal, measured in extended precision and from the problem alone."""

from __future__ import annotations

import numpy as np


def residual(matrix, linear, p, low=0.0, high=np.inf) -> float:
    """Largest violation of the optimality conditions of min c.p + p.B.p/2, low <= p <= high, sum 1.

    Relative to max |c| + |B||p|, the terms the gradient is made of: no double precision arithmetic
    sees more. `matrix` is B, or a triple (a, b, H) that stands for a I + b H H'.
    """
    wide = np.longdouble
    x, c = np.asarray(p, wide), np.asarray(linear, wide)
    if isinstance(matrix, tuple):
        a, b, history = wide(matrix[0]), wide(matrix[1]), matrix[2].astype(wide)
        product = a * x + b * (history @ (x @ history))
        terms = a * np.abs(x) + b * (np.abs(history) @ (np.abs(x) @ np.abs(history)))
    else:
        full = np.asarray(matrix).astype(wide)
        product, terms = full @ x, np.abs(full) @ np.abs(x)
    gradient = product + c
    scale = float((np.abs(c) + terms).max())
    bounds = max(np.maximum(low - x, 0).max(), np.maximum(x - high, 0).max(), abs(x.sum() - 1))
    # A level must exist with the gradient >= it wherever p can rise, <= it wherever p can fall.
    may_rise, may_fall = gradient[x < high], gradient[x > low]
    gap = 0.0
    if may_rise.size and may_fall.size:
        gap = max(0.0, float(may_fall.max() - may_rise.min()))
    return float(max(bounds, gap / scale if scale > 0 else gap))
