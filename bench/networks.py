"""Rounds of the paper's networks, side by side with a bare PyTorch loop that does the same steps.

.venv/bin/python bench/networks.py [--quick]

ConvNet on 84 x 84 images, M5 on a second of sound, the stacked LSTM on rows of ten tokens out of
10,000: five clients a round, one epoch, batches of 20. The bare loop is what one writes in a
script: load the global model, the loss of the received model, torch.optim.SGD over shuffled
batches, add the weighted difference up. Both get the same memory format (channels last for
images) and use one thread; they take turns round by round in one process and are timed by the
processor time they use.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aaggff.data.memory import ArrayData
from aaggff.federation.data import Task
from aaggff.federation.federation import Federation
from aaggff.federation.local import LocalTraining

MOST, CLIENTS, BATCH, LR = 1.05, 5, 20, 0.01


def images(size: int) -> ArrayData:
    return drawn(
        Task("binary", 1, "top1"), lambda g: torch.randn(size, 3, 84, 84, generator=g), size
    )


def sounds(size: int) -> ArrayData:
    return drawn(
        Task("multiclass", 35, "top5"), lambda g: torch.randn(size, 1, 16_000, generator=g), size
    )


def words(size: int) -> ArrayData:
    task = Task("tokens", 10_000, "top1")
    return drawn(task, lambda g: torch.randint(1, 10_000, (size, 10), generator=g), size)


def drawn(task: Task, inputs, size: int) -> ArrayData:
    generator = torch.Generator().manual_seed(0)
    parts = []
    for _ in range(CLIENTS):
        x = inputs(generator)
        shape = x.shape if task.kind == "tokens" else (size,)
        highest = 2 if task.kind == "binary" else task.outputs
        parts.append((x, torch.randint(0, highest, shape, generator=generator)))
    return ArrayData("drawn", task, parts, [(x[:1], y[:1]) for x, y in parts])


def loss_of(task: Task, outputs: Tensor, y: Tensor) -> Tensor:
    if task.kind == "binary":
        return F.binary_cross_entropy_with_logits(outputs.squeeze(1), y.float())
    if task.kind == "tokens":
        return F.cross_entropy(outputs.flatten(0, 1), y.flatten(), ignore_index=-100)
    return F.cross_entropy(outputs, y)


class Bare:
    """FedAvg over the clients' models, without an engine."""

    def __init__(self, model: nn.Module, data: ArrayData) -> None:
        self.model, self.data = model, data
        self.state = {name: each.clone() for name, each in model.state_dict().items()}

    def round(self) -> None:
        model, task, clients = self.model, self.data.task, len(self.data)
        mix = {
            name: torch.zeros_like(each, dtype=torch.float32) for name, each in self.state.items()
        }
        for client in range(clients):
            x, y = self.data.train(client)
            if x.dim() == 4:
                x = x.contiguous(memory_format=torch.channels_last)
            model.load_state_dict(self.state)
            model.eval()
            with torch.inference_mode():
                float(loss_of(task, model(x), y))
            model.train()
            optimizer = torch.optim.SGD(model.parameters(), lr=LR)
            for rows in torch.randperm(len(y)).split(BATCH):
                optimizer.zero_grad()
                loss_of(task, model(x[rows]), y[rows]).backward()
                optimizer.step()
            for name, each in model.state_dict().items():
                mix[name].add_(each, alpha=1 / clients)
        self.state = {name: mix[name].to(each.dtype) for name, each in self.state.items()}


CASES = {"convnet": (images, 40), "m5": (sounds, 40), "stackedlstm": (words, 40)}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a third of the rounds")
    turns = 5 if parser.parse_args().quick else 15
    torch.set_num_threads(1)
    print(f"{'a round, median':<20}{'s':>8}{'bare':>8}{'ratio':>8}{'required':>10}")
    good = True
    for name, (make, size) in CASES.items():
        data = make(size)
        local = LocalTraining(lr=LR, batch_size=BATCH)
        federation = Federation(data, name, local=local, executor="sequential")
        bare = Bare(Federation(data, name).model, data)
        seconds = np.empty((2, turns + 1))
        for turn in range(turns + 1):
            # Whoever begins meets a colder cache: they take turns at that as well.
            for side in ((0, 1), (1, 0))[turn % 2]:
                began = time.process_time()
                (federation.step, bare.round)[side]()
                seconds[side, turn] = time.process_time() - began
        ours, theirs = seconds[:, 1:]  # the first round warms up
        ratio = float(np.median(ours / theirs))
        good &= ratio <= MOST
        print(
            f"{name:<20}{np.median(ours):>8.3f}{np.median(theirs):>8.3f}{ratio:>8.3f}"
            f"{f'<= {MOST}':>10}   {'ok' if ratio <= MOST else 'NOT'}"
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
