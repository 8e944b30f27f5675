"""The paper's tables here: what runs, what stands beside it, what is said of the rest."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aaggff.decision.responses import CDFS
from aaggff.errors import UserError
from aaggff.experiments.jobs import Outcome
from aaggff.experiments.reproduce import (
    BASES,
    TABLES,
    TUNED_ON,
    Found,
    NotRun,
    apart,
    blocks,
    here,
    jobs_for,
    reproduce,
)
from aaggff.experiments.reproduce_table import not_run, sheets
from aaggff.experiments.tables import markdown
from tests.shared import shared

ONE = {"rounds": 1}


def block(table: str, dataset: str) -> Any:
    return blocks(table, [dataset])[0]


def run(table: str, dataset: str, seeds: tuple[int, ...] = (2,), **settings: Any) -> Found:
    settings = ONE | settings
    found = reproduce(block(table, dataset), seeds, settings=settings, workers=1)
    assert isinstance(found, Found), found
    return found


@pytest.mark.parametrize("table", TABLES)
def test_every_row_of_every_table_has_its_runs_at_the_paper_s_settings(table: str) -> None:
    for part in blocks(table):
        planned = jobs_for(part, [2, 4, 6], settings={"stand_in": part.dataset == "celeba"})
        labels = list(dict.fromkeys(job.label for job in planned))
        if table == "cdf-figure":
            assert set(part.rows) < set(labels) == set(CDFS)
        else:
            assert labels == list(part.rows)
        assert len(planned) == 3 * len(labels)
        rounds = {"berka": 100, "mqp": 100, "isic2019": 50, "celeba": 3000, "reddit": 300,
                  "speechcommands": 500, "heart": 200, "tinyimagenet": 2000}  # fmt: skip
        assert {job.config.rounds for job in planned} == {rounds[part.dataset]}
        assert part.limits


def test_table_six_changes_the_optimiser_and_nothing_else() -> None:
    planned = {job.label: job.config for job in jobs_for(
        block("plug-and-play", "heart"), [2], settings={})}  # fmt: skip
    assert list(planned) == [row for base in BASES for row in (base, f"{base}+aaggff")]
    for base, how in BASES.items():
        plain, fair = planned[base], planned[f"{base}+aaggff"]
        assert (plain.method, fair.method) == ("fedavg", "aaggff-s")
        for config in (plain, fair):
            assert config.prox == how.get("prox", 0.0)
            assert config.server_optimizer == how.get("server_optimizer", "sgd")
        assert {plain.model_copy(update={"method": fair.method}).lr} == {fair.lr}


def test_plug_and_play_on_heart_is_paired_and_beside_the_paper_s() -> None:
    found = run("plug-and-play", "heart", seeds=(2, 4), rounds=3)
    text = "".join(map(markdown, sheets(found)))
    assert "| fedadam+aaggff |" in text
    assert "84.84 (2.85)" in text  # the paper's
    assert "probably a misprint" in text
    assert "rounds is 3 here and 200 in the paper." in text
    assert "What AAggFF changes, seed by seed" in text
    assert "+0.62" in text  # 85.04 less 84.42, the paper's own difference
    content = found.as_json()
    json.dumps(content, allow_nan=False)
    cell = content["rows"]["fedavg"]["avg"]
    assert len(cell["ours"]) == 2
    assert cell["paper"] == [84.42, 2.45]
    assert cell["deviations_apart"] == pytest.approx(found.apart("fedavg", "avg"))


def test_silo_runs_on_a_partial_copy_and_says_so() -> None:
    place = shared("data", "berka").parent
    found = run("silo", "berka", data_dir=str(place))
    assert list(found.outcomes) == list(block("silo", "berka").rows)
    text = "".join(map(markdown, sheets(found)))
    assert "PARTIAL DATA: trans.asc" in text
    assert "leaks the outcome" in text
    assert "1 seed has no deviation" in text
    figure = run("cdf-figure", "berka", data_dir=str(place))
    assert set(figure.outcomes) == set(CDFS)
    text = markdown(sheets(figure)[0])
    assert "normal's in the paper" in text
    sums = {row: found[0].objective for row, found in figure.outcomes.items()}
    assert f"The smallest is {min(sums, key=sums.__getitem__)}'s here" in text


def test_delta_ag_is_best_less_worst_tenth() -> None:
    part = block("parity", "reddit")
    metric = {"best": 21.0, "worst": 3.0, "gap": 60.0}  # gap: of single clients, not the paper's
    outcomes = {row: [Outcome(metric, {}, "top1", True, 0.0, 0.0)] for row in part.rows}
    found = Found(part, "top1", 300, [2], outcomes, [], stand_in=True)
    assert found.ours("fedavg", "gap") == [18.0]
    text = markdown(sheets(found)[0])
    assert "STAND-IN DATA" in text
    assert "as the paper prints Delta AG" in text
    assert "| fedavg | 18.00 |" in text
    assert "18.36 (3.52)" in text  # the paper's


@pytest.mark.slow
def test_cross_device_runs_on_a_partial_copy() -> None:
    place = shared("data", "speechcommands").parent
    found = run("parity", "speechcommands", data_dir=str(place))
    assert list(found.outcomes) == list(block("parity", "speechcommands").rows)
    text = markdown(sheets(found)[0])
    assert "PARTIAL DATA: 880 of 105,829 clips are here" in text


@pytest.mark.parametrize(
    ("table", "dataset", "why"),
    [
        ("silo", "berka", "berka"),
        ("silo", "mqp", "mqp"),
        ("silo", "isic2019", "isic2019"),
        ("device", "celeba", "celeba"),
        ("device", "reddit", "reddit"),
        ("device", "speechcommands", "speechcommands"),
        ("parity", "celeba", "celeba"),
        ("plug-and-play", "tinyimagenet", "tinyimagenet"),
        ("cdf-figure", "reddit", "reddit"),
    ],
)
def test_without_its_data_a_block_is_not_run_and_says_how_to_get_it(
    table: str, dataset: str, why: str, tmp_path: Path
) -> None:
    found = reproduce(block(table, dataset), [2], settings={"data_dir": str(tmp_path)}, workers=1)
    assert isinstance(found, NotRun)
    line = not_run(found)
    assert line.startswith(f"{dataset}: not run. ")
    assert why in line
    assert "lacks" in line
    assert "data fetch" in line or "put" in line or "download" in line  # how to get it
    assert "\n" not in line


def test_a_stand_in_is_only_used_where_the_data_is_not_at_hand(tmp_path: Path) -> None:
    empty = {"data_dir": str(tmp_path)}
    assert here(block("device", "reddit"), empty, stand_in=True)["stand_in"] is True
    assert "stand_in" not in here(block("device", "reddit"), empty, stand_in=False)
    assert "stand_in" not in here(block("plug-and-play", "heart"), empty, stand_in=True)


def test_apart_is_a_standardised_difference() -> None:
    ours = [80.0, 82.0, 84.0]
    expected = (82.0 - 79.0) / math.sqrt((np.var(ours, ddof=1) + 3.0**2) / 2)
    assert apart(ours, (79.0, 3.0)) == pytest.approx(expected)
    assert apart([82.0], (79.0, 3.0)) == pytest.approx(1.0)
    assert apart(ours, (79.0, None)) == pytest.approx(1.5)
    assert math.isnan(apart([82.0], (79.0, None)))
    assert math.isnan(apart([math.nan], (79.0, 3.0)))
    assert apart([100.0, 100.0], (100.0, 0.0)) == 0.0
    assert math.isnan(apart([99.0, 99.0], (100.0, 0.0)))


def test_tuning_first_uses_its_own_seed_and_says_what_it_chose(tmp_path: Path) -> None:
    part = block("plug-and-play", "heart")
    found = reproduce(part, [2], settings=ONE, tune_first=True, out=tmp_path, workers=1)
    assert isinstance(found, Found)
    assert any(note.startswith(f"Tuned by average on seed {TUNED_ON}: ") for note in found.notes)
    tried = {place.name for place in (tmp_path / "heart-tuned" / "tuning").iterdir()}
    assert tried == {f"aaggff-s:cdf={cdf}" for cdf in CDFS}
    with pytest.raises(UserError, match=f"{TUNED_ON} is the one --tune tunes on"):
        reproduce(part, [TUNED_ON, 2], settings=ONE, tune_first=True, workers=1)


def test_what_is_done_is_read_again(tmp_path: Path) -> None:
    part = block("plug-and-play", "heart")
    first = reproduce(part, [2], settings=ONE, out=tmp_path, workers=1)
    done = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("done.json")}
    again = reproduce(part, [2], settings=ONE, out=tmp_path, workers=1)
    assert len(done) == 10
    assert done == {file: file.stat().st_mtime_ns for file in tmp_path.rglob("done.json")}
    assert isinstance(first, Found)
    assert isinstance(again, Found)
    assert first.as_json() == again.as_json()


def test_a_table_or_part_that_is_none_is_refused() -> None:
    with pytest.raises(UserError, match="unknown table 'sillo'; did you mean 'silo'"):
        blocks("sillo")
    with pytest.raises(UserError, match="data set of table 'silo'"):
        blocks("silo", ["heart"])
