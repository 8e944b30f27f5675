"""Waiting for what other processes do, without hoping that some seconds are enough."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(true: Callable[[], bool], seconds: float) -> None:
    """Look again and again; give up, and fail, only after far longer than it can take."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)
