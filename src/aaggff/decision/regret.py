"""Regret: how much worse than the best fixed weights in hindsight a decision maker has done.

The decision loss of round t is -log(1 + <p, r_t>), a log-optimal portfolio's (section 4 of the
paper). The decision p_t is made *before* the responses r_t are known (it is what the round before
gave), and

    regret = sum_t -log(1 + <p_t, r_t>)  -  min_p sum_t -log(1 + <p, r_t>).

A round enters in one of three ways:

- **exactly**, if everybody reported: its responses are kept, up to `BUDGET` numbers in all.
- **by its tangent** at p_t, if everybody reported and there is no room left. A tangent is never
  above the loss, so the regret can only come out too large.
- **by an estimate**, if some did not report: the loss is taken to be linear in the doubly robust
  responses r~ (eqs. 10 and 11), -log(1 + rbar) - <p, r~ - rbar>/(1 + rbar). The best fixed weights
  are then one client, and what is kept is a number per client ever heard. The best of noisy sums
  looks too good, so this regret tends to come out too large.

So nothing of size K times T is kept for large K, and a tracker costs next to nothing per round
(with sampling, one pass over the clients ever heard).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aaggff.decision.base import Array, Decision, DecisionMaker, State
from aaggff.decision.entropic import prior_weights
from aaggff.decision.hindsight import best_fixed
from aaggff.decision.reports import as_list, total
from aaggff.decision.responses import CdfResponse
from aaggff.decision.scores import Scores
from aaggff.decision.state import array_to_ids, check_keys, ids_to_array, read_floats
from aaggff.errors import UserError

BUDGET = 1_000_000
"""Responses kept exactly: 8 MB. Enough for 1,000 rounds of 1,000 clients."""


@dataclass(frozen=True)
class Regret:
    """What was suffered and what the best fixed weights would have suffered."""

    rounds: int
    suffered: float
    """sum of the decision losses, -log(1 + <p_t, r_t>)"""
    best: float
    """The same for `weights`."""
    gap: float
    """No fixed weights suffer less than best - gap: a certificate, whatever the solver did."""
    weights: Mapping[Hashable, float]
    """The best fixed weights; who is not named weighs 0 (or was never heard)."""
    bound: float | None
    """The most the rule's theorem allows; None where there is no theorem."""
    exact: bool
    """False if a round was not judged by everybody's responses, or only by its tangent."""
    unjudged: int
    """Rounds left out: the rule does not say how it weighed those who were not there."""

    @property
    def value(self) -> float:
        """The regret, at most: what was suffered over the best that is possible."""
        return self.suffered - self.best + self.gap


class RegretTracker:
    """Keeps account of a decision maker's regret, decision by decision.

    Args:
        maker: whose decisions. They are judged by its own responses if it has bounded ones.
        response: judge by these instead; then `record` needs the losses.

    >>> from aaggff import decision_maker
    >>> maker = decision_maker("aaggff-s", clients=3)
    >>> tracker = RegretTracker(maker)
    >>> for losses in ([0.1, 0.2, 0.9], [0.2, 0.1, 0.8], [0.1, 0.1, 0.7]):
    ...     weights = maker.decide(["a", "b", "c"], losses, [10, 10, 10])
    ...     tracker.record(maker.last)
    >>> found = tracker.summary()
    >>> found.weights, round(found.value, 4), round(found.bound, 4), found.gap < 1e-12
    ({'c': 1.0}, 0.3253, 2.1212, True)
    """

    def __init__(self, maker: DecisionMaker, response: CdfResponse | None = None) -> None:
        if response is None and not _bounded(maker):
            raise UserError(
                "response: this decision maker has no bounded response of its own; say by which"
                " its decisions are judged, e.g. response=CdfResponse('normal', high=None)"
            )
        self.maker = maker
        self.response = response
        maker.accounts = True
        self.rounds = 0
        self.unjudged = 0
        self.suffered = 0.0
        self.offset = 0.0
        """The constant of the rounds that enter linearly: loss(p) = offset - <scores, p>."""
        self.linear = 0
        """How many those are."""
        self.partial = 0
        """In how many of them somebody was missing."""
        self.fewest = 0
        """How many reported in the smallest of these."""
        self.scores = Scores()
        self.columns: dict[Hashable, int] = {}
        """Where a client stands in the responses that are kept."""
        self.history: list[Array] = []
        self.latest: dict[Hashable, float] = {}
        """The decision before, of rules that do not say themselves how they weigh everybody."""
        self.changed = False
        """Whether clients joined or left since the first round: no theorem is about that."""
        self._found: Regret | None = None

    def record(self, decision: Decision, losses: ArrayLike | None = None) -> None:
        """One more round, as it was decided.

        Args:
            decision: `maker.last`.
            losses: the round's; only where the tracker was given a response.
        """
        ids, here = _accepted(decision)
        if not len(ids):  # nobody's report could be used: no decision was made
            return
        responses = self._responses(decision, losses, here)
        before = self._before(decision, ids, here)
        self._found = None
        if before is None:
            self.unjudged += 1
            return
        self.rounds += 1
        n, clients = len(ids), self._clients(len(ids))
        mean = total(responses) / n
        if n < clients:
            self._estimate(ids, responses - mean, mean, before, clients)
            return
        inner = total(before * responses)
        self.suffered -= float(np.log1p(inner))
        if (len(self.history) + 1) * n <= BUDGET:
            self._keep(ids, responses)
        else:
            slope = (responses - mean) / (1.0 + inner)
            self.scores.add(ids, slope)
            self.offset += total(before * slope) - float(np.log1p(inner))
            self.linear += 1

    def _estimate(self, ids: Any, apart: Array, mean: float, before: Array, clients: int) -> None:
        """A round in which some are missing: linear in the doubly robust responses."""
        n = len(ids)
        scale = clients / (n * (1.0 + mean))
        if getattr(self.maker, "correction", False) and n > 1:
            scale *= n * (clients - 1) / (clients * (n - 1))
        slope = apart * scale
        self.scores.add(ids, slope)
        constant = float(np.log1p(mean))
        self.suffered -= constant + total(before * slope)
        self.offset -= constant
        self.linear += 1
        self.fewest = min(n, self.fewest) if self.partial else n
        self.partial += 1

    def _keep(self, ids: Any, responses: Array) -> None:
        names = as_list(ids)
        if self.columns.keys() != set(names):
            self.changed = self.changed or bool(self.columns)
            for name in names:
                self.columns.setdefault(name, len(self.columns))
        row = np.full(len(self.columns), total(responses) / responses.size)
        row[[self.columns[name] for name in names]] = responses
        self.history.append(row)

    def _responses(
        self, decision: Decision, losses: ArrayLike | None, here: NDArray[np.bool_] | slice
    ) -> Array:
        if self.response is None:
            if decision.responses is None:
                raise UserError("decision: it holds no responses to judge it by")
            return decision.responses[here]
        if losses is None:
            raise UserError("losses: a tracker with a response of its own needs the losses")
        given = np.asarray(losses, dtype=np.float64)[here]
        self.response.choose_high(1 / self._clients(given.size))
        return self.response(given)

    def _before(
        self, decision: Decision, ids: Any, here: NDArray[np.bool_] | slice
    ) -> Array | None:
        """p_t, at those who reported."""
        if decision.before is not None:
            return decision.before[here]
        names, weights = as_list(ids), decision.weights[here]
        earlier, self.latest = self.latest, dict(zip(names, weights.tolist()))
        if earlier.keys() == self.latest.keys():
            return np.array([earlier[name] for name in names])
        if earlier or len(names) < self._clients(len(names)):
            return None
        return prior_weights(decision.sizes[here], getattr(self.maker, "prior", "uniform"))

    def _clients(self, reported: int) -> int:
        return self.maker.clients or max(len(self.columns), reported)

    @property
    def regret(self) -> float | None:
        """The regret so far; None before a round could be judged."""
        return self.summary().value if self.rounds else None

    @property
    def bound(self) -> float | None:
        """The most a theorem allows after so many rounds; None where there is none."""
        if not self.rounds or self.unjudged or self.changed or 0 < self.partial < self.rounds:
            return None
        return self.maker.regret_bound(self.rounds, fewest=self.fewest if self.partial else None)

    def summary(self) -> Regret:
        """Everything about the regret so far."""
        if self._found is None:
            weights, best, gap = self._best()
            self._found = Regret(
                rounds=self.rounds,
                suffered=self.suffered,
                best=best,
                gap=gap,
                weights=weights,
                bound=self.bound,
                exact=self.linear == 0 and not self.unjudged,
                unjudged=self.unjudged,
            )
        return self._found

    def _best(self) -> tuple[dict[Hashable, float], float, float]:
        ids, scores = self.scores.items()
        if not self.history:
            # A linear loss is least at one client: maybe one that was never heard, whose score is 0
            if not len(ids) or (scores.max() < 0 and len(ids) < self._clients(len(ids))):
                return {}, self.offset, 0.0
            at = int(scores.argmax())
            return {as_list(ids)[at]: 1.0}, self.offset - float(scores[at]), 0.0
        columns = dict(self.columns)
        for name in as_list(ids):
            columns.setdefault(name, len(columns))
        slope = np.zeros(len(columns))
        slope[[columns[name] for name in as_list(ids)]] = scores
        p, growth, gap = best_fixed(self._rows(len(columns)), slope)
        fixed = {name: float(p[at]) for name, at in columns.items() if p[at] > 0}
        return fixed, self.offset - growth, gap

    def _rows(self, clients: int) -> Array:
        """The history as a matrix; who joined later had each earlier round's mean response."""
        rows = np.empty((len(self.history), clients))
        for t, row in enumerate(self.history):
            rows[t, : row.size] = row
            rows[t, row.size :] = total(row) / row.size
        return rows

    def forget(self, ids: Iterable[Hashable]) -> None:
        """Clients who left for good."""
        leaving = set(ids)
        self.scores = self.scores.without(leaving)
        self.latest = {name: p for name, p in self.latest.items() if name not in leaving}
        gone = [at for name, at in self.columns.items() if name in leaving]
        self._found = None
        if gone:
            self.changed = True
            stay = [name for name in self.columns if name not in leaving]
            rows = np.delete(self._rows(len(self.columns)), gone, axis=1)
            self.columns = {name: at for at, name in enumerate(stay)}
            self.history = list(rows) if stay else []

    def state_dict(self) -> State:
        """The account, as plain arrays."""
        ids, scores = self.scores.items()
        counts = [self.rounds, self.unjudged, self.linear, self.partial, self.fewest, self.changed]
        response = {} if self.response is None else self.response.state_dict()
        return {
            "counts": np.array(counts, dtype=np.int64),
            "sums": np.array([self.suffered, self.offset]),
            "ids": ids_to_array(ids),
            "scores": scores,
            "columns": ids_to_array(list(self.columns)),
            "history": self._rows(len(self.columns)).ravel(),
            "latest.ids": ids_to_array(list(self.latest)),
            "latest.weights": np.array(list(self.latest.values()), dtype=np.float64),
            **{f"response.{key}": value for key, value in response.items()},
        }

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue where the saved account stood."""
        check_keys(state, self.state_dict())
        ids, columns = array_to_ids(state["ids"]), array_to_ids(state["columns"])
        latest = array_to_ids(state["latest.ids"])
        scores = read_floats(state, "scores", len(ids))
        weights = read_floats(state, "latest.weights", len(latest), lowest=0.0)
        sums = read_floats(state, "sums", 2)
        counts = read_floats(state, "counts", 6, lowest=0.0).astype(np.int64).tolist()
        history = read_floats(state, "history", lowest=0.0)
        rounds = history.size // max(1, len(columns))
        if history.size != rounds * len(columns) or rounds + counts[2] != counts[0]:
            raise UserError(
                f"state: 'history' holds {history.size} responses, expected those of"
                f" {counts[0] - counts[2]} rounds and {len(columns)} clients"
            )
        if self.response is not None:
            start = len("response.")
            fit = {k[start:]: v for k, v in state.items() if k.startswith("response.")}
            self.response.load_state_dict(fit)
        self.rounds, self.unjudged, self.linear, self.partial, self.fewest = counts[:5]
        self.changed = bool(counts[5])
        self.suffered, self.offset = sums.tolist()
        self.scores = Scores(ids, scores)
        self.columns = {name: at for at, name in enumerate(columns)}
        self.history = list(history.reshape(rounds, len(columns)))
        self.latest = dict(zip(latest, weights.tolist()))
        self._found = None


def _accepted(decision: Decision) -> tuple[Any, NDArray[np.bool_] | slice]:
    """Whose reports were used, and where they stand in the decision."""
    if not decision.set_aside:
        return decision.ids, slice(None)
    names = as_list(decision.ids)  # type: ignore[arg-type]
    here = np.array([name not in decision.set_aside for name in names])
    return [name for name, good in zip(names, here.tolist()) if good], here


def tracker_of(maker: DecisionMaker) -> RegretTracker | None:
    """An account for rules with bounded responses; None for the others: they have no regret."""
    return RegretTracker(maker) if _bounded(maker) else None


def _bounded(maker: DecisionMaker) -> bool:
    return isinstance(getattr(maker, "response", None), CdfResponse)
