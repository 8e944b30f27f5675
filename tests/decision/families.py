"""Sequences of responses that a decision maker may meet, and what the theorems allow on them."""

from __future__ import annotations

import math

import numpy as np

from aaggff.decision.leader import FollowTheLeader
from aaggff.decision.newton import OnlineNewton
from aaggff.decision.responses import CdfResponse

FAMILIES = ("constant", "alternating", "switching", "uniform", "zero-one", "one-hot")


def ranges(K):
    """[C1, C2]: the paper's, a wide one, one away from 0 and one far above it."""
    return [(0.0, 1 / K), (0.0, 1.0), (0.5, 2.0), (0.0, 10.0)]


def family(name, K, T, seed=0):
    """T x K numbers in [0, 1]."""
    rng = np.random.default_rng([seed, K, T])
    t, k = np.arange(T)[:, None], np.arange(K)
    match name:
        case "constant":
            return np.tile(rng.random(K), (T, 1))
        case "alternating":  # two camps, each as badly off as can be in its turn
            return ((t + k) % 2).astype(float)
        case "switching":  # somebody else has all the loss every T/5 rounds
            return (k == (5 * t // T) % K).astype(float)
        case "uniform":
            return rng.random((T, K))
        case "zero-one":
            return rng.integers(0, 2, (T, K)).astype(float)
        case "one-hot":  # one client has all the loss, always
            return np.tile((k == 0).astype(float), (T, 1))
    raise ValueError(name)


class AsReported(CdfResponse):
    """A response that is what the sequence says: losses in [0, 1], stretched over the range."""

    def __call__(self, losses):
        return self.low + (self.high - self.low) * losses


def newton(K, low, high, strength=1.0):
    return OnlineNewton(K, AsReported(low=low, high=high), strength=strength)


def leader(K, low, high, strength=1.0):
    return FollowTheLeader(K, 1.0, AsReported(low=low, high=high), strength=strength)


def theorem_1(K, T, low, high):
    return 2 * high / (1 + low) * K * (1 + math.log(1 + T / (16 * K)))


def theorem_2(K, T, low, high):
    return 2 * high / (1 + low) * math.sqrt(T * math.log(K))


RULES = {"aaggff-s": (newton, theorem_1), "aaggff-d": (leader, theorem_2)}


def suffered(maker, sequence):
    """sum -log(1 + <p_t, r_t>), p_t being what the round before gave and p_1 uniform."""
    K = sequence.shape[1]
    p, total = np.full(K, 1 / K), 0.0
    for losses in sequence:
        r = maker.response(losses)
        total -= math.log1p(p @ r)
        p = maker.decide(list(range(K)), losses, np.ones(K))
    return total


def best_by_portfolio(r, steps=2000):
    """min sum -log(1 + <p, r_t>) from above and from below, by the log-optimal portfolio's rule."""
    p = np.full(r.shape[1], 1 / r.shape[1])
    for _ in range(steps):
        growth = ((1 + r) / (1 + r @ p)[:, None]).mean(axis=0)
        p = p * growth
        p /= p.sum()
    loss = -float(np.log1p(r @ p).sum())
    # The tangent at p is nowhere above the (convex) loss.
    gradient = -(r / (1 + r @ p)[:, None]).sum(axis=0)
    return loss, loss + float(gradient.min() - gradient @ p)


def made_losses(clients, rounds, seed=0):
    """Clients with means of their own that fall, with noise; now and then one of them fails."""
    rng = np.random.default_rng([clients, seed])
    means = rng.lognormal(0.0, 1.0, clients) * np.exp(-0.02 * np.arange(rounds))[:, None]
    losses = means * rng.lognormal(0.0, 0.3, (rounds, clients))
    losses[rng.random(losses.shape) < 0.02] *= 50.0
    return losses


HARD = {
    "nearly collinear": lambda rng, K: 1.0 + np.outer(np.ones(60), 1e-9 * rng.random(K)),
    "one a million times the others": lambda rng, K: (
        np.r_[1e6, np.ones(K - 1)] * rng.lognormal(0, 0.1, (60, K))
    ),
    "all equal": lambda rng, K: np.ones((60, K)),
    "zeros and ones": lambda rng, K: rng.integers(0, 2, (60, K)).astype(float),
    "two camps in turn": lambda rng, K: np.where((np.arange(K) + np.arange(60)[:, None]) % 2, 9, 1),
    "ordinary": lambda rng, K: made_losses(K, 60),
}
"""History -> (generator, K) -> losses of 60 rounds that make B ill-conditioned, or not."""
