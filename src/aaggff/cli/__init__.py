"""The command line: one file per command, imported only when that command is asked for."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of `aaggff`."""
    try:
        from aaggff.cli.app import app
    except ImportError as error:
        sys.exit(
            f"aaggff: the command line needs more packages ({error.name}): pip install 'aaggff[train]'"
        )
    app()
