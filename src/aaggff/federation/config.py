"""Everything that determines a run, checked as a whole before anything is trained."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from aaggff.data import dataset_spec
from aaggff.errors import UserError, unknown
from aaggff.version import __version__

if TYPE_CHECKING:
    from aaggff.federation.local import LocalTraining


# Which table of options belongs to which choice: another choice, other options.
OPTIONS_OF = {
    "dataset": "data",
    "method": "method_options",
    "model": "model_options",
    "server_optimizer": "server_options",
}


class RunConfig(BaseModel):
    """One federation's settings. The same settings give the same result, to the bit.

    Usually made by `RunConfig.for_dataset`, which starts from the settings the data set is
    published with. Whatever exists is valid: names and options are checked on construction, and
    a mistake is a `UserError` that names the field.

    >>> config = RunConfig.for_dataset("heart", method="qfedavg", method_options={"q": 5.0})
    >>> config.rounds, config.lr, config.method_options
    (200, 0.01, {'q': 5.0})
    >>> RunConfig.for_dataset("heart", rouns=3)
    Traceback (most recent call last):
    ...
    aaggff.errors.UserError: unknown setting 'rouns'; did you mean 'rounds'? (known: ...
    """

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    dataset: str
    method: str = "fedavg"
    rounds: int = Field(100, ge=1)
    per_round: int | float | None = None
    """Clients sampled a round: a number (int), a rate (float) or None, everybody."""
    seed: int = Field(0, ge=0, lt=2**63)

    model: str = "logistic"
    lr: float = Field(0.1, gt=0, allow_inf_nan=False)
    momentum: float = Field(0.0, ge=0, lt=1)
    weight_decay: float = Field(0.0, ge=0, allow_inf_nan=False)
    decay: float = Field(1.0, gt=0, allow_inf_nan=False)
    decay_every: int = Field(1, ge=1)
    batch_size: int = Field(20, ge=1)
    epochs: int = Field(1, ge=1)
    steps: int | None = Field(None, ge=1)
    """Local steps a round instead of epochs."""
    clip: float | None = Field(None, gt=0, allow_inf_nan=False)
    prox: float = Field(0.0, ge=0, allow_inf_nan=False)
    """FedProx's mu; its authors' usual value is 1e-3."""

    server_optimizer: str = "sgd"
    drop_out: float = Field(0.0, ge=0, lt=1)
    slow: float = Field(0.0, ge=0, lt=1)
    """Share of the clients asked that the server does not wait for."""

    evaluate_every: int | None = Field(None, ge=1)
    """None: about twenty times in a run. The last round is always evaluated."""
    evaluate_clients: int | None = Field(None, ge=1)
    """Clients evaluated, a fixed sample; None: everybody, up to `run.EVALUATED_AT_MOST`."""
    checkpoint_every: int | None = Field(None, ge=1)
    """None: about ten times in a run. The last round is always saved."""
    track_regret: bool = True

    executor: Literal["auto", "sequential", "batched", "processes"] = "auto"
    workers: int | None = Field(None, ge=1)
    device: str = "cpu"
    engine: Literal["local", "flower"] = "local"

    stand_in: bool = False
    data_dir: str | None = None
    data: dict[str, Any] = Field(default_factory=dict)
    method_options: dict[str, Any] = Field(default_factory=dict)
    model_options: dict[str, Any] = Field(default_factory=dict)
    server_options: dict[str, Any] = Field(default_factory=dict)

    def __init__(self, **values: Any) -> None:
        for name in values:
            if name not in type(self).model_fields:
                raise unknown("setting", name, type(self).model_fields)
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _one_line(error) from None

    @field_validator("per_round", mode="before")
    @classmethod
    def _everybody_by_name(cls, value: Any) -> Any:
        if value in ("everybody", "all"):
            return None
        expected = "expected a number of clients, a rate in (0, 1] or 'everybody'"
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if value is not None and not (
            number and (0 < value <= 1 if isinstance(value, float) else value >= 1)
        ):
            raise UserError(f"per_round: {expected}, got {value!r}")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        from aaggff.federation import checks

        checks.check(self)
        return self

    @classmethod
    def for_dataset(cls, dataset: str, **overrides: Any) -> Self:
        """The settings a data set is published with, except for those given.

        Without a method it is AAggFF's for the setting: aaggff-s where everybody takes part,
        aaggff-d where clients are sampled. Methods with a choice of cdf get the one the paper
        used for this data set.

        >>> config = RunConfig.for_dataset("heart")
        >>> config.method, config.method_options
        ('aaggff-s', {'cdf': 'frechet'})
        """
        for name in overrides:
            if name not in cls.model_fields:
                raise unknown("setting", name, cls.model_fields)
        if not isinstance(dataset, str):
            raise UserError(f"dataset: must be a word, not {dataset!r}")
        paper = dataset_spec(dataset).settings
        values: dict[str, Any] = {
            name: getattr(paper, name)
            for name in (
                *("rounds", "per_round", "model", "lr", "weight_decay"),
                *("decay", "decay_every", "batch_size", "epochs"),
            )
        }
        given = overrides.get("data")
        fewer = given.get("clients") if isinstance(given, Mapping) else None
        if isinstance(fewer, int) and isinstance(paper.per_round, int) and fewer < paper.per_round:
            values["per_round"] = None
        values |= overrides
        everybody = values["per_round"] in (None, "everybody", "all")
        values.setdefault("method", "aaggff-s" if everybody else "aaggff-d")
        options = values.get("method_options", {})
        if str(values["method"]).startswith("aaggff") and isinstance(options, Mapping):
            values["method_options"] = {"cdf": paper.cdf} | dict(options)
        return cls(dataset=dataset, **values)

    def but(self, **changes: Any) -> Self:
        """The same settings with some changed, checked again.

        Options belong to a choice: a change of method, model, data set or server optimiser
        drops the options of the old one. A change of method picks up the paper's cdf.

        >>> RunConfig.for_dataset("heart").but(method="term", seed=4).method_options
        {}
        """
        values = self.model_dump()
        for choice, options in OPTIONS_OF.items():
            if choice in changes and changes[choice] != values[choice]:
                del values[options]
        return self.for_dataset(**(values | changes))

    @classmethod
    def read(cls, path: Path) -> Self:
        """The settings in a TOML file, such as the config.toml of a run directory."""
        values = read_toml(path)
        if "dataset" not in values:
            raise UserError(f'{path} names no data set (dataset = "heart")')
        return cls.for_dataset(**values)

    def toml(self) -> str:
        """The settings as TOML; reading it gives the same settings.

        >>> config = RunConfig.for_dataset("heart", rounds=7)
        >>> RunConfig(**tomllib.loads(config.toml())) == config
        True
        """
        plain: dict[str, Any] = {}
        tables: dict[str, dict[str, Any]] = {}
        for name, value in self.model_dump().items():
            if isinstance(value, dict):
                tables[name] = value
            elif name == "per_round" and value is None:
                plain[name] = "everybody"
            else:
                plain[name] = value
        lines = [f"# aaggff {__version__}; run it again: aaggff run --config THIS_FILE"]
        lines += _assignments(plain)
        for name, table in tables.items():
            if table:
                lines += ["", f"[{name}]", *_assignments(table)]
        return "\n".join(lines) + "\n"

    def local_training(self) -> LocalTraining:
        """What a sampled client does."""
        from aaggff.federation.local import LocalTraining

        names = (
            *("lr", "decay", "decay_every", "batch_size", "epochs", "steps"),
            *("momentum", "weight_decay", "clip", "prox"),
        )
        return LocalTraining(**{name: getattr(self, name) for name in names})

    def due(self, round: int, every: int | None, times: int) -> bool:
        """Whether something that happens every so often happens after this round."""
        return round == self.rounds or round % (every or max(1, self.rounds // times)) == 0


def read_toml(path: Path) -> dict[str, Any]:
    """A configuration file as a mapping; what is wrong with it is one line."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not TOML: {error}") from error
    return values


def _assignments(values: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_toml(value)}" for key, value in values.items() if value is not None]


def _toml(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False)


_KINDS = {
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "string_type": "must be a word",
    "dict_type": "must be a table of options",
    "missing": "must be given",
}


def _one_line(error: ValidationError) -> UserError:
    found = []
    for each in error.errors():
        cause = each.get("ctx", {}).get("error")
        if isinstance(cause, UserError):
            found.append(str(cause))
            continue
        said = _KINDS.get(each["type"], each["msg"].replace("Input should be", "must be"))
        got = "" if each["type"] == "missing" else f", not {each['input']!r}"
        found.append(f"{each['loc'][0]}: {said}{got}")
    return UserError("; ".join(dict.fromkeys(found)))
