"""Every example runs as it is, in a process of its own, and shows what the README claims."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from aaggff.experiments.compare import compare
from tests.shared import ROOT

EXAMPLES = ROOT / "examples"
# Example -> what must stand in what it prints.
SHOWN = {
    "in_your_server.py": r"aaggff-s +worst client's loss",
    "hostile_reports.py": r"aaggff-d +set aside \{'Bergen': 'loss is nan'",
    "billions_of_clients.py": r"furthest from the printed formula in 200 rounds: \de-1\d",
    "stop_and_go_on.py": r"equal to 40 rounds in every bit",
    "within_the_bound.py": r"round 300: regret",
    "your_own_data.py": r"aaggff-s +test loss",
}
SLOW = {
    "is_it_a_difference.py": r"(?s)AUROC.*no evidence.*worst hospital's loss.*: differs",
    "read_runs.py": r"Cleveland",
}


def run(name: str, *words: object, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *map(str, words)],
        cwd=cwd,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "name", [*SHOWN, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
def test_an_example_runs_and_shows_its_claim(name: str, tmp_path: Path) -> None:
    assert re.search({**SHOWN, **SLOW}[name], run(name, cwd=tmp_path))


def test_the_worst_client_gains_where_the_examples_say_so(tmp_path: Path) -> None:
    for name in ("in_your_server.py", "your_own_data.py"):
        printed = run(name, cwd=tmp_path)
        worst = {
            line.split()[0]: float(re.search(r"worst client(?:'s loss)? ([\d.]+)", line)[1])  # type: ignore[index]
            for line in printed.splitlines()
        }
        assert worst["aaggff-s"] < worst["fedavg"], printed


def test_the_short_table_reads_a_comparison_and_runs_nothing(tmp_path: Path) -> None:
    methods = ["fedavg", "uniform", "aaggff-s"]
    found = compare(
        "heart", methods, [1, 2], settings={"rounds": 200, "evaluate_every": 200},
        out=tmp_path / "kept", workers=1,
    )  # fmt: skip
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")}
    printed = run("short_table.py", "heart", tmp_path / "kept", cwd=tmp_path)
    assert before == {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")}
    lines = printed.splitlines()
    assert [line.split()[1] for line in lines[2:5]] == methods
    mean = sum(each.loss["worst_client"] for each in found.outcomes["uniform"]) / 2
    assert f"| {mean:.3f} |" in lines[3]
    assert "2 seeds, 200 rounds" in lines[-1]


def test_every_example_is_run_here() -> None:
    files = {file.name for file in EXAMPLES.glob("*.py")}
    assert files == {*SHOWN, *SLOW, "short_table.py"}
