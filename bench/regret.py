"""Regret as a share of what theorems 1 and 2 allow, and what keeping account of it costs.

.venv/bin/python bench/regret.py

Responses are made: constant, alternating, switching, uniform, 0/1 and one client with all the loss,
for K from 2 to 20, T from 10 to 1,000 and four ranges; and losses through each of the six CDFs.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from aaggff import decision_maker, track_regret
from aaggff.decision.hindsight import best_fixed
from aaggff.decision.leader import FollowTheLeader
from aaggff.decision.responses import CDFS

sys.path.append(str(Path(__file__).resolve().parents[1]))
from tests.decision.families import FAMILIES, RULES, AsReported, family, ranges

CLIENTS = (2, 3, 5, 10, 20)
ROUNDS = (10, 100, 1000)
SKETCH = {"aaggff-s": 0.81, "aaggff-d": 0.42}
"""The most that was seen when the theorems were first tried out."""


def shares(maker, sequence: np.ndarray, rounds: tuple[int, ...]) -> list[float]:
    """Regret over its bound after so many rounds."""
    tracked, found = track_regret(maker), []
    ids, sizes = list(range(sequence.shape[1])), np.ones(sequence.shape[1])
    for t, losses in enumerate(sequence, start=1):
        tracked.decide(ids, losses, sizes)
        if t in rounds:
            regret = tracked.regret
            found.append(regret.value / regret.bound)
    return found


def on_families(rule: str, name: str) -> float:
    make = RULES[rule][0]
    worst = 0.0
    for K in CLIENTS:
        for T in ROUNDS:
            for low, high in ranges(K):
                worst = max(worst, *shares(make(K, low, high), family(name, K, T), (T,)))
    return worst


def on_losses(rule: str, cdf: str) -> float:
    worst = 0.0
    for K in CLIENTS:
        rng = np.random.default_rng(K)
        losses = rng.lognormal(0, 1, K) * rng.lognormal(0, 0.5, (1000, K))
        maker = decision_maker(rule, clients=K, cdf=cdf)
        worst = max(worst, *shares(maker, losses, ROUNDS))
    return worst


def sampled(correction: bool, K: int = 50, n: int = 5, T: int = 200, seeds: int = 30):
    """The regret estimated from n of K clients a round, and the true one of the same decisions."""
    estimated, true = [], []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        means, noise = rng.random(K), 0.2 * rng.normal(size=(T, K))
        losses = np.clip(means + noise, 0, 1)
        made = AsReported(low=0.0, high=n / K)
        maker = FollowTheLeader(K, n / K, made, correction=correction, strength=3.0)
        tracked = track_regret(maker)
        suffered, p = 0.0, np.full(K, 1 / K)
        for said in losses:
            suffered -= float(np.log1p(p @ made(said)))
            asked = rng.choice(K, n, replace=False)
            tracked.decide(asked, said[asked], np.ones(n))
            p = maker.everybody()
        _, growth, _ = best_fixed(made(losses))
        estimated.append(tracked.regret.value)
        true.append(suffered + growth)
    return statistics.mean(estimated), statistics.mean(true)


def cost(rule: str, clients: int, n: int, rounds: int = 400) -> tuple[float, float]:
    """Microseconds of a decision without the account and with it, in turns."""
    options = {"clients": clients}
    if rule == "aaggff-d":
        options["rate"] = n / clients
    plain = decision_maker(rule, **options)
    tracked = track_regret(decision_maker(rule, **options))
    rng = np.random.default_rng(0)
    seconds: dict[object, list[float]] = {plain: [], tracked: []}
    for _ in range(rounds):
        ids = rng.choice(min(clients, 10**6), n, replace=False).tolist()
        losses = rng.gamma(1.0, 1.0, n)
        for maker, spent in seconds.items():
            start = time.perf_counter()
            maker.decide(ids, losses, np.ones(n))
            spent.append(time.perf_counter() - start)
    without, with_it = (1e6 * statistics.median(spent) for spent in seconds.values())
    return without, with_it


def main() -> int:
    good = True
    print(f"{'largest regret / bound (at most 1)':<36}" + "".join(f"{r:>12}" for r in RULES))
    for title, names, measure in (
        ("responses", FAMILIES, on_families),
        ("losses through", CDFS, on_losses),
    ):
        for name in names:
            found = [measure(rule, name) for rule in RULES]
            good &= max(found) <= 1
            figures = "".join(f"{share:>12.3f}" for share in found)
            print(f"{title + ' ' + name:<36}{figures}  {'ok' if max(found) <= 1 else 'BROKEN'}")
    print(f"{'(first seen: at most)':<36}" + "".join(f"{SKETCH[rule]:>12}" for rule in RULES))
    print(f"\n{'5 of 50 sampled, 200 rounds':<36}{'estimated':>12}{'true':>12}")
    for correction in (False, True):
        estimated, true = sampled(correction)
        print(
            f"{'regret, correction=' + str(correction).lower():<36}{estimated:>12.2f}{true:>12.2f}"
        )
    print(f"\n{'a decision, us':<36}{'plain':>12}{'tracked':>12}{'ratio':>9}")
    for rule, clients, n in (
        ("aaggff-s", 7, 7),
        ("aaggff-d", 817, 5),
        ("aaggff-d", 3_000_000_000, 5),
    ):
        without, with_it = cost(rule, clients, n)
        what = f"{rule}, K = {clients:,}, |S| = {n}"
        print(f"{what:<36}{without:>12.1f}{with_it:>12.1f}{with_it / without:>8.1f}x")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
