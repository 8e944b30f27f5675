"""Which models can be trained as many copies at once, and how their copies are laid out.

A model of linear layers with ReLU between them (logistic regression, a multilayer perceptron) has
a gradient in closed form, and k copies of it are k matrices per layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from torch import nn

from aaggff.federation.data import Task
from aaggff.federation.executors.arena import aligned

Array = NDArray[np.float32]


@dataclass(frozen=True)
class LinearStack:
    """The widths of a stack of linear layers: inputs, hidden ones, outputs.

    A layer's weight and bias are one matrix A [inputs + 1, outputs], so that [h, 1] A = W h + b.

    >>> stack = LinearStack((2, 3))
    >>> theta = np.arange(9, dtype=np.float32)  # W (3, 2), then b (3)
    >>> stack.matrices(theta)[0].tolist()
    [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0], [6.0, 7.0, 8.0]]
    >>> bool((stack.vectors([m[None] for m in stack.matrices(theta)]) == theta).all())
    True
    """

    widths: tuple[int, ...]

    @property
    def inputs(self) -> int:
        """Numbers in a sample."""
        return self.widths[0]

    def matrices(self, theta: Array) -> list[Array]:
        """The layers' matrices of one flat model (torch's order: weight, bias, weight, ...)."""
        if self.widths[1:] == (1,):
            return [theta.reshape(-1, 1)]  # already weight, bias
        found, start = [], 0
        for inputs, outputs in pairwise(self.widths):
            middle, end = start + inputs * outputs, start + (inputs + 1) * outputs
            matrix = aligned(inputs + 1, outputs)
            matrix[:-1] = theta[start:middle].reshape(outputs, inputs).T
            matrix[-1] = theta[middle:end]
            found.append(matrix)
            start = end
        return found

    def vectors(self, matrices: list[Array]) -> Array:
        """k flat models from each layer's k matrices."""
        copies = len(matrices[0])
        if self.widths[1:] == (1,):
            return matrices[0].reshape(copies, -1)
        return np.concatenate(
            [
                part
                for matrix in matrices
                for part in (matrix[:, :-1].swapaxes(1, 2).reshape(copies, -1), matrix[:, -1])
            ],
            axis=1,
        )


def linear_stack(model: nn.Module, task: Task) -> LinearStack | str:
    """The model as a stack, or why it cannot be one."""
    if task.kind == "tokens":
        return "its task is a sequence's"
    layers = list(_leaves(model))
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    for layer in layers:
        if isinstance(layer, nn.Dropout) and layer.p > 0:
            return "it has dropout"
        if type(layer) not in (nn.Linear, nn.ReLU, nn.Flatten, nn.Identity, nn.Dropout):
            return f"it has a layer {type(layer).__name__}"
    if not linear or any(layer.bias is None for layer in linear):
        return "it has a linear layer without bias" if linear else "it has no linear layer"
    if not all(p.requires_grad for p in model.parameters()):
        return "some of its parameters are frozen"
    if not _alternates(layers):
        return "its layers are not linear and ReLU in turn"
    if str(linear[0].weight.dtype) != "torch.float32":
        return f"its parameters are {linear[0].weight.dtype}"
    return LinearStack((linear[0].in_features, *(layer.out_features for layer in linear)))


def _leaves(module: nn.Module) -> list[nn.Module]:
    """The layers in the order they are applied, as far as that can be known: inside Sequentials."""
    if type(module) is nn.Sequential:
        return [leaf for child in module for leaf in _leaves(child)]
    return [module]


def _alternates(layers: list[nn.Module]) -> bool:
    """Flatten first if at all, then linear, ReLU, linear, ..., linear."""
    named = [type(layer) for layer in layers if type(layer) not in (nn.Identity, nn.Dropout)]
    if named and named[0] is nn.Flatten:
        flatten = layers[0]
        if isinstance(flatten, nn.Flatten) and (flatten.start_dim, flatten.end_dim) != (1, -1):
            return False
        named = named[1:]
    expected = [nn.Linear if place % 2 == 0 else nn.ReLU for place in range(len(named))]
    return len(named) % 2 == 1 and named == expected
