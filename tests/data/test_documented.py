"""docs/datasets.md and docs/models.md are true: code runs, options and settings are these."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aaggff.data import DATASETS, dataset_spec
from aaggff.data.partition import PARTITIONS
from aaggff.models import MODELS, model_options
from tests.shared import ROOT

DATA = (ROOT / "docs" / "datasets.md").read_text()
MODELLED = (ROOT / "docs" / "models.md").read_text()
PLAIN = [name for name in DATASETS if name not in ("digits", "synthetic")]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.S)


def section(text: str, heading: str) -> str:
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.S | re.M)
    assert found is not None, f"no section {heading!r}"
    return found[1]


def rows(text: str, name: str) -> list[list[str]]:
    """The table rows that begin with `name`."""
    lines = [line for line in text.splitlines() if line.startswith(f"| `{name}` |")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("document", [DATA, MODELLED], ids=["datasets", "models"])
def test_the_python_runs_from_top_to_bottom(
    document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    given: dict[str, object] = {}
    python = blocks(document, "python")
    assert len(python) >= 2
    for block in python:
        named = re.match(r"# (\w+\.py)\n", block)
        if named:  # a module of the user's, which the next block imports
            (tmp_path / named[1]).write_text(block)
        else:
            exec(compile(block, "docs", "exec"), given)
    printed = capsys.readouterr().out
    for shown in blocks(document, "text"):
        assert shown in printed


@pytest.mark.parametrize("name", PLAIN)
def test_every_option_and_file_is_explained(name: str) -> None:
    text = section(DATA, name)
    spec = dataset_spec(name)
    for option in spec.options:
        assert f"data.{option}`" in text, f"{name}: data.{option}"
    for file in spec.files:
        for path in file.unpacks or (file.name,):
            assert any(part in text for part in (path, path.rpartition("/")[2])) or file.instead


@pytest.mark.parametrize("name", PLAIN)
def test_the_tables_say_what_the_loaders_do(name: str) -> None:
    spec = dataset_spec(name)
    about, settings = rows(DATA, name)
    if spec.statistics is not None:
        assert about[1].split()[0] == f"{spec.statistics.clients:,}"
        assert about[2] == f"{spec.statistics.samples:,}"
    paper = spec.settings
    assert settings[1:] == [
        paper.model,
        f"{paper.rounds:,}",
        "everybody" if paper.per_round is None else str(paper.per_round),
        f"{paper.lr:.4g}",
        f"{paper.weight_decay:.4g}",
        f"{paper.decay:g} every {paper.decay_every}",
        paper.cdf,
    ]
    assert (paper.batch_size, paper.epochs) == (20, 1)


def test_every_data_set_and_partition_is_listed() -> None:
    for name in DATASETS:
        assert rows(DATA, name)
    for partition in PARTITIONS:
        assert f"| `{partition}` |" in DATA


@pytest.mark.parametrize("name", MODELS)
def test_every_option_of_a_model_is_explained(name: str) -> None:
    text = section(MODELLED, name)
    for option in model_options(name):
        assert f"model.{option}`" in text, f"{name}: model.{option}"
