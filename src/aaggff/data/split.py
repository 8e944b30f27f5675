"""The split of one client's samples into 80 % to learn from and 20 % to be judged on."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aaggff.federation.seeds import numpy_generator

Indices = NDArray[np.int64]


def split_client(
    samples: int,
    labels: ArrayLike | None = None,
    *,
    seed: int,
    client: int,
    test_fraction: float = 0.2,
) -> tuple[Indices, Indices]:
    """Row numbers of client `client`'s training and test part, both in ascending order.

    Stratified where `labels` are given and every class has at least two rows: each class then
    gives the test part its share, rounded so that the total is right. The same seed and client
    always give the same split. A client with one sample trains on it and has no test part.

    >>> train, test = split_client(10, [0, 1] * 5, seed=0, client=0)
    >>> len(train), len(test), int(test[0] % 2 + test[1] % 2)
    (8, 2, 1)
    """
    rows = np.arange(samples, dtype=np.int64)
    wanted = 0 if samples < 2 else min(samples - 1, max(1, round(test_fraction * samples)))
    generator = numpy_generator(seed, 0, client, "split")
    chosen = np.zeros(samples, dtype=bool)
    classes, counts = _classes(labels, samples)
    if classes is None:
        chosen[generator.permutation(samples)[:wanted]] = True
    else:
        for label, quota in enumerate(_quotas(counts, wanted, generator)):
            members = np.flatnonzero(classes == label)
            chosen[generator.permutation(members)[:quota]] = True
    return rows[~chosen], rows[chosen]


def _classes(labels: ArrayLike | None, samples: int) -> tuple[Indices | None, Indices]:
    """Labels as 0..C-1 and how often each occurs; None where stratifying is not possible."""
    if labels is None or samples < 2:
        return None, np.zeros(0, dtype=np.int64)
    names, codes, counts = np.unique(np.asarray(labels), return_inverse=True, return_counts=True)
    if names.size < 2 or counts.min() < 2:
        return None, np.zeros(0, dtype=np.int64)
    return codes.ravel().astype(np.int64), counts.astype(np.int64)


def _quotas(counts: Indices, wanted: int, generator: np.random.Generator) -> Indices:
    """Test rows per class: proportional, whole, summing to `wanted` (largest remainders first)."""
    exact = wanted * counts / counts.sum()
    quotas: Indices = np.floor(exact).astype(np.int64)
    # Equal remainders are put in random order, so that no class is favoured for its name.
    order = generator.permutation(counts.size)
    order = order[np.argsort(-(exact - quotas)[order], kind="stable")]
    quotas[order[: wanted - int(quotas.sum())]] += 1
    return quotas
