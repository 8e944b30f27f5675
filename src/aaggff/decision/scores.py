"""One number per client ever seen, in a few dozen bytes each.

Integer ids live in arrays: `ids` and `values` in order of arrival, and a hash table of positions in
them, all growing by a factor so that a new client costs O(1) on average. Looking up, adding and
inserting are done for a whole round at once by numpy. Any other hashable id costs a Python
dictionary's entry.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaggff.decision.base import Array
from aaggff.decision.reports import Ids

EMPTY = -1
MIX = np.uint64(0x9E3779B97F4A7C15)
"""2^64 / golden ratio: multiplying by it spreads neighbouring ids over the table."""


class Numbered:
    """int64 id -> position 0, 1, 2, ... in order of arrival: an open hash table, all in numpy."""

    def __init__(self) -> None:
        self.count = 0
        self.ids = np.empty(8, dtype=np.int64)
        self._make_table(16)

    def positions(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where these ids (each once) are; those never seen get the next positions, in order."""
        at, slots = self._find(ids)
        new = np.flatnonzero(at == EMPTY)
        if new.size:
            first, self.count = self.count, self.count + new.size
            self.ids = grown(self.ids, self.count)
            self.ids[first : self.count] = ids[new]
            at[new] = np.arange(first, self.count)
            if 3 * self.count > 2 * self.table.size:
                self._make_table(self.count)
                self._insert(np.arange(self.count), self._slots(self.ids[: self.count]))
            else:
                self._insert(at[new], slots[new])
        return at

    def _find(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Position of each id, or EMPTY and the slot where its search ended."""
        slots = self._slots(ids)
        at = self.table[slots].astype(np.int64)
        wrong = np.flatnonzero((at != EMPTY) & (self.ids[at] != ids))
        while wrong.size:  # linear probing, for all that are still looking at once
            slots[wrong] = (slots[wrong] + 1) & self.mask
            at[wrong] = self.table[slots[wrong]]
            looking = at[wrong]
            wrong = wrong[(looking != EMPTY) & (self.ids[looking] != ids[wrong])]
        return at, slots

    def _insert(self, positions: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        """Enter positions known to be absent, from these slots on."""
        while positions.size:
            free = self.table[slots] == EMPTY
            self.table[slots[free]] = positions[free]
            # Where two wanted one slot, the last one written has it; the rest go on.
            rest = self.table[slots] != positions
            positions, slots = positions[rest], (slots[rest] + 1) & self.mask

    def _slots(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        return ((ids.view(np.uint64) * MIX) >> self.shift).astype(np.int64)

    def _make_table(self, at_least: int) -> None:
        bits = max(4, int(2 * at_least - 1).bit_length())
        kind = np.int32 if bits < 32 else np.int64
        self.table = np.full(1 << bits, EMPTY, dtype=kind)
        self.mask = (1 << bits) - 1
        self.shift = np.uint64(64 - bits)


class Scores:
    """A score for every client ever seen; 0 for everybody else."""

    def __init__(self, ids: Iterable[Hashable] = (), scores: Array | None = None) -> None:
        self.numbered = Numbered()
        self.values = np.zeros(8)
        self.named: dict[Hashable, float] = {}
        known = list(ids)
        if known and scores is not None:
            self.add(known, scores)

    def __len__(self) -> int:
        return self.numbered.count + len(self.named)

    def add(self, ids: Ids, increments: Array) -> Array:
        """Add to the scores of these clients (each once); their new scores."""
        array = np.asarray(ids) if isinstance(ids, np.ndarray) or type(ids[0]) is int else None
        if array is not None and array.dtype == np.int64:
            return self._add_numbered(array, increments)
        return self._add_mixed(list(ids), increments)

    def _add_numbered(self, ids: NDArray[np.int64], increments: Array) -> Array:
        at = self.numbered.positions(ids)
        self.values = grown(self.values, self.numbered.count)
        scores = self.values[at] + increments
        self.values[at] = scores
        return scores

    def _add_mixed(self, ids: list[Hashable], increments: Array) -> Array:
        whole = np.array([is_int64(name) for name in ids])
        scores = np.empty(len(ids))
        if whole.any():
            numbers = np.array([n for n, is_int in zip(ids, whole.tolist()) if is_int], np.int64)
            scores[whole] = self._add_numbered(numbers, increments[whole])
        for k in np.flatnonzero(~whole).tolist():
            name = ids[k]
            self.named[name] = value = self.named.get(name, 0.0) + float(increments[k])
            scores[k] = value
        return scores

    def items(self) -> tuple[Ids, Array]:
        """All ids and their scores: integers first, in order of arrival."""
        n = self.numbered.count
        numbers, values = self.numbered.ids[:n].copy(), self.values[:n].copy()
        if not self.named:
            return numbers, values
        return (
            numbers.tolist() + list(self.named),
            np.concatenate([values, np.array(list(self.named.values()))]),
        )

    def drop(self, ids: Iterable[Hashable]) -> None:
        """Forget these clients. O(clients ever seen)."""
        gone = set(ids)
        known, scores = self.items()
        names = known if isinstance(known, list) else known.tolist()
        keep = [k for k, name in enumerate(names) if name not in gone]
        self.__init__([names[k] for k in keep], scores[keep])  # type: ignore[misc]


def is_int64(name: Hashable) -> bool:
    """Can this id live in an int64 array, and come back as itself?"""
    return type(name) is int and -(2**63) <= name < 2**63


def grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    """The array with room for `size`, a quarter to spare if it had to grow."""
    if size <= array.size:
        return array
    longer = np.zeros(max(size + size // 4, 8), dtype=array.dtype)
    longer[: array.size] = array
    return longer
