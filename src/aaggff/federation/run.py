"""From a configuration to a trained model and its record: what `aaggff run` and compare call."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aaggff.data import dataset_spec
from aaggff.errors import UserError
from aaggff.federation.callbacks import Callback
from aaggff.federation.checkpoint import restore, save_checkpoint
from aaggff.federation.config import RunConfig
from aaggff.federation.record import CHECKPOINT, Recorder, is_run
from aaggff.federation.seeds import numpy_generator

if TYPE_CHECKING:
    from aaggff.federation.data import FederatedData
    from aaggff.federation.evaluate import Evaluation
    from aaggff.federation.federation import Federation

EVALUATIONS, CHECKPOINTS = 20, 10
"""About how often in a run, where the configuration does not say."""
EVALUATED_AT_MOST = 20_000
"""With more clients than this, a sample of `EVALUATED_SAMPLE` stands for all."""
EVALUATED_SAMPLE = 2_000


@dataclass(frozen=True)
class RunResult:
    """How a run ended; `rounds` is less than the configuration's if it was interrupted."""

    config: RunConfig
    evaluation: Evaluation
    metric: dict[str, float]
    """`fairness.summary` of the clients' metric in per cent."""
    loss: dict[str, float]
    """`fairness.summary` of the clients' test losses."""
    rounds: int
    seconds: float
    directory: Path | None
    stand_in: bool


def load_data(config: RunConfig) -> FederatedData:
    """The data of a configuration; its split follows from the seed, so methods are paired."""
    spec = dataset_spec(config.dataset)
    root = None if config.data_dir is None else Path(config.data_dir).expanduser()
    if config.stand_in and spec.stand_in is not None:
        return spec.stand_in(seed=config.seed, **config.data)
    return spec.load(root, seed=config.seed, **config.data)


def build(
    config: RunConfig,
    callbacks: Sequence[Callback] = (),
    data: FederatedData | None = None,
    *,
    kind: Callable[..., Federation] | None = None,
) -> Federation:
    """The federation a configuration describes, at round 0; `data`: what is loaded already.

    kind: the class to make, where it is not `Federation` itself.
    """
    from aaggff.federation.federation import Federation
    from aaggff.federation.sampling import sampler
    from aaggff.federation.server_optimizers import server_optimizer

    data = load_data(config) if data is None else data
    return (kind or Federation)(
        data,
        config.model,
        config.method,
        method_options=config.method_options,
        local=config.local_training(),
        per_round=config.per_round,
        sampler=sampler(
            data.train_sizes,
            config.per_round,
            seed=config.seed,
            drop_out=config.drop_out,
            slow=config.slow,
        ),
        server_optimizer=server_optimizer(config.server_optimizer, **config.server_options),
        executor=config.executor,
        workers=config.workers,
        device=config.device,
        seed=config.seed,
        track_regret=config.track_regret,
        callbacks=callbacks,
        model_options=config.model_options,
    )


def train(
    config: RunConfig,
    directory: Path | None = None,
    *,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    stop: Callable[[], bool] = lambda: False,
    data: FederatedData | None = None,
    until: int | None = None,
    federation: Federation | None = None,
) -> RunResult:
    """Train as configured and, with a directory, keep the record and checkpoints there.

    resume: continue what is in the directory from its last checkpoint (from the start if there
    is none yet); without it a directory that holds a run is refused. stop: asked after every
    round; when it says yes the run is saved and ends early. A directory of None writes nothing.
    until: stop after that round, evaluated and saved, with all else as for the whole run.
    data: what `load_data` gives for this configuration, if it is loaded already. federation: what
    `build` gives for it, if it is built already.

    >>> config = RunConfig.for_dataset("heart", method="fedavg", rounds=2)
    >>> result = train(config)
    >>> result.rounds, result.evaluation.metric, len(result.evaluation.values)
    (2, 'auroc', 4)
    """
    if directory is not None and not resume and is_run(directory):
        raise UserError(
            f"{directory} already holds a run: `aaggff run --resume {directory}` continues it, "
            "another --out starts a new one"
        )
    if federation is None and config.engine == "flower":
        return _on_flower(
            config, directory,
            resume=resume, callbacks=callbacks, stop=stop, data=data, until=until,
        )  # fmt: skip
    if federation is None:
        federation = build(config, data=data)
    recorder = None
    began = time.perf_counter()
    try:
        if directory is not None:
            checkpoint = directory / CHECKPOINT
            if resume and checkpoint.exists():
                began -= float(restore(federation, checkpoint, config).get("seconds", 0.0))
            recorder = Recorder(directory, config, round=federation.round)
        evaluation = _rounds(federation, config, recorder, callbacks, stop, began, until)
    finally:
        if recorder is not None:
            recorder.close()
        for callback in callbacks:
            callback.on_end(federation)
        federation.close()
    result = RunResult(
        config=config,
        evaluation=evaluation,
        metric=evaluation.metric_summary(),
        loss=evaluation.loss_summary(),
        rounds=federation.round,
        seconds=time.perf_counter() - began,
        directory=directory,
        stand_in=federation.data.stand_in,
    )
    if recorder is not None and result.rounds >= config.rounds:
        recorder.finish(result)
    return result


def _rounds(
    federation: Federation,
    config: RunConfig,
    recorder: Recorder | None,
    callbacks: Sequence[Callback],
    stop: Callable[[], bool],
    began: float,
    until: int | None,
) -> Evaluation:
    """Rounds until all are done or `stop` says so; returns the evaluation of the last one."""
    judged = judged_clients(config, len(federation.data))
    evaluation = None
    stopped = False
    last = config.rounds if until is None else min(until, config.rounds)
    while federation.round < last and not stopped:
        record = federation.step()
        done = federation.round
        stopped = stop() or done == last
        evaluation = None
        if done == last or config.due(done, config.evaluate_every, EVALUATIONS):
            evaluation = federation.evaluate(judged)
            record |= federation.evaluated(evaluation)
        if recorder is not None:
            named = evaluation is not None and not recorder.named
            recorder.write(
                record,
                None if evaluation is None else per_client(federation.data, evaluation, named),
            )
            if stopped or config.due(done, config.checkpoint_every, CHECKPOINTS):
                _save(federation, config, recorder, time.perf_counter() - began)
        for callback in callbacks:
            if evaluation is not None:
                callback.on_evaluation(federation, evaluation, record)
            callback.on_round(federation, record)
    return evaluation or federation.evaluate(judged)


def judged_clients(config: RunConfig, clients: int) -> NDArray[np.int64] | None:
    """Who is evaluated: None, everybody, or a fixed sample that follows from the seed.

    The sample is the same at every evaluation and for every method with this seed. Reading the
    test parts of a million clients every few rounds would take longer than training.

    >>> config = RunConfig.for_dataset("heart", method="fedavg")
    >>> judged_clients(config, 9_343), len(judged_clients(config, 1_500_000))
    (None, 2000)
    """
    number = config.evaluate_clients
    if number is None:
        number = clients if clients <= EVALUATED_AT_MOST else EVALUATED_SAMPLE
    if number >= clients:
        return None
    generator = numpy_generator(config.seed, 0, 0, "evaluated clients")
    return np.sort(generator.choice(clients, number, replace=False, shuffle=False))


def per_client(data: FederatedData, evaluation: Evaluation, named: bool) -> dict[str, Any]:
    """A line of clients.jsonl; the first one has the names and, of a sample, the numbers too."""
    line: dict[str, Any] = {
        "round": evaluation.round,
        "sizes": evaluation.sizes,
        evaluation.metric: evaluation.values,
        "loss": evaluation.loss,
    }
    if named:
        clients = evaluation.clients.tolist()
        line["names"] = [data.client_name(client) for client in clients]
        if len(clients) < len(data):
            line["clients"] = clients
            line["of"] = len(data)
    return line


def _save(federation: Federation, config: RunConfig, recorder: Recorder, seconds: float) -> None:
    recorder.secure()
    tensors, facts = federation.state_dict()
    facts = {"federation": facts, "round": federation.round, "seconds": seconds}
    save_checkpoint(recorder.directory / CHECKPOINT, tensors, facts, config)


def _on_flower(config: RunConfig, directory: Path | None, **more: Any) -> RunResult:
    try:
        engine = import_module("aaggff.deploy.flower.engine")
    except ImportError as error:
        raise UserError(
            f"--engine flower needs more packages ({error.name}): pip install 'aaggff[flower]'"
        ) from error
    result: RunResult = engine.train(config, directory, **more)
    return result
