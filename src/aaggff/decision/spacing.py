"""Maximum spacing estimation of a CDF's parameters from the relative losses of past rounds.

Sort the sample; a good CDF spreads it evenly over [0, 1], so choose the parameters that maximise
the sum of the logarithms of the spacings CDF(x_(j)) - CDF(x_(j-1)), with 0 and 1 at the ends. A
value that occurs m times shares the spacing before it in m equal parts.

The memory is bounded: the latest `WINDOW` ratios. A round larger than `PER_ROUND` enters as that
many evenly spaced order statistics. Ratios of one round are kept sorted, so the estimate does not
depend on who answered first. The parameters are estimated again whenever a tenth of the sample is
new, always from the same starting point: what was saved and loaded continues exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aaggff.decision.base import Array, State
from aaggff.decision.state import read_count, read_floats
from aaggff.errors import UserError

if TYPE_CHECKING:
    from aaggff.decision.responses import Cdf

WINDOW = 1024
PER_ROUND = 256
ENOUGH = 20
"""Below this many ratios the parameters given stay as they are."""
SMALLEST, LARGEST = 0.05, 20.0
"""Scale and shape are looked for in this range (a location in [-LARGEST, LARGEST])."""


class SpacingFit:
    """The sample of past ratios and the parameters estimated from it."""

    def __init__(self, cdf: Cdf, params: Mapping[str, float]) -> None:
        self.cdf = cdf
        self.start = dict(params)
        self.params = dict(params)
        self.ratios: Array = np.empty(0)
        self.fresh = 0

    def learn(self, ratios: Array) -> dict[str, float]:
        """Remember a round; the parameters to use from the next round on."""
        new = np.sort(ratios)
        if new.size > PER_ROUND:
            new = new[np.linspace(0, new.size - 1, PER_ROUND).round().astype(np.int64)]
        self.ratios = np.concatenate([self.ratios, new])[-WINDOW:]
        self.fresh = min(self.fresh + new.size, self.ratios.size)
        if self.ratios.size >= ENOUGH and self.fresh * 10 >= self.ratios.size:
            self.params = fit_spacing(self.cdf, self.ratios, self.start)
            self.fresh = 0
        return self.params

    def state_dict(self) -> State:
        """The sample, the parameters, and how much of the sample is not in them yet."""
        return {
            "ratios": self.ratios.copy(),
            "params": np.array(list(self.params.values())),
            "fresh": np.array(self.fresh),
        }

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> dict[str, float]:
        """Continue where the saved fit stood; returns its parameters."""
        ratios = read_floats(state, "ratios", lowest=0.0)
        values = read_floats(state, "params", len(self.start))
        fresh = read_count(state, "fresh")
        if ratios.size > WINDOW or fresh > ratios.size:
            raise UserError(
                f"state: {ratios.size} ratios of which {fresh} fresh, expected at most {WINDOW}"
            )
        params = dict(zip(self.start, values.tolist()))
        if any(v <= 0 and not (k == "scale" and self.cdf.location) for k, v in params.items()):
            raise UserError(f"state: 'params' are {params}, expected positive numbers")
        self.ratios, self.params, self.fresh = ratios, params, fresh
        return params


def fit_spacing(cdf: Cdf, sample: Array, start: Mapping[str, float]) -> dict[str, float]:
    """Parameters of `cdf` that maximise the product of spacings of `sample`.

    A sample of fewer than three distinct values says nothing about a spread: `start` is returned.
    """
    distinct, counts = np.unique(sample, return_counts=True)
    if distinct.size < 3:
        return dict(start)
    from scipy.optimize import minimize

    names = list(start)
    free = [name == "scale" and cdf.location for name in names]  # may be <= 0: no logarithm
    share = np.append(counts, 1).astype(np.float64)
    tiny = np.finfo(np.float64).tiny

    def unpack(x: Array) -> dict[str, float]:
        return {n: float(v if f else np.exp(v)) for n, v, f in zip(names, x.tolist(), free)}

    def cost(x: Array) -> float:
        at = np.concatenate([[0.0], cdf(distinct, unpack(x)), [1.0]])
        # The floor keeps the search going where neighbours fall on one value of the CDF.
        return -float(np.sum(share * np.log(np.maximum(np.diff(at), tiny) / share)))

    low, high = np.log(SMALLEST), np.log(LARGEST)
    found = minimize(
        cost,
        [v if f else np.log(v) for v, f in zip(start.values(), free)],
        method="Nelder-Mead",
        bounds=[(-LARGEST, LARGEST) if f else (low, high) for f in free],
        options={"xatol": 1e-6, "fatol": 1e-9, "maxiter": 1000},
    )
    return unpack(np.asarray(found.x))
