"""One site of a deployed federation: its own data, and what it does with a model it receives.

The same code as the clients of `aaggff run`, so that a deployed federation computes what the one on
a laptop did: equal seeds give equal batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from aaggff.errors import UserError
from aaggff.federation.client import mean_loss, train_client
from aaggff.federation.data import Part, Task
from aaggff.federation.evaluate import evaluate
from aaggff.federation.local import LocalTraining

Tensors = Mapping[str, NDArray[Any]]


def _as_it_is(inputs: Tensor) -> Tensor:
    return inputs


@dataclass
class Site:
    """A client with data: a loss, a local training, an evaluation.

    client: which one it is; with the seed it fixes the order of its batches.

    >>> from aaggff.data.heart import load
    >>> hospitals = load()
    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(15, 1))
    >>> site = Site(hospitals.train(0), hospitals.test(0), hospitals.task, model, LocalTraining())
    >>> site.receive({name: 0 * values for name, values in site.tensors().items()})
    >>> round(site.mean_loss(), 4)  # log 2: a model of zeros knows nothing
    0.6931
    >>> site.train(round=1)
    >>> site.mean_loss() < 0.6931
    True
    """

    training: Part
    testing: Part
    task: Task
    model: nn.Module
    local: LocalTraining
    client: int = 0
    seed: int = 0
    prepare: Any = _as_it_is

    @property
    def samples(self) -> int:
        """Training samples: what the server calls its size."""
        return len(self.training[1])

    def receive(self, tensors: Tensors) -> None:
        """Take the global model."""
        state = {name: torch.from_numpy(np.array(values)) for name, values in tensors.items()}
        try:
            self.model.load_state_dict(state)
        except RuntimeError as error:
            raise UserError(f"the model received is not this site's: {error}") from error

    def tensors(self) -> dict[str, NDArray[Any]]:
        """The model as it is now."""
        return {
            name: value.detach().cpu().numpy() for name, value in self.model.state_dict().items()
        }

    def mean_loss(self) -> float:
        """Mean loss of the model on the training data: what a fair server decides from."""
        return mean_loss(self.model, self.training, self.task, prepare=self.prepare)

    def train(self, round: int) -> None:
        """The round's local training; rounds are counted from 1."""
        train_client(
            self.model,
            self.training,
            self.task,
            self.local,
            prepare=self.prepare,
            seed=self.seed,
            round=round,
            client=self.client,
        )

    def evaluate(self) -> tuple[float, float, int]:
        """The task's metric (0..1), the mean loss and the number of samples of the test part."""
        found = evaluate(self.model, _TestPart(self), clients=np.zeros(1, np.int64))
        return float(found.values[0]), float(found.loss[0]), int(found.sizes[0])


class _TestPart:
    """A site's test part as a federation of one."""

    name = "site"
    stand_in = False

    def __init__(self, site: Site) -> None:
        self.task, self.prepare = site.task, site.prepare
        self._train, self._test = site.training, site.testing
        self.train_sizes = np.array([len(site.training[1])])
        self.test_sizes = np.array([len(site.testing[1])])

    def __len__(self) -> int:
        return 1

    def train(self, client: int) -> Part:
        return self._train

    def test(self, client: int) -> Part:
        return self._test

    def client_name(self, client: int) -> str:
        return self.name
