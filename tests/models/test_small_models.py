"""The models without pretrained weights: their published sizes, shapes and complaints."""

from __future__ import annotations

import pytest
import torch

from aaggff.errors import UserError
from aaggff.federation.data import Task
from aaggff.models import build_model, model_factory, model_options

BINARY = Task("binary", 1, "auroc")


def parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


# Counted by hand from the layers the papers list.
SIZES = [
    ("logistic", (15,), BINARY, {}, 15 + 1),
    ("logistic", (3, 4), Task("multiclass", 5, "top1"), {}, 12 * 5 + 5),
    ("mlp", (10,), BINARY, {"hidden": 4}, 10 * 4 + 4 + 4 + 1),
    (
        "convnet",
        (3, 84, 84),
        Task("binary", 1, "top1"),
        {},
        3 * 32 * 9 + 3 * 32 * 32 * 9 + 4 * 64 + 32 * 25 + 1,
    ),
    (
        "m5",
        (1, 16_000),
        Task("multiclass", 35, "top5"),
        {},
        (80 * 64 + 64)
        + (64 * 64 * 3 + 64)
        + (64 * 128 * 3 + 128)
        + (128 * 256 * 3 + 256)
        + 2 * (64 + 64 + 128 + 256)
        + 256 * 35
        + 35,
    ),
    (
        "stackedlstm",
        (10,),
        Task("tokens", 10_000, "top1"),
        {},
        10_000 * 200 + 4 * (256 * 200 + 256 * 256 + 512) + 4 * (2 * 256 * 256 + 512) + 257 * 10_000,
    ),
    (
        "stackedlstm",
        (10,),
        Task("tokens", 10_000, "top1"),
        {"embedding": 256},
        10_000 * 256 + 2 * 4 * (2 * 256 * 256 + 512) + 257 * 10_000,
    ),
]


@pytest.mark.parametrize(("name", "shape", "task", "options", "expected"), SIZES)
def test_published_parameter_counts(name, shape, task, options, expected) -> None:
    assert parameters(build_model(name, shape, task, **options)) == expected


@pytest.mark.parametrize(
    ("name", "shape", "task"),
    [(row[0], row[1], row[2]) for row in SIZES if row[0] != "stackedlstm"],
)
def test_a_batch_gives_one_row_of_logits_each(name, shape, task) -> None:
    model = build_model(name, shape, task)
    assert model(torch.randn(4, *shape)).shape == (4, task.outputs)


def test_m5_reads_sound_without_a_channel_axis_and_of_any_length() -> None:
    task = Task("multiclass", 35, "top5")
    for shape in ((16_000,), (1, 8_000), (2, 1_100)):
        assert build_model("m5", shape, task)(torch.randn(3, *shape)).shape == (3, 35)


def test_stackedlstm_sees_no_later_token() -> None:
    torch.manual_seed(0)
    model = build_model("stackedlstm", (10,), Task("tokens", 50, "top1"), hidden=8, embedding=8)
    tokens = torch.randint(0, 50, (2, 10))
    changed = tokens.clone()
    changed[:, 6:] = (changed[:, 6:] + 1) % 50
    before, after = model(tokens), model(changed)
    assert before.shape == (2, 10, 50)
    torch.testing.assert_close(before[:, :6], after[:, :6])
    assert not torch.allclose(before[:, 6:], after[:, 6:])


def test_the_same_seed_gives_the_same_first_model() -> None:
    def made() -> torch.Tensor:
        torch.manual_seed(7)
        return torch.nn.utils.parameters_to_vector(build_model("mlp", (5,), BINARY).parameters())

    assert torch.equal(made(), made())


@pytest.mark.parametrize(
    ("name", "shape", "task", "options", "says"),
    [
        ("convnet", (3, 8, 8), BINARY, {}, "16 x 16"),
        ("convnet", (20,), BINARY, {}, "channels, height, width"),
        ("m5", (1, 1_000), BINARY, {}, "at least 1100 samples"),
        ("m5", (1, 2, 16_000), BINARY, {}, "channels, length"),
        ("stackedlstm", (10,), BINARY, {}, "predicts tokens"),
        ("stackedlstm", (10,), Task("tokens", 9, "top1"), {"hidden": 0}, "hidden"),
        ("mlp", (5,), BINARY, {"hidden": [4, 0]}, "hidden"),
        ("mlp", (5,), BINARY, {"dropout": 1.0}, "dropout"),
        ("logistc", (5,), BINARY, {}, "did you mean 'logistic'"),
        ("mlp", (5,), BINARY, {"hiden": 3}, "did you mean 'hidden'"),
        ("nowhere.at_all:model", (5,), BINARY, {}, "cannot be imported"),
        ("json:nothing", (5,), BINARY, {}, "cannot be imported"),
        ("math:pi", (5,), BINARY, {}, "is no function"),
    ],
)
def test_a_mistake_is_one_clear_line(name, shape, task, options, says) -> None:
    with pytest.raises(UserError) as error:
        build_model(name, shape, task, **options)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_users_own_model_by_its_import_path() -> None:
    assert model_factory("aaggff.models.mlp:mlp")((3,), BINARY)(torch.zeros(1, 3)).shape == (1, 1)
    assert model_options("mlp") == {"hidden": 64, "dropout": 0.0}
