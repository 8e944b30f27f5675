"""M5: a small convolutional network on raw sound (the paper's model for SpeechCommands)."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from torch import nn

from aaggff.errors import UserError

if TYPE_CHECKING:
    from aaggff.federation.data import Task

FILTERS = (64, 64, 128, 256)
SHORTEST = 80 + 4 * (4**4 - 1)  # what is left after the convolutions must fill the last pooling


def m5(sample_shape: tuple[int, ...], task: Task) -> nn.Sequential:
    """Four blocks of 1-D convolution, batch norm, ReLU and max pooling by 4, then a linear head.

    The first convolution reads 80 samples every 4 (5 ms of 16 kHz sound: a learnt filter bank),
    the others 3 at stride 1. What is left over time is averaged, so that any length fits.
    The architecture is M5 of Dai et al. (2017), "Very deep convolutional neural networks for raw
    waveforms", with the paper's widths.

    >>> from aaggff.federation.data import Task
    >>> model = m5((1, 16_000), Task("multiclass", 35, "top5"))
    >>> sum(p.numel() for p in model.parameters())
    150819
    """
    channels = 1 if len(sample_shape) == 1 else sample_shape[0]
    if len(sample_shape) > 2 or prod(sample_shape) < channels * SHORTEST:
        raise UserError(
            f"m5: expected sound as (channels, length) with at least {SHORTEST} samples, "
            f"got samples of shape {tuple(sample_shape)}"
        )
    # A wave stored without its channel axis gets one.
    layers: list[nn.Module] = [nn.Unflatten(-1, (1, -1))] if len(sample_shape) == 1 else []
    for index, filters in enumerate(FILTERS):
        if index == 0:
            convolution = nn.Conv1d(channels, filters, kernel_size=80, stride=4)
        else:
            convolution = nn.Conv1d(channels, filters, kernel_size=3, padding=1)
        layers += [convolution, nn.BatchNorm1d(filters), nn.ReLU(), nn.MaxPool1d(4)]
        channels = filters
    layers += [nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(channels, task.outputs)]
    return nn.Sequential(*layers)
