"""The paper's AAggFF-D, equations 10 to 16 and algorithm 3, over all K clients: the oracle.

Written from the paper alone, with vectors of size K and every term that the product leaves out.
The distribution functions are those of scipy.stats.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

DISTRIBUTIONS = {
    "weibull": stats.weibull_min(c=2.0, scale=1.0),
    "frechet": stats.invweibull(c=1.0, scale=1.0),
    "gumbel": stats.gumbel_r(loc=1.0, scale=1.0),
    "exponential": stats.expon(scale=1.0),
    "logistic": stats.logistic(loc=1.0, scale=1.0),
    "normal": stats.norm(loc=1.0, scale=1.0),
}


class DensePaper:
    """p over all K clients, O(K) a round."""

    def __init__(self, K, C, cdf="normal", C1=0.0, C2=None, correction=False):
        self.K, self.C = K, C
        self.cdf = DISTRIBUTIONS[cdf].cdf
        self.C1, self.C2 = C1, C if C2 is None else C2
        self.correction = correction
        self.t = 0
        self.p = np.full(K, 1 / K)
        self.gradients = np.zeros(K)

    def decide(self, S, F):
        """One round: the clients S (indices) report the losses F; returns p over S (eq. 16)."""
        self.t += 1
        n = len(S)
        C = n / self.K
        r_S = self.C1 + (self.C2 - self.C1) * self.cdf(F / np.mean(F))  # eq. 8
        rbar = np.mean(r_S)
        sampled = np.zeros(self.K)
        sampled[S] = 1.0
        r = np.zeros(self.K)
        r[S] = r_S
        dr = (1 - sampled / C) * rbar + sampled / C * r  # eq. 10
        if self.correction:
            dr = rbar + n * (self.K - 1) / (self.K * (n - 1)) * (dr - rbar)
        r0 = np.full(self.K, rbar)
        inner = 1 + self.p @ r0
        g = -dr / inner + r0 * (self.p @ (dr - r0)) / inner**2  # eq. 11
        self.gradients += g
        largest = self.C2 / (1 + self.C1) + 2 * (self.C2 - self.C1) / (self.C * (1 + self.C1))
        exponent = -np.sqrt(np.log(self.K)) * self.gradients / (largest * np.sqrt(self.t + 1))
        p = np.exp(exponent - exponent.max())
        self.p = p / p.sum()  # eq. 15
        return self.p[S] / self.p[S].sum()  # eq. 16
