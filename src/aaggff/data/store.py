"""A federated data set on disk, opened in milliseconds: see `store_writer` for what is in it.

data = open_store("cache/celeba/.store-1f2e", seed=2)
inputs, targets = data.train(7)        # reads client 7 and no other
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aaggff.data.federated import FederatedRows
from aaggff.data.prepare import Prepare
from aaggff.data.rows import Array, ArrayRows, Index, RaggedRows
from aaggff.data.store_writer import DTYPES, FORMAT, MANIFEST, StoreWriter
from aaggff.errors import UserError
from aaggff.federation.data import Task

__all__ = ["StoreWriter", "open_rows", "open_store", "read_manifest", "verify_store"]


def open_store(
    path: str | Path,
    *,
    seed: int = 0,
    groups: Sequence[Index] | None = None,
    stand_in: bool = False,
) -> FederatedRows:
    """A store as a federation's data, split by `seed` (or as published, if it holds a split).

    groups: deal the rows to clients anew, one array of row numbers per client (what a partitioner
    returns), without writing anything.
    """
    path = Path(path)
    manifest = read_manifest(path)
    rows = open_rows(path, groups)
    names: list[str] | None = None
    train_counts: Index | None = None
    if groups is None:
        names = _read_names(path, len(rows.counts))
        if "train.bin" in manifest["files"]:
            train_counts = np.array(_map(path, "train.bin", "int64", rows.counts.shape))
    return FederatedRows(
        str(manifest["name"]),
        Task(**manifest["task"]),
        rows,
        seed=seed,
        prepare=Prepare.from_json(manifest["prepare"]),
        stand_in=stand_in,
        names=names,
        standardise=int(manifest["standardise"]),
        train_counts=train_counts,
        notes=manifest["about"].get("notes", ()),
    )


def open_rows(path: str | Path, groups: Sequence[Index] | None = None) -> ArrayRows:
    """The rows of a store, mapped from disk; with `groups`, dealt to clients anew."""
    if groups is None:
        return _open(Path(path), None, None)
    order = np.concatenate([np.asarray(group, dtype=np.int64) for group in groups])
    offsets = np.concatenate([[0], np.cumsum([len(group) for group in groups])]).astype(np.int64)
    return _open(Path(path), order, offsets)


def read_manifest(path: str | Path) -> dict[str, Any]:
    """What a store was made from and how; an unreadable one says what to do."""
    file = Path(path) / MANIFEST
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path} holds no store: {MANIFEST} is missing") from None
    except ValueError as error:
        raise UserError(f"{file} is damaged ({error}): delete {path} to have it rebuilt") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise UserError(
            f"{file} is not of format {FORMAT}: delete {path} to have it rebuilt by this version"
        )
    missing = {
        "name", "task", "sample", "target", "prepare", "standardise", "clients", "samples",
        "about", "files",
    } - set(manifest)  # fmt: skip
    if missing:
        raise UserError(
            f"{file} lacks {', '.join(sorted(missing))}: delete {path} to have it rebuilt"
        )
    return manifest


def verify_store(path: str | Path) -> list[str]:
    """Read every byte and compare with the manifest's checksums; the complaints, if any."""
    path = Path(path)
    complaints = []
    for name, expected in read_manifest(path)["files"].items():
        file = path / Path(name).name
        if not file.is_file():
            complaints.append(f"{file} is missing")
            continue
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if digest != expected["sha256"]:
            complaints.append(f"{file} has changed since it was written")
    return complaints


class _StoredRows(ArrayRows):
    """Rows of a store; sent to another process as its path, not as its contents."""

    path: Path

    def __reduce__(self) -> tuple[Any, ...]:
        return _open, (self.path, self.order, self.offsets)


class _StoredRaggedRows(RaggedRows):
    """The same for rows of unequal length."""

    path: Path

    def __reduce__(self) -> tuple[Any, ...]:
        return _open, (self.path, self.order, self.offsets)


def _open(path: Path, order: Index | None, offsets: Index | None) -> ArrayRows:
    manifest = read_manifest(path)
    samples, clients = int(manifest["samples"]), int(manifest["clients"])
    sample, target = manifest["sample"], manifest["target"]
    shape = tuple(int(size) for size in sample["shape"])
    y = _map(path, "y.bin", target["dtype"], (samples, *map(int, target["shape"])))
    if offsets is None:
        offsets = np.array(_map(path, "offsets.bin", "int64", (clients + 1,)))
        if offsets[0] != 0 or offsets[-1] != samples or (np.diff(offsets) < 0).any():
            raise UserError(f"{path / 'offsets.bin'} is damaged: delete {path} to have it rebuilt")
    rows: _StoredRows | _StoredRaggedRows
    if sample["ragged"]:
        starts = _map(path, "starts.bin", "int64", (samples + 1,))
        x = _map(path, "x.bin", sample["dtype"], (int(starts[-1]),))
        rows = _StoredRaggedRows(x, starts, shape[0], y, offsets, order)
    else:
        x = _map(path, "x.bin", sample["dtype"], (samples, *shape))
        rows = _StoredRows(x, y, offsets, order)
    rows.path = path
    return rows


def _map(path: Path, name: str, dtype: str, shape: tuple[int, ...]) -> Array:
    """Map one array; a file of the wrong size is an error, so a cut one is seen at once."""
    if dtype not in DTYPES:
        raise UserError(f"{path / MANIFEST}: {dtype!r} is not a type a store may hold")
    expected = math.prod(shape) * np.dtype(dtype).itemsize
    try:
        actual = (path / name).stat().st_size
    except FileNotFoundError:
        raise UserError(f"{path / name} is missing: delete {path} to have it rebuilt") from None
    if actual != expected:
        raise UserError(
            f"{path / name} has {actual} bytes, not {expected}: delete {path} to have it rebuilt"
        )
    if expected == 0:
        return np.zeros(shape, dtype=dtype)
    # As a plain array, because slicing np.memmap is several times slower.
    return np.asarray(np.memmap(path / name, dtype=dtype, mode="r", shape=shape))


def _read_names(path: Path, clients: int) -> list[str]:
    file = path / "names.json"
    try:
        names = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{file} cannot be read ({error}): delete {path} to have it rebuilt"
        ) from None
    if not isinstance(names, list) or len(names) != clients:
        raise UserError(f"{file} does not name {clients} clients: delete {path} to have it rebuilt")
    return names
