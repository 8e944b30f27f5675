"""The best fixed weights in hindsight: a log-optimal portfolio, with a certificate."""

from __future__ import annotations

import numpy as np

from aaggff.decision.active_set import minimise
from aaggff.decision.base import Array
from aaggff.decision.quadratic import Dense, LowRank, Quadratic

STEPS = 100
SHORTEST = 1e-6
PRECISION = 1e-12
RIDGE = 1e-8
"""Of a proximal term that keeps the model strictly convex. It does not move the optimum."""


def best_fixed(rows: Array, slope: Array | None = None) -> tuple[Array, float, float]:
    """The p of the simplex at which sum_t log(1 + <p, r_t>) + <slope, p> is greatest.

    Newton's method: the second-order model is a quadratic programme, which `minimise` solves
    exactly. The certificate is the concave function's tangent plane at p, which is nowhere below
    the function and on the simplex at most max_i of the gradient less <gradient, p> above it.

    Returns:
        p, the value there, and the most by which any other p can be better.

    >>> p, value, gap = best_fixed(np.array([[1.0, 0.0]] * 2 + [[0.0, 1.0]] * 3))
    >>> print(p.round(9), gap < 1e-12)
    [0.2 0.8] True
    """
    rounds, clients = rows.shape
    extra = np.zeros(clients) if slope is None else slope
    # Small responses make the function nearly linear: then one client it is, and this one.
    p = np.zeros(clients)
    p[(rows.sum(axis=0) + extra).argmax()] = 1.0
    value, gap = _growth(rows, extra, p)
    sharpest = (p, value, gap)
    for _ in range(STEPS):
        if sharpest[2] <= PRECISION * abs(value):
            break
        inner = rows @ p
        # Less <p, r_t>, which is the same for every client: so centred @ p = 0.
        centred = (rows - inner[:, None]) / (1.0 + inner)[:, None]
        ascent = centred.sum(axis=0) + extra
        ridge = RIDGE * float(np.einsum("ij,ij->", centred, centred)) or 1.0
        if clients <= rounds:
            matrix = centred.T @ centred
            matrix.flat[:: clients + 1] += ridge
            model: Quadratic = Dense(matrix)
        else:
            model = LowRank(ridge, 1.0, centred.T.copy())
        toward = minimise(model, -ascent - ridge * p, p) - p
        step = 1.0
        while step > SHORTEST:
            trial = p + step * toward
            found = _growth(rows, extra, trial)
            if found[0] > value or found[1] < sharpest[2]:
                break
            step /= 2
        else:  # what is left is rounding
            break
        p, (value, gap) = trial, found
        if gap < sharpest[2]:
            sharpest = (p, value, gap)
    return sharpest


def _growth(rows: Array, slope: Array, p: Array) -> tuple[float, float]:
    """The value at p, and what the tangent plane there allows beyond it."""
    inner = rows @ p
    gradient = (1.0 / (1.0 + inner)) @ rows + slope
    gap = float(gradient.max()) - float(gradient @ p)
    return float(np.log1p(inner).sum()) + float(slope @ p), max(0.0, gap)
