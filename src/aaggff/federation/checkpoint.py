"""A federation on disk: tensors and JSON in one safetensors file, checked when it is loaded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from aaggff.errors import UserError
from aaggff.federation.record import write_atomically

if TYPE_CHECKING:
    from torch import Tensor

    from aaggff.federation.config import RunConfig
    from aaggff.federation.federation import Federation

FORMAT = 1
MAY_DIFFER = frozenset(
    ("rounds", "evaluate_every", "checkpoint_every", "executor", "workers", "device", "data_dir")
)
"""Settings a resumed run may change: they do not change what the rounds so far computed."""


def save_checkpoint(
    path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any], config: RunConfig
) -> None:
    """Write atomically what `Federation.state_dict()` returned, and the configuration."""
    about = {"format": FORMAT, "config": config.model_dump(), "facts": facts}
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_atomically(path, save(whole, {"aaggff": json.dumps(about)}))


def load_checkpoint(
    path: Path, config: RunConfig | None = None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and facts of a checkpoint; one of another configuration is refused."""
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["aaggff"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        form, facts, saved = about["format"], about["facts"], about["config"]
        if not isinstance(facts, dict) or not isinstance(saved, dict):
            raise TypeError
    except FileNotFoundError as error:
        raise UserError(f"there is no checkpoint {path}") from error
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is not a whole checkpoint of aaggff: {error}") from error
    if form != FORMAT:
        raise UserError(f"{path} has format {form}; this version reads format {FORMAT}")
    if config is not None:
        now = json.loads(json.dumps(config.model_dump()))
        for name in now | saved:  # in the order of the settings: the method before its options
            if name not in MAY_DIFFER and now.get(name) != saved.get(name):
                raise UserError(
                    f"{path} was saved with {name} = {saved.get(name)!r}, and the run to resume "
                    f"has {now.get(name)!r}: leave it as it was, or begin a new run"
                )
    return tensors, facts


def restore(federation: Federation, path: Path, config: RunConfig) -> dict[str, Any]:
    """Put a fresh federation where the checkpoint was saved; returns the checkpoint's facts.

    Everything is checked before anything is changed.
    """
    tensors, facts = load_checkpoint(path, config)
    try:
        state, done = facts["federation"], int(facts["round"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} lacks {error}") from error
    if done > config.rounds:
        raise UserError(f"{path} is of round {done}; rounds is only {config.rounds}")
    model = {f"model.{name}": each for name, each in federation.model.state_dict().items()}
    trained = sum(p.numel() for p in federation.model.parameters() if p.requires_grad)
    like = next(federation.model.parameters()).new_zeros(trained)
    for name, found in tensors.items():
        if name.startswith("model.") and name not in model:
            raise UserError(f"{path} has a tensor {name!r} that the model has not")
        if name.startswith("server."):
            _check_tensor(path, name, found, like)
    for name, expected in model.items():
        if name not in tensors:
            raise UserError(f"{path} lacks the tensor {name!r}")
        _check_tensor(path, name, tensors[name], expected)
    federation.load_state_dict(tensors, state)
    return facts


def _check_tensor(path: Path, name: str, found: Tensor, expected: Tensor) -> None:
    if found.shape != expected.shape or found.dtype != expected.dtype:
        raise UserError(
            f"{path}: {name!r} is {found.dtype} {list(found.shape)}, expected "
            f"{expected.dtype} {list(expected.shape)}"
        )
    # A buffer may hold infinities by design (an attention mask); then its fresh copy does too.
    if _finite(expected) and not _finite(found):
        raise UserError(f"{path}: {name!r} holds values that are not finite")


def _finite(tensor: Tensor) -> bool:
    return not tensor.is_floating_point() or bool(torch.isfinite(tensor).all())


def pack(arrays: Mapping[str, NDArray[Any]]) -> tuple[dict[str, Tensor], dict[str, list[Any]]]:
    """A decision maker's state as tensors (numbers) and JSON lists (text and other ids).

    >>> tensors, texts = pack({"scores": np.array([0.5]), "ids": np.array(["ann"])})
    >>> sorted(tensors), texts
    (['scores'], {'ids': ['ann']})
    >>> unpack(tensors, texts)["ids"]
    array(['ann'], dtype='<U3')
    """
    tensors: dict[str, Tensor] = {}
    texts: dict[str, list[Any]] = {}
    for name, array in arrays.items():
        array = np.asarray(array)
        if array.dtype.kind in "biuf":
            tensors[name] = torch.from_numpy(np.array(array, order="C", copy=True))
        elif array.dtype.kind == "U" or (
            array.dtype.kind == "O"
            and all(isinstance(each, (str, int)) for each in array.ravel().tolist())
        ):
            texts[name] = array.tolist()
        else:
            raise UserError(f"the decision state {name!r} holds {array.dtype}, which is not saved")
    return tensors, texts


def unpack(
    tensors: Mapping[str, Tensor], texts: Mapping[str, list[Any]]
) -> dict[str, NDArray[Any]]:
    """The state that `pack` took apart."""
    arrays: dict[str, NDArray[Any]] = {name: each.numpy() for name, each in tensors.items()}
    for name, values in texts.items():
        alike = all(isinstance(each, str) for each in values)
        arrays[name] = np.array(values, dtype=str if alike else object)
    return arrays
