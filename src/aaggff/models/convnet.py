"""LEAF's ConvNet (the paper's model for CelebA)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from aaggff.errors import UserError

if TYPE_CHECKING:
    from aaggff.federation.data import Task

FILTERS = 32
GROUPS = (32, 16, 8, 4)
POOLED = 5


def convnet(sample_shape: tuple[int, ...], task: Task) -> nn.Sequential:
    """Four blocks of 3 x 3 convolution, group norm, 2 x 2 max pooling and ReLU, then a linear head.

    The convolutions have no bias (the norm that follows has one); the groups of the norm halve
    from 32 to 4; adaptive average pooling to 5 x 5, which is what 84 x 84 pixels arrive at
    anyway, lets other image sizes in.

    >>> from aaggff.federation.data import Task
    >>> model = convnet((3, 84, 84), Task("binary", 1, "top1"))
    >>> sum(p.numel() for p in model.parameters())
    29569
    """
    if len(sample_shape) != 3 or min(sample_shape[1:]) < 2 ** len(GROUPS):
        raise UserError(
            f"convnet: expected images (channels, height, width) of at least 16 x 16 pixels, "
            f"got samples of shape {tuple(sample_shape)}"
        )
    layers: list[nn.Module] = []
    channels = sample_shape[0]
    for groups in GROUPS:
        layers += [
            nn.Conv2d(channels, FILTERS, kernel_size=3, stride=1, padding=1, bias=False),
            nn.GroupNorm(groups, FILTERS),
            nn.MaxPool2d(2),
            nn.ReLU(),
        ]
        channels = FILTERS
    layers += [
        nn.AdaptiveAvgPool2d(POOLED),
        nn.Flatten(),
        nn.Linear(FILTERS * POOLED * POOLED, task.outputs),
    ]
    return nn.Sequential(*layers)
