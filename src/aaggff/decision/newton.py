"""AAggFF-S: the online Newton step over the simplex, for federations in which everybody takes part.

Eq. 9 of the paper, with the proximal centre p_tau kept where it belongs:

    p_next = argmin over the simplex of
        sum_tau <g_tau, p> + alpha/2 |p - prior|^2 + beta/2 sum_tau <g_tau, p - p_tau>^2,

    g = -r / (1 + <p, r>),   L = C2/(1 + C1),   alpha = 4KL/strength,   beta = 1/(4L).

On the simplex a gradient counts only up to a common shift, so what is kept of a round is
h = (g - its value at the mean response) / L, a number between -1 and 1 per client whatever the
range. Divided by alpha, the problem is

    |p - prior|^2/2 + strength/(4K) <sum (1 - <h, p_tau>/4) h, p> + strength/(32K) sum <h, p>^2,

in which nothing is large or small and strength 0 is the prior.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aaggff.decision.active_set import minimise
from aaggff.decision.base import Array, DecisionMaker, State
from aaggff.decision.curvature import Curvature
from aaggff.decision.entropic import PRIORS, prior_weights
from aaggff.decision.reports import as_list, check_reports, total
from aaggff.decision.responses import CdfResponse
from aaggff.decision.state import array_to_ids, check_keys, ids_to_array, read_count, read_floats
from aaggff.errors import UserError, unknown

MOST_CLIENTS = 200_000
"""What is kept grows with K times the rounds; AAggFF-D keeps nothing of size K."""


class OnlineNewton(DecisionMaker):
    """AAggFF-S.

    Args:
        clients: how many clients the federation has (K). None: as many as the first round names.
        response: loss -> response in [C1, C2]. Where its C2 is None it becomes the paper's, 1/K.
        strength: divides alpha; 1 is the paper's step size, 0 the prior.
        prior: "uniform" (the paper's) or "size".

    Who is **missing** from a round gets that round's mean response, and who is there the doubly
    robust one, rbar + (r - rbar)/C with C = n/K; the gradient is then the linearised one of
    AAggFF-D (which is defined for responses outside [C1, C2]). The decision is about everybody;
    those who reported divide theirs among themselves. A client who **joins** counts as one who was
    always there and never heard: K grows by 1. A client who **leaves** (`forget`) is held at 0:
    the same problem without it, and K falls by 1.

    >>> maker = OnlineNewton()
    >>> maker.decide(["a", "b"], [0.2, 0.6], [10, 10]).round(4).tolist()
    [0.4809, 0.5191]
    """

    def __init__(
        self,
        clients: int | None = None,
        response: CdfResponse | None = None,
        *,
        strength: float = 1.0,
        prior: str = "uniform",
    ) -> None:
        if prior not in PRIORS:
            raise unknown("prior", str(prior), PRIORS)
        self._told = clients
        self.clients = clients
        self.response = response or CdfResponse(high=None)
        self.strength = strength
        self.prior = prior
        self.round = 0
        self._slots: dict[Hashable, int] = {}
        """Where each client seen so far stands in the arrays. Slots after these wait for others."""
        self._sizes: Array = np.empty(0)
        self._drift: Array = np.empty(0)
        """sum (1 - <h, p_tau>/4) h"""
        self._curvature = Curvature(0)
        self.weights: Array = np.empty(0)
        """The decision about all K clients, in the order of `ids` (and then those never seen)."""

    @property
    def ids(self) -> list[Hashable]:
        """The clients seen so far."""
        return list(self._slots)

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
        if not len(reports):  # the round said nothing: no decision was made
            return self.settle(reports, prior_weights(reports.all_sizes, self.prior))
        self._welcome(as_list(reports.all_ids), reports.all_sizes)
        here = np.array([self._slots[name] for name in as_list(reports.ids)])
        order = np.argsort(here)  # who answered first must not matter, not even in the last digit
        responses = self.response(reports.losses[order])  # eq. 8
        before = self.weights[here]
        self._learn(here[order], responses)
        held = self.weights[here]
        mass = total(held)
        weights = held / mass if mass > 0 else prior_weights(reports.sizes, self.prior)
        in_order = np.empty(order.size)
        in_order[order] = responses
        return self.settle(reports, weights, in_order, before=before)

    @property
    def largest(self) -> float:
        """L, the largest entry a gradient can have."""
        return self.response.high / (1.0 + self.response.low)

    def regret_bound(self, rounds: int, *, fewest: int | None = None) -> float | None:
        """Theorem 1: 2LK (1/strength + log(1 + strength T/(16K)))."""
        count = self.weights.size
        if fewest is not None or self.prior != "uniform" or count == 0 or self.strength == 0:
            return None
        growth = math.log1p(self.strength * rounds / (16.0 * count))
        return 2.0 * self.largest * count * (1.0 / self.strength + growth)

    def _learn(self, here: NDArray[np.intp], responses: Array) -> None:
        """One round of eq. 9."""
        count = self.weights.size
        mean = total(responses) / responses.size
        apart = np.zeros(count)
        apart[here] = (responses - mean) * (count / here.size)  # r~ - rbar, 1/C = K/n
        inner = mean + float(self.weights @ apart) if here.size == count else mean
        h = apart / (-self.largest * (1.0 + inner))
        self._drift += (1.0 - float(h @ self.weights) / 4.0) * h
        self._curvature.add(h)
        self.round += 1
        self._solve()

    def _solve(self) -> None:
        count = self._drift.size
        pull = self.strength / (4.0 * count)
        linear = pull * self._drift
        if self.prior == "size":
            linear -= self._sizes / total(self._sizes)
        quadratic = self._curvature.quadratic(pull / 4.0)
        self.weights = minimise(quadratic, linear, self.weights)

    def _welcome(self, names: list[Hashable], sizes: Array) -> None:
        """Give everybody new a slot, in an order that is not the order of arrival."""
        new = [name for name in names if name not in self._slots]
        for name in canonical(new):
            self._slots[name] = len(self._slots)
        count = max(len(self._slots), self.clients or 0)
        if count > MOST_CLIENTS:
            raise UserError(
                f"clients: {count} are too many for aaggff-s (at most {MOST_CLIENTS}); use aaggff-d"
            )
        grown = count - self._drift.size
        if self.prior == "size":
            known = np.array([self._slots[name] for name in names])
            self._sizes = np.pad(self._sizes, (0, grown))
            self._sizes[known] = sizes
            unseen = self._sizes[len(self._slots) :]
            unseen[:] = total(self._sizes[: len(self._slots)]) / len(self._slots)
        if grown:
            self._resize(np.pad(self._drift, (0, grown)), np.pad(self.weights, (0, grown)))
            self._curvature.grow(grown)
            self._solve()

    def _resize(self, drift: Array, weights: Array) -> None:
        self._drift, self.weights = drift, weights
        self.clients = drift.size or self._told
        if drift.size:
            self.response.choose_high(1 / drift.size)

    def forget(self, ids: Iterable[Hashable]) -> None:
        gone = [self._slots.pop(name) for name in ids if name in self._slots]
        if not gone:
            return
        self._slots = {name: at for at, name in enumerate(self._slots)}
        if self.prior == "size":
            self._sizes = np.delete(self._sizes, gone)
        self._curvature.drop(gone)
        self._resize(np.delete(self._drift, gone), np.delete(self.weights, gone))
        if self._drift.size:
            self._solve()

    def state_dict(self) -> State:
        return {
            "ids": ids_to_array(self.ids),
            "round": np.array(self.round),
            "sizes": self._sizes.copy(),
            "drift": self._drift.copy(),
            "weights": self.weights.copy(),
            **{f"curvature.{key}": value for key, value in self._curvature.state_dict().items()},
            **{f"response.{key}": value for key, value in self.response.state_dict().items()},
        }

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        own = ["ids", "round", "sizes", "drift", "weights"]
        parts = {
            part: {k[len(part) :]: v for k, v in state.items() if k.startswith(part)}
            for part in ("curvature.", "response.")
        }
        check_keys({k: v for k, v in state.items() if "." not in k}, own)
        ids = array_to_ids(state["ids"])
        drift = read_floats(state, "drift")
        if drift.size < len(ids):
            raise UserError(f"state: 'drift' is about {drift.size} clients, 'ids' names {len(ids)}")
        weights = read_floats(state, "weights", drift.size, lowest=0.0)
        sizes = read_floats(state, "sizes", drift.size if self.prior == "size" else 0, lowest=0.0)
        curvature = Curvature.load(parts["curvature."], drift.size)
        rounds = read_count(state, "round")
        self.response.load_state_dict(parts["response."])
        self._slots = {name: at for at, name in enumerate(ids)}
        self._sizes, self._curvature, self.round = sizes, curvature, rounds
        self._resize(drift, weights)


def canonical(names: list[Hashable]) -> list[Hashable]:
    """In an order that depends on the ids alone."""
    try:
        return sorted(names)  # type: ignore[type-var]
    except TypeError:
        return sorted(names, key=lambda name: (type(name).__name__, repr(name)))
