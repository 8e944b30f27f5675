"""A strictly convex quadratic c.p + p.B.p/2, and its minimiser on a face of the simplex.

B comes as `Dense` (a matrix) or `LowRank` (a I + b H H', H with few columns). A face is a set of
clients that may move while the others are held; on it the minimiser is one linear system.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from aaggff.decision.base import Array

Index = NDArray[np.intp]
Solve = Callable[[Array], Array]

REFINEMENTS = 5
ROUNDING = 1e-15
"""A residual this small, relative to the gradient, is as good as double precision gets."""
WOODBURY = 1e9
"""Largest b |H|^2 / a for which Woodbury's formula leaves enough digits to refine."""
LARGEST_BLOCK = 4096
"""Above this a dense block is not made, ill-conditioned or not."""


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
        from scipy.linalg.lapack import dposv, dpotrs  # a quarter of a second, so not before

        self.matrix = matrix
        self.size = len(matrix)
        self._posv, self._potrs = dposv, dpotrs

    def times(self, p: Array) -> Array:
        """B p."""
        return self.matrix @ p

    def solve(self, free: Index | None, right: Array) -> tuple[Array, Solve]:
        """By Cholesky, whose residual is small whatever the conditioning."""
        block = self.matrix if free is None else self.matrix[free[:, None], free]
        factor, x, failed = self._posv(block.T, right)  # .T: the layout LAPACK wants, no copy
        if failed:
            raise np.linalg.LinAlgError("B is not positive definite in double precision")
        return x, lambda rest: self._potrs(factor, rest)[0]


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
    moving = offset if free is None else offset[free]
    right = np.empty((2, moving.size))
    right[0] = 1.0
    np.negative(moving, out=right[1])
    x, again = quadratic.solve(free, right.T)
    unit, rest = x[:, 0], x[:, 1]
    # p_F = B_FF^-1 (level - c_F); the level is what makes the sum come out.
    per_level = float(np.add.reduce(unit))
    target = 1.0 if held is None else 1.0 - float(np.add.reduce(held))
    level = (target - float(np.add.reduce(rest))) / per_level
    face = level * unit + rest
    scale = float(max(linear.max(), -linear.min())) + abs(level)
    before = np.inf
    for _ in range(REFINEMENTS):
        if free is None:
            p = face
        else:
            p = np.zeros(linear.size) if held is None else held.copy()
            p[free] = face
        slack = quadratic.times(p)
        slack += linear
        slack -= level
        error = slack if free is None else slack[free]
        worst = float(max(error.max(), -error.min()))
        if worst <= ROUNDING * scale or worst > before / 2:
            break
        before = worst
        fix = again(-error)
        shift = (target - float(np.add.reduce(face)) - float(np.add.reduce(fix))) / per_level
        face = face + fix + shift * unit
        level += shift
    return p, slack, max(worst, ROUNDING * scale)
