"""Two methods drawn with the same dash have colours that every eye tells apart."""

import re
from importlib.resources import files

import numpy as np
import pytest

from aaggff.report.page import COLOURS

CSS = files("aaggff.report").joinpath("page.css").read_text(encoding="utf-8")
# How a colour looks to three kinds of eyes (Machado, Oliveira and Fernandes 2009, severity 1).
EYES = {
    "all cones": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
APART = 12.0
"""In CIELAB, where about 2.3 is the least that can be seen."""


def linear(colour):
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def luminance(colour):
    return float(TO_XYZ[1] @ linear(colour))


def lab(light):
    x = TO_XYZ @ np.clip(light, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def palettes():
    """Light, dark (twice: by the button and by the system) and print."""
    return [
        [found[1] for found in re.finditer(r"--c\d: (#[0-9a-f]{6})", block)]
        for block in re.findall(r"--c0:.*", CSS)
    ]


@pytest.mark.parametrize("eye", EYES)
def test_colours_of_the_same_dash_are_told_apart(eye):
    assert len(palettes()) == 4
    for palette in palettes():
        assert len(palette) == COLOURS
        seen = [lab(EYES[eye] @ linear(colour)) for colour in palette]
        for i in range(COLOURS):
            for j in range(i):
                if i // 3 == j // 3:  # the dash changes with every third method
                    assert np.linalg.norm(seen[i] - seen[j]) > APART, (palette[i], palette[j])


def test_every_line_stands_out_from_its_paper():
    papers = re.findall(r"--panel: (#[0-9a-f]{6})", CSS)
    assert len(papers) == 3
    for palette, paper in zip(palettes(), papers):
        for colour in palette:
            light, dark = sorted((luminance(colour), luminance(paper)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) > 3.0, (colour, paper)  # WCAG, for graphics
