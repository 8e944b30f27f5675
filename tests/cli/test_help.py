"""Every command's --help: an example, and nothing that is meant for another program."""

from __future__ import annotations

import pytest
import typer.main

from aaggff.cli.app import COMMANDS, app

PAGES = [[name] for name in COMMANDS if name not in ("data", "deploy")]
PAGES += [["data", "list"], ["data", "fetch"], ["data", "check"], ["deploy", "new"]]


@pytest.mark.parametrize("words", PAGES, ids=" ".join)
def test_a_page_has_an_example_and_no_escaped_brackets(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        app([*words, "--help"])
    page = capsys.readouterr().out
    assert not stop.value.code
    assert "\\" not in page
    _, named, arguments = page.partition("Arguments:\n")
    for line in arguments.partition("\n\n")[0].splitlines() if named else ():
        name, *said = line.split()
        assert said not in ([], ["[required]"]), f"{name} is not explained"
    assert f"aaggff {' '.join(words)}" in page.partition("Options:")[2] or words == ["methods"]


def test_the_pages_are_all_there_are() -> None:
    from aaggff.cli.app import typer_app

    root = typer.main.get_command(typer_app)
    found = []
    for name in root.list_commands(None):
        command = root.get_command(None, name)
        found += [[name, each] for each in getattr(command, "commands", [])] or [[name]]
    assert sorted(found) == sorted(PAGES)
