"""The Python and the configuration in the engine's documentation run, and say what they do."""

import json
import re
import tomllib

import pytest

from aaggff.federation.config import RunConfig
from aaggff.federation.run import train
from tests.shared import ROOT


def blocks(document, language):
    text = (ROOT / "docs" / document).read_text()
    return re.findall(rf"```{language}\n(.*?)```", text, re.S)


@pytest.mark.parametrize("document", ["federation.md", "running.md"])
def test_the_python_runs_from_top_to_bottom(document, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    found = blocks(document, "python")
    assert found
    names = {"__name__": "documented"}
    for number, block in enumerate(found, 1):
        exec(compile(block, f"docs/{document}, block {number}", "exec"), names)
    said = capsys.readouterr().out
    if document == "federation.md":
        assert "yours: 3 clients, 240 training and 60 test samples, binary" in said
        assert "[[0, 1], [1, 2]]" in said


def test_the_configuration_file_is_valid(tmp_path):
    (block,) = blocks("running.md", "toml")
    path = tmp_path / "run.toml"
    path.write_text(block)
    config = RunConfig.read(path)
    assert config.method_options["strength"] == 4.0
    assert set(tomllib.loads(block)) <= set(RunConfig.model_fields)


def test_every_setting_is_listed():
    text = (ROOT / "docs/running.md").read_text()
    tables = {"data", "method_options", "model_options", "server_options"}
    missing = [
        name for name in RunConfig.model_fields if name not in tables and f"`{name}`" not in text
    ]
    assert missing == []


def test_every_key_of_the_record_is_listed_and_no_other(tmp_path):
    train(RunConfig.for_dataset("heart", rounds=2), tmp_path / "run")
    text = (ROOT / "docs/running.md").read_text()
    section = text.split("### rounds.jsonl")[1].split("###")[0]
    first_cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    listed = {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}
    lines = (tmp_path / "run/rounds.jsonl").read_text().splitlines()
    assert listed == {key for line in lines for key in json.loads(line)}
    about = text.split("### clients.jsonl")[1]
    for line in (tmp_path / "run/clients.jsonl").read_text().splitlines():
        assert all(f"`{key}`" in about for key in json.loads(line))


def test_files_named_in_the_architecture_exist():
    text = (ROOT / "docs/architecture.md").read_text()
    named = set(re.findall(r"`([\w/]+(?:\.py|/))`", text))
    package = ROOT / "src/aaggff"
    places = [ROOT, package, *(package / part for part in (
        "decision", "federation", "federation/executors", "data", "cli", "report",
    )), ROOT / "tests/federation"]  # fmt: skip
    assert len(named) > 30
    assert [name for name in sorted(named) if not any((p / name).exists() for p in places)] == []
