"""One thread at a time: sums that are split over threads differ in their last bits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch


@contextmanager
def one_thread(*, numpy: bool = False) -> Iterator[None]:
    """Let torch use one thread, and numpy's products too if asked.

    A result must not depend on how many cores a machine has.
    """
    before = torch.get_num_threads()
    libraries = _blas() if numpy else []
    theirs = [library.get_num_threads() for library in libraries]
    if before != 1:
        torch.set_num_threads(1)
    for library in libraries:
        library.set_num_threads(1)
    try:
        yield
    finally:
        if before != 1:
            torch.set_num_threads(before)
        for library, number in zip(libraries, theirs):
            library.set_num_threads(number)


@cache
def _blas() -> list[Any]:
    """What numpy computes its products with, found once: looking costs milliseconds."""
    from threadpoolctl import ThreadpoolController

    found: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return found
