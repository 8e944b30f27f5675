"""`aaggff report`: one page from run directories."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command(
    epilog="Example: aaggff compare heart --out demo && aaggff report demo -o demo/report.html"
)
def report(
    directories: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Run directories, or directories that hold some."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write it.")] = Path(
        "report.html"
    ),
) -> None:
    """One self-contained HTML page: who is served how well, by which method, and at what cost.

    It needs no network and no program but a browser.
    """
    from aaggff.report.page import write_report

    written = write_report(directories, output)
    size = written.stat().st_size
    shown = f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"
    typer.echo(f"wrote {written} ({shown}); open it in a browser")
