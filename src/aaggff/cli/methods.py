"""`aaggff methods`: what can be chosen, with formulas and options."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from aaggff.decision.methods import METHODS, Method
from aaggff.errors import unknown

app = typer.Typer(rich_markup_mode=None, add_completion=False)

EPILOG = """\b
Examples:
  aaggff methods
  aaggff methods aaggff-d
  aaggff methods --json
"""
SYMBOLS = (
    "F_i loss, n_i samples, D_i update of client i; S who reported, K how many there are,"
    " C = |S|/K; ~ proportional to.",
    "r_i = C1 + (C2 - C1) CDF(F_i / mean F), rbar its mean over S; g = -r/(1 + <p,r>),"
    " L the largest it can be; alpha = 4KL/strength, beta = 1/(4L); round t.",
)


@app.command(epilog=EPILOG)
def methods(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Only these methods.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    """The table of methods: formulas, options with their defaults, references."""
    for name in names or []:
        if name not in METHODS:
            raise unknown("method", name, METHODS)
    rows = [METHODS[name] for name in names or METHODS]
    if as_json:
        typer.echo(json.dumps({row.name: as_dict(row) for row in rows}, indent=2))
    elif sys.stdout.isatty():
        show(rows)
    else:
        typer.echo(plain(rows))


def as_dict(row: Method) -> dict[str, Any]:
    """A row of the table for programs."""
    return {
        "title": row.title,
        "formula": row.formula,
        "reference": row.reference,
        "everybody": row.everybody,
        "options": {
            name: {"default": o.default, "expected": o.expected, "help": o.help}
            for name, o in row.options.items()
        },
    }


def options(row: Method) -> list[tuple[str, str]]:
    """(name=default, what it does) of each option."""
    shown = []
    for name, option in row.options.items():
        value = option.default
        default = f"{value:g}" if isinstance(value, float) else str(value).lower()
        choices = f" [{', '.join(option.choices)}]" if option.choices else ""
        shown.append((f"{name}={default}", f"{option.help}{choices}"))
    return shown


def plain(rows: list[Method]) -> str:
    """The table as text without decoration, one fact a line: for pipes."""
    lines = []
    for row in rows:
        lines.append(f"{row.name}: {row.title} ({row.reference})")
        lines.append(f"  {row.formula}")
        if row.everybody:
            lines.append("  all clients take part in every round")
        lines += [f"  --set {setting}  {help}" for setting, help in options(row)]
        lines.append("")
    return "\n".join([*lines, *SYMBOLS])


def show(rows: list[Method]) -> None:
    """The table for a terminal."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for row in rows:
        title = Text.assemble((row.name, "bold cyan"), "  ", (row.title, "bold"))
        title.append(f"  {row.reference}", "dim")
        console.print(title)
        console.print(Padding(Text(row.formula, "green"), (0, 0, 0, 2)))
        if row.everybody:
            console.print(
                Padding(Text("all clients take part in every round", "dim"), (0, 0, 0, 2))
            )
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for setting, help in options(row):
            table.add_row(Text(f"--set {setting}", "yellow"), Text(help))
        if row.options:
            console.print(Padding(table, (0, 0, 0, 2)))
        console.print()
    for line in SYMBOLS:
        console.print(Text(line, "dim"))
