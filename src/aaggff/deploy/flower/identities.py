"""Which client a node is. Node ids change from run to run, so the app's own id is asked for."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from flwr.app import MetricRecord

from aaggff.deploy.flower.protocol import CLIENT_ID, PARTITION_ID

if TYPE_CHECKING:
    from aaggff.deploy.flower.replies import Reply

log = logging.getLogger("flwr")

FURTHEST = 2**63
"""An id is an int that Flower can send."""


class Identities:
    """An int `client-id` in the reply's metrics, else `partition-id`, else the node id.

    The last with a warning: then a client that comes back under another node id is a stranger.

    What a node says is believed once: who says later that it is somebody else is set aside. Of two
    nodes that both say they are a client, the one that was it first is believed; so a client that
    restarts under a new node id is known again, and one that answers cannot be impersonated. Only
    SuperNode authentication keeps a stranger from being the first.
    """

    def __init__(self, known: Mapping[int, int] | None = None) -> None:
        self.known = dict(known or {})
        """Node -> client, in the order in which they were met."""
        self._warned = False

    def recognise(self, replies: Sequence[Reply]) -> None:
        """Give each reply its client, or the reason why that cannot be told."""
        groups: dict[int, list[Reply]] = {}
        for reply in replies:
            reply.client, reason = self._says(reply.node, reply.metrics)
            if reason is None:
                groups.setdefault(reply.client, []).append(reply)
            else:
                reply.refuse(reason)
        # By client, so that it does not matter who answered first.
        for client, together in sorted(groups.items()):
            true = self._true(client, together)
            for reply in together:
                if reply is true:
                    if self._claim(reply.metrics) is not None:
                        self.known[reply.node] = client
                    continue
                nodes = sorted({each.node for each in together})
                if len(nodes) == 1:
                    reply.refuse("answered more than once")
                elif true is None:
                    reply.refuse(f"nodes {_and(nodes)} all say they are client {client}")
                    reply.client = reply.node
                else:
                    reply.refuse(f"says it is client {client}, which is node {true.node}")
                    reply.client = reply.node

    def _says(self, node: int, metrics: MetricRecord | None) -> tuple[int, str | None]:
        """Who a node says it is, and what is wrong with that."""
        was = self.known.get(node)
        try:
            claim = self._claim(metrics)
        except ValueError as error:
            return node if was is None else was, str(error)
        if claim is None:
            if was is None and metrics is not None:
                self._warn(node)
            return node if was is None else was, None
        if was is not None and claim != was:
            return was, f"says it is client {claim}, and was client {was} before"
        return claim, None

    def _claim(self, metrics: MetricRecord | None) -> int | None:
        for key in (CLIENT_ID, PARTITION_ID):
            value = None if metrics is None else metrics.get(key)
            if value is None:
                continue
            if isinstance(value, list) or not -FURTHEST <= value < FURTHEST or value != int(value):
                raise ValueError(f"{key} is {value!r}, expected an int")  # nan is in no range
            return int(value)
        return None

    def _true(self, client: int, together: list[Reply]) -> Reply | None:
        """Which of the replies is the client's: the only one, or the one of the node met first."""
        if len(together) == 1:
            return together[0]
        met = {node: at for at, node in enumerate(self.known)}
        met[client] = met.get(client, -1)  # a node without an id of its own is its node id
        first = min(together, key=lambda reply: met.get(reply.node, len(met)))
        alone = sum(reply.node == first.node for reply in together) == 1
        return first if alone and first.node in met else None

    def _warn(self, node: int) -> None:
        if self._warned:
            return
        self._warned = True
        log.warning(
            "node %d reports neither an int %r nor %r: its node id stands for the client, and its"
            " history is lost if it registers again; add `report_loss(metrics, loss, context)` or"
            " %r to the reply's metrics",
            node, CLIENT_ID, PARTITION_ID, CLIENT_ID,
        )  # fmt: skip


def _and(nodes: list[int]) -> str:
    return " and ".join(str(node) for node in nodes)
