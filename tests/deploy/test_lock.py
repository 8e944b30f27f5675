"""A run directory belongs to one server at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from aaggff.deploy.lock import alone
from aaggff.errors import UserError

HOLDER = """
import sys, time
from pathlib import Path
from aaggff.deploy.lock import alone
with alone(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_second_server_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    with alone(directory):
        said = f"another server is at work in {directory}"
        with pytest.raises(UserError, match=said), alone(directory, patience=0.3):
            pass
        with alone(tmp_path / "other", patience=0):
            pass
    with alone(directory, patience=0):
        pass
    with alone(None):
        pass


def test_a_killed_server_holds_nothing(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UserError), alone(tmp_path, patience=0):
            pass
    finally:
        holder.kill()
        holder.communicate()
    with alone(tmp_path, patience=5):
        pass
