"""Which nodes are there, which of them are asked, and the messages they get."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

log = logging.getLogger("flwr")

PAUSE = 1.0
"""Seconds between two looks at who has connected."""

SETTLED = 3
"""Where nobody said how many there are: after so many looks at which nobody new had come."""


def wait_for(grid: Grid, wanted: int, least: int, patience: float | None) -> list[int]:
    """The nodes that are there, once `wanted` are, or `least` after `patience` seconds.

    A first round that starts before every node has registered would decide for a part of the
    federation only, so that race is waited out. patience None waits for as long as it takes.
    """
    began, told = time.monotonic(), -math.inf
    while True:
        nodes = sorted(grid.get_node_ids())
        waited = time.monotonic() - began
        if len(nodes) >= wanted:
            return nodes
        if len(nodes) >= least and patience is not None and waited >= patience:
            log.warning("starting with %d of %d nodes after %.0f s", len(nodes), wanted, waited)
            return nodes
        if waited - told >= 10:
            log.info("waiting for nodes: %d of %d are there", len(nodes), wanted)
            told = waited
        time.sleep(PAUSE)


def wait_until_settled(grid: Grid, least: int) -> list[int]:
    """The nodes that are there, once they are enough and for a while nobody new has come."""
    nodes, same = wait_for(grid, least, least, None), 0
    while same < SETTLED:
        time.sleep(PAUSE)
        now = sorted(grid.get_node_ids())
        same = same + 1 if len(now) == len(nodes) else 0
        nodes = now
    return nodes


def choose(
    nodes: Sequence[int], number: int, *, seed: int, round: int, known: dict[int, int]
) -> list[int]:
    """A uniform sample of the nodes that follows from seed and round, not from global state."""
    ordered = sorted(nodes, key=lambda node: (known.get(node, node), node))
    if number >= len(ordered):
        return ordered
    places = np.random.default_rng([seed, round]).choice(len(ordered), number, replace=False)
    return [ordered[place] for place in sorted(places.tolist())]


def messages(
    arrays: ArrayRecord | None,
    config: ConfigRecord,
    nodes: Iterable[int],
    kind: str,
    *,
    keys: tuple[str, str],
    ttl: float | None,
    extra: Callable[[int], dict[str, Any]] | None = None,
) -> list[Message]:
    """One message a node, all sharing the arrays; `extra` adds to one node's configuration.

    A message lives no longer than its round is waited for: a node that was cut off does not come
    back to a queue of old rounds.
    """
    made = []
    arrays_key, config_key = keys
    for node in nodes:
        own = config
        if extra is not None:
            own = ConfigRecord({**dict(config), **extra(node)})
        content = RecordDict({config_key: own})
        if arrays is not None:
            content[arrays_key] = arrays
        made.append(Message(content, node, kind, ttl=ttl))
    return made
