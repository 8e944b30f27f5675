"""FedMGDA+: move along the shortest mixture of the clients' directions.

    u_i = Delta_i / |Delta_i|,
    p = argmin |sum p_i u_i|^2  over the simplex, |p_i - 1/n| <= epsilon

Hu, Shaloudegi, Zhang, Yu: Federated Learning Meets Multi-Objective Optimization, 2020. With
epsilon = 1 the shortest mixture makes at least as much progress for every client as its own
squared length; with epsilon = 0 it is the plain mean of the directions.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aaggff.decision.active_set import minimise_in_box
from aaggff.decision.base import Array, DecisionMaker, State
from aaggff.decision.newton import canonical
from aaggff.decision.quadratic import Dense
from aaggff.decision.reports import as_list, check_reports, total
from aaggff.decision.state import check_keys
from aaggff.decision.updates import gram_matrix
from aaggff.errors import UserError, unknown

LENGTHS = ("median", "unit")
RIDGE = 1e-6
"""Of the proximal steps that handle a singular Gram matrix. It does not move the optimum."""
STEPS = 100


class MinNorm(DecisionMaker):
    """FedMGDA+.

    Args:
        epsilon: how far a weight on a direction may be from 1/n; 0 is the mean, 1 no limit.
        length: how long a direction is made before it is mixed: "median" (of the round's
            updates) or "unit" (as its authors run it).

    The update to apply is d = sum p_i u_i. Weights are about raw updates and sum to 1, so

        w_i = (p_i / |Delta_i|) / s,   s = sum p_j / |Delta_j|,   d = s * sum w_i Delta_i:

    `decide` returns w, and `last.step` is s times the common length. With unit length every round
    moves up to 1, however small the client learning rate has become; with the median length, the
    default, a round in which all updates are equally long is mixed as it is (step 1), learning
    rates keep their meaning, and no single client can set the scale.

    A client whose update is exactly 0 has no direction: it takes no part in the problem and weighs
    0. If nobody has a direction, all weigh the same.

    >>> maker = MinNorm(epsilon=1.0)
    >>> maker.decide(["a", "b"], [0.2, 0.6], [10, 10], updates=[[1, 0], [0, 1]]).tolist()
    [0.5, 0.5]
    """

    wants_updates = True

    def __init__(self, epsilon: float = 0.5, *, length: str = "median") -> None:
        if not epsilon >= 0:
            raise UserError(f"epsilon: expected a number >= 0, got {epsilon!r}")
        if length not in LENGTHS:
            raise unknown("length", str(length), LENGTHS)
        self.epsilon = float(epsilon)
        self.length = length

    def decide(
        self,
        ids: Sequence[Hashable] | NDArray[Any],
        losses: ArrayLike,
        sizes: ArrayLike,
        *,
        updates: Any = None,
        gram: ArrayLike | None = None,
        lr: float | None = None,
    ) -> Array:
        reports, inner = gram_matrix(check_reports(ids, losses, sizes), updates, gram)
        lengths = np.sqrt(np.diagonal(inner))
        moved = np.flatnonzero(lengths > 0)
        if not moved.size:
            n = len(reports) or reports.all_sizes.size
            return self.settle(reports, np.full(n, 1 / n))
        names = as_list(reports.ids)
        place = {name: at for at, name in enumerate(canonical(names))}
        order = moved[np.argsort([place[names[i]] for i in moved.tolist()])]
        norm = lengths[order]
        p = shortest(inner[order[:, None], order] / norm / norm[:, None], self.epsilon)
        # p / |Delta|, relative to the shortest update so that nothing overflows.
        shortest_update = float(norm.min())
        raw = p * (shortest_update / norm)
        scale = total(raw)
        common = 1.0 if self.length == "unit" else float(np.median(norm))
        weights = np.zeros(lengths.size)
        weights[order] = raw / scale
        return self.settle(reports, weights, step=scale * (common / shortest_update))

    def state_dict(self) -> State:
        return {}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        check_keys(state, ())


def shortest(gram: Array, epsilon: float) -> Array:
    """The p with |p_i - 1/n| <= epsilon on the simplex at which p.gram.p is least.

    Where several are (identical directions, more directions than dimensions), the one that proximal
    steps from 1/n lead to: equal directions get equal weights.

    >>> gram = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> shortest(gram, 1.0).round(9).tolist()
    [0.25, 0.25, 0.5]
    """
    n = len(gram)
    p = np.full(n, 1 / n)
    low, high = max(0.0, 1 / n - epsilon), min(1.0, 1 / n + epsilon)
    if n == 1 or high <= low:
        return p
    matrix = gram.copy()
    ridge = RIDGE * float(np.diagonal(gram).max())
    matrix.flat[:: n + 1] += ridge
    for _ in range(STEPS):
        step = minimise_in_box(Dense(matrix), -ridge * p, low, high, p)
        moved = float(np.abs(step - p).max())
        p = step
        if ridge * moved <= 1e-13:
            break
    return p
