"""A whole NVFlare job in one call."""

from __future__ import annotations

from typing import Any

from nvflare.apis.dxo import DataKind
from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe
from nvflare.client.config import TransferType

from aaggff.deploy.nvflare.aggregator import FairAggregator


def fair_recipe(
    train_script: str,
    *,
    model: Any,
    sites: int,
    rounds: int,
    decision_maker: str = "aaggff-s",
    method_options: dict[str, Any] | None = None,
    server_optimizer: str = "sgd",
    server_options: dict[str, Any] | None = None,
    client_lr: float | None = None,
    directory: str = "",
    dataset: str = "federation",
    metric: str = "accuracy",
    name: str = "fair",
    **fedavg: Any,
) -> FedAvgRecipe:
    """NVFlare's FedAvg recipe for PyTorch with a `FairAggregator` in it.

    `recipe.execute(SimEnv(num_clients=4))` runs it in NVFlare's simulator, `PocEnv` and `ProdEnv`
    on real sites. `fedavg` are further arguments of NVFlare's recipe, such as `train_args`.
    """
    recipe = FedAvgRecipe(
        name=name,
        model=model,
        min_clients=sites,
        num_rounds=rounds,
        train_script=train_script,
        aggregator=FairAggregator(
            decision_maker,
            clients=sites,
            planned=rounds,
            method_options=method_options,
            server_optimizer=server_optimizer,
            server_options=server_options,
            client_lr=client_lr,
            directory=directory,
            dataset=dataset,
            metric=metric,
        ),
        aggregator_data_kind=DataKind.WEIGHT_DIFF,
        params_transfer_type=TransferType.DIFF,
        key_metric=fedavg.pop("key_metric", metric),
        **fedavg,
    )
    # Server and sites have aaggff installed: a copy of half its files would only be in the way.
    # (NVFlare has this under two names; a job without it is larger, and works.)
    job = getattr(recipe, "_job", None) or getattr(recipe, "job", None)
    if job is not None:
        job.set_app_packages(["aaggff"])
    return recipe
