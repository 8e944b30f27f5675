"""The local federation, except that a round's clients are asked through Flower."""

from __future__ import annotations

from typing import Any

from flwr.app import ConfigRecord
from flwr.serverapp import Grid

from aaggff.deploy.flower.loop import train_round
from aaggff.deploy.flower.simulated_client import take, to_arrays
from aaggff.deploy.flower.strategy import FairStrategy
from aaggff.federation.federation import Federation


class OnFlower(Federation):
    """A federation whose rounds are `FairStrategy`'s, on a grid with a node for each client."""

    _grid: Grid
    _strategy: FairStrategy

    def connect(self, grid: Grid) -> None:
        """Use these nodes; `partition-id` says which client a node is."""
        clients = len(self.data)
        self._grid = grid
        self._strategy = FairStrategy(
            self.decision_maker,
            clients=clients,
            server_optimizer=self.server_optimizer,
            fraction_evaluate=0.0,
            min_train_nodes=1,
            min_available_nodes=clients,
            client_lr=self.local.lr_at,
            sampler=self.sampler,
        )

    def _round(self) -> dict[str, Any]:
        t = self.round + 1
        strategy = self._strategy
        new, _ = train_round(strategy, self._grid, t, to_arrays(self.model), ConfigRecord())
        record = strategy.record
        assert record is not None
        if new is None:
            self._refuse_if_hopeless(t, record["losses"])
            self._apply(t, None, 1.0)
        else:
            take(self.model, new)
            self._refuse_if_not_finite(t)
        if self.tracker is not None:
            self.tracker.record(self._decision())
        self.round = t
        return record
