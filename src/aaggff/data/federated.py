"""Rows + split + preparation = what a federation learns from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from aaggff.data.prepare import Prepare
from aaggff.data.rows import Array, Index, Rows, Samples
from aaggff.data.split import split_client
from aaggff.errors import UserError
from aaggff.federation.data import Part, Task

TEST_FRACTION = 0.2
_REMEMBERED = 100_000


class FederatedRows:
    """A `FederatedData` over any `Rows`, in memory, on disk or generated.

    Opening costs a few vector operations of length K: how many samples go to a client's test
    part depends on how many it has, and *which* ones is worked out from (seed, client) when that
    client is first read. So nothing on disk depends on the seed, and only sampled clients are
    ever touched.

    rows: where samples come from. seed: of the split. prepare: a batch's last step before the
    model. stratify: split by class where targets are single integers. names: the clients' names.
    standardise: this many leading columns get mean 0 and deviation 1 by each client's own
    training part. train_counts: instead of a split by seed, this many of each client's first
    rows are its training part (a split its makers published). notes: what a user should know
    about the files it was made from (rows missing, images left out).
    """

    def __init__(
        self,
        name: str,
        task: Task,
        rows: Rows,
        *,
        seed: int = 0,
        prepare: Prepare | None = None,
        stand_in: bool = False,
        stratify: bool = True,
        names: Sequence[str] | None = None,
        standardise: int = 0,
        train_counts: Index | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self.name, self.task, self.rows, self.seed = name, task, rows, seed
        self.stand_in, self.stratify, self.names = stand_in, stratify, names
        self.standardise, self.train_counts = standardise, train_counts
        self.notes = tuple(notes)
        self._prepare = prepare or Prepare()
        counts = rows.counts
        if train_counts is None:
            test = np.rint(TEST_FRACTION * counts).astype(np.int64)
            self.test_sizes: NDArray[np.int64] = np.where(
                counts < 2, 0, np.minimum(counts - 1, np.maximum(1, test))
            )
        else:
            self.test_sizes = counts - train_counts
        self.train_sizes: NDArray[np.int64] = counts - self.test_sizes
        self._splits: dict[int, tuple[Index, Index]] = {}
        self._scales: dict[int, tuple[Array, Array]] = {}

    def __len__(self) -> int:
        return len(self.rows.counts)

    def train(self, client: int) -> Part:
        """Client k's training part."""
        return self._part(client, 0)

    def test(self, client: int) -> Part:
        """Client k's test part."""
        return self._part(client, 1)

    def test_block(self, first: int, last: int) -> tuple[torch.Tensor, torch.Tensor, Index]:
        """The test parts of clients first..last-1 in one array, and where each begins.

        Client first + j has the rows offsets[j]:offsets[j+1].
        """
        clients = range(first, last)
        offsets = np.concatenate([[0], np.cumsum(self.test_sizes[first:last])]).astype(np.int64)
        if self.standardise and len(clients):
            parts = [self.test(client) for client in clients]
            return torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts]), offsets
        indices = [self.split(client)[1] for client in clients]
        x, y = _tensors(self.rows.block(clients, indices))
        return x, y, offsets

    def prepare(self, inputs: torch.Tensor) -> torch.Tensor:
        """A batch as stored -> as the model sees it."""
        return self._prepare(inputs)

    def client_name(self, client: int) -> str:
        """Who client k is; its number where nobody knows more."""
        return str(client) if self.names is None else str(self.names[client])

    def split(self, client: int) -> tuple[Index, Index]:
        """The client's row numbers in its training and in its test part, ascending."""
        if not 0 <= client < len(self):
            raise UserError(f"client {client} does not exist; {self.name} has 0..{len(self) - 1}")
        found = self._splits.get(client)
        if found is None:
            found = self._make_split(client)
            if len(self._splits) >= _REMEMBERED:
                self._splits.clear()
            self._splits[client] = found
        return found

    def _make_split(self, client: int) -> tuple[Index, Index]:
        count = int(self.rows.counts[client])
        if self.train_counts is not None:
            numbers = np.arange(count, dtype=np.int64)
            return numbers[: self.train_counts[client]], numbers[self.train_counts[client] :]
        labels = self.rows.labels(client) if self.stratify else None
        if labels is not None and (labels.ndim != 1 or labels.dtype.kind not in "biu"):
            labels = None
        return split_client(
            count, labels, seed=self.seed, client=client, test_fraction=TEST_FRACTION
        )

    def _part(self, client: int, which: int) -> Part:
        x, y = self.rows.take(client, self.split(client)[which])
        if self.standardise:
            mean, std = self._scale(client)
            # In double precision, then rounded once: sums of money are large.
            x = x.astype(np.float64)
            x[:, : self.standardise] = (x[:, : self.standardise] - mean) / std
            x = x.astype(np.float32)
        return _tensors((x, y))

    def _scale(self, client: int) -> tuple[Array, Array]:
        """Mean and deviation of the client's training part; a constant column keeps deviation 1."""
        found = self._scales.get(client)
        if found is None:
            x = self.rows.take(client, self.split(client)[0])[0][:, : self.standardise]
            values = np.asarray(x, dtype=np.float64)
            mean, std = values.mean(axis=0), values.std(axis=0)
            # Rounding leaves a constant column a deviation of about 1e-17 times its size.
            flat = std <= 1e-12 * np.maximum(1.0, np.abs(mean))
            found = mean, np.where(flat, 1.0, std)
            self._scales[client] = found
        return found


def _tensors(samples: Samples) -> Part:
    x, y = samples
    # A tensor must not share memory with a file: whoever writes to it would write there.
    inputs = x if x.flags.writeable else np.array(x)
    return torch.from_numpy(inputs), torch.from_numpy(np.array(y, dtype=np.int64))
