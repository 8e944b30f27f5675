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
    seed, rounds = int(config["seed"]), int(config["rounds"])
    strategy = FairStrategy(
        str(config["method"]),
        clients=int(config["clients"]),
        method_options=options(str(config["method-options"])),
        server_optimizer=str(config["server-optimizer"]),
        min_train_nodes=int(config["least-clients"]),
        start_timeout=float(config["start-timeout"]),
        client_lr=task.LOCAL.lr_at,
        two_phase=bool(config["two-phase"]),
        directory=Path(str(config["directory"])).expanduser(),
        dataset=task.NAME,
        metric=task.TASK.metric,
        names=dict(enumerate(task.CLIENTS)),
        evaluate_every=int(config["evaluate-every"]),
        seed=seed,
    )
    # Continues after the last round that was saved in `directory`, if there is one.
    strategy.start(
        grid,
        ArrayRecord(task.model(seed).state_dict()),
        num_rounds=rounds,
        timeout=float(config["round-timeout"]),
    )
