"""AAggFF-D: follow the regularised leader from doubly robust responses, in O(|S|) a round.

The paper's decision is over all K clients (eqs. 10-15):

    r~_i = rbar + 1[i in S] (r_i - rbar) / C                              doubly robust response
    g~_i = -r~_i / (1 + rbar) + rbar <p, r~ - rbar> / (1 + rbar)^2        linearised gradient
    p_i  proportional to exp(-sqrt(log K) sum_tau g~_i / (L~ sqrt(t + 1)))

The second term of g~ is one number for all clients, and so is r~ for all who were not sampled;
normalising does not see what all have in common. What is left is a score that starts at 0 and
changes only for those who reported,

    score_i += (r_i - rbar) / (C (1 + rbar)),    p_i proportional to
    exp(strength * sqrt(log K) * score_i / (L~ sqrt(t + 1))),

and eq. 16 normalises over S anyway. So nothing of size K is kept or computed.

With rate 1 nothing has to be estimated: in a round in which all K report the gradient is the exact
one, -r / (1 + <p, r>), and the step size holds L = C2/(1 + C1) instead of L~. That is the setting
of theorem 2. (With L~, three times L, its bound would be broken: by 11% at K = 20, when one client
has all the loss for 50 rounds.)
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aaggff.decision.base import Array, DecisionMaker, State
from aaggff.decision.entropic import PRIORS, log_prior, prior_weights, softmax
from aaggff.decision.reports import Reports, check_reports, total
from aaggff.decision.responses import CdfResponse
from aaggff.decision.scores import Scores
from aaggff.decision.state import array_to_ids, check_keys, ids_to_array, read_count, read_floats
from aaggff.errors import UserError, unknown


class FollowTheLeader(DecisionMaker):
    """AAggFF-D.

    Args:
        clients: how many clients the federation has (K); 3_000_000_000 costs what 1_000 costs.
        rate: the share of them asked each round (C). None: what the first round shows, n/K.
        response: loss -> response in [C1, C2]. Where its C2 is None it becomes the paper's: C, or
            1/K if everybody takes part.
        strength: multiplies the exponent; 1 is the paper's step size, 0 the prior.
        prior: "uniform" (the paper's) or "size".
        correction: multiply the increment by n(K-1)/(K(n-1)), which makes it exactly unbiased for
            sampling without replacement: rbar comes from the same sample as r_i.

    >>> maker = FollowTheLeader(clients=817, rate=3 / 817)
    >>> maker.decide([5, 600, 17], [0.1, 0.9, 0.2], [20, 30, 50]).round(4).tolist()
    [0.2553, 0.4695, 0.2751]
    """

    def __init__(
        self,
        clients: int,
        rate: float | None = None,
        response: CdfResponse | None = None,
        *,
        strength: float = 1.0,
        prior: str = "uniform",
        correction: bool = False,
    ) -> None:
        if prior not in PRIORS:
            raise unknown("prior", str(prior), PRIORS)
        self.clients: int = clients
        self.response = response or CdfResponse(high=None)
        self.strength = strength
        self.prior = prior
        self.correction = correction
        self.round = 0
        self.scores = Scores()
        self.rate: float | None = None
        if rate is not None:
            self._set_rate(rate)

    def _set_rate(self, rate: float) -> None:
        self.response.choose_high(self._default_high(rate))
        low, high = self.response.low, self.response.high
        self.rate = rate
        # The largest entry a gradient can have; the second term is what estimating adds (lemma 5).
        self.largest = high / (1 + low)
        if rate < 1:
            self.largest += 2 * (high - low) / (rate * (1 + low))

    def _default_high(self, rate: float) -> float:
        """C2 of the paper: C, or 1/K where everybody takes part."""
        return 1 / self.clients if rate >= 1 else rate

    @property
    def slope(self) -> float:
        """What multiplies a score in the exponent: the inverse of the step size eta^(t+1)."""
        steps = math.sqrt(math.log(self.clients)) / (self.largest * math.sqrt(self.round + 1))
        return self.strength * steps

    def decide(
        self,
        ids: Sequence[Hashable] | NDArray[Any],
        losses: ArrayLike,
        sizes: ArrayLike,
        *,
        updates: Any = None,
        gram: ArrayLike | None = None,
        lr: float | None = None,
    ) -> Array:
        reports = check_reports(ids, losses, sizes)
        n = len(reports)
        if n == 0:  # the round said nothing: no decision was made, and t stays
            return self.settle(reports, prior_weights(reports.all_sizes, self.prior))
        if n > self.clients:
            raise UserError(f"clients: {n} report in one round, but clients={self.clients}")
        if self.rate is None:
            self._set_rate(n / self.clients)
        responses = self.response(reports.losses)  # eq. 8
        exact = self.rate == 1 and n == self.clients
        before = self._shares(reports) if exact or self.accounts else None
        increments = self._increments(responses, before if exact else None)
        scores = self.scores.add(reports.ids, increments)
        self.round += 1
        exponents = self.slope * scores  # eq. 15; softmax is over S alone, eq. 16
        if self.prior == "size":
            exponents += log_prior(reports.sizes, self.prior)
        return self.settle(reports, softmax(exponents), responses, before=before)

    def _shares(self, reports: Reports) -> Array | None:
        """p^(t), the decision about all K, at those who report. O(clients ever seen)."""
        exponents = self.slope * self.scores.add(reports.ids, np.zeros(len(reports)))
        if len(reports) == self.clients:
            return softmax(exponents + log_prior(reports.sizes, self.prior))
        if self.prior == "size":  # how many samples all K have is not known
            return None
        everybody = self.slope * self.scores.known()
        top = max(0.0, float(everybody.max()))
        unseen = max(0, self.clients - everybody.size)
        whole = unseen * math.exp(-top) + total(np.exp(everybody - top))
        return np.exp(exponents - top) / whole

    def regret_bound(self, rounds: int, *, fewest: int | None = None) -> float | None:
        """Theorem 2, 2 L sqrt(T log K) (strength + 1/strength)/2; with sampling its corollary.

        The corollary (L~ for L) is about the *estimated* gradients, whatever the sample. Its proof
        needs entries that are at most 2 L~ apart: so they are while a quarter of those asked answer
        (half of them with the correction, which may double an entry).
        """
        if self.prior != "uniform" or self.rate is None or self.strength == 0:
            return None
        if (self.rate == 1) != (fewest is None):  # a step size made for the other kind of round
            return None
        needed = self.rate * self.clients / (2 if self.correction else 4)
        if fewest is not None and fewest < needed:
            return None
        step = self.strength + 1.0 / self.strength
        return self.largest * math.sqrt(rounds * math.log(self.clients)) * step

    def _increments(self, responses: Array, weights: Array | None = None) -> Array:
        """(r_i - rbar) / (C (1 + rbar)) with this round's own C = n/K, as some may drop out.

        With the weights p of all K clients nothing is estimated: (r_i - rbar) / (1 + <p, r>).
        """
        n = responses.size
        mean = total(responses) / n
        if weights is not None:
            return (responses - mean) / (1 + total(weights * responses))
        scale = self.clients / (n * (1 + mean))
        if self.correction and n > 1:
            scale *= n * (self.clients - 1) / (self.clients * (n - 1))
        return (responses - mean) * scale

    def everybody(self, sizes: ArrayLike | None = None) -> Array:
        """The decision over all K clients (eq. 15) where ids are 0...K-1. O(K): to look at only.

        Args:
            sizes: all K sample counts; only prior="size" asks for them.
        """
        exponents = np.zeros(self.clients)
        ids, scores = self.scores.items()
        if len(ids):
            at = ids_to_array(ids)
            if at.dtype != np.int64 or at.min() < 0 or at.max() >= self.clients:
                raise UserError(
                    f"ids: the full decision needs integers from 0 to {self.clients - 1}"
                )
            exponents[at] = self.slope * scores
        if self.prior == "size":
            if sizes is None:
                raise UserError("sizes: prior='size' needs the sample counts of all clients")
            exponents += log_prior(np.asarray(sizes, dtype=np.float64), self.prior)
        return softmax(exponents)

    def forget(self, ids: Iterable[Hashable]) -> None:
        self.scores = self.scores.without(ids)

    def state_dict(self) -> State:
        ids, scores = self.scores.items()
        state: State = {
            "round": np.array(self.round),
            "rate": np.array([] if self.rate is None else [self.rate]),
            "ids": ids_to_array(ids),
            "scores": scores,
        }
        fit = self.response.state_dict()
        return state | {f"response.{key}": value for key, value in fit.items()}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        fit = self.response.state_dict()
        check_keys(state, ("round", "rate", "ids", "scores", *(f"response.{key}" for key in fit)))
        ids = array_to_ids(state["ids"])
        scores = read_floats(state, "scores", len(ids))
        rates = read_floats(state, "rate")
        if rates.size > 1 or not ((rates > 0) & (rates <= 1)).all():
            raise UserError("state: 'rate' is not a number above 0 and up to 1")
        rounds = read_count(state, "round")
        if rounds and not rates.size:
            raise UserError("state: 'rate' is empty after the first round")
        response = deepcopy(self.response)
        response.load_state_dict({key: state[f"response.{key}"] for key in fit})
        if rates.size:
            response.choose_high(self._default_high(float(rates[0])))
        # Nothing can go wrong from here on, so nothing is half loaded.
        self.response = response
        if rates.size:
            self._set_rate(float(rates[0]))
        self.round = rounds
        self.scores = Scores(ids, scores)
