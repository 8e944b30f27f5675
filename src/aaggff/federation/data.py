"""What a federation learns from: clients with a training and a test part, and a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

Part = tuple[torch.Tensor, torch.Tensor]
"""Inputs and targets of one client's part, as stored: row i of both is sample i."""


@dataclass(frozen=True)
class Task:
    """What a model's output means, how it is scored and what is called its performance.

    kind "binary": one logit, targets 0/1. "multiclass": `outputs` logits, integer targets.
    "tokens": `outputs` logits per position, integer targets with -100 where there is none.
    """

    kind: Literal["binary", "multiclass", "tokens"]
    outputs: int
    metric: Literal["auroc", "top1", "top5"]


@runtime_checkable
class FederatedData(Protocol):
    """A data set split into clients 0..K-1, each 80 % training and 20 % test.

    `train(k)` and `test(k)` are cheap and touch client k only, so that K can be large; `prepare`
    turns a batch as stored (bytes, 16-bit sound) into what the model sees, and is the identity
    for data that is stored ready.
    """

    name: str
    task: Task
    stand_in: bool
    train_sizes: NDArray[np.int64]
    test_sizes: NDArray[np.int64]

    def __len__(self) -> int: ...

    def train(self, client: int) -> Part: ...

    def test(self, client: int) -> Part: ...

    def prepare(self, inputs: torch.Tensor) -> torch.Tensor: ...

    def client_name(self, client: int) -> str: ...
