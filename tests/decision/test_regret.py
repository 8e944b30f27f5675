"""Regret: the theorems on made and on searched sequences, the certificate, and the account."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import Phase, given, settings, target
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from aaggff import decision_maker, methods, track_regret
from aaggff.decision import regret
from aaggff.decision.hindsight import best_fixed
from aaggff.decision.leader import FollowTheLeader
from aaggff.decision.newton import OnlineNewton
from aaggff.decision.regret import RegretTracker
from aaggff.decision.responses import CDFS, CdfResponse
from aaggff.errors import UserError
from tests.decision.dense import DensePaper
from tests.decision.families import (
    FAMILIES,
    RULES,
    AsReported,
    best_by_portfolio,
    family,
    leader,
    newton,
    ranges,
    suffered,
    theorem_1,
    theorem_2,
)


def play(maker, sequence):
    """The maker, tracked, after a sequence in which everybody reports."""
    tracked = track_regret(maker)
    K = sequence.shape[1]
    for losses in sequence:
        tracked.decide(list(range(K)), losses, np.ones(K))
    return tracked


# --- the theorems ---------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("K", [2, 7, 20])
def test_the_theorem_holds_on_every_family_in_every_range(rule, name, K):
    make, bound = RULES[rule]
    for low, high in ranges(K):
        for T in (10, 200):
            sequence = family(name, K, T)
            cost = suffered(make(K, low, high), sequence)
            r = low + (high - low) * sequence
            _, least = best_by_portfolio(r, 300)
            assert cost - least <= bound(K, T, low, high)
            found = play(make(K, low, high), sequence).regret
            assert found.bound == pytest.approx(bound(K, T, low, high), rel=1e-12)
            assert found.suffered == pytest.approx(cost, rel=1e-9, abs=1e-9)
            assert found.value <= found.bound
            assert found.value <= cost - least + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", FAMILIES)
def test_the_theorem_holds_over_a_thousand_rounds(rule, name):
    make, bound = RULES[rule]
    for K in (2, 20):
        for low, high in ranges(K):
            found = play(make(K, low, high), family(name, K, 1000)).regret
            assert found.gap <= 1e-9 * (1 + abs(found.best))
            assert found.value <= bound(K, 1000, low, high)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("cdf", CDFS)
def test_the_theorem_holds_for_losses_and_every_response(rule, cdf):
    rng = np.random.default_rng(8)
    for K in (2, 11):
        maker = track_regret(decision_maker(rule, clients=K, cdf=cdf))
        means = rng.lognormal(0, 1, K)
        for losses in means * rng.lognormal(0, 0.5, (150, K)):
            maker.decide(list(range(K)), losses, np.ones(K))
        bound = RULES[rule][1](K, 150, 0.0, 1 / K)
        assert maker.regret.bound == pytest.approx(bound, rel=1e-12)
        assert 0 <= maker.regret.value <= bound


@st.composite
def sequences(draw):
    """Short sequences, each played over and over: what an adversary would try."""
    K, T = draw(st.integers(2, 6)), draw(st.integers(1, 12))
    values = draw(st.sampled_from([st.sampled_from([0.0, 1.0]), st.floats(0, 1)]))
    sequence = draw(arrays(np.float64, (T, K), elements=values))
    return np.tile(sequence, (draw(st.sampled_from([1, 3, 20])), 1))


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=150, deadline=None, phases=[Phase.generate, Phase.target])
@given(sequence=sequences(), high=st.sampled_from([0.2, 1.0, 10.0]))
def test_no_sequence_that_is_searched_for_breaks_the_theorem(rule, sequence, high):
    make, bound = RULES[rule]
    T, K = sequence.shape
    found = play(make(K, 0.0, high), sequence).regret
    share = found.value / bound(K, T, 0.0, high)
    target(share)
    assert share <= 1


@pytest.mark.parametrize("strength", [0.25, 4.0])
def test_what_strength_does_to_the_bound(strength):
    K, T = 6, 300
    sequence = family("switching", K, T)
    found = play(newton(K, 0.0, 1.0, strength), sequence).regret
    expected = 2 * K * (1 / strength + math.log(1 + strength * T / (16 * K)))
    assert found.bound == pytest.approx(expected, rel=1e-12)
    assert found.value <= expected
    found = play(leader(K, 0.0, 1.0, strength), sequence).regret
    expected = math.sqrt(T * math.log(K)) * (strength + 1 / strength)
    assert found.bound == pytest.approx(expected, rel=1e-12)
    assert found.value <= expected


def test_with_the_sampled_step_size_theorem_2_would_be_broken():
    """Why AAggFF-D uses L, not the three times larger L~, when nothing has to be estimated."""
    K, T = 20, 50
    found = play(leader(K, 0.0, 1 / K, strength=1 / 3), family("one-hot", K, T)).regret
    assert found.suffered - found.best > 1.1 * theorem_2(K, T, 0.0, 1 / K)
    found = play(leader(K, 0.0, 1 / K), family("one-hot", K, T)).regret
    assert found.value < 0.5 * theorem_2(K, T, 0.0, 1 / K)


# --- the best fixed weights -----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("K", [2, 5, 30, 200])
@pytest.mark.parametrize("T", [1, 20, 150])
def test_the_best_fixed_weights_equal_two_other_ways_to_find_them(K, T):
    import cvxpy as cp

    rng = np.random.default_rng([K, T])
    for scale in (1 / K, 1.0, 20.0):
        r = scale * rng.random((T, K)) ** 3
        p, value, gap = best_fixed(r)
        assert p.min() >= 0
        assert p.sum() == pytest.approx(1, abs=1e-12)
        assert value == pytest.approx(float(np.log1p(r @ p).sum()), rel=1e-12)
        assert gap <= 1e-9 * (1 + value)
        above, below = best_by_portfolio(r)
        assert below - 1e-9 <= -value <= above + 1e-9
        if K <= 30:
            x = cp.Variable(K)
            growth = cp.sum(cp.log(1 + r @ x))
            problem = cp.Problem(cp.Maximize(growth), [x >= 0, cp.sum(x) == 1])
            problem.solve(solver=cp.CLARABEL)
            assert value == pytest.approx(problem.value, rel=1e-7, abs=1e-7)


@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(1, 6), st.integers(1, 8))
def test_the_certificate_is_one(data, K, T):
    """No weights that are tried grow more than the value plus the gap; ties and zeros included."""
    elements = st.one_of(st.integers(0, 2).map(float), st.floats(0, 1e3))
    r = data.draw(arrays(np.float64, (T, K), elements=elements))
    slope = data.draw(arrays(np.float64, K, elements=st.floats(-5, 5)))
    _, value, gap = best_fixed(r, slope)
    assert gap <= 1e-8 * (1 + abs(value))
    others = np.vstack([np.eye(K), np.random.default_rng(0).dirichlet(np.ones(K), 50)])
    for q in others:
        assert np.log1p(r @ q).sum() + slope @ q <= value + gap + 1e-9 * (1 + abs(value))


# --- the account ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", methods())
def test_any_decision_maker_can_be_wrapped_and_decides_as_before(method):
    rng = np.random.default_rng(1)
    options = {"clients": 5} if method.startswith("aaggff") else {}
    bare = decision_maker(method, **options)
    own = method.startswith("aaggff")
    judged_by = None if own else CdfResponse("weibull", high=None)
    tracked = track_regret(decision_maker(method, **options), judged_by)
    p, cost, responses = np.full(5, 0.2), 0.0, []
    if method in ("fedavg", "qfedavg", "term", "propfair"):
        p = np.array([0.1, 0.1, 0.2, 0.3, 0.3])
    if method == "qfedavg":
        p = np.full(5, 0.2)  # its authors' weights know no sizes
    for _ in range(30):
        losses, updates = rng.gamma(1.0, 1.0, 5), rng.normal(size=(5, 8))
        report = (list("abcde"), losses, [10, 10, 20, 30, 30])
        extra = {"updates": updates, "lr": 0.1} if bare.wants_updates else {}
        responses.append(CdfResponse("normal" if own else "weibull", high=1 / 5)(losses))
        cost -= math.log1p(p @ responses[-1])
        p = bare.decide(*report, **extra)
        assert np.array_equal(p, tracked.decide(*report, **extra))
    found = tracked.regret
    assert found.rounds == 30
    assert found.exact
    assert found.suffered == pytest.approx(cost, rel=1e-9)
    above, below = best_by_portfolio(np.array(responses))
    assert below - 1e-9 <= found.best <= above + 1e-9
    assert (found.bound is None) == (not own)


@pytest.mark.parametrize("correction", [False, True])
def test_with_sampling_the_account_is_that_of_the_dense_formula(correction):
    """sum <g~, p> less the least sum of one client's g~, all over K clients as the paper does."""
    K, n = 40, 4
    rng = np.random.default_rng(6)
    paper = DensePaper(K, n / K, "gumbel", correction=correction)
    maker = decision_maker("aaggff-d", clients=K, rate=n / K, cdf="gumbel", correction=correction)
    tracked = track_regret(maker)
    paid = 0.0
    for _ in range(80):
        before, sums = paper.p, paper.gradients.copy()
        S = rng.choice(K, n, replace=False)
        losses = rng.gamma(1.0, 1.0, n) * (1 + S)
        paper.decide(S, losses)
        paid += (paper.gradients - sums) @ before
        tracked.decide(S, losses, np.ones(n))
    found = tracked.regret
    assert found.value == pytest.approx(paid - paper.gradients.min(), rel=1e-9)
    assert list(found.weights) == [int(paper.gradients.argmin())]
    assert not found.exact
    largest = (n / K) + 2.0
    assert found.bound == pytest.approx(2 * largest * math.sqrt(80 * math.log(K)), rel=1e-12)
    assert found.value <= found.bound


def test_the_estimate_is_right_on_average():
    """Over all samples of one round with the correction: the loss linearised at each sample's mean.

    With weights p that do not depend on the sample, E[<p, r~ - rbar>] = <p, r - mean r>.
    """
    from itertools import combinations

    K, n = 6, 3
    r = np.array([0.05, 0.9, 0.31, 0.47, 0.02, 0.66])
    found = []
    for S in map(list, combinations(range(K), n)):
        maker = FollowTheLeader(K, n / K, AsReported(low=0, high=1), correction=True)
        tracker = RegretTracker(maker)
        maker.scores.add([1, 4], np.array([30.0, -8.0]))  # as if earlier rounds had been
        p = maker.everybody()
        maker.decide(S, r[S], np.ones(n))
        tracker.record(maker.last)
        rbar = r[S].mean()
        found.append(-(tracker.suffered + math.log1p(rbar)) * (1 + rbar))
    assert np.mean(found) == pytest.approx(p @ r - r.mean(), abs=1e-14)
    assert abs(p @ r - r.mean()) > 0.01


@pytest.mark.parametrize("rule", RULES)
def test_beyond_the_budget_the_regret_only_looks_larger(rule, monkeypatch):
    sequence = family("uniform", 5, 60)
    exact = play(RULES[rule][0](5, 0.0, 1.0), sequence).regret
    monkeypatch.setattr(regret, "BUDGET", 5 * 20)
    short = play(RULES[rule][0](5, 0.0, 1.0), sequence)
    assert len(short.tracker.history) == 20
    assert exact.exact
    assert not short.regret.exact
    assert short.regret.suffered == pytest.approx(exact.suffered, rel=1e-12)
    assert exact.value - 1e-9 <= short.regret.value <= 1.5 * exact.value + 0.1


def test_a_round_without_one_good_report_is_no_round():
    maker = track_regret(decision_maker("aaggff-s"))
    maker.decide(["a", "b"], [0.1, 0.2], [1, 1])
    before = maker.regret
    maker.decide(["a", "b"], [math.nan, -1.0], [1, 1])
    assert maker.regret == before


def test_where_no_theorem_reaches_no_bound_is_claimed():
    def bound(maker, *rounds):
        tracked = track_regret(maker)
        for ids in rounds:
            tracked.decide(ids, 0.1 + np.arange(len(ids)), np.ones(len(ids)))
        return tracked.regret.bound

    all_four = [0, 1, 2, 3]
    assert bound(decision_maker("aaggff-s", clients=4), all_four, all_four) is not None
    assert bound(decision_maker("aaggff-s", clients=4), all_four, [0, 1]) is None
    assert bound(decision_maker("aaggff-s", prior="size"), all_four) is None
    assert bound(decision_maker("aaggff-s", strength=0), all_four) is None
    assert bound(decision_maker("aaggff-s"), all_four, [*all_four, 4]) is None

    def sampled(**options):
        return decision_maker("aaggff-d", clients=40, **{"rate": 0.2, **options})

    eight = list(range(8))
    assert bound(sampled(), eight, eight[:2]) is not None
    assert bound(sampled(), eight, eight[:1]) is None  # seven of eight dropped out
    assert bound(sampled(correction=True), eight, eight[:3]) is None
    assert bound(sampled(strength=0), eight) is None
    assert bound(sampled(rate=0.5), eight, list(range(40))) is None  # made for samples
    full = decision_maker("aaggff-d", clients=4)
    assert bound(full, all_four, all_four) is not None
    assert bound(decision_maker("aaggff-d", clients=4, rate=1), all_four, [0, 1]) is None
    assert bound(decision_maker("aaggff-d", clients=4, rate=1), [2, 3], [0, 1]) is None


def test_rounds_of_whom_the_rule_says_nothing_are_left_out_and_counted():
    sampled = decision_maker("aaggff-d", clients=40, rate=0.2, prior="size")
    maker = track_regret(sampled)  # how large all forty are, it does not know
    maker.decide([1, 2], [0.1, 0.2], [1, 1])
    assert (maker.regret.rounds, maker.regret.unjudged) == (0, 1)
    assert maker.tracker.regret is None
    maker = track_regret(decision_maker("fedavg", clients=3), CdfResponse())
    for ids in (["a", "b", "c"], ["a", "b", "c"], ["a", "b"], ["a", "b", "c"]):
        maker.decide(ids, np.ones(len(ids)), np.ones(len(ids)))
    assert (maker.regret.rounds, maker.regret.unjudged, maker.regret.exact) == (2, 2, False)


def test_clients_who_join_and_leave_keep_the_account_going():
    maker = track_regret(decision_maker("aaggff-s", high=1.0))
    for ids in (["a", "b"], ["a", "b", "c"], ["a", "b", "c"]):
        maker.decide(ids, [0.1, 0.9, 0.5][: len(ids)], np.ones(len(ids)))
    maker.forget(["b"])
    maker.decide(["c", "a"], [0.8, 0.1], [1, 1])
    found = maker.regret
    assert found.rounds == 4
    assert set(found.weights) <= {"a", "c"}
    assert found.bound is None
    assert maker.clients == 2


def test_who_joined_later_had_the_mean_response_before():
    tracked = track_regret(OnlineNewton(None, AsReported(low=0.0, high=1.0)))
    tracked.decide(["a", "b"], [0.2, 0.6], [1, 1])
    tracked.decide(["b", "c", "a"], [0.1, 0.9, 0.3], [1, 1, 1])
    found = tracked.regret
    above, below = best_by_portfolio(np.array([[0.2, 0.6, 0.4], [0.3, 0.1, 0.9]]))
    assert below - 1e-9 <= found.best <= above + 1e-9


def test_when_all_who_were_heard_did_worse_than_the_mean_it_is_best_to_trust_a_stranger():
    tracked = track_regret(FollowTheLeader(50, 0.04, AsReported(low=0.0, high=1.0)))
    tracked.decide([1, 2], [0.9, 0.1], [1, 1])
    rbar = 0.5
    assert tracked.regret.weights == {1: 1.0}
    tracked.forget([1])
    assert tracked.regret.weights == {}
    assert tracked.regret.best == pytest.approx(-math.log1p(rbar), rel=1e-12)


@pytest.mark.parametrize("stop", [0, 1, 7])
@pytest.mark.parametrize("rate", [0.2, 1.0])
def test_an_account_that_is_saved_continues(stop, rate):
    def fresh():
        return track_regret(decision_maker("aaggff-d", clients=10, rate=rate))

    rng = np.random.default_rng(0)
    size = round(10 * rate)
    rounds = [rng.choice(10, size, replace=False) for _ in range(14)]
    one, other = fresh(), fresh()
    for S in rounds[:stop]:
        one.decide(S, 0.1 + S, np.ones(size))
    other.load_state_dict(one.state_dict())
    for S in rounds[stop:]:
        for maker in (one, other):
            maker.decide(S, 0.1 + S, np.ones(size))
    assert one.regret == other.regret
    assert one.regret.bound is not None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("regret.counts", np.array([9, 0, 0, 0, 0, 0])),
        ("regret.history", np.array([0.5])),
        ("regret.sums", np.array([np.nan, 0.0])),
        ("regret.columns", np.array([1, 1])),
    ],
)
def test_a_damaged_account_is_refused_and_changes_nothing(key, value):
    one, other, saved = (track_regret(decision_maker("aaggff-s")) for _ in range(3))
    for maker in (one, other):
        maker.decide([1, 2], [0.1, 0.9], [1, 1])
    saved.decide([1, 2], [0.7, 0.3], [1, 1])
    with pytest.raises(UserError, match="state"):
        one.load_state_dict({**saved.state_dict(), key: value})
    later = ([1, 2], [0.4, 0.5], [1, 1])
    assert np.array_equal(one.decide(*later), other.decide(*later))
    assert one.regret == other.regret


def test_a_rule_without_bounded_responses_must_be_told_by_what_it_is_judged():
    with pytest.raises(UserError, match="no bounded response of its own"):
        track_regret(decision_maker("fedavg"))
    tracker = RegretTracker(decision_maker("fedavg"), CdfResponse())
    tracker.maker.decide([1, 2], [0.1, 0.2], [1, 1])
    with pytest.raises(UserError, match="needs the losses"):
        tracker.record(tracker.maker.last)


def test_the_bounds_are_the_papers():
    assert theorem_1(6, 100, 0.0, 1 / 6) == pytest.approx(2 * (1 + math.log(1 + 100 / 96)))
    assert newton(6, 0.0, 1 / 6).regret_bound(100) is None  # K is known from the first round on
    assert leader(6, 0.0, 1.0).regret_bound(100) == pytest.approx(2 * math.sqrt(100 * math.log(6)))
