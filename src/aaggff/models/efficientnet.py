"""EfficientNet-B0 with the paper's head (its model for ISIC2019)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn

from aaggff.errors import UserError
from aaggff.models.pretrained import load_pretrained

if TYPE_CHECKING:
    from aaggff.federation.data import Task

HUB = "google/efficientnet-b0"
FEATURES = 1280
# transformers hands TensorFlow's 0.99 ("keep 99 %") to torch, where it means "keep 1 %": running
# means of one batch of 20 would be all that is left of ImageNet's.
NORM_MOMENTUM = 0.01


class AsTrained(nn.Module):
    """Images as data sets give them, (x - mean) / std with x in 0..1, -> as weights saw them.

    Pretrained networks were trained on inputs of their own scale. Off by a factor of two, their
    batch norms' running statistics would be wrong for hundreds of rounds.
    """

    def __init__(self, scale: Sequence[float], shift: Sequence[float], *, flip: bool = False):
        super().__init__()
        self.scale, self.shift, self.flip = tuple(scale), tuple(shift), flip

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """images * scale + shift by channel; with `flip` in the order blue, green, red."""
        scale, shift = (
            torch.tensor(values, dtype=images.dtype, device=images.device).reshape(-1, 1, 1)
            for values in (self.scale, self.shift)
        )
        seen = images * scale + shift
        return seen.flip(-3) if self.flip else seen


class ImageClassifier(nn.Module):
    """Images -> feature maps -> AdaptiveAvgPool(p, p), flattened -> dropout -> linear."""

    def __init__(
        self,
        features: nn.Module,
        channels: int,
        pooled: int,
        dropout: float,
        out: int,
        as_trained: nn.Module | None = None,
    ):
        super().__init__()
        self.as_trained = as_trained or nn.Identity()
        self.features = features
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(pooled),
            nn.Flatten(),
            nn.Dropout(dropout),
            nn.Linear(channels * pooled * pooled, out),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits [n, outputs]."""
        maps = self.features(self.as_trained(images))
        logits: torch.Tensor = self.head(getattr(maps, "last_hidden_state", maps))
        return logits


def efficientnet(
    sample_shape: tuple[int, ...],
    task: Task,
    *,
    pretrained: str = "hub",
    pooled: int = 7,
    dropout: float = 0.1,
    norm_momentum: float = NORM_MOMENTUM,
) -> ImageClassifier:
    """EfficientNet-B0 + AdaptiveAvgPool(7, 7)-dropout-`task.outputs`; every layer is trained.

    pretrained: "hub" (google/efficientnet-b0 from the Hugging Face hub or its cache), a folder
    with config.json and model.safetensors, or "random". pooled: side of the pooled maps; 7 is the
    paper's (a head of 62,720 inputs), 1 the plain average. norm_momentum: what share of a batch's
    mean and variance enters batch norm's running ones, by which the model is judged; with few steps
    at a high learning rate the published 0.01 lags behind what is learnt.

    >>> from aaggff.federation.data import Task
    >>> task = Task("multiclass", 8, "top5")
    >>> model = efficientnet((3, 64, 64), task, pretrained="random", pooled=1)
    >>> sum(p.numel() for p in model.features.parameters())
    4007548
    """
    check_images("efficientnet", sample_shape, 32)
    check_head(pooled, dropout, norm_momentum)
    try:
        from transformers import EfficientNetConfig, EfficientNetModel
    except ImportError as error:
        raise UserError("efficientnet: needs transformers: pip install 'aaggff[vision]'") from error
    if pretrained == "random":
        # The published B0; the library's own default is B7 in older versions.
        b0 = EfficientNetConfig(
            width_coefficient=1.0,
            depth_coefficient=1.0,
            hidden_dim=FEATURES,
            image_size=sample_shape[1],
            num_channels=sample_shape[0],
            depthwise_padding=[16],
        )
        network = EfficientNetModel(b0)
    else:
        network = load_pretrained("efficientnet", EfficientNetModel, pretrained, HUB)
        if network.config.num_channels != sample_shape[0]:
            raise UserError(
                f"efficientnet: the pretrained model reads {network.config.num_channels} channels, "
                f"the images have {sample_shape[0]}"
            )
    # The published weights saw (x - mean) / std, as data sets give it: what transformers prepares
    # is divided by the roots of ImageNet's deviations, twice.
    set_norm_momentum(network, norm_momentum)
    channels = int(network.config.hidden_dim)
    return ImageClassifier(network.train(), channels, pooled, dropout, task.outputs)


def check_images(model: str, sample_shape: tuple[int, ...], smallest: int) -> None:
    """Images as (channels, height, width), large enough for the network."""
    if len(sample_shape) != 3 or min(sample_shape[1:]) < smallest:
        raise UserError(
            f"{model}: expected images (channels, height, width) of at least {smallest} x "
            f"{smallest} pixels, got samples of shape {tuple(sample_shape)}"
        )


def set_norm_momentum(network: nn.Module, momentum: float) -> None:
    """For every batch norm in the network."""
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = momentum


def check_head(pooled: int, dropout: float, norm_momentum: float = NORM_MOMENTUM) -> None:
    """The options that image classifiers share."""
    if not 0 < norm_momentum <= 1:
        raise UserError(f"norm_momentum: expected a share in (0, 1], got {norm_momentum!r}")
    if not isinstance(pooled, int) or pooled < 1:
        raise UserError(f"pooled: expected a whole number of at least 1, got {pooled!r}")
    if not 0 <= dropout < 1:
        raise UserError(f"dropout: expected a share in [0, 1), got {dropout!r}")
