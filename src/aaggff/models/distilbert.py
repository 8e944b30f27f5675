"""DistilBERT, or another encoder like BERT, with the paper's head (its model for MQP)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from aaggff.errors import UserError, unknown
from aaggff.models.pretrained import load_pretrained

if TYPE_CHECKING:
    from aaggff.federation.data import Task

HUB = "distilbert-base-uncased"
POOLINGS = ("first", "mean")


class EncoderClassifier(nn.Module):
    """Token ids [n, L] -> encoder -> one vector a text -> linear, ReLU, dropout, linear.

    Token 0 is padding. What is padding in every row of a batch is cut off before the encoder
    sees it: attention costs L^2, and most pairs are far shorter than the 200 tokens they are
    stored with.
    """

    def __init__(
        self, encoder: nn.Module, width: int, outputs: int, dropout: float, pooling: str
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling = pooling
        self.head = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, outputs)
        )

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits [n, outputs]."""
        mask = tokens != 0
        used = mask.any(dim=0).nonzero()
        longest = int(used[-1]) + 1 if len(used) else 1
        tokens, mask = tokens[:, :longest], mask[:, :longest]
        states = self.encoder(input_ids=tokens, attention_mask=mask.long()).last_hidden_state
        if self.pooling == "first":
            text = states[:, 0]
        else:
            weights = mask.unsqueeze(-1).to(states.dtype)
            text = (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1.0)
        logits: torch.Tensor = self.head(text)
        return logits


def distilbert(
    sample_shape: tuple[int, ...],
    task: Task,
    *,
    pretrained: str = "hub",
    pooling: str = "first",
    dropout: float = 0.1,
    layers: int | None = None,
) -> EncoderClassifier:
    """DistilBERT (66 million weights) + 768-ReLU-dropout-`task.outputs`; every layer is trained.

    pretrained: "hub" (distilbert-base-uncased from the Hugging Face hub or its cache); a folder
    with config.json and model.safetensors of any encoder like BERT (MiniLM, BERT, RoBERTa), whose
    width the head takes over; or "random": DistilBERT untrained. pooling: a text is the state of
    its "first" token ([CLS], the paper's) or the "mean" of all its tokens' states, which is what
    sentence encoders such as MiniLM were trained with. layers: keep only that many of the
    encoder's layers, the lowest ones.

    A binary task gets one logit where the paper has two: the same model, since only the
    difference of two logits counts.

    >>> from aaggff.federation.data import Task
    >>> model = distilbert((200,), Task("binary", 1, "auroc"), pretrained="random", layers=1)
    >>> model(torch.tensor([[101, 7592, 102, 0, 0]])).shape
    torch.Size([1, 1])
    """
    if len(sample_shape) != 1 or task.kind == "tokens":
        raise UserError(
            f"distilbert: expected rows of token ids and one target a row, got samples of shape "
            f"{tuple(sample_shape)} and a {task.kind} task"
        )
    if pooling not in POOLINGS:
        raise unknown("pooling", pooling, POOLINGS)
    if not 0 <= dropout < 1:
        raise UserError(f"dropout: expected a share in [0, 1), got {dropout!r}")
    encoder = _encoder(pretrained)
    if layers is not None:
        _keep_layers(encoder, layers)
    config = encoder.config
    if sample_shape[0] > config.max_position_embeddings:
        raise UserError(
            f"distilbert: texts of {sample_shape[0]} tokens, but this encoder reads at most "
            f"{config.max_position_embeddings}"
        )
    return EncoderClassifier(encoder, config.hidden_size, task.outputs, dropout, pooling)


def _encoder(pretrained: str) -> Any:
    try:
        from transformers import AutoModel, DistilBertConfig, DistilBertModel
    except ImportError as error:
        raise UserError("distilbert: needs transformers: pip install 'aaggff[text]'") from error
    if pretrained == "random":
        return DistilBertModel(DistilBertConfig())
    encoder = load_pretrained("distilbert", AutoModel, pretrained, HUB)
    # BERT's pooler comes after the last layer, which is what the head reads: it would never learn.
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None
    # What is loaded is in eval mode; the trainer decides.
    return encoder.train()


def _keep_layers(encoder: Any, layers: int) -> None:
    stack: Any = encoder.transformer if hasattr(encoder, "transformer") else encoder.encoder
    if not isinstance(layers, int) or not 1 <= layers <= len(stack.layer):
        raise UserError(
            f"layers: expected a whole number from 1 to {len(stack.layer)}, got {layers!r}"
        )
    stack.layer = stack.layer[:layers]
    encoder.config.num_hidden_layers = layers
