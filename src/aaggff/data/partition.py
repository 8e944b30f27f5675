"""Dealing one pool of labelled samples out to clients that are unlike each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aaggff.errors import UserError

Indices = NDArray[np.int64]


def dirichlet(
    labels: ArrayLike, clients: int, alpha: float, generator: np.random.Generator
) -> list[Indices]:
    """Each client draws its own mix of classes from Dirichlet(alpha); all have the same size.

    Small alpha: few classes a client; large alpha: all clients alike (Hsu et al. 2019, "Measuring
    the effects of non-identical data distribution"). Every sample goes to exactly one client.
    Where a client's classes have run out, it takes from what is left, in proportion.

    >>> parts = dirichlet([0, 1] * 50, clients=5, alpha=0.1, generator=np.random.default_rng(0))
    >>> [len(part) for part in parts], len(np.unique(np.concatenate(parts)))
    ([20, 20, 20, 20, 20], 100)
    """
    classes, pools = _pools(labels, clients, generator)
    if not alpha > 0:
        raise UserError(f"alpha must be above 0, not {alpha}")
    left = np.array([len(pool) for pool in pools])
    samples = int(left.sum())
    parts = []
    for client in range(clients):
        size = samples * (client + 1) // clients - samples * client // clients
        mix = generator.dirichlet(np.full(classes, alpha))
        taken: list[Indices] = []
        while size:
            available = np.where(left > 0, mix, 0.0)
            if available.sum() < 1e-9:
                available = left.astype(np.float64)
            wanted = generator.multinomial(size, available / available.sum())
            for label in np.flatnonzero(wanted):
                count = min(int(wanted[label]), int(left[label]))
                taken.append(pools[label][left[label] - count : left[label]])
                left[label] -= count
                size -= count
        parts.append(np.sort(np.concatenate(taken)))
    return parts


def by_label(
    labels: ArrayLike, clients: int, labels_each: int, generator: np.random.Generator
) -> list[Indices]:
    """Samples sorted by class, cut into `clients * labels_each` shards, dealt out at random.

    A client sees about `labels_each` classes (McMahan et al. 2017, the "pathological" split).

    >>> parts = by_label([0] * 20 + [1] * 20, 4, 1, np.random.default_rng(0))
    >>> [len(part) for part in parts]
    [10, 10, 10, 10]
    """
    _, pools = _pools(labels, clients, generator)
    if labels_each < 1:
        raise UserError(f"labels per client must be at least 1, not {labels_each}")
    shards = np.array_split(np.concatenate(pools), clients * labels_each)
    order = generator.permutation(len(shards)).reshape(clients, labels_each)
    return [np.sort(np.concatenate([shards[shard] for shard in mine])) for mine in order]


def _pools(
    labels: ArrayLike, clients: int, generator: np.random.Generator
) -> tuple[int, list[Indices]]:
    """How many classes, and the shuffled row numbers of each."""
    codes = np.unique(np.asarray(labels), return_inverse=True)[1].ravel()
    if not 1 <= clients <= codes.size:
        raise UserError(f"{codes.size} samples cannot be dealt to {clients} clients")
    classes = int(codes.max()) + 1
    return classes, [generator.permutation(np.flatnonzero(codes == c)) for c in range(classes)]
