"""State as plain arrays: written so that no pickle is needed, checked when it is read."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaggff.decision.base import Array
from aaggff.errors import UserError

Saved = Mapping[str, NDArray[Any]]
INT64 = np.iinfo(np.int64)


def ids_to_array(ids: Sequence[Hashable] | NDArray[np.int64]) -> NDArray[Any]:
    """Integers as int64; anything else as the bytes of a JSON list.

    >>> ids_to_array([7, 3]).tolist()
    [7, 3]
    >>> array_to_ids(ids_to_array(["anna", (2, "b"), 5]))
    ['anna', (2, 'b'), 5]
    """
    if isinstance(ids, np.ndarray):
        return np.array(ids, dtype=np.int64)
    if all(type(i) is int and INT64.min <= i <= INT64.max for i in ids):
        return np.array(ids, dtype=np.int64)
    text = json.dumps([_pack(i) for i in ids], allow_nan=False)
    return np.frombuffer(text.encode("ascii"), dtype=np.uint8).copy()


def array_to_ids(array: NDArray[Any], name: str = "ids") -> list[Hashable]:
    """What `ids_to_array` wrote, each id once."""
    array = np.asarray(array)
    if array.ndim == 1 and array.dtype == np.int64:
        ids: list[Hashable] = array.tolist()
    elif array.ndim == 1 and array.dtype == np.uint8:
        try:
            ids = _unpack_list(array.tobytes().decode("ascii"))
        except (ValueError, TypeError, KeyError, RecursionError):
            raise UserError(f"state: {name!r} does not hold a list of ids") from None
    else:
        raise UserError(f"state: {name!r} is {_described(array)}, expected ids (int64 or uint8)")
    if len(set(ids)) != len(ids):
        raise UserError(f"state: {name!r} names a client twice")
    return ids


def _pack(name: Any) -> Any:
    """JSON has no tuples, bytes or frozensets: those become an object that says what they were."""
    if name is None or isinstance(name, (str, bool)) or type(name) in (int, float):
        if isinstance(name, float) and name != name:
            raise UserError("state: a client id that is nan cannot be saved")
        return name
    if isinstance(name, bytes):
        return {"bytes": b64encode(name).decode("ascii")}
    if type(name) is tuple:
        return {"tuple": [_pack(part) for part in name]}
    raise UserError(
        f"state: client id {name!r} is a {type(name).__name__} and cannot be saved, expected an"
        f" integer, a string, bytes or a tuple of these"
    )


def _unpack_list(text: str) -> list[Hashable]:
    packed = json.loads(text)
    if not isinstance(packed, list):
        raise ValueError("no list")
    return [_unpack(name) for name in packed]


def _unpack(packed: Any) -> Hashable:
    if isinstance(packed, list):
        raise ValueError("a list is no id")
    if not isinstance(packed, dict):
        return packed  # type: ignore[no-any-return]
    ((kind, value),) = packed.items()
    if kind == "bytes":
        return b64decode(value, validate=True)
    if kind == "tuple" and isinstance(value, list):
        return tuple(_unpack(part) for part in value)
    raise ValueError(kind)


def check_keys(state: Saved, expected: Iterable[str]) -> None:
    """A state with other entries belongs to another decision maker, or to other options."""
    wanted, found = set(expected), set(state)
    if wanted == found:
        return
    parts = [
        f"{what} {', '.join(repr(key) for key in sorted(map(str, keys)))}"
        for what, keys in (("lacks", wanted - found), ("has unexpected", found - wanted))
        if keys
    ]
    raise UserError(
        f"state: {' and '.join(parts)}; was it saved by this method with these options?"
    )


def read_floats(
    state: Saved, name: str, size: int | None = None, *, lowest: float = -np.inf
) -> Array:
    """A copy of a one-dimensional array of finite numbers, each at least `lowest`."""
    array = np.asarray(state[name])
    if array.dtype.kind not in "fiu" or array.ndim != 1 or size not in (None, array.size):
        expected = "numbers" if size is None else f"{size} numbers"
        raise UserError(f"state: {name!r} is {_described(array)}, expected {expected}")
    values = array.astype(np.float64)
    if not np.isfinite(values).all() or (values < lowest).any():
        expected = "finite numbers" if lowest == -np.inf else f"finite numbers >= {lowest:g}"
        raise UserError(f"state: {name!r} holds other values than {expected}")
    return values


def read_count(state: Saved, name: str) -> int:
    """A whole number >= 0."""
    array = np.asarray(state[name])
    if array.dtype.kind not in "iu" or array.size != 1 or int(array.reshape(())) < 0:
        raise UserError(f"state: {name!r} is {_described(array)}, expected one whole number >= 0")
    return int(array.reshape(()))


def read_number(state: Saved, name: str) -> float:
    """One finite number."""
    array = np.asarray(state[name])
    if array.dtype.kind not in "fiu" or array.size != 1 or not np.isfinite(array).all():
        raise UserError(f"state: {name!r} is {_described(array)}, expected one finite number")
    return float(array.reshape(()))


def _described(array: NDArray[Any]) -> str:
    return f"{array.dtype} of shape {array.shape}"
