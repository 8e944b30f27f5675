"""How the global model does on every client's test part, all clients in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from aaggff import fairness
from aaggff.federation.client import input_format, rows_at_once
from aaggff.federation.data import FederatedData, Task
from aaggff.federation.losses import IGNORED, loss_sums

Array = NDArray[np.float64]
Index = NDArray[np.int64]

_BLOCK_BYTES = 2**25
"""Stored samples that are read together; what bounds the memory of an evaluation."""


@dataclass(frozen=True)
class Evaluation:
    """One number per client for the metric and for the loss.

    A client without a value (an AUROC where the test part has one class, anything where it is
    empty) has nan; `fairness.summary` leaves it out and counts it.
    """

    round: int
    sizes: Index
    """Test samples of each client."""
    metric: str
    values: Array
    """The metric of each client, 0..1."""
    loss: Array
    """The mean test loss of each client."""
    clients: Index = field(default_factory=lambda: np.zeros(0, np.int64))
    """Who was evaluated."""

    def metric_summary(self) -> dict[str, float]:
        """Fairness of the metric, in per cent as papers print it."""
        return fairness.summary(100 * self.values, self.sizes)

    def loss_summary(self) -> dict[str, float]:
        """Fairness of the test loss: `worst` are the highest losses."""
        return fairness.summary(self.loss, self.sizes, larger_is_better=False)


def evaluate(
    model: nn.Module,
    data: FederatedData,
    *,
    clients: Index | None = None,
    round: int = 0,
    rows: int | None = None,
) -> Evaluation:
    """Loss and metric of `model` for each client (default: all), merging small clients.

    Samples go through the model `rows` at a time regardless of whose they are, and are reduced
    per client afterwards.
    """
    chosen = np.arange(len(data), dtype=np.int64) if clients is None else clients
    sizes = data.test_sizes[chosen]
    loss, values = np.full(len(chosen), np.nan), np.full(len(chosen), np.nan)
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            for first, last, x, y in _blocks(data, chosen, sizes):
                owners = np.repeat(np.arange(last - first), sizes[first:last])
                results = _judge(model, data, x, y, owners, last - first, rows)
                loss[first:last], values[first:last] = results
    finally:
        model.train(was_training)
    return Evaluation(round, sizes, data.task.metric, values, loss, chosen)


def auroc(scores: Array, targets: Index, owners: Index, clients: int) -> Array:
    """Area under the ROC curve of each owner's samples: P(positive above negative), ties half.

    By ranks (Mann and Whitney): exact, one sort for all. One class only: nan.

    >>> auroc(np.array([0.1, 0.4, 0.4, 0.9]), np.array([0, 0, 1, 1]), np.zeros(4, int), 1)
    array([0.875])
    """
    order = np.lexsort((scores, owners))
    who, score, positive = owners[order], scores[order], targets[order] == 1
    new = np.ones(len(order), dtype=bool)
    new[1:] = (who[1:] != who[:-1]) | (score[1:] != score[:-1])
    starts = np.flatnonzero(new)
    ends = np.append(starts[1:], len(order))
    # Tied scores share the mean of their ranks; ranks count over everybody, and what comes
    # before an owner's first sample is subtracted again.
    rank = np.repeat((starts + ends + 1) / 2, ends - starts)
    count = np.bincount(owners, minlength=clients)
    positives = np.bincount(who[positive], minlength=clients)
    ranks = np.bincount(who[positive], rank[positive], minlength=clients)
    before = np.cumsum(count) - count
    above = ranks - positives * before - positives * (positives + 1) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        area: Array = above / (positives * (count - positives))
    return area


def _judge(
    model: nn.Module,
    data: FederatedData,
    x: Tensor,
    y: Tensor,
    owners: Index,
    clients: int,
    rows: int | None,
) -> tuple[Array, Array]:
    """Mean loss and metric of each of `clients` owners of the samples x, y."""
    task = data.task
    as_seen = input_format(model, data.prepare)
    device = next(model.parameters()).device
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    chunk = rows or rows_at_once(x, task)
    for inputs, targets in zip(torch.split(x, chunk), torch.split(y, chunk)):
        there = targets.to(device)
        outputs = model(as_seen(inputs))
        found.append((*loss_sums(task, outputs, there), _score(task, outputs, there)))
    if not found:
        return np.full(clients, np.nan), np.full(clients, np.nan)
    losses, real, scores = (
        torch.cat(column).double().cpu().numpy() for column in zip(*found, strict=True)
    )
    count = np.bincount(owners, real, minlength=clients)
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = np.bincount(owners, losses, minlength=clients) / count
        if task.metric == "auroc":
            return loss, auroc(scores, y.reshape(-1).numpy(), owners, clients)
        return loss, np.bincount(owners, scores, minlength=clients) / count


def _score(task: Task, outputs: Tensor, targets: Tensor) -> Tensor:
    """Per sample: the score that AUROC ranks, or how many targets are among the top 1 or 5."""
    if task.kind == "binary":
        logit = outputs.reshape(-1)
        return logit if task.metric == "auroc" else (logit > 0) == (targets == 1)
    if task.metric == "top5" and task.outputs > 5:
        hits = (outputs.topk(5, dim=-1).indices == targets.unsqueeze(-1)).any(-1)
    elif task.metric == "top5":
        hits = targets >= 0  # five guesses at no more than five classes
    else:
        hits = outputs.argmax(-1) == targets
    if task.kind == "tokens":
        hits = (hits & (targets != IGNORED)).reshape(len(targets), -1).sum(1)
    return hits


def _blocks(
    data: FederatedData, clients: Index, sizes: Index
) -> Iterator[tuple[int, int, Tensor, Tensor]]:
    """Consecutive clients' test parts, joined up to a bounded number of bytes."""
    filled = np.flatnonzero(sizes)
    if not len(filled):
        return
    x, _ = data.test(int(clients[filled[0]]))
    most = max(1, _BLOCK_BYTES // max(1, x[0].numel() * x.element_size()))
    ends = np.cumsum(sizes)
    first, done = 0, 0
    consecutive = bool((np.diff(clients) == 1).all())
    while first < len(clients):
        last = max(first + 1, int(np.searchsorted(ends, done + most, side="right")))
        if ends[last - 1] > done:
            yield first, last, *_joined(data, clients[first:last].tolist(), consecutive)
        first, done = last, int(ends[last - 1])


def _joined(
    data: FederatedData, clients: Sequence[int], consecutive: bool
) -> tuple[Tensor, Tensor]:
    block = getattr(data, "test_block", None)
    if block is not None and consecutive:
        x, y, _ = block(clients[0], clients[-1] + 1)
        return x, y
    parts = [data.test(client) for client in clients]
    if len(parts) == 1:
        return parts[0]
    return torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])
