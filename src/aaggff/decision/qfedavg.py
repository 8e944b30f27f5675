"""q-FedAvg as its authors run it: weights F_i^q, and a step that shrinks where F_i^q is steep.

    Delta w = sum F_i^q L Delta_i / sum(q F_i^(q-1) |L Delta_i|^2 + L F_i^q),  L = 1/lr
            = step * sum w_i Delta_i  with  w_i = F_i^q / sum F_j^q.

Li, Sanjabi, Beirami, Smith: Fair Resource Allocation in Federated Learning, ICLR 2020.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aaggff.decision.base import Array
from aaggff.decision.entropic import Entropic, entropic_step, prior_weights
from aaggff.decision.reports import check_reports, total
from aaggff.decision.responses import power
from aaggff.decision.updates import squared_norms
from aaggff.errors import UserError

FLOOR = 1e-10
"""Least loss in F^(q-1). The authors add as much to every loss: else, for q < 1, one client whose
loss is 0 would stop the whole federation."""


class QFedAvg(Entropic):
    """q-FedAvg as its authors run it; `last.step` is the factor on the mixed update.

    Args:
        q: how much fairness; 0 is the plain mean of the updates.

    >>> maker = QFedAvg(q=1.0)
    >>> maker.decide(["a", "b"], [1.0, 3.0], [10, 10], gram=[[4, 0], [0, 1]], lr=0.5).tolist()
    [0.25, 0.75]
    >>> round(maker.last.step, 6)  # (2 * 1 + 2 * 3) / (4 * 4 + 2 * 1 + 4 * 1 + 2 * 3), times 1 / L
    0.285714
    """

    wants_updates = True

    def __init__(self, q: float = 1.0) -> None:
        super().__init__(self._response, prior="uniform")
        self.q = q

    def _response(self, losses: Array) -> Array:
        return power(losses, self.q)

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
        if lr is None or not 0 < lr < math.inf:
            raise UserError(
                f"lr: q-FedAvg as its authors run it needs the clients' learning rate, a positive"
                f" number, got {lr!r} (step='plain' does without)"
            )
        reports = check_reports(ids, losses, sizes)
        reports, squares = squared_norms(reports, updates, gram)
        if not len(reports):
            return self.settle(reports, prior_weights(reports.all_sizes, self.prior))
        responses = power(reports.losses, self.q)
        weights = entropic_step(np.zeros(len(reports)), responses)
        return self.settle(reports, weights, responses, self._scale(reports.losses, squares, lr))

    def _scale(self, losses: Array, squares: Array, lr: float) -> float:
        """sum F^q / sum(F^q + q F^(q-1) |Delta|^2 / lr), by logarithms: F^q may exceed a float."""
        if self.q == 0:
            return 1.0
        with np.errstate(divide="ignore"):
            gain = self.q * np.log(losses)
            curve = (self.q - 1) * np.log(np.maximum(losses, FLOOR)) + np.log(squares)
        top, bend = _log_sum_exp(gain), _log_sum_exp(curve)
        if bend == -math.inf:  # nobody moved
            return 1.0
        # 1 / (1 + exp(excess)), written so that neither end overflows.
        excess = bend + math.log(self.q / lr) - top
        return (
            math.exp(-excess) / (1 + math.exp(-excess))
            if excess > 0
            else 1 / (1 + math.exp(excess))
        )


def _log_sum_exp(exponents: Array) -> float:
    top = float(exponents.max())
    if top == -math.inf:
        return top
    return top + math.log(total(np.exp(exponents - top)))
