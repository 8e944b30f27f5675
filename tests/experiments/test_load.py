"""Runs read back as tables: nothing lost, nothing invented, whatever state they are in."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import polars as pl
import pytest

import aaggff
from aaggff.errors import UserError
from aaggff.experiments.compare import compare
from tests.report.made_runs import write_comparison, write_run
from tests.shared import ROOT

METHODS = ["fedavg", "qfedavg:q=5"]


def test_a_comparison_comes_back_whole(tmp_path: Path) -> None:
    found = compare("heart", METHODS, [2, 4], settings={"rounds": 6}, out=tmp_path, workers=1)
    loaded = aaggff.load_runs(tmp_path)
    assert loaded.runs.select("label", "seed").rows() == [
        ("fedavg", 2),
        ("fedavg", 4),
        ("qfedavg:q=5", 2),
        ("qfedavg:q=5", 4),
    ]
    q = loaded.runs.filter(label="qfedavg:q=5", seed=4).row(0, named=True)
    assert (q["method"], q["method_options"], q["metric"]) == ("qfedavg", "q=5.0", "auroc")
    assert q["metric_avg"] == pytest.approx(found.outcomes["qfedavg:q=5"][1].metric["avg"])
    assert q["loss_worst_client"] == pytest.approx(
        found.outcomes["qfedavg:q=5"][1].loss["worst_client"]
    )
    assert loaded.rounds.height == 4 * 6
    objective = loaded.rounds.group_by("label", "seed").agg(pl.col("objective").sum())
    assert objective.filter(label="fedavg", seed=2)["objective"].item() == pytest.approx(
        found.outcomes["fedavg"][0].objective
    )
    last = loaded.clients.filter(label="fedavg", seed=2, round=6)
    assert last["client"].to_list() == [0, 1, 2, 3]
    weighted = (last["value"] * last["size"]).sum() / last["size"].sum()
    assert 100 * weighted == pytest.approx(found.outcomes["fedavg"][0].metric["avg"])
    sums = loaded.weights.group_by("label", "seed", "round").agg(pl.col("weight").sum())
    assert sums.height == 24
    assert sums["weight"].to_list() == pytest.approx([1.0] * 24)


def test_the_documented_format_in_all_its_oddities(tmp_path: Path) -> None:
    write_comparison(tmp_path, clients=30, per_round=5, missing=(3,))
    write_run(tmp_path / "alone", method="term", seed=9, finished=False, clients=4)
    loaded = aaggff.load_runs(tmp_path)
    assert loaded.runs.height == 10
    assert loaded.runs.filter(pl.col("finished").not_())["label"].to_list() == ["term"]
    part = loaded.clients.filter(label="fedavg", seed=2, round=20)
    assert part.height == 30
    assert part.filter(pl.col("value").is_null())["client"].to_list() == [3]
    assert loaded.weights.filter(label="fedavg", seed=2).height == 5 * 20
    assert loaded.rounds["regret"].null_count() == loaded.rounds.height - 10 * 4


def test_a_sample_of_clients_keeps_its_numbers(tmp_path: Path) -> None:
    settings = {"rounds": 4, "evaluate_clients": 5, "evaluate_every": 2}
    compare("synthetic", ["fedavg"], [2], settings=settings, out=tmp_path, workers=1)
    clients = aaggff.load_runs(tmp_path).clients
    assert clients.height == 10
    asked = json.loads((tmp_path / "fedavg/seed-2/clients.jsonl").open().readline())["clients"]
    assert clients.filter(round=2)["client"].to_list() == asked
    assert clients.filter(round=4)["client"].to_list() == asked


def test_a_half_line_is_left_out_and_a_broken_one_named(tmp_path: Path) -> None:
    place = write_run(tmp_path / "run", rounds=5, finished=False)
    whole = (place / "rounds.jsonl").read_text()
    (place / "rounds.jsonl").write_text(whole + '{"round": 6, "clie')
    assert aaggff.load_runs(tmp_path).rounds.height == 5
    (place / "rounds.jsonl").write_text("{nonsense\n" + whole)
    with pytest.raises(UserError, match="line 1 is not JSON"):
        aaggff.load_runs(tmp_path)


def test_a_run_that_has_barely_begun(tmp_path: Path) -> None:
    place = write_run(tmp_path / "run", rounds=5, finished=False)
    for name in ("rounds.jsonl", "clients.jsonl"):
        (place / name).write_text("")
    loaded = aaggff.load_runs(tmp_path)
    assert loaded.runs["rounds_done"].to_list() == [0]
    assert loaded.rounds.height == loaded.clients.height == loaded.weights.height == 0


def test_no_runs_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no run"):
        aaggff.load_runs(tmp_path)
    with pytest.raises(UserError, match="not a directory"):
        aaggff.load_runs(tmp_path / "nowhere")


def test_ids_that_are_names(tmp_path: Path) -> None:
    place = write_run(tmp_path / "run", rounds=5)
    lines = [json.loads(line) for line in (place / "rounds.jsonl").read_text().splitlines()]
    for line in lines:
        line["clients"] = [f"bank {client}" for client in line["clients"]]
    (place / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert aaggff.load_runs(tmp_path).weights["client"][0] == "bank 0"


def test_the_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["fedavg", "uniform", "aaggff-d"]
    compare("heart", names, [2, 4], settings={"rounds": 20}, out=tmp_path, workers=1)
    monkeypatch.setattr(sys, "argv", ["read_runs.py", str(tmp_path)])
    with pl.Config():
        runpy.run_path(str(ROOT / "examples" / "read_runs.py"))
    said = capsys.readouterr().out
    assert "Cleveland" in said
    assert "aaggff-d" in said
