"""Images from files: any mode to RGB, one size, bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aaggff.data.samples import UnreadableError
from aaggff.errors import UserError


def read_image(path: Path, size: int) -> NDArray[np.uint8]:
    """An image as bytes of shape (3, size, size).

    Grey, CMYK and palette images become RGB; another size or aspect is resized (bilinear, with
    antialiasing) without keeping the aspect. What cannot be read is an `UnreadableError`.
    """
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise UserError("images need Pillow: pip install 'aaggff[vision]'") from None
    try:
        with Image.open(path) as image:
            # A large JPEG is decoded at half or a quarter where that still is twice the size.
            image.draft("RGB", (2 * size, 2 * size))
            colours = image.convert("RGB")
            if colours.size != (size, size):
                colours = colours.resize((size, size), Image.Resampling.BILINEAR)
            return np.ascontiguousarray(np.asarray(colours).transpose(2, 0, 1))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        # Pillow says "truncated", "broken data stream", "cannot identify image file '...'".
        why = "no image" if isinstance(error, UnidentifiedImageError) else str(error)
        raise UnreadableError(f"cannot be read as an image ({why})") from None
