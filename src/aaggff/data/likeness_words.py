"""Made-up text and tables: what follows what, which questions agree, who pays back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from aaggff.data.likeness import GROUPS, Law, law, with_shares
from aaggff.data.rows import Array, Index, Samples
from aaggff.federation.seeds import numpy_generator

PAD, BOS, EOS, FIRST_WORD = 0, 2, 3, 4
LENGTH, NOTHING = 10, -100


@dataclass(frozen=True)
class Comments:
    """Rows of 10 tokens and what follows each: `<BOS> w w w <EOS> <PAD> ...`, words after Zipf.

    About half of the words follow from the word before: by the one rule of all, or in a group by
    its own.
    """

    counts: Index
    vocabulary: int
    skew: float

    def labels(self, client: int) -> Array:
        """The client's targets."""
        return self._made(client)[1]

    def samples(self, client: int, index: Index) -> Samples:
        """The client's rows of these numbers."""
        x, y = self._made(client)
        return x[index], y[index]

    def _made(self, client: int) -> Samples:
        own, rows = law("reddit", client, self.skew), int(self.counts[client])
        said = np.full((rows, LENGTH + 1), BOS, dtype=np.int64)
        follows = _successors(self.vocabulary)
        ends = _zipf(self.vocabulary - FIRST_WORD)
        # Which words the group uses in its own way.
        rule = np.where(_own_words(self.vocabulary, self.skew), follows[1 + own.group], follows[0])
        for place in range(1, LENGTH + 1):
            free = FIRST_WORD + np.searchsorted(ends[:-1], own.generator.random(rows))
            led = own.generator.random(rows) < 0.8 * own.clarity
            said[:, place] = np.where(led, rule[said[:, place - 1]], free)
        # Two rows in five are a comment of fewer words than fill them.
        words = own.generator.integers(2, LENGTH - 1, rows)
        ended = np.where(own.generator.random(rows) < 0.4, words + 1, LENGTH + 1)
        places = np.arange(LENGTH + 1)
        said[places == ended[:, None]] = EOS
        said[places > ended[:, None]] = PAD
        following = said[:, 1:].copy()
        following[following == PAD] = NOTHING
        return said[:, :-1].astype(np.int16), following.astype(np.int16)


@lru_cache(maxsize=2)
def _successors(vocabulary: int) -> Index:
    """What follows each word, for all and for each group; frequent words follow most."""
    generator = numpy_generator(0, 0, 0, "what follows what")
    drawn = generator.random((len(GROUPS) + 1, vocabulary))
    return FIRST_WORD + np.searchsorted(_zipf(vocabulary - FIRST_WORD)[:-1], drawn)


@lru_cache(maxsize=2)
def _own_words(vocabulary: int, skew: float) -> NDArray[np.bool_]:
    drawn = numpy_generator(0, 0, 0, "words of groups").random(vocabulary)
    return drawn < 0.5 * skew


@lru_cache(maxsize=4)
def _zipf(words: int) -> NDArray[np.float64]:
    """Cumulated frequencies, the r-th most frequent word's proportional to 1/(r + 2.7)."""
    ends: NDArray[np.float64] = np.cumsum(1 / (np.arange(1, words + 1) + 2.7))
    ends /= ends[-1]
    return ends


CLS, SEP, WORDPIECES, SPECIAL = 101, 102, 30_522, 1_000
TOPICS, TOPICAL, TELLING = 40, 60, 50


@dataclass(frozen=True)
class Pairs:
    """`[CLS] q1 [SEP] q2 [SEP]` in the numbers of BERT's vocabulary, padded with 0.

    Two questions that mean the same share most of their words; two that do not share the topic
    only. Some words by themselves speak for one or the other, so that a small or untrained encoder
    learns something too.
    """

    counts: Index
    longest: int
    skew: float

    def labels(self, client: int) -> Array:
        """The client's targets."""
        return self._labels(client)[1]

    def samples(self, client: int, index: Index) -> Samples:
        """The client's pairs of these numbers."""
        own, labels = self._labels(client)
        tokens = np.zeros((len(labels), self.longest), dtype=np.int32)
        for row, same in enumerate(labels.tolist()):
            first, second = self._pair(own, same)
            # Cut as a tokenizer does: the longer question gives way.
            while first.size + second.size > self.longest - 3:
                first, second = (first[:-1], second) if first.size > second.size else (
                    first, second[:-1]
                )  # fmt: skip
            pair = np.concatenate([[CLS], first, [SEP], second, [SEP]])
            tokens[row, : pair.size] = pair
        return tokens[index], labels[index]

    def _labels(self, client: int) -> tuple[Law, Index]:
        own = law("mqp", client, self.skew)
        return own, with_shares(own.generator, int(self.counts[client]), np.array([1, 1]))

    def _pair(self, own: Law, same: int) -> tuple[Index, Index]:
        draw = own.generator
        topic = SPECIAL + TOPICAL * int(draw.integers(TOPICS))
        first, second = (topic + draw.integers(0, TOPICAL, draw.integers(8, 40)) for _ in range(2))
        if same:
            kept = draw.permutation(first)[: max(1, int(0.7 * first.size))]
            second = np.concatenate([kept, second[: max(1, int(0.3 * first.size))]])
        telling = SPECIAL + TOPICS * TOPICAL + TELLING * (same + 2 * own.group * (self.skew > 0))
        at = draw.random(second.size) < 0.15 * own.clarity
        second[at] = telling + draw.integers(0, TELLING, int(at.sum()))
        return first, second


NUMBERS, LEVELS = 13, (0.6, 0.25, 0.15)


@dataclass(frozen=True)
class Loans:
    """13 numbers and 2 indicators; the riskiest of a region's loans are not paid back.

    defaults: how many of each client's samples have target 1.
    """

    counts: Index
    defaults: Index
    skew: float

    def labels(self, client: int) -> Array:
        """The client's targets."""
        return self._made(client)[1]

    def samples(self, client: int, index: Index) -> Samples:
        """The client's loans of these numbers."""
        x, y = self._made(client)
        return x[index], y[index]

    def _made(self, client: int) -> Samples:
        own, rows = law("berka", client, self.skew), int(self.counts[client])
        numbers = own.generator.standard_normal((rows, NUMBERS))
        level = with_shares(own.generator, rows, np.array(LEVELS))
        x = np.column_stack([numbers, level == 1, level == 2]).astype(np.float64)
        shared = numpy_generator(0, 0, 0, "risk").standard_normal(x.shape[1])
        weights = shared + self.skew * own.generator.standard_normal(x.shape[1])
        risk = x @ weights + own.generator.logistic(0, 1.5 / own.clarity, rows)
        labels = np.zeros(rows, dtype=np.uint8)
        labels[np.argsort(-risk, kind="stable")[: int(self.defaults[client])]] = 1
        return x, labels
