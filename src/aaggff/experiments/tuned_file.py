"""What `aaggff tune` chose, as a TOML file that `aaggff compare --tuned` reads."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aaggff.decision.methods import METHODS
from aaggff.errors import UserError, unknown
from aaggff.federation.record import write_atomically
from aaggff.version import __version__

if TYPE_CHECKING:
    from aaggff.experiments.tune import Tuning

Options = dict[str, dict[str, Any]]
"""Options by method."""


def read(path: Path, dataset: str, seeds: Sequence[int]) -> Options:
    """The options chosen; a file tuned on a seed that is compared is refused."""
    content = _content(path)
    if content["dataset"] != dataset:
        raise UserError(f"tuned: {path} was tuned on {content['dataset']}, not on {dataset}")
    both = [seed for seed in content["seeds"] if seed in seeds]
    if both:
        raise UserError(
            f"tuned: {path} was tuned on seed {both[0]}, which is among the seeds compared: its "
            "numbers would flatter. Leave it out, or tune on another --seed"
        )
    methods: Options = content["methods"]
    for name in methods:
        if name not in METHODS:
            raise unknown(f"method in {path}:", name, METHODS)
    return methods


def before(path: Path, way: Mapping[str, Any], *, replaceable: bool) -> Options:
    """What was chosen before in the same way, and stays; another way is refused or replaced."""
    if not path.exists():
        return {}
    content = _content(path)
    for name, asked in _plain(way).items():
        if content.get(name) != asked:
            if replaceable:
                return {}
            raise UserError(
                f"out: {path} holds what was tuned with {name} = {content.get(name)}, and this "
                f"is with {asked}; choose another --out, or remove that file"
            )
    methods: Options = content["methods"]
    return methods


def write(path: Path, tuning: Tuning, kept: Options, settings: Mapping[str, Any]) -> None:
    """Atomically, with the methods kept from before."""
    chosen = {name: dict(trial.candidate.options) for name, trial in tuning.chosen().items()}
    way = {
        "dataset": tuning.dataset,
        "seeds": tuning.seeds,
        "metric": tuning.objective.text,
        "settings": settings,
    }
    lines = [
        f"# aaggff {__version__}; chosen by `aaggff tune`",
        f"# use: aaggff compare {tuning.dataset} --tuned THIS_FILE",
        *(f"{name} = {json.dumps(value)}" for name, value in _plain(way).items()),
    ]
    for method, options in {**kept, **chosen}.items():
        lines += ["", f"[methods.{method}]"]
        given = {name: value for name, value in options.items() if value is not None}
        lines += [f"{name} = {json.dumps(value)}" for name, value in given.items()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, ("\n".join(lines) + "\n").encode())
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error


def _plain(way: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as one line of text, in whatever order they were given."""
    settings = json.dumps(way["settings"], sort_keys=True, default=str)
    return {**way, "seeds": list(way["seeds"]), "settings": settings}


def _content(path: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        return {
            **content,
            "dataset": str(content["dataset"]),
            "seeds": [int(seed) for seed in content["seeds"]],
            "methods": {str(name): dict(each) for name, each in content.get("methods", {}).items()},
        }
    except OSError as error:
        raise UserError(f"tuned: cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"tuned: {path} is not a file written by `aaggff tune`") from error
