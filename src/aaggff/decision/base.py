"""What every decision maker is: losses in, mixing weights out, state kept as plain arrays."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
State = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Decision:
    """One round's outcome: who weighs how much, who was set aside and why."""

    ids: Sequence[Hashable]
    weights: Array
    sizes: Array
    responses: Array | None = None
    set_aside: Mapping[Hashable, str] = field(default_factory=dict)
    step: float = 1.0
    """Factor on the mixed update; only q-FedAvg as its authors run it departs from 1."""

    @property
    def entropy(self) -> float:
        """Shannon entropy of the weights in nats: log n when all weigh the same, 0 for a dictator."""
        p = self.weights[self.weights > 0]
        return max(0.0, -math.fsum((p * np.log(p)).tolist()))

    @property
    def effective_clients(self) -> float:
        """How many equally weighted clients have this entropy: exp(entropy), from 1 to n."""
        return math.exp(self.entropy)

    @property
    def kl_from_size(self) -> float:
        """KL divergence of the weights from n_i/n in nats: 0 is FedAvg's weighting."""
        prior = self.sizes / math.fsum(self.sizes.tolist())
        heard = self.weights > 0
        p = self.weights[heard]
        return max(0.0, math.fsum((p * (np.log(p) - np.log(prior[heard]))).tolist()))


class DecisionMaker(ABC):
    """A rule for mixing clients' updates. Adding one: a factory in `methods.py` and this class."""

    wants_updates: ClassVar[bool] = False
    """True if `decide` also needs the clients' updates (or their Gram matrix)."""

    clients: int | None = None
    """How many clients the federation has (K), where the rule was told."""

    last: Decision | None = None
    """The decision of the latest round, for records and for the curious."""

    @abstractmethod
    def decide(
        self,
        ids: Sequence[Hashable] | NDArray[Any],
        losses: ArrayLike,
        sizes: ArrayLike,
        *,
        updates: ArrayLike | None = None,
        gram: ArrayLike | None = None,
    ) -> Array:
        """Mixing weights aligned with `ids`: finite, >= 0, sum 1."""

    @abstractmethod
    def state_dict(self) -> State:
        """Everything that must survive a restart, as plain arrays."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue exactly where the saved decision maker stood."""
