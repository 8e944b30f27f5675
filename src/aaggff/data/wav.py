"""Sound from a WAV file, without a sound library."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aaggff.data.samples import UnreadableError

PCM, EXTENSIBLE = 1, 0xFFFE


def read_wav(path: Path, *, rate: int, longest: int) -> NDArray[np.int16]:
    """The samples of a 16-bit mono PCM file, padded with silence to `longest`, shaped (1, longest).

    Anything else (stereo, another rate, another coding, a file cut short) is an
    `UnreadableError` that says what it is and what was expected.
    """
    content = path.read_bytes()
    if content[:4] != b"RIFF" or content[8:12] != b"WAVE":
        raise UnreadableError("is no WAV file")
    form, sound = b"", None
    position = 12
    while position + 8 <= len(content) and sound is None:
        name, size = struct.unpack_from("<4sI", content, position)
        body = content[position + 8 : position + 8 + size]
        if len(body) < size:
            raise UnreadableError(
                f"is cut short: {len(body):,} of {size:,} bytes of its {name.decode('latin-1')!r}"
            )
        if name == b"fmt ":
            form = body
        elif name == b"data":
            sound = body
        position += 8 + size + size % 2  # chunks begin at even places
    if sound is None or len(form) < 16:
        raise UnreadableError("is cut short: it ends before its sound")
    coding, channels, its_rate, _, _, bits = struct.unpack_from("<HHIIHH", form)
    if coding == EXTENSIBLE and len(form) >= 26:
        (coding,) = struct.unpack_from("<H", form, 24)
    if (coding, channels, its_rate, bits) != (PCM, 1, rate, 16):
        kind = "PCM" if coding == PCM else f"coding {coding}"
        raise UnreadableError(
            f"holds {channels} channel{'s' * (channels != 1)} of {bits}-bit {kind} at {its_rate:,} "
            f"Hz, expected 1 channel of 16-bit PCM at {rate:,} Hz (convert it)"
        )
    samples = np.frombuffer(sound[: len(sound) // 2 * 2], dtype="<i2")
    if samples.size > longest:
        raise UnreadableError(
            f"has {samples.size:,} samples, expected at most {longest:,} (cut it)"
        )
    padded = np.zeros((1, longest), dtype=np.int16)
    padded[0, : samples.size] = samples
    return padded
