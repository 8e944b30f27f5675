"""NVFlare's aggregator interface around `FairRounds`."""

from __future__ import annotations

from typing import Any

from nvflare.apis.dxo import DataKind
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import ReservedKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.aggregators.model_aggregator import ModelAggregator
from nvflare.app_common.utils.fl_model_utils import FLModelUtils

from aaggff.deploy.nvflare.round import WHOLE
from aaggff.deploy.nvflare.server import FairRounds
from aaggff.deploy.state import FairServer
from aaggff.deploy.state_record import Settings


class FairAggregator(ModelAggregator):  # type: ignore[misc]
    """A decision maker in the place of NVFlare's weighted averaging.

    Sites send differences (`params_transfer_type=TransferType.DIFF`) and report their loss with
    `aaggff.deploy.nvflare.report`. Every argument is plain data, because NVFlare ships a job as
    JSON and builds the aggregator on the server.

    Args:
        decision_maker: a name of `aaggff.methods()`.
        clients: how many sites the federation has; 0: as many as answer in the first round.
        planned: how many rounds the job has; the record is complete after so many.
        method_options, server_optimizer, server_options: as in `aaggff.Federation`.
        client_lr: the sites' learning rate; only q-FedAvg as its authors run it needs it.
        directory: where the run's record and the decision state are kept, so that a restarted
            job goes on with what it knew; empty: in the job's own run folder on the server.
        dataset, metric: for the record: the federation's name, the key of the sites' metric.
    """

    def __init__(
        self,
        decision_maker: str = "aaggff-s",
        clients: int = 0,
        planned: int = 0,
        method_options: dict[str, Any] | None = None,
        server_optimizer: str = "sgd",
        server_options: dict[str, Any] | None = None,
        client_lr: float | None = None,
        directory: str = "",
        dataset: str = "federation",
        metric: str = "accuracy",
    ) -> None:
        super().__init__()
        self.expected_data_kind = DataKind.WEIGHT_DIFF
        self.decision_maker, self.clients, self.planned = decision_maker, clients, planned
        self.method_options, self.client_lr = method_options, client_lr
        self.server_optimizer, self.server_options = server_optimizer, server_options
        self.directory, self.dataset, self.metric = directory, dataset, metric
        self._rounds: FairRounds | None = None
        # A wrong name or option fails where the job is written, not on the server.
        self._server(None)

    def _server(self, directory: str | None) -> FairServer:
        return FairServer(
            self.decision_maker,
            clients=self.clients or None,
            method_options=self.method_options,
            server_optimizer=self.server_optimizer,
            server_options=self.server_options,
            directory=directory,
        )

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Find the run folder when the job starts on the server; say when it is done."""
        super().handle_event(event_type, fl_ctx)
        if event_type == EventType.START_RUN:
            workspace = fl_ctx.get_engine().get_workspace()
            self._begin(self.directory or f"{workspace.get_run_dir(fl_ctx.get_job_id())}/aaggff")
        elif event_type == EventType.END_RUN and self._rounds is not None:
            self._rounds.finish(self.planned)

    def _begin(self, directory: str) -> FairRounds:
        options = {"method_options": self.method_options} if self.method_options else {}
        settings = Settings(
            self.dataset,
            self.decision_maker,
            rounds=self.planned,
            more={"server_optimizer": self.server_optimizer, "engine": "nvflare", **options},
        )
        self._rounds = FairRounds(
            self._server(directory or None),
            settings=settings,
            metric=self.metric,
            lr=self.client_lr,
        )
        return self._rounds

    @property
    def rounds(self) -> FairRounds:
        """The state behind the aggregator; without a server (a unit test) it is not kept."""
        return self._rounds or self._begin(self.directory)

    def accept(self, shareable: Shareable, fl_ctx: FLContext) -> bool:
        """The same for controllers that hand on what was received as it is (ScatterAndGather)."""
        self.fl_ctx = fl_ctx
        model = FLModelUtils.from_shareable(shareable, fl_ctx)
        sender = shareable.get_peer_prop(ReservedKey.IDENTITY_NAME, None)
        if sender is not None:
            model.meta["client_name"] = sender
        self.accept_model(model)
        return True

    def accept_model(self, model: FLModel) -> None:
        """Take one site's update."""
        site = str((model.meta or {}).get("client_name", "unknown site"))
        whole = model.params_type != ParamsType.DIFF
        self.rounds.accept(site, model.params, model.metrics, WHOLE if whole else None)

    def aggregate_model(self) -> FLModel:
        """Decide, mix, and hand NVFlare the difference to add to the model."""
        change = self.rounds.close()
        record = self.rounds.record or {}
        shares = zip(record["clients"], record["weights"])
        told = ", ".join(f"{site} {weight:.3f}" for site, weight in shares)
        if self.fl_ctx is not None:
            self.info(f"{self.decision_maker}: weights {told or 'none'}")
            for site, reason in record["set_aside"].items():
                self.warning(f"{site} was set aside: {reason}")
        return FLModel(params_type=ParamsType.DIFF, params=change)

    def reset_stats(self) -> None:
        """A new round begins."""
        self.rounds.reset()
