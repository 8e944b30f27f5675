"""`aaggff compare` as typed: four formats of the same numbers, mistakes answered in one line."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import statistics
from pathlib import Path

import pytest

from aaggff.experiments.compare import MEASURES
from tests.cli.typed import refused, run

METHODS = "fedavg,uniform,qfedavg:q=5:step=plain"
WORDS = ["compare", "heart", "--methods", METHODS, "--seeds", "1-8", "--rounds", "4"]
WORDS += ["--workers", "1", "--out", "kept"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("compared")
    out, err = run(*WORDS, "--json", "found.json", cwd=place)
    assert "heart: AUROC in per cent after 4 rounds" in out
    assert "Less FedAvg, seed by seed" in out
    assert "Less uniform weights, seed by seed" in out
    assert "runs in kept; aaggff report kept shows them" in out
    assert err.splitlines()[:3] == [f"{name}: 8/8 seeds" for name in METHODS.split(",")]
    return place


@pytest.fixture(scope="module")
def found(place: Path) -> dict[str, dict[str, list[float]]]:
    content = json.loads((place / "found.json").read_text())
    assert (content["dataset"], content["rounds"], content["metric"]) == ("heart", 4, "auroc")
    assert content["seeds"] == list(range(1, 9))
    return dict(content["methods"])


@pytest.fixture(scope="module")
def table(place: Path) -> dict[tuple[str, str], dict[str, str]]:
    """The CSV by method and measure; the runs are there, so only the printing is done again."""
    out, err = run(*WORDS, "--csv", cwd=place)
    assert "24 of 24 runs were there already" in err
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 3 * len(MEASURES)
    return {(row["method"], row["measure"]): row for row in rows}


def test_csv_is_json_s_means_deviations_and_paired_differences(found, table) -> None:
    for (method, measure), row in table.items():
        values = found[method][measure]
        assert float(row["mean"]) == pytest.approx(statistics.fmean(values), rel=1e-12)
        assert float(row["deviation"]) == pytest.approx(statistics.stdev(values), rel=1e-9)
        assert int(row["seeds"]) == 8
        for reference in ("fedavg", "uniform"):
            difference = row[f"vs_{reference}_difference"]
            if method == reference:
                assert difference == ""
                continue
            pairs = zip(values, found[reference][measure], strict=True)
            expected = statistics.fmean(a - b for a, b in pairs)
            assert float(difference) == pytest.approx(expected, abs=1e-9)
            low, high = float(row[f"vs_{reference}_low"]), float(row[f"vs_{reference}_high"])
            assert low <= expected + 1e-12
            assert high >= expected - 1e-12
            p, corrected = float(row[f"vs_{reference}_p"]), float(row[f"vs_{reference}_p_holm"])
            assert 0 < p <= corrected <= 1


def cells(line: str, pattern: str) -> list[tuple[float, float, bool]]:
    """Mean, deviation and star of every cell of a printed row."""
    return [
        (float(mean), float(deviation), bool(star))
        for mean, star, deviation in re.findall(pattern, line)
    ]


@pytest.mark.parametrize(
    ("option", "begin", "pattern"),
    [
        ("--markdown", "| {} |", r"\| ([\d.]+)(\\\*)? \(([\d.]+)\)"),
        (
            "--latex",
            r"\texttt{{{}}} &",
            r"& ([\d.]+)(\$\^\{\*\}\$)? \{\\scriptsize \(([\d.]+)\)\}",
        ),
    ],
    ids=["markdown", "latex"],
)
def test_markdown_and_latex_are_csv_rounded_with_its_marks(
    place: Path, table, option: str, begin: str, pattern: str
) -> None:
    out, _ = run(*WORDS, option, cwd=place)
    lines = out.splitlines()
    for method in METHODS.split(","):
        shown = next(line for line in lines if line.startswith(begin.format(method)))
        read = cells(shown, pattern)
        assert len(read) == len(MEASURES)
        for measure, (mean, deviation, star) in zip(MEASURES, read, strict=True):
            row = table[method, measure.key]
            assert mean == pytest.approx(float(row["mean"]), abs=0.51 * 10**-measure.digits)
            assert deviation == pytest.approx(
                float(row["deviation"]), abs=0.51 * 10**-measure.digits
            )
            corrected = row["vs_fedavg_p_holm"]
            assert star == (corrected != "" and float(corrected) < 0.05)
    if option == "--latex":
        assert out.count(r"\begin{tabular}") == out.count(r"\end{tabular}") == 3
        for line in lines:
            if line.endswith(r"\\"):
                body = line.replace(r"\_", "").replace(r"\&", "")
                assert body.count("{") == body.count("}")
                assert body.count("$") % 2 == 0
                assert "_" not in body
    else:
        widths = {line.count("|") for line in lines if line.startswith("|")}
        assert widths == {2 + len(MEASURES), 1 + len(MEASURES)}  # differences leave `best` out


def test_json_on_stdout_is_the_file_and_nothing_else(place: Path, found) -> None:
    out, _ = run(*WORDS, "--json", "-", cwd=place)
    assert json.loads(out)["methods"] == found
    assert all(math.isfinite(v) for each in found.values() for vs in each.values() for v in vs)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["hart"], "did you mean 'heart'"),
        (["heart", "--methods", "fedavgg"], "did you mean 'fedavg'"),
        (["heart", "--methods", ""], "name at least one"),
        (["heart", "--methods", "term,term"], "named twice"),
        (["heart", "--methods", "qfedavg:p=5"], "option of method 'qfedavg'"),
        (["heart", "--methods", "qfedavg:q=much"], "q"),
        (["heart", "--seeds", "1-"], "expected numbers like 2,4,6"),
        (["heart", "--seeds", "3-1"], "counts down"),
        (["heart", "--seeds", "1,1"], "count double"),
        (["heart", "--rounds", "0"], "rounds"),
        (["heart", "--rounds", "many"], "rounds"),
        (["heart", "--set", "lr"], "expected NAME=VALUE"),
        (["heart", "--set", "strenght=3"], "did you mean 'strength'"),
        (["heart", "--set", "modell.hidden=3"], "prefix of --set"),
        (["heart", "--set", "seed=3"], "own options"),
        (["heart", "--csv", "--latex"], "choose one of"),
        (["heart", "--json", "-", "--markdown"], "choose one of"),
        (["heart", "--tuned", "nowhere.toml"], "cannot read nowhere.toml"),
        (["heart", "--data-dir", "nowhere"], "nowhere"),
        (["heart", "--workers", "0"], "workers"),
        (["heart", "--nonsense"], "--nonsense"),
        ([], "DATASET"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(words, said, capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in refused(capsys, "compare", *words)


def test_another_run_in_the_same_directory_is_refused(place: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(place)
    other = ["5" if word == "4" else word for word in WORDS]
    assert "rounds = 4, and this one has 5" in refused(capsys, *other)
