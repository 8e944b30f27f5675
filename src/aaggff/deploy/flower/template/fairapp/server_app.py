"""The server: Flower's own loop, with a decision maker where FedAvg counts samples."""

from __future__ import annotations

from pathlib import Path

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp

from aaggff.deploy.flower import FairStrategy
from aaggff.deploy.template import options

from . import task

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    seed = int(config["seed"])
    strategy = FairStrategy(
        str(config["method"]),
        clients=len(task.SITES),
        method_options=options(str(config["method-options"])),
        server_optimizer=str(config["server-optimizer"]),
        fraction_train=float(config["fraction"]),
        min_train_nodes=int(config["least-sites"]),
        start_timeout=float(config["start-timeout"]),
        client_lr=task.LOCAL.lr_at,
        two_phase=bool(config["two-phase"]),
        directory=Path(str(config["directory"])).expanduser(),
        dataset=task.NAME,
        metric=task.TASK.metric,
        names=dict(enumerate(task.SITES)),
        evaluate_every=int(config["evaluate-every"]),
        seed=seed,
    )
    # Continues after the last round that was saved in `directory`, if there is one.
    strategy.start(
        grid,
        ArrayRecord(task.model(seed).state_dict()),
        num_rounds=int(config["rounds"]),
        timeout=float(config["round-timeout"]),
    )
