"""Before round 1: the decision maker and the first model, checked against the data."""

from __future__ import annotations

import copy
import traceback
from collections.abc import Callable
from inspect import isclass, signature
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from aaggff.decision import decision_maker
from aaggff.decision.base import DecisionMaker
from aaggff.errors import UserError
from aaggff.federation.client import input_format
from aaggff.federation.data import FederatedData, Task
from aaggff.federation.losses import check_outputs
from aaggff.federation.seeds import derive

ModelChoice = str | nn.Module | Callable[..., nn.Module]


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
    chosen: ModelChoice,
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
        model, name = _first_model(chosen, shape, data.task, options)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise UserError(f"model {name} has no parameters to train")
    model = model.to(device)
    model.eval()
    with torch.inference_mode():
        try:
            outputs = model(input_format(model, data.prepare)(x))
        except UserError:
            raise
        except Exception as error:
            raise UserError(
                f"model {name} cannot take samples of shape {shape}: {_said(error)}"
            ) from error
    if not isinstance(outputs, torch.Tensor):
        raise UserError(f"model {name} gives {type(outputs).__name__}, expected one tensor")
    check_outputs(data.task, outputs, y, name)
    return model


def _first_model(
    chosen: ModelChoice, shape: tuple[int, ...], task: Task, options: dict[str, Any]
) -> tuple[nn.Module, str]:
    """The model and what to call it in errors."""
    from aaggff.models import MODELS, build_model, model_factory

    if isinstance(chosen, nn.Module):
        if options:
            raise UserError("model_options belong to a model given by name or as a factory")
        return copy.deepcopy(chosen), type(chosen).__name__
    if isinstance(chosen, str) and chosen in MODELS:
        return build_model(chosen, shape, task, **options), chosen
    factory = model_factory(chosen) if isinstance(chosen, str) else chosen
    name = chosen if isinstance(chosen, str) else getattr(chosen, "__name__", "of yours")
    if not callable(factory):
        raise UserError(f"model: expected a name, a factory or a torch.nn.Module, got {chosen!r}")
    try:
        signature(factory).bind(shape, task, **options)
    except TypeError as error:
        hint = "; write a function of these two that returns it" if isclass(factory) else ""
        raise UserError(
            f"model {name} must take (sample_shape, task) and its options as keywords: "
            f"{error}{hint}"
        ) from None
    except ValueError:
        pass  # something built in, whose signature nobody knows
    try:
        model = factory(shape, task, **options)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"model {name} failed to be made: {_said(error)}") from error
    if not isinstance(model, nn.Module):
        raise UserError(f"model {name} returned {type(model).__name__}, expected a torch.nn.Module")
    return model, name


def _said(error: Exception) -> str:
    """What went wrong in somebody else's code, and where, in one line."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    said = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {said} ({Path(last.filename).name}, line {last.lineno})"
