"""A Flower grid in one process: real messages, real ClientApps, replies in any order."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.supercore.task_identity import TaskIdentity

TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1

Answer = Callable[[Message, Context], Message | None]


class FakeGrid:
    """Nodes and what they do with a message; None is a node that never answers."""

    def __init__(self, answers: dict[int, Answer], *, seed: int = 0) -> None:
        self.answers, self.random = answers, random.Random(seed)
        self.sent: list[Message] = []
        self.contexts = {
            node: Context(1, node, {"partition-id": place}, RecordDict(), {})
            for place, node in enumerate(answers)
        }

    def join(self, node: int, answer: Answer) -> None:
        """One more node; its partition is the next one."""
        self.answers[node] = answer
        place = len(self.contexts)
        self.contexts[node] = Context(1, node, {"partition-id": place}, RecordDict(), {})

    def get_node_ids(self) -> Iterable[int]:
        return list(self.answers)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        replies = []
        for number, message in enumerate(messages):
            message.metadata.__dict__["_message_id"] = f"m{number}"
            self.sent.append(message)
            node = message.metadata.dst_node_id
            try:
                reply = self.answers[node](message, self.contexts[node])
            except RuntimeError as error:
                reply = Message(Error(code=2, reason=str(error)), reply_to=message)
            if reply is not None:
                replies.append(reply)
        self.random.shuffle(replies)
        return replies


def record(**arrays: Any) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(values)) for name, values in arrays.items()})


def reply(message: Message, arrays: ArrayRecord | None, **metrics: Any) -> Message:
    """A reply as ClientApps make them; `_` in a metric's name is written as `-`."""
    named = {name.replace("_", "-"): value for name, value in metrics.items()}
    content = RecordDict({"metrics": MetricRecord(named)})
    if arrays is not None:
        content["arrays"] = arrays
    return Message(content, reply_to=message)


def quadratic_client(target: float, size: int, *, loss: float | None = None) -> ClientApp:
    """A client whose loss is half the squared distance to its target; one step half-way there."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        from aaggff.deploy.flower import report_loss

        (theta,) = message.content["arrays"].to_numpy_ndarrays()
        received = float(np.mean((theta - target) ** 2) / 2) if loss is None else loss
        metrics = report_loss({"num-examples": size}, received, context)
        moved = (theta + 0.5 * (target - theta)).astype(theta.dtype)
        return Message(
            RecordDict({"arrays": record(w=moved), "metrics": metrics}), reply_to=message
        )

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        (theta,) = message.content["arrays"].to_numpy_ndarrays()
        error = float(np.mean((theta - target) ** 2) / 2)
        place = context.node_config["partition-id"]
        figures = {"num-examples": size, "eval_loss": error, "accuracy": 1 / (1 + error)}
        return Message(
            RecordDict({"metrics": MetricRecord(figures | {"client-id": place})}), reply_to=message
        )

    return app
