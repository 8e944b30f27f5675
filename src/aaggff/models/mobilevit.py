"""MobileViT: convolutions with a little attention (the authors' model for TinyImageNet)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aaggff.data.prepare import IMAGENET_MEAN, IMAGENET_STD
from aaggff.errors import UserError, unknown
from aaggff.models.efficientnet import AsTrained, ImageClassifier, check_head, check_images
from aaggff.models.pretrained import load_pretrained

if TYPE_CHECKING:
    from aaggff.federation.data import Task

# Mehta & Rastegari (2022), table 4: widths of the transformers, widths of the stages, expansion.
SIZES = {
    "xxs": ((64, 80, 96), (16, 16, 24, 48, 64, 80, 320), 2.0),
    "xs": ((96, 120, 144), (16, 32, 48, 64, 80, 96, 384), 4.0),
    "s": ((144, 192, 240), (16, 32, 64, 96, 128, 160, 640), 4.0),
}
HUB = {
    "xxs": "apple/mobilevit-xx-small",
    "xs": "apple/mobilevit-x-small",
    "s": "apple/mobilevit-small",
}


def mobilevit(
    sample_shape: tuple[int, ...],
    task: Task,
    *,
    size: str = "xxs",
    pretrained: str = "random",
    dropout: float = 0.1,
) -> ImageClassifier:
    """MobileViT of the published size "xxs", "xs" or "s", averaged, dropout, linear.

    pretrained: "random", "hub" (apple/mobilevit-... from the Hugging Face hub or its cache) or a
    folder with config.json and model.safetensors (its size counts, not `size`). Random is the
    default because TinyImageNet is a part of ImageNet: weights trained on ImageNet have seen its
    test images. The paper names the model but neither its size nor its start.

    >>> from aaggff.federation.data import Task
    >>> model = mobilevit((3, 64, 64), Task("multiclass", 200, "top5"))
    >>> sum(p.numel() for p in model.features.parameters())
    951024
    """
    check_images("mobilevit", sample_shape, 64)
    check_head(1, dropout)
    if size not in SIZES:
        raise unknown("size", str(size), SIZES)
    if any(side % 32 for side in sample_shape[1:]):
        raise UserError(
            f"mobilevit: expected sides that are multiples of 32 pixels, got {sample_shape[1:]}"
        )
    as_trained = None
    try:
        from transformers import MobileViTConfig, MobileViTModel
    except ImportError as error:
        raise UserError("mobilevit: needs transformers: pip install 'aaggff[vision]'") from error
    if pretrained == "random":
        hidden, neck, expansion = SIZES[size]
        config = MobileViTConfig(
            hidden_sizes=list(hidden),
            neck_hidden_sizes=list(neck),
            expand_ratio=expansion,
            num_channels=sample_shape[0],
            image_size=sample_shape[1],
            hidden_dropout_prob=dropout,
        )
        network: Any = MobileViTModel(config, expand_output=True)
    else:
        network = load_pretrained("mobilevit", MobileViTModel, pretrained, HUB[size])
        if network.config.num_channels != sample_shape[0]:
            raise UserError(
                f"mobilevit: the pretrained model reads {network.config.num_channels} channels, "
                f"the images have {sample_shape[0]}"
            )
        if sample_shape[0] == 3:
            # The published weights saw 0..1 in the order blue, green, red.
            as_trained = AsTrained(IMAGENET_STD, IMAGENET_MEAN, flip=True)
    channels = int(network.config.neck_hidden_sizes[-1])
    return ImageClassifier(network.train(), channels, 1, dropout, task.outputs, as_trained)
