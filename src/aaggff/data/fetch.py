"""Getting a data set's official files into place: downloaded, or from a folder one has."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

from aaggff.data.archives import is_archive, merge, unpack
from aaggff.data.download import Progress, differs, download, enough_space
from aaggff.data.spec import DatasetSpec, RemoteFile
from aaggff.errors import UserError

Say = Callable[[str], None]
Watch = Callable[[str, int | None], Progress]
"""`watch(what is being done, bytes if known)` returns the function to report progress to."""


def fetch(
    spec: DatasetSpec,
    root: Path | None,
    *,
    source: Path | None = None,
    link: bool = False,
    allow_http: bool = False,
    say: Say = print,
    watch: Watch = lambda what, size: lambda done, total: None,
) -> Path:
    """Put the official files of a data set into `DIR/NAME`; what is there already stays.

    source: take them from this folder (or its subfolder NAME) instead of from the net: files are
    copied, or with link=True linked to, and archives unpacked. What cannot be had either way is
    an error that says which files to put where.
    """
    folder = spec.folder(root)
    folder.mkdir(parents=True, exist_ok=True)
    if source is not None:
        source = _source(spec, source)
    failures: list[str] = []
    for file in spec.files:
        if file.present(folder):
            say(f"{_named(file)}: is here")
            continue
        try:
            _get(file, folder, source, link, allow_http, say, watch)
        except UserError as error:
            failures.append(str(error))
    absent = spec.absent(root)
    # What is optional may stay away, but not without a word.
    if failures and not absent:
        for failure in failures:
            say(failure)
    elif failures or absent:
        raise UserError(_what_to_do(spec, folder, failures, absent))
    return folder


def _what_to_do(spec: DatasetSpec, folder: Path, failures: list[str], absent: list[str]) -> str:
    few = ", ".join(absent[:4]) + (f" and {len(absent) - 4} more" if absent[4:] else "")
    parts = [f"{spec.name}: {folder} still lacks {few}", *failures]
    parts.append(
        spec.manual or f"`aaggff data fetch {spec.name} --from DIR` takes files that you have"
    )
    return ". ".join(part.rstrip(".") for part in parts)


def _source(spec: DatasetSpec, source: Path) -> Path:
    """The folder given, or its subfolder with the data set's name."""
    if not source.is_dir():
        raise UserError(f"--from {source}: there is no such folder")
    wanted = [name for file in spec.files for name in (file.name, *_tops(file))]
    for place in (source, source / spec.name):
        if any((place / name).exists() for name in wanted):
            return place
    raise UserError(f"--from {source} holds none of {', '.join(wanted)}")


def _get(
    file: RemoteFile,
    folder: Path,
    source: Path | None,
    link: bool,
    allow_http: bool,
    say: Say,
    watch: Watch,
) -> None:
    mine = folder / file.name
    if source is not None:
        theirs = source / file.name
        if theirs.is_file() and file.unpacks and is_archive(file.name):
            _unpack(file, theirs, folder, say, watch)
        elif theirs.exists():
            _bring(file, theirs, mine, link, say)
        else:
            for top in _tops(file):
                if (source / top).exists():
                    _bring(None, source / top, folder / top, link, say)
        return
    if not mine.exists():
        if not file.urls:
            return  # spec.manual says how to come by it
        progress = watch(f"fetching {file.name}", file.size)
        download(
            file.urls,
            mine,
            size=file.size,
            checksum=file.checksum,
            progress=progress,
            allow_http=allow_http,
        )
        say(f"{file.name}: fetched, {mine.stat().st_size / 1e6:,.1f} MB")
    if file.unpacks and is_archive(file.name):
        _unpack(file, mine, folder, say, watch)
        mine.unlink()


def _unpack(file: RemoteFile, archive: Path, folder: Path, say: Say, watch: Watch) -> None:
    complaint = differs(archive, file.size, file.checksum)
    if complaint:
        raise UserError(f"{archive}: {complaint}: delete it and fetch it again")
    progress = watch(f"unpacking {file.name}", None)
    unpack(archive, folder / file.into, progress=lambda done: progress(done, None))
    if not file.present(folder):
        lacking = [name for name in file.unpacks if not (folder / name).exists()]
        raise UserError(f"{archive} was unpacked but holds no {', '.join(lacking)}")
    say(f"{file.name}: unpacked into {folder / file.into}")


def _tops(file: RemoteFile) -> list[str]:
    """The files and folders, directly in the data set's folder, that an archive unpacks to."""
    if not file.unpacks:
        return []
    if file.into != ".":
        return [Path(file.into).parts[0]]
    return list(dict.fromkeys(Path(name).parts[0] for name in file.unpacks))


def _bring(file: RemoteFile | None, source: Path, target: Path, link: bool, say: Say) -> None:
    """Copy a file or a folder into place, whole or not at all; or link to it."""
    if file is not None and source.is_file():
        complaint = differs(source, file.size, file.checksum)
        if complaint:
            raise UserError(f"{source} is not the official file: {complaint}")
    if source.resolve() == target.resolve():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if link:
        if target.exists() or target.is_symlink():
            raise UserError(f"{target} is there already: move it away to link to {source}")
        target.symlink_to(source.resolve())
        say(f"{target.name}: linked to {source}")
        return
    enough_space(target.parent, _bytes(source))
    fresh = target.parent / f".copying-{secrets.token_hex(4)}"
    try:
        fresh.mkdir()
        if source.is_dir():
            # What this program left beside the files (its stores) is not official.
            shutil.copytree(source, fresh / target.name, ignore=shutil.ignore_patterns(".*"))
        else:
            shutil.copy2(source, fresh / target.name)
        merge(fresh, target.parent)
    except OSError as error:
        raise UserError(f"{source} cannot be copied to {target.parent}: {error}") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    say(f"{target.name}: copied from {source}")


def _bytes(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(
        os.path.getsize(os.path.join(where, name))
        for where, _, names in os.walk(path)
        for name in names
    )


def _named(file: RemoteFile) -> str:
    return ", ".join(file.unpacks[:3]) if file.unpacks else file.name
