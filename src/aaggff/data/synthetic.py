"""Synthetic(alpha, beta): clients that differ in their model (alpha) and in their inputs (beta).

The generator of the FedProx and q-FFL papers (and, with other sizes, LEAF's). Every client comes
from the seed and its own number alone, when it is asked for, so a million clients cost no more
memory than one.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from aaggff.data.spec import DatasetSpec, Option, PaperSettings
from aaggff.errors import UserError
from aaggff.federation.data import Part, Task
from aaggff.federation.seeds import numpy_generator

FEATURES, CLASSES = 60, 10
_SPREAD = (np.arange(1, FEATURES + 1) ** -0.6).astype(np.float32)  # sqrt of j^-1.2

Array = NDArray[np.float32]


class SyntheticData:
    """K clients generated when sampled, never stored.

    For client k: u_k ~ N(0, alpha), W_k and b_k ~ N(u_k, 1), B_k ~ N(0, beta),
    v_k ~ N(B_k, 1), x ~ N(v_k, diag(j^-1.2)), y = argmax(W_k x + b_k). The second number is a
    variance throughout. Sizes are log-normal plus a minimum, cut at a maximum.
    """

    name = "synthetic"
    stand_in = False
    task = Task("multiclass", CLASSES, "top1")

    def __init__(
        self,
        clients: int,
        *,
        alpha: float,
        beta: float,
        seed: int,
        size_mean: float,
        size_deviation: float,
        min_size: int,
        max_size: int,
    ) -> None:
        self.alpha, self.beta, self.seed = alpha, beta, seed
        generator = numpy_generator(seed, 0, 0, "synthetic sizes")
        drawn = generator.lognormal(size_mean, size_deviation, clients) + min_size
        sizes = np.minimum(drawn, max_size).astype(np.int64)
        # Samples are alike and independent, so the last fifth is as good a test part as any.
        self.test_sizes = np.maximum(1, np.rint(0.2 * sizes)).astype(np.int64)
        self.train_sizes = sizes - self.test_sizes

    def __len__(self) -> int:
        return len(self.train_sizes)

    def train(self, client: int) -> Part:
        """Client `client`'s training part, made now."""
        return self._samples(client, "synthetic train", int(self.train_sizes[client]))

    def test(self, client: int) -> Part:
        """Client `client`'s test part, made now."""
        return self._samples(client, "synthetic test", int(self.test_sizes[client]))

    def prepare(self, inputs: torch.Tensor) -> torch.Tensor:
        """Nothing to do: samples are ready."""
        return inputs

    def client_name(self, client: int) -> str:
        """Its number."""
        return str(client)

    def _samples(self, client: int, part: str, size: int) -> Part:
        weights, bias, centre = self._law(client)
        generator = numpy_generator(self.seed, 0, client, part)
        noise = generator.standard_normal((size, FEATURES), dtype=np.float32)
        inputs = centre + noise * _SPREAD
        targets = np.argmax(inputs @ weights + bias, axis=1)
        return torch.from_numpy(inputs), torch.from_numpy(targets)

    def _law(self, client: int) -> tuple[Array, Array, Array]:
        """W_k (transposed), b_k and v_k."""
        generator = numpy_generator(self.seed, 0, client, "synthetic law")
        model_mean = np.sqrt(self.alpha) * generator.standard_normal()
        input_mean = np.sqrt(self.beta) * generator.standard_normal()
        weights = model_mean + generator.standard_normal((FEATURES, CLASSES))
        bias = model_mean + generator.standard_normal(CLASSES)
        centre = input_mean + generator.standard_normal(FEATURES)
        return (
            weights.astype(np.float32),
            bias.astype(np.float32),
            centre.astype(np.float32),
        )


def load(
    root: Path | None = None,
    *,
    seed: int = 0,
    clients: int = 100,
    alpha: float = 1.0,
    beta: float = 1.0,
    size_mean: float = 4.0,
    size_deviation: float = 2.0,
    min_size: int = 50,
    max_size: int = 10_000,
) -> SyntheticData:
    """Synthetic(alpha, beta) with `clients` clients; `root` is not needed.

    >>> data = load(clients=1_500_000, seed=7)
    >>> inputs, targets = data.train(1_499_999)
    >>> len(data), tuple(inputs.shape) == (data.train_sizes[-1], 60)
    (1500000, True)
    """
    if clients < 1:
        raise UserError(f"data.clients must be at least 1, not {clients}")
    for option, value in (("alpha", alpha), ("beta", beta), ("size_deviation", size_deviation)):
        if not (np.isfinite(value) and value >= 0):
            raise UserError(f"data.{option} must be a number >= 0, not {value}")
    if not 2 <= min_size <= max_size:
        raise UserError(f"data.min_size ({min_size}) must be at least 2 and at most max_size")
    return SyntheticData(
        clients,
        alpha=alpha,
        beta=beta,
        seed=seed,
        size_mean=size_mean,
        size_deviation=size_deviation,
        min_size=min_size,
        max_size=max_size,
    )


SPEC = DatasetSpec(
    name="synthetic",
    title="Synthetic(alpha, beta), any number of clients",
    licence="none needed (generated)",
    credit="after Li et al. 2020 (FedProx, q-FFL) and Caldas et al. 2018 (LEAF)",
    settings=PaperSettings(rounds=200, per_round=10, model="logistic", lr=0.01, batch_size=20),
    load=load,
    options={
        "clients": Option(100, "how many clients"),
        "alpha": Option(1.0, "variance of the clients' mean weight: how much models differ"),
        "beta": Option(1.0, "variance of the clients' mean input: how much inputs differ"),
        "size_mean": Option(4.0, "mean of the logarithm of sizes"),
        "size_deviation": Option(2.0, "deviation of the logarithm of sizes"),
        "min_size": Option(50, "added to every size"),
        "max_size": Option(10_000, "no client has more samples"),
    },
    needs_files=False,
)
