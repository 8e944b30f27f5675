"""People's own data as a federation: from arrays, torch data sets or a data frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from aaggff.data.checks import (
    Metric,
    Pair,
    as_array,
    as_inputs,
    check_parts,
    complete,
    grouped,
    infer_task,
    named,
    named_pairs,
    pairs_for_test,
)
from aaggff.data.memory import ArrayData, split_pairs, standardised, unchanged
from aaggff.errors import UserError, unknown
from aaggff.federation.data import Part, Task

__all__ = ["ArrayData", "from_arrays", "from_dataframe", "from_torch_datasets", "split_pairs"]


def from_arrays(
    inputs: Any,
    targets: ArrayLike | None = None,
    clients: ArrayLike | None = None,
    *,
    test: Mapping[Any, Pair] | Sequence[Pair] | None = None,
    task: Task | None = None,
    metric: Metric | None = None,
    text: bool = False,
    standardise: bool = False,
    prepare: Callable[[torch.Tensor], torch.Tensor] | None = None,
    test_fraction: float = 0.2,
    seed: int = 0,
    name: str = "yours",
) -> ArrayData:
    """Federated data from arrays: numpy, torch or nested lists.

    Either three arrays of equal length, `from_arrays(x, y, clients)`, where `clients[i]` says whose
    sample i is; or one pair (x, y) per client, as a mapping from name to pair or a sequence.

    Args:
        inputs: samples along the first axis; or the mapping or sequence of pairs.
        targets: class labels, one a sample: numbers or strings.
        clients: whose each sample is: numbers or strings.
        test: test parts given apart, as a mapping or sequence of pairs like the training parts;
            without it every client is split (`test_fraction`, stratified, by `seed`).
        task: what the outputs mean; by default two classes are "binary" (scored by AUROC) and
            more are "multiclass" (scored by top-1).
        metric: "auroc", "top1" or "top5" instead of that default.
        text: the inputs are token ids, 0 for padding, and stay integers.
        standardise: shift and scale each client's features by its own training part.
        prepare: applied to every batch before the model sees it; inputs then stay as they are.
        test_fraction: share of each client's samples held out.
        seed: of the split.
        name: what the data is called in records.

    >>> import numpy as np
    >>> x = np.arange(40.0).reshape(20, 2)
    >>> data = from_arrays(x, y := np.arange(20) % 2, clients=["a"] * 10 + ["b"] * 10)
    >>> len(data), data.client_name(1), data.train_sizes.tolist(), data.task.kind
    (2, 'b', [8, 8], 'binary')
    >>> len(from_arrays({"a": (x[:10], y[:10]), "b": (x[10:], y[10:])}))
    2
    """
    if targets is None and clients is None:
        names, pairs = named_pairs(inputs, "inputs")
    elif targets is None or clients is None:
        raise UserError("from_arrays needs inputs, targets and clients, or one pair per client")
    else:
        names, pairs = grouped(inputs, targets, clients)
    if not 0.0 < test_fraction < 1.0:
        raise UserError(f"test_fraction must be between 0 and 1, not {test_fraction}")
    held = None if test is None else pairs_for_test(test, names)
    integers = text or prepare is not None or (task is not None and task.kind == "tokens")
    everything = pairs + (held or [])
    labels = [as_array(pair[1]) for pair in everything]
    task, targets_of, classes = infer_task(labels, task, metric, name)
    parts = [
        (as_inputs(pair[0], integers, owner), encoded)
        for pair, encoded, owner in zip(everything, targets_of, names * 2)
    ]
    parts = check_parts(parts, names * 2)
    shared: dict[str, Any] = {"names": names, "classes": classes, "prepare": prepare or unchanged}
    if held is None:
        return split_pairs(
            name,
            task,
            parts,
            seed=seed,
            standardise=standardise,
            test_fraction=test_fraction,
            **shared,
        )
    train, judged = parts[: len(pairs)], parts[len(pairs) :]
    if standardise:
        train, judged = _standardised_apart(train, judged)
    return ArrayData(name, task, train, judged, **shared)


def from_torch_datasets(
    datasets: Mapping[Any, Any] | Sequence[Any],
    *,
    test: Mapping[Any, Any] | Sequence[Any] | None = None,
    **options: Any,
) -> ArrayData:
    """Federated data from one map-style `torch.utils.data.Dataset` per client.

    Each item must be a pair (input, target), all inputs of one shape. Samples are read once and
    kept in memory. `test` gives test datasets apart; `options` are those of `from_arrays`.

    >>> from torch.utils.data import TensorDataset
    >>> one = TensorDataset(torch.zeros(10, 3), torch.tensor([0, 1] * 5))
    >>> from_torch_datasets({"a": one, "b": one}).test_sizes.tolist()
    [2, 2]
    """
    names, sets = named(datasets, "datasets")
    read = {name: _read(each, name) for name, each in zip(names, sets)}
    held = None
    if test is not None:
        test_names, test_sets = named(test, "test")
        held_pairs = [_read(each, name) for name, each in zip(test_names, test_sets)]
        held = (
            dict(zip(test_names, held_pairs, strict=True))
            if isinstance(test, Mapping)
            else held_pairs
        )
    return from_arrays(read, test=held, **options)


def from_dataframe(
    frame: Any,
    *,
    client_column: str,
    target_column: str,
    feature_columns: Sequence[str] | None = None,
    **options: Any,
) -> ArrayData:
    """Federated data from a polars or pandas frame with one row per sample.

    Columns of text become one indicator per value; numbers and booleans are taken as they are.
    `feature_columns` defaults to all others; `options` are those of `from_arrays`.

    >>> import polars as pl
    >>> frame = pl.DataFrame({"site": ["x", "y"] * 10, "age": range(20), "ill": [0, 0, 1, 1] * 5})
    >>> data = from_dataframe(frame, client_column="site", target_column="ill", standardise=True)
    >>> [data.client_name(k) for k in range(len(data))], tuple(data.train(0)[0].shape)
    (['x', 'y'], (8, 1))
    """
    columns = [str(column) for column in frame.columns]
    for column in [client_column, target_column, *(feature_columns or [])]:
        if column not in columns:
            raise unknown("column", str(column), columns)
    chosen = feature_columns or [c for c in columns if c not in (client_column, target_column)]
    if not chosen:
        raise UserError("the frame has no feature columns beside client and target")
    features = np.column_stack([part for c in chosen for part in _feature(frame[c], c)])
    for column in (client_column, target_column):
        complete(np.asarray(frame[column].to_numpy()), column)
    return from_arrays(
        features.astype(np.float32),
        np.asarray(frame[target_column].to_numpy()),
        np.asarray(frame[client_column].to_numpy()),
        **options,
    )


def _feature(series: Any, column: str) -> list[NDArray[np.float64]]:
    """One column as numbers: itself, or one indicator per value."""
    values = np.asarray(series.to_numpy())
    complete(values, column)
    if values.dtype.kind in "biuf":
        return [values.astype(np.float64)]
    if values.dtype.kind in "OUST":
        if all(isinstance(value, (bool, int, float, np.number)) for value in values):
            return [values.astype(np.float64)]
        text = values.astype(str)
        return [(text == level).astype(np.float64) for level in np.unique(text)]
    raise UserError(f"column {column!r} holds {values.dtype}: expected numbers or text")


def _read(dataset: Any, name: str) -> Pair:
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise UserError(f"client {name}: expected a map-style dataset, with a length and items")
    if len(dataset) == 0:
        raise UserError(f"client {name}: its dataset is empty")
    items = [dataset[index] for index in range(len(dataset))]
    if not all(isinstance(item, (tuple, list)) and len(item) == 2 for item in items):
        raise UserError(f"client {name}: every item must be a pair (input, target)")
    inputs = [torch.as_tensor(np.asarray(item[0])) for item in items]
    shapes = {tuple(each.shape) for each in inputs}
    if len(shapes) > 1:
        raise UserError(f"client {name}: inputs have several shapes: {sorted(shapes)}")
    return torch.stack(inputs), np.asarray([np.asarray(item[1]) for item in items])


def _standardised_apart(
    train: Sequence[Part], test: Sequence[Part]
) -> tuple[list[Part], list[Part]]:
    scaled_train: list[Part] = []
    scaled_test: list[Part] = []
    for (x, y), (x_test, y_test) in zip(train, test):
        both = standardised(torch.cat([x, x_test]), np.arange(len(x)))
        scaled_train.append((both[: len(x)], y))
        scaled_test.append((both[len(x) :], y_test))
    return scaled_train, scaled_test
