"""What came back from the clients of a round, sorted by client and checked one by one.

Nothing a single client sends may end the run: a reply that cannot be used is set aside with a
reason, and the others are aggregated.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from dataclasses import dataclass

from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

from aaggff.deploy.flower.arrays import Tensors, difference, views
from aaggff.deploy.flower.identities import Identities
from aaggff.deploy.flower.protocol import LOSS_KEYS
from aaggff.deploy.state import MOST_SAMPLES
from aaggff.errors import UserError

log = logging.getLogger("flwr")

Weighed = list[tuple["Reply", float]]


@dataclass
class Reply:
    """One client's answer. `reason` says why its update cannot be used, if it cannot."""

    client: int
    node: int
    content: RecordDict
    loss: float = math.nan
    size: float = 0.0
    metrics: MetricRecord | None = None
    arrays: Tensors | None = None
    reason: str | None = None
    counts: bool = True
    """Whether it can be put before a decision maker at all: one id, one size."""

    def refuse(self, reason: str) -> None:
        """It is not even heard. The first reason is the one that is told."""
        self.reason, self.counts = self.reason or reason, False


def read(
    messages: Iterable[Message],
    identities: Identities,
    *,
    loss_key: str | None,
    size_key: str,
) -> list[Reply]:
    """Every reply with content, in the order of the clients: arrival order is forgotten here."""
    replies = []
    for message in messages:
        node = message.metadata.src_node_id
        if message.has_error():
            client = identities.known.get(node, node)
            log.info("\t> client %d: %s", client, message.error.reason)
            continue
        records = list(message.content.metric_records.values())
        metrics = records[0] if len(records) == 1 else None
        reply = Reply(node, node, message.content, metrics=metrics)
        if metrics is None:
            reply.refuse(f"{len(records)} MetricRecords in the reply, expected one")
        else:
            reply.loss, reply.size = _loss(metrics, loss_key), _number(metrics, size_key)
            if size_key not in metrics:
                reply.refuse(f"reports no {size_key!r}")
            elif not 0 < reply.size <= MOST_SAMPLES:
                reply.refuse(f"{size_key} is {reply.size:g}, expected a positive number")
        replies.append(reply)
    identities.recognise(replies)
    replies.sort(key=lambda reply: (reply.client, reply.node))
    return replies


def read_arrays(replies: Iterable[Reply], model: Tensors) -> None:
    """Put each usable reply's arrays beside it, or the reason why they are not usable."""
    for reply in replies:
        if reply.reason is not None:
            continue
        records: list[ArrayRecord] = list(reply.content.array_records.values())
        if len(records) != 1:
            reply.reason = f"{len(records)} ArrayRecords in the reply, expected one"
            continue
        try:
            arrays = views(records[0])
        except ValueError as error:
            reply.reason = str(error)
            continue
        reply.reason = difference(model, arrays)
        reply.arrays = arrays if reply.reason is None else None


def without_unusable(weighed: Weighed) -> Weighed:
    """The weights with those of unusable updates at 0; the others then sum to 1 again."""
    lost = any(weight > 0 and reply.reason is not None for reply, weight in weighed)
    if not lost:
        return weighed
    kept = [(reply, weight if reply.reason is None else 0.0) for reply, weight in weighed]
    total = math.fsum(weight for _, weight in kept)
    return [(reply, weight / total if total else 0.0) for reply, weight in kept]


def refuse_without_losses(replies: Iterable[Reply], loss_key: str | None) -> None:
    """Set aside who reports no loss; if nobody does, that is the app's mistake, not a client's."""
    wanted = (loss_key,) if loss_key else LOSS_KEYS
    names = ", ".join(map(repr, wanted))
    heard = [reply for reply in replies if reply.metrics is not None]
    silent = [r for r in heard if r.metrics is not None and not any(k in r.metrics for k in wanted)]
    if heard and len(silent) == len(heard):
        raise UserError(
            f"no client reports a training loss of the model it received: none of {names} is in"
            f" their metrics ({', '.join(heard[0].metrics or ())}); add"
            f" `report_loss(metrics, loss, context)` to the ClientApp, or say loss_key="
        )
    for reply in silent:
        reply.reason = reply.reason or f"reports no loss: none of {names} is in its metrics"


def _loss(metrics: MetricRecord, loss_key: str | None) -> float:
    keys = (loss_key,) if loss_key else LOSS_KEYS
    for key in keys:
        if key in metrics:
            return _number(metrics, key)
    return math.nan


def _number(metrics: MetricRecord, key: str) -> float:
    value = metrics.get(key)
    try:
        return float(value) if isinstance(value, (int, float)) else math.nan
    except OverflowError:  # an integer too long for a float
        return math.inf
