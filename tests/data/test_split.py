"""80 % to learn from, 20 % to be judged on: by seed, and stratified wherever that is possible."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aaggff.data.federated import FederatedRows
from aaggff.data.rows import ArrayRows
from aaggff.data.split import split_client
from aaggff.federation.data import Task


@settings(max_examples=150, deadline=None)
@given(
    labels=st.lists(st.integers(0, 4), min_size=1, max_size=80),
    seed=st.integers(0, 9),
    client=st.integers(0, 99),
)
def test_each_row_is_in_one_part_and_the_sizes_are_80_to_20(labels, seed, client) -> None:
    train, test = split_client(len(labels), labels, seed=seed, client=client)
    assert sorted([*train, *test]) == list(range(len(labels)))
    assert (np.diff(train) > 0).all()
    assert (np.diff(test) > 0).all()
    expected = 0 if len(labels) < 2 else min(len(labels) - 1, max(1, round(0.2 * len(labels))))
    assert len(test) == expected


@settings(max_examples=150, deadline=None)
@given(
    sizes=st.lists(st.integers(2, 40), min_size=2, max_size=6),
    seed=st.integers(0, 9),
)
def test_each_class_gives_its_share_where_every_class_has_two_rows(sizes, seed) -> None:
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    _, test = split_client(labels.size, labels, seed=seed, client=0)
    found = np.bincount(labels[test], minlength=len(sizes))
    share = len(test) * np.array(sizes) / labels.size
    assert (np.abs(found - share) < 1).all()


def test_a_class_of_one_row_switches_stratifying_off() -> None:
    labels = [0] * 50 + [1] * 49 + [2]
    zeros = {
        int(np.isin(split_client(100, labels, seed=seed, client=0)[1], np.arange(50)).sum())
        for seed in range(30)
    }
    assert len(zeros) > 3  # by chance
    labels[-1] = 1
    zeros = {
        int(np.isin(split_client(100, labels, seed=seed, client=0)[1], np.arange(50)).sum())
        for seed in range(30)
    }
    assert zeros == {10}


def test_seed_and_client_decide_and_nothing_else() -> None:
    def made(seed: int, client: int) -> list[int]:
        return split_client(30, [0, 1] * 15, seed=seed, client=client)[1].tolist()

    assert made(2, 5) == made(2, 5)
    assert made(2, 5) != made(4, 5)
    assert made(2, 5) != made(2, 6)


def test_where_shares_tie_no_class_is_favoured() -> None:
    # Five rows of each of two classes, three for the test part: one class gives two.
    more = [
        int((split_client(15, [0] * 5 + [1] * 5 + [2] * 5, seed=s, client=0,
                          test_fraction=4 / 15)[1] < 5).sum())
        for s in range(60)
    ]  # fmt: skip
    assert set(more) == {1, 2}
    assert 8 < more.count(2) < 35


@pytest.mark.parametrize("samples", [0, 1, 2, 3])
def test_who_has_almost_nothing_trains_on_it(samples: int) -> None:
    train, test = split_client(samples, [0] * samples, seed=0, client=0)
    assert (len(train), len(test)) == [(0, 0), (1, 0), (1, 1), (2, 1)][samples]


def test_a_federation_knows_the_sizes_before_it_splits() -> None:
    counts = np.array([0, 1, 2, 3, 7, 8, 12, 13, 100])
    offsets = np.concatenate([[0], np.cumsum(counts)])
    y = np.random.default_rng(0).integers(0, 2, counts.sum())
    data = FederatedRows(
        "sizes", Task("binary", 1, "auroc"), ArrayRows(np.arange(y.size), y, offsets)
    )
    for client in range(len(data)):
        train, test = data.split(client)
        assert (len(train), len(test)) == (data.train_sizes[client], data.test_sizes[client])
