"""Who ends at a bound: the exact minimiser of a strictly convex quadratic over weights.

    minimise  c.p + p.B.p / 2   over  low <= p_i <= high, sum p = 1

Which weights end at a bound is all there is to find: given that, what remains is one linear system.
`minimise` guesses (from the last decision: from one round to the next the set hardly changes),
solves, and lets *all* clients that contradict the guess change sides, a handful of times (block
principal pivoting). Should that not settle, `descend` does: the primal active set method, which
changes one client at a time and lowers the objective with every step, so that it must end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aaggff.decision.base import Array
from aaggff.decision.quadratic import Index, Quadratic, on_face
from aaggff.decision.simplex import project, project_within

EXCHANGES = 60
PATIENCE = 8
"""Exchanges that may pass without fewer contradictions than ever before."""
SHORTCUTS = 50
NOISE = 16.0
"""A multiplier of the wrong sign is one if it is this many times what rounding explains."""


def minimise(quadratic: Quadratic, linear: Array, start: Array | None = None) -> Array:
    """The p of the simplex at which c.p + p.B.p/2 is least.

    Args:
        quadratic: B, as `Dense` or `LowRank`.
        linear: c.
        start: a guess, of which only the support counts: usually the last decision.

    >>> from aaggff.decision.quadratic import Dense
    >>> B, c = Dense(np.diag([1.0, 1.0, 2.0])), np.array([0.0, 3.0, 0.0])
    >>> print(np.round(minimise(B, c), 6))
    [0.666667 0.       0.333333]
    """
    size = linear.size
    free = None if start is None else _everybody_is_none(start.nonzero()[0], size)
    fewest, patience = size + 1, PATIENCE
    for _ in range(EXCHANGES):
        p, slack, rounding = on_face(quadratic, linear, free)
        # On the face the slack is rounding, so one look at the lowest is enough for all.
        if p.item(p.argmin()) >= 0 and slack.item(slack.argmin()) >= -NOISE * rounding:
            return p
        wrong = p < 0
        if free is not None:
            slack[free] = 0.0
            wrong |= slack < -NOISE * rounding
        count = int(np.count_nonzero(wrong))
        patience = PATIENCE if count < fewest else patience - 1
        if patience < 0:
            break
        fewest = min(count, fewest)
        inside = np.zeros(size, bool)
        inside[slice(None) if free is None else free] = True
        free = _everybody_is_none((inside ^ wrong).nonzero()[0], size)
    return descend(quadratic, linear, project(p))


def _everybody_is_none(free: Index, size: int) -> Index | None:
    return free if 0 < free.size < size else None


def descend(
    quadratic: Quadratic, linear: Array, p: Array, low: float = 0.0, high: float = np.inf
) -> Array:
    """The same from a point within the bounds, downhill (primal active set method).

    Every minimum on a face is lower than the one before, so no face comes twice, and there are
    finitely many: a face that does come twice says that the rest is rounding. The first `SHORTCUTS`
    times many clients may change sides at once, which is quicker but proves nothing.
    """

    def value(x: Array) -> float:
        return float(x @ (linear + quadratic.times(x) / 2))

    p = np.clip(p, low, high)
    free: NDArray[np.bool_] = (p > low) & (p < high)
    shortcuts, several = SHORTCUTS, False
    seen: set[bytes] = set()
    for _ in range(SHORTCUTS + 100 + 20 * linear.size):
        if not free.any():
            free = _leave_corner(quadratic.times(p) + linear, p, low, high)
            if not free.any():
                return p
        inside = free.nonzero()[0]
        target, slack, rounding = on_face(quadratic, linear, inside, np.where(free, 0.0, p))
        step = target - p
        room = np.where(step < 0, low - p, high - p)
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(step == 0, np.inf, room / step)
        length = float(reach.min())
        if length < 1:  # somebody meets a bound on the way
            if shortcuts:
                shortcuts -= 1
                bent = project_within(target, low, high)
                if value(bent) < value(p):
                    p, free = bent, (bent > low) & (bent < high)
                    continue
            stopped = reach <= length
            p = np.where(stopped, np.where(step < 0, low, high), p + length * step)
            free &= ~stopped
            continue
        p = target
        face = free.tobytes()
        if face in seen:
            if not several:
                return p
            shortcuts = 0  # all who were let go came straight back: one by one, then
        seen.add(face)
        gain = np.where(free, 0.0, np.where(p <= low, -slack, slack))
        worst = int(gain.argmax())
        if gain[worst] <= NOISE * rounding:
            return p
        several = shortcuts > 0
        if several:
            shortcuts -= 1
            free |= gain > NOISE * rounding
        free[worst] = True
    return p


def _leave_corner(gradient: Array, p: Array, low: float, high: float) -> NDArray[np.bool_]:
    """Everybody is at a bound: whom to raise and whom to lower, if anybody."""
    free = np.zeros(p.size, bool)
    up = int(np.where(p < high, gradient, np.inf).argmin())
    down = int(np.where(p > low, gradient, -np.inf).argmax())
    if gradient[down] - gradient[up] > NOISE * 1e-15 * float(np.abs(gradient).max()):
        free[[up, down]] = True
    return free


def minimise_in_box(
    quadratic: Quadratic, linear: Array, low: float, high: float, start: Array
) -> Array:
    """The p with low <= p_i <= high and sum 1 at which c.p + p.B.p/2 is least.

    `start` is within the bounds, and whoever it has at a bound is first supposed to stay there.
    """
    size = linear.size
    side = np.where(start <= low, -1, np.where(start >= high, 1, 0))
    fewest, patience = size + 1, PATIENCE
    for _ in range(EXCHANGES):
        free = np.flatnonzero(side == 0)
        if not free.size:
            break
        held = np.where(side < 0, low, np.where(side > 0, high, 0.0))
        p, slack, rounding = on_face(quadratic, linear, free, held)
        slack[free] = 0.0
        inward = side * slack > NOISE * rounding
        under, over = (side == 0) & (p < low), (side == 0) & (p > high)
        count = int(np.count_nonzero(inward | under | over))
        if count == 0:
            return p
        patience = PATIENCE if count < fewest else patience - 1
        if patience < 0:
            break
        fewest = min(count, fewest)
        side = np.where(inward, 0, np.where(under, -1, np.where(over, 1, side)))
    return descend(quadratic, linear, start, low, high)
