"""Whether a run's settings fit together: names exist, options are theirs, values are of a kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aaggff.data import dataset_spec
from aaggff.errors import UserError, unknown

if TYPE_CHECKING:
    from aaggff.federation.config import RunConfig


def check(config: RunConfig) -> None:
    """Raise the `UserError` for the first setting that cannot be; options get their own kind.

    An integer given for a real option becomes real, 3.0 for a count becomes 3, and an option
    set to none where none is its default is the same as not set: what is saved is canonical.
    """
    _check_data(config)
    _check_method(config)
    _check_model(config)
    _check_server_optimizer(config)
    config.local_training()  # refuses what local training cannot be
    _check_device(config.device)


def _check_data(config: RunConfig) -> None:
    spec = dataset_spec(config.dataset)
    for name, value in list(config.data.items()):
        option = spec.option(name, stand_in=config.stand_in)
        _settle(config.data, f"data.{name}", name, value, option.default, option.choices)
    if config.stand_in and spec.stand_in is None:
        raise UserError(f"stand_in: {config.dataset} needs none, its data is always at hand")
    if config.data_dir is not None and not Path(config.data_dir).expanduser().is_dir():
        raise UserError(f"data_dir: {config.data_dir} is not a directory")


def _check_method(config: RunConfig) -> None:
    from aaggff.decision.methods import METHODS, decision_maker

    if config.method not in METHODS:
        raise unknown("method", config.method, METHODS)
    method = METHODS[config.method]
    for name, value in list(config.method_options.items()):
        if name not in method.options:
            raise unknown(f"option of method {config.method!r}", name, method.options)
        read = method.options[name].read(name, value)
        if read is None:
            del config.method_options[name]
        else:
            config.method_options[name] = read
    everybody = config.per_round in (None, 1.0) and not isinstance(config.per_round, int)
    if method.everybody and not everybody:
        raise UserError(
            f"method {config.method!r} needs everybody every round, and per_round is "
            f"{config.per_round}: set it to 'everybody', or choose aaggff-d"
        )
    if method.everybody and (config.drop_out or config.slow):
        raise UserError(
            f"method {config.method!r} needs everybody every round: drop_out and slow must be 0"
        )
    # Values out of range are the rule's own to refuse; any federation will do to ask it.
    decision_maker(
        config.method, clients=10, rate=1.0 if everybody else 0.5, **config.method_options
    )


def _check_model(config: RunConfig) -> None:
    from aaggff.models import MODELS, model_factory, model_options

    model_factory(config.model)
    if config.model not in MODELS:
        return  # the user's own factory: its keywords are its own business
    known = model_options(config.model)
    for name, value in list(config.model_options.items()):
        if name not in known:
            raise unknown(f"option of model {config.model!r}", name, known)
        if not isinstance(value, (list, tuple)):
            _settle(config.model_options, f"model.{name}", name, value, known[name])


def _check_server_optimizer(config: RunConfig) -> None:
    from aaggff.federation.server_optimizers import server_optimizer

    for name, value in config.server_options.items():
        as_kind(f"server.{name}", value, 0.0)
    server_optimizer(config.server_optimizer, **config.server_options)


def _check_device(device: str) -> None:
    import torch

    try:
        kind = torch.device(device).type
    except RuntimeError:
        raise UserError(f"device: expected cpu, cuda, cuda:N or mps, got {device!r}") from None
    there: dict[str, Callable[[], bool]] = {
        "cpu": lambda: True,
        "cuda": torch.cuda.is_available,
        "mps": torch.backends.mps.is_available,
    }
    if kind not in there:
        raise UserError(f"device: expected cpu, cuda, cuda:N or mps, got {device!r}")
    if not there[kind]():
        raise UserError(f"device: this machine has no {kind} that torch can use")


def _settle(
    options: dict[str, Any],
    shown: str,
    name: str,
    value: Any,
    default: Any,
    choices: Collection[Any] | None = None,
) -> None:
    value = as_kind(shown, value, default)
    if value is None:
        del options[name]
        return
    if choices is not None and value not in choices:
        raise unknown(shown, str(value), map(str, choices))
    options[name] = value


def as_kind(shown: str, value: Any, default: Any) -> Any:
    """`value` as the kind of thing `default` is; a default of None takes anything.

    >>> as_kind("q", 5, 1.0), as_kind("data.clients", 20.0, 100)
    (5.0, 20)
    >>> as_kind("q", "five", 1.0)
    Traceback (most recent call last):
    ...
    aaggff.errors.UserError: q: expected a number, got 'five'
    """
    if default is None or isinstance(value, Mapping):
        return value
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise UserError(f"{shown}: expected true or false, got {value!r}")
        return value
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(default, int):
        if not number or not math.isfinite(value) or value != int(value):
            raise UserError(f"{shown}: expected a whole number, got {value!r}")
        return int(value)
    if isinstance(default, float):
        if not number:
            raise UserError(f"{shown}: expected a number, got {value!r}")
        return float(value)
    if isinstance(default, str) and not isinstance(value, str):
        raise UserError(f"{shown}: expected a word such as {default!r}, got {value!r}")
    return value
