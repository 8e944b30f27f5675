"""What came back from the clients of a round, sorted by client and checked one by one.

Nothing a single client sends may end the run: a reply that cannot be used is set aside with a
reason, and the others are aggregated.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

from aaggff.deploy.flower.arrays import Tensors, difference, views
from aaggff.deploy.flower.protocol import CLIENT_ID, LOSS_KEYS, PARTITION_ID
from aaggff.errors import UserError

log = logging.getLogger("flwr")


@dataclass
class Reply:
    """One client's answer. `reason` says why its update cannot be used, if it cannot."""

    client: int
    node: int
    content: RecordDict
    loss: float = float("nan")
    size: float = 0.0
    metrics: MetricRecord | None = None
    arrays: Tensors | None = None
    reason: str | None = None
    counts: bool = True
    """Whether it can be put before a decision maker at all: one id, one size."""


class Identities:
    """Which client a node is. Node ids change from run to run, so the app's own id is asked for.

    An int `client-id` in the reply's metrics, else `partition-id`, else the node id, with a
    warning: then a client that comes back under another node id is a stranger.
    """

    def __init__(self, known: Mapping[int, int] | None = None) -> None:
        self.known = dict(known or {})
        self._warned = False

    def of(self, node: int, metrics: MetricRecord | None) -> int:
        """The client behind a node, learned from the metrics of its reply."""
        for key in (CLIENT_ID, PARTITION_ID):
            value = None if metrics is None else metrics.get(key)
            if isinstance(value, (int, float)) and value == int(value):
                self.known[node] = int(value)
                return int(value)
        if metrics is not None and node not in self.known and not self._warned:
            self._warned = True
            log.warning(
                "node %d reports neither an int %r nor %r: its node id stands for the client,"
                " and its history is lost if it registers again; add"
                " `report_loss(metrics, loss, context)` or %r to the reply's metrics",
                node, CLIENT_ID, PARTITION_ID, CLIENT_ID,
            )  # fmt: skip
        return self.known.get(node, node)


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
            log.info("\t> client %d: %s", identities.of(node, None), message.error.reason)
            continue
        records = list(message.content.metric_records.values())
        metrics = records[0] if len(records) == 1 else None
        reply = Reply(identities.of(node, metrics), node, message.content, metrics=metrics)
        if metrics is None:
            _refuse(reply, f"{len(records)} MetricRecords in the reply, expected one")
        else:
            reply.loss, reply.size = _loss(metrics, loss_key), _number(metrics, size_key)
            if not 0 < reply.size < 1e100:
                _refuse(reply, f"{size_key} is {reply.size:g}, expected a positive number")
        replies.append(reply)
    replies.sort(key=lambda reply: (reply.client, reply.node))
    for earlier, reply in pairwise(replies):
        if reply.client == earlier.client:
            _refuse(reply, f"nodes {earlier.node} and {reply.node} both say they are this client")
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


def without_unusable(weighed: list[tuple[Reply, float]]) -> list[tuple[Reply, float]]:
    """The weights with those of unusable updates at 0; the others then sum to 1 again."""
    lost = any(weight > 0 and reply.reason is not None for reply, weight in weighed)
    if not lost:
        return weighed
    kept = [(reply, weight if reply.reason is None else 0.0) for reply, weight in weighed]
    total = math.fsum(weight for _, weight in kept)
    return [(reply, weight / total if total else 0.0) for reply, weight in kept]


def refuse_without_losses(replies: Iterable[Reply], loss_key: str | None) -> None:
    """Not one client reports a loss: that is the app's mistake, not a client's."""
    metrics = [reply.metrics for reply in replies if reply.metrics is not None]
    wanted = (loss_key,) if loss_key else LOSS_KEYS
    if metrics and not any(key in record for record in metrics for key in wanted):
        raise UserError(
            f"no client reports a training loss of the model it received: none of"
            f" {', '.join(map(repr, wanted))} is in their metrics ({', '.join(metrics[0])}); add"
            f" `report_loss(metrics, loss, context)` to the ClientApp, or say loss_key="
        )


def _refuse(reply: Reply, reason: str) -> None:
    reply.reason, reply.counts = reason, False


def _loss(metrics: MetricRecord, loss_key: str | None) -> float:
    keys = (loss_key,) if loss_key else LOSS_KEYS
    for key in keys:
        if key in metrics:
            return _number(metrics, key)
    return float("nan")


def _number(metrics: MetricRecord, key: str) -> float:
    value = metrics.get(key)
    return float(value) if isinstance(value, (int, float)) else float("nan")
