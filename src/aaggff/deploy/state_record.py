"""The run directory of a deployed federation: the same files as `aaggff run` writes."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from aaggff import fairness
from aaggff.decision.base import Decision
from aaggff.federation.record import DONE, Recorder, write_atomically
from aaggff.version import __version__

__all__ = ["Evaluations", "Recorder", "Settings", "finish", "load_names", "round_record"]

# In percent for the metric, as `aaggff run` records it.
PER_CENT = 100.0


@dataclass
class Settings:
    """What config.toml says of a deployed federation."""

    dataset: str
    method: str
    seed: int = 0
    rounds: int = 0
    more: Mapping[str, Any] = field(default_factory=dict)

    def toml(self) -> str:
        """As TOML; tables come last, as TOML wants it.

        >>> options = {"lr": 0.1, "method_options": {"lam": 2.0}}
        >>> print(Settings("wards", "term", more=options).toml())
        dataset = "wards"
        method = "term"
        seed = 0
        rounds = 0
        lr = 0.1
        <BLANKLINE>
        [method_options]
        lam = 2.0
        <BLANKLINE>
        """
        values = {
            "dataset": self.dataset,
            "method": self.method,
            "seed": self.seed,
            "rounds": self.rounds,
            **self.more,
        }
        tables = {name: value for name, value in values.items() if isinstance(value, Mapping)}
        lines = [
            f"{name} = {_toml(value)}"
            for name, value in values.items()
            if name not in tables and value is not None
        ]
        for name, table in tables.items():
            lines += ["", f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in table.items())]
        return "\n".join(lines) + "\n"


def round_record(
    number: int,
    decision: Decision | None,
    losses: Sequence[float],
    *,
    dropped: Sequence[Hashable] = (),
    set_aside: Mapping[Any, str] | None = None,
    lr: float | None = None,
    seconds: float = 0.0,
) -> dict[str, Any]:
    """One line of rounds.jsonl; without a decision nobody's update counted."""
    reasons = {**(decision.set_aside if decision else {}), **(set_aside or {})}
    line: dict[str, Any] = {
        "round": number,
        "clients": list(decision.ids) if decision else [],
        "losses": list(losses) if decision else [],
        "sizes": [_whole(size) for size in decision.sizes.tolist()] if decision else [],
        "weights": decision.weights.tolist() if decision else [],
        "responses": None if decision is None else decision.responses,
        "set_aside": {str(client): reason for client, reason in reasons.items()},
        "dropped": list(dropped),
        "step": decision.step if decision else 0.0,
    }
    if decision is not None:
        counted = decision.weights > 0
        line["objective"] = float(decision.weights[counted] @ np.asarray(losses)[counted])
        line["entropy"] = decision.entropy
        line["effective_clients"] = decision.effective_clients
        line["kl_from_size"] = decision.kl_from_size
    else:
        line.update(objective=None, entropy=None, effective_clients=None, kl_from_size=None)
    return line | {"lr": lr, "seconds": seconds}


@dataclass
class Evaluations:
    """Every client's latest figures, in a fixed order: a client that did not answer has none."""

    metric: str = "accuracy"
    names: Mapping[Any, str] = field(default_factory=dict)
    order: list[Any] = field(default_factory=list)

    def meet(self, clients: Sequence[Any]) -> None:
        """Give clients seen for the first time their places, lowest id first."""
        self.order += sorted(set(clients) - set(self.order))

    def lines(
        self,
        round: int,
        values: Mapping[Any, float],
        losses: Mapping[Any, float],
        sizes: Mapping[Any, float],
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """What an evaluation adds to its round's record, and its line of clients.jsonl."""
        strangers = {*values, *losses} - set(self.order)
        self.meet(list(strangers))
        metric = np.array([values.get(client, np.nan) for client in self.order])
        loss = np.array([losses.get(client, np.nan) for client in self.order])
        size = np.array([sizes.get(client, 0.0) for client in self.order])
        added: dict[str, Any] = {}
        if np.isfinite(metric).any():
            added["metric"] = fairness.summary(PER_CENT * metric, size)
        if np.isfinite(loss).any():
            added["loss"] = fairness.summary(loss, size, larger_is_better=False)
        line = {
            "round": round,
            "sizes": size.tolist(),
            self.metric: metric.tolist(),
            "loss": loss.tolist(),
        }
        if strangers:
            line["names"] = [self._name(client) for client in self.order]
        return added, line

    def _name(self, client: Any) -> str:
        return self.names.get(client, f"client {client}" if isinstance(client, int) else client)


def finish(directory: Path, *, rounds: int, seconds: float, metric: str) -> None:
    """The federation is done: done.json says so."""
    facts = {
        "version": __version__,
        "rounds": rounds,
        "seconds": round(seconds, 3),
        "metric": metric,
        "stand_in": False,
    }
    write_atomically(directory / DONE, json.dumps(facts, indent=1).encode() + b"\n")


def load_names(path: Path) -> dict[int, str]:
    """Client names from a JSON object {"0": "Cleveland", ...}."""
    return {int(client): str(name) for client, name in json.loads(path.read_text()).items()}


def _whole(size: float) -> float:
    """Sample counts travel as floats; in a record they are whole numbers again."""
    return int(size) if float(size).is_integer() else size


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    return json.dumps(str(value), ensure_ascii=False)
