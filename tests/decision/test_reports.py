"""What is an error, what sets a client aside, and that nothing else does."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aaggff.decision.reports import FEW, SMALL, as_list, check_reports, total
from aaggff.errors import UserError


@pytest.mark.parametrize(
    ("report", "message"),
    [
        (([], [], []), "ids: the round is empty"),
        ((["a", "b", "a"], [1, 2, 3], [1, 1, 1]), "ids: client 'a' reports more than once"),
        ((np.arange(100) % 99, np.ones(100), np.ones(100)), "ids: client 0 reports more than once"),
        ((["a", "b"], [1.0], [1, 1]), "losses: 1 for 2 clients in ids; client 'b' has none"),
        ((["a"], [1.0], [1, 1]), "sizes: 2 for 1 clients in ids; 1 belong to no client"),
        ((["a", "b"], [1, 2], [3, 0]), "sizes: client 'b' reports 0 samples"),
        ((["a", "b"], [1, 2], [-3, 1]), "sizes: client 'a' reports -3 samples"),
        ((["a", "b"], [1, 2], [1, math.nan]), "sizes: client 'b' reports nan samples"),
        ((["a", "b"], [1, 2], [1, math.inf]), "sizes: client 'b' reports inf samples"),
        ((["a", "b"], [1, "high"], [1, 1]), "losses: client 'b' reports 'high'"),
        (("ab", [1, 2], [1, 1]), "ids: expected one id per client, got 'ab'"),
        ((5, [1], [1]), "ids: expected one id per client, got 5"),
        (([[1], 2], [1, 2], [1, 1]), r"ids: \[1\] at position 0 cannot be an id"),
        ((np.ones((2, 2), int), [1, 2], [1, 1]), r"ids: .* got shape \(2, 2\)"),
        (([1, 2], [[1, 2]], [1, 1]), r"losses: expected one number per client, got shape \(1, 2\)"),
        (([1, 2], 0.5, [1, 1]), r"losses: expected one number per client, got shape \(\)"),
    ],
)
def test_mistakes_of_the_server_name_the_argument_and_the_client(report, message):
    with pytest.raises(UserError, match=message):
        check_reports(*report)


@pytest.mark.parametrize(
    ("loss", "reason"),
    [
        (math.nan, "loss is nan"),
        (math.inf, "loss is inf"),
        (-math.inf, "loss is -inf"),
        (-0.5, "loss -0.5 is negative"),
        (1e300, "loss 1e+300 is above 1e+100"),
        (10**400, "loss is inf"),
        (None, "loss is nan"),
    ],
)
@pytest.mark.parametrize("extra", [0, SMALL])
def test_losses_no_client_can_have_are_set_aside(loss, reason, extra):
    ids = list(range(3 + extra))
    reports = check_reports(ids, [0.5, loss, *[1.0] * (1 + extra)], np.ones(3 + extra))
    assert reports.set_aside == {1: reason}
    assert len(reports) == 2 + extra
    assert as_list(reports.ids) == [0, *ids[2:]]
    assert reports.losses.tolist() == [0.5, *[1.0] * (1 + extra)]
    assert reports.spread(np.full(2 + extra, 0.5)).tolist() == [0.5, 0.0, *[0.5] * (1 + extra)]


@pytest.mark.parametrize("loss", [0.0, -0.0, 5e-324, 1e-300, 1e99, np.float32(2), True])
def test_odd_but_possible_losses_are_kept(loss):
    assert check_reports(["a"], [loss], [1]).losses.tolist() == [abs(float(loss))]


def test_without_sets_more_clients_aside():
    reports = check_reports(["a", "b", "c"], [1.0, math.nan, 3.0], [1, 2, 3])
    fewer = reports.without({"c": "update is not finite"})
    assert fewer.ids == ["a"]
    assert fewer.set_aside == {"b": "loss is nan", "c": "update is not finite"}
    assert fewer.losses.tolist() == [1.0]
    assert fewer.sizes.tolist() == [1.0]
    assert reports.without({}) is reports


@pytest.mark.parametrize(
    "ids",
    [
        range(50),
        [*range(50)],
        [np.int32(k) for k in range(50)],
        np.arange(50, dtype=np.uint16),
        np.arange(50, dtype=np.int64),
        tuple(range(50)),
    ],
)
def test_many_integers_become_one_array_whatever_they_came_as(ids):
    reports = check_reports(ids, np.ones(50), np.ones(50))
    assert isinstance(reports.ids, np.ndarray)
    assert reports.ids.dtype == np.int64


@pytest.mark.parametrize(
    "ids",
    [
        [*range(49), "last"],
        [*range(49), 2**70],
        [*range(49), (1, 2)],
        np.array([f"client {k}" for k in range(50)]),
        [np.str_(f"client {k}") for k in range(50)],
    ],
)
def test_other_ids_stay_what_they_are(ids):
    reports = check_reports(ids, np.ones(50), np.ones(50))
    assert reports.ids == list(ids)
    assert not any(isinstance(name, np.generic) for name in reports.ids)


def test_the_caller_keeps_its_arrays():
    losses = np.array([1.0, 2.0])
    reports = check_reports([1, 2], losses, [1, 1])
    losses[0] = 99
    assert reports.losses[0] == 1.0


@given(st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=40), st.randoms())
def test_a_total_is_the_sum_in_any_order(values, random):
    exact = float(sum(map(Fraction, values)))
    # Repeated beyond FEW, the other way of summing is used.
    for times in (1, 2 * FEW // len(values) + 1):
        many = np.array(values * times)
        shuffled = many.tolist()
        random.shuffle(shuffled)
        assert total(many) == total(np.array(shuffled))
        room = 1e-15 * times * sum(map(abs, values)) * 1e-9
        assert total(many) == pytest.approx(exact * times, rel=4e-16 * 2, abs=room)


def test_a_total_of_zeros_and_of_the_largest():
    assert total(np.zeros(10_000)) == 0.0
    assert total(np.full(10_000, 1e100)) == pytest.approx(1e104, rel=1e-15)
