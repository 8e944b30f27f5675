"""Mixing models as Flower sends them: serialised arrays read in place, one accumulator in all.

A model is an `ArrayRecord`, name -> serialised numpy array. Replies are read without copying them,
in blocks that stay in the processor's cache, so a round costs one pass over what was received:
whether it was finite is seen from the sum, and only if that is not, who is to blame is looked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray
from scipy.linalg.blas import daxpy, saxpy

from aaggff.deploy.state import RUNNING_STATISTICS
from aaggff.errors import UserError

Tensor = NDArray[Any]
Tensors = Mapping[str, Tensor]

BLOCK = 1 << 15
"""Numbers handled at a time: three blocks of float32 fit in any second-level cache."""

EXACT = 2.0**53
"""Integers up to here are float64 numbers, so that their mean is exact before it is rounded."""

GRAM_BLOCK = 1 << 12
"""The same where a row of every client is held at a time."""

_FLAT = "arrays of floats, integers or booleans"


def view(array: Array) -> Tensor:
    """A serialised array, read-only and without a copy.

    >>> view(Array(np.float32([[1, 2], [3, 4]])))
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    >>> view(Array(np.asarray(np.float64(7.0)))).shape
    ()
    """
    if array.stype != "numpy.ndarray":
        raise ValueError(f"is serialised as {array.stype!r}, expected numpy.ndarray")
    source = BytesIO(array.data)
    version = np.lib.format.read_magic(source)
    if version == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(source)
    elif version == (2, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(source)
    else:
        return array.numpy()
    if dtype.hasobject:
        raise ValueError("holds Python objects")
    count = int(np.prod(shape, dtype=np.int64))
    values = np.frombuffer(array.data, dtype=dtype, count=count, offset=source.tell())
    return values.reshape(shape, order="F" if fortran else "C")


def views(record: ArrayRecord) -> dict[str, Tensor]:
    """Every array of a record, without a copy; an unusable one is named."""
    seen = {}
    for name, array in record.items():
        try:
            seen[name] = view(array)
        except Exception as error:  # numpy's reader, fed by a stranger, raises anything
            raise ValueError(f"array {name!r} {error}") from error
    return seen


def check_model(model: Tensors) -> None:
    """Refuse a global model that cannot be averaged, naming the array."""
    for name, values in model.items():
        if values.dtype.kind not in "fiub":
            raise UserError(f"model: array {name!r} is of {values.dtype}, expected {_FLAT}")


def difference(model: Tensors, reply: Tensors) -> str | None:
    """Why a reply cannot be mixed into the model, or None if it can (see also `unmixable`)."""
    if reply.keys() != model.keys():
        odd = sorted(reply.keys() ^ model.keys())
        return f"arrays {odd[:3]} are not in both the model and the reply"
    for name, values in model.items():
        other = reply[name]
        if other.shape != values.shape:
            return f"array {name!r} has shape {other.shape}, expected {values.shape}"
        if other.dtype.kind not in "fiub":
            return f"array {name!r} is of {other.dtype}"
        if values.dtype.kind != "f" and not _fits(other, values):
            return f"array {name!r} holds what {values.dtype} cannot"
    return None


def unmixable(model: Tensors, reply: Tensors, replies: int) -> str | None:
    """Why this reply makes the mix of so many not finite, or None if it does not.

    >>> unmixable({"w": np.float32([0])}, {"w": np.float32([3e38])}, 2)
    "array 'w' holds 3e+38, too large to be mixed"
    """
    for name, values in model.items():
        if values.dtype.kind != "f" or not values.size:
            continue
        flat = _flat(reply[name])
        parts = [np.abs(flat[part].astype(np.float64)).max() for part in _blocks(flat.size)]
        largest = float(np.max(parts))
        if not np.isfinite(largest):
            return f"array {name!r} is not finite"
        if largest > float(np.finfo(_working(values)).max) / (4 * replies):
            return f"array {name!r} holds {largest:g}, too large to be mixed"
    return None


def mixed_update(
    model: Tensors, replies: Sequence[Tensors], weights: Sequence[float]
) -> dict[str, Tensor]:
    """sum_i w_i (theta - theta_i) of the floating-point arrays: the pseudo-gradient.

    The sum is taken over updates, not over models, so float32 keeps its digits. It runs in the
    order of `replies`: sort them, and the result does not depend on who answered first.

    >>> theta = {"w": np.float32([1, 1]), "seen": np.int64([3])}
    >>> mixed_update(theta, [{"w": np.float32([0, 1])}, {"w": np.float32([1, 3])}], [0.5, 0.5])
    {'w': array([ 0.5, -1. ], dtype=float32)}
    """
    total = {}
    for name, theta in model.items():
        if theta.dtype.kind != "f":
            continue
        work = _working(theta)
        add_scaled = saxpy if work == np.float32 else daxpy
        whole = np.zeros(theta.shape, work)
        flat, start = whole.reshape(-1), _flat(theta)
        others = [(_flat(reply[name]), float(w)) for reply, w in zip(replies, weights) if w]
        buffer = np.empty(min(BLOCK, flat.size), work)
        with np.errstate(over="ignore", invalid="ignore"):  # the sum tells
            for part in _blocks(flat.size):
                here, at, scratch = flat[part], start[part], buffer[: part.stop - part.start]
                for values, weight in others:
                    np.subtract(at, values[part], out=scratch, casting="unsafe")
                    add_scaled(scratch, here, a=weight)  # here += weight * scratch
        total[name] = whole
    return total


def gram(model: Tensors, replies: Sequence[Tensors | None]) -> NDArray[np.float64]:
    """<Delta_i, Delta_j> for all pairs, block by block: no update is ever held as a whole.

    Over the parameters; running statistics are none. None, or what is not finite, is an update that
    cannot be used: its entry on the diagonal is not finite, by which a decision maker sets its
    client aside.

    >>> theta = {"w": np.float32([1, 1])}
    >>> gram(theta, [{"w": np.float32([0, 1])}, {"w": np.float32([1, 3])}, None]).tolist()
    [[1.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, nan]]
    """
    there = [at for at, reply in enumerate(replies) if reply is not None]
    good = [reply for reply in replies if reply is not None]
    part = np.zeros((len(good), len(good)))
    for name, theta in model.items():
        if theta.dtype.kind != "f" or name.endswith(RUNNING_STATISTICS) or not good:
            continue
        start, others = _flat(theta), [_flat(reply[name]) for reply in good]
        rows = np.empty((len(good), min(GRAM_BLOCK, start.size)))
        with np.errstate(over="ignore", invalid="ignore"):
            for block in _blocks(start.size, GRAM_BLOCK):
                deltas = rows[:, : block.stop - block.start]
                for row, values in zip(deltas, others):
                    np.subtract(start[block], values[block], out=row, dtype=np.float64)
                part += deltas @ deltas.T
    product = np.diag([0.0 if reply is not None else np.nan for reply in replies])
    product[np.ix_(there, there)] = part
    return product


def mixed_counters(
    model: Tensors, replies: Sequence[Tensors], weights: Sequence[float]
) -> dict[str, Tensor]:
    """Integer and boolean arrays: the mean under the same weights, rounded to their own type.

    Differences are mixed and rounded once, so that what nobody changed stays as it is.

    >>> mixed_counters({"seen": np.int64(7)}, [{"seen": np.int64(9)}, {"seen": np.int64(10)}],
    ...                [0.5, 0.5])
    {'seen': array(9)}
    """
    counters = {}
    for name, values in model.items():
        if values.dtype.kind == "f":
            continue
        start = values.astype(np.float64)
        change = np.zeros(values.shape)
        for reply, weight in zip(replies, weights):
            change += float(weight) * (reply[name].astype(np.float64) - start)
        moved = np.clip(start + np.rint(change), -EXACT, EXACT).astype(values.dtype)
        counters[name] = np.where(np.rint(change) == 0, values, moved)
    return counters


def to_record(tensors: Tensors, like: Tensors) -> ArrayRecord:
    """The tensors in the model's order and types, ready to send."""
    record = ArrayRecord()
    for name, values in like.items():
        record[name] = Array(np.asarray(tensors[name]).astype(values.dtype, copy=False))
    return record


def _flat(values: Tensor) -> Tensor:
    """In C order whatever the reply's layout; a copy only if that differs."""
    return np.asarray(values).reshape(-1)


def _blocks(size: int, length: int = BLOCK) -> Iterator[slice]:
    for first in range(0, size, length):
        yield slice(first, min(first + length, size))


def _working(values: Tensor) -> np.dtype[Any]:
    """The type that sums are taken in: float32, or float64 where the model has more digits."""
    return np.dtype(np.float32 if values.dtype.itemsize <= 4 else np.float64)


def _fits(values: Tensor, like: Tensor) -> bool:
    """Whether a mean of such values is a number of the model's integer or boolean type."""
    new = np.asarray(values)[np.asarray(values != like)]
    if not new.size:
        return True
    low, high = float(new.min()), float(new.max())  # nan stays nan, and is in no range
    if like.dtype.kind == "b":
        return 0 <= low <= high <= 1
    info = np.iinfo(like.dtype)
    return max(float(info.min), -EXACT) <= low <= high <= min(float(info.max), EXACT)


def all_finite(tensors: Tensors) -> bool:
    """Whether every number is one."""
    return all(_finite(values) for values in tensors.values())


def _finite(values: Tensor) -> bool:
    if values.dtype.kind != "f":
        return True
    flat = values.reshape(-1)
    # A sum is finite only if all are, and takes no memory; a sum that overflows is looked at again.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(flat.sum()):
            return True
    return all(bool(np.isfinite(flat[part]).all()) for part in _blocks(flat.size))
