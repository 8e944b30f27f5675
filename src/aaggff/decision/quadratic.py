"""A strictly convex quadratic c.p + p.B.p/2, and its minimiser on a face of the simplex.

B comes as `Dense` (a matrix) or `LowRank` (a I + b H H', H with few columns). A face is a set of
clients that may move while the others are held; on it the minimiser is one linear system.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from aaggff.decision.base import Array

Index = NDArray[np.intp]
Solve = Callable[[Array], Array]

REFINEMENTS = 5
ROUNDING = 1e-14
"""A residual this small, relative to the gradient, is left as it is."""
WOODBURY = 1e9
"""Largest b |H|^2 / a for which Woodbury's formula leaves enough digits to refine."""
LARGEST_BLOCK = 4096
"""Above this a dense block is not made, ill-conditioned or not."""


@cache
def _cholesky() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Straight from LAPACK: at a few clients numpy's checks cost more than the solving."""
    from scipy.linalg.lapack import dposv, dpotrs  # takes a fifth of a second, so not before

    return dposv, dpotrs


class Quadratic(Protocol):
    """A symmetric positive definite matrix B, in whatever form is cheapest."""

    size: int

    def times(self, p: Array) -> Array:
        """B p."""

    def solve(self, free: Index | None, right: Array) -> tuple[Array, Solve]:
        """X with B_FF X = right (columns), and how to solve again; `free` None is everybody."""


class Dense:
    """B as a symmetric matrix."""

    def __init__(self, matrix: Array) -> None:
        self.matrix = matrix
        self.size = len(matrix)

    def times(self, p: Array) -> Array:
        """B p."""
        product: Array = self.matrix.dot(p)  # of the ways to write it, the quickest for a few
        return product

    def solve(self, free: Index | None, right: Array) -> tuple[Array, Solve]:
        """By Cholesky, whose residual is small whatever the conditioning."""
        posv, potrs = _cholesky()
        block = self.matrix if free is None else self.matrix.take(free, 0).take(free, 1)
        factor, x, failed = posv(block.T, right)  # .T: the layout LAPACK wants, no copy
        if failed:  # rounding has eaten the smallest eigenvalues: what is lost, refinement restores
            block = block.copy()
            n = len(block)
            block.flat[:: n + 1] += n * np.finfo(np.float64).eps * float(block.trace())
            factor, x, failed = posv(block.T, right)
            if failed:
                raise np.linalg.LinAlgError("B is not positive definite, or not finite")
        return x, lambda rest: potrs(factor, rest)[0]


class LowRank:
    """B = a I + b H H', with H of size K x t: what it costs grows with t, not with K."""

    def __init__(self, a: float, b: float, history: Array) -> None:
        self.a, self.b, self.history = a, b, history
        self.size = len(history)

    def times(self, p: Array) -> Array:
        """B p."""
        return self.a * p + self.b * (self.history @ (p @ self.history))

    def solve(self, free: Index | None, right: Array) -> tuple[Array, Solve]:
        """In the smaller of two spaces: that of the clients (F x F) or of the rounds (t x t)."""
        part = self.history if free is None else self.history[free]
        clients, rounds = part.shape
        if self.b == 0 or rounds == 0:
            return right / self.a, lambda rest: rest / self.a
        if clients <= rounds:
            return self._among_clients(part, right)
        # Woodbury: (a I + b H H')^-1 x = (x - H (a/b I + H'H)^-1 H' x) / a
        inner = part.T @ part
        ridge = self.a / self.b
        if inner.trace() > WOODBURY * ridge and clients <= LARGEST_BLOCK:
            return self._among_clients(part, right)
        inner.flat[:: rounds + 1] += ridge
        y, again = Dense(inner).solve(None, part.T @ right)
        return (right - part @ y) / self.a, lambda x: (x - part @ again(part.T @ x)) / self.a

    def _among_clients(self, part: Array, right: Array) -> tuple[Array, Solve]:
        block = self.b * (part @ part.T)
        block.flat[:: len(part) + 1] += self.a
        return Dense(block).solve(None, right)


def on_face(
    quadratic: Quadratic, linear: Array, free: Index | None, held: Array | None = None
) -> tuple[Array, Array, float]:
    """The p with sum 1 at which c.p + p.B.p/2 is least if only `free` may move, of any sign.

    Args:
        quadratic, linear: B and c.
        free: who may move; None is everybody. At least one.
        held: where everybody else is kept (0 if not given), and 0 for who may move.

    Returns:
        p; the gradient less its common value on the face (so 0 there); what that 0 is worth: how
        far from 0 rounding may have put the second.
    """
    offset = linear if held is None else linear + quadratic.times(held)
    moving = offset if free is None else offset.take(free)
    right = np.empty((2, moving.size))
    ones = right[0]
    ones[:] = 1.0
    np.negative(moving, right[1])
    x, again = quadratic.solve(free, right.T)
    unit, rest = x[:, 0], x[:, 1]
    # p_F = B_FF^-1 (level - c_F); the level is what makes the sum come out.
    per_level, of_rest = ones.dot(x).tolist()
    target = 1.0 if held is None else 1.0 - float(held.sum())
    level = (target - of_rest) / per_level
    face = level * unit
    face += rest
    good = ROUNDING * (math.sqrt(linear.dot(linear)) + abs(level))
    before = math.inf
    for _ in range(REFINEMENTS):
        if free is None:
            p = face
        else:
            p = np.zeros(linear.size) if held is None else held.copy()
            p[free] = face
        slack = quadratic.times(p)
        slack += linear
        slack -= level
        error = slack if free is None else slack.take(free)
        worst = math.sqrt(error.dot(error))
        if worst <= good or worst > before / 2:
            break
        before = worst
        fix = again(-error)
        shift = (target - float(ones.dot(face)) - float(ones.dot(fix))) / per_level
        face = face + fix + shift * unit
        level += shift
    return p, slack, max(worst, good)
