"""Errors for a user's mistakes: one clear line, never a traceback on the command line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Something the user can put right; the message says what and how."""


def unknown(what: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that does not exist, with the nearest one that does."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    known_are = f"known: {', '.join(names)}" if names else "there are none"
    return UserError(f"unknown {what} {name!r}{hint} ({known_are})")
