"""The paper's tables again: which runs each needs, and what came out beside what was printed."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from aaggff.data import dataset_spec
from aaggff.decision.responses import CDFS
from aaggff.errors import UserError, unknown
from aaggff.experiments.compare import Heard, plan, run_all
from aaggff.experiments.grids import PAPER
from aaggff.experiments.jobs import Job, Outcome, shown
from aaggff.experiments.labels import Labelled, parse_method
from aaggff.experiments.limits import partial_copy
from aaggff.experiments.tune import tune
from aaggff.federation.config import RunConfig

Printed = tuple[float, float | None]
"""Mean and deviation; no deviation where the paper gives none."""

# Table -> the blocks of paper_numbers.toml it is made of, and the columns it prints.
TABLES = {
    "silo": (("silo",), ("avg", "worst", "best", "gini")),
    "device": (("device",), ("avg", "worst", "best", "gini")),
    "parity": (("silo", "device"), ("gap",)),
    "plug-and-play": (("plug-and-play",), ("avg", "worst")),
    "cdf-figure": (("cdf-figure",), ("avg", "worst")),
}
TITLES = {
    "silo": "table 2, cross-silo",
    "device": "table 3, cross-device",
    "parity": "tables 4 and 5, Delta AG",
    "plug-and-play": "table 6, server optimisers with and without AAggFF",
    "cdf-figure": "the figure on the choice of CDF",
}
# Row of table 6 -> what makes it so.
BASES: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "fedprox": {"prox": 1e-3},
    "fedadam": {"server_optimizer": "adam"},
    "fedyogi": {"server_optimizer": "yogi"},
    "fedadagrad": {"server_optimizer": "adagrad"},
}


TUNED_ON = 0
"""The seed for tuning."""


@dataclass(frozen=True)
class Block:
    """A table's part on one data set, as printed."""

    table: str
    dataset: str
    rows: Mapping[str, Mapping[str, Printed]]
    """By row and column."""
    limits: Sequence[str]
    smallest: str = ""
    """The CDF whose cumulative objective the paper found to be the smallest."""

    @property
    def columns(self) -> tuple[str, ...]:
        return TABLES[self.table][1]


@dataclass(frozen=True)
class Found:
    """What came out for a block."""

    block: Block
    metric: str
    rounds: int
    seeds: list[int]
    outcomes: Mapping[str, list[Outcome]]
    """By row, one per seed; there may be rows that the paper does not print."""
    notes: list[str]
    stand_in: bool

    def ours(self, row: str, column: str) -> list[float]:
        """One number per seed. Delta AG is best less worst tenth, as the paper has it."""
        summaries = [outcome.metric for outcome in self.outcomes[row]]
        if column == "gap":
            return [summary["best"] - summary["worst"] for summary in summaries]
        return [summary[column] for summary in summaries]

    def apart(self, row: str, column: str) -> float:
        """Ours less the paper's, in standard deviations: see `apart`; nan where there is none."""
        printed = self.block.rows.get(row, {}).get(column)
        return math.nan if printed is None else apart(self.ours(row, column), printed)

    def as_json(self) -> dict[str, Any]:
        """Every number, ours by seed."""
        rows: dict[str, Any] = {}
        for row in self.outcomes:
            rows[row] = {}
            for column in self.block.columns:
                printed = self.block.rows.get(row, {}).get(column)
                rows[row][column] = {
                    "ours": [_finite(value) for value in self.ours(row, column)],
                    "paper": None if printed is None else list(printed),
                    "deviations_apart": _finite(self.apart(row, column)),
                }
            rows[row]["objective"] = [_finite(each.objective) for each in self.outcomes[row]]
        return {
            "dataset": self.block.dataset,
            "metric": self.metric,
            "rounds": self.rounds,
            "seeds": self.seeds,
            "stand_in": self.stand_in,
            "rows": rows,
            "limits": [*self.block.limits, *self.notes],
        }


@dataclass(frozen=True)
class NotRun:
    """A block that could not be run, and why."""

    block: Block
    why: str


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def apart(ours: Sequence[float], printed: Printed) -> float:
    """The difference of the means over the root of the mean of the two variances.

    About 1 is what two halves of the same experiment may differ by, over 2 is another result. A
    deviation that is missing (one seed; none printed) is taken to be like the other one.

    >>> round(apart([79.0, 81.0], (81.0, math.sqrt(2))), 3)
    -0.707
    """
    there = np.array([value for value in ours if math.isfinite(value)])
    if not there.size:
        return math.nan
    mean, deviation = printed
    known = [deviation] if deviation is not None else []
    known += [float(there.std(ddof=1))] if there.size > 1 else []
    if not known:
        return math.nan
    scale = math.sqrt(sum(each**2 for each in known) / len(known))
    difference = float(there.mean()) - mean
    if scale == 0.0:
        return 0.0 if abs(difference) < 0.005 else math.nan
    return difference / scale


@cache
def _numbers() -> dict[str, Any]:
    text = files("aaggff.experiments").joinpath("paper_numbers.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def blocks(table: str, only: Sequence[str] = ()) -> list[Block]:
    """A table's parts, one per data set; `only` those data sets.

    >>> [block.dataset for block in blocks("silo")]
    ['berka', 'mqp', 'isic2019']
    >>> blocks("plug-and-play")[0].rows["fedadam+aaggff"]["avg"]
    (84.84, 2.85)
    """
    if table not in TABLES:
        raise unknown("table", table, TABLES)
    sources, columns = TABLES[table]
    found = []
    for source in sources:
        for dataset, content in _numbers()[source].items():
            rows = {
                row: {column: _printed(cells[column]) for column in columns if column in cells}
                for row, cells in _rows(content)
            }
            found.append(
                Block(table, dataset, rows, content["limits"], content.get("smallest", ""))
            )
    known = [block.dataset for block in found]
    for name in only:
        if name not in known:
            raise unknown(f"data set of table {table!r}", name, known)
    return [block for block in found if not only or block.dataset in only]


def _rows(content: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, row in content.items():
        if isinstance(row, Mapping) and "plain" in row:
            yield name, row["plain"]
            yield f"{name}+aaggff", row["aaggff"]
        elif isinstance(row, Mapping):
            yield name, row


def _printed(cell: Any) -> Printed:
    return (float(cell[0]), float(cell[1])) if isinstance(cell, list) else (float(cell), None)


def jobs_for(
    block: Block,
    seeds: Sequence[int],
    *,
    settings: Mapping[str, Any],
    tuned: Mapping[str, Mapping[str, Any]] | None = None,
    out: Path | None = None,
) -> list[Job]:
    """The runs of a block, labelled by row. Tables silo and parity are made of the same runs."""
    fair = RunConfig.for_dataset(block.dataset, **_without_options(settings)).method
    if block.table == "plug-and-play":
        planned = []
        for base, how in BASES.items():
            rows = [Labelled(base, "fedavg"), Labelled(f"{base}+aaggff", fair)]
            together = {**settings, **how}
            planned += plan(block.dataset, rows, seeds, settings=together, tuned=tuned, out=out)
        return planned
    if block.table == "cdf-figure":
        rows = [Labelled(cdf, fair, {"cdf": cdf}) for cdf in CDFS]
    else:
        rows = [parse_method(row) for row in block.rows]
    return plan(block.dataset, rows, seeds, settings=settings, tuned=tuned, out=out)


def _without_options(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name != "method_options"}


def obstacle(config: RunConfig) -> str:
    """Why a run could not even begin here: files, packages or weights that are missing."""
    import torch

    from aaggff.federation.run import load_data
    from aaggff.federation.setup import make_model

    try:
        data = load_data(config)
        make_model(config.model, data, config.seed, torch.device("cpu"), config.model_options)
    except UserError as error:
        return str(error)
    except ModuleNotFoundError as error:
        return f"it needs the package {error.name!r}"
    return ""


def here(block: Block, settings: Mapping[str, Any], *, stand_in: bool) -> dict[str, Any]:
    """A block's settings: a stand-in, if allowed, only where the data itself is not at hand."""
    spec = dataset_spec(block.dataset)
    root = settings.get("data_dir")
    likeness = stand_in and not spec.available(None if root is None else Path(root))
    return {**settings, "stand_in": True} if likeness else dict(settings)


def reproduce(
    block: Block,
    seeds: Sequence[int],
    *,
    settings: Mapping[str, Any] | None = None,
    tune_first: bool = False,
    out: Path | None = None,
    workers: int | None = None,
    heard: Heard | None = None,
) -> Found | NotRun:
    """Run a block, or say why not. With `out` runs are kept below `out`/DATASET.

    tune_first: choose every method's options over the paper's grid by the average on `TUNED_ON`.

    >>> heart = blocks("plug-and-play", ["heart"])[0]
    >>> found = reproduce(heart, [2], settings={"rounds": 2}, workers=1)
    >>> len(found.outcomes), found.seeds
    (10, [2])
    """
    settings = dict(settings or {})
    if tune_first and TUNED_ON in seeds:
        raise UserError(f"seeds: {TUNED_ON} is the one --tune tunes on, so it cannot be compared")
    config = jobs_for(block, seeds, settings=settings)[0].config
    why = obstacle(config)
    if why:
        return NotRun(block, why)
    place = out
    if out is not None:
        likeness = "-stand-in" if config.stand_in else ""
        place = out / f"{block.dataset}{likeness}{'-tuned' if tune_first else ''}"
    tuned = None
    if tune_first:
        tuned = _tuned(block, settings, place, workers, heard)
    planned = jobs_for(block, seeds, settings=settings, tuned=tuned, out=place)
    outcomes = run_all(planned, workers=workers, heard=heard)
    first = next(iter(outcomes.values()))
    return Found(
        block,
        first.metric_name,
        config.rounds,
        list(seeds),
        {
            label: [outcomes[label, seed] for seed in seeds]
            for label in dict.fromkeys(job.label for job in planned)
        },
        list(_own_limits(config, seeds, tuned)),
        first.stand_in,
    )


def _tuned(
    block: Block,
    settings: Mapping[str, Any],
    place: Path | None,
    workers: int | None,
    heard: Heard | None,
) -> dict[str, dict[str, Any]]:
    """Options by method, of those in the block for which the paper has a grid."""
    methods = {job.config.method for job in jobs_for(block, [TUNED_ON], settings=settings)}
    if block.table == "cdf-figure" or not methods & PAPER.keys():
        return {}
    tuning = tune(
        block.dataset,
        [name for name in PAPER if name in methods],
        seeds=[TUNED_ON],
        settings=settings,
        out=None if place is None else place / "tuning",
        workers=workers,
        heard=heard,
    )
    return {name: dict(trial.candidate.options) for name, trial in tuning.chosen().items()}


def _own_limits(
    config: RunConfig, seeds: Sequence[int], tuned: Mapping[str, Any] | None
) -> Iterator[str]:
    """What keeps ours from being the paper's experiment."""
    yield from partial_copy(config)
    published = dataset_spec(config.dataset).settings
    for name, said in (("rounds", published.rounds), ("model", published.model)):
        if getattr(config, name) != said:
            yield f"{name} is {getattr(config, name)} here and {said} in the paper."
    if tuned:
        chosen = (f"{name} {shown(options)}" for name, options in tuned.items())
        yield f"Tuned by average on seed {TUNED_ON}: {'; '.join(chosen)}."
    elif tuned is None:
        yield (
            "Ours has the methods' default options (`aaggff methods`) and the paper's CDF; the "
            "paper tuned every method: --tune does so too."
        )
    if len(seeds) == 1:
        yield "1 seed has no deviation: the paper's is taken for ours too."
    elif len(seeds) <= 3:
        yield (
            f"{len(seeds)} seeds: a deviation over so few is itself known to a factor of two or so."
        )
