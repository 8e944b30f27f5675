"""A batch of one sample, where a model normalises over its batch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from aaggff.federation.client import train_client
from aaggff.federation.data import Task
from aaggff.federation.local import LocalTraining

TASK = Task("binary", 1, "auroc")


def trained(model: nn.Module, samples: int) -> Tensor:
    """The model's first weights after an epoch on so many samples, in batches of four."""
    part = torch.randn(samples, 3), torch.ones(samples, dtype=torch.long)
    local = LocalTraining(lr=0.1, batch_size=4)
    train_client(model, part, TASK, local, prepare=lambda x: x, seed=0, round=1, client=0)
    return model[0].weight.detach()


def normalised() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Linear(2, 1))


def test_batch_normalisation_lets_a_single_sample_pass() -> None:
    before = normalised()[0].weight.detach()
    assert torch.equal(trained(normalised(), 1), before)
    five = trained(normalised(), 5)
    assert five.isfinite().all()
    assert not torch.equal(five, before)


def test_other_models_learn_from_a_single_sample() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 1))
    before = model[0].weight.detach().clone()
    assert not torch.equal(trained(model, 1), before)


def test_other_mistakes_of_a_model_are_not_hidden() -> None:
    class Broken(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            raise ValueError("my own mistake")

    with pytest.raises(ValueError, match="my own mistake"):
        trained(Broken(nn.Linear(3, 1)), 1)
