"""The Python in the documentation of experiments runs, and its figures are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aaggff.experiments.reproduce import blocks
from aaggff.experiments.statistics import pairs_needed, smallest_p
from tests.shared import ROOT

TEXT = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")


def test_its_python_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    parts = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    assert len(parts) == 2
    names: dict[str, object] = {}
    for part in parts:
        exec(compile(part, "experiments.md", "exec"), names)
    said = capsys.readouterr().out
    assert "Cleveland" in said
    assert said.splitlines()[-1].startswith("True 0.9")


def test_what_it_says_of_the_tests_is_so() -> None:
    pairs, measures = 8 + 7, 7  # nine methods against two references, tested once together
    assert f"are {pairs * measures} tests" in TEXT
    assert pairs_needed(pairs * measures) == 13
    assert "Thirteen seeds are the fewest" in TEXT
    assert smallest_p(3) == 0.25


def test_the_paper_s_numbers_in_it_are_the_paper_s() -> None:
    rows = blocks("plug-and-play", ["heart"])[0].rows
    names = {"SGD (FedAvg)": "fedavg", "SGD, clients with FedProx": "fedprox", "Adam": "fedadam",
             "Yogi": "fedyogi", "Adagrad": "fedadagrad"}  # fmt: skip
    for title, base in names.items():
        line = next(line for line in TEXT.splitlines() if line.startswith(f"| {title} |"))
        cells = [cell.strip() for cell in line.split("|")[2:-1]]
        assert cells[1] == f"{rows[base]['avg'][0]:.2f}"
        assert cells[3] == f"{rows[f'{base}+aaggff']['avg'][0]:.2f}"
