"""Before round 1: the decision maker and the first model, checked against the data."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from aaggff.decision import decision_maker
from aaggff.decision.base import DecisionMaker
from aaggff.errors import UserError
from aaggff.federation.client import input_format
from aaggff.federation.data import FederatedData
from aaggff.federation.losses import check_outputs
from aaggff.federation.seeds import derive


def make_maker(
    chosen: str | DecisionMaker, clients: int, rate: float, options: dict[str, Any]
) -> DecisionMaker:
    """The decision maker: by name for this federation, or the one given."""
    if isinstance(chosen, str):
        return decision_maker(chosen, clients=clients, rate=rate, **options)
    if options:
        raise UserError("method_options belong to a method given by name")
    if not callable(getattr(chosen, "decide", None)):
        raise UserError(f"decision_maker: expected a name or a DecisionMaker, got {chosen!r}")
    return chosen


def make_model(
    chosen: str | nn.Module | Callable[..., nn.Module],
    data: FederatedData,
    seed: int,
    device: torch.device,
    options: dict[str, Any],
) -> nn.Module:
    """The first global model, drawn from the seed, and known to fit the data and the task."""
    filled = np.flatnonzero(data.train_sizes)
    if not len(filled):
        raise UserError(f"{data.name}: no client has training data")
    x, y = data.train(int(filled[0]))
    x, y = x[:2], y[:2]
    shape = tuple(data.prepare(x).shape[1:])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, 0, 0, "first model") >> 1)
        if isinstance(chosen, str):
            from aaggff.models import build_model

            model, name = build_model(chosen, shape, data.task, **options), chosen
        elif isinstance(chosen, nn.Module):
            if options:
                raise UserError("model_options belong to a model given by name or as a factory")
            model, name = copy.deepcopy(chosen), type(chosen).__name__
        else:
            model = chosen(shape, data.task, **options)
            name = getattr(chosen, "__name__", "of yours")
    model = model.to(device)
    model.eval()
    with torch.inference_mode():
        try:
            outputs = model(input_format(model, data.prepare)(x))
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise UserError(
                f"model {name} cannot take samples of shape {shape}: {str(error).splitlines()[0]}"
            ) from error
    check_outputs(data.task, outputs, y, name)
    return model
