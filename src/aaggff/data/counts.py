"""Counting a federation's clients and samples, beside what the paper counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aaggff.data.partition import show
from aaggff.data.spec import Statistics

if TYPE_CHECKING:
    from aaggff.federation.data import FederatedData

ROWS = ("clients", "samples", "mean", "deviation")


def count(data: FederatedData) -> tuple[Statistics, float]:
    """The four numbers, the deviation with K - 1 below; and the deviation with K below."""
    sizes = np.asarray(data.train_sizes + data.test_sizes, dtype=np.float64)
    clients = len(sizes)
    return (
        Statistics(
            clients,
            int(sizes.sum()),
            float(sizes.mean()),
            float(sizes.std(ddof=1)) if clients > 1 else 0.0,
        ),
        float(sizes.std()),
    )


def agreement(data: FederatedData, paper: Statistics) -> list[tuple[str, str, str, bool]]:
    """One row a number: what it is, ours, the paper's, and whether they agree as printed.

    >>> from aaggff.data.heart import load
    >>> agreement(load(), Statistics(4, 920, 230.0, 81.0))[1]
    ('samples', '920', '920', True)
    """
    ours, other_deviation = count(data)
    rows = []
    for name in ROWS:
        mine, theirs = getattr(ours, name), getattr(paper, name)
        if isinstance(theirs, int):
            rows.append((name, f"{mine:,}", f"{theirs:,}", mine == theirs))
            continue
        either = [mine, other_deviation] if name == "deviation" else [mine]
        # The paper prints two decimals, some of them cut instead of rounded.
        near = [value for value in either if abs(value - theirs) < 0.01]
        rows.append((name, f"{(near or either)[0]:,.2f}", f"{theirs:,.2f}", bool(near)))
    return rows


def dealt(data: FederatedData) -> str:
    """How a pool was dealt out to the clients: sizes, classes, the counts of the first clients.

    >>> from aaggff.data.digits import load
    >>> print(dealt(load(clients=2, partition="iid")))
    2 clients, 1,797 samples
               min  median    mean  max
    samples    898     898   898.5  899
    classes     10      10    10.0   10
    client  samples  of each class
         0      899  91 95 78 95 97 83 90 105 84 81
         1      898  87 87 99 88 84 99 91 74 90 99
    """
    labels = [_labels(data, client) for client in range(len(data))]
    ends = np.cumsum([len(each) for each in labels])
    parts = [np.arange(end - len(each), end) for end, each in zip(ends.tolist(), labels)]
    return show(parts, np.concatenate(labels))


def _labels(data: FederatedData, client: int) -> NDArray[Any]:
    rows = getattr(data, "rows", None)
    if rows is not None:  # without reading the inputs
        return np.asarray(rows.labels(client))
    return np.concatenate([data.train(client)[1].numpy(), data.test(client)[1].numpy()])
