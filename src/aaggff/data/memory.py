"""Federated data held in memory, and its split into training and test parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from aaggff.data.split import split_client
from aaggff.errors import UserError
from aaggff.federation.data import Part, Task

Index = NDArray[np.int64]


def unchanged(inputs: torch.Tensor) -> torch.Tensor:
    """What prepares data that is stored ready."""
    return inputs


class ArrayData:
    """Federated data in memory: one pair of tensors a client and part.

    All training parts lie in one tensor and so do all test parts; `train(k)` and `test(k)` are
    views of them. `prepare` turns stored samples into what a model sees (default: nothing).
    """

    def __init__(
        self,
        name: str,
        task: Task,
        train: Sequence[Part],
        test: Sequence[Part],
        *,
        names: Sequence[str] | None = None,
        prepare: Callable[[torch.Tensor], torch.Tensor] = unchanged,
        stand_in: bool = False,
        classes: Sequence[Any] | None = None,
    ) -> None:
        if not train or len(train) != len(test):
            raise UserError(f"{name}: {len(train)} training parts and {len(test)} test parts")
        self.name, self.task, self.stand_in = name, task, stand_in
        self.names = None if names is None else [str(each) for each in names]
        self.classes = classes
        """What target 0, 1, ... was called before it became a number, where it was not one."""
        self.prepare = prepare
        self.train_sizes = np.array([len(targets) for _, targets in train], dtype=np.int64)
        self.test_sizes = np.array([len(targets) for _, targets in test], dtype=np.int64)
        self._train = _joined(train)
        self._test = _joined(test)
        self._train_ends = np.concatenate([[0], np.cumsum(self.train_sizes)]).tolist()
        self._test_ends = np.concatenate([[0], np.cumsum(self.test_sizes)]).tolist()

    def __len__(self) -> int:
        return len(self.train_sizes)

    def __repr__(self) -> str:
        return (
            f"{self.name}: {len(self)} clients, {self.train_sizes.sum():,} training and "
            f"{self.test_sizes.sum():,} test samples, {self.task.kind}"
        )

    def train(self, client: int) -> Part:
        """Client `client`'s training part."""
        return _slice(self._train, self._train_ends, client)

    def test(self, client: int) -> Part:
        """Client `client`'s test part."""
        return _slice(self._test, self._test_ends, client)

    def test_block(self, first: int, last: int) -> tuple[torch.Tensor, torch.Tensor, Index]:
        """The test parts of clients first..last-1 end to end, and where each begins."""
        ends = self._test_ends[first : last + 1]
        offsets = np.array(ends, dtype=np.int64) - ends[0]
        return self._test[0][ends[0] : ends[-1]], self._test[1][ends[0] : ends[-1]], offsets

    def client_name(self, client: int) -> str:
        """What the client is called."""
        return str(client) if self.names is None else self.names[client]


def _joined(parts: Sequence[Part]) -> Part:
    return torch.cat([inputs for inputs, _ in parts]), torch.cat([targets for _, targets in parts])


def _slice(joined: Part, ends: list[int], client: int) -> Part:
    low, high = ends[client], ends[client + 1]
    return joined[0][low:high], joined[1][low:high]


def split_pairs(
    name: str,
    task: Task,
    pairs: Sequence[Part],
    *,
    seed: int = 0,
    names: Sequence[str] | None = None,
    prepare: Callable[[torch.Tensor], torch.Tensor] = unchanged,
    standardise: bool = False,
    stand_in: bool = False,
    test_fraction: float = 0.2,
    classes: Sequence[Any] | None = None,
) -> ArrayData:
    """Split each client's samples 80/20 by `seed`, stratified by class where that is possible.

    `standardise` shifts and scales every client's features by the mean and the deviation of its
    own training part: nothing about a client leaves it, and its test part stays unseen.
    """
    train: list[Part] = []
    test: list[Part] = []
    for client, (inputs, targets) in enumerate(pairs):
        labels = targets.numpy() if targets.ndim == 1 else None
        learn, judge = split_client(
            len(targets), labels, seed=seed, client=client, test_fraction=test_fraction
        )
        if standardise:
            inputs = standardised(inputs, learn)
        train.append((inputs[learn], targets[learn]))
        test.append((inputs[judge], targets[judge]))
    return ArrayData(
        name,
        task,
        train,
        test,
        names=names,
        prepare=prepare,
        stand_in=stand_in,
        classes=classes,
    )


def standardised(inputs: torch.Tensor, training: NDArray[np.int64]) -> torch.Tensor:
    """Features as (x - mean) / deviation of the training rows; a constant feature becomes 0."""
    if len(training) == 0:
        return inputs
    values = inputs.double()
    known = values[training]
    deviation, mean = torch.std_mean(known, dim=0, correction=0)
    scale = torch.where(deviation > 1e-12, deviation, torch.ones_like(deviation))
    return ((values - mean) / scale).float()
