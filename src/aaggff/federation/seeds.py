"""Random numbers that depend on what they are for, never on who asks or in which order."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import torch


def derive(seed: int, round: int, client: int, purpose: str) -> int:
    """A 64-bit seed for one purpose, one client, one round.

    >>> derive(0, 1, 2, "shuffle") == derive(0, 1, 2, "shuffle") != derive(0, 1, 3, "shuffle")
    True
    """
    key = f"{seed}/{round}/{client}/{purpose}".encode()
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "little")


def generator(seed: int, round: int, client: int, purpose: str) -> torch.Generator:
    """A torch generator for this purpose alone."""
    made = torch.Generator()
    # torch takes 64 bits but as a signed number.
    made.manual_seed(derive(seed, round, client, purpose) >> 1)
    return made


def numpy_generator(seed: int, round: int, client: int, purpose: str) -> np.random.Generator:
    """A numpy generator for this purpose alone."""
    return np.random.default_rng(derive(seed, round, client, purpose))
