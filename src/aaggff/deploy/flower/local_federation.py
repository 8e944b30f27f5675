"""A whole Flower federation on this machine: real processes, TLS, sites that prove who they are.

What `python federation.py` of a generated app starts, and what the tests kill.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from aaggff.deploy.flower.environment import QUIET
from aaggff.deploy.flower.processes import Processes, program
from aaggff.deploy.lock import alone
from aaggff.errors import UserError, unknown
from aaggff.federation.record import DONE, ROUNDS

KNOWN_KEY = "[code: 23]"
"""Flower's answer to a public key that is registered already."""

ACCEPTED = "SuperNode ID:"
"""What a SuperNode says when the SuperLink has let it in."""

FINISHED = ("finished:completed", "finished:failed", "finished:stopped")


class LocalFederation:
    """SuperLink, SuperNodes and runs of one app.

    app: the app's folder, with `keys/` made by its make_keys.py. home: where databases, logs and
    Flower's own files go. host: the address the SuperLink listens on. prefix: for each site, a
    command before its process (for instance one that enters a network namespace).
    """

    def __init__(
        self,
        app: Path,
        home: Path,
        *,
        sites: int = 4,
        host: str = "127.0.0.1",
        prefix: Sequence[Sequence[str]] = (),
    ) -> None:
        self.app, self.home, self.sites, self.host = app.resolve(), home.resolve(), sites, host
        self.keys = self.app / "keys"
        if not (self.keys / "ca.crt").exists():
            raise UserError(f"{self.keys} holds no keys; make them: python make_keys.py")
        self.prefix = [list(command) for command in prefix] or [[] for _ in range(sites)]
        self.port = free_port(host)
        # The database holds models and updates: nobody else's business.
        self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.environment = {
            **os.environ,
            **QUIET,
            "FLWR_HOME": str(self.home),
            # Flower starts its other programs by name.
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        }
        self.processes = Processes(self.home, self.environment)
        self._held = contextlib.ExitStack()
        (self.home / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "{host}:{self.port}"\n'
            f'root-certificates = "{self.keys / "ca.crt"}"\n'
        )

    def __enter__(self) -> Self:
        self._held.enter_context(alone(self.home, patience=0))
        self.processes.sweep()  # what a predecessor could not end because it was killed
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._held:
            self.processes.end(last="superlink")

    def start(self) -> None:
        """The SuperLink, every site registered, every SuperNode accepted."""
        self.start_superlink()
        for site in range(self.sites):
            self.register(site)
        for site in range(self.sites):
            self.start_site(site)
        self.until_accepted()

    def start_superlink(self) -> None:
        """Also again after it was killed: the database remembers the sites."""
        certificates = ("--ssl-ca-certfile", "ca.crt"), ("--ssl-certfile", "server.crt"), (
            "--ssl-keyfile", "server.key")  # fmt: skip
        self.processes.start(
            "superlink",
            [
                program("flower-superlink"),
                *(word for flag, file in certificates for word in (flag, str(self.keys / file))),
                *("--enable-supernode-auth", "--host", self.host, "--port", str(self.port)),
                *("--database", str(self.home / "superlink.db")),
            ],
        )
        self._until_healthy()

    def register(self, site: int) -> None:
        """Tell the SuperLink a site's public key: without it the site is refused."""
        try:
            self._flwr("supernode", "register", str(self.keys / f"site-{site}.pub"), "here")
        except UserError as error:
            # The database of an earlier start knows it already.
            if KNOWN_KEY not in str(error):
                raise

    def start_site(self, site: int) -> None:
        """The site's SuperNode, which proves with its private key who it is."""
        self.processes.start(
            f"site-{site}",
            [
                *self.prefix[site],
                program("flower-supernode"),
                *("--root-certificates", str(self.keys / "ca.crt")),
                *("--auth-supernode-private-key", str(self.keys / f"site-{site}.key")),
                *("--superlink", f"{self.host}:{self.port}"),
                *("--host", "127.0.0.1", "--port", str(free_port("127.0.0.1"))),
                *("--node-config", f"partition-id={site} num-partitions={self.sites}"),
            ],
        )

    def until_accepted(self, timeout: float = 150) -> None:
        """Until the SuperLink has let every site in.

        A site that was killed counts as there until it has missed two heartbeats, a minute or so;
        till then its successor is refused, ends, and is started again here.
        """
        end = time.monotonic() + timeout
        waiting = set(range(self.sites))
        while waiting:
            if time.monotonic() > end:
                last = self.processes.said(f"site-{min(waiting)}")[-2000:]
                raise UserError(f"sites {sorted(waiting)} were not let in:\n{last}")
            time.sleep(0.3)
            for site in sorted(waiting):
                name = f"site-{site}"
                if ACCEPTED in self.processes.said(name):
                    waiting.remove(site)
                elif self.processes.running[name].poll() is not None:
                    self.processes.kill(name)
                    self.start_site(site)

    def check(self, settings: Mapping[str, object]) -> None:
        """Refuse a setting that the app's pyproject.toml lacks: Flower does not say which it is."""
        about = tomllib.loads((self.app / "pyproject.toml").read_text(encoding="utf-8"))
        known = about["tool"]["flwr"]["app"]["config"]
        for name in settings:
            if name not in known:
                raise unknown("setting", name, known)

    def submit(self, settings: Mapping[str, object]) -> str:
        """Start a run with settings of the app's own (`rounds`, `method`, ...); its id."""
        self.check(settings)
        words = [f"{name}={_toml(value)}" for name, value in settings.items()]
        chosen = ["--run-config", " ".join(words)] if words else []
        return str(self._answer("run", str(self.app), "here", *chosen)["run-id"])

    def status(self, run: str) -> str:
        """pending, starting, running, or finished:completed, :failed, :stopped."""
        return str(self._answer("list", "here", "--run-id", run)["runs"][0]["status"])

    def run_log(self, run: str) -> str:
        """What the ServerApp of a run has said."""
        return self._flwr("log", run, "here", "--show")

    def follow(self, run: str, directory: Path, timeout: float) -> Iterator[dict[str, Any]]:
        """The records of a run's rounds as they are written, until it is over.

        A run that does not end well is a UserError with the last words of its ServerApp.
        """
        began = asked = time.monotonic()
        seen, written, status = 0, -1, ""
        while True:
            # Asking costs a second of processor time, looking at a file's size costs nothing.
            now = time.monotonic()
            patience = 2 if (directory / DONE).exists() else min(30, 5 + (now - began) / 10)
            if now - asked > patience:
                status, asked = self.status(run), time.monotonic()
            if (size := _size(directory / ROUNDS)) != written:
                written, records = size, read_records(directory)
                yield from records[seen:]
                seen = len(records)
            if status in FINISHED:
                break
            if now - began > timeout:
                raise TimeoutError(f"run {run} is {status} after {timeout:.0f} s")
            time.sleep(0.3)
        if status != FINISHED[0]:
            last = "\n".join(self.run_log(run).strip().splitlines()[-15:])
            raise UserError(f"run {run} ended as {status}:\n{last}")

    def _until_healthy(self, timeout: float = 60) -> None:
        url = f"https://{self.host}:{self.port}/health"
        process = self.processes.running["superlink"]
        trusted = ssl.create_default_context(cafile=str(self.keys / "ca.crt"))
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if process.poll() is not None:
                break
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(url, verify=trusted, timeout=2).is_success:
                    return
            time.sleep(0.3)
        raise UserError(f"the SuperLink does not come up:\n{self.processes.said('superlink')}")

    def _answer(self, *words: str) -> dict[str, Any]:
        """What flwr says as JSON; its exit code is 0 also when that is an error."""
        said: dict[str, Any] = json.loads(self._flwr(*words, "--format", "json"))
        if not said.get("success"):
            raise UserError(f"flwr {words[0]}: {' '.join(str(said.get('error-message')).split())}")
        return said

    def _flwr(self, *words: str) -> str:
        done = subprocess.run(
            [program("flwr"), *words],
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode:
            raise UserError(f"flwr {words[0]}: {done.stdout.strip()} {done.stderr.strip()}")
        return done.stdout


def read_records(directory: Path) -> list[dict[str, Any]]:
    """The rounds a run directory holds so far; a line that is still being written waits."""
    with contextlib.suppress(FileNotFoundError):
        lines = (directory / ROUNDS).read_text(encoding="utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]
    return []


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def free_port(host: str) -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _toml(value: object) -> str:
    """As Flower's --run-config wants it; text that is a TOML value already stays as it is.

    >>> [_toml(value) for value in (True, 3, "3", "term", "cdf=frechet", "'term'")]
    ['true', '3', '3', "'term'", "'cdf=frechet'", "'term'"]
    """
    text = str(value).lower() if isinstance(value, bool) else str(value)
    try:
        tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return f"'{text}'"
    return text
