"""What can be read off a decision: who was set aside, and how far it is from plain averaging."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aaggff import decision_maker
from aaggff.decision.base import Decision


def test_entropy_effective_clients_and_divergence_by_hand():
    decision = Decision(["a", "b", "c"], np.array([0.5, 0.25, 0.25]), np.array([1.0, 1.0, 2.0]))
    assert decision.entropy == pytest.approx(1.5 * math.log(2))
    assert decision.effective_clients == pytest.approx(2**1.5)
    expected = 0.5 * math.log(0.5 / 0.25) + 0.25 * math.log(0.25 / 0.5)
    assert decision.kl_from_size == pytest.approx(expected)


def test_a_dictator_and_a_democracy():
    dictator = Decision([1, 2], np.array([1.0, 0.0]), np.array([1.0, 3.0]))
    assert (dictator.entropy, dictator.effective_clients) == (0.0, 1.0)
    assert dictator.kl_from_size == pytest.approx(math.log(4))
    sized = decision_maker("fedavg")
    sized.decide([1, 2], [0.1, 0.2], [1, 3])
    assert sized.last.kl_from_size == 0.0


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(5e-324, 1e100)), min_size=1, max_size=20).filter(
        lambda rows: sum(w for w, _ in rows) > 1e-6
    )
)
def test_the_divergence_is_finite_and_never_negative(rows):
    weights, sizes = map(np.array, zip(*rows))
    decision = Decision(list(range(len(rows))), weights / weights.sum(), sizes)
    assert 0 <= decision.kl_from_size < math.inf
    assert 1 <= decision.effective_clients <= len(rows) * (1 + 1e-9)


def test_what_was_set_aside_can_be_read_with_its_reason():
    maker = decision_maker("aaggff-s")
    weights = maker.decide(["a", "b", "c"], [0.5, math.inf, -2.0], [1, 1, 1])
    assert maker.last.set_aside == {"b": "loss is inf", "c": "loss -2 is negative"}
    assert weights.tolist() == [1.0, 0.0, 0.0]
    assert maker.last.responses.tolist()[1:] == [0.0, 0.0]
