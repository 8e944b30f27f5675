"""The whole federation on one machine: the loop, readable top to bottom.

sample -> F_i of the model on the sampled clients -> decide -> train locally -> mix
       -> server optimiser -> record
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from aaggff.decision.base import Decision, DecisionMaker
from aaggff.decision.regret import tracker_of
from aaggff.decision.reports import LARGEST
from aaggff.errors import UserError
from aaggff.federation.callbacks import Callback
from aaggff.federation.evaluate import Evaluation, evaluate
from aaggff.federation.executors.base import Array, Hold, Index, Mix, Work
from aaggff.federation.executors.choose import executor as choose_executor
from aaggff.federation.flat import Flat
from aaggff.federation.local import LocalTraining
from aaggff.federation.sampling import Sampler, cohort
from aaggff.federation.sampling import sampler as make_sampler
from aaggff.federation.server_optimizers import ServerOptimizer, server_optimizer
from aaggff.federation.setup import make_maker, make_model

log = logging.getLogger(__name__)
ModelChoice = str | nn.Module | Callable[..., nn.Module]


class Federation:
    """A federation: data, a model, and a rule that decides how much each client counts.

    Args:
        data: whose samples; see `aaggff.from_arrays` for your own.
        model: a name (`aaggff.models.MODELS`), "package.module:factory", a factory
            (sample_shape, task) -> module, or a module (which is copied).
        decision_maker: a name (`aaggff.methods()`) or a `DecisionMaker` of your own.
        method_options: options of the decision maker, where it is given by name.
        local: what a client does with the model.
        per_round: clients sampled a round: a number, a rate (float) or None: everybody.
        sampler: instead of `per_round`, who is asked each round; see `federation.sampling`.
        server_optimizer: a name or a `ServerOptimizer`.
        executor: "auto", "sequential", "batched" or "processes": how, never what, is computed.
        workers: processes of the executor "processes"; None: one a core.
        device: where models live.
        seed: of everything random in the federation, except the data's split.
        track_regret: keep account of the decisions' regret, where the rule has one.
        callbacks: told about every round; see `federation.callbacks`.
        model_options: options of the model, where it is given by name.

    >>> from aaggff.data.heart import load
    >>> federation = Federation(load(), decision_maker="aaggff-s", local=LocalTraining(lr=0.01))
    >>> record = federation.step()
    >>> record["round"], record["clients"], round(sum(record["weights"]), 9)
    (1, [0, 1, 2, 3], 1.0)
    >>> evaluation = federation.run(20)
    >>> federation.round, evaluation.metric, len(evaluation.values)
    (21, 'auroc', 4)
    """

    def __init__(
        self,
        data: Any,
        model: ModelChoice = "logistic",
        decision_maker: str | DecisionMaker = "fedavg",
        *,
        method_options: Mapping[str, Any] | None = None,
        local: LocalTraining | None = None,
        per_round: int | float | None = None,
        sampler: Sampler | None = None,
        server_optimizer: str | ServerOptimizer = "sgd",
        executor: str = "auto",
        workers: int | None = None,
        device: str = "cpu",
        seed: int = 0,
        track_regret: bool = True,
        callbacks: Sequence[Callback] = (),
        model_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.data, self.seed, self.callbacks = data, seed, list(callbacks)
        self.local = LocalTraining() if local is None else local
        self.round = 0
        """Rounds done."""
        self.sampler = sampler or make_sampler(data.train_sizes, per_round, seed=seed)
        clients = len(data)
        if sampler is not None and per_round is None:
            asked = len(sampler.sample(1))
        else:
            asked = clients if per_round is None else cohort(per_round, clients)
        self.decision_maker = make_maker(
            decision_maker, clients, asked / clients, dict(method_options or {})
        )
        self.server_optimizer = _server_optimizer(server_optimizer)
        self.model = make_model(model, data, seed, torch.device(device), dict(model_options or {}))
        """The current global model."""
        self._flat = Flat(self.model)
        self._theta = self._flat.bind(self.model)
        work = Work(data, self.model, self._flat, self._theta, self.local, seed)
        self.executor = choose_executor(executor, work, cohort=asked, workers=workers)
        self.tracker = tracker_of(self.decision_maker) if track_regret else None
        self._told: set[int] = set()

    def step(self) -> dict[str, Any]:
        """One round; returns its record (a line of rounds.jsonl)."""
        record = self._round()
        for callback in self.callbacks:
            callback.on_round(self, record)
        return record

    def run(self, rounds: int, *, evaluate_every: int | None = None) -> Evaluation:
        """`rounds` more rounds; evaluates every so many of them and after the last.

        Callbacks hear of an evaluation first (`on_evaluation`), then of the round, whose record
        is complete by then.
        """
        if rounds < 1:
            raise UserError(f"rounds: expected a whole number of at least 1, got {rounds!r}")
        last = self.round + rounds
        try:
            while self.round < last:
                record = self._round()
                if self.round == last or (evaluate_every and self.round % evaluate_every == 0):
                    evaluation = self.evaluate()
                    record |= self.evaluated(evaluation)
                    for callback in self.callbacks:
                        callback.on_evaluation(self, evaluation, record)
                for callback in self.callbacks:
                    callback.on_round(self, record)
        finally:
            for callback in self.callbacks:
                callback.on_end(self)
        return evaluation

    def evaluate(self, clients: Index | None = None) -> Evaluation:
        """The global model on the test part of every client, or of those given."""
        return evaluate(self.model, self.data, clients=clients, round=self.round)

    def evaluated(self, evaluation: Evaluation) -> dict[str, Any]:
        """What an evaluation adds to its round's record: fairness summaries, regret so far."""
        found: dict[str, Any] = {
            "metric": evaluation.metric_summary(),
            "loss": evaluation.loss_summary(),
        }
        if self.tracker is not None:
            found |= {"regret": self.tracker.regret, "regret_bound": self.tracker.bound}
        return found

    def close(self) -> None:
        """Let go of the executor's processes and memory; also done when this is forgotten."""
        self.executor.close()

    def _round(self) -> dict[str, Any]:
        began = time.perf_counter()
        t = self.round + 1
        asked = self.sampler.sample(t)
        answering = getattr(self.sampler, "answering", None)
        ids: Index = asked if answering is None else answering(t, asked)
        sizes = self.data.train_sizes[ids]
        set_aside: dict[int, str] = {}
        if not sizes.all():
            ids, sizes, set_aside = self._with_data(ids, sizes)

        # F_i(theta) of the model that is sent out (eq. 7), before anybody trains.
        losses = self.executor.losses(t, ids)
        self._refuse_if_hopeless(t, losses)
        lr = self.local.lr_at(t)
        if self.decision_maker.wants_updates:
            mix, lost = self._train_then_decide(t, ids, losses, sizes, lr)
        else:
            # The weights are known before anybody trains, so each update is mixed when it is made.
            self.decision_maker.decide(ids, losses, sizes, lr=lr)
            mix, lost = self._train_and_mix(t, ids, self._decision().weights)
        decision = self._decision()
        # What was wrong with a client first is what it is set aside for: its loss, then its update.
        set_aside |= lost | {int(i): reason for i, reason in decision.set_aside.items()}  # type: ignore[call-overload]
        if set_aside:
            self._tell(t, set_aside)
        if self.tracker is not None:
            self.tracker.record(decision)
        self._apply(t, mix, decision.step)
        self.round = t
        entropy = decision.entropy
        return {
            "round": t,
            "clients": ids.tolist(),
            "losses": losses.tolist(),
            "sizes": sizes.tolist(),
            "weights": decision.weights.tolist(),
            "responses": None if decision.responses is None else decision.responses.tolist(),
            "set_aside": {str(client): reason for client, reason in set_aside.items()},
            "dropped": [] if len(ids) == len(asked) else _absent(asked, ids, set_aside),
            "step": decision.step,
            "objective": _objective(decision.weights, losses),
            "entropy": entropy,
            "effective_clients": math.exp(entropy),
            "kl_from_size": decision.kl_from_size,
            "lr": lr,
            "seconds": time.perf_counter() - began,
        }

    def _tell(self, t: int, set_aside: Mapping[int, str]) -> None:
        """Log who is set aside: once a client, as the record has every round."""
        for client, reason in set_aside.items():
            if client not in self._told:
                self._told.add(client)
                name = self.data.client_name(client)
                log.warning("round %d: client %s is set aside: %s", t, name, reason)

    def _with_data(self, ids: Index, sizes: Index) -> tuple[Index, Index, dict[int, str]]:
        """Without those who have nothing to learn from."""
        there = sizes > 0
        if not there.any():
            raise UserError(f"round {self.round + 1}: no sampled client has training data")
        without = dict.fromkeys(ids[~there].tolist(), "has no training data")
        return ids[there], sizes[there], without

    def _train_and_mix(
        self, t: int, ids: Index, weights: Array
    ) -> tuple[Tensor | None, dict[int, str]]:
        """sum_i w_i Delta_i, streamed. Who weighs nothing need not train."""
        heard = np.flatnonzero(weights)
        if len(heard) < len(ids):
            ids, weights = ids[heard], weights[heard]
        mix = Mix(weights, self._flat)
        self.executor.train(t, ids, mix)
        return mix.result(), {int(ids[i]): "update is not finite" for i in mix.lost}

    def _train_then_decide(
        self, t: int, ids: Index, losses: Array, sizes: NDArray[np.int64], lr: float
    ) -> tuple[Tensor | None, dict[int, str]]:
        """The same for rules that look at the updates: all of the round's are held."""
        held = Hold(len(ids), self._flat)
        self.executor.train(t, ids, held)
        gram, lost = held.gram(), {int(ids[i]): "update is not finite" for i in held.lost}
        self.decision_maker.decide(ids, losses, sizes, gram=gram, lr=lr)
        return held.mix(self._decision().weights), lost

    def _apply(self, t: int, mix: Tensor | None, step: float) -> None:
        """theta <- server_optimizer(theta, step * mix); buffers take the plain mix."""
        if mix is None:
            raise UserError(
                f"round {t}: no client's update was finite. The usual cause is a learning rate "
                f"that is too large (lr {self.local.lr_at(t):g} in this round); lower it, or set "
                "clip"
            )
        parameters, floats = self._flat.parameters, self._flat.floats
        gradient = mix[:parameters]
        if step != 1.0:
            gradient.mul_(step)
        self.server_optimizer.step(self._theta[:parameters], gradient)
        if floats > parameters:
            self._theta[parameters:].sub_(mix[parameters:floats])
        integers = self._flat.integers(self.model)
        if integers is not None:
            # Differences are mixed exactly and rounded once: what nobody changed stays as it is.
            self._flat.set_integers(self.model, integers - mix[floats:].round().long())
        self._refuse_if_not_finite(t)

    def _refuse_if_not_finite(self, t: int) -> None:
        if not math.isfinite(self._theta.sum()) and not torch.isfinite(self._theta).all():
            raise UserError(
                f"round {t}: the global model holds values that are not finite. Every update was "
                f"finite, so the usual cause is too large a step: lower lr "
                f"({self.local.lr_at(t):g} in this round) or the server's learning rate"
            )

    def _refuse_if_hopeless(self, t: int, losses: Array) -> None:
        # Nearly always the first client's is usable, and that is enough.
        if not (0 <= losses[0] <= LARGEST or ((losses >= 0) & (losses <= LARGEST)).any()):
            raise UserError(
                f"round {t}: every client's loss of the global model is unusable (the first is "
                f"{losses[0]:g}): the model has diverged. Lower lr ({self.local.lr:g}), or the "
                "server's learning rate, or set clip; check inputs for huge values"
            )

    def _decision(self) -> Decision:
        decision = self.decision_maker.last
        assert decision is not None
        return decision

    def state_dict(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything that must survive a restart: tensors, and facts that JSON can hold."""
        from aaggff.federation.checkpoint import pack

        numbers, texts = pack(self.decision_maker.state_dict())
        kept = {
            "model": self.model.state_dict(),
            "server": self.server_optimizer.state_dict(),
            "decision": numbers,
        }
        if self.tracker is not None:
            kept["regret"], _ = pack(self.tracker.state_dict())
        tensors = {
            f"{part}.{name}": tensor.detach().clone()
            for part, named in kept.items()
            for name, tensor in named.items()
        }
        facts: dict[str, Any] = {"round": self.round, "seed": self.seed, "decision": texts}
        return tensors, facts

    def load_state_dict(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Continue exactly where the saved federation stood."""
        from aaggff.federation.checkpoint import unpack

        if facts["seed"] != self.seed:
            raise UserError(f"the state is of seed {facts['seed']}, this federation of {self.seed}")
        parts: dict[str, dict[str, Tensor]] = {"model": {}, "server": {}, "decision": {}}
        if self.tracker is not None:
            parts["regret"] = {}
        for name, tensor in tensors.items():
            part, _, rest = name.partition(".")
            if part not in parts:
                raise UserError(f"the state holds an unknown tensor {name!r}")
            parts[part][rest] = tensor
        _load_model(self.model, parts["model"])
        self.server_optimizer.load_state_dict(
            {name: tensor.to(self._theta.device) for name, tensor in parts["server"].items()}
        )
        self.decision_maker.load_state_dict(unpack(parts["decision"], facts["decision"]))
        if self.tracker is not None:
            self.tracker.load_state_dict(unpack(parts["regret"], {}))
        self.round = int(facts["round"])


def _server_optimizer(chosen: str | ServerOptimizer) -> ServerOptimizer:
    return server_optimizer(chosen) if isinstance(chosen, str) else chosen


def _load_model(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Copies into the tensors that are there, so that they stay views of the flat vector."""
    own = model.state_dict()
    for name, tensor in own.items():
        if name not in state:
            raise UserError(f"the state lacks the model's tensor {name!r}")
        if state[name].shape != tensor.shape:
            raise UserError(
                f"the state's {name!r} has shape {tuple(state[name].shape)}, "
                f"the model's {tuple(tensor.shape)}"
            )
        tensor.copy_(state[name])


def _objective(weights: Array, losses: Array) -> float:
    """sum_i w_i F_i: what the round minimised. Who was set aside weighs nothing."""
    heard = weights > 0
    return float(weights[heard] @ losses[heard])


def _absent(asked: Index, ids: Index, set_aside: Mapping[int, str]) -> list[int]:
    """Who was asked and never answered."""
    there = {*ids.tolist(), *set_aside}
    return [client for client in asked.tolist() if client not in there]
