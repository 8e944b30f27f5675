"""`aaggff reproduce` as typed: what runs is printed beside the paper's, the rest is explained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.typed import refused, run


@pytest.mark.slow
def test_what_can_be_run_is_and_what_cannot_is_said(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    words = ["reproduce", "plug-and-play", "--seeds", "2", "--rounds", "2", "--workers", "1"]
    words += ["--data-dir", "data", "--out", "kept"]
    out, err = run(*words, "--json", "found.json", cwd=tmp_path)
    assert "heart (table 6, server optimisers with and without AAggFF)" in out
    assert "FedProx prints a deviation of 0.25" in out
    assert "tinyimagenet: not run. " in out
    assert "runs below kept" in err
    content = json.loads((tmp_path / "found.json").read_text())
    (block,), (missing,) = content["blocks"], content["not_run"]
    assert (block["dataset"], missing["dataset"]) == ("heart", "tinyimagenet")
    assert len(block["rows"]) == 10
    printed, err = run(*words, "--json", "-", cwd=tmp_path)
    assert json.loads(printed) == content
    assert "10 of 10 runs were there already" in err
    text, _ = run(*words, "--only", "heart", "--markdown", cwd=tmp_path)
    assert "|   paper | 84.42 (2.45) | 65.22 (9.78) |" in text


def test_where_nothing_can_be_run_the_code_is_1(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    out, _ = run("reproduce", "silo", "--workers", "1", "--data-dir", "data", cwd=tmp_path, code=1)
    said = [line for line in out.splitlines() if line]
    assert [line.partition(":")[0] for line in said] == ["berka", "mqp", "isic2019"]
    assert all(": not run. " in line for line in said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sillo"], "did you mean 'silo'"),
        (["silo", "--only", "heart"], "data set of table 'silo'"),
        (["silo", "--seeds", "two"], "expected numbers"),
        (["silo", "--latex", "--markdown"], "choose one of"),
        (["plug-and-play", "--only", "heart", "--seeds", "0", "--tune"], "tunes on"),
        ([], "TABLE"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(words, said, capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in refused(capsys, "reproduce", *words)
