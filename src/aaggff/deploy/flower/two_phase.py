"""Losses first, then updates that the clients have scaled themselves: the server needs their sum.

Phase 1 asks for losses and decides. Phase 2 sends every client its weight with the model, and
what comes back is theta + w_i (theta_i - theta): nothing is done with a single one of them but to
add it to the others, so a mod after `fair_mod`'s scaling may mask it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from aaggff.deploy.flower.protocol import WEIGHT
from aaggff.deploy.flower.replies import Reply, Weighed
from aaggff.errors import UserError

NO_MOD = "two_phase: the ClientApp does not know the phases; list `fair_mod(loss_of)` in its mods"
MASKED = "an update is missing, and without it the sum of the masked ones means nothing"


def refuse_untaught(answers: Sequence[Reply]) -> None:
    """Who answers the question for its loss with a model has trained instead: no `fair_mod`."""
    untaught = [reply for reply in answers if reply.content.array_records]
    if untaught and len(untaught) == len(answers):
        raise UserError(NO_MOD)
    for reply in untaught:
        reply.refuse("answers the question for its loss with a model: no fair_mod in its ClientApp")


def settle(first: Sequence[Reply], decided: Weighed, second: Sequence[Reply]) -> Weighed:
    """The decision of the first phase with the updates of the second.

    A client whose loss was heard and whose update is missing stays in the round, with a reason.
    """
    given = {reply.node: weight for reply, weight in decided}
    came = {reply.node: reply for reply in second}
    for reply in first:
        weight, update = given.get(reply.node, 0.0), came.get(reply.node)
        if weight == 0 or reply.reason is not None:
            continue
        if update is None:
            reply.reason = "its loss came, its update did not"
        elif update.reason is not None:
            reply.reason = update.reason
        elif not _scaled(update, weight):
            reply.reason = "did not scale its update: no fair_mod in its ClientApp"
        else:
            reply.arrays, reply.content, reply.metrics = (
                update.arrays, update.content, update.metrics
            )  # fmt: skip
    return decided


def promised(decided: Weighed, heard: Sequence[Reply]) -> float:
    """The sum of the weights that the clients still there were given."""
    there = {reply.node for reply in heard}
    return math.fsum(weight for reply, weight in decided if reply.node in there)


def void_if_incomplete(weighed: Weighed) -> Weighed:
    """Masks cancel in the sum of all: if one is missing, nobody's update can be used."""
    lost = any(weight > 0 and reply.reason is not None for reply, weight in weighed)
    if not lost:
        return weighed
    for reply, weight in weighed:
        if weight > 0:
            reply.reason = reply.reason or MASKED
    return weighed


def _scaled(reply: Reply, weight: float) -> bool:
    told = None if reply.metrics is None else reply.metrics.get(WEIGHT)
    return isinstance(told, (int, float)) and math.isclose(told, weight)
