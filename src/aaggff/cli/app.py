"""The `aaggff` command: finds a command's module only when that command is used."""

from __future__ import annotations

import difflib
import os
import sys
from importlib import import_module
from typing import Any, get_type_hints

import click
import typer
import typer.core
import typer.main

from aaggff.errors import UserError

# Where rich is installed typer escapes the brackets of "[default: all]" for it, also in help that
# is not rich's. This is how typer itself knows that there is no rich.
vars(typer.core)["HAS_RICH"] = False

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

# Package -> the extra that brings it, where it is not `train`.
EXTRAS = {
    "transformers": "text",
    "tokenizers": "text",
    "PIL": "vision",
    "plotly": "report",
    "jinja2": "report",
    "tensorboard": "trackers",
    "flwr": "flower",
    "ray": "flower",
    "nvflare": "nvflare",
}


class LazyGroup(typer.core.TyperGroup):
    """Knows every command by name and imports none until it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, name: str) -> Any:
        if name not in COMMANDS:
            return None
        command = typer.main.get_command(import_module(f"aaggff.cli.{COMMANDS[name][0]}").app)
        command.name = name
        for each in getattr(command, "commands", {"": command}).values():
            _restore_argument_help(each)
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            ctx.fail(f"no command {args[0]!r}; {hint}(known: {', '.join(COMMANDS)})")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


def _restore_argument_help(command: Any) -> None:
    """Arguments have a help of their own since click 8.5, which empties the one typer has set."""
    written = get_type_hints(command.callback, include_extras=True)
    for each in command.params:
        if isinstance(each, typer.core.TyperArgument) and not each.help:
            known = getattr(written.get(each.name or ""), "__metadata__", ())
            each.help = next((info.help for info in known if hasattr(info, "help")), None)


typer_app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(value: bool) -> None:
    if value:
        from aaggff.version import __version__

        typer.echo(f"aaggff {__version__}")
        raise typer.Exit


@typer_app.callback(epilog="Example: aaggff run heart --method aaggff-s")
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Federated learning that is fair to every client."""


def app(args: list[str] | None = None) -> None:
    """Run; a user's mistake is one line and exit code 2, never a traceback."""
    try:
        code = typer_app(args, prog_name="aaggff", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = 2
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        _complain(error.format_message(), context.command_path if context else "aaggff")
        code = 2
    except UserError as error:
        _complain(str(error))
        code = 2
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "aaggff":
            raise
        extra = EXTRAS.get(package, "train")
        _complain(f"this needs the package {package!r}: pip install 'aaggff[{extra}]'")
        code = 2
    except (KeyboardInterrupt, click.Abort):
        _complain("stopped")
        code = 130
    except BrokenPipeError:  # `aaggff methods | head`: nobody reads on, which is no mistake
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code)


def _complain(message: str, command: str = "aaggff") -> None:
    typer.echo(f"{command}: {' '.join(message.split())}", err=True)
