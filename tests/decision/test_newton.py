"""AAggFF-S against eq. 9 as the paper writes it, solved by others; who misses, joins, leaves."""

from __future__ import annotations

import numpy as np
import pytest
import quadprog

from aaggff import decision_maker
from aaggff.decision import newton
from aaggff.decision.active_set import minimise
from aaggff.decision.curvature import SMALL
from aaggff.errors import UserError
from tests.decision.dense import DISTRIBUTIONS
from tests.decision.families import HARD, made_losses
from tests.decision.kkt import residual


class Paper:
    """Eq. 9 term by term: raw gradients, alpha, beta and the proximal centres p_tau."""

    def __init__(self, clients, *, high=None, low=0.0, cdf="normal", strength=1.0, prior=None):
        self.K = clients
        self.cdf, self.low, self.high = DISTRIBUTIONS[cdf].cdf, low, high
        self.strength = strength
        self.prior = np.full(clients, 1 / clients) if prior is None else prior
        self.gone = []
        self.p = self.prior
        self.gradients, self.centres = [], []

    @property
    def L(self):
        return (1 / self.K if self.high is None else self.high) / (1 + self.low)

    def learn(self, losses, here=slice(None)):
        """One round; `here` are the indices of those who reported."""
        high = self.L * (1 + self.low)
        r = self.low + (high - self.low) * self.cdf(losses / losses.mean())  # eq. 8
        if isinstance(here, slice):
            g = -r / (1 + self.p @ r)
        else:  # eqs. 10 and 11
            rbar, C = r.mean(), len(here) / self.K
            dr = np.full(self.p.size, rbar)
            dr[here] += (r - rbar) / C
            g = -dr / (1 + rbar) + rbar * (self.p @ (dr - rbar)) / (1 + rbar) ** 2
        self.gradients.append(g)
        self.centres.append(self.p)
        self.p = self.solve()

    def problem(self):
        """B and c of eq. 9: minimise c.p + p.B.p/2."""
        alpha, beta = 4 * self.K * self.L / self.strength, 1 / (4 * self.L)
        G, P = np.array(self.gradients), np.array(self.centres)
        B = alpha * np.eye(self.p.size) + beta * G.T @ G
        c = (1 - beta * np.einsum("ij,ij->i", G, P)) @ G - alpha * self.prior
        return B, c

    def solve(self):
        B, c = self.problem()
        n = c.size
        equal = [np.ones(n), *np.eye(n)[self.gone]]
        sides = np.vstack([*equal, np.eye(n)]).T
        bounds = np.r_[1.0, np.zeros(len(self.gone)), np.zeros(n)]
        return quadprog.solve_qp(B, -c, sides, bounds, len(equal))[0]


@pytest.mark.parametrize("cdf", DISTRIBUTIONS)
@pytest.mark.parametrize("clients", [2, 3, 7, 20])
def test_equals_eq_9_solved_by_quadprog(cdf, clients):
    paper = Paper(clients, cdf=cdf)
    maker = decision_maker("aaggff-s", clients=clients, cdf=cdf)
    for losses in made_losses(clients, 100):
        paper.learn(losses)
        weights = maker.decide(list(range(clients)), losses, np.ones(clients))
        np.testing.assert_allclose(weights, paper.p, rtol=0, atol=1e-8)
    assert np.ptp(weights) > 0.05  # there was something to get right


@pytest.mark.parametrize(
    ("clients", "rounds"), [(SMALL, 60), (SMALL + 1, 60), (140, 150), (300, 20)]
)
def test_equals_quadprog_where_the_rounds_are_kept_and_where_their_sum_is(clients, rounds):
    paper = Paper(clients, cdf="weibull")
    maker = decision_maker("aaggff-s", clients=clients, cdf="weibull")
    for t, losses in enumerate(made_losses(clients, rounds)):
        before = paper.p
        weights = maker.decide(list(range(clients)), losses, np.ones(clients))
        if t % 10 == 9:
            paper.learn(losses)
            np.testing.assert_allclose(weights, paper.p, rtol=0, atol=1e-8)
        else:  # the oracle is slow: it takes the decision as it is
            paper.solve = lambda weights=weights: weights
            paper.learn(losses)
            del paper.solve
        assert before is not paper.p


def test_equals_clarabel_at_two_thousand_clients():
    import cvxpy as cp

    clients, rounds = 2000, 20
    maker = decision_maker("aaggff-s", clients=clients, cdf="weibull", strength=20.0)
    p = np.full(clients, 1 / clients)
    gradients, centres = [], []
    for losses in made_losses(clients, rounds):
        r = DISTRIBUTIONS["weibull"].cdf(losses / losses.mean()) / clients
        gradients.append(-r / (1 + p @ r))
        centres.append(p)
        p = maker.decide(list(range(clients)), losses, np.ones(clients))
    L, G, P = 1 / clients, np.array(gradients), np.array(centres)
    alpha, beta = 4 * clients * L / 20.0, 1 / (4 * L)
    x = cp.Variable(clients)
    # On the simplex a multiple of 1 in g counts nothing: taken off, the numbers are of a size.
    G = G - G.mean(axis=1, keepdims=True)
    inner = np.einsum("ij,ij->i", G, P)
    objective = (
        (1 - beta * inner) @ G @ x
        + alpha / 2 * cp.sum_squares(x)
        + beta / 2 * cp.sum_squares(G @ x)
    )
    problem = cp.Problem(cp.Minimize(objective * clients), [x >= 0, cp.sum(x) == 1])
    tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-13)
    problem.solve(solver=cp.CLARABEL, **tight)
    np.testing.assert_allclose(p, x.value, rtol=0, atol=1e-8)
    assert 10 < np.count_nonzero(p) < clients


@pytest.mark.parametrize("history", HARD)
@pytest.mark.parametrize("clients", [2, 5, 40, 200, 2000])
def test_solves_its_programme_to_rounding_whatever_the_history(history, clients, monkeypatch):
    """KKT residual of every decision, in extended precision, of the problem it was given."""
    worst, kept = 0.0, []

    def listening(quadratic, linear, start):
        kept.append((quadratic, linear))
        return minimise(quadratic, linear, start)

    monkeypatch.setattr(newton, "minimise", listening)
    rng = np.random.default_rng(clients)
    for strength in (1.0, 1e4):
        maker = decision_maker("aaggff-s", cdf="frechet", strength=strength)
        for t, losses in enumerate(HARD[history](rng, clients)[: 60 if clients < 2000 else 12]):
            maker.decide(list(range(clients)), losses, np.ones(clients))
            quadratic, linear = kept.pop()
            if t % 5 == 1:
                matrix = getattr(quadratic, "matrix", None)
                if matrix is None:
                    matrix = (quadratic.a, quadratic.b, quadratic.history)
                worst = max(worst, residual(matrix, linear, maker.weights))
    assert worst <= 1e-10


def test_whoever_was_guessed_to_be_in_the_decision_is_the_same():
    rng = np.random.default_rng(2)
    maker = decision_maker("aaggff-s", clients=30, cdf="weibull", strength=30.0)
    for losses in made_losses(30, 40):
        warm = maker.decide(list(range(30)), losses, np.ones(30))
    pull = 30.0 / (4 * 30)
    quadratic = maker._curvature.quadratic(pull / 4)
    for start in (None, *(rng.integers(0, 2, 30).astype(float) for _ in range(20))):
        cold = minimise(quadratic, pull * maker._drift, start)
        np.testing.assert_allclose(cold, warm, rtol=0, atol=1e-13)
    assert 1 < np.count_nonzero(warm) < 30


@pytest.mark.parametrize("high", [None, 1.0])
def test_who_is_missing_counts_with_the_doubly_robust_response(high):
    K = 6
    paper, maker = Paper(K, high=high), decision_maker("aaggff-s", clients=K, high=high)
    rng = np.random.default_rng(4)
    for t, losses in enumerate(made_losses(K, 60)):
        here = np.arange(K) if t % 3 == 0 else np.sort(rng.choice(K, 4, replace=False))
        paper.learn(losses[here], slice(None) if here.size == K else here)
        weights = maker.decide(here[::-1].tolist(), losses[here][::-1], np.ones(here.size))
        np.testing.assert_allclose(maker.weights, paper.p, rtol=0, atol=1e-8)
        expected = paper.p[here][::-1]
        np.testing.assert_allclose(weights, expected / expected.sum(), rtol=0, atol=1e-7)


def test_a_client_set_aside_is_a_client_missing():
    one, other = (decision_maker("aaggff-s", clients=3) for _ in range(2))
    for maker in (one, other):
        maker.decide(["a", "b", "c"], [0.5, 0.1, 0.9], [1, 1, 1])
    weights = one.decide(["a", "b", "c"], [0.4, float("nan"), 0.8], [1, 1, 1])
    assert np.array_equal(weights[[0, 2]], other.decide(["a", "c"], [0.4, 0.8], [1, 1]))
    assert weights[1] == 0


def test_reporters_who_weigh_nothing_divide_by_the_prior():
    maker = decision_maker("aaggff-s", clients=3, strength=1e6, high=1.0)
    for _ in range(20):
        maker.decide(["a", "b", "c"], [0.01, 0.01, 9.0], [1, 1, 1])
    assert maker.weights.tolist() == [0.0, 0.0, 1.0]
    assert maker.decide(["a", "b"], [0.01, 0.01], [5, 1]).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("K", [3, SMALL + 5])  # the sum is kept, or the rounds are
def test_who_joins_was_always_there_and_never_heard(K):
    paper, maker = Paper(K, high=1.0), decision_maker("aaggff-s", high=1.0)
    losses = made_losses(K + 1, 18)
    for said in losses[:10, :K]:
        paper.learn(said)
        maker.decide(list(range(K)), said, np.ones(K))
    # A response that is the mean one is a gradient that is the mean one: any shift is the same.
    paper.gradients = [np.append(g, g.mean()) for g in paper.gradients]
    paper.centres = [np.append(p, 0.0) for p in paper.centres]
    paper.K = K + 1
    paper.p = paper.prior = np.full(K + 1, 1 / (K + 1))
    paper.p = paper.solve()
    for said in losses[10:]:
        paper.learn(said)
        maker.decide(list(range(K + 1)), said, np.ones(K + 1))
        np.testing.assert_allclose(maker.weights, paper.p, rtol=0, atol=1e-8)
    assert maker.clients == K + 1


@pytest.mark.parametrize("K", [5, SMALL + 5])
def test_who_leaves_is_held_at_zero_in_the_same_problem(K):
    paper, maker = Paper(K, high=1.0), decision_maker("aaggff-s", clients=K, high=1.0)
    for said in made_losses(K, 12):
        paper.learn(said)
        maker.decide(list(range(K)), said, np.ones(K))
    maker.forget([1, 3, "nobody"])
    paper.K, paper.gone = K - 2, [1, 3]
    stay = [0, 2, *range(4, K)]
    np.testing.assert_allclose(maker.weights, paper.solve()[stay], rtol=0, atol=1e-8)
    assert maker.ids == stay
    assert maker.clients == K - 2


def test_who_answered_first_does_not_matter_to_the_last_digit():
    rng = np.random.default_rng(0)
    one, other = (decision_maker("aaggff-s", clients=20) for _ in range(2))
    for losses in made_losses(20, 40):
        order = rng.permutation(20)
        weights = one.decide(list(range(20)), losses, np.ones(20))
        assert np.array_equal(other.decide(order, losses[order], np.ones(20)), weights[order])


def test_when_all_have_left_it_begins_anew():
    maker, fresh = (decision_maker("aaggff-s", clients=2) for _ in range(2))
    maker.decide(["a", "b"], [0.1, 0.9], [1, 1])
    maker.forget(["a", "b"])
    report = (["c", "d"], [0.4, 0.2], [1, 1])
    assert np.array_equal(maker.decide(*report), fresh.decide(*report))


@pytest.mark.parametrize("strength", [0.1, 1.0, 40.0])
def test_strength_divides_alpha_and_the_size_prior_is_where_it_is_drawn_to(strength):
    sizes = np.array([50.0, 10.0, 30.0, 10.0])
    paper = Paper(4, strength=strength, prior=sizes / sizes.sum())
    maker = decision_maker("aaggff-s", clients=4, strength=strength, prior="size")
    for losses in made_losses(4, 50):
        paper.learn(losses)
        weights = maker.decide(["a", "b", "c", "d"], losses, sizes)
        np.testing.assert_allclose(weights, paper.p, rtol=0, atol=1e-8)


@pytest.mark.parametrize(("prior", "expected"), [("uniform", [0.5, 0.5]), ("size", [0.75, 0.25])])
def test_strength_zero_is_the_prior(prior, expected):
    maker = decision_maker("aaggff-s", strength=0, prior=prior)
    for _ in range(3):
        assert maker.decide(["a", "b"], [0.1, 9.0], [30, 10]).tolist() == expected


@pytest.mark.parametrize("stop", [1, SMALL + 1, SMALL + 2, SMALL + 3, SMALL + 9])
def test_continuing_is_never_having_stopped_also_where_the_memory_changes_its_form(stop):
    clients = SMALL + 2
    losses = made_losses(clients, SMALL + 12)
    maker, resumed = (decision_maker("aaggff-s", clients=clients) for _ in range(2))
    for said in losses[:stop]:
        maker.decide(list(range(clients)), said, np.ones(clients))
    resumed.load_state_dict(maker.state_dict())
    for said in losses[stop:]:
        report = (list(range(clients)), said, np.ones(clients))
        assert np.array_equal(maker.decide(*report), resumed.decide(*report))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ids", np.array([1, 2, 3, 4])),
        ("drift", np.array([0.0, np.nan, 0.0])),
        ("weights", np.array([0.5, -0.5, 1.0])),
        ("round", np.array(-1)),
        ("curvature.total", np.zeros((2, 2))),
        ("curvature.total", np.full((3, 3), np.inf)),
    ],
)
def test_a_damaged_state_is_refused_and_changes_nothing(key, value):
    maker, other = (decision_maker("aaggff-s") for _ in range(2))
    for each in (maker, other):
        each.decide([1, 2, 3], [0.1, 0.5, 0.9], [1, 1, 1])
    with pytest.raises(UserError, match="state"):
        maker.load_state_dict({**maker.state_dict(), key: value})
    report = ([1, 2, 3], [0.4, 0.2, 0.9], [1, 1, 1])
    assert np.array_equal(maker.decide(*report), other.decide(*report))


def test_so_many_clients_are_a_case_for_the_other_rule():
    with pytest.raises(UserError, match=r"too many for aaggff-s .* use aaggff-d"):
        decision_maker("aaggff-s", clients=1_000_000).decide([1, 2], [0.1, 0.2], [1, 1])
