"""One entropic step from a fixed prior: FedAvg, uniform, q-FedAvg, TERM and PropFair.

Table 1 of the paper: each of them is p_i proportional to prior_i exp(r_i / eta) (eq. 6) for a
response r_i of its own. They keep nothing from round to round.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aaggff.decision.base import Array, DecisionMaker, State
from aaggff.decision.reports import Reports, check_reports, total
from aaggff.decision.state import check_keys
from aaggff.errors import unknown

PRIORS = ("size", "uniform")


def softmax(exponents: Array) -> Array:
    """exp(x_i) / sum_j exp(x_j), for exponents of any size; at least one must be finite.

    >>> softmax(np.array([1e5, 1e5, -np.inf])).tolist()
    [0.5, 0.5, 0.0]
    """
    grown: Array = np.exp(exponents - exponents.max())
    return np.divide(grown, total(grown))


def log_prior(sizes: Array, prior: str) -> Array:
    """log(n_i), or 0 for the uniform prior: normalising is left to `softmax`."""
    return np.log(sizes) if prior == "size" else np.zeros(sizes.size)


def prior_weights(sizes: Array, prior: str) -> Array:
    """The prior as weights: n_i/n or 1/|S|."""
    return softmax(log_prior(sizes, prior))


def entropic_step(prior: Array, responses: Array, eta: float = 1.0) -> Array:
    """p_i proportional to exp(prior_i + r_i / eta), eq. 6 with the prior as a logarithm.

    Computed from differences of the responses, so that a loss of 1e100 is as good as any other. A
    response of -inf means no weight; if every response is -inf, the prior is the answer.

    >>> entropic_step(np.log([1.0, 3.0]), np.log([2.0, 2.0])).round(6).tolist()
    [0.25, 0.75]
    """
    best = responses.max()
    if best == -np.inf:
        return softmax(prior)
    with np.errstate(over="ignore"):
        return softmax(prior + (responses - best) / eta)


class Entropic(DecisionMaker):
    """A response followed by one entropic step from a prior.

    Args:
        response: accepted losses -> responses, one per client; must not fall as the loss grows.
        eta: step size; `inf` ignores the responses.
        prior: "size" (n_i/n) or "uniform" (1/|S|).

    Tilting by the loss, lambda = 1/eta = 2:

    >>> maker = Entropic(lambda losses: losses, eta=0.5)
    >>> maker.decide(["a", "b"], [0.1, 0.6], [10, 10]).round(4).tolist()
    [0.2689, 0.7311]
    """

    def __init__(
        self, response: Callable[[Array], Array], *, eta: float = 1.0, prior: str = "size"
    ) -> None:
        if prior not in PRIORS:
            raise unknown("prior", str(prior), PRIORS)
        self.response = response
        self.eta = eta
        self.prior = prior

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
        return self.step(check_reports(ids, losses, sizes))

    def step(self, reports: Reports) -> Array:
        """The decision for reports that have been checked."""
        if not len(reports):
            return self.settle(reports, prior_weights(reports.all_sizes, self.prior))
        responses = self.response(reports.losses)
        weights = entropic_step(log_prior(reports.sizes, self.prior), responses, self.eta)
        return self.settle(reports, weights, responses)

    def state_dict(self) -> State:
        return {}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        check_keys(state, ())
