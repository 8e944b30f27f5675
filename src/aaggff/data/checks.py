"""What is checked before people's own arrays become a federation; each error names the client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from aaggff.errors import UserError, unknown
from aaggff.federation.data import Part, Task

Metric = Literal["auroc", "top1", "top5"]
Pair = tuple[Any, Any]


def named(values: Any, what: str) -> tuple[list[str], list[Any]]:
    if isinstance(values, Mapping):
        names, items = [str(key) for key in values], list(values.values())
    elif isinstance(values, Sequence) and not isinstance(values, str):
        items = list(values)
        names = [str(index) for index in range(len(items))]
    else:
        raise UserError(f"{what}: expected a mapping or a sequence with one entry per client")
    if not items:
        raise UserError(f"{what}: there are no clients")
    return names, items


def named_pairs(values: Any, what: str) -> tuple[list[str], list[Pair]]:
    names, items = named(values, what)
    for name, item in zip(names, items):
        if not isinstance(item, (tuple, list)) or len(item) != 2:
            raise UserError(f"{what}: client {name} must be a pair (inputs, targets)")
    return names, [(item[0], item[1]) for item in items]


def pairs_for_test(test: Any, names: list[str]) -> list[Pair]:
    test_names, pairs = named_pairs(test, "test")
    if isinstance(test, Mapping):
        for name in test_names:
            if name not in names:
                raise unknown("client in test", name, names)
        by_name = dict(zip(test_names, pairs))
        absent = [name for name in names if name not in by_name]
        if absent:
            raise UserError(f"test: client {absent[0]} has no test part (give it an empty one)")
        return [by_name[name] for name in names]
    if len(pairs) != len(names):
        raise UserError(f"test: {len(pairs)} test parts for {len(names)} clients")
    return pairs


def grouped(inputs: Any, targets: Any, clients: Any) -> tuple[list[str], list[Pair]]:
    x, y, owners = as_array(inputs), as_array(targets), as_array(clients)
    if owners.ndim != 1 or not len(x) == len(y) == len(owners):
        raise UserError(
            f"inputs, targets and clients differ in length: {len(x)}, {len(y)}, {owners.size}"
        )
    if not len(owners):
        raise UserError("there are no samples")
    keys, codes = np.unique(owners, return_inverse=True)
    order = np.argsort(codes.ravel(), kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(codes.ravel()))]).tolist()
    rows = [order[low:high] for low, high in pairwise(ends)]
    return [str(key) for key in keys.tolist()], [(x[each], y[each]) for each in rows]


def as_array(values: Any) -> NDArray[Any]:
    if isinstance(values, torch.Tensor):
        return values.detach().cpu().numpy()
    return np.asarray(values)


def as_inputs(values: Any, integers: bool, client: str) -> torch.Tensor:
    array = as_array(values)
    if array.dtype.kind not in "biuf":
        raise UserError(f"client {client}: inputs hold {array.dtype}, expected numbers")
    if not integers or array.dtype == np.float64:
        array = array.astype(np.float32)
    return torch.from_numpy(np.ascontiguousarray(array))


def infer_task(
    labels: list[NDArray[Any]], task: Task | None, metric: Metric | None, name: str
) -> tuple[Task, list[torch.Tensor], list[Any] | None]:
    """The task, every part's targets as integers, and the classes' names if they had any."""
    if task is not None:
        for values in labels:
            if values.dtype.kind not in "biu" and not np.array_equal(values, np.trunc(values)):
                raise UserError(f"{name}: with a task given, targets must be whole numbers")
            _check_range(values, task, name)
        whole = [torch.from_numpy(values.astype(np.int64)) for values in labels]
        return task, whole, None
    flat = np.concatenate([values.reshape(-1) for values in labels])
    if flat.dtype.kind == "f" and not np.array_equal(flat, np.trunc(flat)):
        raise UserError(f"{name}: targets must be class labels; found fractions or missing values")
    classes, codes = np.unique(flat, return_inverse=True)
    if any(values.ndim != 1 for values in labels):
        raise UserError(f"{name}: targets must be one label a sample; for sequences give task=")
    if classes.size < 2:
        raise UserError(f"{name}: there is only one class, {classes.tolist()}: nothing to learn")
    kind: Literal["binary", "multiclass"] = "binary" if classes.size == 2 else "multiclass"
    outputs = 1 if kind == "binary" else int(classes.size)
    default: Metric = "auroc" if kind == "binary" else "top1"
    if metric not in (None, "auroc", "top1", "top5"):
        raise unknown("metric", str(metric), ("auroc", "top1", "top5"))
    ends = np.cumsum([values.size for values in labels])[:-1]
    encoded = [
        torch.from_numpy(each.astype(np.int64)) for each in np.split(codes.reshape(-1), ends)
    ]
    plain = classes.dtype.kind in "biuf" and np.array_equal(classes, np.arange(classes.size))
    return Task(kind, outputs, metric or default), encoded, None if plain else classes.tolist()


def _check_range(values: NDArray[Any], task: Task, name: str) -> None:
    highest = 1 if task.kind == "binary" else task.outputs - 1
    known = values[values != -100] if task.kind == "tokens" else values
    if known.size and (known.min() < 0 or known.max() > highest):
        raise UserError(
            f"{name}: targets run from {known.min()} to {known.max()}; "
            f"a {task.kind} task with {task.outputs} outputs has 0..{highest}"
        )


def check_parts(parts: Sequence[Part], names: Sequence[str]) -> list[Part]:
    """The parts, once all of them have samples of one shape, finite and each with a target."""
    shape = next((x.shape[1:] for x, _ in parts if len(x)), None)
    if shape is None:
        raise UserError("there are no samples")
    checked: list[Part] = []
    for (x, y), name in zip(parts, names):
        if len(x) != len(y):
            raise UserError(f"client {name}: {len(x)} inputs and {len(y)} targets")
        if len(x) and x.shape[1:] != shape:
            raise UserError(
                f"client {name}: samples have shape {tuple(x.shape[1:])}, others {tuple(shape)}"
            )
        if x.is_floating_point() and not torch.isfinite(x).all():
            row = int((~torch.isfinite(x)).nonzero()[0, 0])
            raise UserError(f"client {name}: row {row} holds a missing or infinite input")
        # An empty part may come in any shape: give it the others', so that parts can be joined.
        checked.append((x if len(x) else x.reshape(0, *shape), y))
    return checked


def complete(values: NDArray[Any], column: str) -> None:
    # Only a missing value differs from itself; None is what frames of text hold instead.
    absent = int(sum(value is None or value != value for value in values.tolist()))
    if absent:
        raise UserError(
            f"column {column!r} lacks {absent} of {len(values)} values: fill or drop them first"
        )
