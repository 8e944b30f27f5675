"""Average against worst-off over each method's dial, drawn from what `aaggff frontier` wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aaggff.errors import UserError
from aaggff.experiments.frontier import undominated
from aaggff.report.figures import Drawing, measured
from aaggff.report.svg import Figure, Series, spread
from aaggff.report.table import Cell, Column, Row, Table

FILE = "frontier.json"


@dataclass(frozen=True)
class Axes:
    """One of the two ways to look at it: by the metric, or by the loss."""

    measure: str
    average: str
    worst: str
    volumes: str
    sign: float
    """1 where larger is better."""
    digits: int


AXES = (
    Axes("metric", "avg", "worst", "hypervolume", 1.0, 2),
    Axes("loss", "loss_avg", "loss_worst_tenth", "hypervolume_loss", -1.0, 3),
)


def read_frontiers(directories: Sequence[Path]) -> list[dict[str, Any]]:
    """Every frontier.json at or below the given directories."""
    found = []
    for directory in directories:
        for file in sorted(directory.rglob(FILE)):
            try:
                content = json.loads(file.read_text(encoding="utf-8"))
                for point in content["points"]:
                    for name in ("method", "option", "value"):
                        point[name]
                    for axes in AXES:
                        _mean(point[axes.average]), _mean(point[axes.worst])
            except (ValueError, KeyError, TypeError) as error:
                raise UserError(f"{file} is not a frontier written by `aaggff frontier`") from error
            found.append(content)
    return found


def frontiers(content: Mapping[str, Any], title: str) -> list[Drawing]:
    """By the metric and by the loss: one line per method, one point per value of its option."""
    return [_frontier(content, axes, title) for axes in AXES]


def _frontier(content: Mapping[str, Any], axes: Axes, title: str) -> Drawing:
    points = [p for p in content["points"] if np.isfinite(_place(p, axes)).all()]
    places = np.array([_place(point, axes) for point in points]).reshape(-1, 2)
    best = undominated(axes.sign * places[None])[0]
    name = "test loss" if axes.measure == "loss" else title
    figure = Figure(
        f"Average {name} against that of the worst 10 %",
        x_name=f"average {measured(axes.measure, name)}",
        y_name="worst 10 % of clients",
        x_range=spread(places[:, 0]),
        y_range=spread(places[:, 1]),
    ).axes()
    keys = {method: f"f{i}" for i, method in enumerate(methods(content))}
    for method, key in keys.items():
        mine = np.array([point["method"] == method for point in points], dtype=bool)
        if not mine.any():
            continue
        x, y = places[mine].T
        if len(x) > 1:
            figure.line(Series(key, method, x, y))
        for there, radius in ((best[mine], 6.0), (~best[mine], 3.5)):
            told = [label(p) for p, m in zip(points, mine, strict=True) if m]
            chosen = [text for text, kept in zip(told, there, strict=True) if kept]
            figure.dots(key, x[there], y[there], chosen, radius)
    figure.series.clear()  # a line through a dial's values has no single height at one average
    better = "up and to the right" if axes.sign > 0 else "down and to the left"
    caption = (
        f"A point is one value of a method's option, averaged over seeds; {better} is better. "
        "Large points: no other is as good on both and better on one."
    )
    return Drawing(
        figure,
        f"The frontier by {name}",
        caption + _volumes(content, axes),
        keys=[(key, method) for method, key in keys.items()],
    )


def methods(content: Mapping[str, Any]) -> list[str]:
    """The lines of a frontier."""
    return list(dict.fromkeys(str(point["method"]) for point in content["points"]))


def label(point: Mapping[str, Any]) -> str:
    """A point's method and what its dial stands at."""
    dial = f", {point['option']} = {point['value']}" if point["option"] else ""
    return f"{point['method']}{dial}"


def numbers(content: Mapping[str, Any]) -> Table:
    """Every point to be read."""
    rows = []
    for point in content["points"]:
        cells = [
            Cell(f"{value:.{axes.digits}f}", value=f"{value:.6g}")
            for axes in AXES
            for value in _place(point, axes)
        ]
        rows.append(Row("", label(point), cells))
    heads = ("average", "worst 10 %", "average loss", "loss of the worst 10 %")
    columns = [Column(head) for head in heads]
    return Table(columns, rows, "Means over seeds.", "The frontier's points", "point")


def _place(point: Mapping[str, Any], axes: Axes) -> tuple[float, float]:
    return _mean(point[axes.average]), _mean(point[axes.worst])


def _mean(values: Sequence[float | None]) -> float:
    there = [float(v) for v in values if v is not None]
    return float(np.mean(there)) if there else float("nan")


def _volumes(content: Mapping[str, Any], axes: Axes) -> str:
    volumes = content.get(axes.volumes) or {}
    told = [f"{m} {v[0]:.3g} ({v[1]:.3g} to {v[2]:.3g})" for m, v in volumes.items()]
    return f" Hypervolume with 95 % interval: {', '.join(told)}." if told else ""
