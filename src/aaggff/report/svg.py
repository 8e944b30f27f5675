"""Figures as SVG text: scales, axes, lines, bands, bars and picture-like heat maps.

Drawn here and not in the reader's browser, so that a page needs no library, opens at once, prints
sharply and follows the reader's light or dark theme (every colour is a CSS variable).
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT = 480, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 18, 10, 44
MOST_POINTS = 240
"""A line is thinned to this many points: more than its pixels on a phone, fewer than 10 kB."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """One method's line: `key` picks its colour and dash, `low`/`high` shade a band around it."""

    key: str
    name: str
    x: Floats
    y: Floats
    low: Floats | None = None
    high: Floats | None = None
    dashed: bool = False


@dataclass
class Scale:
    """Maps data to points along one axis."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def step(self, about: int = 5) -> float:
        """A round distance between ticks, so that near `about` of them fit."""
        raw = (self.high - self.low) / about
        size = 10.0 ** math.floor(math.log10(raw))
        return next((size * m for m in (1, 2, 2.5, 5) if size * m >= raw), 10 * size)

    def ticks(self, about: int = 5) -> list[float]:
        """Round numbers inside the range, near `about` of them."""
        step = self.step(about)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [i * step for i in range(first, last + 1)]


def spread(
    *groups: Floats | None, floor: float | None = None, pad: float = 0.04
) -> tuple[float, float]:
    """Lowest and highest finite value over all groups, with a little air."""
    parts = [np.asarray(g, dtype=float).ravel() for g in groups if g is not None]
    values = np.concatenate(parts) if parts else np.empty(0)
    values = values[np.isfinite(values)]
    if values.size == 0:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    if high - low < 1e-12 * max(1.0, abs(high)):
        low, high = low - 0.5, high + 0.5
    air = (high - low) * pad
    return (low - air if floor is None else min(floor, low)), high + air


def label(value: float, step: float) -> str:
    """A number as an axis whose ticks are `step` apart prints it.

    >>> label(0.30000000000000004, 0.1), label(20_000.0, 5_000.0), label(2e-6, 1e-6)
    ('0.3', '20,000', '2.0e-06')
    """
    if abs(value) < step / 2:
        return "0"
    if step < 1e-4 or abs(value) >= 1e6:
        return f"{value:.{max(0, math.ceil(math.log10(abs(value) / step) - 1e-9))}e}"
    decimals = max(0, 1 - math.floor(math.log10(step)))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


@dataclass
class Figure:
    """One drawing under construction; `text()` closes it."""

    title: str
    x_name: str = ""
    y_name: str = ""
    x_range: tuple[float, float] = (0.0, 1.0)
    y_range: tuple[float, float] = (0.0, 1.0)
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    parts: list[str] = field(default_factory=list)
    series: list[Series] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.x = Scale(*self.x_range, self.left, self.width - RIGHT)
        self.y = Scale(*self.y_range, self.height - BOTTOM, TOP)

    def axes(self, *, y_ticks: bool = True) -> Figure:
        bottom, right = self.height - BOTTOM, self.width - RIGHT
        if y_ticks:
            ticks = self.y.ticks()
            labels = [label(tick, self.y.step()) for tick in ticks]
            # Long numbers push the plot to the right, so that they never meet the axis' name.
            self.left = max(self.left, math.ceil(30 + 8.5 * max(map(len, labels), default=0)))
            self.x = Scale(*self.x_range, self.left, right)
            for tick, text in zip(ticks, labels):
                y = self.y(tick)
                self.parts.append(f'<path class="grid" d="M{self.left} {y:.1f}H{right}"/>')
                self.text_at(self.left - 6, y + 4, text, anchor="end")
        for tick in self.x.ticks():
            x = self.x(tick)
            self.parts.append(f'<path class="grid" d="M{x:.1f} {TOP}V{bottom}"/>')
            self.text_at(x, bottom + 16, label(tick, self.x.step()), anchor="middle")
        self.parts.append(f'<path class="axis" d="M{self.left} {TOP}V{bottom}H{right}"/>')
        self.text_at((self.left + right) / 2, self.height - 8, self.x_name, anchor="middle")
        if self.y_name:
            middle = (TOP + bottom) / 2
            self.parts.append(
                f'<text transform="translate(15 {middle:.0f}) rotate(-90)" text-anchor="middle">'
                f"{escape(self.y_name)}</text>"
            )
        return self

    def upright(self, value: float) -> Figure:
        """A line from top to bottom: what is right of it is more than `value`."""
        x = self.x(value)
        self.parts.append(f'<path class="axis" d="M{x:.1f} {TOP}V{self.height - BOTTOM}"/>')
        return self

    def text_at(self, x: float, y: float, text: str, *, anchor: str = "start") -> None:
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def line(self, series: Series) -> Figure:
        series = thin(series)
        self.series.append(series)
        drawn = []
        if series.low is not None and series.high is not None:
            there = np.concatenate([series.x, series.x[::-1]])
            back = np.concatenate([series.high, series.low[::-1]])
            drawn.append(f'<path class="band" d="{self._path(there, back)}Z"/>')
        dashed = " dashed" if series.dashed else ""
        drawn.append(f'<path class="line{dashed}" d="{self._path(series.x, series.y)}"/>')
        self.parts.append(f'<g class="{series.key}">{"".join(drawn)}</g>')
        return self

    def _path(self, x: Floats, y: Floats) -> str:
        points, pen = [], "M"
        for a, b in zip(x, y):
            if not (np.isfinite(a) and np.isfinite(b)):
                pen = "M"
                continue
            points.append(f"{pen}{self.x(float(a)):.1f} {self.y(float(b)):.1f}")
            pen = "L"
        return "".join(points)

    def dots(
        self, key: str, x: Floats, y: Floats, titles: Sequence[str], radius: float = 4
    ) -> Figure:
        marks = [
            f'<circle cx="{self.x(float(a)):.1f}" cy="{self.y(float(b)):.1f}" r="{radius}">'
            f"<title>{escape(t)}</title></circle>"
            for a, b, t in zip(x, y, titles)
            if np.isfinite(a) and np.isfinite(b)
        ]
        self.parts.append(f'<g class="{key} dots">{"".join(marks)}</g>')
        return self

    def bar(self, css: str, value: float, y: float, thickness: float, title: str) -> Figure:
        """A horizontal bar from zero to `value`, centred on pixel row `y`."""
        if np.isfinite(value):
            zero, end = self.x(0.0), self.x(value)
            self.parts.append(
                f'<rect class="{css}" x="{min(zero, end):.1f}" y="{y - thickness / 2:.1f}" '
                f'width="{abs(end - zero):.1f}" height="{thickness:.1f}">'
                f"<title>{escape(title)}</title></rect>"
            )
        return self

    def picture(self, png: bytes) -> Figure:
        """A heat map's pixels, stretched over the plotting area."""
        data = base64.b64encode(png).decode()
        self.parts.append(
            f'<image class="pixels" x="{self.left}" y="{TOP}" '
            f'width="{self.width - RIGHT - self.left}" '
            f'height="{self.height - BOTTOM - TOP}" preserveAspectRatio="none" '
            f'href="data:image/png;base64,{data}"/>'
        )
        return self

    def text(self) -> str:
        focus = ' tabindex="0"' if self.series else ""
        return (
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="{escape(self.title, quote=True)}"{focus}>{"".join(self.parts)}</svg>'
        )

    def readout(self) -> dict[str, object]:
        """What the page's script needs to read values off this figure under a pointer or key."""
        return {
            "x": [self.x.low, self.x.high, self.x.start, self.x.end],
            "xName": self.x_name,
            "series": [
                {"key": s.key, "name": s.name, "x": compact(s.x), "y": compact(s.y)}
                for s in self.series
            ],
        }


def compact(values: Floats) -> list[float | None]:
    """Four digits are what a reader can use; nan becomes null."""
    return [float(f"{v:.4g}") if np.isfinite(v) else None for v in values.tolist()]


def thin(series: Series) -> Series:
    """The same line with at most MOST_POINTS points, ends kept."""
    count = len(series.x)
    if count <= MOST_POINTS:
        return series
    keep = np.unique(np.linspace(0, count - 1, MOST_POINTS).round().astype(int))
    return Series(
        series.key,
        series.name,
        series.x[keep],
        series.y[keep],
        None if series.low is None else series.low[keep],
        None if series.high is None else series.high[keep],
        series.dashed,
    )


def png(pixels: NDArray[np.uint8]) -> bytes:
    """A PNG file of rows x columns x RGBA bytes."""
    rows, columns, _ = pixels.shape

    def chunk(kind: bytes, body: bytes) -> bytes:
        crc = struct.pack(">I", zlib.crc32(kind + body))
        return struct.pack(">I", len(body)) + kind + body + crc

    header = struct.pack(">IIBBBBB", columns, rows, 8, 6, 0, 0, 0)
    lines = b"".join(b"\0" + pixels[row].tobytes() for row in range(rows))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(lines, 9))
        + chunk(b"IEND", b"")
    )


_BLUE, _GREY, _ORANGE = (
    np.array(c, float) for c in ((33, 102, 172), (236, 236, 236), (217, 95, 2))
)


def diverging(values: Floats) -> NDArray[np.uint8]:
    """Colours for -1 (blue) over 0 (grey) to +1 (orange); nan is see-through.

    Blue against orange is told apart with every common kind of colour blindness.
    """
    there = np.isfinite(values)
    v = np.clip(np.where(there, values, 0.0), -1, 1)[..., None]
    colour = np.where(v < 0, _GREY + (-v) * (_BLUE - _GREY), _GREY + v * (_ORANGE - _GREY))
    alpha = np.where(there, 255, 0)[..., None]
    return np.concatenate([colour, alpha], axis=-1).round().astype(np.uint8)
