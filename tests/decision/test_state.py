"""Ids as plain arrays and back, and that nothing else comes back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aaggff.decision.state import array_to_ids, check_keys, ids_to_array, read_count, read_floats
from aaggff.errors import UserError

ATOM = st.one_of(st.integers(), st.text(max_size=5), st.binary(max_size=5), st.none())
ID = st.recursive(ATOM, lambda part: st.lists(part, max_size=3).map(tuple), max_leaves=4)


@given(st.lists(ID, max_size=8, unique=True))
def test_ids_of_any_kind_come_back_as_they_were(ids):
    array = ids_to_array(ids)
    assert array.dtype.kind in "iu"
    back = array_to_ids(array.copy())
    assert back == ids
    assert [type(name) for name in back] == [type(name) for name in ids]


@pytest.mark.parametrize("name", [float("nan"), frozenset([1]), ("a", object())])
def test_ids_that_cannot_be_stored_are_named(name):
    with pytest.raises(UserError, match=r"client id .*cannot be saved"):
        ids_to_array(["fine", name])


@pytest.mark.parametrize(
    "text",
    [
        "not json",
        "7",
        '{"tuple": [1]}',
        '[["a"]]',
        '"ab"',
        '[{"pickle": "x"}]',
        '[{"bytes": "é"}]',
        "[1,1]",
    ],
)
def test_bytes_that_are_no_list_of_ids_are_refused(text):
    with pytest.raises(UserError, match="state: 'ids'"):
        array_to_ids(np.frombuffer(text.encode(), dtype=np.uint8))


@pytest.mark.parametrize("array", [np.zeros(2), np.zeros((2, 2), np.int64), np.array(["a"])])
def test_arrays_that_are_no_ids_are_refused(array):
    with pytest.raises(UserError, match=r"state: 'ids' is .*, expected ids"):
        array_to_ids(array)


def test_entries_that_lack_or_are_strange_are_listed():
    with pytest.raises(UserError, match="lacks 'b' and has unexpected 'c'"):
        check_keys({"a": np.zeros(1), "c": np.zeros(1)}, ("a", "b"))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.array(["a"]), "expected 2 numbers"),
        (np.zeros(3), "expected 2 numbers"),
        (np.zeros((2, 1)), "expected 2 numbers"),
        (np.array([0.0, np.inf]), "finite numbers >= 0"),
        (np.array([0.0, -1.0]), "finite numbers >= 0"),
    ],
)
def test_numbers_are_checked(value, expected):
    with pytest.raises(UserError, match=expected):
        read_floats({"x": value}, "x", 2, lowest=0.0)


@pytest.mark.parametrize("value", [np.array(-1), np.array(0.5), np.array([1, 2])])
def test_counts_are_checked(value):
    with pytest.raises(UserError, match="expected one whole number >= 0"):
        read_count({"x": value}, "x")
