"""The loss of each kind of task, on a batch of outputs and targets."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from aaggff.errors import UserError
from aaggff.federation.data import Task

IGNORED = -100
"""A target that is not there: the padding of a row of tokens."""


def batch_loss(task: Task) -> Callable[[Tensor, Tensor], Tensor]:
    """The mean loss of a batch, for training: (outputs, targets) -> a scalar.

    "binary": logistic loss of one logit. "multiclass": cross entropy. "tokens": cross entropy
    averaged over the real tokens of the batch.

    >>> loss = batch_loss(Task("tokens", 4, "top1"))
    >>> round(float(loss(torch.zeros(1, 2, 4), torch.tensor([[3, -100]]))), 4)  # log 4
    1.3863
    """
    return {"binary": _binary, "multiclass": _multiclass, "tokens": _tokens}[task.kind]


def loss_sums(task: Task, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Each sample's summed loss and how many targets it has (1, or its real tokens)."""
    if task.kind == "binary":
        losses = F.binary_cross_entropy_with_logits(
            outputs.reshape(-1), targets.to(outputs.dtype), reduction="none"
        )
        return losses, torch.ones_like(losses)
    if task.kind == "multiclass":
        losses = F.cross_entropy(outputs, targets, reduction="none")
        return losses, torch.ones_like(losses)
    each = F.cross_entropy(
        outputs.reshape(-1, outputs.shape[-1]),
        targets.reshape(-1),
        ignore_index=IGNORED,
        reduction="none",
    )
    real = (targets != IGNORED).reshape(len(targets), -1).sum(1)
    return each.view(len(targets), -1).sum(1), real.to(outputs.dtype)


def check_outputs(task: Task, outputs: Tensor, targets: Tensor, model: str) -> None:
    """A model whose output does not fit the task is an error that names both shapes."""
    samples = len(targets)
    shapes: dict[str, list[tuple[int, ...]]] = {
        "binary": [(samples, 1), (samples,)],
        "multiclass": [(samples, task.outputs)],
        "tokens": [(*targets.shape, task.outputs)],
    }
    expected = shapes[task.kind]
    if tuple(outputs.shape) not in expected:
        raise UserError(
            f"model {model}: {samples} samples give outputs of shape {tuple(outputs.shape)}, "
            f"expected {expected[0]} for a {task.kind} task with {task.outputs} outputs"
        )


def _binary(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(outputs.reshape(-1), targets.to(outputs.dtype))


def _multiclass(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets)


def _tokens(outputs: Tensor, targets: Tensor) -> Tensor:
    flat = targets.reshape(-1)
    total = F.cross_entropy(
        outputs.reshape(-1, outputs.shape[-1]), flat, ignore_index=IGNORED, reduction="sum"
    )
    # A batch of padding only has no loss and no gradient; the plain mean would be 0/0.
    return total / (flat != IGNORED).sum().clamp(min=1)
