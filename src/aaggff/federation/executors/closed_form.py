"""Local SGD for many stacked models, with the gradient written out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from aaggff.federation.executors.stack import LinearStack
from aaggff.federation.local import LocalTraining

Floats = NDArray[np.float32]
Targets = NDArray[np.float32] | NDArray[np.int64]
Batch = tuple[Floats, Targets, Floats | None]
"""One batch of each of the first k models: x [k, B, inputs + 1], y [k, B, 1], scale.

y holds -1 and 1 for a binary task, else the classes. For the scale see `Schedule`. Who takes no
part in a step takes part in none that follow.
"""

SMALLEST_UNIT = 1e-12
"""What `PlainLinear` divides by stays far from where float32 has no numbers left."""


class _Layer(NamedTuple):
    """What a hidden layer's units are for every sample of every model's batch."""

    outputs: Floats
    """Before the ReLU."""
    inputs: Floats
    """After it, as the next layer sees them: the last column stays 1, for the bias."""
    error: Floats
    """d loss / d outputs."""


class Steps:
    """Trains `models`, each layer's k matrices, in place. See `LocalTraining` for the step.

    numpy rather than torch: an operation on ten small matrices takes one microsecond, of which
    torch would spend one more on being asked.
    """

    def __init__(
        self,
        stack: LinearStack,
        received: list[Floats],
        copies: int,
        local: LocalTraining,
        lr: float,
    ) -> None:
        self.received, self.local, self.lr = received, local, lr
        self.models = [np.repeat(matrix[None], copies, axis=0) for matrix in received]
        batch, widths = local.batch_size, stack.widths[1:]
        # Whatever a step writes has its place, so that no step allocates.
        self._error = np.empty((copies, batch, widths[-1]), np.float32)
        self._gradients = [np.empty_like(model) for model in self.models]
        self._velocity = [np.zeros_like(m) for m in self.models] if local.momentum else []
        self._layers = [
            _Layer(
                np.empty((copies, batch, width), np.float32),
                np.ones((copies, batch, width + 1), np.float32),
                np.empty((copies, batch, width), np.float32),
            )
            for width in widths[:-1]
        ]
        self._active = copies
        self._training = self.models
        self._binary = widths[-1] == 1
        self._share = _share(stack, local)

    def run(self, batches: Iterable[Batch]) -> None:
        """All steps."""
        for x, y, scale in batches:
            self.step(x, y, scale)

    def step(self, x: Floats, y: Targets, scale: Floats | None) -> None:
        """One batch of each of the first len(x) models."""
        if len(x) != self._active:
            self._narrow(len(x))
        models, gradients, layers = self._training, self._gradients, self._layers
        inputs = x
        for model, layer in zip(models, layers):
            np.matmul(inputs, model, out=layer.outputs)
            inputs = layer.inputs
            np.maximum(layer.outputs, 0.0, out=inputs[:, :, :-1])
        error = np.matmul(inputs, models[-1], out=self._error)
        self._residual(error, y)
        if scale is not None:
            error *= scale.reshape(self._active, -1, 1)
        for depth in range(len(layers), 0, -1):
            layer = layers[depth - 1]
            np.matmul(layer.inputs.swapaxes(1, 2), error, out=gradients[depth])
            error = np.matmul(error, models[depth][:, :-1].swapaxes(1, 2), out=layer.error)
            error *= layer.inputs[:, :, :-1] > 0.0
        np.matmul(x.swapaxes(1, 2), error, out=gradients[0])
        self._descend(models, gradients)

    def _narrow(self, active: int) -> None:
        """Go on with the first `active` models only."""
        self._active = active
        self._training = [model[:active] for model in self.models]
        self._error = self._error[:active]
        self._gradients = [gradient[:active] for gradient in self._gradients]
        self._velocity = [velocity[:active] for velocity in self._velocity]
        self._layers = [_Layer(*(part[:active] for part in layer)) for layer in self._layers]

    def _residual(self, logits: Floats, y: Targets) -> None:
        """d loss / d logit, in place; for one logit twice that, the other half is in `_descend`."""
        if self._binary:
            logits *= 0.5
            sigmoid_residual(logits, y)
        else:
            softmax_residual(logits, y)

    def _descend(self, models: list[Floats], gradients: list[Floats]) -> None:
        local = self.local
        share = self._share
        for gradient, model, origin in zip(gradients, models, self.received):
            gradient *= share
            if local.prox:
                gradient += local.prox * (model - origin)
        if local.clip is not None:
            squares = sum(np.einsum("kij,kij->k", each, each) for each in gradients)
            with np.errstate(divide="ignore"):
                shrink = np.minimum(1.0, local.clip / np.sqrt(squares))
            for gradient in gradients:
                gradient *= shrink[:, None, None].astype(np.float32)
        for place, (gradient, model) in enumerate(zip(gradients, models)):
            if local.weight_decay:
                gradient += local.weight_decay * model
            if local.momentum:
                velocity = self._velocity[place]
                velocity *= local.momentum
                velocity += gradient
                model -= self.lr * velocity
            else:
                model -= self.lr * gradient


class PlainLinear:
    """`Steps` for linear models and SGD without more: what is most often run, in a third less time.

    The models are kept as w = model / unit, with the unit (lr / B, half of that for one logit) that
    a step would multiply the gradient by: then a step subtracts it as it is. An operation on ten
    small models costs what numpy takes to be asked, so the fewer the better.
    """

    def __init__(
        self,
        stack: LinearStack,
        received: list[Floats],
        copies: int,
        local: LocalTraining,
        lr: float,
    ) -> None:
        self._binary = stack.widths[-1] == 1
        self._unit = np.float32(_share(stack, local) * lr)
        self._kept = np.float32(1.0 - lr * local.weight_decay)
        self._models = np.repeat((received[0] / self._unit)[None], copies, axis=0)
        self._gradient = np.empty_like(self._models)
        self._error = np.empty((copies, local.batch_size, stack.widths[-1]), np.float32)

    @staticmethod
    def suits(stack: LinearStack, local: LocalTraining, lr: float) -> bool:
        """Whether this does what is asked for, with a rate that can still be divided by."""
        linear = len(stack.widths) == 2 and _share(stack, local) * lr > SMALLEST_UNIT
        return linear and not (local.prox or local.clip or local.momentum)

    @property
    def models(self) -> list[Floats]:
        """The layer's k matrices."""
        return [self._models * self._unit]

    def run(self, batches: Iterable[Batch]) -> None:
        """All steps."""
        models, gradient, error = self._models, self._gradient, self._error
        residual = sigmoid_residual if self._binary else softmax_residual
        to_logits = self._unit * np.float32(0.5) if self._binary else self._unit
        for x, y, scale in batches:
            if len(x) != len(models):
                models, gradient, error = models[: len(x)], gradient[: len(x)], error[: len(x)]
            np.matmul(x, models, out=error)
            np.multiply(error, to_logits, out=error)
            residual(error, y)
            if scale is not None:
                error *= scale.reshape(len(x), -1, 1)
            np.matmul(x.swapaxes(1, 2), error, out=gradient)
            if self._kept != 1:
                np.multiply(models, self._kept, out=models)
            np.subtract(models, gradient, out=models)


def _share(stack: LinearStack, local: LocalTraining) -> float:
    """What a sample's residual counts in the gradient; for one logit it comes doubled."""
    return (0.5 if stack.widths[-1] == 1 else 1.0) / local.batch_size


def sigmoid_residual(halves: Floats, y: Targets) -> None:
    """z / 2 -> tanh(z / 2) - y = 2 sigmoid(z) - 1 - y, in place: twice d loss / d z for y = +-1."""
    np.tanh(halves, out=halves)
    np.subtract(halves, y, out=halves)


def softmax_residual(logits: Floats, y: Targets) -> None:
    """z -> softmax(z) - onehot(y), in place."""
    shared = torch.from_numpy(logits)
    torch.softmax(shared, 2, out=shared)
    flat = logits.reshape(-1)
    flat[np.arange(0, flat.size, logits.shape[2]) + y.reshape(-1)] -= 1.0
