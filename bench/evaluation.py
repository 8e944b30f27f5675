"""Evaluating 9,343 clients one by one in the books, in one pass over their samples.

.venv/bin/python bench/evaluation.py

As many clients as CelebA has, with as many test samples on average (4.3, at least 1), images of
16 x 16 bytes. The plain pass beside it knows no clients: all samples through the model in equal
batches, one mean loss and one accuracy. Both take turns in one process, on one thread, and are
timed by the processor time they use. Client by client is what evaluation would cost without the
pass: shown for one turn, not required of anything.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from aaggff.data.memory import ArrayData
from aaggff.federation.client import rows_at_once
from aaggff.federation.data import Task
from aaggff.federation.evaluate import evaluate
from aaggff.federation.setup import make_model

CLIENTS, MEAN, MOST, TURNS = 9_343, 4.3, 1.15, 5


def scaled(x: torch.Tensor) -> torch.Tensor:
    """Bytes as the model sees them."""
    return x.float() / 255


def made(shape: tuple[int, ...], metric: str) -> ArrayData:
    generator = np.random.default_rng(0)
    sizes = generator.geometric(1 / MEAN, CLIENTS)
    total = int(sizes.sum())
    x = torch.from_numpy(generator.integers(0, 256, (total, *shape), dtype=np.uint8))
    y = torch.from_numpy(generator.integers(0, 2, total))
    parts = list(zip(x.split(sizes.tolist()), y.split(sizes.tolist())))
    few = [(a[:1], b[:1]) for a, b in parts]
    return ArrayData("made", Task("binary", 1, metric), few, parts, prepare=scaled)


def plain(model: nn.Module, data: ArrayData) -> None:
    """The same samples, nobody's in particular."""
    x, y = data._test
    channels_last = x.dim() == 4
    model.eval()
    losses = hits = 0.0
    with torch.inference_mode():
        chunk = rows_at_once(x, data.task)
        for inputs, targets in zip(x.split(chunk), y.split(chunk)):
            seen = scaled(inputs)
            if channels_last:
                seen = seen.contiguous(memory_format=torch.channels_last)
            outputs = model(seen).reshape(-1)
            losses += float(
                F.binary_cross_entropy_with_logits(outputs, targets.float(), reduction="sum")
            )
            hits += float(((outputs > 0) == (targets == 1)).sum())


def one_by_one(model: nn.Module, data: ArrayData) -> None:
    for client in range(len(data)):
        evaluate(model, data, clients=np.array([client]))


def seconds(work, *given) -> float:
    began = time.process_time()
    work(*given)
    return time.process_time() - began


def main() -> int:
    torch.set_num_threads(1)
    print(
        f"{'9,343 clients':<30}{'s':>8}{'plain':>8}{'ratio':>8}{'required':>10}{'one by one':>13}"
    )
    good = True
    for name, shape, metric in (
        ("convnet", (3, 16, 16), "top1"),
        ("convnet", (3, 16, 16), "auroc"),
        ("mlp", (3, 16, 16), "top1"),
    ):
        data = made(shape, metric)
        model = make_model(name, data, 0, torch.device("cpu"), {})
        evaluate(model, data)
        plain(model, data)
        times = np.array(
            [(seconds(evaluate, model, data), seconds(plain, model, data)) for _ in range(TURNS)]
        )
        ratio = float(np.median(times[:, 0] / times[:, 1]))
        good &= ratio <= MOST
        slow = seconds(one_by_one, model, data)
        ours, theirs = np.median(times, axis=0)
        print(
            f"{f'{name}, {metric}':<30}{ours:>8.2f}{theirs:>8.2f}{ratio:>8.3f}"
            f"{f'<= {MOST}':>10}{slow:>13.2f}   {'ok' if ratio <= MOST else 'NOT'}"
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
