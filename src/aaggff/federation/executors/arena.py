"""Sampled clients' training samples side by side in one array, kept while there is room."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from aaggff.federation.data import FederatedData

Index = NDArray[np.int64]
Floats = NDArray[np.float32]


class Arena:
    """Samples as rows [x, 1], ready for a layer's matrix; row 0 is zeros, for padding.

    Clients stay from round to round, so that those who take part again need not be read again.
    When the next cohort does not fit in `most_bytes` everybody is forgotten: memory is bounded
    whatever the number of clients.
    """

    def __init__(self, data: FederatedData, inputs: int, most_bytes: int) -> None:
        self._data, self._width = data, inputs + 1
        self._signed = data.task.kind == "binary"
        self._targets = np.float32 if self._signed else np.int64
        self._most = max(1, most_bytes // (4 * self._width))
        self._starts: dict[int, int] = {}
        self._latest: tuple[bytes, Index] | None = None
        self.x: Floats = np.zeros((1, self._width), np.float32)
        self.y: NDArray[Any] = np.zeros(1, self._targets)
        """Classes; -1 and 1 for a binary task."""
        self._used = 1

    def place(self, clients: Index) -> Index:
        """At which row each client's samples begin, once they are all here."""
        key = clients.tobytes()
        if self._latest is not None and self._latest[0] == key:
            return self._latest[1]
        missing = [client for client in clients.tolist() if client not in self._starts]
        if missing:
            needed = int(self._data.train_sizes[missing].sum())
            if self._used + needed > self._most and self._starts:
                self._starts.clear()
                self._used = 1
                missing = clients.tolist()
                needed = int(self._data.train_sizes[missing].sum())
            self._grow(self._used + needed)
            for client in missing:
                self._read(client)
        starts = np.array([self._starts[client] for client in clients.tolist()], dtype=np.int64)
        self._latest = key, starts
        return starts

    def _read(self, client: int) -> None:
        inputs, targets = self._data.train(client)
        first, last = self._used, self._used + len(targets)
        seen = self._data.prepare(inputs).reshape(len(targets), -1)
        self.x[first:last, :-1] = seen.to(torch.float32).numpy()
        self.x[first:last, -1] = 1.0
        classes = targets.reshape(-1).numpy()
        self.y[first:last] = 2 * classes - 1 if self._signed else classes
        self._starts[client] = first
        self._used = last

    def _grow(self, rows: int) -> None:
        if rows <= len(self.y):
            return
        # By doubling, so that filling it one cohort at a time copies each row O(1) times.
        room = max(rows, min(2 * len(self.y), self._most))
        x, y = np.zeros((room, self._width), np.float32), np.zeros(room, self._targets)
        x[: self._used], y[: self._used] = self.x[: self._used], self.y[: self._used]
        self.x, self.y = x, y
