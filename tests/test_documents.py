"""The README and the documentation are true: links lead somewhere, code runs, commands exist."""

from __future__ import annotations

import re
import shlex

import numpy as np
import pytest

from tests.shared import ROOT

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def name(path):
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_links_lead_to_files(document):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text())
    local = [link for link in links if "://" not in link and not link.startswith("mailto:")]
    missing = [link for link in local if not (document.parent / link).exists()]
    assert not missing


def commands(document):
    """Lines of console blocks that call `aaggff`, without their prompt and comment."""
    for block in re.findall(r"```console\n(.*?)```", document.read_text(), re.S):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line.removeprefix("$ "), comments=True)
            if words[:1] == ["aaggff"]:
                yield words[1:]


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_commands_and_their_options_exist(document):
    import typer.main

    from aaggff.cli.app import typer_app

    root = typer.main.get_command(typer_app)
    for words in commands(document):
        command, rest = root, list(words)
        while rest and hasattr(command, "get_command") and not rest[0].startswith("-"):
            command = command.get_command(None, rest.pop(0))
            assert command is not None, f"no such command: aaggff {shlex.join(words)}"
        known = {option for each in command.params for option in each.opts} | {"--help"}
        known |= {"--version"} if command is root else set()
        given = [word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)]
        strange = [option for option in given if option not in known]
        assert not strange, f"aaggff {shlex.join(words)}: no option {strange}"


def test_the_python_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    given = {
        "ask_clients": lambda: (generator.random(4), [303, 294, 123, 200]),
        "x": generator.normal(size=(200, 5)).astype(np.float32),
        "y": generator.integers(0, 2, 200),
        "hospital": np.repeat(["a", "b", "c", "d"], 50),
    }
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert len(blocks) >= 3
    for block in blocks:
        exec(compile(block, "README.md", "exec"), given)
    assert given["weights"].sum() == pytest.approx(1)
    assert given["strategy"].server.method == "aaggff-s"
    assert given["federation"].round == 100
