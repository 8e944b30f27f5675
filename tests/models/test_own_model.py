"""`--model package.module:factory`, as typed, from the working directory."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from aaggff.cli.app import app

MODULE = """
from torch import nn

def net(sample_shape, task, *, width=4):
    assert task.kind == "binary"
    first = nn.Linear(sample_shape[0], width)
    return nn.Sequential(first, nn.Tanh(), nn.Linear(width, task.outputs))

def narrow(sample_shape, task):
    return nn.Linear(3, 1)

def wide(sample_shape, task):
    return nn.Linear(sample_shape[0], 7)

def number(sample_shape, task):
    return 5

def untrainable(sample_shape, task):
    return nn.Flatten()
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a package of one's own in it."""
    (tmp_path / "ownpackage").mkdir()
    (tmp_path / "ownpackage" / "__init__.py").write_text("")
    (tmp_path / "ownpackage" / "networks.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    for name in [name for name in sys.modules if name.startswith("ownpackage")]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


def typed(*words: str) -> int:
    with pytest.raises(SystemExit) as stop:
        app(["run", "heart", "--rounds", "2", "--out", "out", *words])
    return int(stop.value.code or 0)


def test_a_model_of_ones_own_is_trained_with_its_options(here: Path) -> None:
    assert typed("--model", "ownpackage.networks:net", "--set", "model.width=6") == 0
    config = tomllib.loads((here / "out" / "config.toml").read_text())
    assert config["model"] == "ownpackage.networks:net"
    assert config["model_options"] == {"width": 6}
    with pytest.raises(SystemExit) as stop:
        app(["run", "--resume", "out", "--rounds", "3"])
    assert not stop.value.code


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("net", "cannot be imported"),
        ("narrow", "cannot take samples of shape (15,)"),
        ("wide", "7"),
        ("number", "int"),
        ("untrainable", "untrainable"),
    ],
)
def test_one_that_does_not_fit_is_refused_in_one_line(
    here: Path, capsys: pytest.CaptureFixture[str], model: str, says: str
) -> None:
    module = "ownpackage.networks" if model != "net" else "ownpackage.nowhere"
    assert typed("--model", f"{module}:{model}") == 2
    error = capsys.readouterr().err
    assert f"{module}:{model}" in error
    assert says in error
    assert error.count("\n") == 1
