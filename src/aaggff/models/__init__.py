"""Models by name. Each lives in one module, imported when it is asked for."""

from __future__ import annotations

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
    "mobilevit": "aaggff.models.mobilevit:mobilevit",
}


def build_model(
    name: str, sample_shape: tuple[int, ...], task: Task, **options: Any
) -> torch.nn.Module:
    """A fresh model: one of ours by name, or the user's own as "package.module:factory".

    The caller seeds torch's generator, so that the same seed gives the same first model.
    """
    if name not in MODELS and ":" not in name:
        raise unknown("model", name, MODELS)
    module, _, attribute = MODELS.get(name, name).partition(":")
    try:
        factory = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UserError(f"model {name!r} cannot be imported: {error}") from error
    model: torch.nn.Module = factory(sample_shape, task, **options)
    return model
