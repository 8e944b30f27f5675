"""Random numbers that depend on what they are for, never on who asks or in which order."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import torch
from numpy.typing import NDArray

Index = NDArray[np.int64]
_Words = NDArray[np.uint64]

# SplitMix64 (Steele, Lea, Flood 2014): its increment and the two multipliers of its output mix.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_INDEX = np.uint64(0xFFFFFFFF)


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


def permutations(seed: int, round: int, clients: Index, sizes: Index, epoch: int = 0) -> Index:
    """In which order each client goes through its samples: its permutation of 0..n-1, end to end.

    One generator per client would cost more than a small client's training. Here every sample's
    place is decided by a hash of (seed, round, client, epoch, sample), all clients at once: the
    samples of a client are sorted by their hash. So a client's order does not depend on who else
    is asked for.

    >>> both = permutations(0, 1, np.array([7, 9]), np.array([3, 5]))
    >>> sorted(both[:3].tolist()), bool((both[3:] == permutation(0, 1, 9, 5)).all())
    ([0, 1, 2], True)
    """
    start = np.uint64(derive(seed, round, epoch, "shuffle"))
    keys = _mix(_mix(start + clients.astype(np.uint64) * _STEP))
    size = int(sizes[0]) if len(sizes) else 0
    if (sizes == size).all():
        index = np.arange(size, dtype=np.uint64)
        words = _mix(keys[:, None] + index * _STEP)
        # The sample's number takes the low half, so that sorting the words sorts the numbers too
        # (several times faster than argsort) and equal hashes cannot depend on the sort.
        words &= ~_INDEX
        words |= index
        words.sort(axis=1)
    else:
        ends = np.cumsum(sizes)
        index = (np.arange(int(ends[-1])) - np.repeat(ends - sizes, sizes)).astype(np.uint64)
        words = _mix(np.repeat(keys, sizes) + index * _STEP)
        words &= ~_INDEX
        words |= index
        for low, high in zip((ends - sizes).tolist(), ends.tolist()):
            words[low:high].sort()
    words &= _INDEX
    order: Index = words.reshape(-1).view(np.int64)
    return order


def permutation(seed: int, round: int, client: int, size: int, epoch: int = 0) -> Index:
    """`permutations` for one client."""
    return permutations(seed, round, np.array([client]), np.array([size]), epoch)


def _mix(words: _Words) -> _Words:
    """SplitMix64's output function, in place: every input bit reaches every output bit."""
    words ^= words >> np.uint64(30)
    words *= _MIX[0]
    words ^= words >> np.uint64(27)
    words *= _MIX[1]
    words ^= words >> np.uint64(31)
    return words
