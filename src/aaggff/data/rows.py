"""Where a client's samples come from: arrays (in memory or mapped from disk) or a generator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Index = NDArray[np.int64]
Samples = tuple[Array, Array]
"""Inputs and targets; row i of both is one sample."""


class Rows(Protocol):
    """The samples of clients 0..K-1, each client's in a fixed order."""

    counts: Index
    """How many samples each client has."""

    def labels(self, client: int) -> Array:
        """The client's targets; the inputs are not touched."""
        ...

    def take(self, client: int, index: Index | None = None) -> Samples:
        """The client's samples, or those numbered in `index` (ascending)."""
        ...

    def block(self, clients: Sequence[int], indices: Sequence[Index]) -> Samples:
        """`take` for several clients, one after the other in one array."""
        ...


class ArrayRows:
    """Rows of two arrays, in memory or memory-mapped; client k owns offsets[k]:offsets[k+1].

    With `order`, client k owns the rows order[offsets[k]:offsets[k+1]] instead, so that data can
    be dealt to clients anew (another seed, another partition) without moving it.

    >>> rows = ArrayRows(np.arange(10), np.arange(10) % 2, np.array([0, 4, 10]))
    >>> rows.take(1, np.array([0, 5]))[0]
    array([4, 9])
    """

    def __init__(self, x: Array, y: Array, offsets: Index, order: Index | None = None) -> None:
        self.x, self.y, self.offsets, self.order = x, y, offsets, order
        self.counts: Index = np.diff(offsets)

    def labels(self, client: int) -> Array:
        return self.y[self._where(client, None)]

    def take(self, client: int, index: Index | None = None) -> Samples:
        where = self._where(client, index)
        return self._inputs(where), self.y[where]

    def block(self, clients: Sequence[int], indices: Sequence[Index]) -> Samples:
        if not len(clients):
            where: slice | Index = slice(0, 0)
        else:
            pairs = zip(clients, indices)
            where = np.concatenate([self._numbers(client, index) for client, index in pairs])
        return self._inputs(where), self.y[where]

    def _numbers(self, client: int, index: Index) -> Index:
        numbers: Index = index + self.offsets[client]
        return numbers if self.order is None else np.asarray(self.order[numbers])

    def _where(self, client: int, index: Index | None) -> slice | Index:
        """A slice where the wanted rows lie side by side (no copy is made then)."""
        first, last = int(self.offsets[client]), int(self.offsets[client + 1])
        if index is None and self.order is None:
            return slice(first, last)
        if index is None:
            index = np.arange(last - first, dtype=np.int64)
        if self.order is None and index.size and index[-1] - index[0] + 1 == index.size:
            return slice(first + int(index[0]), first + int(index[-1]) + 1)
        return self._numbers(client, index)

    def _inputs(self, where: slice | Index) -> Array:
        return self.x[where]


class RaggedRows(ArrayRows):
    """Rows of unequal length (text), end to end in one flat array, padded with 0 when read.

    Row i is x[starts[i]:starts[i+1]]; what is read has the shape [n, length].

    >>> rows = RaggedRows(np.array([5, 6, 7]), np.array([0, 2, 3]), 4, np.array([1, 0]),
    ...                   np.array([0, 2]))
    >>> rows.take(0)[0]
    array([[5, 6, 0, 0],
           [7, 0, 0, 0]])
    """

    def __init__(
        self,
        x: Array,
        starts: Index,
        length: int,
        y: Array,
        offsets: Index,
        order: Index | None = None,
    ) -> None:
        super().__init__(x, y, offsets, order)
        self.starts, self.length = starts, length

    def _inputs(self, where: slice | Index) -> Array:
        if isinstance(where, slice):
            where = np.arange(*where.indices(len(self.y)), dtype=np.int64)
        first, last = self.starts[where], self.starts[where + 1]
        columns = np.arange(self.length)
        used = columns < (last - first)[:, None]
        padded = np.zeros(used.shape, dtype=self.x.dtype)
        padded[used] = self.x[(first[:, None] + columns)[used]]
        return padded


class Maker(Protocol):
    """Makes a client's samples: always the same ones for the same client."""

    def labels(self, client: int) -> Array:
        """The client's targets."""
        ...

    def samples(self, client: int, index: Index) -> Samples:
        """The client's samples numbered in `index`."""
        ...


class GeneratedRows:
    """Samples made when they are asked for, and never kept."""

    def __init__(self, counts: Index, maker: Maker) -> None:
        self.counts: Index = np.asarray(counts, dtype=np.int64)
        self.maker = maker

    def labels(self, client: int) -> Array:
        return self.maker.labels(client)

    def take(self, client: int, index: Index | None = None) -> Samples:
        if index is None:
            index = np.arange(self.counts[client], dtype=np.int64)
        return self.maker.samples(client, index)

    def block(self, clients: Sequence[int], indices: Sequence[Index]) -> Samples:
        if not len(clients):
            return self.take(0, np.zeros(0, dtype=np.int64))
        parts = [self.take(client, index) for client, index in zip(clients, indices)]
        return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])


class DealtRows:
    """The rows of one pool (client 0 of `pool`), dealt out: client k has the rows groups[k]."""

    def __init__(self, pool: Rows, groups: Sequence[Index]) -> None:
        self.pool, self.groups = pool, groups
        self.counts: Index = np.array([len(group) for group in groups], dtype=np.int64)
        self._labels = pool.labels(0)

    def labels(self, client: int) -> Array:
        return self._labels[self.groups[client]]

    def take(self, client: int, index: Index | None = None) -> Samples:
        group = self.groups[client]
        return self.pool.take(0, group if index is None else group[index])

    def block(self, clients: Sequence[int], indices: Sequence[Index]) -> Samples:
        rows = [self.groups[client][index] for client, index in zip(clients, indices)]
        return self.pool.take(0, np.concatenate([np.zeros(0, dtype=np.int64), *rows]))
