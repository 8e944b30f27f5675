"""Programs that start others: each with its log, and all that it started found and ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

MARK = "AAGGFF_STARTED_FOR"
"""In the environment of all that is started here, so that it can be found and ended."""


class Processes:
    """Named processes, and everything they started.

    home: their logs go here, and it says whose they are: nothing else of this machine is touched.
    """

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        self.home, self.environment = home, dict(environment)
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._said: dict[str, int] = {}  # how long a process's log was when it was started

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start a process; what it says is appended to its log."""
        path = self.home / f"{name}.log"
        self._said[name] = len(self.log(name)) if path.exists() else 0
        with path.open("ab") as log:
            self.running[name] = subprocess.Popen(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=self.environment | {MARK: self._mark(name)},
                cwd=self.home,
                umask=0o077,
                start_new_session=True,
            )

    def log(self, name: str) -> str:
        """What a process has said, and those before it under this name."""
        return (self.home / f"{name}.log").read_text(errors="replace")

    def said(self, name: str) -> str:
        """What a process has said since it was started."""
        return self.log(name)[self._said[name] :]

    def found(self, name: str = "") -> dict[int, str]:
        """Process id -> command line of a process and all it has started, and they theirs.

        Flower detaches what it starts, so neither parents nor groups tell; the environment does.
        Without a name: all of them.
        """
        return find(self._mark(name), exactly=bool(name))

    def stop(self, name: str) -> None:
        """End a process and all it started, after seconds in which it can say good-bye."""
        process = self.running[name]
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)
        self.kill(name)

    def kill(self, name: str) -> None:
        """End a process and all it started, at once: kill -9."""
        process = self.running.pop(name)
        process.kill()
        process.wait(timeout=30)
        end(lambda: self.found(name))

    def end(self, last: str) -> None:
        """End all, `last` after the others, so that they can say good-bye to it."""
        others = [name for name in self.running if name != last]
        for name in others:
            self.running[name].terminate()  # all together, then one after the other
        for name in [*others, *({last} & self.running.keys())]:
            self.stop(name)
        self.sweep()

    def sweep(self) -> None:
        """End whatever is there, at once; also what a process that is gone by now had started."""
        end(self.found)

    def _mark(self, name: str) -> str:
        return f"{self.home}:{name}"


def find(mark: str, *, exactly: bool = True) -> dict[int, str]:
    """Process id -> command line of all that have this MARK, or one that begins so."""
    wanted = f"{MARK}={mark}".encode()
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            marks = (entry / "environ").read_bytes().split(b"\0")
            if any(m == wanted if exactly else m.startswith(wanted) for m in marks):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                found[int(entry.name)] = b" ".join(words).decode(errors="replace")
        except OSError:  # gone meanwhile, or somebody else's
            continue
    return found


def end(found: Callable[[], dict[int, str]], *, patience: float = 0.0) -> None:
    """Wait for processes that are about to end, then kill until none is left.

    More than once: a process may start another while it is looked for.
    """
    kindly = time.monotonic() + patience
    at_last = kindly + 10
    while (processes := found()) and time.monotonic() < at_last:
        for pid in processes if time.monotonic() >= kindly else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def program(name: str) -> str:
    """A command of the environment this Python belongs to."""
    return str(Path(sys.executable).parent / name)
