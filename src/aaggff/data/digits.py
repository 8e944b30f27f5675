"""Handwritten digits, 8 x 8 pixels, from scikit-learn: one pool dealt out to clients."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from aaggff.data.memory import ArrayData, split_pairs
from aaggff.data.partition import PARTITIONS, deal
from aaggff.data.spec import DatasetSpec, Option, PaperSettings
from aaggff.federation.data import Task
from aaggff.federation.seeds import numpy_generator


def load(
    root: Path | None = None,
    *,
    seed: int = 0,
    clients: int = 20,
    partition: str = "dirichlet",
    alpha: float = 0.1,
    labels_each: int = 2,
    min_size: int = 2,
) -> ArrayData:
    """1,797 digits of 64 pixels in 0..1, dealt out to `clients`; `root` is not needed.

    partition "dirichlet": each client's mix of classes is drawn from Dirichlet(alpha), all of the
    same size; "dirichlet-shares": each class's shares among the clients are, with at least
    `min_size` each; "label": each client gets about `labels_each` classes; "quantity": alike but
    for size, drawn from Dirichlet(alpha); "iid": alike. Who gets what follows from `seed`.

    >>> data = load(clients=10, partition="label", labels_each=1)
    >>> len(data), tuple(data.train(0)[0].shape[1:]), int(data.train_sizes.sum())
    (10, (64,), 1437)
    """
    pixels, labels = _digits()
    parts = deal(
        partition,
        labels,
        clients,
        numpy_generator(seed, 0, 0, "partition"),
        alpha=alpha,
        labels_each=labels_each,
        min_size=min_size,
    )
    pairs = [(torch.from_numpy(pixels[rows]), torch.from_numpy(labels[rows])) for rows in parts]
    return split_pairs("digits", Task("multiclass", 10, "top1"), pairs, seed=seed)


@cache
def _digits() -> tuple[NDArray[Any], NDArray[Any]]:
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return (pixels / 16.0).astype(np.float32), labels.astype(np.int64)


SPEC = DatasetSpec(
    name="digits",
    title="Handwritten digits, 8 x 8, dealt out to clients",
    licence="CC BY 4.0 (comes with scikit-learn, BSD-3-Clause)",
    credit="E. Alpaydin and C. Kaynak, UCI Machine Learning Repository",
    settings=PaperSettings(rounds=100, per_round=5, model="logistic", lr=0.1),
    load=load,
    options={
        "clients": Option(20, "how many clients"),
        "partition": Option("dirichlet", "how digits are dealt out", PARTITIONS),
        "alpha": Option(0.1, "dirichlet and quantity: small is unlike, large is alike"),
        "labels_each": Option(2, "label: about how many classes a client has"),
        "min_size": Option(2, "dirichlet and quantity: no client has fewer samples"),
    },
    needs_files=False,
)
