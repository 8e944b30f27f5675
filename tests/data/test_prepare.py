"""A batch's last step before the model."""

from __future__ import annotations

import json

import pytest
import torch

from aaggff.data.prepare import IMAGENET_MEAN, IMAGENET_STD, Prepare
from aaggff.errors import UserError


def test_bytes_become_what_imagenets_models_were_trained_on() -> None:
    prepare = Prepare("scale", divide=255.0, mean=IMAGENET_MEAN, std=IMAGENET_STD)
    images = torch.randint(0, 256, (2, 3, 5, 5), dtype=torch.uint8)
    seen = prepare(images)
    assert seen.dtype == torch.float32
    for channel, (mean, std) in enumerate(zip((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))):
        expected = (images[:, channel].double() / 255 - mean) / std
        torch.testing.assert_close(seen[:, channel].double(), expected, atol=1e-6, rtol=0)


def test_sound_of_16_bits_lies_between_minus_1_and_1() -> None:
    sound = torch.tensor([[[-32_768, 0, 32_767]]], dtype=torch.int16)
    seen = Prepare("scale", divide=32_768.0)(sound)
    assert seen.tolist() == [[[-1.0, 0.0, 32_767 / 32_768]]]


def test_text_is_as_long_as_the_batchs_longest_row() -> None:
    prepare = Prepare("text")
    tokens = torch.tensor([[4, 0, 5, 0, 0], [6, 7, 0, 0, 0]], dtype=torch.int32)
    assert prepare(tokens).tolist() == [[4, 0, 5], [6, 7, 0]]
    assert prepare(tokens[1:]).tolist() == [[6, 7]]
    assert prepare(torch.zeros(2, 5, dtype=torch.int32)).tolist() == [[0], [0]]
    # Of several clients at once: [clients, rows, length].
    assert prepare(tokens[None]).shape == (1, 2, 3)
    assert prepare(tokens).dtype == torch.int64


def test_integers_keep_their_shape() -> None:
    tokens = torch.tensor([[1, 0, 0]], dtype=torch.int16)
    assert Prepare("integers")(tokens).tolist() == [[1, 0, 0]]
    assert Prepare("integers")(tokens).dtype == torch.int64


@pytest.mark.parametrize(
    "prepare",
    [Prepare(), Prepare("text"), Prepare("scale", 255.0, IMAGENET_MEAN, IMAGENET_STD)],
)
def test_a_manifest_keeps_it(prepare: Prepare) -> None:
    assert Prepare.from_json(json.loads(json.dumps(prepare.to_json()))) == prepare


def test_mistakes_are_named() -> None:
    with pytest.raises(UserError, match="did you mean 'scale'"):
        Prepare("scal")
    with pytest.raises(UserError, match="as many means as standard deviations"):
        Prepare("scale", mean=(0.5,))
