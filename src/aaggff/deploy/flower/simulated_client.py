"""A client of `aaggff run --engine flower`: the local engine's own, behind Flower's messages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor, nn

from aaggff.deploy.flower.arrays import views
from aaggff.deploy.flower.client import fair_mod
from aaggff.deploy.flower.protocol import PARTITION_ID
from aaggff.federation.config import RunConfig
from aaggff.federation.executors.sequential import OneClient
from aaggff.federation.executors.threads import one_thread
from aaggff.federation.run import build


def client_app(config: RunConfig) -> ClientApp:
    """The ClientApp of a configuration; each process loads the data itself, once."""
    clients, app = SimulatedClients(config.but(executor="sequential")), ClientApp()
    app.train(mods=[fair_mod(clients.loss_of)])(clients.train)
    return app


@dataclass(frozen=True)
class SimulatedClients:
    """What a message's client does; travels to the processes, so it holds nothing but settings."""

    config: RunConfig

    def loss_of(self, message: Message, context: Context) -> tuple[float, int]:
        """F_i of the model received, and n_i."""
        with one_thread():
            client, here = self._receive(message, context)
            return here.loss(client), int(here.data.train_sizes[client])

    def train(self, message: Message, context: Context) -> Message:
        """Local training, by the same seeds as everywhere."""
        config = message.content.config_records["config"]
        with one_thread():
            client, here = self._receive(message, context)
            here.train(int(config["server-round"]), client)  # type: ignore[arg-type]
            content = RecordDict({"arrays": to_arrays(here.model), "metrics": MetricRecord()})
        return Message(content, reply_to=message)

    def _receive(self, message: Message, context: Context) -> tuple[int, OneClient]:
        here = _worker(self.config.toml())
        take(here.model, message.content.array_records["arrays"])
        return int(context.node_config[PARTITION_ID]), here


@lru_cache(maxsize=1)
def _worker(settings: str) -> OneClient:
    import tomllib

    federation = build(RunConfig(**tomllib.loads(settings)))
    return OneClient(federation.executor.work)


def tensors(model: nn.Module) -> dict[str, Tensor]:
    """What travels: trained parameters, in the order of the local engine, then buffers.

    >>> list(tensors(nn.BatchNorm1d(2)))
    ['weight', 'bias', 'running_mean', 'running_var', 'num_batches_tracked']
    """
    named = {name: each for name, each in model.named_parameters() if each.requires_grad}
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    buffers = {name: each for name, each in model.state_dict().items() if name not in parameters}
    return {name: each.detach() for name, each in (named | buffers).items()}


def to_arrays(model: nn.Module) -> ArrayRecord:
    """The model, ready to send."""
    return ArrayRecord({n: Array(np.asarray(each.numpy())) for n, each in tensors(model).items()})


def take(model: nn.Module, record: ArrayRecord) -> None:
    """Write what was received into the model, in place."""
    places = tensors(model)
    for name, values in views(record).items():
        places[name].copy_(torch.from_numpy(np.array(values)))
