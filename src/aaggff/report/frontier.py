"""Average against worst-off over each method's dial, drawn from what `aaggff frontier` wrote."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aaggff.errors import UserError
from aaggff.report.figures import Drawing
from aaggff.report.groups import Group
from aaggff.report.svg import Figure, Series, spread

FILE = "frontier.json"


def read_frontiers(directories: Sequence[Path]) -> list[dict[str, Any]]:
    """Every frontier.json at or below the given directories."""
    found = []
    for directory in directories:
        for file in sorted(directory.rglob(FILE)):
            try:
                content = json.loads(file.read_text(encoding="utf-8"))
                content["points"]
            except (ValueError, KeyError, TypeError) as error:
                raise UserError(f"{file} is not a frontier written by `aaggff frontier`") from error
            found.append(content)
    return found


def frontier(content: dict[str, Any], groups: Sequence[Group]) -> Drawing:
    """One line per method: each point is a value of its option, up and right is better."""
    keys = {group.label: group.key for group in groups}
    by_method: dict[str, list[tuple[float, float, str]]] = {}
    for point in content["points"]:
        average, worst = _mean(point["avg"]), _mean(point["worst"])
        if np.isfinite([average, worst]).all():
            dial = f", {point['option']} = {point['value']}" if point["option"] else ""
            name = f"{point['method']}{dial}"
            by_method.setdefault(point["method"], []).append((average, worst, name))
    every = np.array([(a, w) for points in by_method.values() for a, w, _ in points]).reshape(-1, 2)
    figure = Figure(
        "Average against worst 10 %",
        x_name=f"average {content['metric']}, per cent",
        y_name="worst 10 % of clients",
        x_range=spread(every[:, 0]),
        y_range=spread(every[:, 1]),
    ).axes()
    for method, points in by_method.items():
        x, y = np.array([p[0] for p in points]), np.array([p[1] for p in points])
        key = keys.get(method, "even")
        if len(points) > 1:
            figure.line(Series(key, method, x, y))
        figure.dots(key, x, y, [name for _, _, name in points])
    figure.series.clear()  # a line through a dial's values has no single height at one average
    return Drawing(figure, "The frontier", _caption(content))


def _mean(values: Sequence[float | None]) -> float:
    there = [v for v in values if v is not None]
    return float(np.mean(there)) if there else float("nan")


def _caption(content: dict[str, Any]) -> str:
    text = (
        "One point is one value of a method's option, averaged over seeds; up and to the right is "
        "better. Point at one to read it."
    )
    volumes = content.get("hypervolume") or {}
    told = [f"{m} {v[0]:.3g} ({v[1]:.3g} to {v[2]:.3g})" for m, v in volumes.items()]
    return f"{text} Hypervolume with 95 % interval: {', '.join(told)}." if told else text
