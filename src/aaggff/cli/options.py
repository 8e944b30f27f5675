"""From what was typed to a checked `RunConfig`: flags beat --set, --set beats --config."""

from __future__ import annotations

import difflib
import sys
import tomllib
from collections.abc import Iterable, Mapping
from datetime import date, time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aaggff.errors import UserError, unknown

if TYPE_CHECKING:
    from aaggff.federation.config import RunConfig

PREFIXES = {
    "data": "data",
    "method": "method_options",
    "model": "model_options",
    "server": "server_options",
}


def value_of(text: str) -> Any:
    """A typed value: number, true/false, list as in TOML, none, or else the word itself.

    >>> [value_of(text) for text in ("5", "1e-3", "true", "[32, 16]", "none", "flamby")]
    [5, 0.001, True, [32, 16], None, 'flamby']
    """
    if text.lower() in ("none", "null"):
        return None
    if text in ("True", "False"):
        return text == "True"
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, KeyError):
        return text
    return text if isinstance(value, (date, time, dict)) else value


def number_or_rate(text: str) -> int | float | str:
    """`--per-round`: 5 is a number of clients, 0.1 or 1.0 a rate; words are checked later.

    >>> number_or_rate("5"), number_or_rate("0.1"), number_or_rate("everybody")
    (5, 0.1, 'everybody')
    """
    value = value_of(text)
    return value if isinstance(value, (int, float)) else text


def assignments(texts: Iterable[str]) -> dict[str, Any]:
    """`--set name=value`, as often as it was given; the last of a name counts.

    >>> assignments(["q=5", "data.variant=flamby"])
    {'q': 5, 'data.variant': 'flamby'}
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise UserError(f"--set {text}: expected NAME=VALUE, for example --set q=5")
        found[name.strip()] = value_of(value.strip())
    return found


def run_config(
    dataset: str | None = None,
    *,
    file: Path | None = None,
    sets: Iterable[str] = (),
    flags: Mapping[str, Any] | None = None,
) -> RunConfig:
    """The settings of a run from all their sources; flags that are None were not given.

    >>> config = run_config("heart", sets=["q=5", "lr=0.5"], flags={"method": "qfedavg"})
    >>> config.method_options, config.lr
    ({'q': 5.0}, 0.5)
    """
    from aaggff.federation.config import OPTIONS_OF, RunConfig, read_toml

    if "" not in sys.path:  # for --model package.module:factory in the working directory
        sys.path.insert(0, "")
    values = read_toml(file) if file is not None else {}
    typed = assignments(sets)
    upper = {name: typed.pop(name) for name in list(typed) if name in _plain_fields()}
    upper |= {name: value for name, value in (flags or {}).items() if value is not None}
    if dataset is not None:
        upper["dataset"] = dataset
    if "dataset" not in upper and "dataset" not in values:
        where = f" ({file} names none)" if file is not None else ""
        raise UserError(f"which data set? for example: aaggff run heart{where}")
    for choice, options in OPTIONS_OF.items():
        if choice in upper and upper[choice] != values.get(choice, upper[choice]):
            values.pop(options, None)
    values |= upper
    tables: dict[str, dict[str, Any]] = {}
    if typed:
        # The method may be a default, so what an option without a prefix means is known only now.
        method = RunConfig.for_dataset(**_without_options(values, typed)).method
        for name, value in typed.items():
            table, option = _place(name, method, values)
            tables.setdefault(table, {})[option] = value
    for table, given in tables.items():
        values[table] = {**(values.get(table) or {}), **given}
    return RunConfig.for_dataset(**values)


def _plain_fields() -> set[str]:
    from aaggff.federation.config import OPTIONS_OF, RunConfig

    return set(RunConfig.model_fields) - set(OPTIONS_OF.values())


def _without_options(values: Mapping[str, Any], typed: Mapping[str, Any]) -> dict[str, Any]:
    """Enough to know the method: its own options are judged with the rest, afterwards."""
    left = {name: value for name, value in values.items() if name != "method_options"}
    if "data.clients" in typed:
        left["data"] = {**(left.get("data") or {}), "clients": typed["data.clients"]}
    return left


def _place(name: str, method: str, values: Mapping[str, Any]) -> tuple[str, str]:
    """Which table an assignment belongs to: `data.`, `model.`, `server.`, else the method's."""
    from aaggff.decision.methods import METHODS

    prefix, dot, option = name.partition(".")
    if dot:
        if prefix not in PREFIXES:
            raise unknown("prefix of --set", prefix, PREFIXES)
        return PREFIXES[prefix], option
    if name in METHODS[method].options:
        return "method_options", name
    owners = [other for other, row in METHODS.items() if name in row.options]
    if owners:
        raise UserError(
            f"--set {name}: method {method!r} has no such option, it is one of "
            f"{', '.join(owners)} (--method {owners[0]})"
        )
    meant = _with_prefix(name, values)
    if meant:
        raise UserError(f"unknown setting {name!r}; did you mean --set {meant}=...?")
    raise unknown("setting", name, _plain_fields() | set(METHODS[method].options))


def _with_prefix(name: str, values: Mapping[str, Any]) -> str | None:
    """The option of the data, the model or the server optimiser that lacks only its prefix."""
    from aaggff.data import dataset_spec
    from aaggff.federation.server_optimizers import (
        ALIASES,
        SERVER_OPTIMIZERS,
        server_optimizer_options,
    )
    from aaggff.models import MODELS, model_options

    spec = dataset_spec(values["dataset"])
    model = values.get("model", spec.settings.model)
    server, known = values.get("server_optimizer", "sgd"), [*SERVER_OPTIMIZERS, *ALIASES]
    offered = {
        "data": list(spec.offered(bool(values.get("stand_in")))),
        "model": list(model_options(model)) if model in MODELS else [],
        "server": list(server_optimizer_options(server)) if server in known else [],
    }
    for prefix, options in offered.items():
        near = difflib.get_close_matches(name, options, n=1)
        if near:
            return f"{prefix}.{near[0]}"
    return None
