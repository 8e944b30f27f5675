"""What a client does with the model it receives: the settings of its local training."""

from __future__ import annotations

import math
from dataclasses import dataclass

from aaggff.errors import UserError


@dataclass(frozen=True)
class LocalTraining:
    """Local SGD on F_i (algorithm 1 of the paper), optionally with FedProx's proximal term.

    Every step goes along g = grad(batch loss) + prox (theta - theta_received), clipped to norm
    `clip`, plus weight_decay theta; with momentum m, v <- m v + g and theta <- theta - lr v.

    Args:
        lr: learning rate of round 1.
        decay: what it is multiplied by every `decay_every` rounds.
        decay_every: see there.
        batch_size: samples a step; the last batch of an epoch may be smaller.
        epochs: passes over the client's training part, each in an order of its own.
        steps: instead of epochs, exactly this many steps (starting over when the part is used up).
        momentum: of local SGD; starts anew every round.
        weight_decay: as in torch.optim.SGD, on all parameters.
        clip: largest norm of a step's gradient; None: any.
        prox: FedProx's mu: how strongly a client is held to the model it received.

    >>> local = LocalTraining(lr=0.5, decay=0.5, decay_every=2)
    >>> [local.lr_at(t) for t in (1, 2, 3, 4, 5)]
    [0.5, 0.5, 0.25, 0.25, 0.125]
    >>> local.steps_for(50)  # batches of 20: 20 + 20 + 10
    3
    """

    lr: float = 0.1
    decay: float = 1.0
    decay_every: int = 1
    batch_size: int = 20
    epochs: int = 1
    steps: int | None = None
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip: float | None = None
    prox: float = 0.0

    def __post_init__(self) -> None:
        _number("lr", self.lr, "a positive number", self.lr > 0)
        _number("decay", self.decay, "a number in (0, 1]", 0 < self.decay <= 1)
        _whole("decay_every", self.decay_every)
        _whole("batch_size", self.batch_size)
        _whole("epochs", self.epochs)
        if self.steps is not None:
            _whole("steps", self.steps)
        _number("momentum", self.momentum, "a number in [0, 1)", 0 <= self.momentum < 1)
        _number("weight_decay", self.weight_decay, "a number >= 0", self.weight_decay >= 0)
        if self.clip is not None:
            _number("clip", self.clip, "a positive number", self.clip > 0)
        _number("prox", self.prox, "a number >= 0", self.prox >= 0)

    def lr_at(self, round: int) -> float:
        """The learning rate of a round; rounds are counted from 1."""
        return self.lr * self.decay ** ((round - 1) // self.decay_every)

    def steps_for(self, size: int) -> int:
        """How many steps a client with `size` samples takes."""
        if self.steps is not None:
            return self.steps
        return self.epochs * -(-size // self.batch_size)


def _number(name: str, value: float, expected: str, good: bool) -> None:
    if not (math.isfinite(value) and good):
        raise UserError(f"{name}: expected {expected}, got {value!r}")


def _whole(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UserError(f"{name}: expected a whole number of at least 1, got {value!r}")
