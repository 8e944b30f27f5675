"""Which samples each of many clients sees at each of its steps, as one table of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aaggff.federation.local import LocalTraining
from aaggff.federation.seeds import permutations

Index = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Schedule:
    """The steps of clients that are ordered by how many they take, most first.

    Step s is taken by the first active[s] clients at once: rows offsets[s]:offsets[s+1] of a
    table, B of each client. A batch of b < B samples is filled up with padding, and its samples
    count B / b times: `scale` has that for every row (0 for padding), and is None for steps in
    which all batches are full.
    """

    active: list[int]
    offsets: list[int]
    scale: list[Floats | None]
    places: Index | None
    """Where each sample goes, clients' samples and epochs end to end; None: see `full`."""
    kept: NDArray[np.bool_] | None
    """With a number of steps: which of the last epochs' samples are used at all."""
    epochs: int

    def blocks(self, most: int) -> Iterator[tuple[int, int]]:
        """Steps first..last - 1 at a time, of `most` rows or of one step."""
        first, number = 0, len(self.active)
        while first < number:
            last = first + 1
            while last < number and self.offsets[last + 1] - self.offsets[first] <= most:
                last += 1
            yield first, last
            first = last

    def rows(self, starts: Index, seed: int, round: int, clients: Index, sizes: Index,
             batch: int) -> Index:  # fmt: skip
        """The table for one round: where in the arena each row's sample is (0: padding)."""
        orders: list[Index] = []
        for epoch in range(self.epochs):
            order = permutations(seed, round, clients, sizes, epoch)
            if self.places is None:
                # All alike: [clients, steps, B] -> [steps, clients, B].
                each = order.reshape(len(clients), -1)
                each += starts[:, None]
                orders.append(each.reshape(len(clients), -1, batch).swapaxes(0, 1).reshape(-1))
            else:
                orders.append(order + np.repeat(starts, sizes))
        drawn = orders[0] if len(orders) == 1 else np.concatenate(orders)
        if self.places is None:
            return drawn
        table = np.zeros(self.offsets[-1], dtype=np.int64)
        table[self.places] = drawn if self.kept is None else drawn[self.kept]
        return table


def schedule(sizes: Index, local: LocalTraining) -> Schedule:
    """The schedule for clients with these sample counts.

    >>> plan = schedule(np.array([5, 2]), LocalTraining(batch_size=2))
    >>> plan.active, plan.offsets  # three steps against one
    ([2, 1, 1], [0, 4, 6, 8])
    >>> plan.scale[0], plan.scale[2]  # two full batches; one with a single sample
    (None, array([2., 0.], dtype=float32))
    """
    batch = local.batch_size
    per_epoch = -(-sizes // batch)
    steps = np.array([local.steps_for(size) for size in sizes.tolist()], dtype=np.int64)
    epochs = int((-(-steps // per_epoch)).max())
    number = int(steps.max())
    active = np.searchsorted(-steps, -np.arange(number), side="left")
    offsets = np.concatenate([[0], np.cumsum(active * batch)])
    alike = bool((sizes == sizes[0]).all()) and local.steps is None and sizes[0] % batch == 0
    if alike:
        return Schedule(active.tolist(), offsets.tolist(), [None] * number, None, None, epochs)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    last = sizes[owner] - within // batch * batch  # samples left when the batch begins
    found, used, scales = [], [], []
    for epoch in range(epochs):
        step = epoch * per_epoch[owner] + within // batch
        kept = step < steps[owner]
        found.append((offsets[np.minimum(step, number - 1)] + owner * batch + within % batch)[kept])
        used.append(kept)
        scales.append((batch / np.minimum(last, batch))[kept])
    places, kept = np.concatenate(found), np.concatenate(used)
    scale = np.zeros(int(offsets[-1]), dtype=np.float32)
    scale[places] = np.concatenate(scales)
    parts = [scale[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist())]
    return Schedule(
        active.tolist(),
        offsets.tolist(),
        [None if (part == 1.0).all() else part for part in parts],
        places,
        None if kept.all() else kept,
        epochs,
    )
