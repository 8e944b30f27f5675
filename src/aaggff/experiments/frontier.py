"""Average against worst-off: what each method can trade one for the other for, along its dial."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaggff.errors import UserError
from aaggff.experiments.compare import Heard, choose, plan, try_all
from aaggff.experiments.grids import DIALS, Grid, candidates, check_grid, own
from aaggff.experiments.jobs import Outcome
from aaggff.experiments.labels import Labelled
from aaggff.experiments.limits import partial_copy
from aaggff.experiments.statistics import interval, resamples

Array = NDArray[np.float64]

AXES = {"metric": ("avg", "worst"), "loss": ("avg", "worst")}
"""Of each summary of a run, what is better on average and what for the worst tenth."""


@dataclass(frozen=True)
class Point:
    """One value of one method's dial: its outcomes, seed by seed."""

    method: str
    """The line it is on: a method, with what is fixed of its options."""
    option: str
    value: Any
    outcomes: list[Outcome]

    @property
    def label(self) -> str:
        return f"{self.method}:{self.option}={self.value}" if self.option else self.method

    def values(self, source: str, entry: str) -> list[float]:
        """One number per seed."""
        return [float(getattr(outcome, source)[entry]) for outcome in self.outcomes]


@dataclass(frozen=True)
class Volume:
    """The area a method's points dominate, its 95 % interval, how often it was the largest."""

    area: float
    low: float
    high: float
    largest: float


@dataclass(frozen=True)
class Frontier:
    """The points of several methods over the same seeds."""

    dataset: str
    metric: str
    rounds: int
    seeds: list[int]
    points: list[Point]
    notes: list[str] = field(default_factory=list)
    """Methods, and values of a dial, that there is no point of: a line each."""
    stand_in: bool = False

    def coordinates(self, source: str = "metric") -> Array:
        """(seeds, points, 2): average and worst tenth, turned so that larger is better."""
        sign = 1.0 if source == "metric" else -1.0
        columns = [[point.values(source, entry) for point in self.points] for entry in AXES[source]]
        return sign * np.array(columns).transpose(2, 1, 0)

    def best(self, source: str = "metric") -> list[tuple[int, float]]:
        """The points that none is better than on both, best average first.

        With each the share of resamples of the seeds in which it stays one: near 1 it is sure.
        """
        means = resampled(self.coordinates(source))
        kept = undominated(means)
        here = np.flatnonzero(undominated(self.coordinates(source).mean(axis=0)[None])[0])
        average = self.coordinates(source).mean(axis=0)[:, 0]
        order = sorted(here.tolist(), key=lambda index: -average[index])
        return [(index, float(kept[:, index].mean())) for index in order]

    def volumes(self, source: str = "metric") -> dict[str, Volume]:
        """Every method's hypervolume: the area its points dominate.

        Measured from the worst average and the worst tenth of all points. Seeds are resampled for
        all methods together, so what a hard split does to everybody cancels out.
        """
        coordinates = self.coordinates(source)
        members: dict[str, list[int]] = {}
        for index, point in enumerate(self.points):
            members.setdefault(point.method, []).append(index)
        here, drawn = coordinates.mean(axis=0)[None], resampled(coordinates)
        floor, floors = here.min(axis=1), drawn.min(axis=1)
        areas = {line: hypervolume(drawn[:, at], floors) for line, at in members.items()}
        top = np.max(list(areas.values()), axis=0)
        found = {}
        for line, at in members.items():
            low, high = interval(areas[line], len(self.seeds))
            area = float(hypervolume(here[:, at], floor)[0])
            found[line] = Volume(area, low, high, float((areas[line] >= top).mean()))
        return found

    def as_json(self) -> dict[str, Any]:
        """What the report draws."""
        several = len(self.seeds) > 1

        def areas(source: str) -> dict[str, list[float]]:
            volumes = self.volumes(source) if several else {}
            return {line: [v.area, v.low, v.high] for line, v in volumes.items()}

        return {
            "dataset": self.dataset,
            "metric": self.metric,
            "rounds": self.rounds,
            "seeds": self.seeds,
            "stand_in": self.stand_in,
            "points": [
                {
                    "method": point.method,
                    "option": point.option,
                    "value": point.value,
                    "avg": point.values("metric", "avg"),
                    "worst": point.values("metric", "worst"),
                    "loss_avg": point.values("loss", "avg"),
                    "loss_worst_tenth": point.values("loss", "worst"),
                }
                for point in self.points
            ],
            "hypervolume": areas("metric"),
            "hypervolume_loss": areas("loss"),
        }


def resampled(coordinates: Array) -> Array:
    """(draws, points, 2): the means over resampled seeds, every point under the same draw.

    >>> resampled(np.ones((3, 2, 2))).shape
    (10000, 2, 2)
    """
    seeds, points, axes = coordinates.shape
    # Less the mean first, so that the weights' rounding cannot tell equal points apart.
    centre = coordinates.mean(axis=0)
    moved = (coordinates - centre).reshape(seeds, -1)
    return np.asarray((resamples(seeds) @ moved).reshape(-1, points, axes) + centre)


def undominated(points: Array) -> NDArray[np.bool_]:
    """Of (..., points, 2), which no other is at least as good as on both and better on one.

    >>> undominated(np.array([[[1.0, 2.0], [2.0, 1.0], [1.0, 1.0], [1.0, 2.0]]])).tolist()
    [[True, True, False, True]]
    """
    kept = np.ones(points.shape[:-1], dtype=bool)
    for other in range(points.shape[-2]):
        gain = points[..., other, None, :] - points
        kept &= ~((gain >= 0).all(axis=-1) & (gain > 0).any(axis=-1))
    return kept


def hypervolume(points: Array, reference: Array) -> Array:
    """The area between the reference and the staircase over the points: (draws, points, 2).

    >>> points = np.array([[[3.0, 1.0], [2.0, 2.0], [1.0, 1.5]]])
    >>> hypervolume(points, np.zeros((1, 2)))
    array([5.])
    """
    order = np.argsort(-points[..., 0], axis=1, kind="stable")
    sorted_points = np.take_along_axis(points, order[..., None], axis=1)
    width = np.maximum(sorted_points[..., 0] - reference[:, None, 0], 0.0)
    height = np.maximum(sorted_points[..., 1] - reference[:, None, 1], 0.0)
    stairs = np.maximum.accumulate(height, axis=1)
    steps = width - np.concatenate([width[:, 1:], np.zeros_like(width[:, :1])], axis=1)
    return np.asarray((steps * stairs).sum(axis=1))


def frontier(
    dataset: str,
    methods: Sequence[str | Labelled] | None = None,
    seeds: Sequence[int] = (2, 4, 6),
    *,
    grid: Grid | None = None,
    settings: Mapping[str, Any] | None = None,
    out: Path | None = None,
    workers: int | None = None,
    heard: Heard | None = None,
) -> Frontier:
    """Run every method along its dial (`grids.DIALS`, or one's own `grid`) and gather the points.

    A method without a dial, such as FedAvg, is one point. A value that diverges under any seed
    has no point, and is named in `notes`.

    >>> found = frontier("heart", ["fedavg", "term"], [1, 2], grid={"lam": [1, 10]}, workers=1,
    ...                  settings={"rounds": 3})
    >>> [point.label for point in found.points]
    ['fedavg', 'term:lam=1', 'term:lam=10']
    >>> sorted(found.as_json()["hypervolume"])
    ['fedavg', 'term']
    """
    bases, left_out = choose(dataset, methods, settings or {})
    given = dict(grid or {})
    check_grid(given, bases)
    dials = {base.label: _dial(base, given) for base in bases}
    lines = {base.label: candidates(base, dials[base.label]) for base in bases}
    everyone = [each for line in lines.values() for each in line]
    planned = plan(dataset, everyone, seeds, settings=settings, out=out)
    outcomes = try_all(planned, workers=workers, heard=heard)
    points = []
    for base in bases:
        option = next(iter(dials[base.label]), "")
        for each in lines[base.label]:
            found = [outcomes[each.label, seed] for seed in seeds]
            done = [outcome for outcome in found if isinstance(outcome, Outcome)]
            reason = _hole(each, found, seeds)
            if reason:
                left_out.append(reason)
            else:
                points.append(Point(base.label, option, each.options.get(option), done))
    if not points:
        raise UserError(f"there is no point to show: {left_out[-1]}")
    first = points[0].outcomes[0]
    return Frontier(
        dataset,
        first.metric_name,
        planned[0].config.rounds,
        list(seeds),
        points,
        [*partial_copy(planned[0].config), *left_out],
        first.stand_in,
    )


def _dial(base: Labelled, given: Grid) -> Grid:
    grid = own(base.method, given)
    if len(grid) > 1:
        raise UserError(
            f"grid: {' and '.join(grid)} are both options of {base.method}, and a line has one "
            f"dial; fix one of them in the method's name, as {base.method}:OPTION=VALUE"
        )
    if grid:
        return grid
    usual = DIALS.get(base.method, {})
    return {name: values for name, values in usual.items() if name not in base.options}


def _hole(each: Labelled, found: Sequence[object], seeds: Sequence[int]) -> str:
    """Why a value has no point, if so."""
    for seed, outcome in zip(seeds, found, strict=True):
        if not isinstance(outcome, Outcome):
            return f"{each.label} has no point: {getattr(outcome, 'reason', 'it failed')}"
        numbers = [getattr(outcome, source)[name] for source, axes in AXES.items() for name in axes]
        if not all(map(math.isfinite, numbers)):
            return f"{each.label} has no point: under seed {seed} a figure is missing"
    return ""
