"""A runnable app from a template: `aaggff deploy new`."""

from __future__ import annotations

import shutil
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from aaggff.errors import UserError, unknown

FRAMEWORKS = ("flower", "nvflare")


def new_app(directory: Path, framework: str) -> Path:
    """Copy a framework's template to a directory that does not exist yet, or is empty."""
    if framework not in FRAMEWORKS:
        raise unknown("framework", framework, FRAMEWORKS)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UserError(f"{directory} exists and is not an empty directory; name a new one")
    source = files(f"aaggff.deploy.{framework}").joinpath("template")
    try:
        with as_file(source) as template:
            shutil.copytree(
                template,
                directory,
                dirs_exist_ok=True,
                ignore=shutil.ignore_patterns("__pycache__", "*.pyc"),
            )
    except OSError as error:
        raise UserError(f"cannot write to {directory}: {error.strerror}") from error
    return directory


def options(text: str) -> dict[str, Any]:
    """Options in one line of a flat configuration: NAME=VALUE, separated by commas.

    >>> options("cdf=frechet, strength=2, correction=true")
    {'cdf': 'frechet', 'strength': 2.0, 'correction': True}
    """
    found: dict[str, Any] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = pair.partition("=")
        if not equals:
            raise UserError(f"options: {pair!r} is not NAME=VALUE")
        found[name.strip()] = _value(value.strip())
    return found


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return float(text)
    except ValueError:
        return text
