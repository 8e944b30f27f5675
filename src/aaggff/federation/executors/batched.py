"""Many small models at once: every client's model is one matrix in a stack, each step one product.

A client's round on a small model is a few hundred tiny operations whose overhead dwarfs their
arithmetic. Here each of them is done for all clients together, with the gradient in closed form.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from aaggff.errors import UserError
from aaggff.federation.executors.arena import Arena
from aaggff.federation.executors.base import Array, Index, Sink, Work
from aaggff.federation.executors.closed_form import Steps
from aaggff.federation.executors.schedule import Schedule, schedule
from aaggff.federation.executors.sequential import one_thread
from aaggff.federation.executors.stack import LinearStack, linear_stack

Floats = NDArray[np.float32]

KEPT_BYTES = 2**28
"""Samples kept from round to round, and the most a cohort may have at a time."""
MODEL_BYTES = 2**24
"""The models trained at a time: larger cohorts go in groups, so memory does not grow with them."""
_ROWS = 2**14
"""Samples gathered at a time while training: about a megabyte of 16 numbers each."""


class Batched:
    """Stacked copies of a linear model or multilayer perceptron on the CPU."""

    name = "batched"

    def __init__(self, work: Work, why: str = "asked for") -> None:
        stack = cannot_batch(work)
        if isinstance(stack, str):
            raise UserError(f"executor 'batched' cannot run this model: {stack}")
        self.work, self.why = work, why
        self._stack: LinearStack = stack
        self._binary = work.data.task.kind == "binary"
        self._arena = Arena(work.data, stack.inputs, KEPT_BYTES)
        self._latest: tuple[bytes, Schedule] | None = None

    def losses(self, round: int, clients: Index) -> Array:
        matrices = self._stack.matrices(self.work.theta.numpy())
        with one_thread():
            found = [self._losses(group, matrices) for group in self._groups(clients)]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def train(self, round: int, clients: Index, sink: Sink) -> None:
        first = 0
        with one_thread(), np.errstate(over="ignore", invalid="ignore"):  # a client may diverge
            for group in self._groups(clients):
                sink.add(first, torch.from_numpy(self._train(round, group)))
                first += len(group)

    def close(self) -> None:
        pass

    def _losses(self, clients: Index, matrices: list[Floats]) -> Array:
        """F_i of one model for all clients: one product a layer over everybody's samples."""
        sizes = self.work.data.train_sizes[clients]
        starts = self._arena.place(clients)
        ends = np.cumsum(sizes)
        if (np.diff(starts) == sizes[:-1]).all():
            rows: slice | Index = slice(int(starts[0]), int(starts[0] + ends[-1]))
        else:
            rows = np.repeat(starts - ends + sizes, sizes) + np.arange(ends[-1])
        x, y = self._arena.x[rows], self._arena.y[rows]
        losses = np.concatenate(
            [
                self._each_loss(
                    x[first : first + 4 * _ROWS], y[first : first + 4 * _ROWS], matrices
                )
                for first in range(0, len(x), 4 * _ROWS)
            ]
        )
        if (sizes == sizes[0]).all():
            alike: Array = losses.reshape(len(clients), -1).mean(1, dtype=np.float64)
            return alike
        mean: Array = np.add.reduceat(losses, ends - sizes, dtype=np.float64) / sizes
        return mean

    def _each_loss(self, x: Floats, y: NDArray[Any], matrices: list[Floats]) -> Floats:
        # torch, not numpy: these are few and large, and numpy's BLAS would start threads.
        targets = torch.from_numpy(y)
        outputs = torch.from_numpy(x) @ torch.from_numpy(matrices[0])
        for matrix in matrices[1:]:
            layer = torch.from_numpy(matrix)
            outputs = torch.addmm(layer[-1], outputs.relu_(), layer[:-1])
        if self._binary:
            # -log sigmoid(+-z) for targets +-1.
            losses = F.softplus(outputs[:, 0].mul_(targets).neg_())
        else:
            losses = F.cross_entropy(outputs, targets, reduction="none")
        each: Floats = losses.numpy()
        return each

    def _train(self, round: int, clients: Index) -> Floats:
        """Every client's Delta_i, one a row."""
        work, stack, local = self.work, self._stack, self.work.local
        sizes = work.data.train_sizes[clients]
        starts = self._arena.place(clients)
        # Those with most steps first, so that who still has something to do is a slice.
        order = None if (sizes == sizes[0]).all() else np.argsort(-sizes, kind="stable")
        if order is not None:
            clients, sizes, starts = clients[order], sizes[order], starts[order]
        plan = self._plan(sizes)
        table = plan.rows(starts, work.seed, round, clients, sizes, local.batch_size)
        received = stack.matrices(work.theta.numpy())
        steps = Steps(stack, received, len(clients), local, local.lr_at(round))
        for x, y, scale in self._batches(plan, table):
            steps.step(x, y, scale)
        deltas = [np.subtract(old, new, out=new) for old, new in zip(received, steps.models)]
        updates = stack.vectors(deltas)
        if order is None:
            return updates
        back = np.empty_like(updates)
        back[order] = updates
        return back

    def _batches(
        self, plan: Schedule, table: Index
    ) -> Iterator[tuple[Floats, NDArray[Any], Floats | None]]:
        """The samples of each step, gathered for several steps at a time."""
        batch, arena = self.work.local.batch_size, self._arena
        number, offsets = len(plan.active), plan.offsets
        first = 0
        while first < number:
            last = first + 1
            while last < number and offsets[last + 1] - offsets[first] <= _ROWS:
                last += 1
            begin = offsets[first]
            rows = table[begin : offsets[last]]
            x, y = arena.x.take(rows, axis=0), arena.y.take(rows)
            for step in range(first, last):
                here = slice(offsets[step] - begin, offsets[step + 1] - begin)
                active = plan.active[step]
                yield (
                    x[here].reshape(active, batch, -1),
                    y[here].reshape(active, batch, 1),
                    plan.scale[step],
                )
            first = last

    def _plan(self, sizes: Index) -> Schedule:
        """The schedule, made anew only when the cohort's sizes are others than last time."""
        key = sizes.tobytes()
        if self._latest is None or self._latest[0] != key:
            self._latest = key, schedule(sizes, self.work.local)
        return self._latest[1]

    def _groups(self, clients: Index) -> Iterator[Index]:
        """The cohort in groups whose models and samples are bounded in memory."""
        models = max(1, MODEL_BYTES // (4 * self.work.flat.size))
        samples = KEPT_BYTES // (4 * (self._stack.inputs + 1))
        sizes = self.work.data.train_sizes[clients]
        if len(clients) <= models and int(sizes.sum()) <= samples:
            yield clients
            return
        first = 0
        while first < len(clients):
            fits = int(np.searchsorted(np.cumsum(sizes[first:]), samples, side="right"))
            last = first + max(1, min(models, fits))
            yield clients[first:last]
            first = last


def cannot_batch(work: Work) -> LinearStack | str:
    """The model as a stack, or why it has to be trained one client at a time."""
    if work.flat.device.type != "cpu":
        return f"it is on the device {work.flat.device}"
    return linear_stack(work.model, work.data.task)
