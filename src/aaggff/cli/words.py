"""What is written on a command line, understood: methods with options, seeds, grids."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aaggff.cli.options import PREFIXES, value_of
from aaggff.errors import UserError, unknown
from aaggff.experiments.labels import Labelled, parse_method


def only_one(**ways: bool) -> None:
    """At most one way of printing."""
    if sum(ways.values()) > 1:
        names = [f"--{name}" + (" -" if name == "json" else "") for name in ways]
        raise UserError(f"choose one of {', '.join(names[:-1])} and {names[-1]}")


def parse_names(text: str) -> list[str]:
    """Names separated by commas.

    >>> parse_names("berka, mqp")
    ['berka', 'mqp']
    """
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_methods(text: str) -> list[Labelled]:
    """Methods separated by commas, none twice."""
    found = [parse_method(part) for part in text.split(",") if part.strip()]
    if not found:
        raise UserError("methods: name at least one, such as fedavg,aaggff-s")
    labels = [each.label for each in found]
    for label in labels:
        if labels.count(label) > 1:
            raise UserError(f"methods: {label!r} is named twice")
    return found


def parse_seeds(text: str) -> list[int]:
    """Seeds and ranges of seeds, separated by commas.

    >>> parse_seeds("2,4,6"), parse_seeds("1-3, 10")
    ([2, 4, 6], [1, 2, 3, 10])
    """
    seeds: list[int] = []
    for part in text.split(","):
        matched = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if matched is None:
            raise UserError(
                f"seeds: expected numbers like 2,4,6 or a range like 1-30, got {text!r}"
            )
        first = int(matched[1])
        last = int(matched[2]) if matched[2] else first
        if last < first:
            raise UserError(f"seeds: {part.strip()} counts down")
        seeds += range(first, last + 1)
    for seed in seeds:
        if seeds.count(seed) > 1:
            raise UserError(f"seeds: {seed} is named twice, and would count double")
    return seeds


def parse_grid(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Values to try, by option.

    >>> parse_grid(["q=0.1,1,5", "step=plain"])
    {'q': [0.1, 1, 5], 'step': ['plain']}
    """
    grid: dict[str, list[Any]] = {}
    for text in texts:
        option, equals, values = text.partition("=")
        tried = [value_of(value) for value in values.split(",") if value.strip()]
        if not equals or not option.strip() or not tried:
            raise UserError(f"grid: expected OPTION=VALUE,VALUE,..., got {text!r}")
        if len({repr(value) for value in tried}) < len(tried):
            raise UserError(f"grid: {text!r} names a value twice")
        grid[option.strip()] = tried
    return grid


def parse_settings(texts: Sequence[str]) -> dict[str, Any]:
    """`--set` for many runs at once, as settings of `RunConfig`.

    A name with a dot is an option of the data set, the model or the server optimiser, a plain
    name is a setting where there is one of that name, and else an option of whichever methods
    have it.

    >>> parse_settings(["data.variant=flamby", "lr=0.1", "q=5"])
    {'data': {'variant': 'flamby'}, 'lr': 0.1, 'method_options': {'q': 5}}
    """
    from aaggff.federation.config import RunConfig

    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name or not value:
            raise UserError(f"set: expected NAME=VALUE, got {text!r}")
        table, dot, option = name.partition(".")
        if dot and table not in PREFIXES:
            raise unknown("prefix of --set", table, PREFIXES)
        if not dot and name not in RunConfig.model_fields:
            table, dot, option = "method", ".", name
        if name in ("dataset", "method", "seed"):
            raise UserError(f"set: {name} is not set here, but chosen by the command's own options")
        if dot:
            found.setdefault(PREFIXES[table], {})[option] = value_of(value)
        else:
            found[name] = value_of(value)
    return found


def gather_settings(
    sets: Sequence[str] | None,
    *,
    rounds: int | None = None,
    data_dir: Path | None = None,
    stand_in: bool = False,
) -> dict[str, Any]:
    """`--set` and the flags that all experiments share; what was not given is left to the data."""
    settings = parse_settings(sets or [])
    if rounds is not None:
        settings["rounds"] = rounds
    if data_dir is not None:
        settings["data_dir"] = str(data_dir)
    if stand_in:
        settings["stand_in"] = True
    return settings
