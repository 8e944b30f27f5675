"""Local training is torch's own SGD, and F_i the mean loss of the model received."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from aaggff.errors import UserError
from aaggff.federation.client import batches, input_format, mean_loss, train_client
from aaggff.federation.data import Task
from aaggff.federation.federation import Federation
from aaggff.federation.local import LocalTraining
from aaggff.models import build_model
from tests.federation.makers import binary_data, class_data, shaped_data, token_data

CASES = {
    "logistic": (binary_data, "logistic", {}),
    "mlp": (class_data, "mlp", {"hidden": 6}),
    "convnet": (lambda: shaped_data((3, 16, 16)), "convnet", {}),
    "m5": (lambda: shaped_data((1, 1100)), "m5", {}),
    "stackedlstm": (token_data, "stackedlstm", {"embedding": 4, "hidden": 5}),
}
SETTINGS = {
    "plain": {},
    "momentum": {"momentum": 0.9},
    "weight decay": {"weight_decay": 0.1},
    "clip": {"clip": 0.1},
    "prox": {"prox": 0.3, "epochs": 3},
    "all": {"momentum": 0.5, "weight_decay": 0.01, "clip": 0.2, "prox": 0.1, "steps": 5},
}


def bare_loss(task, outputs, y):
    if task.kind == "binary":
        return F.binary_cross_entropy_with_logits(outputs.squeeze(1), y.float())
    if task.kind == "tokens":
        return F.cross_entropy(outputs.flatten(0, 1), y.flatten(), ignore_index=-100)
    return F.cross_entropy(outputs, y)


def bare_loop(model, part, task, local, round, client):
    """The same as one writes it with torch.optim."""
    x, y = part
    model.train()
    received = [p.detach().clone() for p in model.parameters()]
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=local.lr * local.decay ** ((round - 1) // local.decay_every),
        momentum=local.momentum,
        weight_decay=local.weight_decay,
    )
    for rows in batches(len(y), local, seed=7, round=round, client=client):
        optimizer.zero_grad()
        loss = bare_loss(task, model(x[rows]), y[rows])
        if local.prox:
            away = sum((p - p0).square().sum() for p, p0 in zip(model.parameters(), received))
            loss = loss + local.prox / 2 * away
        loss.backward()
        if local.clip:
            nn.utils.clip_grad_norm_(model.parameters(), local.clip)
        optimizer.step()


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("case", CASES)
def test_it_is_torchs_sgd(case, settings):
    make, name, options = CASES[case]
    data = make()
    torch.manual_seed(0)
    shape = data.train(0)[0].shape[1:]
    ours, theirs = (build_model(name, shape, data.task, **options) for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    local = LocalTraining(
        **({"lr": 0.1, "batch_size": 4, "decay": 0.5, "decay_every": 2} | SETTINGS[settings])
    )
    train_client(
        ours, data.train(1), data.task, local,
        prepare=data.prepare, seed=7, round=3, client=1,
    )  # fmt: skip
    bare_loop(theirs, data.train(1), data.task, local, 3, 1)
    for (name, a), b in zip(ours.state_dict().items(), theirs.state_dict().values()):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.parametrize("rows", [None, 1, 3, 1000])
@pytest.mark.parametrize("case", CASES)
def test_the_clients_loss_is_the_mean_over_its_samples(case, rows):
    make, name, options = CASES[case]
    data = make()
    model = build_model(name, data.train(0)[0].shape[1:], data.task, **options)
    model.train()
    part = data.train(0)
    found = mean_loss(model, part, data.task, prepare=data.prepare, rows=rows)
    assert model.training  # as it was
    model.eval()
    with torch.no_grad():
        assert found == pytest.approx(
            float(bare_loss(data.task, model(part[0]), part[1])), rel=1e-5
        )


def test_no_samples_have_no_loss():
    part = torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)
    found = mean_loss(nn.Linear(3, 1), part, Task("binary", 1, "auroc"), prepare=lambda x: x)
    assert np.isnan(found)


def test_every_epoch_goes_through_all_samples_in_an_order_of_its_own():
    local = LocalTraining(batch_size=4, epochs=3)
    seen = torch.cat(list(batches(10, local, seed=0, round=1, client=5))).split(10)
    assert all(sorted(epoch.tolist()) == list(range(10)) for epoch in seen)
    assert len({tuple(epoch.tolist()) for epoch in seen}) == 3
    sizes = [len(b) for b in batches(10, local, seed=0, round=1, client=5)]
    assert sizes == [4, 4, 2] * 3
    steps = LocalTraining(batch_size=4, steps=5)
    first = torch.cat(list(batches(10, steps, seed=0, round=1, client=5)))
    assert torch.equal(first, torch.cat(seen)[:18])  # 10 samples, then two batches of four


def test_padding_alone_has_neither_loss_nor_gradient():
    from aaggff.federation.losses import batch_loss

    outputs = torch.randn(2, 3, 4, requires_grad=True)
    loss = batch_loss(Task("tokens", 4, "top1"))(outputs, torch.full((2, 3), -100))
    loss.backward()
    assert loss == 0
    assert (outputs.grad == 0).all()


def memory_formats(model, shape, where):
    """Whether each convolution saw its input with the channels of a pixel side by side."""
    seen = []
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_pre_hook(
                lambda _, given: seen.append(
                    given[0].is_contiguous(memory_format=torch.channels_last)
                )
            )
    data = shaped_data(shape)
    federation = Federation(data, model, executor="sequential")
    if where == "train":
        federation.executor.train(1, np.array([0]), type("S", (), {"add": lambda *_: None})())
    elif where == "losses":
        federation.executor.losses(1, np.array([0]))
    else:
        federation.evaluate()
    return seen


@pytest.mark.parametrize("where", ["train", "losses", "evaluate"])
def test_convolutions_on_the_cpu_get_channels_last(where):
    from aaggff.models.convnet import convnet

    model = convnet((3, 16, 16), Task("multiclass", 3, "top1"))
    seen = memory_formats(model, (3, 16, 16), where)
    assert len(seen) >= 4
    assert all(seen)


def test_other_models_get_their_samples_as_they_are():
    as_seen = input_format(nn.Linear(4, 1), lambda x: x)
    x = torch.randn(2, 3, 4, 4)
    assert as_seen(x).is_contiguous()


MISTAKES = [
    ({"lr": 0.0}, "lr: expected a positive number"),
    ({"lr": float("inf")}, "lr: expected a positive number"),
    ({"decay": 1.5}, r"decay: expected a number in \(0, 1\]"),
    ({"batch_size": 0}, "batch_size: expected a whole number of at least 1"),
    ({"epochs": 1.5}, "epochs: expected a whole number"),
    ({"steps": 0}, "steps: expected a whole number"),
    ({"momentum": 1.0}, r"momentum: expected a number in \[0, 1\)"),
    ({"weight_decay": -1.0}, "weight_decay: expected a number >= 0"),
    ({"clip": 0.0}, "clip: expected a positive number"),
    ({"prox": float("nan")}, "prox: expected a number >= 0"),
    ({"decay_every": True}, "decay_every: expected a whole number"),
]


@pytest.mark.parametrize(("settings", "said"), MISTAKES, ids=[m[-1] for m in MISTAKES])
def test_settings_that_cannot_be_are_refused(settings, said):
    with pytest.raises(UserError, match=said):
        LocalTraining(**settings)
