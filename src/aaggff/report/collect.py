"""What a page shows, gathered from run directories: nothing is computed twice, nothing trusted."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaggff.errors import UserError
from aaggff.experiments.load import lines, metric_name

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RunRecord:
    """One run directory as it was written: see docs/running.md for the format."""

    directory: Path
    label: str
    seed: int
    config: dict[str, Any]
    rounds: list[dict[str, Any]]
    evaluations: list[dict[str, Any]]
    done: dict[str, Any]

    @property
    def stand_in(self) -> bool:
        return bool(self.done.get("stand_in") or self.config.get("stand_in"))

    def last(self, measure: str) -> Floats | None:
        """Every client's value of `measure` at the latest evaluation that has it."""
        for evaluation in reversed(self.evaluations):
            if evaluation.get(measure) is not None:
                return floats(evaluation[measure])
        return None

    @property
    def metric(self) -> str:
        """What the clients' metric is called: the paper's three, or an app's own."""
        return next(filter(None, map(metric_name, self.evaluations)), "")

    def names(self) -> list[str]:
        """The latest list: in a deployed federation clients join, each after those before it."""
        for evaluation in reversed(self.evaluations):
            if evaluation.get("names"):
                return [str(name) for name in evaluation["names"]]
        return []


def floats(values: Iterable[Any]) -> Floats:
    """Numbers of a JSON list, null as nan."""
    return np.array([np.nan if v is None else v for v in values], dtype=np.float64)


def read_run(directory: Path) -> RunRecord:
    """One run directory; it may be unfinished."""
    config_file = directory / "config.toml"
    try:
        config = (
            tomllib.loads(config_file.read_text(encoding="utf-8")) if config_file.exists() else {}
        )
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{config_file} is not TOML: {error}") from error
    done_file = directory / "done.json"
    done = json.loads(done_file.read_text(encoding="utf-8")) if done_file.exists() else {}
    in_comparison = directory.name.startswith("seed-")
    return RunRecord(
        directory=directory,
        label=directory.parent.name if in_comparison else str(config.get("method", directory.name)),
        seed=int(config.get("seed", 0)),
        config=config,
        rounds=list(lines(directory / "rounds.jsonl")),
        evaluations=list(lines(directory / "clients.jsonl")),
        done=done,
    )


def collect(directories: Iterable[Path]) -> list[RunRecord]:
    """All runs at or below the given directories, the order of the directories kept."""
    runs = []
    for directory in directories:
        if not directory.is_dir():
            raise UserError(
                f"{directory} is not a directory; give run directories of `aaggff run` or `compare`"
            )
        found = sorted(file.parent for file in directory.rglob("rounds.jsonl"))
        if not found:
            raise UserError(f"{directory} holds no run (no rounds.jsonl at or below it)")
        runs += [read_run(path) for path in found]
    data_sets = {str(run.config.get("dataset", "?")) for run in runs}
    if len(data_sets) > 1:
        raise UserError(
            f"one report shows one data set, these are of {', '.join(sorted(data_sets))}"
        )
    return told_apart([run for run in runs if run.rounds])


def told_apart(runs: list[RunRecord]) -> list[RunRecord]:
    """Labels under which no seed stands twice: else a directory's name is put before them."""
    often = Counter((run.label, run.seed) for run in runs)
    twice = {label for (label, _), times in often.items() if times > 1}
    return [
        replace(run, label=f"{_place(run.directory).name}/{run.label}")
        if run.label in twice
        else run
        for run in runs
    ]


def _place(directory: Path) -> Path:
    """What a run lies in: its comparison, or itself."""
    directory = directory.resolve()
    return directory.parents[1] if directory.name.startswith("seed-") else directory
