"""A model as one vector, so that an update is a vector and mixing is one addition."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from aaggff.errors import UserError


class Flat:
    """Where each parameter and buffer of a model lies in one flat vector.

    The vector holds the trainable parameters (`parameters` numbers), then the float buffers
    (BatchNorm's running statistics), then one place for each entry of integer buffers (BatchNorm's
    counter). Frozen parameters are the same at every client and are left out.

    `bind` makes a module's parameters and float buffers *views* of a vector: writing the vector
    writes the model. Integer buffers cannot be views of floats; their places in an *update* hold
    differences, which are mixed like everything else and rounded when applied.

    >>> model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    >>> flat = Flat(model)
    >>> flat.parameters, flat.floats, flat.size  # 9 + 6 parameters, 2 x 3 statistics, 1 counter
    (15, 21, 22)
    >>> theta = flat.bind(model)
    >>> _ = theta[:15].fill_(0.5)
    >>> model[0].bias.tolist()
    [0.5, 0.5, 0.5]
    """

    def __init__(self, module: nn.Module) -> None:
        trained = [p for p in module.parameters() if p.requires_grad]
        if not trained:
            raise UserError("the model has no trainable parameters")
        kinds = {p.dtype for p in trained}
        if len(kinds) > 1:
            named = ", ".join(sorted(str(kind).removeprefix("torch.") for kind in kinds))
            raise UserError(f"the model's parameters are of several types ({named}); expected one")
        self.dtype = kinds.pop()
        self.device = trained[0].device
        self.parameters = sum(p.numel() for p in trained)
        """How many trainable numbers the model has; they come first in the vector."""
        self.floats = self.parameters + sum(b.numel() for b in _buffers(module, floating=True))
        """Parameters and float buffers: the length of the vector a model is bound to."""
        self.size = self.floats + sum(b.numel() for b in _buffers(module, floating=False))
        """The length of an update."""

    def bind(self, module: nn.Module, vector: Tensor | None = None) -> Tensor:
        """Make the module's trainable parameters and float buffers views of one vector.

        Without `vector` a new one is made that holds the module's present values; with one, the
        module takes the vector's.
        """
        if vector is None:
            vector = torch.empty(self.floats, dtype=self.dtype, device=self.device)
            for place, tensor in self._places(module, vector):
                place.copy_(tensor.detach())
        for place, tensor in self._places(module, vector):
            # Through .data, so that the Parameter stays the same object (tied weights, LSTM).
            tensor.data = place
        return vector

    def integers(self, module: nn.Module) -> Tensor | None:
        """The integer buffers as one int64 vector; None if there are none."""
        values = [b.detach().reshape(-1).long() for b in _buffers(module, floating=False)]
        return torch.cat(values) if values else None

    def set_integers(self, module: nn.Module, values: Tensor | None) -> None:
        """Write them back."""
        if values is None:
            return
        start = 0
        for buffer in _buffers(module, floating=False):
            buffer.copy_(values[start : start + buffer.numel()].view(buffer.shape))
            start += buffer.numel()

    def _places(self, module: nn.Module, vector: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        start = 0
        trained = [p for p in module.parameters() if p.requires_grad]
        for tensor in [*trained, *_buffers(module, floating=True)]:
            yield vector[start : start + tensor.numel()].view(tensor.shape), tensor
            start += tensor.numel()


def _buffers(module: nn.Module, *, floating: bool) -> list[Tensor]:
    return [b for b in module.buffers() if b.is_floating_point() == floating]
