"""What all executors share: the work to be done, the interface, and where updates go."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from aaggff.federation.data import FederatedData
from aaggff.federation.flat import Flat
from aaggff.federation.local import LocalTraining

Index = NDArray[np.int64]
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Work:
    """What the clients' work depends on beside the round.

    `model` holds the global model and is bound to `theta` (see `Flat`): whoever changes theta
    changes what is sent out next.
    """

    data: FederatedData
    model: nn.Module
    flat: Flat
    theta: Tensor
    local: LocalTraining
    seed: int

    def received(self) -> tuple[Tensor, Tensor | None]:
        """What is sent to the clients: the flat model, and its integer buffers if any."""
        return self.theta, self.flat.integers(self.model)


class Sink(Protocol):
    """Where updates go as they are made."""

    def add(self, first: int, updates: Tensor) -> None:
        """`updates[j]` (overwritten afterwards) is that of the round's client number first + j."""


class Executor(Protocol):
    """Runs the clients of a round. All executors give the same numbers."""

    work: Work
    name: str
    why: str
    """Why this one, for people."""

    def losses(self, round: int, clients: Index) -> Array:
        """F_i of the global model on each client's training part."""

    def train(self, round: int, clients: Index, sink: Sink) -> None:
        """Train from the global model and hand every client's update to the sink, in order."""

    def close(self) -> None:
        """Let go of processes and memory."""


class Mix:
    """sum_i w_i Delta_i, one update at a time: memory does not grow with the clients.

    An update that is not finite (a client that diverged) is left out; `result` then shares its
    weight out among the others in proportion, and `lost` says whose it was.
    """

    def __init__(self, weights: Array, flat: Flat) -> None:
        self.weights = weights
        self.lost: list[int] = []
        self._tensor = torch.from_numpy(weights).to(flat.dtype).to(flat.device)
        self._total = torch.zeros(flat.size, dtype=flat.dtype, device=flat.device)

    def add(self, first: int, updates: Tensor) -> None:
        if len(updates) == 1:
            part, weight = updates[0], float(self.weights[first])
        else:
            part, weight = self._tensor[first : first + len(updates)] @ updates, 1.0
        # A sum is one pass without temporaries; it is finite only if every summand is.
        if math.isfinite(part.sum()):
            self._total.add_(part, alpha=weight)
            return
        bad = set(not_finite(updates))
        self.lost += [first + each for each in sorted(bad)]
        for each in range(len(updates)):
            if each not in bad:
                self._total.add_(updates[each], alpha=float(self.weights[first + each]))

    def result(self) -> Tensor | None:
        """The mix; None if nobody's update was finite."""
        if not self.lost:
            return self._total
        kept = np.delete(self.weights, self.lost).sum()
        return self._total.div_(float(kept)) if kept > 0 else None


class Hold:
    """All updates of a round, for decision makers that look at them before they decide."""

    def __init__(self, clients: int, flat: Flat) -> None:
        self._flat = flat
        self.updates = torch.empty((clients, flat.size), dtype=flat.dtype, device=flat.device)
        self.lost: list[int] = []

    def add(self, first: int, updates: Tensor) -> None:
        if not math.isfinite(updates.sum()):
            self.lost += [first + each for each in not_finite(updates)]
        self.updates[first : first + len(updates)] = updates

    def gram(self) -> Array:
        """<Delta_i, Delta_j> over the parameters, in double precision."""
        self.updates[self.lost] = 0.0
        clients = len(self.updates)
        total = torch.zeros((clients, clients), dtype=torch.float64)
        for block in torch.split(self.updates[:, : self._flat.parameters], 2**16, dim=1):
            part = block.cpu().double()
            total.addmm_(part, part.t())
        gram: Array = total.numpy()
        gram[self.lost, self.lost] = np.nan  # so the decision maker sets them aside
        return gram

    def mix(self, weights: Array) -> Tensor | None:
        """sum_i w_i Delta_i; None if nobody's update was finite."""
        if len(self.lost) == len(self.updates):
            return None
        return torch.from_numpy(weights).to(self.updates) @ self.updates


def not_finite(updates: Tensor) -> list[int]:
    """Which rows hold a nan or an infinity."""
    return [each for each in range(len(updates)) if not torch.isfinite(updates[each]).all()]
