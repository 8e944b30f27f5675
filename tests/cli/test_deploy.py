"""`aaggff deploy new`, as typed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from aaggff.cli.app import app


def typed(*words: object) -> int:
    with pytest.raises(SystemExit) as stop:
        app(["deploy", *map(str, words)])
    return int(stop.value.code or 0)


def test_new_says_what_comes_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("new", tmp_path / "a b" / "app") == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        f"wrote {tmp_path / 'a b' / 'app'}; next:",
        f"  cd '{tmp_path / 'a b' / 'app'}'",
        "  python make_keys.py",
        "  python federation.py rounds=5",
        "README.md there has the rest",
    ]
    assert err == ""
    # The first of these works as it is said.
    subprocess.run([sys.executable, "make_keys.py"], cwd=tmp_path / "a b" / "app", check=True)
    assert (tmp_path / "a b" / "app" / "keys" / "site-3.pub").exists()
    assert typed("new", tmp_path / "nv", "--framework", "nvflare") == 0
    assert "  python job.py --record record\n" in capsys.readouterr().out
    assert (tmp_path / "nv" / "job.py").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["new", "{}"], "{} exists and is not an empty directory; name a new one"),
        (["new", "{}/x", "--framework", "flowr"], "did you mean 'flower'?"),
        (["new"], "Missing argument 'DIR'"),
        (["news"], "No such command 'news'"),
    ],
)
def test_a_mistake_is_one_line(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").touch()
    assert typed(*(word.format(tmp_path) for word in words)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert said.format(tmp_path) in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine"]


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("new", "--help") == 0
    assert "Example: aaggff deploy new" in " ".join(capsys.readouterr().out.split())
