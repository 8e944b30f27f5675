"""Server optimisers against their papers' formulas, and what they keep."""

import numpy as np
import pytest
import torch

from aaggff.errors import UserError
from aaggff.federation.server_optimizers import (
    ALIASES,
    SERVER_OPTIMIZERS,
    server_optimizer,
    server_optimizer_options,
)
from tests.federation.servers import SERVERS

OPTIONS = {
    "sgd": {"lr": 0.3},
    "momentum": {"lr": 0.3, "beta": 0.6},
    "adam": {"lr": 0.03, "beta1": 0.7, "beta2": 0.95, "tau": 1e-2},
    "yogi": {"lr": 0.03, "beta1": 0.7, "beta2": 0.95, "tau": 1e-2},
    "adagrad": {"lr": 0.03, "beta1": 0.7, "tau": 1e-2},
}


def gradients(rounds=30):
    generator = torch.Generator().manual_seed(0)
    scales = 10.0 ** torch.arange(-3, 3)
    return [
        torch.randn(6, generator=generator, dtype=torch.float64) * scales for _ in range(rounds)
    ]


@pytest.mark.parametrize("name", SERVER_OPTIMIZERS)
@pytest.mark.parametrize("given", [True, False], ids=["options", "defaults"])
def test_it_follows_its_formula(name, given):
    options = OPTIONS[name] if given else {}
    ours = server_optimizer(name, **options)
    theirs = SERVERS[name](**({"lr": ours.lr} | options))
    theta = torch.linspace(-1, 1, 6, dtype=torch.float64)
    expected = theta.numpy().copy()
    for g in gradients():
        same = ours.step(theta, g)
        assert same is theta
        expected = theirs(expected, g.numpy())
    np.testing.assert_allclose(theta, expected, rtol=1e-10)


def test_the_defaults_are_the_papers():
    """SPEC: betas 0.9 and 0.999, tau 1e-4, lr 1e-2; and the plain mix is applied as it is."""
    for name in ("adam", "yogi"):
        assert server_optimizer_options(name) == {
            "lr": 1e-2, "beta1": 0.9, "beta2": 0.999, "tau": 1e-4,
        }  # fmt: skip
    assert server_optimizer_options("adagrad") == {"lr": 1e-2, "beta1": 0.9, "tau": 1e-4}
    assert server_optimizer_options("momentum") == {"lr": 1.0, "beta": 0.9}
    assert server_optimizer_options("sgd") == {"lr": 1.0}


@pytest.mark.parametrize("name", SERVER_OPTIMIZERS)
def test_saved_and_loaded_it_continues_exactly(name):
    one, other = (server_optimizer(name, **OPTIONS[name]) for _ in range(2))
    theta, copy = torch.ones(6, dtype=torch.float64), torch.ones(6, dtype=torch.float64)
    for g in gradients(8):
        one.step(theta, g)
    for at, g in enumerate(gradients(8)):
        if at == 4:
            fresh = server_optimizer(name, **OPTIONS[name])
            fresh.load_state_dict(other.state_dict())
            other = fresh
        other.step(copy, g)
    assert torch.equal(theta, copy)
    saved = one.state_dict()
    for value in saved.values():
        value.zero_()
    for name, value in one.state_dict().items():  # what was saved is a copy
        assert value.abs().sum() > 0, name


def test_a_state_of_another_optimiser_is_refused():
    adam = server_optimizer("adam")
    adam.step(torch.zeros(3), torch.ones(3))
    with pytest.raises(UserError, match="expected velocity, got m, v"):
        server_optimizer("momentum").load_state_dict(adam.state_dict())
    with pytest.raises(UserError, match="expected nothing, got m, v"):
        server_optimizer("sgd").load_state_dict(adam.state_dict())


@pytest.mark.parametrize("alias", ALIASES)
def test_they_answer_to_their_papers_names(alias):
    assert type(server_optimizer(alias)) is SERVER_OPTIMIZERS[ALIASES[alias]]


MISTAKES = [
    ("adm", {}, "unknown server optimiser 'adm'; did you mean 'adam'"),
    ("adam", {"beta": 0.9}, "unknown option of server optimiser 'adam' 'beta'"),
    ("adagrad", {"beta2": 0.9}, "unknown option of server optimiser 'adagrad' 'beta2'"),
    ("sgd", {"lr": 0.0}, "server lr: expected a positive number, got 0.0"),
    ("sgd", {"lr": float("nan")}, "server lr: expected a positive number"),
    ("adam", {"tau": -1.0}, "server tau: expected a positive number"),
    ("momentum", {"beta": 1.0}, r"server beta: expected a number in \[0, 1\), got 1.0"),
]


@pytest.mark.parametrize(("name", "options", "said"), MISTAKES, ids=[m[-1] for m in MISTAKES])
def test_mistakes_are_named(name, options, said):
    with pytest.raises(UserError, match=said):
        server_optimizer(name, **options)
