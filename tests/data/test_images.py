"""Images of any kind become three channels of bytes in one size; what is no image says why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from aaggff.data.images import read_image
from aaggff.data.samples import UnreadableError
from tests.data import official


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_any_mode_becomes_rgb(tmp_path: Path, mode: str) -> None:
    path = official.image(tmp_path / "a.jpg", 3, (20, 20), mode, quality=100)
    found = read_image(path, 20)
    assert (found.shape, found.dtype) == ((3, 20, 20), np.uint8)
    with Image.open(path) as image:
        np.testing.assert_array_equal(found, np.asarray(image.convert("RGB")).transpose(2, 0, 1))
    if mode == "L":
        assert (found[0] == found[1]).all()
        assert (found[1] == found[2]).all()


def test_palettes_and_transparency_too(tmp_path: Path) -> None:
    picture = Image.new("RGBA", (8, 8), (200, 30, 40, 128))
    picture.save(tmp_path / "a.png")
    picture.convert("RGB").convert("P").save(tmp_path / "b.png")
    for name in ("a.png", "b.png"):
        assert (read_image(tmp_path / name, 8).shape) == (3, 8, 8)
    assert read_image(tmp_path / "a.png", 8)[:, 0, 0].tolist() == [200, 30, 40]


@pytest.mark.parametrize("size", [(178, 218), (16, 400), (640, 480)])
def test_any_size_becomes_the_one_asked_for(tmp_path: Path, size: tuple[int, int]) -> None:
    # Left half dark, right half light: so it stays, whatever the aspect.
    picture = np.zeros((size[1], size[0], 3), dtype=np.uint8)
    picture[:, size[0] // 2 :] = 200
    Image.fromarray(picture).save(tmp_path / "a.jpg", quality=95)
    found = read_image(tmp_path / "a.jpg", 32)
    assert found.shape == (3, 32, 32)
    assert found[:, :, :12].max() < 20
    assert np.abs(found[:, :, 20:].astype(int) - 200).max() < 20


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no image"),
        (b"<html>not found</html>", "no image"),
        (b"cut", "cannot be read as an image"),
    ],
)
def test_what_is_no_image_says_why(tmp_path: Path, content: bytes, says: str) -> None:
    path = official.image(tmp_path / "a.jpg", size=(200, 200))
    path.write_bytes(path.read_bytes()[:2_000] if content == b"cut" else content)
    with pytest.raises(UnreadableError, match=says):
        read_image(path, 32)


def test_a_missing_file_is_another_matter(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_image(tmp_path / "a.jpg", 32)
