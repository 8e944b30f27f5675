"""A round of logistic regression, side by side with a torch loop that does the same arithmetic.

python bench/round.py

15 features, 400 samples a client, batches of 20, one epoch. The engine's round is all of it:
who is asked, shuffling, F_i, the decision, training, the mix, the server's step, the record. The
loop beside it is vectorised by hand, for this model alone: all clients' batches in one stacked
product a step, gradients written out, tensors allocated once. It does the same arithmetic (shuffle,
losses, weights, steps, mix) and nothing else: no settings, no checks, no record.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from torch.nn import functional as F

from aaggff.data.memory import ArrayData
from aaggff.federation.data import Task
from aaggff.federation.federation import Federation
from aaggff.federation.local import LocalTraining

FEATURES, SAMPLES, BATCH, LR = 15, 400, 20, 0.1
MOST = 1.5


def made(clients: int) -> ArrayData:
    generator = torch.Generator().manual_seed(clients)
    x = torch.randn(clients, SAMPLES, FEATURES, generator=generator)
    weights = torch.randn(FEATURES, generator=generator)
    noise = torch.randn(clients, SAMPLES, generator=generator)
    y = (x @ weights + noise > 0).long()
    train = list(zip(x, y))
    test = [(inputs[:10], targets[:10]) for inputs, targets in train]
    return ArrayData("made", Task("binary", 1, "auroc"), train, test)


class ByHand:
    """FedAvg on logistic regression, all clients at once, as one would write it in torch."""

    def __init__(self, data: ArrayData) -> None:
        clients = len(data)
        ones = torch.ones(clients, SAMPLES, 1)
        x = torch.stack([data.train(client)[0] for client in range(clients)])
        self.x = torch.cat([x, ones], 2)
        self.y = torch.stack([data.train(client)[1] for client in range(clients)]).float()
        self.flat_x, self.flat_y = self.x.view(-1, FEATURES + 1), self.y.view(-1)
        self.first = (torch.arange(clients) * SAMPLES).unsqueeze(1)
        self.theta = torch.zeros(FEATURES + 1)
        self.models = torch.empty(clients, FEATURES + 1, 1)
        self.mixing = torch.full((clients,), 1 / clients)

    def round(self) -> torch.Tensor:
        clients = len(self.x)
        losses = F.binary_cross_entropy_with_logits(
            self.x @ self.theta, self.y, reduction="none"
        ).mean(1)
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
        self.theta -= self.mixing @ (self.theta - models)
        return losses


def alternately(*sides: Callable[[], object], turns: int, repeats: int) -> list[np.ndarray]:
    """Seconds a round in each turn; the sides take turns in one process."""
    seconds = np.empty((len(sides), turns))
    for turn in range(turns):
        for side, run in enumerate(sides):
            start = time.perf_counter()
            for _ in range(repeats):
                run()
            seconds[side, turn] = (time.perf_counter() - start) / repeats
    return list(seconds)


def main() -> int:
    torch.set_num_threads(1)
    print(f"{'a round of logistic regression':<44}{'ms':>8}{'by hand':>9}{'ratio':>8}{'bound':>8}")
    good = True
    for clients in (10, 100):
        data = made(clients)
        hand = ByHand(data)
        for method in ("fedavg", "aaggff-d", "aaggff-s"):
            federation = Federation(
                data,
                "logistic",
                method,
                local=LocalTraining(lr=LR, batch_size=BATCH),
                per_round=None,
            )
            with torch.inference_mode():
                hand.round()
            federation.step()

            def by_hand() -> None:
                with torch.inference_mode():
                    hand.round()

            ours, theirs = alternately(
                federation.step, by_hand, turns=40, repeats=2000 // clients // 4
            )
            # Neighbours in time meet the same disturbances.
            ratio = float(np.median(ours / theirs))
            ok = ratio <= MOST
            good &= ok
            print(
                f"{f'K = {clients}, {method}':<44}{1e3 * np.median(ours):>8.2f}"
                f"{1e3 * np.median(theirs):>9.2f}{ratio:>8.2f}{f'<= {MOST}':>8}"
                f"   {'ok' if ok else 'NOT'}"
            )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
