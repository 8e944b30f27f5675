"""One file from one of its official addresses: resumed, checked, and there whole or not at all.

While it is fetched it is called `.NAME.part`, beside which `.NAME.part.json` says where from and
in which version; so an interrupted download goes on where it stopped, and only if the server still
has the same file.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from aaggff.errors import UserError
from aaggff.version import __version__

Progress = Callable[[int, int | None], None]
"""`progress(bytes so far, bytes in all or None)`."""

ATTEMPTS = 4
"""At one address, in a row without a single new byte."""
TIMEOUT = 30.0
"""Seconds without a byte until a connection counts as stalled."""
MARGIN = 100 << 20
"""Bytes of the disk that stay free."""
_CHUNK = 1 << 18
_LOCAL = ("localhost", "127.0.0.1", "::1")


class _Failed(Exception):
    """One address cannot give the file; the next may."""


def download(
    urls: Sequence[str],
    target: Path,
    *,
    size: int | None = None,
    checksum: str | None = None,
    progress: Progress | None = None,
    allow_http: bool = False,
    timeout: float = TIMEOUT,
    pause: float = 1.0,
) -> Path:
    """Fetch `target` from the first of `urls` that gives the right file.

    size, checksum ("sha256:..." or "md5:..."): what is published of it; a file that differs is
    thrown away and the next address tried. Addresses without https are used only where there is a
    checksum, or with allow_http=True. pause: seconds before a second attempt, doubled each time.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    reasons = []
    with _alone(target.parent):
        for url in urls:
            try:
                _check_scheme(url, allow_http or checksum is not None)
                fetch = _Fetch(url, part, size, checksum, progress, allow_http, timeout)
                fetch.run(pause)
                if fetch.resumed and differs(part, size, checksum):
                    # What was there before may be what is wrong: once more, from the start.
                    part.unlink()
                    fetch.run(pause)
                _verify(part, size, checksum)
            except _Failed as error:
                reasons.append(f"{url}: {error}")
                continue
            os.replace(part, target)
            part.with_name(part.name + ".json").unlink(missing_ok=True)
            return target
    kept = f" ({part.stat().st_size:,} bytes are kept)" if part.exists() else ""
    raise UserError(
        f"{target.name} cannot be downloaded{kept}: {'; '.join(reasons) or 'it has no address'}"
    )


def _verify(path: Path, size: int | None, checksum: str | None) -> None:
    """Complain about, and delete, a partial file that turned out to be another one."""
    complaint = differs(path, size, checksum)
    if complaint:
        path.unlink()
        path.with_name(path.name + ".json").unlink(missing_ok=True)
        raise _Failed(f"{complaint}; it was deleted")


def differs(path: Path, size: int | None = None, checksum: str | None = None) -> str | None:
    """In what a file differs from what is published of it, or None."""
    actual = path.stat().st_size
    if size is not None and actual != size:
        return f"{actual:,} bytes where {size:,} are published"
    if checksum is not None:
        kind, _, expected = checksum.partition(":")
        if kind not in ("sha256", "md5"):
            raise ValueError(f"a checksum begins with sha256: or md5:, not {checksum!r}")
        with path.open("rb") as stream:
            found = hashlib.file_digest(stream, kind).hexdigest()
        if found != expected.lower():
            return f"its {kind} is {found} where {expected} is published"
    return None


class _Fetch:
    """Getting one address's bytes into the partial file, over as many connections as it takes."""

    def __init__(
        self,
        url: str,
        part: Path,
        size: int | None,
        checksum: str | None,
        progress: Progress | None,
        allow_http: bool,
        timeout: float,
    ) -> None:
        self.url, self.part, self.size, self.checksum = url, part, size, checksum
        self.progress: Progress = progress or (lambda done, total: None)
        self.timeout = timeout
        self.facts = part.with_name(part.name + ".json")
        self.resumed = False
        self.opener = _opener(allow_http or checksum is not None)

    def run(self, pause: float) -> None:
        failures = 0
        while True:
            before = self._have()
            try:
                if self._connection():
                    return
                reason = "the connection ended early"
            except _Failed:
                raise
            except HTTPError as error:
                if error.code == 416:
                    if error.headers.get("Content-Range", "").strip() == f"bytes */{before}":
                        return  # we have it all: only the renaming was left to do
                    self.part.unlink(missing_ok=True)
                elif error.code not in (408, 429, 500, 502, 503, 504):
                    raise _Failed(f"answered {error.code} {error.reason}") from error
                reason = f"answered {error.code} {error.reason}"
            except TimeoutError:
                reason = f"nothing came for {self.timeout:g} s"
            except (URLError, http.client.HTTPException, OSError) as error:
                cause = getattr(error, "reason", error)
                if isinstance(cause, socket.gaierror):
                    raise _Failed("no network, or no server of that name") from error
                if isinstance(cause, TimeoutError):
                    cause = f"nothing came for {self.timeout:g} s"
                reason = str(cause) or type(error).__name__
            failures = 0 if self._have() > before else failures + 1
            if failures >= ATTEMPTS:
                raise _Failed(reason)
            time.sleep(pause * 2 ** max(0, failures - 1))

    def _have(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _connection(self) -> bool:
        """One request; True when the file is whole."""
        have, version = self._resumable()
        if self.size is not None and have == self.size:
            self.resumed = True
            return True
        request = Request(self.url, headers={
            "User-Agent": f"aaggff/{__version__}",
            "Accept-Encoding": "identity",
            **({"Range": f"bytes={have}-"} if have else {}),
            **({"If-Range": version} if have and version else {}),
        })  # fmt: skip
        with self.opener.open(request, timeout=self.timeout) as answer:
            start, total = self._promised(answer, have)
            if self.size is not None and total is not None and total != self.size:
                raise _Failed(f"has {total:,} bytes where {self.size:,} are published")
            if total is not None:
                enough_space(self.part.parent, total - start)
            self.resumed = start > 0
            if start == 0:
                self._remember(answer)
            # A server that starts afresh overwrites what we had.
            with self.part.open("r+b" if start else "wb") as stream:
                stream.seek(start)
                stream.truncate()
                self._copy(answer, stream, start, total)
        expected = self.size if total is None else total
        return expected is None or self._have() == expected

    def _promised(self, answer: Any, have: int) -> tuple[int, int | None]:
        """At which byte the answer starts and how many there are in all."""
        kind = answer.headers.get_content_type()
        if kind == "text/html" and not self.part.name.removesuffix(".part").endswith(".html"):
            raise _Failed("answered with a web page instead of the file")
        if answer.headers.get("Content-Encoding", "identity") not in ("identity", ""):
            raise _Failed("answered with an encoding that was not asked for")
        if answer.status == 206:
            given = re.fullmatch(
                r"bytes (\d+)-(\d+)/(\d+|\*)", answer.headers.get("Content-Range", "").strip()
            )
            if given is None or int(given[1]) != have:
                # It says that it sends a part, but not the part that was asked for.
                self.part.unlink(missing_ok=True)
                raise OSError("answered with another part of the file than was asked for")
            return have, None if given[3] == "*" else int(given[3])
        length = answer.headers.get("Content-Length")
        return 0, int(length) if length and length.isdigit() else None

    def _copy(self, answer: Any, stream: IO[bytes], done: int, total: int | None) -> None:
        bound = total if total is not None else self.size
        self.progress(done, bound)
        checked = done
        while chunk := answer.read1(_CHUNK):
            done += len(chunk)
            if bound is not None and done > bound:
                raise _Failed(f"sent more than the {bound:,} bytes it has")
            if done - checked >= MARGIN // 2:
                enough_space(self.part.parent, 0)
                checked = done
            stream.write(chunk)
            self.progress(done, bound)

    def _resumable(self) -> tuple[int, str | None]:
        """How many bytes may be gone on from, and the server's name for their version."""
        have = self._have()
        if not have:
            return 0, None
        try:
            facts = json.loads(self.facts.read_text(encoding="utf-8"))
            same, version = facts["url"] == self.url, facts["version"]
        except (OSError, ValueError, KeyError, TypeError):
            same, version = False, None
        if same and isinstance(version, str):
            return have, version
        # Without a version only a checksum can tell whether the pieces belong together.
        return (have, None) if self.checksum else (0, None)

    def _remember(self, answer: Any) -> None:
        tag = answer.headers.get("ETag", "")
        # A weak tag ("W/...") promises the same meaning, not the same bytes.
        version = tag if tag.startswith('"') else answer.headers.get("Last-Modified")
        self.facts.write_text(json.dumps({"url": self.url, "version": version}), encoding="utf-8")


def enough_space(folder: Path, needed: int) -> None:
    """Complain now rather than when the disk is full."""
    free = shutil.disk_usage(folder).free
    if needed + MARGIN > free:
        raise UserError(
            f"{folder}: {(needed + MARGIN) / 1e9:.1f} GB are needed and {free / 1e9:.1f} GB are "
            "free; --data-dir (or AAGGFF_DATA) chooses another disk"
        )


def _check_scheme(url: str, http_is_fine: bool) -> None:
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOCAL):
        return
    if parts.scheme != "http":
        raise _Failed("is no web address")
    if not http_is_fine:
        raise _Failed("is not https and no checksum is published (--allow-http fetches it so)")


def _opener(http_is_fine: bool) -> OpenerDirector:
    class Redirects(HTTPRedirectHandler):
        def redirect_request(
            self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
        ) -> Request | None:
            _check_scheme(newurl, http_is_fine)
            return super().redirect_request(req, fp, code, msg, headers, newurl)

    return build_opener(Redirects)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two fetches into one folder would write into each other's files."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(f"another process is fetching into {folder}; wait for it") from None
        yield
    finally:
        os.close(handle)  # which unlocks
