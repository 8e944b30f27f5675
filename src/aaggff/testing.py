"""A public conformance suite: what every decision maker must hold, whoever wrote it.

    from aaggff.testing import check_decision_maker

    def test_my_rule():
        check_decision_maker(lambda: MyRule(strength=2.0))

Plain asserts with their own messages: pytest, unittest and a bare script all do.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aaggff.decision.base import Array, DecisionMaker, State
from aaggff.decision.reports import LARGEST
from aaggff.errors import UserError

TOLERANCE = 1e-9
HOSTILE = (float("nan"), float("inf"), -float("inf"), -1.0, 1e300)
ODD = (0.0, 5e-324, 1e-300, 1e-12, 1.0, 1e12, 1e99)
"""Losses that are unlikely but possible: they must not break a decision."""


@dataclass(frozen=True)
class Round:
    """What the clients of one round say."""

    ids: list[Hashable]
    losses: Array
    sizes: Array
    updates: Array

    def reordered(self, order: Sequence[int]) -> Round:
        """The same round, heard in another order."""
        at = np.asarray(order)
        ids = [self.ids[k] for k in at]
        return Round(ids, self.losses[at], self.sizes[at], self.updates[at])


Factory = Callable[[], DecisionMaker]


def check_decision_maker(
    maker: Factory | DecisionMaker, *, skip: Collection[str] = (), seed: int = 0
) -> None:
    """Raise AssertionError, naming the property and the numbers, unless every property holds.

    Args:
        maker: makes a fresh decision maker each time it is called; or one that has not decided
            yet, of which copies are made.
        skip: names of properties (`PROPERTIES`) that this rule does not promise.
        seed: of the made-up rounds.

    >>> from aaggff import decision_maker
    >>> check_decision_maker(lambda: decision_maker("term", lam=2))
    >>> check_decision_maker(decision_maker("aaggff-d", clients=3_000_000_000, rate=2e-9))
    """
    if isinstance(maker, DecisionMaker):
        pristine = maker

        def fresh() -> DecisionMaker:
            return copy.deepcopy(pristine)
    else:
        fresh = maker
    strangers = set(skip) - set(PROPERTIES)
    assert not strangers, f"skip: no such property {sorted(strangers)}, known: {list(PROPERTIES)}"
    for name, holds in PROPERTIES.items():
        if name in skip:
            continue
        try:
            holds(fresh, np.random.default_rng(seed))
        except AssertionError as error:
            raise AssertionError(f"{name.replace('_', ' ')}: {error}") from None


def on_the_simplex(fresh: Factory, rng: np.random.Generator) -> None:
    """Weights are finite, >= 0 and sum to 1, also where clients are missing from a round."""
    maker = fresh()
    for said in made_rounds(maker, rng, 12):
        decide(maker, said)


def one_client_gets_everything(fresh: Factory, rng: np.random.Generator) -> None:
    """A round of one gives that client the weight 1, whatever the loss."""
    maker = fresh()
    for loss in (0.7, 0.0, float("nan"), 1e300):
        said = made_round([3], rng)
        weights = decide(maker, replace(said, losses=np.array([loss])))
        assert abs(weights[0] - 1) <= TOLERANCE, (
            f"the only client, loss {loss}, weighs {weights[0]}"
        )


def ties_weigh_the_same(fresh: Factory, rng: np.random.Generator) -> None:
    """Clients that nothing tells apart, now or ever, weigh the same."""
    maker = fresh()
    for said in made_rounds(maker, rng, 5, everybody=True):
        weights = decide(maker, twins(said))
        if weights.size > 1:
            _assert_close(weights[:1], weights[1:2], "two clients that report the same")


def a_higher_loss_never_gets_less(fresh: Factory, rng: np.random.Generator) -> None:
    """Of two clients alike until this round, the one with the higher loss weighs no less."""
    maker = fresh()
    for said in made_rounds(maker, rng, 4, everybody=True):
        decide(maker, twins(said))
    said = twins(said)
    if len(said.ids) < 2:
        return
    for base in (0.0, 1e-6, 0.5, 30.0):
        for more in (1e-3, 1.0, 1e6):
            said.losses[:2] = [base, base + more]
            lower, higher = decide(copy.deepcopy(maker), said)[:2]
            assert higher >= lower - TOLERANCE, (
                f"losses {base:g} and {base + more:g} weigh {lower:g} and {higher:g}"
            )


def arrival_order_does_not_matter(fresh: Factory, rng: np.random.Generator) -> None:
    """The same reports in another order give every client the same weight."""
    one, other = fresh(), fresh()
    for said in made_rounds(one, rng, 6):
        order = rng.permutation(len(said.ids)).tolist()
        weights = decide(one, said)
        shuffled = decide(other, said.reordered(order))
        _assert_close(weights[order], shuffled, f"the round heard in the order {order}")


def names_do_not_matter(fresh: Factory, rng: np.random.Generator) -> None:
    """Clients called otherwise (text, tuples, huge numbers) get the same weights."""
    names: dict[Hashable, Hashable] = {}
    forms = (lambda k: f"client {k}", lambda k: (k, "b"), lambda k: 2_999_999_999 - k, lambda k: -k)
    one, other = fresh(), fresh()
    for said in made_rounds(one, rng, 6):
        for k in said.ids:
            names.setdefault(k, forms[len(names) % len(forms)](len(names) + 1))
        renamed = replace(said, ids=[names[k] for k in said.ids])
        _assert_close(decide(one, said), decide(other, renamed), "clients under other names")


def hostile_reports_are_set_aside(fresh: Factory, rng: np.random.Generator) -> None:
    """A loss no honest client can have weighs nothing; odd ones are borne; the maker goes on."""
    maker = fresh()
    for said in made_rounds(maker, rng, 12, everybody=True):
        said.losses[:] = rng.choice([*HOSTILE, *ODD], said.losses.size)
        weights = decide(maker, said)
        bad = ~((said.losses >= 0) & (said.losses <= LARGEST))
        if not bad.all():
            assert (weights[bad] == 0).all(), f"losses {said.losses} weigh {weights}"
    for loss in (*HOSTILE, *ODD):
        said = made_rounds(maker, rng, 1, everybody=True)[0]
        said.losses[:] = loss
        decide(maker, said)
    decide(maker, made_rounds(maker, rng, 1)[0])


def saving_changes_nothing(fresh: Factory, rng: np.random.Generator) -> None:
    """Save, load into a fresh maker, continue: bit for bit what going on would have given."""
    rounds = made_rounds(fresh(), rng, 8, names=("anna", ("b", 2), 7))
    for stop in (0, 1, 4):
        maker, other = fresh(), fresh()
        for said in rounds[:stop]:
            decide(maker, said)
        state = maker.state_dict()
        kept = stored(state)
        other.load_state_dict(kept)
        for said in rounds[stop:]:
            went_on, resumed = decide(maker, said), decide(other, said)
            assert np.array_equal(went_on, resumed), (
                f"saved after round {stop}: going on gives {went_on}, resuming {resumed}"
            )
        for key, value in kept.items():
            same = np.array_equal(state[key], value)
            assert same, f"saved entry {key!r} changed as the maker went on"


def a_wrong_state_is_refused(fresh: Factory, rng: np.random.Generator) -> None:
    """A state is data from outside: missing or extra entries are a `UserError`, and no change."""
    saved, maker, other = fresh(), fresh(), fresh()
    first, second, third = made_rounds(maker, rng, 3, everybody=True)
    decide(saved, third)
    for each in (maker, other):
        decide(each, first)
    state = saved.state_dict()
    for wrong in [{**state, "no such entry": np.zeros(1)}, *(_less(state, key) for key in state)]:
        try:
            maker.load_state_dict(wrong)
        except UserError:
            continue
        raise AssertionError(f"a state with the entries {sorted(wrong)} was loaded")
    went_on, refused = decide(other, second), decide(maker, second)
    assert np.array_equal(went_on, refused), (
        f"refusing a state changed the next decision from {went_on} to {refused}"
    )


PROPERTIES: dict[str, Callable[[Factory, np.random.Generator], None]] = {
    check.__name__: check
    for check in (
        on_the_simplex,
        one_client_gets_everything,
        ties_weigh_the_same,
        a_higher_loss_never_gets_less,
        arrival_order_does_not_matter,
        names_do_not_matter,
        hostile_reports_are_set_aside,
        saving_changes_nothing,
        a_wrong_state_is_refused,
    )
}


def made_rounds(
    maker: DecisionMaker,
    rng: np.random.Generator,
    rounds: int,
    *,
    everybody: bool = False,
    names: Sequence[Hashable] = (),
) -> list[Round]:
    """Rounds of up to eight clients (no more than the maker was told there are)."""
    number = min(maker.clients or 8, 8)
    ids: list[Hashable] = [*names, *range(100, 100 + number)][:number]
    made = []
    for t in range(rounds):
        # The first round has everybody, and so does every other one after it.
        size = number if everybody or t % 2 == 0 else int(rng.integers(1, number + 1))
        made.append(made_round([ids[k] for k in rng.permutation(number)[:size].tolist()], rng))
    return made


def made_round(ids: list[Hashable], rng: np.random.Generator) -> Round:
    """Losses over several orders of magnitude, sizes and updates of these clients."""
    n = len(ids)
    losses = rng.gamma(0.5, 1.0, n)
    return Round(ids, losses, rng.integers(1, 50, n).astype(float), rng.normal(size=(n, 12)))


def twins(said: Round) -> Round:
    """The first two clients of the round report the same; the same two in every full round."""
    alike = said.reordered(np.argsort([str(k) for k in said.ids]).tolist())
    for values in (alike.losses, alike.sizes, alike.updates):
        values[1:2] = values[:1]
    return alike


def decide(maker: DecisionMaker, said: Round) -> Array:
    """The maker's weights for a round, which must be on the simplex."""
    extra: dict[str, Any] = {"updates": said.updates, "lr": 0.1} if maker.wants_updates else {}
    weights = maker.decide(list(said.ids), said.losses.copy(), said.sizes.copy(), **extra)
    assert isinstance(weights, np.ndarray), f"decide returned {type(weights).__name__}, no array"
    assert weights.shape == (len(said.ids),), f"{len(said.ids)} clients, weights {weights.shape}"
    fine = np.isfinite(weights).all() and (weights >= 0).all() and abs(weights.sum() - 1) <= 1e-9
    assert fine, f"losses {said.losses.tolist()} give weights {weights.tolist()}"
    return weights


def stored(state: State) -> State:
    """The state as it comes back from a file that holds arrays and nothing else."""
    for key, value in state.items():
        plain = isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
        assert plain, f"state entry {key!r} is no plain array of numbers"
    file = io.BytesIO()
    np.savez(file, **state)  # type: ignore[arg-type]
    file.seek(0)
    with np.load(file, allow_pickle=False) as kept:
        return {key: kept[key] for key in kept.files}


def _less(state: State, key: str) -> State:
    return {k: v for k, v in state.items() if k != key}


def _assert_close(one: Array, other: Array, what: str) -> None:
    off = float(np.abs(one - other).max(initial=0.0))
    assert off <= TOLERANCE, f"{what}: weights {one} became {other}"
