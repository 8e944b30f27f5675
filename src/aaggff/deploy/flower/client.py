"""What a ClientApp adds to be served fairly: one line, or one mod."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict

from aaggff.deploy.flower.arrays import views
from aaggff.deploy.flower.protocol import CLIENT_ID, PARTITION_ID, PHASE, RECEIVED_LOSS, WEIGHT

Next = Callable[[Message, Context], Message]
LossOf = Callable[[Message, Context], tuple[float, int]]


def report_loss(
    metrics: MetricRecord | dict[str, Any], loss: float, context: Context | None = None
) -> MetricRecord:
    """The metrics of a reply, with the training loss of the model *as it was received*.

    metrics: what the app reports anyway. loss: mean loss on the client's training data, computed
    before the first local step. context: the ClientApp's; says which client this is
    (`partition-id` in its node config), unless the metrics hold an int `client-id` already.

    >>> report_loss({"num-examples": 303}, 0.61)["received-loss"]
    0.61
    """
    record = metrics if isinstance(metrics, MetricRecord) else MetricRecord(metrics)
    record[RECEIVED_LOSS] = float(loss)
    if context is not None:
        say_who(record, context)
    return record


def say_who(metrics: MetricRecord, context: Context) -> None:
    """Put the client's own id into its metrics, if its node config says which one it is."""
    own = context.node_config.get(CLIENT_ID, context.node_config.get(PARTITION_ID))
    if CLIENT_ID not in metrics and own is not None:
        metrics[CLIENT_ID] = int(own)


def fair_mod(loss_of: LossOf, *, size_key: str = "num-examples") -> Callable[..., Message]:
    """A mod for a ClientApp that does not report the loss itself; also speaks two-phase.

    loss_of: your function (message, context) -> (mean training loss of the model in the message,
    number of training samples). List it before mods that clip or add noise, which then work on
    the client's whole update, and (two-phase) after those that mask or encrypt what is sent:

        app = ClientApp(mods=[fair_mod(my_loss), fixedclipping_mod])

    or, where the app has other functions too, `@app.train(mods=[fair_mod(my_loss)])`.
    """

    def mod(message: Message, context: Context, call_next: Next) -> Message:
        if message.metadata.message_type.split(".")[0] != "train":
            return call_next(message, context)
        config = _config(message)
        phase = config.get(PHASE)
        if phase == "who":
            known = MetricRecord({size_key: 1})
            say_who(known, context)
            return Message(RecordDict({"metrics": known}), reply_to=message)
        if phase == "update":
            return _scaled(message, context, call_next, _number(config, WEIGHT))
        loss, size = loss_of(message, context)
        if phase == "loss":
            answer = report_loss({size_key: int(size)}, loss, context)
            return Message(RecordDict({"metrics": answer}), reply_to=message)
        reply = call_next(message, context)
        if not reply.has_error():
            _with_loss(reply, loss, size, size_key, context)
        return reply

    return mod


def _scaled(message: Message, context: Context, call_next: Next, weight: float) -> Message:
    """Let the app train, then send only this client's share of its update, and say so."""
    received = views(next(iter(message.content.array_records.values())))
    reply = call_next(message, context)
    if reply.has_error():
        return reply
    key, record = next(iter(reply.content.array_records.items()))
    reply.content[key] = scaled_towards(received, record, weight)
    for metrics in reply.content.metric_records.values():
        metrics[WEIGHT] = weight
        say_who(metrics, context)
    return reply


def scaled_towards(received: Any, trained: ArrayRecord, weight: float) -> ArrayRecord:
    """theta + weight (theta_i - theta) for the floating-point arrays; counters as they are."""
    moved = ArrayRecord()
    for name, values in views(trained).items():
        start = received[name]
        if start.dtype.kind == "f":
            values = np.asarray(start + weight * (values - start), dtype=start.dtype)
        moved[name] = Array(np.asarray(values))
    return moved


def _with_loss(reply: Message, loss: float, size: int, size_key: str, context: Context) -> None:
    if not reply.content.metric_records:
        reply.content["metrics"] = MetricRecord()
    metrics = next(iter(reply.content.metric_records.values()))
    if size_key not in metrics:
        metrics[size_key] = int(size)
    report_loss(metrics, loss, context)


def _config(message: Message) -> ConfigRecord:
    return next(iter(message.content.config_records.values()), ConfigRecord())


def _number(config: ConfigRecord, key: str) -> float:
    value = config[key]
    if not isinstance(value, (int, float)):
        raise TypeError(f"config {key!r} is {value!r}, expected a number")
    return float(value)
