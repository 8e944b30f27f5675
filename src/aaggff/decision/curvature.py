"""What past gradients say of the curvature: sum h h' over the rounds, as compactly as it goes.

With fewer rounds than clients the rounds themselves are kept, K x t numbers: the solver works in
their space. From the K-th round on the K x K sum is the smaller of the two. Up to `SMALL` clients
the sum is kept from the start: for so few, one small matrix is the fastest form there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaggff.decision.base import Array, State
from aaggff.decision.quadratic import Dense, LowRank, Quadratic
from aaggff.errors import UserError

SMALL = 128
STEP = 64
"""Room for rounds is made this many at a time: its layout, too, depends on t alone."""


class Curvature:
    """sum h h' over the rounds seen, and I + b times it as something to minimise."""

    def __init__(self, clients: int) -> None:
        self.total: Array | None = np.zeros((clients, clients)) if clients <= SMALL else None
        self.rounds: Array = np.zeros((clients, 0))
        self.count = 0

    def add(self, h: Array) -> None:
        """One more round."""
        if self.total is None and self.count >= h.size:
            self._sum()
        if self.total is not None:
            self.total += np.multiply.outer(h, h)
            return
        if self.count == self.rounds.shape[1]:
            self.rounds = np.pad(self.rounds, ((0, 0), (0, STEP)))
        self.rounds[:, self.count] = h
        self.count += 1

    def quadratic(self, b: float) -> Quadratic:
        """I + b sum h h'."""
        if self.total is None:
            return LowRank(1.0, b, self.rounds[:, : self.count])
        matrix = b * self.total
        matrix.flat[:: len(matrix) + 1] += 1.0
        return Dense(matrix)

    def grow(self, more: int) -> None:
        """Clients who join: as if always there, with the mean response."""
        if self.total is not None and len(self.total) == 0:
            self.__init__(more)  # type: ignore[misc]
        elif self.total is not None:
            self.total = np.pad(self.total, (0, more))
        else:
            self.rounds = np.pad(self.rounds, ((0, more), (0, 0)))

    def drop(self, gone: Sequence[int]) -> None:
        """Clients who leave."""
        if self.total is not None:
            self.total = np.delete(np.delete(self.total, gone, 0), gone, 1)
        else:
            self.rounds = np.delete(self.rounds, gone, 0)

    def _sum(self) -> None:
        seen = self.rounds[:, : self.count]
        self.total = seen @ seen.T
        self.rounds, self.count = np.zeros((len(seen), 0)), 0

    def state_dict(self) -> State:
        """The sum, or the rounds."""
        if self.total is not None:
            return {"total": self.total.copy()}
        return {"rounds": self.rounds[:, : self.count].copy()}

    @classmethod
    def load(cls, state: Mapping[str, NDArray[Any]], clients: int) -> Curvature:
        """What `state_dict` wrote, for that many clients."""
        if len(state) != 1 or not {"total", "rounds"} & set(state):
            raise UserError("state: expected either 'curvature.total' or 'curvature.rounds'")
        ((name, value),) = state.items()
        array = np.array(value)
        fits = array.shape == (clients, clients) if name == "total" else len(array) == clients
        if array.dtype != np.float64 or array.ndim != 2 or not fits or not np.isfinite(array).all():
            raise UserError(
                f"state: 'curvature.{name}' is {array.dtype} of shape {array.shape}, expected"
                f" finite numbers about {clients} clients"
            )
        loaded = cls(0)
        if name == "total":
            loaded.total = array
        else:
            loaded.total, loaded.count = None, array.shape[1]
            loaded.rounds = np.pad(array, ((0, 0), (0, -array.shape[1] % STEP)))
        return loaded
