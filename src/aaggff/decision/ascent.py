"""AFL as its authors run it: projected gradient ascent on the worst mixture of clients.

    p <- projection onto the simplex of (p + gamma F)

Mohri, Sivek, Suresh: Agnostic Federated Learning, ICML 2019. The rule is for everybody taking part
in every round. Where somebody does not:

- A client **missing** from a round (or set aside) keeps its share. Those who reported divide what
  they hold together among themselves by the same ascent step; their weights are these shares as
  parts of 1. With nobody missing this is AFL.
- A client who **joins** as the N-th starts with 1/N; the others shrink in proportion.
- A client who **leaves** for good (`forget`) hands its share to the others in proportion.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aaggff.decision.base import Array, DecisionMaker, State
from aaggff.decision.reports import as_list, check_reports, total
from aaggff.decision.simplex import project
from aaggff.decision.state import array_to_ids, check_keys, ids_to_array, read_floats
from aaggff.errors import UserError


class ProjectedAscent(DecisionMaker):
    """AFL.

    Args:
        gamma: step size of the ascent, >= 0.

    >>> maker = ProjectedAscent(gamma=0.5)
    >>> maker.decide(["a", "b"], [0.2, 0.6], [10, 10]).round(6).tolist()
    [0.4, 0.6]
    >>> maker.decide(["b", "a"], [0.6, 0.2], [10, 10]).round(6).tolist()
    [0.7, 0.3]
    """

    def __init__(self, gamma: float = 0.1) -> None:
        self.gamma = gamma
        self.shares: dict[Hashable, float] = {}
        """p, for everybody seen so far; sums to 1."""

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
        reports = check_reports(ids, losses, sizes)
        if not len(reports):
            n = reports.all_sizes.size
            return self.settle(reports, np.full(n, 1 / n))
        here = as_list(reports.ids)
        self._welcome(here)
        held = np.array([self.shares[name] for name in here])
        mass = total(held)
        start = held / mass if mass > 0 else np.full(held.size, 1 / held.size)
        weights = ascend(start, reports.losses, self.gamma)
        self.shares.update(zip(here, (mass * weights).tolist()))
        return self.settle(reports, weights, reports.losses)

    def forget(self, ids: Iterable[Hashable]) -> None:
        for name in ids:
            self.shares.pop(name, None)
        self._rescale(1.0)

    def _welcome(self, here: list[Hashable]) -> None:
        new = [name for name in here if name not in self.shares]
        if new:
            everybody = len(self.shares) + len(new)
            self._rescale(len(self.shares) / everybody)
            self.shares.update(dict.fromkeys(new, 1 / everybody))

    def _rescale(self, whole: float) -> None:
        """Make the shares sum to `whole`, in proportion (evenly if nobody holds any)."""
        values = np.array(list(self.shares.values()))
        mass = total(values)
        values = (
            values * (whole / mass)
            if mass > 0
            else np.full(values.size, whole / max(1, values.size))
        )
        self.shares = dict(zip(self.shares, values.tolist()))

    def state_dict(self) -> State:
        return {
            "ids": ids_to_array(list(self.shares)),
            "shares": np.array(list(self.shares.values()), dtype=np.float64),
        }

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        check_keys(state, ("ids", "shares"))
        ids = array_to_ids(state["ids"])
        shares = read_floats(state, "shares", len(ids), lowest=0.0)
        if ids and abs(total(shares) - 1) > 1e-6:
            raise UserError(f"state: 'shares' sum to {total(shares):g}, expected 1")
        self.shares = dict(zip(ids, shares.tolist()))


def ascend(start: Array, losses: Array, gamma: float) -> Array:
    """The projection of start + gamma * losses onto the simplex."""
    # The projection does not see a common shift, and gives 0 to whoever is 1 or more below the
    # best: so a loss of 1e100 costs the others no digits.
    with np.errstate(over="ignore"):
        raised = start + gamma * (losses - losses.max())
    return project(np.maximum(raised, raised.max() - 2.0))
