"""`aaggff methods` as typed, in a pipe and on terminals of several widths."""

from __future__ import annotations

import json
import re

import pytest

from aaggff.cli import methods as command
from aaggff.cli.app import app
from aaggff.decision.methods import METHODS


@pytest.fixture
def run(capsys):
    def call(*args):
        with pytest.raises(SystemExit) as ended:
            app(["methods", *args])
        return ended.value.code or 0, *capsys.readouterr()

    return call


def test_in_a_pipe_it_is_plain_text_one_fact_a_line(run):
    code, out, err = run()
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    lines = out.splitlines()
    for name, row in METHODS.items():
        at = lines.index(f"{name}: {row.title} ({row.reference})")
        assert lines[at + 1] == f"  {row.formula}"
    assert "  --set q=1  how much fairness; 0 is none" in lines
    assert "  --set correction=false  make the increment exactly unbiased in small samples" in lines
    assert "  --set high=none  C2, greatest response; none: the paper's" in lines


@pytest.mark.parametrize("width", [60, 80, 120])
def test_on_a_terminal_nothing_is_cut_and_nothing_runs_over(run, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(command.sys.stdout, "isatty", lambda: True, raising=False)
    code, out, _ = run()
    assert code == 0
    assert "\x1b[" in out  # in colours
    out = re.sub(r"\x1b\[[0-9;]*m", "", out)
    assert max(map(len, out.splitlines())) <= width
    words = " ".join(out.split())
    for row in METHODS.values():
        assert " ".join(row.formula.split()) in words
        for option in row.options:
            assert f"--set {option}=" in words
    assert "…" not in out


def test_only_the_methods_that_are_named(run):
    code, out, _ = run("term", "afl")
    assert code == 0
    heads = [line.split(":")[0] for line in out.splitlines() if line.endswith(")")]
    assert [name for name in heads if name in METHODS] == ["term", "afl"]


def test_as_json_for_programs(run):
    code, out, _ = run("--json")
    assert code == 0
    found = json.loads(out)
    assert list(found) == list(METHODS)
    assert found["term"]["options"]["lam"] == {
        "default": 1.0,
        "expected": "a number >= 0",
        "help": "tilt; 0 is FedAvg",
    }
    assert found["afl"]["everybody"] is True


def test_an_unknown_name_is_one_line_and_code_2(run):
    code, out, err = run("aagff-d")
    assert (code, out) == (2, "")
    assert err.startswith("aaggff: unknown method 'aagff-d'; did you mean 'aaggff-d'?")
    assert err.count("\n") == 1
