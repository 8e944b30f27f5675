"""`FairStrategy`: a decision maker in the place where Flower's FedAvg weighs by sample counts."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result

from aaggff.decision.base import DecisionMaker
from aaggff.deploy.flower import loop, nodes, two_phase
from aaggff.deploy.flower.aggregation import decide, mixed, moved
from aaggff.deploy.flower.arrays import Tensors, check_model, to_record, views
from aaggff.deploy.flower.identities import Identities
from aaggff.deploy.flower.metrics import mean_metrics, of_clients
from aaggff.deploy.flower.protocol import PEERS, PHASE, WEIGHT
from aaggff.deploy.flower.replies import Reply, Weighed, read, read_arrays, refuse_without_losses
from aaggff.deploy.lock import alone
from aaggff.deploy.state import FairServer
from aaggff.deploy.state_record import Evaluations, Recorder, round_record
from aaggff.errors import UserError
from aaggff.federation.sampling import Sampler, cohort
from aaggff.federation.server_optimizers import ServerOptimizer

log = logging.getLogger("flwr")

AN_HOUR = 3600.0
"""How long Flower waits for an answer unless it is told."""


class FairStrategy(FedAvg):
    """Flower's message API with a sequential decision maker as the aggregation rule.

    Works in anyone's ServerApp; a ClientApp need only report the training loss of the model it
    received (`report_loss`, or the mod `fair_mod`). Everything else is as in Flower's FedAvg.

    Args:
        decision_maker: a name of `aaggff.methods()`, or a `DecisionMaker` of your own.
        clients: K, how many clients the federation has: who comes on top of them is set aside.
            None: as many as are there once for a few seconds nobody new has come, or come later.
        method_options: the method's options, as in `aaggff.decision_maker`.
        server_optimizer: what is done with the mixed update: sgd, momentum, adam, yogi, adagrad,
            or a `ServerOptimizer` of your own.
        server_options: its options.
        fraction_train: share C of the clients asked each round; 1.0 is everybody.
        min_available_nodes: how many must have registered before the first round; None: `clients`.
        min_train_nodes: with fewer than these a later round waits.
        start_timeout: seconds the first round waits for all; then those who are there begin.
        loss_key: where the replies hold the loss; None looks for "received-loss", "train_loss".
        client_lr: the clients' learning rate, a number or a function of the round; only q-FedAvg
            as its authors run it needs it.
        two_phase: losses first, then updates already scaled by their weight (for secure sums).
        masked: two-phase updates are masked, so that a round in which one is missing is void.
        directory: where state and records are kept; with it, `start` continues an earlier run.
        dataset, metric, names: for the record: the federation's name, the key of the clients'
            evaluation metric (a number from 0 to 1), client id -> name.
        evaluate_every: rounds from one evaluation to the next.
        seed: of the sampling. sampler: another choice of whom to ask, by client id.

    >>> strategy = FairStrategy("aaggff-s", clients=4, fraction_evaluate=0.0)
    >>> strategy.server.method
    'aaggff-s'
    """

    def __init__(
        self,
        decision_maker: str | DecisionMaker = "aaggff-s",
        *,
        clients: int | None = None,
        method_options: Mapping[str, Any] | None = None,
        server_optimizer: str | ServerOptimizer = "sgd",
        server_options: Mapping[str, Any] | None = None,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int | None = None,
        min_evaluate_nodes: int = 1,
        min_available_nodes: int | None = None,
        start_timeout: float | None = 300.0,
        loss_key: str | None = None,
        client_lr: float | Callable[[int], float] | None = None,
        two_phase: bool = False,
        masked: bool = False,
        directory: str | Path | None = None,
        dataset: str = "federation",
        metric: str = "accuracy",
        names: Mapping[int, str] | None = None,
        evaluate_every: int = 1,
        seed: int = 0,
        sampler: Sampler | None = None,
        settings: Any = None,
        **fedavg: Any,
    ) -> None:
        least = min(2, clients or 2) if min_train_nodes is None else min_train_nodes
        super().__init__(
            fraction_train=fraction_train,
            fraction_evaluate=fraction_evaluate,
            min_train_nodes=least,
            min_evaluate_nodes=min_evaluate_nodes,
            min_available_nodes=min_available_nodes or clients or least,
            **fedavg,
        )
        self.server = FairServer(
            decision_maker,
            clients=clients,
            rate=fraction_train,
            method_options=method_options,
            server_optimizer=server_optimizer,
            server_options=server_options,
            directory=directory,
        )
        if (two_phase or masked) and self.server.wants_updates:
            raise UserError(
                f"two_phase: {self.server.method} decides from the updates, which two-phase hides"
            )
        self.start_timeout = start_timeout
        self.loss_key, self.client_lr = loss_key, client_lr
        self.two_phase, self.masked = two_phase or masked, masked
        self.dataset, self.seed, self.sampler, self.settings = dataset, seed, sampler, settings
        self.evaluate_every = evaluate_every
        self.evaluations = Evaluations(metric, dict(names or {}))
        self.identities = Identities()
        self.timeout: float | None = None
        self.rounds: int | None = None
        self.record: dict[str, Any] | None = None
        """The record of the latest round: a line of rounds.jsonl."""
        self.recorder: Recorder | None = None
        self.asked_in = 0
        """The latest round in which clients were asked to train."""
        self.current: Tensors = {}
        """The global model: as sent in this round, and then as it came out of it."""
        self._fedavg = fedavg
        self._began = 0.0
        self._met = False
        self._asked: list[int] = []
        self._silent: list[int] = []
        self._first: list[Reply] = []
        self._decided: Weighed = []

    # ---- training -----------------------------------------------------------------------------

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Wait for the clients, choose whom to ask, and remember whom."""
        if self.fraction_train == 0.0:
            return []
        loop.refuse_to_overwrite(self)
        self._began, self.asked_in = time.perf_counter(), server_round
        self.current = views(arrays)
        check_model(self.current)
        there = self._wait(grid)
        self.server.begin(len(there))
        config["server-round"] = server_round
        self._asked = self._choose(server_round, there, config, grid)
        log.info("round %d: asking %d of %d nodes", server_round, len(self._asked), len(there))
        if self.two_phase:
            return self._decide_first(server_round, arrays, config, grid)
        return self._messages(arrays, config, self._asked, MessageType.TRAIN)

    def _wait(self, grid: Grid) -> list[int]:
        """Everybody before the first round; later whoever is there, if they are enough."""
        least = max(1, self.min_train_nodes)
        if self._met:
            return nodes.wait_for(grid, least, least, None)
        self._met = True
        wanted = max(least, self.min_available_nodes)
        if self.server.clients is None:
            return nodes.wait_until_settled(grid, wanted)
        return nodes.wait_for(grid, wanted, least, self.start_timeout)

    def _choose(
        self, server_round: int, there: list[int], config: ConfigRecord, grid: Grid
    ) -> list[int]:
        """The nodes to ask; `_silent` are clients that will not answer, as the sampler knows."""
        self._silent = []
        if self.sampler is None:
            if self.fraction_train >= 1.0:
                return there
            number = max(
                cohort(self.fraction_train, self.server.clients or 1), self.min_train_nodes
            )
            return nodes.choose(
                there, number, seed=self.seed, round=server_round, known=self.identities.known
            )
        if strangers := [node for node in there if node not in self.identities.known]:
            self._ask("who", strangers, None, config, grid)
        of_client = {self.identities.known.get(node, node): node for node in there}
        wanted = np.asarray(self.sampler.sample(server_round))
        answering = getattr(self.sampler, "answering", lambda round, asked: asked)
        will = set(answering(server_round, wanted).tolist()) & of_client.keys()
        self._silent = sorted(set(wanted.tolist()) - will)
        return [of_client[client] for client in sorted(will)]

    def _messages(
        self,
        arrays: ArrayRecord | None,
        config: ConfigRecord,
        to: list[int],
        kind: str,
        **more: Any,
    ) -> list[Message]:
        keys = (self.arrayrecord_key, self.configrecord_key)
        return nodes.messages(arrays, config, to, kind, keys=keys, ttl=self.timeout, **more)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Decide whose update counts how much, and take the server optimiser's step."""
        answers = read(
            replies, self.identities, loss_key=self.loss_key, size_key=self.weighted_by_key
        )
        if not self.current:
            return None, None
        read_arrays(answers, self.current)
        if self.two_phase:
            weighed = two_phase.settle(self._first, self._decided, answers)
            answers = self._first
        else:
            refuse_without_losses(answers, self.loss_key)
            weighed = self._decide(server_round, answers)
        promised = self._decided if self.two_phase else None
        update, weighed = mixed(self.current, weighed, promised=promised, masked=self.masked)
        self._write_down(server_round, answers, weighed)
        if update is None:
            log.warning("round %d: no usable reply; the model stays as it is", server_round)
            return None, None
        new = to_record(moved(self.server, self.current, update, weighed), self.current)
        self.current = views(new)
        return new, self._mean("train", [reply for reply, weight in weighed if weight > 0])

    def _decide(self, server_round: int, answers: list[Reply]) -> Weighed:
        met = dict.fromkeys(self.identities.known.values())
        return decide(self.server, self.current, answers, met=met, lr=self.lr(server_round))

    def _write_down(self, server_round: int, answers: list[Reply], weighed: Weighed) -> None:
        """The record of the round: who weighed how much, who was set aside, who never answered."""
        heard = {reply.client for reply in answers}
        known = self.identities.known
        asked = {known.get(node, node) for node in self._asked} | set(self._silent)
        if self.fraction_train >= 1.0 and self.sampler is None:
            asked |= set(known.values())  # who cannot even be reached takes part all the same
        decision = None
        if weighed:
            weights = np.array([weight for _, weight in weighed])
            decision = replace(self.server.last, weights=weights)
        self.record = round_record(
            server_round,
            decision,
            [reply.loss for reply, _ in weighed],
            dropped=sorted(asked - heard),
            set_aside={reply.client: reply.reason for reply in answers if reply.reason},
            lr=self.lr(server_round),
            seconds=time.perf_counter() - self._began,
        )
        for client, reason in self.record["set_aside"].items():
            log.warning("round %d: client %s set aside: %s", server_round, client, reason)
        if self.record["dropped"]:
            log.warning("round %d: no answer from %s", server_round, self.record["dropped"])

    def lr(self, server_round: int) -> float | None:
        """The clients' learning rate, where it was said."""
        return self.client_lr(server_round) if callable(self.client_lr) else self.client_lr

    def _mean(self, kind: str, replies: list[Reply]) -> MetricRecord:
        """The mean of the replies' metrics, or what the app's own function makes of them."""
        own = self._fedavg.get(f"{kind}_metrics_aggr_fn")
        if own is None:
            return mean_metrics(replies, self.weighted_by_key)
        try:
            mean: MetricRecord = own([reply.content for reply in replies], self.weighted_by_key)
        except Exception as error:  # one client that leaves a metric out must not end the run
            log.warning("%s_metrics_aggr_fn failed (%r); the plain mean stands in", kind, error)
            return mean_metrics(replies, self.weighted_by_key)
        return mean

    # ---- two phases ---------------------------------------------------------------------------

    def _ask(
        self,
        phase: str,
        to: list[int],
        arrays: ArrayRecord | None,
        config: ConfigRecord,
        grid: Grid,
    ) -> list[Reply]:
        """A question that is answered with metrics alone."""
        sent = self._messages(
            arrays, config, to, MessageType.TRAIN, extra=lambda node: {PHASE: phase}
        )
        return read(
            grid.send_and_receive(sent, timeout=self.timeout or AN_HOUR),
            self.identities, loss_key=self.loss_key, size_key=self.weighted_by_key,
        )  # fmt: skip

    def _decide_first(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Ask for the losses, decide, and send each client its own weight with the model."""
        self._first = self._ask("loss", self._asked, arrays, config, grid)
        two_phase.refuse_untaught(self._first)
        refuse_without_losses(self._first, self.loss_key)
        self._decided = self._decide(server_round, self._first)
        share = {reply.node: weight for reply, weight in self._decided if weight > 0}
        peers = [str(reply.client) for reply, weight in self._decided if weight > 0]
        return self._messages(
            arrays, config, list(share), MessageType.TRAIN,
            extra=lambda node: {PHASE: "update", WEIGHT: share[node], PEERS: peers},
        )  # fmt: skip

    # ---- evaluation ---------------------------------------------------------------------------

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Everybody who is there is evaluated, every `evaluate_every` rounds and at the end."""
        if self.current:
            self.current = views(arrays)  # a wrapper may have added its noise: that is the model
        due = server_round % self.evaluate_every == 0 or server_round == self.rounds
        if self.fraction_evaluate == 0.0 or not due:
            return []
        there = sorted(grid.get_node_ids())
        number = max(int(len(there) * self.fraction_evaluate), self.min_evaluate_nodes)
        known = self.identities.known
        # Another seed than training's: else the same clients would be trained and evaluated.
        chosen = nodes.choose(there, number, seed=self.seed + 1, round=server_round, known=known)
        config["server-round"] = server_round
        return self._messages(arrays, config, chosen, MessageType.EVALUATE)

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Every client's figures go into the record; their mean goes to Flower."""
        answers = read(replies, self.identities, loss_key=None, size_key=self.weighted_by_key)
        for reply in answers:
            if reply.reason is not None:
                log.warning("evaluation: client %d set aside: %s", reply.client, reply.reason)
        answers = [reply for reply in answers if reply.reason is None]
        loop.write_round(self, server_round, of_clients(answers, self.evaluations.metric))
        return self._mean("evaluate", answers) if answers else None

    # ---- the run ------------------------------------------------------------------------------

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """As Flower's, but from the round after the last one saved, if `directory` holds a run."""
        with alone(self.server.directory):
            return loop.start(
                self, grid, initial_arrays, num_rounds, timeout,
                train_config, evaluate_config, evaluate_fn,
            )  # fmt: skip
