"""The `aaggff` command: finds a command's module only when that command is used."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import typer
import typer.core
import typer.main

from aaggff.errors import UserError

# Command -> (its module in aaggff.cli, one line for `aaggff --help`). A module defines `app`.
COMMANDS = {
    "run": ("run", "Train one federation and write its record."),
    "compare": ("compare", "Compare methods over seeds, with statistics."),
    "tune": ("tune", "Choose a method's options on a separate seed."),
    "reproduce": ("reproduce", "The paper's tables, ours beside theirs."),
    "frontier": ("frontier", "Average against worst-off, over each method's dial."),
    "report": ("report", "One self-contained HTML page from run directories."),
    "data": ("data", "List, fetch and check data sets."),
    "methods": ("methods", "The table of methods: formulas and options."),
    "deploy": ("deploy", "A runnable app for Flower or NVFlare."),
}


class LazyGroup(typer.core.TyperGroup):
    """Knows every command by name and imports none until it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, name: str) -> Any:
        if name not in COMMANDS:
            return None
        if ctx.info_name is not None and "--help" in sys.argv[1:2]:
            return typer.core.TyperCommand(name, help=COMMANDS[name][1])
        command = typer.main.get_command(import_module(f"aaggff.cli.{COMMANDS[name][0]}").app)
        command.name = name
        return command


typer_app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Federated learning that is fair to every client.",
)


def _version(value: bool) -> None:
    if value:
        from aaggff.version import __version__

        typer.echo(f"aaggff {__version__}")
        raise typer.Exit


@typer_app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Federated learning that is fair to every client."""


def app() -> None:
    """Run; a user's mistake is one line and exit code 2, never a traceback."""
    try:
        typer_app()
    except UserError as error:
        typer.echo(f"aaggff: {error}", err=True)
        sys.exit(2)
