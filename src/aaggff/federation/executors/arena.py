"""Sampled clients' training samples side by side in one array, kept while there is room."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from aaggff.federation.data import FederatedData

Index = NDArray[np.int64]
Floats = NDArray[np.float32]

LINE = 16
"""float32 numbers in a cache line."""


def aligned(*shape: int) -> Floats:
    """Zeros that begin at a cache line.

    A BLAS may add up in another order where memory begins elsewhere: a product's last bits would
    depend on which samples happened to be read before.
    """
    zeros: Floats = torch.zeros(shape).numpy()  # torch aligns, numpy does not
    return zeros


class Places(NamedTuple):
    """Where a cohort's samples are."""

    sizes: Index
    starts: Index
    """The row at which each client's samples begin."""
    ends: Index
    """The same, but their ends, and as if they lay end to end from 0."""
    alike: bool
    """Whether all clients have as many."""
    first: int
    rows: Index | None
    """All of the cohort's rows; None where they are just those from `first` on."""


class Arena:
    """Samples as rows [x, 1, 0...], ready for a layer's matrix; row 0 is zeros, for padding.

    Every row begins at a cache line, so that the same samples give the same sums wherever they lie.
    Clients stay from round to round, so that those who take part again need not be read again.
    When the next cohort does not fit in `most_bytes` everybody is forgotten: memory is bounded
    whatever the number of clients.
    """

    def __init__(self, data: FederatedData, inputs: int, most_bytes: int) -> None:
        self._data, self._inputs = data, inputs
        self._width = -(-(inputs + 1) // LINE) * LINE
        self._signed = data.task.kind == "binary"
        self._targets = np.float32 if self._signed else np.int64
        self._most = max(1, most_bytes // (4 * self._width))
        self._starts: dict[int, int] = {}
        self._latest: tuple[bytes, Places] | None = None
        self.x: Floats = aligned(1, self._width)
        self.y: NDArray[Any] = np.zeros(1, self._targets)
        """Classes; -1 and 1 for a binary task."""
        self._room = aligned(0, self._width)
        self._used = 1

    def place(self, clients: Index) -> Places:
        """Where the clients' samples are, once they are all here."""
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
        sizes = self._data.train_sizes[clients]
        ends = np.cumsum(sizes)
        together = bool((np.diff(starts) == sizes[:-1]).all())
        rows = None if together else np.repeat(starts - ends + sizes, sizes) + np.arange(ends[-1])
        alike = bool((sizes == sizes[0]).all())
        places = Places(sizes, starts, ends, alike, int(starts[0]) if together else 0, rows)
        self._latest = key, places
        return places

    def gather(self, rows: Index) -> Floats:
        """x[rows], from a cache line on, in a place that the next call writes over."""
        if len(rows) > len(self._room):
            self._room = aligned(len(rows), self._width)
        room = self._room[: len(rows)]
        torch.index_select(
            torch.from_numpy(self.x), 0, torch.from_numpy(rows), out=torch.from_numpy(room)
        )
        return room

    def _read(self, client: int) -> None:
        inputs, targets = self._data.train(client)
        first, last = self._used, self._used + len(targets)
        seen = self._data.prepare(inputs).reshape(len(targets), -1)
        self.x[first:last, : self._inputs] = seen.to(torch.float32).numpy()
        self.x[first:last, self._inputs] = 1.0
        classes = targets.reshape(-1).numpy()
        self.y[first:last] = 2 * classes - 1 if self._signed else classes
        self._starts[client] = first
        self._used = last

    def _grow(self, rows: int) -> None:
        if rows <= len(self.y):
            return
        # By doubling, so that filling it one cohort at a time copies each row O(1) times.
        room = max(rows, min(2 * len(self.y), self._most))
        x, y = aligned(room, self._width), np.zeros(room, self._targets)
        x[: self._used], y[: self._used] = self.x[: self._used], self.y[: self._used]
        self.x, self.y = x, y
