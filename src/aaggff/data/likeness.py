"""What made-up samples of a client look like: images, sound, rows of words, tables.

Nothing is stored: whatever a client has follows from its number, so that 9,343 clients of 21
images each cost no memory. All clients share one law that a model can learn, and `skew` (0..1)
says how far they depart from it: each belongs to one of four groups, of 55, 25, 15 and 5 % of the
clients, with a law of its own; and what tells classes apart is fainter with some clients than with
others. So some are served worse by a model that is good on average, as in the data that these
stand for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from aaggff.data.rows import Array, Index, Samples
from aaggff.federation.seeds import numpy_generator

GROUPS = (0.55, 0.25, 0.15, 0.05)
Reals = NDArray[np.float32]


@dataclass(frozen=True)
class Law:
    """One client's departure from what all share."""

    generator: np.random.Generator
    """What else is drawn for the client, in a fixed order."""
    group: int
    clarity: float
    """How plainly its samples show what they show, 0.4..1."""


def law(name: str, client: int, skew: float) -> Law:
    """The client's law; the same whenever it is asked for."""
    generator = numpy_generator(0, 0, client, f"likeness of {name}")
    group = int(np.searchsorted(np.cumsum(GROUPS)[:-1], generator.random(), side="right"))
    return Law(generator, group, 0.7 + 0.3 * skew * generator.uniform(-1, 1))


def with_shares(generator: np.random.Generator, samples: int, shares: Array) -> Index:
    """Labels 0, 1, ... in random order, as nearly in these proportions as whole numbers can be.

    >>> np.bincount(with_shares(np.random.default_rng(0), 10, np.array([5, 3, 2]))).tolist()
    [5, 3, 2]
    """
    ends = np.cumsum(shares) / np.sum(shares)
    places = (np.arange(samples) + 0.5) / max(1, samples)
    return generator.permutation(np.searchsorted(ends[:-1], places, side="right"))


def client_shares(law: Law, shares: Array, skew: float, alike: float = 2.0) -> Array:
    """The client's own mix of classes: Dirichlet around `shares`; `alike` with skew 1, then more.

    With skew 0 it is `shares`.
    """
    if skew == 0:
        return shares
    drawn: Array = law.generator.dirichlet(shares * (len(shares) * alike / skew))
    return drawn


@dataclass(frozen=True)
class Images:
    """Bytes of shape (3, size, size): the class's pattern, an unrelated one, grain.

    shares: one row of class shares for everybody, or a row a client, which is then taken as it is.
    """

    name: str
    counts: Index
    shares: Array
    size: int
    skew: float

    def labels(self, client: int) -> Array:
        """The client's targets."""
        return self._drawn(client)[1]

    def samples(self, client: int, index: Index) -> Samples:
        """The client's samples of these numbers, painted now."""
        own, labels, disturbed, grain = self._drawn(client)
        shape = (3, self.size, self.size)
        classes, which = np.unique(labels[index], return_inverse=True)
        looks, others = _patterns(self.name, self.shares.shape[-1], self.size)
        mixed = (1 - 0.5 * self.skew) * looks[0][classes]
        mixed += 0.5 * self.skew * looks[1 + own.group][classes]
        style = others[own.group] * (20 * self.skew)
        ground = (112 + style + 40 * own.clarity * mixed).astype(np.uint8)
        disturbing = _disturbances(self.name, self.size)
        noise = _bytes(int(np.prod(shape)))
        images = np.empty((len(index), *shape), dtype=np.uint8)
        for place, row in enumerate(index):
            # 112 +- 20 +- 40, -28..28 and 0..63: between 24 and 255, so bytes do not overflow.
            first = int(grain[row])
            np.add(ground[which[place]], disturbing[disturbed[row]], out=images[place])
            images[place] += noise[first : first + images[place].size].reshape(shape)
        return images, labels[index]

    def _drawn(self, client: int) -> tuple[Law, Index, Index, Index]:
        own, samples = law(self.name, client, self.skew), int(self.counts[client])
        if self.shares.ndim == 2:
            shares = self.shares[client]
        else:
            shares = client_shares(own, self.shares, self.skew)
        labels = with_shares(own.generator, samples, shares)
        disturbed = own.generator.integers(0, DISTURBANCES, samples)
        return own, labels, disturbed, own.generator.integers(0, GRAIN, samples)


DISTURBANCES, GRAIN, COARSE = 64, 1 << 20, 6


@lru_cache(maxsize=2)
def _patterns(name: str, classes: int, size: int) -> tuple[Reals, Reals]:
    """Smooth patterns in -1..1: of each class, for all and for each group; and one a group."""
    generator = numpy_generator(0, 0, 0, f"patterns of {name}")
    groups = len(GROUPS)
    drawn = _smooth(generator, (groups + 1) * classes + groups, size)
    looks, others = np.split(drawn, [(groups + 1) * classes])
    return looks.reshape(groups + 1, classes, 3, size, size), others


@lru_cache(maxsize=2)
def _disturbances(name: str, size: int) -> NDArray[np.uint8]:
    """What images show besides: to be added modulo 256."""
    generator = numpy_generator(0, 0, 0, f"disturbances of {name}")
    return (28 * _smooth(generator, DISTURBANCES, size)).astype(np.int8).view(np.uint8)


def _smooth(generator: np.random.Generator, number: int, size: int) -> Reals:
    """Coarse grids of random numbers, interpolated to size x size and scaled to -1..1."""
    coarse = generator.standard_normal((number, 3, COARSE, COARSE), dtype=np.float32)
    places = np.linspace(0, COARSE - 1, size)
    low = np.minimum(places.astype(np.int64), COARSE - 2)
    weights = np.zeros((size, COARSE), dtype=np.float32)
    weights[np.arange(size), low] = 1 - (places - low)
    weights[np.arange(size), low + 1] = places - low
    smooth: Reals = np.matmul(np.matmul(weights, coarse), weights.T, dtype=np.float32)
    smooth /= np.abs(smooth).max(axis=(1, 2, 3), keepdims=True)
    return smooth


@lru_cache(maxsize=2)
def _bytes(longest: int) -> NDArray[np.uint8]:
    """Grain of 0..63: a sample takes what begins at a place of its own."""
    generator = numpy_generator(0, 0, 0, "grain")
    return generator.integers(0, 64, GRAIN + longest, dtype=np.uint8)


RATE, TONES, HISS = 16_000, 3, 1 << 20


@dataclass(frozen=True)
class Sounds:
    """A second of 16-bit sound of shape (1, 16000): a word of three tones, somewhere in hiss.

    Speakers differ in pitch, in loudness, in which words they say and, by group, in their accent.
    """

    counts: Index
    words: int
    skew: float

    def labels(self, client: int) -> Array:
        """The client's targets."""
        return self._drawn(client)[1]

    def samples(self, client: int, index: Index) -> Samples:
        """The client's clips of these numbers, sounded now."""
        own, labels, pitch, loudness, start, hiss = self._drawn(client)
        words, which = np.unique(labels[index], return_inverse=True)
        places = (np.arange(RATE) * pitch).astype(np.int64)
        all_say, group_says = _spoken(self.words)[[0, 1 + own.group]][:, words]
        said = (1 - 0.5 * self.skew) * all_say[:, places] + 0.5 * self.skew * group_says[:, places]
        said *= 6_000 * loudness * own.clarity
        noise = _hiss()
        clips = np.empty((len(index), 1, RATE), dtype=np.int16)
        for place, row in enumerate(index):
            clips[place, 0] = np.roll(said[which[place]], start[row])
            clips[place, 0] += noise[hiss[row] : hiss[row] + RATE]
        return clips, labels[index]

    def _drawn(self, client: int) -> tuple[Law, Index, float, float, Index, Index]:
        own, samples = law("speechcommands", client, self.skew), int(self.counts[client])
        shares = client_shares(own, np.full(self.words, 1 / self.words), self.skew)
        labels = with_shares(own.generator, samples, shares)
        pitch = float(np.exp(0.06 * self.skew * own.generator.uniform(-1, 1)))
        loudness = float(own.generator.uniform(0.5, 1.0))
        start = own.generator.integers(0, RATE // 4, samples)
        return own, labels, pitch, loudness, start, own.generator.integers(0, HISS, samples)


@lru_cache(maxsize=2)
def _spoken(words: int) -> Reals:
    """Each word as all say it and as each group does, in -1..1, with room for a higher pitch."""
    generator = numpy_generator(0, 0, 0, "spoken words")
    time = np.arange(int(RATE * 1.3), dtype=np.float32) / RATE
    spoken = np.zeros((len(GROUPS) + 1, words, time.size), dtype=np.float32)
    for each in spoken.reshape(-1, time.size):
        for _ in range(TONES):
            frequency, middle = generator.uniform(150, 2_000), generator.uniform(0.2, 0.45)
            envelope = np.exp(-(((time - middle) / generator.uniform(0.05, 0.12)) ** 2))
            each += envelope * np.sin(2 * np.pi * frequency * time)
    return spoken / np.float32(TONES)


@lru_cache(maxsize=1)
def _hiss() -> NDArray[np.int16]:
    generator = numpy_generator(0, 0, 0, "hiss")
    return generator.normal(0, 400, HISS + RATE).astype(np.int16)
