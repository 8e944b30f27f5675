"""What the pool's tests let it run; worker processes find these by name."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from aaggff.errors import UserError


def square(job: tuple[str, int], tell: Any) -> tuple[int, int]:
    tell(f"on {job[1]}")
    return job[1] ** 2, os.getpid()


def threads(job: int, tell: Any) -> int:
    import torch

    return torch.get_num_threads()


def fail(job: str, tell: Any) -> None:
    if job == "mistake":
        raise UserError("q must not be negative")
    if job == "crash":
        raise ZeroDivisionError("by hand")
    if job == "die":
        os._exit(9)
    time.sleep(60)


def touch_then_wait(job: str, tell: Any) -> None:
    Path(job).write_text(str(os.getpid()))
    time.sleep(60)
