"""One number per client ever seen, in a few dozen bytes each.

Integer ids live in three arrays that grow by a factor, so that a new client costs O(1) on average:
`ids` and `values` in order of arrival, and an open hash table of positions in them. A small round
goes through them in plain Python, a large one in numpy, all its clients at once. Any other hashable
id costs an entry of a Python dictionary.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaggff.decision.base import Array
from aaggff.decision.reports import Ids

EMPTY = -1
MIX = 0x9E3779B97F4A7C15
"""2^64 / golden ratio: multiplying by it spreads neighbouring ids over the table."""
WORD = 2**64 - 1


class Scores:
    """A score for every client ever seen; 0 for everybody else.

    >>> scores = Scores()
    >>> scores.add([3_000_000_000, 7, "anna"], np.array([1.0, 2.0, 3.0])).tolist()
    [1.0, 2.0, 3.0]
    >>> scores.add([7, 8], np.array([0.5, 0.5])).tolist()
    [2.5, 0.5]
    >>> len(scores)
    4
    """

    def __init__(self, ids: Ids | None = None, scores: Array | None = None) -> None:
        self.count = 0
        self.ids = np.empty(8, dtype=np.int64)
        self.values = np.zeros(8)
        self.named: dict[Hashable, float] = {}
        self._make_table(8)
        if ids is not None and scores is not None and len(ids):
            self.add(ids, scores)

    def __len__(self) -> int:
        return self.count + len(self.named)

    def add(self, ids: Ids, increments: Array) -> Array:
        """Add to the scores of these clients (each once); their new scores."""
        if isinstance(ids, list):
            return np.array([self._add_one(name, by) for name, by in zip(ids, increments.tolist())])
        at = self._positions(ids)
        scores: Array = self.values[at] + increments
        self.values[at] = scores
        return scores

    def _add_one(self, name: Hashable, by: float) -> float:
        if type(name) is not int or not -(2**63) <= name < 2**63:
            score = self.named.get(name, 0.0) + by
            self.named[name] = score
            return score
        slot = ((name * MIX) & WORD) >> self.shift
        while (at := self.table_view[slot]) != EMPTY:
            if self.ids_view[at] == name:
                score = float(self.values_view[at]) + by
                self.values_view[at] = score
                return score
            slot = (slot + 1) & self.mask
        at = self.count
        if at == self.ids.size:
            self._make_room(at + 1)
        self.count = at + 1
        self.ids_view[at] = name
        self.values_view[at] = by
        if self.count * 3 > self.table.size * 2:
            self._make_table(self.count)
        else:
            self.table_view[slot] = at
        return by

    def _positions(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where these ids are; those never seen get the next positions, in order."""
        slots = self._slots(ids)
        at = self.table[slots].astype(np.int64)
        wrong = np.flatnonzero((at != EMPTY) & (self.ids[at] != ids))
        while wrong.size:  # linear probing, for all that are still looking at once
            slots[wrong] = (slots[wrong] + 1) & self.mask
            at[wrong] = looking = self.table[slots[wrong]]
            wrong = wrong[(looking != EMPTY) & (self.ids[looking] != ids[wrong])]
        new = np.flatnonzero(at == EMPTY)
        if new.size:
            first = self.count
            self.count = first + new.size
            if self.count > self.ids.size:
                self._make_room(self.count)
            self.ids[first : self.count] = ids[new]
            at[new] = np.arange(first, self.count)
            if self.count * 3 > self.table.size * 2:
                self._make_table(self.count)
            else:
                self._insert(at[new], slots[new])
        return at

    def _insert(self, positions: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        """Enter positions known to be absent from the table, from these slots on."""
        while positions.size:
            free = self.table[slots] == EMPTY
            self.table[slots[free]] = positions[free]
            # Where several wanted one slot, the last one written has it; the rest go on.
            rest = self.table[slots] != positions
            positions, slots = positions[rest], (slots[rest] + 1) & self.mask

    def _slots(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        spread = (ids.view(np.uint64) * np.uint64(MIX)) >> np.uint64(self.shift)
        return spread.view(np.int64)

    def _make_room(self, count: int) -> None:
        """Longer arrays, with a quarter to spare; what is new scores 0."""
        self.ids = _longer(self.ids, count + count // 4)
        self.values = _longer(self.values, count + count // 4)
        self._view()

    def _view(self) -> None:
        """Single entries are read and written far faster through a memoryview than in an array."""
        self.ids_view: memoryview[int] = self.ids.data
        self.values_view: Any = self.values.data
        self.table_view: memoryview[int] = self.table.data

    def _make_table(self, count: int) -> None:
        """A table twice as large as the clients, or up to four times, with all of them in it."""
        bits = (2 * count - 1).bit_length()
        self.table = np.full(1 << bits, EMPTY, dtype=np.int32 if bits < 32 else np.int64)
        self.mask, self.shift = (1 << bits) - 1, 64 - bits
        self._view()
        everybody = np.arange(self.count)
        self._insert(everybody, self._slots(self.ids[: self.count]))

    def __getstate__(self) -> dict[str, Any]:
        """For copies: a view cannot be copied, but looked at anew."""
        return {k: v for k, v in vars(self).items() if not k.endswith("_view")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._view()

    def known(self) -> Array:
        """All scores, in the order of `items`."""
        values = self.values[: self.count]
        if not self.named:
            return values.copy()
        return np.concatenate([values, np.array(list(self.named.values()))])

    def items(self) -> tuple[Ids, Array]:
        """All ids and their scores: integers first, each kind in order of arrival."""
        numbers = self.ids[: self.count].copy()
        return ([*numbers.tolist(), *self.named] if self.named else numbers), self.known()

    def without(self, gone: Iterable[Hashable]) -> Scores:
        """The scores of all others. O(clients ever seen)."""
        leaving = set(gone)
        ids, scores = self.items()
        names = ids if isinstance(ids, list) else ids.tolist()
        keep = [k for k, name in enumerate(names) if name not in leaving]
        return Scores([names[k] for k in keep], scores[keep])


def _longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    longer = np.zeros(size, dtype=array.dtype)
    longer[: array.size] = array
    return longer
