"""LEAF's json: {"users": [...], "num_samples": [...], "user_data": {user: {"x": [], "y": []}}}."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aaggff.errors import UserError

PARTS = ("train", "val", "test")
PLACES = (".", "data")
"""LEAF's scripts write into `data/`, its archives unpack without."""


def leaf_files(folder: Path) -> dict[str, list[Path]]:
    """The json files of the published parts; or under "all" those of a data set that has none.

    Parts are in train/, val/ and test/; undivided data is in all_data/.
    """
    for place in PLACES:
        parts = {part: sorted((folder / place / part).glob("*.json")) for part in PARTS}
        if parts["train"] and parts["test"]:
            return {part: files for part, files in parts.items() if files}
        undivided = sorted((folder / place / "all_data").glob("*.json"))
        if undivided:
            return {"all": undivided}
    return {}


def leaf_users(path: Path) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """Each user's inputs and targets, of equal length; a damaged file is named."""
    again = "fetch it again, or make it again with LEAF's script"
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise UserError(f"{path} is cut or damaged ({error}): {again}") from None
    users = content.get("user_data") if isinstance(content, dict) else None
    if not isinstance(users, dict):
        raise UserError(f"{path} has no 'user_data', so it is not LEAF's json: {again}")
    for name in content.get("users", users):
        data = users.get(name)
        if not isinstance(data, dict) or not all(
            isinstance(data.get(key), list) for key in ("x", "y")
        ):
            raise UserError(f"{path}: user {name!r} has no lists 'x' and 'y': {again}")
        if len(data["x"]) != len(data["y"]):
            raise UserError(
                f"{path}: user {name!r} has {len(data['x'])} inputs and {len(data['y'])} targets: "
                f"{again}"
            )
        yield str(name), data["x"], data["y"]
