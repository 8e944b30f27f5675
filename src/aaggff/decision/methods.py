"""Name -> factory: the one table of decision makers. Adding one is adding a row."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

from aaggff.decision.base import DecisionMaker
from aaggff.decision.entropic import PRIORS, Entropic
from aaggff.decision.responses import CDFS, CdfResponse, log_barrier, power
from aaggff.errors import UserError, unknown

LENGTHS = ("median", "unit")
Value = float | bool | str | None


@dataclass(frozen=True)
class MethodOption:
    """An option of a method: what it does, its default, and what it may be."""

    default: Value
    help: str
    choices: tuple[str, ...] | None = None
    low: float = -math.inf
    """Least number allowed."""
    above: bool = False
    """True if `low` itself is not allowed."""

    @property
    def expected(self) -> str:
        """What a value must be, for people."""
        if isinstance(self.default, bool):
            kind = "true or false"
        elif self.choices is not None:
            kind = "one of " + ", ".join(self.choices)
        elif self.low == -math.inf:
            kind = "a number"
        else:
            kind = f"a number {'>' if self.above else '>='} {self.low:g}"
        return f"{kind} or none" if self.default is None else kind

    def read(self, name: str, value: Any) -> Value:
        """The value, checked; numbers and booleans may come as text from a command line."""
        if self.default is None and (value is None or value in ("none", "None")):
            return None
        if isinstance(self.default, bool):
            return self._read_bool(name, value)
        if self.choices is not None:
            if value not in self.choices:
                raise unknown(f"{name}:", str(value), self.choices)
            return str(value)
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number) or number < self.low or (self.above and number == self.low):
            raise UserError(f"{name}: expected {self.expected}, got {value!r}")
        return number

    def _read_bool(self, name: str, value: Any) -> bool:
        known = {"true": True, "false": False, "1": True, "0": False}
        if str(value).lower() not in known:
            raise UserError(f"{name}: expected {self.expected}, got {value!r}")
        return known[str(value).lower()]


@dataclass(frozen=True)
class Method:
    """A row of the table."""

    name: str
    title: str
    formula: str
    reference: str
    factory: Callable[..., DecisionMaker]
    """Called as factory(clients, rate, **options); options are checked and complete."""
    options: Mapping[str, MethodOption] = field(default_factory=lambda: MappingProxyType({}))
    everybody: bool = False
    """True if the method is meant for all clients taking part in every round."""


def _fedavg(clients: int | None, rate: float | None) -> DecisionMaker:
    return Entropic(partial(power, q=0.0))


def _uniform(clients: int | None, rate: float | None) -> DecisionMaker:
    return Entropic(partial(power, q=0.0), prior="uniform")


def _qfedavg(clients: int | None, rate: float | None, q: float, step: str) -> DecisionMaker:
    if step == "plain":
        return Entropic(partial(power, q=q))
    from aaggff.decision.qfedavg import QFedAvg

    return QFedAvg(q)


def _term(clients: int | None, rate: float | None, lam: float) -> DecisionMaker:
    return Entropic(identity, eta=1 / lam if lam > 0 else math.inf)


def identity(losses: Any) -> Any:
    """TERM's response: the loss."""
    return losses


def _propfair(
    clients: int | None, rate: float | None, baseline: float, margin: float
) -> DecisionMaker:
    if margin >= baseline:
        raise UserError(f"margin: expected less than baseline={baseline:g}, got {margin:g}")
    return Entropic(partial(log_barrier, baseline=baseline, margin=margin))


def _afl(clients: int | None, rate: float | None, gamma: float) -> DecisionMaker:
    from aaggff.decision.ascent import ProjectedAscent

    return ProjectedAscent(gamma)


def _cdf_response(
    cdf: str,
    scale: float | None,
    shape: float | None,
    fit: str | None,
    low: float,
    high: float | None,
) -> CdfResponse:
    given = {"scale": scale, "shape": shape}
    params = {name: value for name, value in given.items() if value is not None}
    return CdfResponse(cdf, params, fit, low, high)


def _fedmgda(clients: int | None, rate: float | None, epsilon: float, length: str) -> DecisionMaker:
    from aaggff.decision.min_norm import MinNorm

    return MinNorm(epsilon, length=length)


def _aaggff_s(
    clients: int | None, rate: float | None, strength: float, prior: str, **response: Any
) -> DecisionMaker:
    from aaggff.decision.newton import OnlineNewton

    return OnlineNewton(clients, _cdf_response(**response), strength=strength, prior=prior)


def _aaggff_d(
    clients: int | None,
    rate: float | None,
    strength: float,
    prior: str,
    correction: bool,
    **response: Any,
) -> DecisionMaker:
    if clients is None:
        raise UserError("clients: method 'aaggff-d' needs the number of clients, clients=K")
    from aaggff.decision.leader import FollowTheLeader

    return FollowTheLeader(
        clients,
        rate,
        _cdf_response(**response),
        strength=strength,
        prior=prior,
        correction=correction,
    )


_AAGGFF = {
    "cdf": MethodOption("normal", "distribution function that bounds the loss", tuple(CDFS)),
    "scale": MethodOption(None, "its scale (or location); none: the paper's"),
    "shape": MethodOption(None, "its shape; none: the paper's", low=0, above=True),
    "fit": MethodOption(None, "estimate scale and shape from past rounds", ("spacing",)),
    "low": MethodOption(0.0, "C1, least response", low=0),
    "high": MethodOption(None, "C2, greatest response; none: the paper's", low=0, above=True),
    "strength": MethodOption(1.0, "how boldly to depart from the prior; 0 stays there", low=0),
    "prior": MethodOption("uniform", "where to start and be drawn to", PRIORS),
}

_ROWS = (
    Method(
        "fedavg",
        "FedAvg",
        "p_i ~ n_i",
        "McMahan et al., AISTATS 2017",
        _fedavg,
    ),
    Method(
        "uniform",
        "Uniform",
        "p_i = 1/|S|",
        "where AAggFF starts from",
        _uniform,
    ),
    Method(
        "qfedavg",
        "q-FedAvg",
        "p_i ~ F_i^q; step sum F^q / sum(F^q + q F^(q-1) |D_i|^2 / lr)",
        "Li et al., ICLR 2020",
        _qfedavg,
        {
            "q": MethodOption(1.0, "how much fairness; 0 is none", low=0),
            "step": MethodOption(
                "authors",
                "authors: as above, needs updates and lr; plain: p_i ~ n_i F_i^q, step 1",
                ("authors", "plain"),
            ),
        },
    ),
    Method(
        "term",
        "TERM",
        "p_i ~ n_i exp(lam F_i)",
        "Li et al., ICLR 2021",
        _term,
        {"lam": MethodOption(1.0, "tilt; 0 is FedAvg", low=0)},
    ),
    Method(
        "propfair",
        "PropFair",
        "p_i ~ n_i / max(M - F_i, margin)",
        "Zhang et al., TMLR 2022",
        _propfair,
        {
            "baseline": MethodOption(5.0, "M, the loss of no utility", low=0, above=True),
            "margin": MethodOption(0.2, "M - F_i is not less than this", low=0, above=True),
        },
    ),
    Method(
        "afl",
        "AFL",
        "p <- projection of p + gamma F onto the simplex",
        "Mohri et al., ICML 2019",
        _afl,
        {"gamma": MethodOption(0.1, "step size of the ascent", low=0)},
        everybody=True,
    ),
    Method(
        "fedmgda",
        "FedMGDA+",
        "p = argmin |sum p_i D_i/|D_i||^2, |p_i - 1/n| <= epsilon",
        "Hu et al., IEEE TNSE 2022",
        _fedmgda,
        {
            "epsilon": MethodOption(0.5, "how far from the mean; 0 is the mean", low=0),
            "length": MethodOption(
                "median", "how long a direction is made: as the median update, or 1", LENGTHS
            ),
        },
    ),
    Method(
        "aaggff-s",
        "AAggFF-S",
        "p = argmin sum_t <g,p> + alpha/2 |p - prior|^2 + beta/2 sum_t <g,p - p_t>^2",
        "Hahn et al., ICML 2024",
        _aaggff_s,
        _AAGGFF,
        everybody=True,
    ),
    Method(
        "aaggff-d",
        "AAggFF-D",
        "p_i ~ prior_i exp(strength sqrt(log K/(t+1)) s_i/L); s_i += (r_i - rbar)/(C (1+rbar))",
        "Hahn et al., ICML 2024",
        _aaggff_d,
        _AAGGFF
        | {
            "correction": MethodOption(
                False, "make the increment exactly unbiased in small samples"
            )
        },
    ),
)

METHODS: dict[str, Method] = {row.name: row for row in _ROWS}


def methods() -> list[str]:
    """The names of all methods.

    >>> "aaggff-d" in methods()
    True
    """
    return list(METHODS)


def decision_maker(
    name: str, *, clients: int | None = None, rate: float | None = None, **options: Any
) -> DecisionMaker:
    """A decision maker by name.

    Args:
        name: one of `methods()`.
        clients: K, how many clients the federation has. It may be three billion.
        rate: C, the share of them asked each round, above 0 and up to 1.
        options: the method's own; `aaggff methods` lists them.

    >>> maker = decision_maker("term", lam=2)
    >>> maker.decide(["a", "b"], [0.1, 0.6], [10, 10]).round(4).tolist()
    [0.2689, 0.7311]
    >>> decision_maker("tern")
    Traceback (most recent call last):
    aaggff.errors.UserError: unknown method 'tern'; did you mean 'term'? (known: ...)
    """
    if name not in METHODS:
        raise unknown("method", str(name), METHODS)
    method = METHODS[name]
    clients, rate = _check_clients(clients), _check_rate(rate)
    for option in options:
        if option not in method.options:
            raise unknown(f"option of method {name!r}", option, method.options)
    checked = {
        key: option.read(key, options.get(key, option.default))
        for key, option in method.options.items()
    }
    maker = method.factory(clients, rate, **checked)
    if maker.clients is None:
        maker.clients = clients  # of no use to the rule, but to those who judge it
    return maker


def _check_clients(clients: Any) -> int | None:
    if clients is None:
        return None
    try:
        number = math.nan if isinstance(clients, bool) else float(clients)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (number >= 1 and number.is_integer()):
        raise UserError(f"clients: expected a whole number >= 1, got {clients!r}")
    return int(clients)


def _check_rate(rate: Any) -> float | None:
    if rate is None:
        return None
    try:
        number = math.nan if isinstance(rate, bool) else float(rate)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 < number <= 1:
        raise UserError(f"rate: expected a share of the clients, 0 < rate <= 1, got {rate!r}")
    return number
