"""Every method, with every option that changes what it does, holds what any decision maker must.

One table: a new rule or option is a row here. The rest shows that the suite can fail, property by
property, and drives hostile rounds into every row.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from aaggff import decision_maker, track_regret
from aaggff.decision.base import DecisionMaker
from aaggff.decision.methods import METHODS
from aaggff.decision.reports import LARGEST, check_reports
from aaggff.decision.responses import CDFS, CdfResponse
from aaggff.decision.state import array_to_ids, check_keys, ids_to_array, read_floats
from aaggff.testing import PROPERTIES, check_decision_maker

AAGGFF = [
    *({"cdf": cdf} for cdf in CDFS),
    {"cdf": "weibull", "scale": 2.0, "shape": 0.5},
    {"cdf": "logistic", "fit": "spacing"},
    {"low": 0.5, "high": 2.0},
    {"strength": 0.0},
    {"strength": 50.0},
    {"prior": "size"},
    {"prior": "size", "strength": 0.0},
]
BILLIONS = {"clients": 3_000_000_000, "rate": 2e-9}

# method -> the options of each of its rows
TABLE = {
    "fedavg": [{}],
    "uniform": [{}],
    "qfedavg": [{"q": q, "step": step} for q in (0, 0.1, 1, 5) for step in ("authors", "plain")],
    "term": [{"lam": 0}, {"lam": 0.1}, {"lam": 10}],
    "propfair": [{"baseline": 2}, {"baseline": 5, "margin": 1e-3}],
    "afl": [{"gamma": 0}, {"gamma": 0.1}, {"gamma": 100}],
    "fedmgda": [
        {"epsilon": epsilon, "length": length}
        for epsilon in (0, 0.1, 1)
        for length in ("median", "unit")
    ],
    "aaggff-s": [*AAGGFF, {"clients": 8}, {"clients": 200}, {"clients": 200, "prior": "size"}],
    "aaggff-d": [
        *({"clients": 40, "rate": 0.2, **options} for options in AAGGFF),
        *({"clients": 8, "rate": 1.0, **options} for options in AAGGFF),
        {"clients": 8, "rate": 0.5, "correction": True},
        {"clients": 8},
        {"clients": 2, "rate": 0.5},
        BILLIONS,
        {**BILLIONS, "correction": True, "prior": "size"},
    ],
}
ROWS = {
    " ".join([name, *(f"{key}={value}" for key, value in options.items())]): partial(
        decision_maker, name, **options
    )
    for name, rows in TABLE.items()
    for options in rows
}
JUDGED_BY = partial(CdfResponse, "normal", high=None)
ROWS |= {
    "tracked aaggff-s": lambda: track_regret(decision_maker("aaggff-s")),
    "tracked aaggff-d": lambda: track_regret(decision_maker("aaggff-d", clients=40, rate=0.2)),
    "tracked fedavg": lambda: track_regret(decision_maker("fedavg"), JUDGED_BY()),
    "tracked fedmgda": lambda: track_regret(decision_maker("fedmgda"), JUDGED_BY()),
}


@pytest.mark.parametrize("row", ROWS)
def test_holds_every_property(row):
    check_decision_maker(ROWS[row])


def test_no_method_and_no_option_is_missing_from_the_table():
    for name, method in METHODS.items():
        tried = {option for options in TABLE[name] for option in options}
        assert set(method.options) <= tried, f"{name}: {set(method.options) - tried}"


# --- the suite itself can fail --------------------------------------------------------------------


class ByLoss(DecisionMaker):
    """Weights in proportion to the losses of all rounds so far: a rule that holds everything."""

    def __init__(self):
        self.seen = {}

    def decide(self, ids, losses, sizes, *, updates=None, gram=None, lr=None):
        reports = check_reports(ids, losses, sizes)
        names = list(reports.all_ids)
        if not len(reports):
            return self.settle(reports, np.full(len(names), 1 / len(names)))
        for name, loss in zip(list(reports.ids), np.log1p(reports.losses).tolist()):
            self.seen[name] = self.seen.get(name, 0.0) + loss
        sums = np.array([1e-3 + self.seen[name] for name in reports.ids])
        return self.settle(reports, self.mixed(reports, sums / sums.sum()))

    def mixed(self, reports, weights):
        return weights

    def state_dict(self):
        return {
            "ids": ids_to_array(list(self.seen)),
            "sums": np.array(list(self.seen.values()), dtype=np.float64),
        }

    def load_state_dict(self, state):
        check_keys(state, ("ids", "sums"))
        ids = array_to_ids(state["ids"])
        self.seen = dict(zip(ids, read_floats(state, "sums", len(ids)).tolist()))


class NotNormalised(ByLoss):
    def mixed(self, reports, weights):
        return weights * 1.001


class Negative(ByLoss):
    def mixed(self, reports, weights):
        return weights if weights.size < 2 else weights + 0.9 - 0.9 * weights.size * weights


class NoPrior(ByLoss):
    """If nobody's report can be used, nobody weighs anything."""

    def decide(self, ids, losses, sizes, **extra):
        reports = check_reports(ids, losses, sizes)
        if not len(reports):
            return self.settle(reports, np.zeros(reports.all_sizes.size))
        return super().decide(ids, losses, sizes, **extra)


class Favourite(ByLoss):
    """Client 100 counts double."""

    def mixed(self, reports, weights):
        favoured = weights * np.array([2.0 if name == 100 else 1.0 for name in reports.ids])
        return favoured / favoured.sum()


class FavoursTheHappy(ByLoss):
    def mixed(self, reports, weights):
        turned = 1 / (1e-3 + weights)
        return turned / turned.sum()


class FirstComeFirstServed(ByLoss):
    def mixed(self, reports, weights):
        early = weights / np.arange(1, weights.size + 1)
        return early / early.sum()


class ByName(ByLoss):
    """Who sorts first counts most."""

    def mixed(self, reports, weights):
        places = np.argsort(np.argsort([str(name) for name in reports.ids]))
        return (weights / (1 + places)) / (weights / (1 + places)).sum()


class Credulous(ByLoss):
    """Whatever a client says is used, if made finite."""

    def decide(self, ids, losses, sizes, **extra):
        tame = np.nan_to_num(np.asarray(losses, dtype=float), nan=5.0, posinf=1e9, neginf=0.0)
        return super().decide(ids, np.abs(tame).clip(0, 1e9), sizes, **extra)


class Brittle(ByLoss):
    """A sum of large losses is more than it can bear."""

    def decide(self, ids, losses, sizes, **extra):
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.square(np.asarray(losses, dtype=float)) ** 2
            return super().decide(ids, losses, sizes, **extra) * (squares.max() * 0 + 1)


class Forgetful(ByLoss):
    """Every second client is not saved."""

    def state_dict(self):
        kept = ByLoss()
        kept.seen = {name: s for k, (name, s) in enumerate(self.seen.items()) if k % 2 == 0}
        return kept.state_dict()


class Shared(ByLoss):
    """What was saved is the memory it goes on working with."""

    def __init__(self):
        super().__init__()
        self.rounds = np.zeros(1)

    def mixed(self, reports, weights):
        self.rounds += 1
        return weights

    def state_dict(self):
        return {**super().state_dict(), "rounds": self.rounds}

    def load_state_dict(self, state):
        rest = dict(state)
        self.rounds = rest.pop("rounds").copy()
        super().load_state_dict(rest)


class Pickled(ByLoss):
    """A state that only pickle could store."""

    def state_dict(self):
        return {**super().state_dict(), "all": np.array([self.seen], dtype=object)}


class BelievesAnything(ByLoss):
    def load_state_dict(self, state):
        full = {"ids": np.empty(0, dtype=np.int64), "sums": np.empty(0), **state}
        super().load_state_dict({key: full[key] for key in ("ids", "sums")})


class HalfLoaded(ByLoss):
    """What is wrong is noticed when half of it is in."""

    def load_state_dict(self, state):
        self.seen = {}
        super().load_state_dict(state)


BROKEN = [
    (NotNormalised, "on_the_simplex"),
    (Negative, "on_the_simplex"),
    (NoPrior, "one_client_gets_everything"),
    (Favourite, "ties_weigh_the_same"),
    (FavoursTheHappy, "a_higher_loss_never_gets_less"),
    (FirstComeFirstServed, "arrival_order_does_not_matter"),
    (ByName, "names_do_not_matter"),
    (Credulous, "hostile_reports_are_set_aside"),
    (Brittle, "hostile_reports_are_set_aside"),
    (Forgetful, "saving_changes_nothing"),
    (Shared, "saving_changes_nothing"),
    (Pickled, "saving_changes_nothing"),
    (BelievesAnything, "a_wrong_state_is_refused"),
    (HalfLoaded, "a_wrong_state_is_refused"),
]


def test_the_rule_that_the_broken_ones_are_made_of_holds_everything():
    check_decision_maker(ByLoss)


@pytest.mark.parametrize(("broken", "name"), BROKEN)
def test_each_property_catches_a_rule_that_breaks_it(broken, name):
    others = set(PROPERTIES) - {name}
    with pytest.raises(AssertionError, match=f"^{name.replace('_', ' ')}: "):
        check_decision_maker(broken, skip=others)
    with pytest.raises(AssertionError):
        check_decision_maker(broken)


def test_every_property_has_a_rule_that_breaks_it():
    assert {name for _, name in BROKEN} == set(PROPERTIES)


def test_a_property_that_is_skipped_is_not_asked_for():
    check_decision_maker(BelievesAnything, skip=["a_wrong_state_is_refused"])
    with pytest.raises(AssertionError, match="no such property"):
        check_decision_maker(ByLoss, skip=["a_wrong_state"])


# --- hostile rounds -------------------------------------------------------------------------------

LOSS = st.one_of(
    st.floats(),  # nan, infinities, negative, subnormal
    st.floats(0, 10),
    st.sampled_from([0.0, -0.0, 1e100, np.nextafter(LARGEST, np.inf), 1e300, 5e-324]),
)
SIZE = st.one_of(st.integers(1, 10**6), st.floats(5e-324, 1e100))
STEP = st.one_of(st.floats(-10, 10), st.floats(), st.just(0.0))
ONE = st.tuples(LOSS, SIZE, st.lists(STEP, min_size=3, max_size=3))
ROUNDS = st.lists(
    st.dictionaries(st.sampled_from([3, -7, 2**62, "anna", ("b", 2)]), ONE, min_size=1),
    min_size=1,
    max_size=4,
)


@pytest.mark.parametrize("row", ROWS)
@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(rounds=ROUNDS)
def test_no_round_however_hostile_breaks_a_decision(row, rounds):
    maker = ROWS[row]()
    most = maker.clients or 5
    for everybody in rounds:
        said = dict(list(everybody.items())[:most])
        losses, sizes, updates = zip(*said.values())
        extra = {"updates": updates, "lr": 0.1} if maker.wants_updates else {}
        weights = maker.decide(list(said), losses, sizes, **extra)
        assert np.isfinite(weights).all()
        assert (weights >= 0).all()
        assert weights.sum() == pytest.approx(1, abs=1e-9)
        bad = {name for name, loss in zip(said, losses) if not 0 <= loss <= LARGEST}
        aside = set(maker.last.set_aside)
        if maker.wants_updates:
            assert bad <= aside
        else:
            assert bad == aside
        if aside < set(said):
            assert all(weights[k] == 0 for k, name in enumerate(said) if name in aside)
        last = maker.last
        assert 1 <= last.effective_clients <= len(said) * (1 + 1e-9)
        assert 0 <= last.kl_from_size < np.inf


# --- large rounds: other code, the same decisions -------------------------------------------------

MANY = 700
ROOMY = [
    (name, options)
    for name, rows in TABLE.items()
    for options in rows
    if options.get("clients", MANY) >= MANY
]


@pytest.mark.parametrize(
    ("name", "options"), ROOMY, ids=lambda part: part if isinstance(part, str) else str(part)
)
def test_many_clients_are_decided_alike_by_number_by_name_and_in_any_order(name, options):
    """Integers go through arrays, names through dictionaries, sums another way."""
    rng = np.random.default_rng(5)
    numbered, named, shuffled = (decision_maker(name, **options) for _ in range(3))
    ids = rng.permutation(10**6)[:MANY]
    for _ in range(3):
        order = rng.permutation(MANY)
        losses = rng.gamma(0.5, 1.0, MANY)
        losses[:5] = [np.nan, np.inf, -1.0, 1e300, 0.0]
        sizes, updates = rng.integers(1, 99, MANY), rng.normal(size=(MANY, 4))

        def weights(maker, names, order, said=(losses, sizes, updates)):
            given = [part[order] for part in said]
            extra = {"updates": given[2], "lr": 0.1} if maker.wants_updates else {}
            return maker.decide(names, *given[:2], **extra)

        plain = np.arange(MANY)
        by_number = weights(numbered, ids, plain)
        by_name = weights(named, [f"client {i:06}" for i in ids], plain)
        in_order = weights(shuffled, ids[order].tolist(), order)
        assert by_number.sum() == pytest.approx(1, abs=1e-12)
        assert (by_number >= 0).all()
        assert by_number[:4].tolist() == [0.0] * 4
        assert set(numbered.last.set_aside) == set(ids[:4].tolist())
        np.testing.assert_allclose(by_name, by_number, rtol=0, atol=1e-9)
        assert np.array_equal(in_order, by_number[order])  # to the bit
