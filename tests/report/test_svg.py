"""The drawing kit: scales, ticks, thinning and pictures."""

import io
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from aaggff.report.svg import (
    MOST_POINTS,
    Figure,
    Scale,
    Series,
    compact,
    diverging,
    label,
    png,
    spread,
    thin,
)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_are_round_numbers_inside_the_range(low, width):
    scale = Scale(low, low + width, 0, 100)
    ticks = scale.ticks()
    assert 2 <= len(ticks) <= 7
    assert all(low - 1e-6 * width <= tick <= low + width * (1 + 1e-6) for tick in ticks)
    mantissa = scale.step() / 10 ** math.floor(math.log10(scale.step()) + 1e-9)
    assert any(mantissa == pytest.approx(m) for m in (1, 2, 2.5, 5))


@given(st.floats(-1e4, 1e4), st.floats(1e-3, 1e4))
def test_neighbouring_ticks_have_different_labels(low, width):
    scale = Scale(low, low + width, 0, 100)
    labels = [label(tick, scale.step()) for tick in scale.ticks()]
    assert len(set(labels)) == len(labels)


def test_labels_read_as_a_person_would_write_them():
    assert [label(v, 0.25) for v in (0, 0.25, 0.5, 1.0)] == ["0", "0.25", "0.5", "1"]
    assert label(1.2038, 0.0002) == "1.2038"
    assert label(120000, 20000) == "120,000"


def test_spread_ignores_what_is_not_finite_and_never_is_empty():
    assert spread(np.array([np.nan, np.inf])) == (0.0, 1.0)
    low, high = spread(np.array([3.0, 3.0, np.nan]))
    assert low < 3.0 < high


def test_a_long_line_is_thinned_and_keeps_its_ends():
    x = np.arange(10_000.0)
    thinned = thin(Series("m0", "a", x, x**2, x - 1, x + 1))
    assert len(thinned.x) <= MOST_POINTS
    assert thinned.x[0] == 0.0
    assert thinned.x[-1] == x[-1]
    assert thinned.low is not None
    assert (thinned.low == thinned.x - 1).all()


def test_a_gap_in_a_line_is_a_gap_in_the_drawing():
    figure = Figure("t", x_range=(0, 3), y_range=(0, 1))
    figure.line(Series("m0", "a", np.arange(4.0), np.array([0.0, np.nan, 1.0, 1.0])))
    assert figure.text().count("M") == 2
    assert "nan" not in figure.text()


def test_names_cannot_break_out_of_the_drawing():
    figure = Figure('"><script>alert(1)</script>', x_name="</svg><script>").axes()
    figure.dots("m0", np.zeros(1), np.zeros(1), ["<img onerror=x>"])
    assert "<script" not in figure.text()
    assert "<img" not in figure.text()


def test_png_is_read_back_by_another_library():
    pixels = diverging(np.array([[-1.0, 0.0, 1.0], [np.nan, 0.5, -0.5]]))
    with Image.open(io.BytesIO(png(pixels))) as picture:
        assert picture.mode == "RGBA"
        assert (np.asarray(picture) == pixels).all()
    assert pixels[1, 0, 3] == 0


def test_numbers_for_the_reader_have_four_digits():
    assert compact(np.array([1.23456, np.nan])) == [1.235, None]
