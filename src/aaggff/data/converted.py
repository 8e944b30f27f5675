"""From official files to a store: made once, then reused by every seed and every run.

The store lies beside the files, in DIR/NAME/.store-HASH, or in the user's cache folder where DIR
is read-only. HASH stands for the options that change what is stored; the manifest says which files
it was made from, and when one of them has changed since, the store is made anew. A conversion that
is interrupted leaves nothing that could be mistaken for a store; the next one begins afresh.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aaggff.data.spec import DatasetSpec
from aaggff.data.store import read_manifest
from aaggff.data.store_writer import FORMAT, MANIFEST
from aaggff.errors import UserError
from aaggff.version import __version__

Convert = Callable[[Path, Path, dict[str, Any]], None]
"""`convert(folder, store, about)`: read the official files, write the store with `about` in it."""

HASHED_UP_TO = 1 << 28
"""Official files larger than this are known by size and date only, smaller ones by SHA-256 too."""


def converted(
    spec: DatasetSpec,
    root: Path | None,
    options: Mapping[str, Any],
    source: Callable[[Path], Sequence[Path]],
    convert: Convert,
    *,
    skip_corrupt: bool = True,
) -> Path:
    """The store of a data set under these options, made now if it is not there or out of date.

    Args:
        spec: whose files and rights these are.
        root: the data folder, as `load` got it.
        options: what the stored bytes depend on, the seed only where they do.
        source: the files and folders that tell whether the official files have changed; of a
            folder the date counts, which changes when a file comes or goes.
        convert: does the work.
        skip_corrupt: False refuses a store that was made leaving out unreadable files.
    """
    folder = spec.folder(root)
    key = json.dumps([spec.name, FORMAT, sorted(options.items())], default=str)
    stores = [
        folder / f".store-{_short(key)}",
        _cache() / f"{spec.name}-{_short(key + str(folder.resolve()))}",
    ]
    absent = spec.absent(root)
    fingerprint = None if absent else _fingerprint(folder, source(folder))
    for store in stores:
        # With the official files gone, the store made from them serves as well.
        if _is_current(store, fingerprint):
            return _refuse_gaps(store, skip_corrupt)
    if absent:
        spec.require(root)
    place = stores[0] if _writable(folder) else stores[1]
    with _alone(place):
        # Another process may have made it while this one waited.
        if not _is_current(place, fingerprint):
            _remove_leftovers(place)
            convert(folder, place, _about(spec, options, folder, source(folder), fingerprint))
    return _refuse_gaps(place, skip_corrupt)


def _is_current(store: Path, fingerprint: list[Any] | None) -> bool:
    if not (store / MANIFEST).exists():
        return False
    try:
        made_from = read_manifest(store)["about"].get("source")
    except UserError:
        return False  # of another format, or damaged: to be made anew
    return fingerprint is None or made_from == fingerprint


def _refuse_gaps(store: Path, skip_corrupt: bool) -> Path:
    skipped = read_manifest(store)["about"].get("skipped", [])
    if skipped and not skip_corrupt:
        raise UserError(
            f"{skipped[0]} cannot be read ({len(skipped)} such files in all): fetch it again, or "
            "leave such files out with --skip-corrupt"
        )
    return store


def _fingerprint(folder: Path, paths: Sequence[Path]) -> list[Any]:
    """Name, size and date of each file, name and date of each folder."""
    found = []
    for path in paths:
        facts = path.stat()
        size = None if path.is_dir() else facts.st_size
        found.append([path.relative_to(folder).as_posix(), size, facts.st_mtime_ns])
    return found


def _about(
    spec: DatasetSpec,
    options: Mapping[str, Any],
    folder: Path,
    paths: Sequence[Path],
    fingerprint: list[Any] | None,
) -> dict[str, Any]:
    return {
        "title": spec.title,
        "licence": spec.licence,
        "credit": spec.credit,
        "options": dict(options),
        "source": fingerprint,
        "sha256": {
            path.relative_to(folder).as_posix(): _sha256(path)
            for path in paths
            if path.is_file() and path.stat().st_size <= HASHED_UP_TO
        },
        "made_by": f"aaggff {__version__}",
    }


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _short(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "aaggff" / "stores"


def _writable(folder: Path) -> bool:
    """Whether a file can be made there: permissions alone do not tell on a read-only disk."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """One process at a time converts into a folder; the others wait and then find the store."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / ".store.lock").open("w") as lock:
        try:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        except (ImportError, OSError):
            pass  # without locks two processes may do the same work twice; each stays whole
        yield


def _remove_leftovers(place: Path) -> None:
    """What a killed conversion left behind; nobody else is at work here."""
    for path in place.parent.glob(f".{place.name}.*"):
        shutil.rmtree(path, ignore_errors=True)
