"""The rounds one after another, from where the last process stopped."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result

from aaggff.deploy.flower.arrays import to_record, views
from aaggff.deploy.flower.metrics import Figures
from aaggff.deploy.state import CHECKPOINT
from aaggff.deploy.state_record import Recorder, Settings, finish, round_record
from aaggff.errors import UserError

if TYPE_CHECKING:
    from aaggff.deploy.flower.strategy import FairStrategy

log = logging.getLogger("flwr")
EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]


def start(
    strategy: FairStrategy,
    grid: Grid,
    initial_arrays: ArrayRecord,
    num_rounds: int,
    timeout: float,
    train_config: ConfigRecord | None,
    evaluate_config: ConfigRecord | None,
    evaluate_fn: EvaluateFn | None,
) -> Result:
    """Train for the rounds that are still to do; what a saved round did is never done again."""
    began = time.perf_counter()
    strategy.timeout, strategy.rounds = timeout, num_rounds
    train_config = ConfigRecord() if train_config is None else train_config
    evaluate_config = ConfigRecord() if evaluate_config is None else evaluate_config
    arrays = resume(strategy, initial_arrays)
    result = Result()
    result.arrays = arrays
    log.info("FairStrategy (%s): rounds %d to %d", strategy.server.method,
             strategy.server.round + 1, num_rounds)  # fmt: skip
    strategy.summary()
    if evaluate_fn is not None and strategy.server.round == 0:
        _keep(result.evaluate_metrics_serverapp, 0, evaluate_fn(0, arrays))
    try:
        for number in range(strategy.server.round + 1, num_rounds + 1):
            new, metrics = train_round(strategy, grid, number, arrays, train_config)
            if new is not None:
                result.arrays = arrays = new
            _keep(result.train_metrics_clientapp, number, metrics)
            asked = strategy.configure_evaluate(number, arrays, evaluate_config, grid)
            answers = grid.send_and_receive(asked, timeout=timeout) if asked else []
            _keep(
                result.evaluate_metrics_clientapp,
                number,
                strategy.aggregate_evaluate(number, answers),
            )
            if evaluate_fn is not None:
                _keep(result.evaluate_metrics_serverapp, number, evaluate_fn(number, arrays))
            said = {**(metrics or {}), **result.evaluate_metrics_clientapp.get(number, {})}
            log.info("round %d/%d done: %s", number, num_rounds, said)
    finally:
        if strategy.recorder is not None:
            strategy.recorder.close()
            strategy.recorder = None
    if strategy.server.directory is not None and strategy.server.round >= num_rounds:
        finish(
            strategy.server.directory,
            rounds=strategy.server.round,
            seconds=time.perf_counter() - began,
            metric=strategy.evaluations.metric,
        )
    return result


def train_round(
    strategy: FairStrategy, grid: Grid, number: int, arrays: ArrayRecord, config: ConfigRecord
) -> tuple[ArrayRecord | None, MetricRecord | None]:
    """Ask, wait, decide, mix; the models of all clients are forgotten when it returns."""
    asked = strategy.configure_train(number, arrays, config, grid)
    replies = grid.send_and_receive(asked, timeout=strategy.timeout)
    return strategy.aggregate_train(number, replies)


def resume(strategy: FairStrategy, initial_arrays: ArrayRecord) -> ArrayRecord:
    """The model to go on from: the saved one, else the initial one."""
    saved = strategy.server.resume()
    arrays = initial_arrays
    if saved is not None:
        model, facts = saved
        expected = views(initial_arrays)
        for name in expected.keys() | model.keys():
            here, there = expected.get(name), model.get(name)
            if here is None or there is None or here.shape != there.shape:
                raise UserError(
                    f"{strategy.server.directory} holds another model: array {name!r} is"
                    f" {None if there is None else there.shape} there and"
                    f" {None if here is None else here.shape} here; give another directory"
                )
        arrays = to_record(model, expected)
        strategy.identities.known.update({int(n): int(c) for n, c in facts["nodes"].items()})
        strategy.evaluations.order = [int(client) for client in facts["order"]]
        log.info("continuing after round %d", strategy.server.round)
    open_recorder(strategy)
    return arrays


def refuse_to_overwrite(strategy: FairStrategy) -> None:
    """A wrapper's loop begins at round 1 and would cut the records of what is there."""
    directory = strategy.server.directory
    if directory is not None and strategy.recorder is None and (directory / CHECKPOINT).exists():
        raise UserError(
            f"{directory} holds a run; a strategy inside a wrapper begins at round 1 and cannot"
            f" continue it: give another directory"
        )


def open_recorder(strategy: FairStrategy) -> None:
    """Begin or continue the records, cut to the rounds that were saved."""
    directory = strategy.server.directory
    if directory is None or strategy.recorder is not None:
        return
    settings = strategy.settings or Settings(
        strategy.dataset,
        strategy.server.method,
        strategy.seed,
        strategy.rounds or 0,
        {
            "server_optimizer": strategy.server.optimizer.name,
            "engine": "flower",
            "method_options": strategy.server.method_options,
        },
    )
    strategy.recorder = Recorder(directory, settings, round=strategy.server.round)


def write_round(strategy: FairStrategy, number: int, figures: Figures | None) -> None:
    """The round is over: its record, then the state, so that the records reach as far as it."""
    if strategy.record is None or strategy.record["round"] != number:
        if strategy.asked_in != number:
            return  # no training in this round
        # A wrapper did not hand the replies on: nobody's update counted.
        strategy.record = round_record(number, None, [], lr=strategy.lr(number))
    line = None
    if figures is not None:
        added, line = strategy.evaluations.lines(
            number, figures.values, figures.losses, figures.sizes
        )
        strategy.record |= added | strategy.server.account()
    if strategy.server.directory is None:
        return
    open_recorder(strategy)  # a wrapper's loop never comes past `start`
    assert strategy.recorder is not None
    strategy.recorder.write(strategy.record, line)
    strategy.recorder.secure()
    facts = {
        "nodes": {str(node): client for node, client in strategy.identities.known.items()},
        "order": strategy.evaluations.order,
    }
    strategy.server.save(number, strategy.current, facts)


def _keep(where: dict[int, MetricRecord], round: int, metrics: MetricRecord | None) -> None:
    if metrics is not None:
        where[round] = metrics
