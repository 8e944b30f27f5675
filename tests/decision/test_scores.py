"""The score table against a plain dictionary."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aaggff.decision.scores import MIX, Scores

INT64 = st.integers(-(2**63), 2**63 - 1)
ANY = st.one_of(INT64, st.text(max_size=3), st.tuples(st.text(max_size=2), INT64), st.booleans())


def as_dict(scores):
    ids, values = scores.items()
    names = ids if isinstance(ids, list) else ids.tolist()
    return dict(zip(names, values.tolist()))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(INT64, min_size=1, max_size=60, unique=True), max_size=12), st.booleans())
def test_integers_behave_as_in_a_dictionary(rounds, as_arrays):
    scores, expected = Scores(), {}
    for t, ids in enumerate(rounds):
        by = np.arange(len(ids)) + 0.25 * t
        got = scores.add(np.array(ids) if as_arrays else ids, by)
        for k, name in enumerate(ids):
            expected[name] = expected.get(name, 0.0) + by[k]
        assert got.tolist() == [expected[name] for name in ids]
    assert as_dict(scores) == expected
    assert len(scores) == len(expected)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(ANY, min_size=1, max_size=20, unique=True), max_size=8))
def test_any_hashable_behaves_as_in_a_dictionary(rounds):
    scores, expected = Scores(), {}
    for ids in rounds:
        # True == 1 in a dictionary; a federation that uses both as ids has other problems.
        names = [name for name in ids if not isinstance(name, bool)]
        if names:
            got = scores.add(names, np.ones(len(names)))
            for name in names:
                expected[name] = expected.get(name, 0.0) + 1.0
            assert got.tolist() == [expected[name] for name in names]
    assert as_dict(scores) == expected


def test_ids_that_all_fall_on_one_slot_are_told_apart():
    inverse = pow(MIX, -1, 2**64)  # these ids times MIX are 0, 1, 2, ...: the same leading bits
    ids = [(k * inverse) % 2**64 for k in range(200)]
    ids = np.array([k - 2**64 if k >= 2**63 else k for k in ids], dtype=np.int64)
    by = np.arange(200.0)
    for listed in (False, True):
        scores = Scores()
        for _ in range(2):
            got = scores.add(ids.tolist() if listed else ids, by)
        assert got.tolist() == (2 * by).tolist()
        assert len(scores) == 200


def test_a_large_round_and_small_ones_share_one_table():
    rng = np.random.default_rng(0)
    ids = rng.permutation(50_000)
    scores = Scores()
    scores.add(ids, np.ones(ids.size))
    assert scores.add([5, 49_999, 50_000], np.ones(3)).tolist() == [2.0, 2.0, 1.0]
    assert scores.add(np.array([5, 50_000]), np.ones(2)).tolist() == [3.0, 2.0]
    assert len(scores) == 50_001


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])  # noqa: S301
def test_a_copy_goes_its_own_way(duplicate):
    scores = Scores()
    scores.add([1, "a"], np.ones(2))
    other = duplicate(scores)
    other.add([1, "a", 2], np.ones(3))
    assert as_dict(scores) == {1: 1.0, "a": 1.0}
    assert as_dict(other) == {1: 2.0, "a": 2.0, 2: 1.0}


def test_without():
    scores = Scores()
    scores.add([1, "a", 2], np.array([1.0, 2.0, 3.0]))
    assert as_dict(scores.without(["a", 1])) == {2: 3.0}
    assert len(scores.without([1, 2, "a"])) == 0
