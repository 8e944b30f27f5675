"""Models by name. Each lives in one module, imported when it is asked for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from aaggff.errors import UserError, unknown

if TYPE_CHECKING:
    import torch

    from aaggff.federation.data import Task

# Name -> "module:factory"; factory(sample_shape, task, **options) -> torch.nn.Module.
MODELS = {
    "logistic": "aaggff.models.logistic:logistic",
    "mlp": "aaggff.models.mlp:mlp",
    "convnet": "aaggff.models.convnet:convnet",
    "stackedlstm": "aaggff.models.stackedlstm:stackedlstm",
    "m5": "aaggff.models.m5:m5",
    "distilbert": "aaggff.models.distilbert:distilbert",
    "efficientnet": "aaggff.models.efficientnet:efficientnet",
    "efficientnet-lite0": "aaggff.models.efficientnet_lite:efficientnet_lite0",
    "mobilevit": "aaggff.models.mobilevit:mobilevit",
}


def model_factory(name: str) -> Callable[..., torch.nn.Module]:
    """The factory of a model: ours by name, the user's own as "package.module:factory"."""
    if name not in MODELS and ":" not in name:
        raise unknown("model", name, MODELS)
    module, _, attribute = MODELS.get(name, name).partition(":")
    try:
        factory: Callable[..., torch.nn.Module] = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, SyntaxError, ValueError) as error:
        raise UserError(f"model {name!r} cannot be imported: {error}") from error
    if not callable(factory):
        raise UserError(f"model {name!r} is no function: expected package.module:factory")
    return factory


def model_options(name: str) -> dict[str, Any]:
    """The options of a model and their defaults, read from its factory's keywords.

    >>> model_options("stackedlstm")
    {'embedding': 200, 'hidden': 256, 'layers': 2}
    """
    parameters = inspect.signature(model_factory(name)).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def build_model(
    name: str, sample_shape: tuple[int, ...], task: Task, **options: Any
) -> torch.nn.Module:
    """A fresh model: one of ours by name, or the user's own as "package.module:factory".

    The caller seeds torch's generator, so that the same seed gives the same first model.
    """
    factory = model_factory(name)
    if name in MODELS:
        known = model_options(name)
        for option in options:
            if option not in known:
                raise unknown(f"option of model {name!r}", option, known)
    return factory(tuple(sample_shape), task, **options)
