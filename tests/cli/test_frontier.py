"""`aaggff frontier` as typed: tables, frontier.json, and the report that draws it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.typed import refused, run


@pytest.mark.slow
def test_a_frontier_is_printed_kept_and_drawn(tmp_path: Path) -> None:
    words = ["frontier", "heart", "--methods", "fedavg,aaggff-s", "--grid", "strength=0,1,10"]
    words += ["--seeds", "2,4", "--rounds", "3", "--workers", "1", "--out", "kept"]
    out, err = run(*words, cwd=tmp_path)
    assert "Who is best where, by AUROC" in out
    assert "Hypervolume: the area that a method's points dominate" in out
    assert err.splitlines() == ["fedavg: 2/2 runs", "aaggff-s: 6/6 runs"]
    kept = json.loads((tmp_path / "kept" / "frontier.json").read_text())
    assert [(point["method"], point["value"]) for point in kept["points"]] == [
        ("fedavg", None),
        ("aaggff-s", 0),
        ("aaggff-s", 1),
        ("aaggff-s", 10),
    ]
    printed, err = run(*words, "--json", "-", cwd=tmp_path)
    assert json.loads(printed) == kept
    assert "8 of 8 runs were there already" in err
    latex, _ = run(*words, "--latex", cwd=tmp_path)
    assert latex.count(r"\begin{tabular}") == 4
    run("report", "kept", "-o", "page.html", cwd=tmp_path)
    page = (tmp_path / "page.html").read_text()
    assert "The frontier by AUROC" in page
    assert "aaggff-s, strength = 10" in page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--grid", "strenght=1"], "did you mean 'strength'"),
        (["--methods", "qfedavg", "--grid", "q=1", "--grid", "step=plain"], "one dial"),
        (["--json", "-", "--latex"], "choose one of"),
        (["--seeds", ""], "expected numbers"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(words, said, capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in refused(capsys, "frontier", "heart", "--rounds", "1", "--workers", "1", *words)
