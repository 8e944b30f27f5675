"""Dealing one pool of samples out to clients: alike, or unlike in labels, in size, by a column.

Each partitioner returns one array of row numbers a client; every row goes to one client only.
`show` prints what came of it and `owners` turns it into the `clients` of `from_arrays`:

    parts = dirichlet(labels, 20, 0.1, np.random.default_rng(0))
    print(show(parts, labels))
    data = from_arrays(inputs, labels, owners(parts))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aaggff.errors import UserError, unknown

Indices = NDArray[np.int64]


def iid(labels: ArrayLike, clients: int, generator: np.random.Generator) -> list[Indices]:
    """All clients alike: equal sizes, rows at random.

    >>> [len(part) for part in iid(np.zeros(10), 4, np.random.default_rng(0))]
    [3, 3, 2, 2]
    """
    rows = np.arange(_enough(np.asarray(labels).size, clients))
    return [np.sort(part) for part in np.array_split(generator.permutation(rows), clients)]


def dirichlet(
    labels: ArrayLike,
    clients: int,
    alpha: float,
    generator: np.random.Generator,
    min_size: int = 1,
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
    if samples // clients < min_size:
        raise UserError(
            f"{samples} samples do not give {clients} clients at least {min_size} each: fewer "
            "clients, or a smaller min_size"
        )
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
    rows = np.concatenate(pools)
    if rows.size < clients * labels_each:
        raise UserError(
            f"{rows.size} samples cannot be cut into {clients} x {labels_each} shards: fewer "
            "clients, or fewer labels each"
        )
    shards = np.array_split(rows, clients * labels_each)
    order = generator.permutation(len(shards)).reshape(clients, labels_each)
    return [np.sort(np.concatenate([shards[shard] for shard in mine])) for mine in order]


def dirichlet_shares(
    labels: ArrayLike,
    clients: int,
    alpha: float,
    generator: np.random.Generator,
    min_size: int = 10,
) -> list[Indices]:
    """Each class is divided among the clients by shares from Dirichlet(alpha); sizes differ too.

    Yurochkin et al. 2019, "Bayesian nonparametric federated learning of neural networks". Where
    that leaves a client with fewer than `min_size` rows, it gets rows of the largest clients, which
    terminates where drawing anew until all are large enough would not.

    >>> parts = dirichlet_shares([0, 1] * 50, 5, 0.1, np.random.default_rng(0), min_size=10)
    >>> [len(part) for part in parts], len(np.unique(np.concatenate(parts)))
    ([10, 10, 10, 60, 10], 100)
    """
    classes, pools = _pools(labels, clients, generator)
    if not alpha > 0:
        raise UserError(f"alpha must be above 0, not {alpha}")
    taken: list[list[Indices]] = [[] for _ in range(clients)]
    for label in range(classes):
        shares = generator.dirichlet(np.full(clients, alpha))
        cuts = np.rint(np.cumsum(shares)[:-1] * len(pools[label])).astype(np.int64)
        for client, rows in enumerate(np.split(pools[label], cuts)):
            taken[client].append(rows)
    return _topped_up([np.concatenate(rows) for rows in taken], min_size, generator)


def quantity_skew(
    labels: ArrayLike,
    clients: int,
    alpha: float,
    generator: np.random.Generator,
    min_size: int = 1,
) -> list[Indices]:
    """Sizes proportional to a draw from Dirichlet(alpha), rows at random: alike but for size.

    >>> parts = quantity_skew(np.zeros(100), 5, 0.5, np.random.default_rng(0))
    >>> [len(part) for part in parts]
    [21, 1, 46, 18, 14]
    """
    samples = _enough(np.asarray(labels).size, clients)
    if not alpha > 0:
        raise UserError(f"alpha must be above 0, not {alpha}")
    shares = generator.dirichlet(np.full(clients, alpha))
    cuts = np.rint(np.cumsum(shares)[:-1] * samples).astype(np.int64)
    return _topped_up(np.split(generator.permutation(samples), cuts), min_size, generator)


def by_column(values: ArrayLike, min_size: int = 1) -> list[Indices]:
    """One client per value of a column (a hospital, a region), in the values' order.

    Rows whose value occurs fewer than `min_size` times go to nobody.

    >>> [part.tolist() for part in by_column(["b", "a", "b", "c"], min_size=1)]
    [[1], [0, 2], [3]]
    """
    codes = np.unique(np.asarray(values), return_inverse=True)[1].ravel()
    order = np.argsort(codes, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(codes))[:-1]) if codes.size else []
    kept = [part for part in parts if len(part) >= min_size]
    if not kept:
        raise UserError(f"no value of the column occurs {min_size} times")
    return kept


# What a data set's option `partition` may name; each is given the options it takes.
PARTITIONS = ("dirichlet", "dirichlet-shares", "label", "quantity", "iid")


def deal(
    partition: str,
    labels: ArrayLike,
    clients: int,
    generator: np.random.Generator,
    *,
    alpha: float,
    labels_each: int,
    min_size: int,
) -> list[Indices]:
    """The partition of that name, which takes of the options those it has a use for.

    >>> [len(part) for part in deal("iid", [0, 1] * 5, 2, np.random.default_rng(0),
    ...                             alpha=1.0, labels_each=1, min_size=1)]
    [5, 5]
    """
    how: dict[str, Callable[[], list[Indices]]] = {
        "dirichlet": lambda: dirichlet(labels, clients, alpha, generator, min_size),
        "dirichlet-shares": lambda: dirichlet_shares(labels, clients, alpha, generator, min_size),
        "label": lambda: by_label(labels, clients, labels_each, generator),
        "quantity": lambda: quantity_skew(labels, clients, alpha, generator, min_size),
        "iid": lambda: iid(labels, clients, generator),
    }
    if partition not in how:
        raise unknown("partition", partition, how)
    return how[partition]()


def owners(parts: Sequence[Indices], samples: int | None = None) -> Indices:
    """Whose each row is, as `from_arrays` takes it; -1 for rows that nobody got.

    >>> owners([np.array([1, 2]), np.array([0])]).tolist()
    [1, 0, 0]
    """
    rows = np.concatenate(parts)
    whose = np.full(int(rows.max()) + 1 if samples is None else samples, -1, dtype=np.int64)
    whose[rows] = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return whose


def counts(parts: Sequence[Indices], labels: ArrayLike) -> Indices:
    """How many rows of each class each client has: one line a client, one column a class.

    >>> counts([np.array([0, 2]), np.array([1])], ["a", "b", "a"]).tolist()
    [[2, 0], [0, 1]]
    """
    names, codes = np.unique(np.asarray(labels), return_inverse=True)
    codes = codes.ravel()
    return np.stack([np.bincount(codes[part], minlength=names.size) for part in parts])


def show(parts: Sequence[Indices], labels: ArrayLike, most: int = 10) -> str:
    """What a partition came to: sizes and numbers of classes, and the counts of the first clients.

    >>> labels = [0] * 20 + [1] * 20
    >>> print(show(by_label(labels, 4, 1, np.random.default_rng(0)), labels))
    4 clients, 40 samples
               min  median    mean  max
    samples     10      10    10.0   10
    classes      1       1     1.0    1
    client  samples  of each class
         0       10  10 0
         1       10  0 10
         2       10  0 10
         3       10  10 0
    """
    table = counts(parts, labels)
    sizes, classes = table.sum(axis=1), (table > 0).sum(axis=1)
    lines = [
        f"{len(parts):,} clients, {sizes.sum():,} samples",
        " " * 11 + "min  median    mean  max",
    ]
    lines += [
        f"{name:<8}{each.min():>6,}{np.median(each):>8,.0f}{each.mean():>8,.1f}{each.max():>5,}"
        for name, each in (("samples", sizes), ("classes", classes))
    ]
    lines.append("client  samples  of each class")
    for client, row in enumerate(table[:most]):
        each = " ".join(map(str, row[:20])) + (" ..." if row.size > 20 else "")
        lines.append(f"{client:>6}{sizes[client]:>9,}  {each}")
    return "\n".join(lines + ([f"... and {len(parts) - most:,} more"] if len(parts) > most else []))


def _topped_up(
    parts: list[Indices], min_size: int, generator: np.random.Generator
) -> list[Indices]:
    """Every client gets at least `min_size` rows, at the cost of whoever has most."""
    sizes = np.array([len(part) for part in parts])
    if min_size * len(parts) > sizes.sum():
        raise UserError(
            f"{sizes.sum()} samples do not give {len(parts)} clients at least {min_size} each: "
            "fewer clients, or a smaller min_size"
        )
    parts = [generator.permutation(part) for part in parts]
    for client in np.flatnonzero(sizes < min_size):
        while sizes[client] < min_size:
            giver = int(sizes.argmax())
            # Some client has more than `min_size`, and gives only what it has above that.
            number = int(min(min_size - sizes[client], sizes[giver] - min_size))
            parts[client] = np.concatenate([parts[client], parts[giver][-number:]])
            parts[giver] = parts[giver][:-number]
            sizes[client] += number
            sizes[giver] -= number
    return [np.sort(part) for part in parts]


def _enough(samples: int, clients: int) -> int:
    if not 1 <= clients <= samples:
        raise UserError(f"{samples} samples cannot be dealt to {clients} clients")
    return samples


def _pools(
    labels: ArrayLike, clients: int, generator: np.random.Generator
) -> tuple[int, list[Indices]]:
    """How many classes, and the shuffled row numbers of each."""
    codes = np.unique(np.asarray(labels), return_inverse=True)[1].ravel()
    _enough(codes.size, clients)
    classes = int(codes.max()) + 1
    return classes, [generator.permutation(np.flatnonzero(codes == c)) for c in range(classes)]
