from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from aaggff.data.samples import UnreadableError
from aaggff.data.wav import read_wav
from tests.data.official import wav


def test_sound_comes_back_padded_with_silence(tmp_path: Path) -> None:
    sound = np.array([0, 1, -1, 32_767, -32_768])
    read = read_wav(wav(tmp_path / "a.wav", sound), rate=16_000, longest=8)
    assert read.dtype == np.int16
    assert read.tolist() == [[0, 1, -1, 32_767, -32_768, 0, 0, 0]]


def test_other_chunks_are_passed_over(tmp_path: Path) -> None:
    path = wav(tmp_path / "a.wav", np.array([5, 6]))
    content = path.read_bytes()
    # A chunk of odd length is followed by a byte of padding.
    extra = b"LIST" + struct.pack("<I", 3) + b"abc\0"
    path.write_bytes(content[:12] + extra + content[12:])
    assert read_wav(path, rate=16_000, longest=2).tolist() == [[5, 6]]


def test_the_extensible_header_is_understood(tmp_path: Path) -> None:
    form = struct.pack("<HHIIHHHHIH14s", 0xFFFE, 1, 16_000, 32_000, 2, 16, 22, 16, 0, 1, b"")
    body = b"WAVEfmt " + struct.pack("<I", 40) + form + b"data" + struct.pack("<Ih", 2, 7)
    path = tmp_path / "a.wav"
    path.write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)
    assert read_wav(path, rate=16_000, longest=1).tolist() == [[7]]


@pytest.mark.parametrize("kept", [0, 3, 11, 20, 36, 43, 44, 100])
def test_a_file_cut_anywhere_is_unreadable(tmp_path: Path, kept: int) -> None:
    path = wav(tmp_path / "a.wav")
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(UnreadableError, match=r"is no WAV file|is cut short"):
        read_wav(path, rate=16_000, longest=16_000)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"rate": 8_000}, "8,000 Hz, expected 1 channel of 16-bit PCM at 16,000 Hz"),
        ({"channels": 2}, "holds 2 channels"),
        ({"width": 4}, "32-bit PCM"),
    ],
)
def test_another_kind_of_sound_says_what_was_expected(
    tmp_path: Path, options: dict[str, int], expected: str
) -> None:
    with pytest.raises(UnreadableError, match=expected):
        read_wav(wav(tmp_path / "a.wav", **options), rate=16_000, longest=16_000)


def test_a_coding_that_is_not_pcm_is_named(tmp_path: Path) -> None:
    path = wav(tmp_path / "a.wav")
    content = bytearray(path.read_bytes())
    content[20:22] = struct.pack("<H", 7)  # mu-law
    path.write_bytes(bytes(content))
    with pytest.raises(UnreadableError, match="16-bit coding 7"):
        read_wav(path, rate=16_000, longest=16_000)


def test_a_clip_that_is_too_long_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=r"16,000 samples, expected at most 15,999"):
        read_wav(wav(tmp_path / "a.wav"), rate=16_000, longest=15_999)
