"""`aaggff tune` as typed: from the grid to the file to `compare --tuned`."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from tests.cli.typed import refused, run


@pytest.mark.slow
def test_what_tune_chooses_compare_uses(tmp_path: Path) -> None:
    words = ["tune", "heart", "--rounds", "3", "--workers", "1", "--out", "tuned.toml"]
    out, _ = run(
        *words, "--method", "qfedavg", "--grid", "q=0.5,20", "--metric", "loss_worst",
        "--seed", "100", "--json", "trials.json", cwd=tmp_path,
    )  # fmt: skip
    assert "chosen: tuned.toml; aaggff compare heart --tuned tuned.toml" in out
    assert "One seed decides here" in out
    trials = json.loads((tmp_path / "trials.json").read_text())["methods"]["qfedavg"]
    (best,) = [trial for trial in trials if trial["chosen"]]
    assert best["score"] == max(trial["score"] for trial in trials)
    kept = tomllib.loads((tmp_path / "tuned.toml").read_text())
    assert kept["methods"] == {"qfedavg": best["options"]}
    assert (kept["dataset"], kept["seeds"], kept["metric"]) == ("heart", [100], "loss_worst")

    compare = ["compare", "heart", "--rounds", "3", "--workers", "1", "--json", "-"]
    label = f"qfedavg:q={best['options']['q']}"
    tuned, _ = run(*compare, "--methods", "qfedavg", "--tuned", "tuned.toml", cwd=tmp_path)
    spelled, _ = run(*compare, "--methods", label, cwd=tmp_path)
    assert json.loads(tuned)["methods"]["qfedavg"] == json.loads(spelled)["methods"][label]
    _, err = run(*compare, "--seeds", "99-101", "--tuned", "tuned.toml", cwd=tmp_path, code=2)
    assert "tuned on seed 100, which is among the seeds compared" in err

    # Another method is added to the file, another metric refused.
    more = [*words, "--method", "term", "--seed", "100", "--halving"]
    run(*more, "--metric", "loss_worst", cwd=tmp_path)
    assert set(tomllib.loads((tmp_path / "tuned.toml").read_text())["methods"]) == {
        "qfedavg",
        "term",
    }
    _, err = run(*more, "--metric", "avg", cwd=tmp_path, code=2)
    assert "tuned.toml holds what was tuned with metric = loss_worst" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--metric", "avrg"], "did you mean 'avg'"),
        (["--metric", "0.5avg"], "0.7*avg+0.3*worst"),
        (["--grid", "q"], "expected OPTION=VALUE"),
        (["--grid", "q=1,1"], "names a value twice"),
        (["--grid", "qq=1"], "no method here has it"),
        (["--method", "fedavg"], "nothing to tune"),
        (["--seed", "x"], "expected numbers"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(words, said, capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in refused(capsys, "tune", "heart", "--workers", "1", *words)
