"""A whole Flower federation on this machine: real processes, TLS, sites that prove who they are.

What `python federation.py` of a generated app starts, and what the tests kill.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from aaggff.errors import UserError

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""Flower calls nobody, and does not build an environment a run."""

MARK = "AAGGFF_LOCAL_FEDERATION"
"""In the environment of all that is started here, so that it can be found and ended."""

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
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.home.mkdir(parents=True, exist_ok=True)
        here = str(Path(sys.executable).parent)
        self.environment = {
            **os.environ,
            **QUIET,
            "FLWR_HOME": str(self.home),
            # Flower starts its other programs by name.
            "PATH": os.pathsep.join([here, os.environ.get("PATH", "")]),
        }
        (self.home / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "{host}:{self.port}"\n'
            f'root-certificates = "{self.keys / "ca.crt"}"\n'
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name in list(self.running):
            self.stop(name)

    def start(self) -> None:
        """The SuperLink, every site registered, every SuperNode."""
        self.start_superlink()
        for site in range(self.sites):
            self.register(site)
        for site in range(self.sites):
            self.start_site(site)

    def start_superlink(self) -> None:
        """Also again after it was killed: the database remembers the sites."""
        certificates = ("--ssl-ca-certfile", "ca.crt"), ("--ssl-certfile", "server.crt"), (
            "--ssl-keyfile", "server.key")  # fmt: skip
        self._spawn(
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
        self._flwr("supernode", "register", str(self.keys / f"site-{site}.pub"), "here")

    def start_site(self, site: int, *, name: str | None = None, key: Path | None = None) -> None:
        """The site's SuperNode, which proves with its private key who it is."""
        self._spawn(
            name or f"site-{site}",
            [
                *self.prefix[site],
                program("flower-supernode"),
                *("--root-certificates", str(self.keys / "ca.crt")),
                *("--auth-supernode-private-key", str(key or self.keys / f"site-{site}.key")),
                *("--superlink", f"{self.host}:{self.port}"),
                *("--host", "127.0.0.1", "--port", str(free_port("127.0.0.1"))),
                *("--node-config", f"partition-id={site} num-partitions={self.sites}"),
            ],
        )

    def submit(self, **settings: object) -> str:
        """Start a run; its id."""
        words = [f"{name.replace('_', '-')}={_toml(value)}" for name, value in settings.items()]
        chosen = ["--run-config", " ".join(words)] if words else []
        said = self._flwr("run", str(self.app), "here", "--format", "json", *chosen)
        return str(json.loads(said)["run-id"])

    def status(self, run: str) -> str:
        """pending, starting, running, or finished:completed, :failed, :stopped."""
        said = json.loads(self._flwr("list", "here", "--run-id", run, "--format", "json"))
        return str(said["runs"][0]["status"])

    def wait(self, run: str, timeout: float) -> str:
        """Until a run is over; its last status."""
        end = time.monotonic() + timeout
        while (status := self.status(run)) not in FINISHED:
            if time.monotonic() > end:
                raise TimeoutError(f"run {run} is {status} after {timeout:.0f} s")
            time.sleep(1)
        return status

    def processes(self, name: str) -> dict[int, str]:
        """Process id -> command line of a process and all it has started, and they theirs.

        Flower detaches what it starts, so neither parents nor groups tell; the environment does.
        """
        mark, found = f"{MARK}={self._mark(name)}".encode(), {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                    found[int(entry.name)] = b" ".join(words).decode()
            except OSError:  # gone meanwhile, or somebody else's
                continue
        return found

    def stop(self, name: str) -> None:
        """End a process and all it started, at once: kill -9."""
        process = self.running.pop(name)
        for pid in {process.pid, *self.processes(name)}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(timeout=30)

    def _mark(self, name: str) -> str:
        return f"{self.home}:{name}"

    def log(self, name: str) -> str:
        """What a process has said."""
        return (self.home / f"{name}.log").read_text(errors="replace")

    def _spawn(self, name: str, command: list[str]) -> None:
        with (self.home / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=self.environment | {MARK: self._mark(name)},
                cwd=self.home,
                start_new_session=True,
            )

    def _until_healthy(self, timeout: float = 60) -> None:
        url = f"https://{self.host}:{self.port}/health"
        trusted = ssl.create_default_context(cafile=str(self.keys / "ca.crt"))
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if (code := self.running["superlink"].poll()) is not None:
                raise UserError(f"the SuperLink ended with code {code}: {self.log('superlink')}")
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(url, verify=trusted, timeout=2).is_success:
                    return
            time.sleep(0.3)
        raise UserError(f"the SuperLink is not up after {timeout:.0f} s: {self.log('superlink')}")

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


def program(name: str) -> str:
    """A command of the environment this Python belongs to."""
    return str(Path(sys.executable).parent / name)


def free_port(host: str) -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, (int, float)) else f"'{value}'"
