"""Two callbacks that pass a run's figures on: to TensorBoard and to MLflow."""

from __future__ import annotations

import math
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aaggff.errors import UserError
from aaggff.federation.callbacks import Callback

if TYPE_CHECKING:
    from aaggff.federation.config import RunConfig
    from aaggff.federation.evaluate import Evaluation
    from aaggff.federation.federation import Federation

ROUND = ("objective", "entropy", "effective_clients", "kl_from_size", "lr", "step")


def figures(record: dict[str, Any]) -> dict[str, float]:
    """The numbers of a round's record, flat: round/..., metric/..., loss/..., regret/....

    >>> figures({"round": 3, "objective": 0.5, "dropped": [4, 7], "loss": {"avg": 0.25}})
    {'round/objective': 0.5, 'round/dropped': 2.0, 'loss/avg': 0.25}
    """
    found: dict[str, Any] = {f"round/{name}": record.get(name) for name in ROUND}
    for name in ("dropped", "set_aside"):
        if name in record:
            found[f"round/{name}"] = len(record[name])
    for name in ("metric", "loss"):
        found |= {f"{name}/{key}": value for key, value in record.get(name, {}).items()}
    found |= {"regret/regret": record.get("regret"), "regret/bound": record.get("regret_bound")}
    return {
        name: float(value)
        for name, value in found.items()
        if value is not None and math.isfinite(value)
    }


class TensorBoard(Callback):
    """Scalars of every round, and histograms over clients at evaluations, in `directory`.

    Look at them with `tensorboard --logdir DIRECTORY`.
    """

    def __init__(self, directory: Path | str) -> None:
        try:
            writer = import_module("torch.utils.tensorboard").SummaryWriter
        except ImportError as error:
            raise UserError(
                f"--tensorboard needs more packages ({error.name}): pip install 'aaggff[trackers]'"
            ) from error
        self._writer = writer(str(directory))

    def on_round(self, federation: Federation, record: dict[str, Any]) -> None:
        for name, value in figures(record).items():
            self._writer.add_scalar(name, value, record["round"])

    def on_evaluation(
        self, federation: Federation, evaluation: Evaluation, record: dict[str, Any]
    ) -> None:
        for name, values in ((evaluation.metric, evaluation.values), ("loss", evaluation.loss)):
            there = values[~(values != values)]
            if there.size:
                self._writer.add_histogram(f"clients/{name}", there, record["round"])
        self._writer.flush()

    def on_end(self, federation: Federation) -> None:
        self._writer.close()


class MLflow(Callback):
    """One MLflow run: the configuration as parameters, the figures of each round as metrics.

    Where it goes is MLflow's own business (MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME).
    """

    def __init__(self, config: RunConfig | None = None, *, run_name: str | None = None) -> None:
        try:
            self._mlflow = import_module("mlflow")
        except ImportError as error:
            raise UserError(f"--mlflow needs MLflow ({error.name}): pip install mlflow") from error
        self._run = self._mlflow.start_run(run_name=run_name)
        if config is not None:
            self._mlflow.log_params(_flat(config.model_dump()))

    def on_round(self, federation: Federation, record: dict[str, Any]) -> None:
        # MLflow's names allow slashes; one call a round, since a call may cross a network.
        self._mlflow.log_metrics(figures(record), step=record["round"])

    def on_end(self, federation: Federation) -> None:
        self._mlflow.end_run()


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{key}": each for key, each in value.items()}
        else:
            flat[name] = value
    return flat
