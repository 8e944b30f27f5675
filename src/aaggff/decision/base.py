"""What every decision maker is: losses in, mixing weights out, state kept as plain arrays."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from aaggff.decision.reports import Reports

Array = NDArray[np.float64]
State = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Decision:
    """One round's outcome: who weighs how much, who was set aside and why."""

    ids: Sequence[Hashable] | NDArray[np.int64]
    weights: Array
    sizes: Array
    responses: Array | None = None
    before: Array | None = None
    """p^(t): what these clients weighed among *all* before this round, where the rule knows."""
    set_aside: Mapping[Hashable, str] = field(default_factory=dict)
    step: float = 1.0
    """Factor on the mixed update; only q-FedAvg as its authors run it departs from 1."""

    @property
    def entropy(self) -> float:
        """Entropy of the weights in nats: log n where all weigh the same, 0 for a dictator."""
        p = self.weights[self.weights > 0]
        return max(0.0, -math.fsum((p * np.log(p)).tolist()))

    @property
    def effective_clients(self) -> float:
        """How many equally weighted clients have this entropy: exp(entropy), from 1 to n."""
        return math.exp(self.entropy)

    @property
    def kl_from_size(self) -> float:
        """KL divergence of the weights from n_i/n in nats: 0 is FedAvg's weighting."""
        heard = self.weights > 0
        p = self.weights[heard]
        # By logarithms: one size may be so small beside the others that its share is 0 in floats.
        log_prior = np.log(self.sizes[heard]) - math.log(math.fsum(self.sizes.tolist()))
        return max(0.0, math.fsum((p * (np.log(p) - log_prior)).tolist()))


class DecisionMaker(ABC):
    """A rule for mixing clients' updates. Adding one: this class and a row in `methods.py`."""

    wants_updates: bool = False
    """True if `decide` also needs the clients' updates (or their Gram matrix)."""

    clients: int | None = None
    """How many clients the federation has (K), where the rule was told."""

    last: Decision | None = None
    """The decision of the latest round, for records and for the curious."""

    accounts: bool = False
    """True while a regret tracker listens: then `Decision.before` is filled even if that costs."""

    @abstractmethod
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
        """Mixing weights aligned with `ids`: finite, >= 0, sum 1.

        Args:
            ids: who reported; any hashables, each once. Integers are the fast case.
            losses: each client's mean training loss of the model it *received*.
            sizes: each client's sample count.
            updates: one row per client, Delta_i = theta - theta_i; only where `wants_updates`.
            gram: their inner products <Delta_i, Delta_j>, instead of `updates`.
            lr: the round's client learning rate; only q-FedAvg as its authors run it asks for it.
        """

    @abstractmethod
    def state_dict(self) -> State:
        """Everything that must survive a restart, as plain arrays."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue exactly where the saved decision maker stood.

        A state is data from outside: it is checked, and a wrong one is refused untouched.
        """

    def forget(self, ids: Iterable[Hashable]) -> None:  # noqa: B027
        """Clients who left for good: drop what is kept about them. Stateless rules keep nothing."""

    def regret_bound(self, rounds: int, *, fewest: int | None = None) -> float | None:
        """The most regret a theorem allows this rule after so many rounds; None: no theorem.

        Args:
            rounds: T.
            fewest: somebody was missing from every one of them, and so many reported in the
                smallest. None: all clients reported in every one of them.
        """
        return None

    def settle(
        self,
        reports: Reports,
        weights: Array,
        responses: Array | None = None,
        step: float = 1.0,
        before: Array | None = None,
    ) -> Array:
        """Remember this round as `last`; its weights, aligned with everybody who reported."""
        # With nobody left the weights are the prior, which is about everybody already.
        spread = reports.spread if len(reports) else np.asarray
        aligned = spread(weights)
        self.last = Decision(
            ids=reports.all_ids,
            weights=aligned,
            sizes=reports.all_sizes,
            responses=None if responses is None else spread(responses),
            before=None if before is None else spread(before),
            set_aside=reports.set_aside,
            step=step,
        )
        return aligned
