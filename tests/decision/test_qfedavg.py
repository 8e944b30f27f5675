"""q-FedAvg's step against the formula its authors print, with vectors of updates."""

from __future__ import annotations

import numpy as np
import pytest

from aaggff import decision_maker
from aaggff.errors import UserError

RNG = np.random.default_rng(7)
LOSSES = np.array([0.3, 1.7, 0.9])
UPDATES = RNG.normal(size=(3, 11))
REPORT = (["a", "b", "c"], LOSSES, [40, 10, 30])


@pytest.mark.parametrize("lr", [0.01, 0.5])
@pytest.mark.parametrize("q", [0, 0.1, 1, 5])
def test_the_step_is_the_authors(q, lr):
    L = 1 / lr
    h = q * LOSSES ** (q - 1) * np.sum((L * UPDATES) ** 2, axis=1) + L * LOSSES**q
    change = np.sum(LOSSES[:, None] ** q * L * UPDATES, axis=0) / h.sum()
    maker = decision_maker("qfedavg", q=q)
    weights = maker.decide(*REPORT, updates=UPDATES, lr=lr)
    np.testing.assert_allclose(weights, LOSSES**q / (LOSSES**q).sum(), rtol=1e-12)
    np.testing.assert_allclose(maker.last.step * (weights @ UPDATES), change, rtol=1e-12)


@pytest.mark.parametrize("form", ["gram", "diagonal"])
def test_inner_products_do_instead_of_updates(form):
    gram = UPDATES @ UPDATES.T
    one, other = decision_maker("qfedavg"), decision_maker("qfedavg")
    one.decide(*REPORT, updates=UPDATES, lr=0.1)
    other.decide(*REPORT, gram=gram if form == "gram" else np.diagonal(gram), lr=0.1)
    assert one.last.step == pytest.approx(other.last.step, rel=1e-12)


def test_nobody_moved_or_nobody_has_a_loss():
    maker = decision_maker("qfedavg")
    maker.decide(*REPORT, updates=np.zeros((3, 2)), lr=0.1)
    assert maker.last.step == 1.0
    weights = maker.decide(["a", "b"], [0.0, 0.0], [30, 10], updates=np.ones((2, 2)), lr=0.1)
    assert weights.tolist() == [0.5, 0.5]
    assert 0 <= maker.last.step <= 1


def test_an_update_that_is_not_finite_sets_its_client_aside():
    maker, without = decision_maker("qfedavg"), decision_maker("qfedavg")
    bad = UPDATES.copy()
    bad[1, 3] = np.nan
    weights = maker.decide(*REPORT, updates=bad, lr=0.1)
    assert maker.last.set_aside == {"b": "update is not finite"}
    rest = without.decide(["a", "c"], LOSSES[[0, 2]], [40, 30], updates=UPDATES[[0, 2]], lr=0.1)
    assert weights.tolist() == [rest[0], 0.0, rest[1]]
    assert maker.last.step == without.last.step


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"updates": UPDATES}, r"lr: .* learning rate, a positive number, got None"),
        ({"updates": UPDATES, "lr": 0.0}, "lr: "),
        ({"lr": 0.1}, "updates: this method decides from the updates"),
        ({"updates": UPDATES[:2], "lr": 0.1}, "updates: expected 3 rows"),
        ({"updates": [[1], [1, 2], [3]], "lr": 0.1}, "updates: expected one row of numbers"),
        ({"gram": np.ones((2, 2)), "lr": 0.1}, r"gram: expected shape \(3, 3\)"),
    ],
)
def test_what_it_needs_is_asked_for(extra, message):
    with pytest.raises(UserError, match=message):
        decision_maker("qfedavg").decide(*REPORT, **extra)
