"""A multilayer perceptron: the smallest model that is not linear."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

from torch import nn

from aaggff.errors import UserError

if TYPE_CHECKING:
    from aaggff.federation.data import Task


def mlp(
    sample_shape: tuple[int, ...],
    task: Task,
    *,
    hidden: int | Sequence[int] = 64,
    dropout: float = 0.0,
) -> nn.Sequential:
    """Linear layers with ReLU between them, over the flattened sample.

    hidden: the width of the hidden layer, or of each of them. dropout: the share of hidden units
    left out while training; 0 adds no layer.

    >>> from aaggff.federation.data import Task
    >>> model = mlp((64,), Task("multiclass", 10, "top1"), hidden=[32, 16])
    >>> [tuple(p.shape) for p in model.parameters() if p.dim() == 2]
    [(32, 64), (16, 32), (10, 16)]
    """
    widths = [hidden] if isinstance(hidden, int) else list(hidden)
    if any(not isinstance(width, int) or width < 1 for width in widths):
        raise UserError(f"hidden: expected one or several widths of at least 1, got {hidden!r}")
    if not 0 <= dropout < 1:
        raise UserError(f"dropout: expected a share in [0, 1), got {dropout!r}")
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs, outputs in pairwise([prod(sample_shape), *widths]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        if dropout:
            layers.append(nn.Dropout(dropout))
    layers.append(nn.Linear(widths[-1] if widths else prod(sample_shape), task.outputs))
    return nn.Sequential(*layers)
