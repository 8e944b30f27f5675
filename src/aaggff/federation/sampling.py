"""Which clients the server asks in a round, and which of those never answer."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aaggff.errors import UserError
from aaggff.federation.seeds import derive, numpy_generator

Ids = NDArray[np.int64]
log = logging.getLogger(__name__)


@runtime_checkable
class Sampler(Protocol):
    """Whom the server asks in round t: distinct client ids, ascending, never none of them.

    A sampler may also have `answering(round, asked)`, the clients among the asked who answer;
    the others stand under `dropped` in the round's record (see `Unreliable`).
    """

    def sample(self, round: int) -> Ids: ...


class Everybody:
    """All clients that have something to learn from, every round.

    >>> Everybody([5, 0, 7]).sample(1).tolist()
    [0, 2]
    """

    def __init__(self, train_sizes: ArrayLike) -> None:
        self._ids = _with_data(train_sizes)

    def sample(self, round: int) -> Ids:
        return self._ids


class Uniform:
    """A number or a rate of clients, uniformly and without replacement, in O(n) a round.

    per_round: how many (int), or the rate C of all clients (float): max(1, floor(C K)) of them
    (algorithm 3 prints min). Clients without training data are never asked.

    >>> Uniform([1] * 1_500_000, 5, seed=7).sample(1).size
    5
    >>> Uniform([1] * 19, 0.1).sample(1).size  # floor(1.9)
    1
    """

    def __init__(self, train_sizes: ArrayLike, per_round: int | float, *, seed: int = 0) -> None:
        self._ids = _with_data(train_sizes)
        self.seed = seed
        self.number = cohort(per_round, self._ids.size)

    def sample(self, round: int) -> Ids:
        # Generator.choice without replacement is Floyd's method where n is far below K.
        places = numpy_generator(self.seed, round, 0, "sampling").choice(
            self._ids.size, self.number, replace=False, shuffle=False
        )
        return np.sort(self._ids[places])


class Available:
    """Whoever is available, or a uniform sample of `per_round` of them.

    available: your function from the round (counted from 1) to the ids that can be reached then.

    >>> night_and_day = lambda t: [0, 1, 2] if t % 2 else [3, 4]
    >>> sampler = Available([9] * 5, night_and_day)
    >>> sampler.sample(1).tolist(), sampler.sample(2).tolist()
    ([0, 1, 2], [3, 4])
    """

    def __init__(
        self,
        train_sizes: ArrayLike,
        available: Callable[[int], ArrayLike],
        per_round: int | float | None = None,
        *,
        seed: int = 0,
    ) -> None:
        self._has_data = np.asarray(train_sizes) > 0
        _with_data(train_sizes)
        self.available, self.per_round, self.seed = available, per_round, seed

    def sample(self, round: int) -> Ids:
        given = np.asarray(self.available(round))
        if given.size and not np.issubdtype(given.dtype, np.integer):
            raise UserError(
                f"availability in round {round}: expected client numbers, got {given!r}"
            )
        ids = np.unique(given.astype(np.int64))
        clients = self._has_data.size
        if ids.size and not (ids[0] >= 0 and ids[-1] < clients):
            wrong = ids[0] if ids[0] < 0 else ids[-1]
            raise UserError(f"availability in round {round}: no client {wrong} (0..{clients - 1})")
        ids = ids[self._has_data[ids]]
        if not ids.size:
            raise UserError(f"availability in round {round}: no client with training data is there")
        if self.per_round is None:
            return ids
        number = min(ids.size, cohort(self.per_round, clients, at_most=False))
        generator = numpy_generator(self.seed, round, 0, "sampling")
        return np.sort(generator.choice(ids, number, replace=False, shuffle=False))


class Unreliable:
    """Another sampler's clients, of whom some drop out and the slowest are not waited for.

    drop_out: probability that a client that was asked never answers, each for itself. slow: the
    server closes the round once a share 1 - slow of the others has answered. A client's time is
    its samples divided by its speed, which is log-normal(0, 1) and its own for good, so the same
    clients tend to be late: that is what makes time-outs a matter of fairness. At least one
    client always answers.

    >>> sampler = Unreliable(Everybody([10] * 4), [10] * 4, slow=0.5)
    >>> asked = sampler.sample(1)
    >>> len(asked), len(sampler.answering(1, asked))
    (4, 2)
    """

    def __init__(
        self,
        sampler: Sampler,
        train_sizes: ArrayLike,
        *,
        drop_out: float = 0.0,
        slow: float = 0.0,
        seed: int = 0,
    ) -> None:
        for name, share in (("drop_out", drop_out), ("slow", slow)):
            if not 0 <= share < 1:
                raise UserError(f"{name}: expected a share in [0, 1), got {share}")
        self.sampler, self.drop_out, self.slow, self.seed = sampler, drop_out, slow, seed
        self._sizes = np.asarray(train_sizes, dtype=np.int64)

    def sample(self, round: int) -> Ids:
        return self.sampler.sample(round)

    def answering(self, round: int, asked: Ids) -> Ids:
        """Those among the asked who answer in time, in the same order."""
        answer = np.ones(asked.size, dtype=bool)
        if self.drop_out:
            luck = numpy_generator(self.seed, round, 0, "drop-out").random(asked.size)
            answer = luck >= self.drop_out
            answer[luck.argmax()] = True
        if self.slow:
            left = np.flatnonzero(answer)
            waited_for = max(1, left.size - math.floor(self.slow * left.size + 1e-9))
            times = self._sizes[asked[left]] / _speeds(self.seed, asked[left])
            answer[left[np.argsort(times, kind="stable")[waited_for:]]] = False
        return asked[answer]


def sampler(
    train_sizes: ArrayLike,
    per_round: int | float | None = None,
    *,
    seed: int = 0,
    drop_out: float = 0.0,
    slow: float = 0.0,
) -> Sampler:
    """The sampler these settings describe; per_round None: everybody.

    >>> sampler([3, 3, 3], 2, seed=1).sample(5).size
    2
    """
    chosen: Sampler = (
        Everybody(train_sizes) if per_round is None else Uniform(train_sizes, per_round, seed=seed)
    )
    if drop_out or slow:
        return Unreliable(chosen, train_sizes, drop_out=drop_out, slow=slow, seed=seed)
    return chosen


def cohort(per_round: int | float, clients: int, *, at_most: bool = True) -> int:
    """How many clients a number or a rate means: max(1, floor(C K)) for a rate C.

    >>> cohort(0.29, 100), cohort(7, 100), cohort(0.001, 100)
    (29, 7, 1)
    """
    if isinstance(per_round, float):
        if not 0 < per_round <= 1:
            raise UserError(f"per_round: expected a rate in (0, 1] or a number, got {per_round}")
        # 0.29 * 100 is 28.999...: a rate that means a whole number must give it.
        return max(1, math.floor(per_round * clients + 1e-9))
    if per_round < 1:
        raise UserError(f"per_round: expected at least 1 client, got {per_round}")
    if at_most and per_round > clients:
        raise UserError(f"per_round: {per_round} clients a round, but only {clients} have data")
    return int(per_round)


def _with_data(train_sizes: ArrayLike) -> Ids:
    """The clients that can be asked; says once who cannot."""
    sizes = np.asarray(train_sizes)
    ids = np.flatnonzero(sizes > 0)
    without = sizes.size - ids.size
    if not ids.size:
        raise UserError("no client has training data")
    if without:
        few = ", ".join(map(str, np.flatnonzero(sizes == 0)[:5])) + (", ..." if without > 5 else "")
        log.warning("%d of %d clients have no training data and are never asked: %s",
                    without, sizes.size, few)  # fmt: skip
    return ids


def _speeds(seed: int, ids: Ids) -> NDArray[np.float64]:
    """Each client's own log-normal(0, 1) speed, by hashing its number: O(n), nothing stored."""
    key = np.uint64(derive(seed, 0, 0, "speed"))
    with np.errstate(over="ignore"):
        uniform = [
            (_mixed(ids.astype(np.uint64) * np.uint64(2) + np.uint64(part) + key) >> np.uint64(11))
            .astype(np.float64) * 2.0**-53
            for part in (0, 1)
        ]  # fmt: skip
    # Box and Muller's normal deviate.
    normal = np.sqrt(-2 * np.log1p(-uniform[0])) * np.cos(2 * np.pi * uniform[1])
    speeds: NDArray[np.float64] = np.exp(normal)
    return speeds


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The splitmix64 finaliser: neighbouring numbers become unrelated ones."""
    values = (values + np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
