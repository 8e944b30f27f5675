"""What a site does: say how good the received model is for it, train, evaluate."""

from __future__ import annotations

from functools import cache

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from aaggff.deploy.flower import fair_mod
from aaggff.deploy.template_site import Site

from . import task

data = cache(task.data)  # read once, also where a process serves many messages


def site(message: Message, context: Context) -> Site:
    """This site, holding the model it received."""
    number = int(context.node_config["partition-id"])
    seed = int(context.run_config["seed"])
    training, testing = data(number, seed, str(context.node_config.get("data", "")))
    here = Site(training, testing, task.TASK, task.model(seed), task.LOCAL, number, seed)
    received = message.content.array_records["arrays"]
    here.receive({name: array.numpy() for name, array in received.items()})
    return here


def loss_of(message: Message, context: Context) -> tuple[float, int]:
    """The training loss of the model as it was received: what the server decides from."""
    here = site(message, context)
    return here.mean_loss(), here.samples


app = ClientApp()


@app.train(mods=[fair_mod(loss_of)])
def train(message: Message, context: Context) -> Message:
    here = site(message, context)
    here.train(int(message.content.config_records["config"]["server-round"]))  # type: ignore[arg-type]
    arrays = {name: Array(np.asarray(values)) for name, values in here.tensors().items()}
    metrics = MetricRecord({"num-examples": here.samples})
    return Message(
        RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics}), reply_to=message
    )


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    here = site(message, context)
    value, loss, samples = here.evaluate()
    figures = {task.TASK.metric: value, "loss": loss, "num-examples": samples}
    metrics = MetricRecord(figures | {"client-id": here.client})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
