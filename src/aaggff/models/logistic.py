"""Logistic regression: one linear layer with a bias (the paper's model for Berka and Heart)."""

from __future__ import annotations

from collections import OrderedDict
from math import prod
from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from aaggff.federation.data import Task


def logistic(sample_shape: tuple[int, ...], task: Task) -> nn.Sequential:
    """Logits x W + b of the flattened sample; the logistic or softmax part is in the loss.

    One logit for a binary task, `task.outputs` for more classes.

    >>> from aaggff.federation.data import Task
    >>> model = logistic((15,), Task("binary", 1, "auroc"))
    >>> sum(p.numel() for p in model.parameters())
    16
    """
    return nn.Sequential(
        OrderedDict(flatten=nn.Flatten(), linear=nn.Linear(prod(sample_shape), task.outputs))
    )
