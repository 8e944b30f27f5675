"""Dealing one pool out: every row to one client, as unlike as asked, the counts shown."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aaggff
from aaggff.data.partition import (
    PARTITIONS,
    by_column,
    by_label,
    counts,
    deal,
    dirichlet,
    dirichlet_shares,
    iid,
    owners,
    quantity_skew,
    show,
)
from aaggff.errors import UserError

LABELS = np.repeat(np.arange(10), 60)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def dealt(partition: str, labels: np.ndarray = LABELS, clients: int = 12, **options) -> list:
    given = {"alpha": 0.1, "labels_each": 2, "min_size": 1, **options}
    return deal(partition, labels, clients, rng(options.pop("seed", 0)), **given)


@settings(max_examples=60, deadline=None)
@given(
    partition=st.sampled_from(PARTITIONS),
    samples=st.integers(20, 300),
    classes=st.integers(1, 12),
    clients=st.integers(1, 20),
    alpha=st.sampled_from([1e-3, 0.1, 1.0, 1e3]),
    seed=st.integers(0, 99),
)
def test_every_row_goes_to_exactly_one_client(
    partition, samples, classes, clients, alpha, seed
) -> None:
    labels = rng(seed).integers(0, classes, samples)
    parts = deal(partition, labels, clients, rng(seed), alpha=alpha, labels_each=1, min_size=1)
    assert len(parts) == clients
    assert sorted(np.concatenate(parts).tolist()) == list(range(samples))
    assert all(len(part) >= 1 and (np.diff(part) > 0).all() for part in parts)


@pytest.mark.parametrize("partition", PARTITIONS)
def test_the_generator_decides(partition: str) -> None:
    def made(seed: int) -> list[list[int]]:
        parts = deal(partition, LABELS, 12, rng(seed), alpha=0.1, labels_each=2, min_size=1)
        return [part.tolist() for part in parts]

    assert made(1) == made(1)
    assert made(1) != made(2)


def classes_each(parts: list) -> float:
    return float((counts(parts, LABELS) > 0).sum(axis=1).mean())


@pytest.mark.parametrize("partition", ["dirichlet", "dirichlet-shares"])
def test_small_alpha_means_few_classes(partition: str) -> None:
    few, some, all_ = (classes_each(dealt(partition, alpha=alpha)) for alpha in (0.01, 0.5, 1e4))
    assert few < 0.5 * all_
    assert few < some < all_
    assert all_ > 9.5


def test_dirichlet_gives_equal_sizes_and_shares_that_follow_alpha() -> None:
    parts = dirichlet(LABELS, 12, 1e6, rng())
    assert [len(part) for part in parts] == [50] * 12
    # Alike: each client has about five of each class (multinomial around it).
    assert np.abs(counts(parts, LABELS) - 5).mean() < 3
    assert classes_each(dirichlet(LABELS, 100, 0.01, rng())) < 2


@pytest.mark.parametrize("minimum", [1, 5, 30, 50])
def test_dirichlet_shares_and_quantity_keep_a_minimum_size(minimum: int) -> None:
    for partition in ("dirichlet-shares", "quantity"):
        sizes = [len(part) for part in dealt(partition, alpha=0.01, min_size=minimum)]
        assert min(sizes) >= minimum
        assert sum(sizes) == 600
    if minimum == 50:  # 12 x 50 = 600: nothing is left to be unlike in
        assert set(sizes) == {50}


def test_quantity_skew_is_in_sizes_only() -> None:
    sizes = {alpha: [len(part) for part in quantity_skew(LABELS, 6, alpha, rng())] for alpha in
             (0.1, 1e5)}  # fmt: skip
    assert max(sizes[0.1]) > 3 * 100
    assert max(sizes[1e5]) < 1.1 * 100
    largest = max(quantity_skew(LABELS, 6, 0.1, rng()), key=len)
    assert (np.bincount(LABELS[largest]) > 0).all()


def test_iid_is_alike() -> None:
    parts = iid(LABELS, 7, rng())
    assert {len(part) for part in parts} == {85, 86}
    assert (counts(parts, LABELS) > 0).all()


@pytest.mark.parametrize("each", [1, 2, 3])
def test_by_label_gives_about_as_many_classes(each: int) -> None:
    found = (counts(by_label(LABELS, 20, each, rng()), LABELS) > 0).sum(axis=1)
    assert found.max() <= each + 1
    assert found.mean() <= each


def test_by_column_is_one_client_a_value_and_leaves_out_rare_ones() -> None:
    values = np.array(["north", "south", "north", "west", "south", "north"])
    parts = by_column(values)
    assert [part.tolist() for part in parts] == [[0, 2, 5], [1, 4], [3]]
    kept = by_column(values, min_size=2)
    assert [values[part[0]] for part in kept] == ["north", "south"]
    assert owners(kept, len(values)).tolist() == [0, 1, 0, -1, 1, 0]


def test_what_came_of_it_is_counted_and_shown() -> None:
    parts = dirichlet_shares(LABELS, 12, 0.1, rng())
    table = counts(parts, LABELS)
    assert table.shape == (12, 10)
    assert table.sum(axis=0).tolist() == [60] * 10
    assert table.sum(axis=1).tolist() == [len(part) for part in parts]
    lines = show(parts, LABELS, most=3).splitlines()
    assert lines[0] == "12 clients, 600 samples"
    first = lines[5].split()
    assert [int(word) for word in first] == [0, len(parts[0]), *table[0]]
    assert lines[-1] == "... and 9 more"


@pytest.mark.parametrize("partition", PARTITIONS)
def test_a_partition_becomes_a_federation(partition: str) -> None:
    parts = dealt(partition, min_size=4)
    x = rng().normal(size=(600, 3)).astype(np.float32)
    data = aaggff.from_arrays(x, LABELS, owners(parts))
    assert (data.train_sizes + data.test_sizes).tolist() == [len(part) for part in parts]


MISTAKES: list[tuple[Callable[[], object], str]] = [
    (lambda: dealt("dirichlt"), "did you mean 'dirichlet'"),
    (lambda: iid(LABELS, 601, rng()), "600 samples cannot be dealt to 601 clients"),
    (lambda: iid(LABELS, 0, rng()), "cannot be dealt to 0 clients"),
    (lambda: dirichlet(LABELS, 5, 0.0, rng()), "alpha must be above 0"),
    (lambda: dirichlet(LABELS, 5, float("nan"), rng()), "alpha must be above 0"),
    (lambda: dirichlet(LABELS, 300, 1.0, rng(), min_size=3), "at least 3 each"),
    (lambda: dirichlet_shares(LABELS, 300, 1.0, rng(), min_size=3), "at least 3 each"),
    (lambda: dirichlet_shares(LABELS, 3, -1.0, rng()), "alpha must be above 0"),
    (lambda: quantity_skew(LABELS, 3, -1.0, rng()), "alpha must be above 0"),
    (lambda: by_label(LABELS, 5, 0, rng()), "at least 1"),
    (lambda: by_label(LABELS, 400, 2, rng()), "400 x 2 shards"),
    (lambda: by_column(["a", "b"], min_size=2), "occurs 2 times"),
    (lambda: by_column([]), "occurs 1 times"),
]


@pytest.mark.parametrize(("mistake", "says"), MISTAKES)
def test_a_mistake_is_one_clear_line(mistake: Callable[[], object], says: str) -> None:
    with pytest.raises(UserError) as error:
        mistake()
    assert says in str(error.value)
    assert "\n" not in str(error.value)
