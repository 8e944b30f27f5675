"""A run directory: what is written while a federation trains, and how it is read back.

config.toml, rounds.jsonl (a line a round), clients.jsonl (a line an evaluation),
checkpoint.safetensors and, once finished, done.json. docs/running.md has the format in full.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

import numpy as np

from aaggff.errors import UserError
from aaggff.version import __version__

if TYPE_CHECKING:
    from aaggff.federation.run import RunResult

CONFIG, ROUNDS, CLIENTS = "config.toml", "rounds.jsonl", "clients.jsonl"
CHECKPOINT, DONE = "checkpoint.safetensors", "done.json"


def is_run(directory: Path) -> bool:
    """Whether a run was ever begun here."""
    return any((directory / name).exists() for name in (CONFIG, ROUNDS, CHECKPOINT, DONE))


def write_atomically(path: Path, content: bytes) -> None:
    """The old file or the new one, never half of one, whatever happens meanwhile."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def json_line(value: dict[str, Any]) -> str:
    """One line of strict JSON; numpy becomes plain, what is not a finite number becomes null.

    >>> json_line({"losses": np.array([0.5, np.nan]), "round": np.int64(3)})
    '{"losses": [0.5, null], "round": 3}\\n'
    """
    try:
        text = json.dumps(value, allow_nan=False, default=_plain)
    except ValueError:
        text = json.dumps(_finite(value), allow_nan=False)
    return text + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(f"cannot write {type(value).__name__} as JSON")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(each) for key, each in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


class Settings(Protocol):
    """What a run is described by: `RunConfig`, or what a deployed federation knows of itself."""

    def toml(self) -> str: ...


class Recorder:
    """Writes a run directory as the run goes; a kill at any moment leaves it resumable.

    Lines are only ever appended. `secure()` puts them on the disk, and is called before a
    checkpoint is written: so the records always reach at least as far as the checkpoint, and
    resuming cuts off what lies beyond it.
    """

    def __init__(self, directory: Path, config: Settings, *, round: int = 0) -> None:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            write_atomically(directory / CONFIG, config.toml().encode())
        except OSError as error:
            raise UserError(f"cannot write to {directory}: {error.strerror}") from error
        self.directory = directory
        self.named = cut(directory / CLIENTS, round) > 0
        kept = cut(directory / ROUNDS, round)
        if kept != round:
            raise UserError(
                f"{directory / ROUNDS} has {kept} of the {round} rounds before the checkpoint; "
                "it was changed or lost, so start the run anew elsewhere"
            )
        (directory / DONE).unlink(missing_ok=True)
        self._rounds: IO[str] = (directory / ROUNDS).open("a", encoding="utf-8")
        self._clients: IO[str] = (directory / CLIENTS).open("a", encoding="utf-8")

    def write(self, record: dict[str, Any], clients: dict[str, Any] | None = None) -> None:
        """One round and, if it was evaluated, every client's figures."""
        if clients is not None:
            self._clients.write(json_line(clients))
            self._clients.flush()
            self.named = True
        self._rounds.write(json_line(record))
        self._rounds.flush()

    def secure(self) -> None:
        """What was written survives even a power cut."""
        for file in (self._rounds, self._clients):
            file.flush()
            os.fsync(file.fileno())

    def finish(self, result: RunResult) -> None:
        """The run is complete: done.json says so."""
        facts = {
            "version": __version__,
            "rounds": result.rounds,
            "seconds": round(result.seconds, 3),
            "metric": result.evaluation.metric,
            "stand_in": result.stand_in,
        }
        text = json.dumps(facts, indent=1)
        write_atomically(self.directory / DONE, text.encode() + b"\n")

    def close(self) -> None:
        """Let go of the files."""
        self._rounds.close()
        self._clients.close()


def cut(path: Path, round: int) -> int:
    """Keep the lines of rounds up to `round`, drop the rest and any half line; how many stay."""
    if not path.exists():
        return 0
    kept = end = 0
    with path.open("rb+") as file:
        for line in file:
            if not line.endswith(b"\n"):
                break
            try:
                if json.loads(line)["round"] > round:
                    break
            except (ValueError, KeyError, TypeError) as error:
                raise UserError(f"{path}: line {kept + 1} is not a round's record") from error
            kept, end = kept + 1, end + len(line)
        file.truncate(end)
    return kept
