"""One server at a time on a run directory: two would each count rounds the other does not know."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from aaggff.errors import UserError

try:
    import fcntl
except ImportError:  # Windows has none; nobody is kept out there
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"


@contextlib.contextmanager
def alone(directory: Path | None, patience: float = 60.0) -> Iterator[None]:
    """Hold the directory, or wait for `patience` seconds until whoever holds it has ended.

    The system lets go of it when the process ends, however it ends. A server whose SuperLink was
    killed may need some seconds to notice; after that, somebody has started the same run twice.
    """
    if directory is None or fcntl is None:
        yield
        return
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / LOCK).open("a") as file:
        end = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise UserError(
                        f"another server is at work in {directory}; stop it, or give another"
                        " directory"
                    ) from None
            time.sleep(0.2)
        yield
