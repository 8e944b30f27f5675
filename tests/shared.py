"""Where the real data lies, for the tests that read it; they are skipped where it is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def shared(*parts: str) -> Path:
    """A path under the folder of real data (AAGGFF_SHARED, or `../shared`)."""
    folder = Path(os.environ.get("AAGGFF_SHARED", str(ROOT.parent / "shared")))
    path = folder.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"no real data: {path} is not here (AAGGFF_SHARED says where to look)")
    return path
