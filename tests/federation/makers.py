"""Small federations, a decision maker, models and servers of the tests' own."""

from __future__ import annotations

import numpy as np
import torch

from aaggff.data.memory import ArrayData
from aaggff.decision.base import DecisionMaker
from aaggff.decision.reports import check_reports
from aaggff.federation.data import Task
from aaggff.federation.federation import Federation


class ByLoss(DecisionMaker):
    """Weights in proportion to the losses."""

    def __init__(self):
        self.rounds = 0

    def decide(self, ids, losses, sizes, *, updates=None, gram=None, lr=None):
        reports = check_reports(ids, losses, sizes)
        self.rounds += 1
        return self.settle(reports, reports.losses / reports.losses.sum())

    def state_dict(self):
        return {"rounds": np.array(self.rounds)}

    def load_state_dict(self, state):
        self.rounds = int(state["rounds"])


def binary_data(sizes=(50, 30, 7, 21), features=5, seed=0):
    """Clients with logistic targets, each shifted a little."""
    generator = torch.Generator().manual_seed(seed)
    return _data(sizes, features, Task("binary", 1, "auroc"), generator)


def class_data(sizes=(50, 30, 7, 21), features=5, classes=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return _data(sizes, features, Task("multiclass", classes, "top1"), generator)


def shaped_data(shape, sizes=(9, 5, 7), classes=3, seed=0):
    """Images, sounds: noise of a shape, with class labels."""
    generator = torch.Generator().manual_seed(seed)
    parts = [
        (
            torch.randn(size, *shape, generator=generator),
            torch.randint(0, classes, (size,), generator=generator),
        )
        for size in [*sizes, *sizes]
    ]
    task = Task("multiclass", classes, "top1")
    return ArrayData("made", task, parts[: len(sizes)], parts[len(sizes) :])


def token_data(sizes=(9, 5, 7), length=6, vocabulary=20, seed=0):
    """Rows of tokens and the next ones, with padding at the end of some."""
    generator = torch.Generator().manual_seed(seed)
    parts = []
    for size in [*sizes, *sizes]:
        x = torch.randint(1, vocabulary, (size, length), generator=generator)
        y = torch.randint(1, vocabulary, (size, length), generator=generator)
        real = torch.randint(0, length + 1, (size, 1), generator=generator)
        y[torch.arange(length) >= real] = -100
        parts.append((x, y))
    task = Task("tokens", vocabulary, "top1")
    return ArrayData("made", task, parts[: len(sizes)], parts[len(sizes) :])


def trained(data, model, rounds=3, **settings):
    """The flat model, the buffers and the records after some rounds."""
    federation = Federation(data, model, **settings)
    try:
        records = [federation.step() for _ in range(rounds)]
        state = {name: each.clone() for name, each in federation.model.state_dict().items()}
    finally:
        federation.close()
    for record in records:
        record.pop("seconds")
    return state, records


def _data(sizes, features, task, generator):
    weights = torch.randn(features, max(2, task.outputs), generator=generator)
    parts = []
    for size in [*sizes, *[max(3, size // 4) for size in sizes]]:
        x = torch.randn(size, features, generator=generator) + torch.randn(1, generator=generator)
        parts.append((x, (x @ weights).argmax(1)))
    return ArrayData("made", task, parts[: len(sizes)], parts[len(sizes) :])
