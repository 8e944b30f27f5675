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
from aaggff.federation.executors.arena import LINE, Arena
from aaggff.federation.executors.base import Array, Index, Sink, Work
from aaggff.federation.executors.closed_form import PlainLinear, Steps
from aaggff.federation.executors.schedule import Schedule, schedule
from aaggff.federation.executors.stack import LinearStack, linear_stack
from aaggff.federation.executors.threads import one_thread

Floats = NDArray[np.float32]

KEPT_BYTES = 2**28
"""Samples kept from round to round, and the most a cohort may have at a time."""
MODEL_BYTES = 2**24
"""The models trained at a time: larger cohorts go in groups, so memory does not grow with them."""
BLOCK_BYTES = 2**20
"""Samples gathered at a time: they should still be in the cache when they are used."""


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
        self._block = max(LINE, BLOCK_BYTES // (4 * self._arena.x.shape[1]))
        """Rows gathered at a time."""
        self._latest: tuple[bytes, Schedule] | None = None
        self._divided: tuple[bytes, list[Index]] | None = None

    def losses(self, round: int, clients: Index) -> Array:
        matrices = self._stack.matrices(self.work.theta.numpy())
        with one_thread():
            found = [self._losses(group, matrices) for group in self._groups(clients)]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def train(self, round: int, clients: Index, sink: Sink) -> None:
        first = 0
        # A client may diverge: that is seen, and said, where its update is mixed.
        with one_thread(numpy=True), np.errstate(over="ignore", invalid="ignore"):
            for group in self._groups(clients):
                sink.add(first, torch.from_numpy(self._train(round, group)))
                first += len(group)

    def close(self) -> None:
        pass

    def _losses(self, clients: Index, matrices: list[Floats]) -> Array:
        """F_i of one model for all clients: one product a layer over everybody's samples."""
        places = self._arena.place(clients)
        x, y, total = self._arena.x, self._arena.y, int(places.ends[-1])
        if places.rows is not None:
            y = y.take(places.rows)
        found = []
        # The same blocks, each from a cache line on, whether samples lie side by side or are
        # gathered: so what the arena happens to hold changes no bit.
        for low in range(places.first, places.first + total, self._block):
            high = min(low + self._block, places.first + total)
            rows = places.rows
            inputs = x[low:high] if rows is None else self._arena.gather(rows[low:high])
            found.append(self._each_loss(inputs, y[low:high], matrices))
        losses = found[0] if len(found) == 1 else np.concatenate(found)
        if places.alike:
            alike: Array = losses.reshape(len(clients), -1).mean(1, dtype=np.float64)
            return alike
        starts = places.ends - places.sizes
        mean: Array = np.add.reduceat(losses, starts, dtype=np.float64) / places.sizes
        return mean

    def _each_loss(self, x: Floats, y: NDArray[Any], matrices: list[Floats]) -> Floats:
        # torch, not numpy: these are few and large, and numpy's BLAS would start threads.
        targets = torch.from_numpy(y)
        outputs = torch.from_numpy(x[:, : len(matrices[0])]) @ torch.from_numpy(matrices[0])
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
        places = self._arena.place(clients)
        sizes, starts = places.sizes, places.starts
        # Those with most steps first, so that who still has something to do is a slice.
        order = None if places.alike else np.argsort(-sizes, kind="stable")
        if order is not None:
            clients, sizes, starts = clients[order], sizes[order], starts[order]
        plan = self._plan(sizes)
        table = plan.rows(starts, work.seed, round, clients, sizes, local.batch_size)
        received = stack.matrices(work.theta.numpy())
        lr = local.lr_at(round)
        kind = PlainLinear if PlainLinear.suits(stack, local, lr) else Steps
        steps = kind(stack, received, len(clients), local, lr)
        steps.run(self._batches(plan, table))
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
        batch, arena, width = self.work.local.batch_size, self._arena, self._stack.inputs + 1
        for first, last in plan.blocks(self._block):
            low, high = plan.offsets[first], plan.offsets[last]
            rows = table[low:high]
            x, y = arena.gather(rows)[:, :width], arena.y.take(rows)
            if plan.active[first] == plan.active[last - 1]:
                # As many clients at each: one cut for all steps, which costs less than the steps'.
                each = last - first, plan.active[first], batch, -1
                yield from zip(x.reshape(each), y.reshape(each), plan.scale[first:last])
                continue
            for step in range(first, last):
                here = slice(plan.offsets[step] - low, plan.offsets[step + 1] - low)
                shape = plan.active[step], batch, -1
                yield x[here].reshape(shape), y[here].reshape(shape), plan.scale[step]

    def _plan(self, sizes: Index) -> Schedule:
        """The schedule, made anew only when the cohort's sizes are others than last time."""
        key = sizes.tobytes()
        if self._latest is None or self._latest[0] != key:
            self._latest = key, schedule(sizes, self.work.local)
        return self._latest[1]

    def _groups(self, clients: Index) -> list[Index]:
        """The cohort in groups whose models and samples are bounded in memory."""
        key = clients.tobytes()
        if self._divided is None or self._divided[0] != key:
            self._divided = key, self._divide(clients)
        return self._divided[1]

    def _divide(self, clients: Index) -> list[Index]:
        models = max(1, MODEL_BYTES // (4 * self.work.flat.size))
        samples = KEPT_BYTES // (4 * self._arena.x.shape[1])
        ends = np.cumsum(self.work.data.train_sizes[clients])
        groups, first, before = [], 0, 0
        while first < len(clients):
            fits = int(np.searchsorted(ends, before + samples, side="right")) - first
            last = first + max(1, min(models, fits))
            groups.append(clients[first:last])
            first, before = last, int(ends[min(last, len(clients)) - 1])
        return groups


def cannot_batch(work: Work) -> LinearStack | str:
    """The model as a stack, or why it has to be trained one client at a time."""
    if work.flat.device.type != "cpu":
        return f"it is on the device {work.flat.device}"
    return linear_stack(work.model, work.data.task)
