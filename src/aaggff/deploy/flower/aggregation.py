"""From replies to the next model: who weighs how much, the mix of their updates, the step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from aaggff.deploy.flower import two_phase
from aaggff.deploy.flower.arrays import (
    Tensors,
    all_finite,
    gram,
    mixed_counters,
    mixed_update,
    unmixable,
)
from aaggff.deploy.flower.replies import Reply, Weighed, without_unusable
from aaggff.deploy.state import FairServer
from aaggff.errors import UserError


def decide(
    server: FairServer,
    model: Tensors,
    answers: Iterable[Reply],
    *,
    met: Iterable[int],
    lr: float | None,
) -> Weighed:
    """Each countable reply and its weight, before its update is mixed.

    met: the clients in the order in which they were met.
    """
    heard = [reply for reply in answers if reply.counts]
    strangers = server.too_many([reply.client for reply in heard], met)
    for reply in heard:
        if reply.client in strangers:
            reply.refuse(f"is not one of the {server.room} clients met before it")
    heard = [reply for reply in heard if reply.counts]
    if not heard:
        return []
    signals: dict[str, Any] = {"lr": lr}
    if server.wants_updates:
        signals["gram"] = gram(model, [reply.arrays for reply in heard])
    losses, sizes = [reply.loss for reply in heard], [reply.size for reply in heard]
    weights = server.decide([reply.client for reply in heard], losses, sizes, **signals)
    return list(zip(heard, weights.tolist()))


def mixed(
    model: Tensors, weighed: Weighed, *, promised: Weighed | None = None, masked: bool = False
) -> tuple[dict[str, Any] | None, Weighed]:
    """The mixed update (None: there is none), and the weights without those who cannot be used.

    promised: in two phases, the weights that were given out. Each client has applied its own
    already: what is left is a sum, over what the clients that stayed were to contribute.
    """
    while True:
        weighed = without_unusable(two_phase.void_if_incomplete(weighed) if masked else weighed)
        heard = [(reply, weight) for reply, weight in weighed if weight > 0]
        if not heard:
            return None, weighed
        models = [reply.arrays for reply, _ in heard if reply.arrays is not None]
        shares = [weight for _, weight in heard]
        if promised is not None:
            there = [reply for reply, _ in heard]
            shares = [1.0 / two_phase.promised(promised, there)] * len(heard)
        update = mixed_update(model, models, shares)
        if all_finite(update):
            return update, weighed
        for (reply, _), arrays in zip(heard, models):
            reply.reason = unmixable(model, arrays, len(heard))
        if not any(reply.reason for reply, _ in heard):
            raise UserError("the global model holds values too large to be mixed")


def moved(
    server: FairServer, model: Tensors, update: dict[str, Any], weighed: Weighed
) -> dict[str, Any]:
    """The model after the server optimiser's step; integers take the mean."""
    heard = [(r.arrays, weight) for r, weight in weighed if weight > 0 and r.arrays is not None]
    with np.errstate(over="ignore", invalid="ignore"):  # said in words below
        new = server.step(model, update)
    if not all_finite(new):
        raise UserError(
            "the new model is not finite, though every update was: the usual cause is too large a"
            " learning rate of the server optimiser"
        )
    return new | mixed_counters(model, [arrays for arrays, _ in heard], [w for _, w in heard])
