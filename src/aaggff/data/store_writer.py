"""Writing a federated data set to disk, row by row, in constant memory.

A store is a directory of raw, memory-mapped arrays and `manifest.json`. The rows of a client lie
side by side, so reading one client touches no other; which of them are training rows is decided
by the seed when the client is read (see `FederatedRows`), so one store serves every seed.

    x.bin          inputs, row after row (ragged text: all tokens, end to end)
    y.bin          targets
    starts.bin     ragged text only: where each row begins in x.bin
    offsets.bin    client k owns rows offsets[k]:offsets[k+1]
    train.bin      only with a published split: how many of a client's rows are training rows
    names.json     the clients' names
    manifest.json  what it was made from and how; sizes and checksums of the other files

It is written in a folder beside its place and renamed when complete, so a store that is there
is whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike

from aaggff.data.prepare import Prepare
from aaggff.data.rows import Array
from aaggff.errors import UserError
from aaggff.federation.data import Task

FORMAT = 1
MANIFEST = "manifest.json"
# What an array in a store may consist of: plain numbers, never objects.
DTYPES = ("uint8", "int8", "int16", "uint16", "int32", "int64", "float16", "float32", "float64")


class StoreWriter:
    """Writes a store row by row in constant memory; complete or not there at all.

    Give each client's rows together (several `add` calls in a row are fine). shape is one stored
    sample's shape; with ragged=True samples are 1-D and shape is (longest length,). Rows added
    with test=True form a published test part; they come after the client's other rows.

        with StoreWriter(path, "mine", task, dtype="uint8", shape=(3, 32, 32)) as writer:
            for client, x, y in clients:
                writer.add(client, x, y)
    """

    def __init__(
        self,
        path: str | Path,
        name: str,
        task: Task,
        *,
        dtype: str,
        shape: Sequence[int],
        target_dtype: str = "int64",
        target_shape: Sequence[int] = (),
        ragged: bool = False,
        prepare: Prepare | None = None,
        standardise: int = 0,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        for each in (dtype, target_dtype):
            if each not in DTYPES:
                raise UserError(f"a store holds {', '.join(DTYPES)}, not {each!r}")
        self.path = Path(path)
        self.about: dict[str, Any] = dict(about or {})
        self._manifest = {
            "format": FORMAT,
            "name": name,
            "task": asdict(task),
            "sample": {"dtype": dtype, "shape": list(shape), "ragged": ragged},
            "target": {"dtype": target_dtype, "shape": list(target_shape)},
            "prepare": (prepare or Prepare()).to_json(),
            "standardise": standardise,
        }
        self._dtype, self._shape, self._ragged = np.dtype(dtype), tuple(shape), ragged
        self._target_dtype, self._target_shape = np.dtype(target_dtype), tuple(target_shape)
        self._names: dict[str, int] = {}
        self._counts: list[int] = []
        self._train: list[int] = []
        self._tokens = 0
        self._published = False

    def __enter__(self) -> StoreWriter:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._partial = self.path.with_name(f".{self.path.name}.partial-{secrets.token_hex(4)}")
        self._partial.mkdir()
        self._x = _Hashed(self._partial / "x.bin")
        self._y = _Hashed(self._partial / "y.bin")
        self._starts = _Hashed(self._partial / "starts.bin") if self._ragged else None
        return self

    def add(
        self, client: str, x: ArrayLike | Sequence[ArrayLike], y: ArrayLike, *, test: bool = False
    ) -> None:
        """Append rows of one client."""
        targets = _fitted(y, self._target_dtype, f"client {client!r}: targets")
        if targets.shape[1:] != self._target_shape:
            raise UserError(
                f"client {client!r}: targets of shape {targets.shape[1:]}, not {self._target_shape}"
            )
        rows = self._write_ragged(client, x) if self._ragged else self._write_dense(client, x)
        if rows != len(targets):
            raise UserError(f"client {client!r}: {rows} inputs but {len(targets)} targets")
        self._y.write(targets)
        self._count(client, rows, test)

    def _write_dense(self, client: str, x: Any) -> int:
        inputs = _fitted(x, self._dtype, f"client {client!r}: inputs")
        if inputs.shape[1:] != self._shape:
            raise UserError(
                f"client {client!r}: inputs of shape {inputs.shape[1:]}, not {self._shape}"
            )
        self._x.write(inputs)
        return len(inputs)

    def _write_ragged(self, client: str, x: Any) -> int:
        assert self._starts is not None
        for text in x:
            tokens = _fitted(text, self._dtype, f"client {client!r}: inputs")
            if tokens.ndim != 1 or tokens.size > self._shape[0]:
                raise UserError(
                    f"client {client!r}: a row of shape {tokens.shape}; rows are 1-D and at most "
                    f"{self._shape[0]} long"
                )
            self._starts.write(np.array([self._tokens], dtype=np.int64))
            self._x.write(tokens)
            self._tokens += tokens.size
        return len(x)

    def _count(self, client: str, rows: int, test: bool) -> None:
        number = self._names.setdefault(client, len(self._names))
        if number == len(self._counts):
            self._counts.append(0)
            self._train.append(0)
        elif number != len(self._counts) - 1:
            raise UserError(
                f"client {client!r} was added before another one; add its rows together"
            )
        if not test and self._train[-1] != self._counts[-1]:
            raise UserError(f"client {client!r}: training rows come before test rows")
        self._counts[-1] += rows
        self._train[-1] += 0 if test else rows
        self._published |= test

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        files = [self._x, self._y] + ([self._starts] if self._starts else [])
        try:
            if kind is None:
                self._finish(files)
        finally:
            for file in files:
                file.close()
            shutil.rmtree(self._partial, ignore_errors=True)

    def _finish(self, files: list[_Hashed]) -> None:
        if not self._counts:
            raise UserError(f"{self._manifest['name']}: no client has any sample")
        offsets = np.concatenate([[0], np.cumsum(self._counts)]).astype(np.int64)
        if self._starts:
            self._starts.write(np.array([self._tokens], dtype=np.int64))
        extra = [("offsets.bin", offsets)]
        if self._published:
            extra.append(("train.bin", np.array(self._train, dtype=np.int64)))
        for name, values in extra:
            files.append(_Hashed(self._partial / name))
            files[-1].write(values)
        names = _Hashed(self._partial / "names.json")
        names.write(np.frombuffer(json.dumps(list(self._names)).encode(), dtype=np.uint8))
        files.append(names)
        for file in files:
            file.close()
        manifest = {
            **self._manifest,
            "clients": len(self._counts),
            "samples": int(offsets[-1]),
            "mean": float(np.mean(self._counts)),
            "deviation": float(np.std(self._counts)),
            "about": self.about,
            "files": {
                file.path.name: {"bytes": file.bytes, "sha256": file.digest.hexdigest()}
                for file in files
            },
        }
        (self._partial / MANIFEST).write_text(json.dumps(manifest, indent=1, allow_nan=False))
        _swap_in(self._partial, self.path)


def _fitted(values: Any, dtype: np.dtype[Any], what: str) -> Array:
    """The values in the type they are stored in: whole numbers exactly, or it is an error."""
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "biuf":
        raise UserError(f"{what} hold {array.dtype}, expected numbers")
    if array.dtype == dtype:
        return array
    with np.errstate(invalid="ignore", over="ignore"):
        fitted: Array = array.astype(dtype)
    if dtype.kind != "f" and not np.array_equal(fitted, array):
        raise UserError(f"{what} do not fit the {dtype} this store holds")
    return fitted


class _Hashed:
    """A file being written whose size and checksum are known at the end."""

    def __init__(self, path: Path) -> None:
        self.path, self.bytes, self.digest = path, 0, hashlib.sha256()
        self._file: BinaryIO = path.open("wb", buffering=1 << 20)

    def write(self, values: Array) -> None:
        data = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
        self._file.write(data)
        self.digest.update(data)
        self.bytes += data.nbytes

    def close(self) -> None:
        self._file.close()


def _swap_in(new: Path, place: Path) -> None:
    """Put a complete directory in its place; what was there before goes away."""
    old = place.with_name(f".{place.name}.old-{secrets.token_hex(4)}")
    if place.exists():
        os.replace(place, old)
    os.replace(new, place)
    shutil.rmtree(old, ignore_errors=True)
