"""AAggFF-S against other exact solvers, on the same sequences of decisions, in one process.

    .venv/bin/python bench/quadratic.py

Every sequence is what AAggFF-S meets in a run: losses of clients that differ, drift and are noisy.
Each solver gets the same B and c, already formed, decision after decision; `ours` is timed with
making its form of B, and warm-started as it is in a run. Times are medians per decision.
"""

from __future__ import annotations

import os
import resource
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import quadprog

from aaggff.decision.active_set import minimise
from aaggff.decision.newton import OnlineNewton
from aaggff.decision.quadratic import Dense, LowRank, Quadratic
from aaggff.decision.responses import CdfResponse


def run_losses(clients: int, rounds: int, seed: int) -> np.ndarray:
    """Losses of clients with means of their own, all falling, with noise from round to round."""
    rng = np.random.default_rng(seed)
    means = rng.lognormal(0.0, 0.4, clients)
    falling = np.exp(-0.02 * np.arange(rounds))[:, None]
    return means * falling * rng.lognormal(0.0, 0.2, (rounds, clients))


class Recorder(OnlineNewton):
    """Keeps the problems it solved."""

    def _solve(self) -> None:
        pull = self.strength / (4.0 * self._drift.size)
        before = self.weights.copy()
        super()._solve()
        curvature = self._curvature
        kept = (
            curvature.rounds[:, : curvature.count].copy()
            if curvature.total is None
            else curvature.total.copy()
        )
        self.problem = (curvature.total is None, pull / 4.0, kept, pull * self._drift, before)


def problems(clients: int, rounds: int, keep: list[int], cdf: str) -> list[tuple]:
    maker = Recorder(clients, CdfResponse(cdf, high=None))
    kept = []
    for t, losses in enumerate(run_losses(clients, rounds, seed=clients), start=1):
        maker.decide(list(range(clients)), losses, np.ones(clients))
        if t in keep:
            kept.append(maker.problem)
    return kept


def ours(problem: tuple) -> Quadratic:
    low_rank, b, kept, _, _ = problem
    if low_rank:
        return LowRank(1.0, b, kept)
    matrix = b * kept
    matrix.flat[:: len(matrix) + 1] += 1.0
    return Dense(matrix)


def full(problem: tuple) -> np.ndarray:
    low_rank, b, kept, _, _ = problem
    return np.eye(len(kept)) + b * (kept @ kept.T if low_rank else kept)


def by_quadprog(clients: int):
    sides = np.vstack([np.ones(clients), np.eye(clients)]).T.copy()
    bounds = np.r_[1.0, np.zeros(clients)]
    return lambda B, c: quadprog.solve_qp(B, -c, sides, bounds, 1)[0]


def by_piqp(clients: int):
    import piqp

    def solve(B, c):
        solver = piqp.DenseSolver()
        solver.settings.eps_abs = 1e-10
        solver.settings.eps_rel = 1e-10
        solver.setup(B, c, A=np.ones((1, clients)), b=np.ones(1), x_l=np.zeros(clients))
        solver.solve()
        return solver.result.x

    return solve


def by_cvxpy(clients: int):
    import cvxpy as cp

    p, c, root = cp.Variable(clients), cp.Parameter(clients), cp.Parameter((clients, clients))
    objective = cp.Minimize(c @ p + cp.sum_squares(root @ p) / 2)
    problem = cp.Problem(objective, [p >= 0, cp.sum(p) == 1])

    def solve(B, vector):
        c.value, root.value = vector, np.linalg.cholesky(B).T
        problem.solve(solver=cp.CLARABEL)
        return p.value

    return solve


def timed(call) -> tuple[float, np.ndarray]:
    start = time.perf_counter()
    x = call()
    return time.perf_counter() - start, x


def compare(clients: int, rounds: int, keep: list[int], rival, name: str, target: str, repeat: int):
    theirs = rival(clients)
    for cdf in ("normal", "weibull", "frechet"):
        mine, other, apart, held = [], [], 0.0, []
        for problem in problems(clients, rounds, keep, cdf):
            B, c, start = full(problem), problem[3], problem[4]
            a, b = [], []
            for _ in range(repeat):
                seconds, x = timed(lambda: minimise(ours(problem), c, start))
                a.append(seconds)
                seconds, y = timed(lambda: theirs(B, c))
                b.append(seconds)
            mine.append(min(a))
            other.append(min(b))
            apart = max(apart, float(np.abs(x - y).max()))
            held.append(int((x > 0).sum()))
        m, o = np.median(mine), np.median(other)
        print(
            f"{clients:>6} {rounds:>6} {cdf:<8} {name:<9} {1e6 * m:>10.1f} {1e6 * o:>12.1f}"
            f" {o / m:>9.2f}x {target:<9} {apart:>8.0e} {min(held):>5}-{max(held)}",
            flush=True,
        )


def large(clients: int = 10_000, rounds: int = 100) -> None:
    maker = OnlineNewton(clients)
    seconds = []
    ids = list(range(clients))
    for losses in run_losses(clients, rounds, seed=0):
        spent, _ = timed(lambda: maker.decide(ids, losses, np.ones(clients)))
        seconds.append(spent)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"K = {clients}, T = {rounds}: whole decision at most {max(seconds):.3f} s"
        f" (target < 1 s), peak memory {memory:.2f} GB (target < 1 GB)"
    )


if __name__ == "__main__":
    if "large" in sys.argv:
        large()
        sys.exit()
    print("     K      T cdf      rival      ours (us)  theirs (us)     ratio target    apart held")
    every = list(range(1, 201))
    compare(7, 100, every, by_quadprog, "quadprog", ">= 0.5x", 5)
    compare(20, 100, every[4::5], by_cvxpy, "cvxpy", ">= 50x", 3)
    compare(100, 100, every[4::10], by_quadprog, "quadprog", ">= 10x", 5)
    compare(100, 200, every[104::20], by_quadprog, "quadprog", ">= 10x", 5)
    compare(1000, 100, [20, 60, 100], by_quadprog, "quadprog", ">= 10x", 1)
    compare(1000, 100, [20, 60, 100], by_piqp, "piqp", ">= 2x", 1)
    compare(1000, 1020, [700, 999, 1020], by_piqp, "piqp", ">= 2x", 1)
    compare(1000, 1020, [700, 999, 1020], by_quadprog, "quadprog", ">= 10x", 1)
    # In a process of its own: the others' memory is not ours.
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, __file__, "large"])
