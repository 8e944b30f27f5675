"""From what a store holds (bytes, 16-bit sound, small integers) to what a model sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from aaggff.errors import UserError, unknown

KINDS = ("none", "scale", "integers", "text")


@dataclass(frozen=True)
class Prepare:
    """A batch's last step before the model, small enough to be written in a manifest.

    - "none": the stored numbers are what the model sees.
    - "scale": (x / divide - mean) / std, as float32; mean and std are per channel (the second
      axis) or empty for 0 and 1. Images are stored as bytes with divide 255, sound as 16-bit
      integers with divide 32,768.
    - "integers": int64, for token numbers.
    - "text": int64, cut after the last column that holds anything but 0 (padding), so that a
      batch is as long as its own longest row and no longer.

    >>> import torch
    >>> Prepare("scale", divide=255)(torch.tensor([[0, 255]], dtype=torch.uint8))
    tensor([[0., 1.]])
    >>> Prepare("text")(torch.tensor([[5, 6, 0, 0], [7, 0, 0, 0]]))
    tensor([[5, 6],
            [7, 0]])
    """

    kind: str = "none"
    divide: float = 1.0
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise unknown("kind of preparation", self.kind, KINDS)
        if len(self.mean) != len(self.std):
            raise UserError("a preparation needs as many means as standard deviations")

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.kind == "integers":
            return inputs.long()
        if self.kind == "text":
            return _without_padding(inputs).long()
        if self.kind == "none":
            return inputs
        outputs = inputs.to(torch.float32)
        if self.divide != 1.0:
            outputs = outputs / self.divide
        if self.mean:
            shape = (1, len(self.mean)) + (1,) * (inputs.dim() - 2)
            mean = torch.tensor(self.mean, device=inputs.device).reshape(shape)
            std = torch.tensor(self.std, device=inputs.device).reshape(shape)
            outputs = (outputs - mean) / std
        return outputs

    def to_json(self) -> dict[str, Any]:
        """As a manifest holds it."""
        return {
            "kind": self.kind,
            "divide": self.divide,
            "mean": list(self.mean),
            "std": list(self.std),
        }

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Prepare:
        """From a manifest."""
        return cls(
            kind=str(written["kind"]),
            divide=float(written["divide"]),
            mean=tuple(float(value) for value in written["mean"]),
            std=tuple(float(value) for value in written["std"]),
        )


def _without_padding(tokens: torch.Tensor) -> torch.Tensor:
    used = torch.nonzero((tokens != 0).flatten(0, -2).any(dim=0))
    return tokens[..., : int(used[-1]) + 1 if len(used) else 1]


IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
