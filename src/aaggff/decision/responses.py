"""Loss -> response: how badly off is each client, as a number the learners can work with.

AAggFF bounds the response with a CDF of the loss relative to the round's mean (eq. 8); the methods
it is compared with use an unbounded function of the loss (table 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaggff.decision.base import Array, State
from aaggff.decision.reports import total
from aaggff.decision.state import check_keys
from aaggff.errors import UserError, unknown

MANY = 256
"""From here on the error function comes from scipy.special, whose import is not free."""


def _weibull(x: Array, scale: float, shape: float) -> Array:
    return -np.expm1(-((x / scale) ** shape))


def _frechet(x: Array, scale: float, shape: float) -> Array:
    return np.exp(-((x / scale) ** -shape))  # x = 0: exp(-inf) = 0


def _gumbel(x: Array, scale: float, shape: float) -> Array:
    return np.exp(-np.exp((scale - x) / shape))


def _exponential(x: Array, scale: float, shape: float) -> Array:
    return -np.expm1(-scale * x)


def _logistic(x: Array, scale: float, shape: float) -> Array:
    return 1.0 / (1.0 + np.exp((scale - x) / shape))


def _normal(x: Array, scale: float, shape: float) -> Array:
    z = (scale - x) / (shape * math.sqrt(2.0))
    if z.size < MANY:
        return np.array([0.5 * math.erfc(v) for v in z.tolist()])
    from scipy.special import erfc

    return np.asarray(0.5 * erfc(z), dtype=np.float64)


@dataclass(frozen=True)
class Cdf:
    """A distribution function of the relative loss, with the paper's parameters."""

    formula: str
    function: Callable[[Array, float, float], Array]
    defaults: Mapping[str, float]
    location: bool = False
    """True where what the paper calls the scale is a location, which may have any sign."""

    def __call__(self, x: Array, params: Mapping[str, float]) -> Array:
        with np.errstate(divide="ignore", over="ignore"):
            return self.function(x, params["scale"], params.get("shape", 1.0))


# Appendix B.1. a is the scale, b the shape.
CDFS: dict[str, Cdf] = {
    "weibull": Cdf("1 - exp(-(x/a)^b)", _weibull, {"scale": 1.0, "shape": 2.0}),
    "frechet": Cdf("exp(-(x/a)^-b)", _frechet, {"scale": 1.0, "shape": 1.0}),
    "gumbel": Cdf("exp(-exp(-(x-a)/b))", _gumbel, {"scale": 1.0, "shape": 1.0}, True),
    "exponential": Cdf("1 - exp(-a x)", _exponential, {"scale": 1.0}),
    "logistic": Cdf("1/(1 + exp(-(x-a)/b))", _logistic, {"scale": 1.0, "shape": 1.0}, True),
    "normal": Cdf("(1 + erf((x-a)/(b sqrt 2)))/2", _normal, {"scale": 1.0, "shape": 1.0}, True),
}


def relative(losses: Array) -> Array:
    """Losses divided by their mean; 1 for everyone when all are zero."""
    mean = total(losses) / losses.size
    return losses / mean if mean > 0 else np.ones(losses.size)


class CdfResponse:
    """The bounded response r_i = C1 + (C2 - C1) CDF(F_i / mean F) (eq. 8).

    Args:
        cdf: weibull, frechet, gumbel, exponential, logistic or normal.
        params: its scale and shape where they should differ from the paper's.
        fit: None keeps `params`; "spacing" re-estimates them by maximum spacing from the relative
            losses of *past* rounds (see `aaggff.decision.spacing`), starting from `params`.
        low, high: the range [C1, C2] of the response, 0 <= C1 < C2. A `high` of None is left to
            the learner, whose default depends on K and C (`choose_high`).

    The example of the paper's table A1:

    >>> respond = CdfResponse("weibull")
    >>> print(np.round(respond(np.array([0.01, 0.10, 0.02])), 2))
    [0.05 1.   0.19]
    """

    def __init__(
        self,
        cdf: str = "normal",
        params: Mapping[str, float] | None = None,
        fit: str | None = None,
        low: float = 0.0,
        high: float | None = 1.0,
    ) -> None:
        if cdf not in CDFS:
            raise unknown("cdf", str(cdf), CDFS)
        if fit not in (None, "spacing"):
            raise unknown("fit", str(fit), ["spacing"])
        self.cdf = cdf
        self.low = float(low)
        self._given = high
        self.choose_high(1.0)
        self.params = _check_params(cdf, params or {})
        self.history = None
        if fit == "spacing":
            from aaggff.decision.spacing import SpacingFit

            self.history = SpacingFit(CDFS[cdf], self.params)

    def choose_high(self, default: float) -> None:
        """Use `default` as C2 unless a C2 was asked for."""
        high = default if self._given is None else self._given
        if not 0 <= self.low < high < math.inf:
            raise UserError(
                f"low and high: expected 0 <= low < high, got low={self.low:g}, high={high:g}"
            )
        self.high = float(high)

    def __call__(self, losses: Array) -> Array:
        """Responses in [low, high]. A fitted response also remembers the round for the next."""
        ratios = relative(losses)
        responses = self.low + (self.high - self.low) * CDFS[self.cdf](ratios, self.params)
        if self.history is not None:
            self.params = self.history.learn(ratios)
        return responses

    def state_dict(self) -> State:
        """Empty unless the response is fitted."""
        return {} if self.history is None else self.history.state_dict()

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue where the saved response stood."""
        check_keys(state, self.state_dict())
        if self.history is not None:
            self.params = self.history.load_state_dict(state)


def _check_params(cdf: str, params: Mapping[str, float]) -> dict[str, float]:
    checked = dict(CDFS[cdf].defaults)
    for name, value in params.items():
        if name not in checked:
            raise unknown(f"parameter of cdf {cdf!r}", str(name), checked)
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        any_sign = name == "scale" and CDFS[cdf].location
        if not (math.isfinite(number) and (any_sign or number > 0)):
            expected = "a finite number" if any_sign else "a positive number"
            raise UserError(f"{name}: cdf {cdf!r} expects {expected}, got {value!r}")
        checked[name] = number
    return checked


def power(losses: Array, q: float) -> Array:
    """q log F, q-FedAvg's response: exp of it is F^q, so a loss of 0 weighs nothing for q > 0."""
    if q == 0:
        return np.zeros(losses.size)
    with np.errstate(divide="ignore"):
        return q * np.log(losses)


def log_barrier(losses: Array, baseline: float, margin: float) -> Array:
    """-log(M - F), PropFair's response, with F clipped at M - margin."""
    return -np.log(np.maximum(baseline - losses, margin))
