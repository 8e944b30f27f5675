"""Counting a federation's clients and samples, beside what the paper counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

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
