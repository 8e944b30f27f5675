"""`aaggff deploy`: from the comparison on a laptop to a real federation."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True)

NEXT = {
    "flower": ["python make_keys.py", "python federation.py rounds=5"],
    "nvflare": ["python job.py --record record"],
}


@app.callback()
def deploy() -> None:
    """A runnable app for Flower or NVFlare, with the same decision makers."""


@app.command(epilog="Example: aaggff deploy new my-federation --framework flower")
def new(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to put the app.")],
    framework: Annotated[str, typer.Option("--framework", help="flower or nvflare.")] = "flower",
) -> None:
    """A complete app for your model and data, with TLS and authenticated sites.

    As it stands it trains on UCI Heart Disease's four hospitals; one file is yours to change.
    """
    from aaggff.deploy.template import new_app

    new_app(directory, framework)
    typer.echo(f"wrote {directory}; next:")
    for command in (f"cd {shlex.quote(str(directory))}", *NEXT[framework]):
        typer.echo(f"  {command}")
    typer.echo("README.md there has the rest")
