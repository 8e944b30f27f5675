"""`aaggff run --engine flower`: the same configuration, every client a node of a Flower federation.

Sampling, the first model, evaluation and record are the local engine's. A round is Flower's:
`FairStrategy` sends messages to ClientApps in Ray's processes and decides from their replies.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from aaggff.deploy.flower.environment import be_quiet
from aaggff.errors import UserError
from aaggff.federation import run
from aaggff.federation.executors.processes import cores

be_quiet()  # Flower and Ray look at their environment when they are imported.

from flwr.serverapp import Grid  # noqa: E402

from aaggff.deploy.flower.on_flower import OnFlower  # noqa: E402
from aaggff.deploy.flower.simulated_client import client_app  # noqa: E402
from aaggff.deploy.flower.simulation import simulate  # noqa: E402

if TYPE_CHECKING:
    from aaggff.federation.config import RunConfig
    from aaggff.federation.data import FederatedData

NODES_AT_MOST = 10_000
"""Flower's simulation looks at every node, ten times a second."""


def train(
    config: RunConfig,
    directory: Path | None = None,
    *,
    data: FederatedData | None = None,
    **more: Any,
) -> run.RunResult:
    """As `federation.run.train`, in Flower's simulation; no process is left when it returns.

    more: what else `run.train` takes: callbacks, resume, stop.
    """
    if config.device != "cpu":
        raise UserError(f"--engine flower runs clients on the cpu, not on {config.device}")
    federation = run.build(config.but(executor="sequential"), data=data, kind=OnFlower)
    assert isinstance(federation, OnFlower)
    clients = len(federation.data)
    if clients > NODES_AT_MOST:
        raise UserError(
            f"--engine flower makes every client a node of Flower's, and {clients:,} are more than"
            f" its simulation takes ({NODES_AT_MOST:,}); --engine local has no such limit"
        )

    def main(grid: Grid) -> run.RunResult:
        federation.connect(grid)
        return run.train(config, directory, federation=federation, **more)

    return simulate(main, client_app(config), nodes=clients, workers=config.workers or cores())
