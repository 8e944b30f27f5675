"""Unpacking archives that somebody else made: nothing may land outside the folder, or fill it."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from aaggff.data.download import MARGIN
from aaggff.errors import UserError

KINDS = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
MOST_FILES = 1_000_000
LARGEST_RATIO = 100
"""What is unpacked may be this many times the archive: text shrinks to a tenth, bombs to 1/1000."""
_SMALL = MARGIN
_CHUNK = 1 << 20

Entry = tuple[str, bool, Callable[[], IO[bytes]]]
"""Name in the archive, whether it is a folder, and how to open it."""


def is_archive(name: str) -> bool:
    """Whether `unpack` reads it, by its name.

    >>> is_archive("speech_commands_v0.02.tar.gz"), is_archive("mqp.csv")
    (True, False)
    """
    return name.lower().endswith(KINDS)


def unpack(
    archive: Path, folder: Path, *, progress: Callable[[int], None] | None = None
) -> list[str]:
    """Unpack an archive into a folder, beside what is in it; returns the names of its top entries.

    Only plain files and folders come out. An archive with an absolute name, one that climbs out
    with "..", a link, a device, or more than it can honestly hold is refused before anything of
    it is in place: files go to a fresh folder first and are moved when all of them are there.
    Permissions are those of new files, not the archive's. progress: called with the number of
    bytes written so far.
    """
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / f".unpacking-{secrets.token_hex(4)}"
    fresh.mkdir()
    try:
        _extract(archive, fresh, progress or (lambda done: None))
        top = sorted(path.name for path in fresh.iterdir())
        merge(fresh, folder)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, OSError) as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise UserError(f"{archive}: cannot unpack into {folder}: {error}") from error
        raise UserError(
            f"{archive} is damaged or cut short ({error}): delete it and fetch it again"
        ) from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return top


def _extract(archive: Path, fresh: Path, progress: Callable[[int], None]) -> None:
    size = archive.stat().st_size
    bound = max(_SMALL, LARGEST_RATIO * size)
    written = files = 0
    with _Opened(archive) as entries:
        for name, is_folder, opened in entries:
            path = fresh.joinpath(*_safe(archive, name).parts)
            files += 1
            if files > MOST_FILES:
                raise UserError(f"{archive} holds more than {MOST_FILES:,} files: refused")
            if is_folder:
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            # "x": a name that comes twice, or a file where a folder is, is an error.
            with opened() as source, path.open("xb") as target:
                while chunk := source.read(_CHUNK):
                    written += len(chunk)
                    if written > bound:
                        raise UserError(
                            f"{archive} unpacks to more than {LARGEST_RATIO} times its size: "
                            "refused as an archive made to fill the disk"
                        )
                    if shutil.disk_usage(fresh).free < MARGIN:
                        raise UserError(f"{archive}: the disk of {fresh.parent} is full")
                    target.write(chunk)
                    progress(written)


def _safe(archive: Path, name: str) -> PurePosixPath:
    """The name as a path that stays below the folder; anything else is refused."""
    path = PurePosixPath(name)
    bad = (
        not path.parts
        or not name.strip()
        or "\0" in name
        or "\\" in name
        or ":" in path.parts[0]
        or path.is_absolute()
        or ".." in path.parts
    )
    if bad:
        raise UserError(f"{archive} is refused: {name!r} would land outside its folder")
    return path


class _Opened:
    """The entries of a zip or tar file, one after the other."""

    def __init__(self, archive: Path) -> None:
        self.archive = archive
        self.file: zipfile.ZipFile | tarfile.TarFile

    def __enter__(self) -> Iterator[Entry]:
        if self.archive.name.lower().endswith(".zip"):
            self.file = zipfile.ZipFile(self.archive)
            return self._zip(self.file)
        self.file = tarfile.open(self.archive)
        return self._tar(self.file)

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def _zip(self, file: zipfile.ZipFile) -> Iterator[Entry]:
        for info in file.infolist():
            if info.flag_bits & 1:
                raise UserError(f"{self.archive}: {info.filename!r} is encrypted")
            # Where a Unix mode is given, it may name a link or a device.
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise self._refused(info.filename)
            yield info.filename, info.is_dir(), partial(file.open, info)

    def _tar(self, file: tarfile.TarFile) -> Iterator[Entry]:
        # An entry for the folder itself is usual in tar files, and says nothing.
        for info in file:
            if info.isdir() and info.name in (".", "./"):
                continue
            if not (info.isreg() or info.isdir()):
                raise self._refused(info.name)
            yield info.name, info.isdir(), partial(_contents, file, info)

    def _refused(self, name: str) -> UserError:
        return UserError(f"{self.archive} is refused: {name!r} is a link or a device")


def _contents(file: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    opened = file.extractfile(info)
    if opened is None:
        raise tarfile.TarError(f"{info.name} has no contents")
    return opened


def merge(source: Path, target: Path) -> None:
    """Move everything below `source` to the same place below `target`, replacing files."""
    for entry in sorted(os.scandir(source), key=lambda entry: entry.name):
        place = target / entry.name
        if entry.is_dir(follow_symlinks=False) and place.is_dir() and not place.is_symlink():
            merge(Path(entry.path), place)
        elif place.is_dir() and not place.is_symlink():
            raise UserError(f"{place} is a folder where the archive has a file: move it away")
        else:
            os.replace(entry.path, place)
