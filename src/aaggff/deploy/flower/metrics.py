"""Numbers clients report beside their arrays, of each client and on average."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from flwr.app import MetricRecord

from aaggff.deploy.flower.protocol import CLIENT_ID, PARTITION_ID, WEIGHT
from aaggff.deploy.flower.replies import Reply

_NOT_A_MEASURE = (CLIENT_ID, PARTITION_ID, WEIGHT)


@dataclass(frozen=True)
class Figures:
    """What an evaluation says of each client."""

    values: dict[int, float]
    losses: dict[int, float]
    sizes: dict[int, float]


def of_clients(replies: Sequence[Reply], metric: str) -> Figures | None:
    """The metric and the loss of every client that answered; None if nobody was asked.

    Both are looked for under their own name and under `eval_` and `eval-` before it.
    """
    if not replies:
        return None
    values, losses = {}, {}
    for reply in replies:
        value, loss = _find(reply, metric), _find(reply, "loss")
        if value is not None:
            values[reply.client] = value
        if loss is not None:
            losses[reply.client] = loss
    return Figures(values, losses, {reply.client: reply.size for reply in replies})


def mean_metrics(replies: Sequence[Reply], size_key: str) -> MetricRecord:
    """Mean of what all report, weighted by sample counts, as Flower's FedAvg gives it."""
    reported = [reply.metrics for reply in replies if reply.metrics is not None]
    mean = MetricRecord()
    if not reported:
        return mean
    total = math.fsum(reply.size for reply in replies)
    for key in reported[0]:
        column = [metrics.get(key) for metrics in reported]
        numbers = [float(value) for value in column if isinstance(value, (int, float))]
        if key in (size_key, *_NOT_A_MEASURE) or len(numbers) != len(replies):
            continue
        mean[key] = math.fsum(reply.size * x for reply, x in zip(replies, numbers)) / total
    return mean


def _find(reply: Reply, name: str) -> float | None:
    for key in (name, f"eval_{name}", f"eval-{name}"):
        value = None if reply.metrics is None else reply.metrics.get(key)
        if isinstance(value, (int, float)):
            return float(value)
    return None
