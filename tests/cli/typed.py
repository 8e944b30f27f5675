"""Commands as they are typed: in a process of their own, or in this one where that is enough."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aaggff.cli.app import app


def run(*words: object, cwd: Path, code: int = 0) -> tuple[str, str]:
    """`aaggff WORDS` in a process of its own: what it printed and what it said beside."""
    done = subprocess.run(
        [sys.executable, "-m", "aaggff", *map(str, words)],
        cwd=cwd,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The one line with which a mistake is answered, with exit code 2 and nothing on stdout."""
    with pytest.raises(SystemExit) as stop:
        app([*map(str, words)])
    out, err = capsys.readouterr()
    assert stop.value.code == 2
    assert out == ""
    assert err.startswith("aaggff")
    assert err.count("\n") == 1
    return err
