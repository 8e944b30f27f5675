"""A server's side of a deployed federation, whatever framework carries the messages.

It decides, takes the server optimiser's step, and survives: what must outlive the process is
written after each round in one atomic file, and a new process continues from there.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aaggff.decision import decision_maker
from aaggff.decision.base import Decision, DecisionMaker
from aaggff.decision.regret import RegretTracker, tracker_of
from aaggff.errors import UserError
from aaggff.federation.record import write_atomically

if TYPE_CHECKING:
    from aaggff.federation.server_optimizers import ServerOptimizer

Tensors = dict[str, NDArray[Any]]

CHECKPOINT = "checkpoint.safetensors"
RUNNING_STATISTICS = ("running_mean", "running_var")
MOST_SAMPLES = 1e12
"""No client has more; who says so wants to be all that counts under rules that weigh by size."""
_PARTS = ("model", "decision", "optimizer", "regret")


class FairServer:
    """Decision maker, server optimiser and model, with a memory on disk.

    decision_maker: a name of `aaggff.methods()` or a `DecisionMaker` of your own. clients: K; a
    rule that needs it is made when it is known. directory: where to remember; None forgets.

    >>> server = FairServer("term", clients=2)
    >>> server.begin(2)
    >>> weights = server.decide([0, 1], [0.3, 0.9], [10, 10])
    >>> theta = {"w": np.zeros(2, np.float32)}
    >>> server.step(theta, {"w": np.full(2, 0.5, np.float32)})["w"]
    array([-0.5, -0.5], dtype=float32)
    """

    def __init__(
        self,
        decision_maker: str | DecisionMaker = "aaggff-s",
        *,
        clients: int | None = None,
        rate: float = 1.0,
        method_options: Mapping[str, Any] | None = None,
        server_optimizer: str | ServerOptimizer = "sgd",
        server_options: Mapping[str, Any] | None = None,
        directory: str | Path | None = None,
    ) -> None:
        self.method = decision_maker if isinstance(decision_maker, str) else "your own"
        self.maker = decision_maker if isinstance(decision_maker, DecisionMaker) else None
        self._own = self.maker is None
        self.clients, self.rate = clients, rate
        self.room = clients
        """How many clients are let in: as many as was said; None: whoever comes."""
        self.method_options = dict(method_options or {})
        self.optimizer = Optimizer(server_optimizer, server_options or {})
        self.directory = None if directory is None else Path(directory)
        self.round = 0
        self._tracker: RegretTracker | None = None
        self._saved_decision: Tensors = {}
        self._saved_regret: Tensors = {}
        # Fails now if the name or an option is wrong, not after all clients have connected.
        self.wants_updates = (self.maker or self._made(clients or 2)).wants_updates

    def _made(self, clients: int) -> DecisionMaker:
        return decision_maker(self.method, clients=clients, rate=self.rate, **self.method_options)

    def begin(self, clients: int) -> None:
        """K is known: make the decision maker, with its saved state if there is one.

        Where nobody said what K is, it grows with the federation.
        """
        if self.room is None and clients > (self.clients or 0):
            self.clients = clients
            if self.maker is not None and self._own:
                self._saved_decision = self._saved_decision or self.maker.state_dict()
                if self._tracker is not None:
                    self._saved_regret = self._tracker.state_dict()
                self.maker = None
        if self.maker is None:
            self.maker = self._made(self.clients or clients)
            self._tracker = tracker_of(self.maker)
        if self._saved_decision:
            self.maker.load_state_dict(self._saved_decision)
            self._saved_decision = {}
        if self._saved_regret and self._tracker is not None:
            self._tracker.load_state_dict(self._saved_regret)
            self._saved_regret = {}

    def too_many(self, ids: Sequence[Any], met: Iterable[Any]) -> list[Any]:
        """Of more clients than were said to exist, those met last: they are not let in.

        >>> FairServer(clients=2).too_many([7, 8, 9], met=[9, 8])
        [7]
        """
        if self.room is None or len(ids) <= self.room:
            return []
        order = {client: at for at, client in enumerate(met)}
        ranked = sorted(ids, key=lambda client: (order.get(client, len(order)), client))
        return ranked[self.room :]

    @property
    def last(self) -> Decision:
        """The latest decision."""
        assert self.maker is not None
        assert self.maker.last is not None
        return self.maker.last

    def decide(
        self,
        ids: Sequence[Hashable],
        losses: Sequence[float],
        sizes: Sequence[float],
        **signals: Any,
    ) -> NDArray[np.float64]:
        """Mixing weights of this round; `signals` are the rule's keyword-only extras."""
        assert self.maker is not None, "begin() comes first"
        weights = self.maker.decide(list(ids), list(losses), list(sizes), **signals)
        if self._tracker is not None:
            self._tracker.record(self.last)
        return weights

    def account(self) -> dict[str, float | None]:
        """Regret so far and what the theorem allows, for the record; empty if there is none."""
        if self._tracker is None:
            return {}
        return {"regret": self._tracker.regret, "regret_bound": self._tracker.bound}

    def step(self, model: Mapping[str, NDArray[Any]], update: Tensors) -> Tensors:
        """theta <- server optimiser(theta, step * sum_i w_i Delta_i); `update` is used up.

        What is not in the update stays as it is. Running statistics (BatchNorm's) are averaged,
        never optimised: no gradient belongs to them.
        """
        averaged = {n: by for n, by in update.items() if n.endswith(RUNNING_STATISTICS)}
        optimised = {n: by for n, by in update.items() if n not in averaged}
        moved = {n: _moved(model[n], by, 1.0) for n, by in averaged.items()}
        return {**model, **moved, **self.optimizer.step(model, optimised, self.last.step)}

    def save(self, round: int, model: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Remember this round as done: model, decision, optimiser and facts in one atomic file."""
        self.round = round
        if self.directory is None:
            return
        from safetensors.numpy import save

        assert self.maker is not None
        regret = {} if self._tracker is None else self._tracker.state_dict()
        parts = (model, self.maker.state_dict(), self.optimizer.state_dict(), regret)
        # safetensors writes an array's memory as it lies: it must be in C order.
        tensors = {
            f"{part}/{name}": np.ascontiguousarray(values).reshape(np.shape(values))
            for part, held in zip(_PARTS, parts)
            for name, values in held.items()
        }
        about = {**facts, "round": round, "clients": self.clients, "method": self.method}
        self.directory.mkdir(parents=True, exist_ok=True)
        write_atomically(
            self.directory / CHECKPOINT, save(tensors, metadata={"aaggff": json.dumps(about)})
        )

    def resume(self) -> tuple[Tensors, dict[str, Any]] | None:
        """The saved model and facts, everything else put back in place; None at a fresh start."""
        if self.directory is None or not (self.directory / CHECKPOINT).exists():
            return None
        tensors, facts = read_checkpoint(self.directory / CHECKPOINT)
        if facts["method"] != self.method:
            raise UserError(
                f"{self.directory} holds a run of {facts['method']!r}, not of {self.method!r};"
                f" give another directory"
            )
        parts: dict[str, Tensors] = {part: {} for part in _PARTS}
        for name, values in tensors.items():
            part, _, rest = name.partition("/")
            parts[part][rest] = values
        self.round, self.clients = int(facts["round"]), self.room or facts["clients"]
        self._saved_decision, self._saved_regret = parts["decision"], parts["regret"]
        self.optimizer.load_state_dict(parts["optimizer"])
        self.begin(self.clients or 0)
        return parts["model"], facts


class Optimizer:
    """A server optimiser on named numpy arrays. Plain sgd is numpy; the others run on torch."""

    def __init__(self, chosen: str | ServerOptimizer, options: Mapping[str, Any]) -> None:
        self._lr, self._torch = 1.0, None
        self.name = chosen if isinstance(chosen, str) else type(chosen).__name__.lower()
        if not isinstance(chosen, str):
            self._torch = chosen
        elif chosen == "sgd" and set(options) <= {"lr"}:
            self._lr = float(options.get("lr", 1.0))
        else:
            from aaggff.federation.server_optimizers import server_optimizer

            self._torch = server_optimizer(chosen, **options)

    def step(self, model: Mapping[str, NDArray[Any]], update: Tensors, factor: float) -> Tensors:
        """The new values of the arrays in `update`, in the model's types."""
        if self._torch is None:
            return {name: _moved(model[name], by, self._lr * factor) for name, by in update.items()}
        import torch

        theta = torch.from_numpy(_flat([model[name] for name in update]))
        gradient = torch.from_numpy(_flat(list(update.values()))).mul_(factor)
        moved = self._torch.step(theta, gradient).numpy()
        new, start = {}, 0
        for name, by in update.items():
            part = moved[start : start + by.size].reshape(by.shape)
            new[name], start = np.asarray(part, dtype=model[name].dtype), start + by.size
        return new

    def state_dict(self) -> Tensors:
        if self._torch is None:
            return {}
        return {name: np.asarray(value) for name, value in self._torch.state_dict().items()}

    def load_state_dict(self, state: Tensors) -> None:
        if self._torch is not None and state:
            import torch

            self._torch.load_state_dict(
                {name: torch.from_numpy(np.array(value)) for name, value in state.items()}
            )


def _moved(theta: NDArray[Any], by: NDArray[Any], factor: float) -> NDArray[Any]:
    """theta - factor * by, in the memory of `by`."""
    if factor != 1.0:
        np.multiply(by, factor, out=by)
    moved: NDArray[Any] = np.subtract(theta, by, out=by)
    return moved.astype(theta.dtype, copy=False)


def _flat(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    kind = np.result_type(np.float32, *(array.dtype for array in arrays))
    return np.concatenate([array.reshape(-1) for array in arrays], dtype=kind)


def read_checkpoint(path: Path) -> tuple[Tensors, dict[str, Any]]:
    """The arrays and facts of a checkpoint; what is no checkpoint is one clear line."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            facts = json.loads((file.metadata() or {})["aaggff"])
            return {name: file.get_tensor(name) for name in file.keys()}, facts  # noqa: SIM118
    except (OSError, KeyError, ValueError, SafetensorError) as error:
        raise UserError(f"{path} is no checkpoint of a deployed federation: {error}") from error
