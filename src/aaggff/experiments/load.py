"""Run directories as tables: what a notebook begins with."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aaggff.errors import UserError

if TYPE_CHECKING:
    import polars as pl

# What is left out of the table of runs: it is in the others, or only says how a run was made.
PLAIN = ("round", "objective", "entropy", "effective_clients", "kl_from_size", "step", "lr")
MAYBE = ("seconds", "regret", "regret_bound")


@dataclass(frozen=True)
class Runs:
    """All runs below a directory, long and tidy: one fact per row, `label` and `seed` in each.

    runs: a row per run: its settings, whether it is finished, its last evaluation's figures.
    rounds: a row per round: objective, entropy of the weights, regret, `metric_...`, `loss_...`.
    clients: a row per evaluation and client: its metric (0 to 1, null: none) and its test loss.
    weights: a row per round and client heard of: reported loss, size, response, weight.
    """

    runs: pl.DataFrame
    rounds: pl.DataFrame
    clients: pl.DataFrame
    weights: pl.DataFrame


def load_runs(directory: str | Path) -> Runs:
    """Read every run at or below `directory`, be it of `aaggff run`, `compare` or `frontier`.

    Unfinished runs are read as far as they are. In a comparison `label` is what the method was
    called there (`qfedavg:q=5`), elsewhere it is the method.

    >>> import tempfile
    >>> from aaggff.federation.config import RunConfig
    >>> from aaggff.federation.run import train
    >>> with tempfile.TemporaryDirectory() as place:
    ...     result = train(RunConfig.for_dataset("heart", rounds=4), Path(place) / "mine")
    ...     loaded = load_runs(place)
    >>> loaded.runs.select("label", "seed", "rounds", "finished").row(0)
    ('aaggff-s', 0, 4, True)
    >>> loaded.rounds.height, loaded.clients.filter(round=4)["name"].to_list()
    (4, ['Cleveland', 'Hungary', 'Switzerland', 'Long Beach VA'])
    """
    import polars as pl

    root = Path(directory)
    if not root.is_dir():
        raise UserError(f"{root} is not a directory; give one that `aaggff run` or `compare` wrote")
    found = sorted(file.parent for file in root.rglob("rounds.jsonl"))
    if not found:
        raise UserError(f"{root} holds no run (no rounds.jsonl at or below it)")
    read = [_read(place, root) for place in found]

    def joined(part: int) -> pl.DataFrame:
        return pl.concat([each[part] for each in read], how="diagonal_relaxed")

    return Runs(joined(0), joined(1), joined(2), joined(3))


Four = tuple["pl.DataFrame", "pl.DataFrame", "pl.DataFrame", "pl.DataFrame"]


def _read(place: Path, root: Path) -> Four:
    import polars as pl

    config = _toml(place / "config.toml")
    done = _json(place / "done.json")
    label = str(config.get("method", place.name))
    if place.name.startswith("seed-"):
        label = place.parent.name
    which = {"label": label, "seed": int(config.get("seed", 0))}
    records = list(lines(place / "rounds.jsonl"))
    evaluated = list(lines(place / "clients.jsonl"))
    rounds = _table([_round(record) for record in records], which)
    who: dict[str, Any] = {
        name: line[name] for line in evaluated for name in ("clients", "names") if name in line
    }
    clients = pl.concat(
        [_clients(line, who, which) for line in evaluated] or [_empty(which)],
        how="diagonal_relaxed",
    )
    weights = pl.concat(
        [_weights(record, which) for record in records] or [_empty(which)], how="diagonal_relaxed"
    )
    last: dict[str, Any] = next((r for r in reversed(records) if r.get("metric") is not None), {})
    facts: dict[str, Any] = {name: _scalar(value) for name, value in config.items()}
    facts |= which
    facts |= {
        "directory": str(place.relative_to(root)),
        "finished": bool(done),
        "rounds_done": len(records),
        "metric": done.get("metric") or (metric_name(evaluated[0]) if evaluated else None),
        "stand_in": bool(done.get("stand_in") or config.get("stand_in")),
        "seconds": done.get("seconds"),
    }
    facts |= _summaries(last)
    return pl.DataFrame([facts], infer_schema_length=None), rounds, clients, weights


def _round(record: dict[str, Any]) -> dict[str, Any]:
    row = {name: record.get(name) for name in (*PLAIN, *MAYBE)}
    row["heard"] = len(record.get("clients") or ())
    row["set_aside"] = len(record.get("set_aside") or ())
    row["dropped"] = len(record.get("dropped") or ())
    return row | _summaries(record)


def _summaries(record: dict[str, Any]) -> dict[str, Any]:
    return {
        f"{kind}_{name}": None if value is None else float(value)
        for kind in ("metric", "loss")
        for name, value in (record.get(kind) or {}).items()
    }


def metric_name(evaluation: dict[str, Any]) -> str | None:
    """What a line of clients.jsonl calls the clients' metric."""
    other = ("round", "sizes", "loss", "names", "clients", "of")
    return next((name for name in evaluation if name not in other), None)


def _clients(line: dict[str, Any], who: dict[str, Any], which: dict[str, Any]) -> pl.DataFrame:
    """One evaluation. Who is who stands in the first one only, and where somebody joined."""
    import polars as pl

    count = len(line["sizes"])
    clients = (who.get("clients") or list(range(count)))[:count]
    names = who.get("names")
    metric = metric_name(line)
    columns: dict[str, Any] = {
        "client": pl.Series(clients, dtype=pl.Int64),
        "size": _whole(line["sizes"]),
        "value": pl.Series(line[metric] if metric else [None] * len(clients), dtype=pl.Float64),
        "loss": pl.Series(line["loss"], dtype=pl.Float64),
    }
    if names is not None and len(names) >= count:
        columns["name"] = pl.Series(names[:count], dtype=pl.String)
    return pl.DataFrame(columns).select(
        *_constant(which), pl.lit(line["round"], pl.Int64).alias("round"), pl.all()
    )


def _weights(record: dict[str, Any], which: dict[str, Any]) -> pl.DataFrame:
    import polars as pl

    count = len(record["clients"])
    nothing = [None] * count
    integers = all(isinstance(client, int) for client in record["clients"])
    columns = {
        "client": pl.Series(record["clients"], dtype=pl.Int64 if integers else pl.String),
        "loss": pl.Series(record.get("losses") or nothing, dtype=pl.Float64),
        "size": _whole(record.get("sizes") or nothing),
        "response": pl.Series(record.get("responses") or nothing, dtype=pl.Float64),
        "weight": pl.Series(record["weights"], dtype=pl.Float64),
    }
    return pl.DataFrame(columns).select(
        *_constant(which), pl.lit(record["round"], pl.Int64).alias("round"), pl.all()
    )


def _whole(sizes: Sequence[float | None]) -> pl.Series:
    """Sample counts, which a deployed federation reports as floats."""
    import polars as pl

    return pl.Series(sizes, dtype=pl.Float64).round().cast(pl.Int64)


def _table(rows: list[dict[str, Any]], which: dict[str, Any]) -> pl.DataFrame:
    import polars as pl

    if not rows:
        return _empty(which)
    return pl.DataFrame(rows, infer_schema_length=None).select(*_constant(which), pl.all())


def _empty(which: dict[str, Any]) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame(schema={"label": pl.String, "seed": pl.Int64, "round": pl.Int64})


def _constant(which: dict[str, Any]) -> list[pl.Expr]:
    import polars as pl

    return [pl.lit(which["label"]).alias("label"), pl.lit(which["seed"], pl.Int64).alias("seed")]


def _scalar(value: Any) -> Any:
    """A setting that is a table (a method's options) as text, so that it fits into a column."""
    if isinstance(value, dict):
        return ", ".join(f"{name}={each}" for name, each in value.items())
    return str(value) if isinstance(value, (list, str)) else value


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a .jsonl file; a last line cut short by a kill is left out."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield json.loads(line)
            except json.JSONDecodeError as error:
                if not line.endswith("\n"):
                    return
                raise UserError(f"{path}: line {number} is not JSON ({error.msg})") from error


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} is not TOML: {error}") from error


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except json.JSONDecodeError as error:
        raise UserError(f"{path} is not JSON: {error}") from error
    return dict(content)
