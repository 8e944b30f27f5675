"""One client after the other, on one thread: the executor to read and to debug."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor

from aaggff.federation.client import mean_loss, train_client
from aaggff.federation.executors.base import Array, Index, Sink, Work
from aaggff.federation.executors.threads import one_thread
from aaggff.federation.seeds import derive


class Sequential:
    """Every client's work in turn, on one working copy of the model.

    It uses one thread even where there are more, so that a result does not depend on how many
    there are. `processes` has all cores.
    """

    name = "sequential"

    def __init__(self, work: Work, why: str = "asked for") -> None:
        self.work, self.why = work, why
        self._client = OneClient(work)

    def losses(self, round: int, clients: Index) -> Array:
        theta, integers = self.work.received()
        with one_thread():
            self._client.receive(theta, integers)
            return np.array([self._client.loss(client) for client in clients.tolist()])

    def train(self, round: int, clients: Index, sink: Sink) -> None:
        theta, integers = self.work.received()
        with one_thread(), torch.random.fork_rng(devices=_devices(theta)):
            for place, client in enumerate(clients.tolist()):
                update = self._client.update(round, client, theta, integers)
                sink.add(place, update.unsqueeze(0))

    def close(self) -> None:
        pass


class OneClient:
    """A working copy of the model, and what one client does with it."""

    def __init__(self, work: Work) -> None:
        self.data, self.flat, self.local, self.seed = work.data, work.flat, work.local, work.seed
        self.model = copy.deepcopy(work.model)
        self.vector = work.flat.bind(self.model)

    def receive(self, theta: Tensor, integers: Tensor | None) -> None:
        """Take over the global model."""
        self.vector.copy_(theta)
        self.flat.set_integers(self.model, integers)

    def loss(self, client: int) -> float:
        """F_i of the model received."""
        part = self.data.train(client)
        return mean_loss(self.model, part, self.data.task, prepare=self.data.prepare)

    def train(self, round: int, client: int) -> None:
        """Local training from what the working copy holds."""
        # What the model itself draws (dropout) follows from the client and the round too.
        torch.manual_seed(derive(self.seed, round, client, "model") >> 1)
        train_client(
            self.model,
            self.data.train(client),
            self.data.task,
            self.local,
            prepare=self.data.prepare,
            seed=self.seed,
            round=round,
            client=client,
        )

    def update(self, round: int, client: int, theta: Tensor, integers: Tensor | None) -> Tensor:
        """Delta_i = theta - theta_i, written over the working copy."""
        self.receive(theta, integers)
        self.train(round, client)
        update = torch.sub(theta, self.vector, out=self.vector)
        after = self.flat.integers(self.model)
        if integers is None or after is None:
            return update
        return torch.cat([update, (integers - after).to(update.dtype)])


def _devices(theta: Tensor) -> list[torch.device]:
    return [theta.device] if theta.device.type == "cuda" else []
