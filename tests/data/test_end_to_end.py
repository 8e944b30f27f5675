"""`aaggff run DATASET --rounds 2`, as typed: on the real files, on tiny ones, on stand-ins."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aaggff.cli.app import app
from aaggff.data import dataset_spec
from tests.data import official
from tests.data.test_stand_in import SMALL
from tests.weights import weights

Run = Callable[..., tuple[int, str, str]]
Record = dict[str, Any]

# So that a round of a large network takes a second: one step a client, small copies.
QUICK = ["--steps", "1", "--batch-size", "4", "--evaluate-clients", "6"]


@pytest.fixture
def light(small_encoder: Path) -> dict[str, list[str]]:
    """Options by which the large networks are small, or need no download."""
    return {
        "mqp": ["--set", f"model.pretrained={small_encoder}"],
        "isic2019": ["--set", "model.pretrained=random"],
    }


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """`run(WORDS...)`: exit code, stdout and stderr of `aaggff WORDS...`."""

    def typed(*words: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            app([*map(str, words)])
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return typed


def record(directory: Path) -> tuple[Record, list[Record], list[Record]]:
    """What a finished run left: done.json, its rounds, its clients."""
    lines = [
        [json.loads(line) for line in (directory / name).read_text().splitlines()]
        for name in ("rounds.jsonl", "clients.jsonl")
    ]
    return json.loads((directory / "done.json").read_text()), *lines


def check(directory: Path, name: str, *, stand_in: bool) -> None:
    """The run went as the data set's settings say, and kept what it should."""
    settings = dataset_spec(name).settings
    config = tomllib.loads((directory / "config.toml").read_text())
    assert (config["model"], config["lr"]) == (settings.model, settings.lr)
    assert config["method"] == ("aaggff-s" if settings.per_round is None else "aaggff-d")
    assert config["method_options"] == {"cdf": settings.cdf}
    assert config["stand_in"] is stand_in
    done, rounds, clients = record(directory)
    assert done["rounds"] == len(rounds) == 2
    assert done["stand_in"] is stand_in
    for each in rounds:
        assert sum(each["weights"]) == pytest.approx(1)
        assert len(each["ids"] if "ids" in each else each["clients"]) == len(each["weights"])
    assert all(loss is None or loss > 0 for loss in clients[-1]["loss"])


def files(name: str, root: Path) -> list[str]:
    """Tiny files in the official layout, and the options that go with them."""
    if name == "celeba-leaf":
        official.celeba(root, tables=False, leaf="split")
        return ["--set", "data.size=24"]
    getattr(official, name)(root)
    return {
        "mqp": ["--set", f"data.tokenizer={official.vocabulary(root / 'words')}"],
        "isic2019": ["--set", "data.size=64"],
        "celeba": ["--set", "data.size=24"],
        "tinyimagenet": ["--set", "data.clients=20", "--per-round", "5"],
    }.get(name, [])


@pytest.mark.parametrize("name", [*SMALL, "celeba-leaf"])
def test_the_official_layout(
    run: Run, light: dict[str, list[str]], tmp_path: Path, name: str
) -> None:
    dataset, out = name.partition("-")[0], tmp_path / "out"
    words = files(name, tmp_path) + light.get(dataset, []) + QUICK
    sampled = dataset_spec(dataset).settings.per_round
    if sampled and dataset != "tinyimagenet":
        words += ["--per-round", "2"]
    code, printed, err = run(
        "run", dataset, "--rounds", 2, "--data-dir", tmp_path, "--out", out, *words
    )
    assert (code, err) == (0, ""), err
    assert "STAND-IN" not in printed
    # A handful of rows is less than there is: it is said, also here.
    assert "note: " in printed
    check(out, dataset, stand_in=False)


@pytest.mark.parametrize("name", SMALL)
def test_every_stand_in_runs_and_says_what_it_is(
    run: Run, light: dict[str, list[str]], tmp_path: Path, name: str
) -> None:
    # The last maps of EfficientNet must be larger than one pixel for a batch of one image.
    small = {**SMALL[name], "size": 64} if name == "isic2019" else SMALL[name]
    options = [f"data.{key}={value}" for key, value in small.items()]
    words = [word for option in options for word in ("--set", option)]
    words += light.get(name, []) + QUICK
    out = tmp_path / "out"
    code, printed, err = run("run", name, "--stand-in", "--rounds", 2, "--out", out, *words)
    assert (code, err) == (0, ""), err
    assert printed.startswith(f"{name} STAND-IN  ")
    assert "STAND-IN data: says nothing about the real" in " ".join(printed.split())
    assert f"aaggff compare {name} --stand-in" in printed
    check(out, name, stand_in=True)


REAL = {
    "berka": [],
    "isic2019": ["--set", "data.size=64"],
    "speechcommands": [],
    "tinyimagenet": ["--set", "data.clients=50"],
}


@pytest.mark.parametrize("name", REAL)
def test_the_real_files(
    run: Run,
    light: dict[str, list[str]],
    real: Callable[[str], Path],
    tmp_path: Path,
    name: str,
) -> None:
    root, out = real(name), tmp_path / "out"
    words = [*REAL[name], *light.get(name, []), *QUICK]
    code, printed, err = run("run", name, "--rounds", 2, "--data-dir", root, "--out", out, *words)
    assert (code, err) == (0, ""), err
    # What is not whole says so, where the run can be seen.
    assert "note: " in printed
    check(out, name, stand_in=False)


def test_the_hospitals_need_no_files(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, printed, err = run("run", "heart", "--rounds", 2, "--out", out)
    assert (code, err) == (0, ""), err
    assert "note: " not in printed
    assert "Long Beach VA" in printed
    check(out, "heart", stand_in=False)


@pytest.mark.slow
def test_the_real_pairs_with_a_pretrained_encoder(
    run: Run, real: Callable[[str], Path], tmp_path: Path
) -> None:
    encoder, out = weights("minilm"), tmp_path / "out"
    code, printed, err = run(
        *("run", "mqp", "--rounds", 2, "--data-dir", real("mqp"), "--out", out),
        *("--set", f"data.tokenizer={encoder}", "--set", f"model.pretrained={encoder}"),
        *("--set", "model.layers=1", "--set", "data.longest=32", *QUICK),
    )
    assert (code, err) == (0, ""), err
    assert "note: " not in printed  # it is whole
    check(out, "mqp", stand_in=False)


def test_the_program_itself(tmp_path: Path) -> None:
    words = ["run", "berka", "--stand-in", "--rounds", "2", "--out", str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, "-m", "aaggff", *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    check(tmp_path / "out", "berka", stand_in=True)


def test_a_stand_in_is_labelled_in_tables_json_and_report(run: Run, tmp_path: Path) -> None:
    words = ["--stand-in", "--rounds", 2, "--seeds", "2", "--set", "data.scale=0.5"]
    where, numbers = tmp_path / "compared", tmp_path / "numbers.json"
    methods = ["--methods", "fedavg,aaggff-s"]
    code, printed, _ = run("compare", "berka", *words, *methods, "--out", where, "--json", numbers)
    assert code == 0
    assert "STAND-IN DATA" in printed
    assert json.loads(numbers.read_text())["stand_in"] is True
    page = tmp_path / "report.html"
    assert run("report", where, "-o", page)[0] == 0
    assert "Stand-in data." in page.read_text()
    assert "(stand-in)" in page.read_text()
    code, printed, _ = run("data", "check", "berka", "--stand-in")
    assert code == 0
    assert "STAND-IN, not the data" in printed
    assert "differs" not in printed


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "berka"], "aaggff data fetch berka"),
        (["run", "celeba"], "identity_CelebA.txt"),
        (["run", "celeba", "--stand-in", "--set", "data.clints=5"], "did you mean 'clients'"),
        (["run", "celeba", "--set", "data.scale=0.1"], "option of data set 'celeba' 'scale'"),
        (["run", "heart", "--stand-in"], "needs none"),
        (["run", "berka", "--skip-corrupt"], "no files that could be skipped"),
    ],
)
def test_without_files_or_with_a_mistake_it_is_one_line(
    run: Run, tmp_path: Path, words: list[str], says: str
) -> None:
    code, _, err = run(*words, "--data-dir", tmp_path, "--out", tmp_path / "out")
    assert code == 2
    assert err.count("\n") == 1
    assert says in err
