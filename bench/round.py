"""A round of logistic regression, side by side with a torch loop that does the same arithmetic.

.venv/bin/python bench/round.py

15 features, 400 samples a client, batches of 20, one epoch, everybody takes part. The engine's
round is all of it: who is asked, shuffling, F_i, the decision, training, the mix, the server's
step, the record with its account of the regret. The loop beside it is vectorised by hand, for this
model alone: all clients' batches in one stacked product a step, gradients written out, tensors
allocated once. It does the same arithmetic (shuffle, losses, decision, steps, mix) and nothing
else: no settings, no checks, no record. AAggFF-D's decision is written out too; AAggFF-S's
quadratic programme is nothing one writes by hand, so that loop calls the same solver.

Both sides take turns of some milliseconds in one process, on one thread, and are timed by the
processor time they use, so that what else the machine does falls on neither.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from torch.nn import functional as F

import aaggff
from aaggff.data.memory import ArrayData
from aaggff.federation.data import Task
from aaggff.federation.federation import Federation
from aaggff.federation.local import LocalTraining

FEATURES, SAMPLES, BATCH, LR = 15, 400, 20, 0.1
MOST = 1.5
Decide = Callable[[np.ndarray], np.ndarray]


def made(clients: int) -> ArrayData:
    generator = torch.Generator().manual_seed(clients)
    x = torch.randn(clients, SAMPLES, FEATURES, generator=generator)
    weights = torch.randn(FEATURES, generator=generator)
    noise = torch.randn(clients, SAMPLES, generator=generator)
    y = (x @ weights + noise > 0).long()
    parts = list(zip(x, y))
    test = [(a[:10], b[:10]) for a, b in parts]
    return ArrayData("made", Task("binary", 1, "auroc"), parts, test)


class ByHand:
    """All clients at once, as one would write it in torch."""

    def __init__(self, data: ArrayData, decide: Decide) -> None:
        clients = len(data)
        self.decide = decide
        ones = torch.ones(clients, SAMPLES, 1)
        x = torch.stack([data.train(client)[0] for client in range(clients)])
        self.x = torch.cat([x, ones], 2)
        self.y = torch.stack([data.train(client)[1] for client in range(clients)]).float()
        self.flat_x, self.flat_y = self.x.view(-1, FEATURES + 1), self.y.view(-1)
        self.first = (torch.arange(clients) * SAMPLES).unsqueeze(1)
        self.theta = torch.zeros(FEATURES + 1)
        self.models = torch.empty(clients, FEATURES + 1, 1)

    @torch.inference_mode()
    def round(self) -> None:
        clients = len(self.x)
        losses = F.binary_cross_entropy_with_logits(
            self.x @ self.theta, self.y, reduction="none"
        ).mean(1)
        weights = torch.from_numpy(self.decide(losses.double().numpy())).float()
        # Faster than torch.rand(...).argsort(1), and index_select than indexing.
        order = torch.stack([torch.randperm(SAMPLES) for _ in range(clients)]) + self.first
        steps = SAMPLES // BATCH
        # [steps, clients, batch]: what a step needs lies side by side.
        rows = order.view(clients, steps, BATCH).transpose(0, 1).reshape(-1)
        x = self.flat_x.index_select(0, rows).view(steps, clients, BATCH, FEATURES + 1)
        y = self.flat_y.index_select(0, rows).view(steps, clients, BATCH, 1)
        self.models.copy_(self.theta.view(1, -1, 1).expand_as(self.models))
        models = self.models.squeeze(2)
        for batch, target in zip(x.unbind(), y.unbind()):
            error = torch.bmm(batch, self.models).sigmoid_().sub_(target)
            # Twice as fast as torch.baddbmm.
            models.sub_(batch.mul_(error).sum(1), alpha=LR / BATCH)
        self.theta -= weights @ (self.theta - models)


def fedavg(clients: int) -> Decide:
    sizes = np.full(clients, SAMPLES)
    return lambda losses: sizes / sizes.sum()


def leader(clients: int) -> Decide:
    """AAggFF-D with everybody and the normal CDF (eqs. 8 and 10-16)."""
    high = 1 / clients
    scores, t = np.zeros(clients), 1
    pace = math.sqrt(math.log(clients)) / high
    root = math.sqrt(2)

    def softmax(z: np.ndarray) -> np.ndarray:
        e = np.exp(z - z.max())
        return e / e.sum()

    def decide(losses: np.ndarray) -> np.ndarray:
        nonlocal scores, t
        ratio = (1 - losses / losses.mean()) / root
        r = high * 0.5 * np.array([math.erfc(v) for v in ratio.tolist()])
        p = softmax(pace / math.sqrt(t) * scores)
        scores += (r - r.mean()) / (1 + p @ r)
        t += 1
        return softmax(pace / math.sqrt(t) * scores)

    return decide


def newton(clients: int) -> Decide:
    maker = aaggff.decision_maker("aaggff-s", clients=clients)
    ids, sizes = np.arange(clients), np.full(clients, SAMPLES)
    return lambda losses: maker.decide(ids, losses, sizes)


METHODS = {"fedavg": fedavg, "aaggff-d": leader, "aaggff-s": newton}


def alternately(*sides: Callable[[], object], turns: int, repeats: int) -> list[np.ndarray]:
    """Seconds a round in each turn; the sides take turns in one process."""
    seconds = np.empty((len(sides), turns))
    for turn in range(turns):
        for side, run in enumerate(sides):
            start = time.process_time()
            for _ in range(repeats):
                run()
            seconds[side, turn] = (time.process_time() - start) / repeats
    return list(seconds)


def main() -> int:
    torch.set_num_threads(1)
    print(f"{'median over turns':<26}{'ms':>8}{'by hand':>9}{'ratio':>8}{'required':>10}")
    good = True
    for clients in (10, 100):
        data = made(clients)
        for method, decide in METHODS.items():
            hand = ByHand(data, decide(clients))
            local = LocalTraining(lr=LR, batch_size=BATCH)
            federation = Federation(data, "logistic", method, local=local)
            federation.run(5)
            for _ in range(5):
                hand.round()
            ours, theirs = alternately(
                federation.step, hand.round, turns=60, repeats=200 // clients + 10
            )
            # Neighbours in time meet the same disturbances.
            ratio = float(np.median(ours / theirs))
            ok = ratio <= MOST
            good &= ok
            print(
                f"{f'K = {clients}, {method}':<26}{1e3 * np.median(ours):>8.2f}"
                f"{1e3 * np.median(theirs):>9.2f}{ratio:>8.2f}{f'<= {MOST}':>10}"
                f"   {'ok' if ok else 'NOT'}"
            )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
