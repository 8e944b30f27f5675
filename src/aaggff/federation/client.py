"""The client: how good the received model is on its samples, and what it makes of it.

Written to be read, and run by the sequential and the processes executor and by the deployed
clients alike: the same (seed, round, client) gives the same batches everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from aaggff.federation.data import Part, Task
from aaggff.federation.local import LocalTraining
from aaggff.federation.losses import batch_loss, loss_sums
from aaggff.federation.seeds import permutation

Prepare = Callable[[Tensor], Tensor]


def mean_loss(
    model: nn.Module, part: Part, task: Task, *, prepare: Prepare, rows: int | None = None
) -> float:
    """F_i (eq. 7): the mean loss of the received model over all samples of a client's part.

    The model is in evaluation mode meanwhile (BatchNorm uses what it received, nothing drops out).
    Samples go through `rows` at a time; for tokens the mean is over real tokens. No samples: nan.
    """
    inputs, targets = part
    chunk = rows or rows_at_once(inputs, task)
    as_seen = input_format(model, prepare)
    total = count = 0.0
    was_training = model.training
    model.eval()
    with torch.inference_mode():
        for x, y in zip(torch.split(inputs, chunk), torch.split(targets, chunk)):
            losses, real = loss_sums(task, model(as_seen(x)), y.to(_device(model)))
            total += float(losses.sum(dtype=torch.float64))
            count += float(real.sum(dtype=torch.float64))
    model.train(was_training)
    return total / count if count else float("nan")


def train_client(
    model: nn.Module,
    part: Part,
    task: Task,
    local: LocalTraining,
    *,
    prepare: Prepare,
    seed: int,
    round: int,
    client: int,
    lr: float | None = None,
) -> None:
    """Local SGD from the received model (algorithm 1): `model` holds it, and then the result.

    `lr` defaults to the round's. See `LocalTraining` for what a step is.
    """
    inputs, targets = part
    rate = local.lr_at(round) if lr is None else lr
    loss_of = batch_loss(task)
    as_seen = input_format(model, prepare)
    device = _device(model)
    parameters: list[Tensor] = [p for p in model.parameters() if p.requires_grad]
    received = [p.detach().clone() for p in parameters] if local.prox else []
    velocity: list[Tensor] = []
    model.train()
    for batch in batches(len(targets), local, seed=seed, round=round, client=client):
        try:
            outputs = model(as_seen(inputs[batch]))
        except ValueError:
            # One value has no variance to normalise by: then a batch of one moves no parameter (the
            # running statistics of layers before that one have seen it).
            if len(batch) > 1 or not _normalises_batches(model):
                raise
            continue
        loss = loss_of(outputs, targets[batch].to(device))
        gradients = list(torch.autograd.grad(loss, parameters, materialize_grads=True))
        with torch.no_grad():
            velocity = _step(parameters, gradients, velocity, received, local, rate)
        del loss, gradients  # or the next step's would have to lie beside them


def batches(
    size: int, local: LocalTraining, *, seed: int, round: int, client: int
) -> Iterator[Tensor]:
    """The row numbers of each batch: every epoch a new order, the last batch what is left.

    >>> local = LocalTraining(batch_size=2, steps=4)
    >>> [len(batch) for batch in batches(3, local, seed=0, round=1, client=0)]
    [2, 1, 2, 1]
    """
    left = local.steps_for(size)
    epoch = 0
    while left > 0 and size > 0:
        order = torch.from_numpy(permutation(seed, round, client, size, epoch))
        for batch in torch.split(order, local.batch_size)[:left]:
            yield batch
            left -= 1
        epoch += 1


def input_format(model: nn.Module, prepare: Prepare) -> Prepare:
    """A stored batch -> what the model sees: prepared, on its device, images channels last.

    Convolutions on the CPU are faster when the channels of a pixel lie side by side.
    """
    device = _device(model)
    images = device.type == "cpu" and any(isinstance(m, nn.Conv2d) for m in model.modules())

    def as_seen(inputs: Tensor) -> Tensor:
        x = prepare(inputs.to(device))
        return x.contiguous(memory_format=torch.channels_last) if images and x.dim() == 4 else x

    return as_seen


WIDTH_OF_TOKENS = 256
"""About as many numbers an encoder makes of one."""


def rows_at_once(inputs: Tensor, task: Task) -> int:
    """How many samples to put through a model together when only its loss is wanted.

    About a million numbers on the way in or out: large enough to be quick, small enough for the
    activations to stay in the cache. A token is one number but hundreds as soon as it is embedded;
    and few texts at a time are padded to a longest one that is not so long.
    """
    sample = inputs[0].numel() if len(inputs) else 1
    if inputs.dim() == 2 and inputs.dtype in (torch.int32, torch.int64):
        sample *= WIDTH_OF_TOKENS
    outputs = task.outputs * (sample if task.kind == "tokens" else 1)
    return min(4096, max(32, 2**20 // max(1, sample, outputs)))


def _step(
    parameters: list[Tensor],
    gradients: list[Tensor],
    velocity: list[Tensor],
    received: list[Tensor],
    local: LocalTraining,
    lr: float,
) -> list[Tensor]:
    # Never in place: autograd may hand out one tensor as the gradient of two parameters.
    if local.prox:  # FedProx: the gradient of prox/2 |theta - theta_received|^2
        gradients = [g + local.prox * (p - p0) for g, p, p0 in zip(gradients, parameters, received)]
    if local.clip is not None:
        norm = torch.stack([torch.linalg.vector_norm(g) for g in gradients]).norm()
        shrink = (local.clip / norm).clamp(max=1.0)
        gradients = [g * shrink for g in gradients]
    if local.weight_decay:
        gradients = [
            torch.add(g, p, alpha=local.weight_decay) for g, p in zip(gradients, parameters)
        ]
    if local.momentum:
        if velocity:
            gradients = [torch.add(g, v, alpha=local.momentum) for g, v in zip(gradients, velocity)]
        velocity = gradients
    for p, g in zip(parameters, gradients):
        p.add_(g, alpha=-lr)
    return velocity


def _normalises_batches(model: nn.Module) -> bool:
    return any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in model.modules())


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device
