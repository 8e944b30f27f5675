"""LEAF's StackedLSTM: next-token prediction (the paper's model for Reddit)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from aaggff.errors import UserError

if TYPE_CHECKING:
    from aaggff.federation.data import Task


class StackedLSTM(nn.Module):
    """Embedding, LSTM layers, and a linear layer that gives every position its logits."""

    def __init__(self, vocabulary: int, embedding: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, hidden, num_layers=layers, batch_first=True)
        self.output = nn.Linear(hidden, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Token ids [n, L] to logits [n, L, vocabulary]; position i has seen tokens 0..i only."""
        states, _ = self.lstm(self.embedding(tokens))
        logits: torch.Tensor = self.output(states)
        return logits


def stackedlstm(
    sample_shape: tuple[int, ...],
    task: Task,
    *,
    embedding: int = 200,
    hidden: int = 256,
    layers: int = 2,
) -> StackedLSTM:
    """Two LSTM layers of 256 units over the vocabulary of the task.

    The paper says that "the number of embeddings is 200" and that an embedding has "256
    dimensions", with a vocabulary of 10,000, which cannot all be so: a table of 200 rows cannot
    hold 10,000 tokens. LEAF's model, which it names as its own, has embeddings of 200 dimensions
    and 256 hidden units, and the authors' published command says the same; that is the
    default. `embedding=256` is the other reading.

    >>> from aaggff.federation.data import Task
    >>> model = stackedlstm((10,), Task("tokens", 10_000, "top1"))
    >>> sum(p.numel() for p in model.parameters())
    5565328
    """
    if len(sample_shape) != 1 or task.kind != "tokens":
        raise UserError(
            f"stackedlstm: expected rows of token ids and a task that predicts tokens, got samples "
            f"of shape {tuple(sample_shape)} and a {task.kind} task"
        )
    for name, value in (("embedding", embedding), ("hidden", hidden), ("layers", layers)):
        if not isinstance(value, int) or value < 1:
            raise UserError(f"{name}: expected a whole number of at least 1, got {value!r}")
    return StackedLSTM(task.outputs, embedding, hidden, layers)
