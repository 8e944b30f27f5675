"""The command line: one file per command, imported only when that command is asked for."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of `aaggff`."""
    try:
        from aaggff.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("aaggff"):
            raise
        needed = f"the command line needs the package {error.name!r}"
        print(f"aaggff: {needed}: pip install 'aaggff[train]'", file=sys.stderr)
        sys.exit(2)
    app()
