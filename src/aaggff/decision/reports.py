"""What clients said this round, and what of it can be trusted.

A mistake of the server's code (duplicated ids, unequal lengths, a size that is not positive) is an
error that names the client. A loss no honest client can have is not the server's mistake: that
client is *set aside* for the round, with a reason, and weighs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aaggff.decision.base import Array
from aaggff.errors import UserError

LARGEST = 1e100
"""A mean loss above this is absurd. Up to here sums, squares and products with n stay finite."""

SMALL = 32
"""Rounds up to this size keep their ids as a list: plain Python is faster there than numpy."""

FEW = 512
"""Up to here `math.fsum` is the fastest exact sum."""

Ids = list[Hashable] | NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Reports:
    """One round, checked. `ids`, `losses`, `sizes` hold what was accepted, in arrival order."""

    ids: Ids
    losses: Array
    sizes: Array
    set_aside: dict[Hashable, str]
    accepted: NDArray[np.bool_]
    """For each client of the round, in arrival order: was its report accepted?"""
    all_ids: Ids
    all_sizes: Array

    def __len__(self) -> int:
        """How many reports were accepted: the n of the round."""
        return int(self.losses.size)

    def spread(self, values: Array) -> Array:
        """Values of the accepted clients, aligned with everybody: 0 for those set aside."""
        if not self.set_aside:
            return values
        everybody = np.zeros(self.accepted.size)
        everybody[self.accepted] = values
        return everybody

    def without(self, reasons: dict[Hashable, str]) -> Reports:
        """The same round with more clients set aside."""
        if not reasons:
            return self
        bad = np.array([i in reasons for i in as_list(self.all_ids)])
        return _split(
            self.all_ids,
            self.spread(self.losses),
            self.all_sizes,
            self.accepted & ~bad,
            {**self.set_aside, **reasons},
        )


def check_reports(ids: Any, losses: ArrayLike, sizes: ArrayLike) -> Reports:
    """Check one round's reports.

    Args:
        ids: who reported; any hashables, each once. Integers are the fast case.
        losses: mean training loss of the received model, one per client. A loss that is nan,
            infinite, negative or above 1e100 sets its client aside.
        sizes: sample counts, one per client, positive.

    >>> reports = check_reports(["a", "b", "c"], [0.5, float("nan"), 1e300], [10, 20, 30])
    >>> reports.ids, reports.set_aside
    (['a'], {'b': 'loss is nan', 'c': 'loss 1e+300 is above 1e+100'})
    """
    who = _check_ids(ids)
    # + 0.0 copies, and turns -0.0 into 0.0, whose reciprocal has the right sign.
    loss = _numbers("losses", losses, who) + 0.0
    size = _numbers("sizes", sizes, who) + 0.0
    if not 0 < size.min() <= size.max() <= LARGEST:
        at = int(np.flatnonzero(~((size > 0) & (size <= LARGEST)))[0])
        raise UserError(
            f"sizes: client {as_list(who)[at]!r} reports {size[at]:g} samples, expected a positive"
            f" number"
        )
    if 0 <= loss.min() <= loss.max() <= LARGEST:
        return Reports(who, loss, size, {}, np.ones(loss.size, bool), who, size)
    accepted = (loss >= 0) & (loss <= LARGEST)
    names = as_list(who)
    reasons = {names[i]: _reason(float(loss[i])) for i in np.flatnonzero(~accepted).tolist()}
    return _split(who, loss, size, accepted, reasons)


def as_list(ids: Ids) -> list[Hashable]:
    """The ids as plain Python objects."""
    return ids if isinstance(ids, list) else ids.tolist()


def total(values: Array) -> float:
    """The sum, accurate to the last digit or so, and the same whatever the order of arrival."""
    if values.size <= FEW:
        return math.fsum(values.tolist())
    # Adding and taking away a large power of two leaves each value's leading digits on a grid so
    # coarse that summing them never rounds. Three times is 100 digits of binary, all in numpy.
    room = math.frexp(values.size)[1] + 1
    parts = []
    for _ in range(3):
        largest = max(float(values.max()), -float(values.min()))
        grid = math.ldexp(1.0, math.frexp(largest)[1] + room)
        leading = (values + grid) - grid
        parts.append(float(leading.sum()))
        values = values - leading
    return math.fsum(parts)


def _split(
    who: Ids,
    losses: Array,
    sizes: Array,
    accepted: NDArray[np.bool_],
    reasons: dict[Hashable, str],
) -> Reports:
    if isinstance(who, list):
        ids: Ids = [name for name, good in zip(who, accepted.tolist()) if good]
    else:
        ids = who[accepted]
    return Reports(ids, losses[accepted], sizes[accepted], reasons, accepted, who, sizes)


def _reason(loss: float) -> str:
    if loss != loss:
        return "loss is nan"
    if abs(loss) == math.inf:
        return f"loss is {loss}"
    if loss < 0:
        return f"loss {loss:g} is negative"
    return f"loss {loss:g} is above {LARGEST:g}"


def _check_ids(ids: Any) -> Ids:
    """A list of plain hashables, or an int64 array when there are many and all are integers."""
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
        raise UserError(f"ids: expected one id per client, got {ids!r}")
    who: Any = ids
    if hasattr(ids, "tolist"):  # an array, a tensor, a series
        array = np.asarray(ids)
        if array.ndim != 1:
            raise UserError(f"ids: expected one id per client, got shape {array.shape}")
        fits = array.dtype.kind == "i" or (array.dtype.kind == "u" and array.dtype.itemsize < 8)
        who = array.astype(np.int64) if fits and array.size > SMALL else array.tolist()
    elif not isinstance(ids, list):
        who = list(ids)
    if len(who) == 0:
        raise UserError("ids: the round is empty, expected at least one client's report")
    if isinstance(who, list):
        who = _compact(who)
    if isinstance(who, list):
        _refuse_duplicates(who)
    else:
        ordered = np.sort(who)
        twice = np.flatnonzero(ordered[1:] == ordered[:-1])
        if twice.size:
            raise UserError(f"ids: client {int(ordered[twice[0]])} reports more than once")
    return who  # type: ignore[no-any-return]


def _compact(who: list[Any]) -> Ids:
    """Numpy scalars as plain objects; many integers as one array."""
    if len(who) > SMALL and isinstance(who[0], (int, np.integer)):
        try:
            array = np.array(who)
        except ValueError:  # ragged: some ids are tuples
            return list(who)
        if array.ndim == 1 and array.dtype.kind == "i":
            return array.astype(np.int64)
    return [name.item() if isinstance(name, np.generic) else name for name in who]


def _refuse_duplicates(who: list[Hashable]) -> None:
    try:
        if len(set(who)) == len(who):
            return
    except TypeError:
        for at, name in enumerate(who):
            if not isinstance(name, Hashable):
                raise UserError(
                    f"ids: {name!r} at position {at} cannot be an id, expected something hashable"
                ) from None
        raise UserError("ids: an id cannot be hashed") from None
    seen: set[Hashable] = set()
    for name in who:
        if name in seen:
            raise UserError(f"ids: client {name!r} reports more than once")
        seen.add(name)


def _numbers(argument: str, values: Any, who: Ids) -> Array:
    """`values` as float64, one per client."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        array = _one_by_one(argument, values, who)
    if array.ndim != 1:
        raise UserError(f"{argument}: expected one number per client, got shape {array.shape}")
    if array.size != len(who):
        names = as_list(who)
        first = (
            f"client {names[array.size]!r} has none"
            if array.size < len(names)
            else f"{array.size - len(names)} belong to no client"
        )
        raise UserError(f"{argument}: {array.size} for {len(names)} clients in ids; {first}")
    return array


def _one_by_one(argument: str, values: Any, who: Ids) -> Array:
    """The slow way, to find whose number is not one."""
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise UserError(f"{argument}: expected one number per client, got {values!r}")
    names = as_list(who)
    numbers = []
    for at, value in enumerate(values):
        try:
            numbers.append(float(value))
        except OverflowError:  # an integer too long for a float
            numbers.append(math.inf if value > 0 else -math.inf)
        except (TypeError, ValueError):
            client = repr(names[at]) if at < len(names) else f"at position {at}"
            raise UserError(
                f"{argument}: client {client} reports {value!r}, expected a number"
            ) from None
    return np.array(numbers)
