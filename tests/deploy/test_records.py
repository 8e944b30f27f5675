"""What a deployed federation writes down of its evaluations, and that the report can show it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Context, Message, MetricRecord, RecordDict

from aaggff.deploy.flower import FairStrategy, report_loss
from aaggff.deploy.state_record import Evaluations, Settings, round_record
from aaggff.report.page import write_report
from tests.deploy.fake_grid import FakeGrid, quadratic_client, record, reply

TARGETS, SIZES, NODES = (1.0, 2.0, 4.0, 8.0), (10, 20, 30, 40), (11, 22, 33, 44)


def grid() -> FakeGrid:
    apps = [quadratic_client(target, size) for target, size in zip(TARGETS, SIZES)]
    return FakeGrid(dict(zip(NODES, apps)))


def play(directory: Path, on: FakeGrid, rounds: int, **options: object) -> list[dict]:
    strategy = FairStrategy(
        "aaggff-s", start_timeout=0.0, directory=directory,
        **({"clients": 4} | options),  # type: ignore[arg-type]
    )  # fmt: skip
    strategy.start(on, record(w=np.zeros(3, np.float32)), num_rounds=rounds, timeout=5)  # type: ignore[arg-type]
    return [json.loads(line) for line in (directory / "clients.jsonl").read_text().splitlines()]


def test_every_clients_figures_are_written_at_each_evaluation(tmp_path: Path) -> None:
    lines = play(tmp_path, grid(), 5, evaluate_every=2)
    assert [line["round"] for line in lines] == [2, 4, 5]  # and at the end
    assert lines[0]["names"] == [f"client {i}" for i in range(4)]
    for line in lines:
        assert len(line["accuracy"]) == len(line["loss"]) == 4
        assert line["accuracy"] == pytest.approx([1 / (1 + loss) for loss in line["loss"]])
    summary = json.loads((tmp_path / "rounds.jsonl").read_text().splitlines()[-1])
    expected = 100 * np.average(lines[-1]["accuracy"], weights=SIZES)
    assert summary["metric"]["avg"] == pytest.approx(expected)


def test_who_does_not_answer_an_evaluation_has_no_figure_and_no_other_ones(tmp_path: Path) -> None:
    on = grid()
    whole = on.answers[22]

    def trains_only(message: Message, context: Context) -> Message | None:
        return None if message.metadata.message_type == "evaluate" else whole(message, context)

    on.answers[22] = trains_only
    (line,) = play(tmp_path, on, 1)
    assert [each is None for each in line["accuracy"]] == [False] * 3  # clients 0, 2 and 3
    on.answers[22] = whole
    line = play(tmp_path, on, 2)[-1]
    assert len(line["accuracy"]) == 4
    assert line["names"] == ["client 0", "client 2", "client 3", "client 1"]
    write_report([tmp_path], tmp_path / "report.html")


def test_a_run_with_drop_outs_newcomers_and_node_ids_makes_a_report(tmp_path: Path) -> None:
    on = grid()
    play(tmp_path, on, 2)
    on.join(55, quadratic_client(16.0, 50))
    on.answers[11] = lambda message, context: None
    play(tmp_path, on, 5, clients=5)

    def nameless(message: Message, context: Context) -> Message:
        if message.metadata.message_type == "evaluate":
            return reply(message, None, num_examples=3, accuracy=float("nan"), loss=0.5)
        return reply(message, message.content["arrays"], num_examples=3, received_loss=0.5)

    on.answers[2**64 - 9] = nameless
    on.contexts[2**64 - 9] = on.contexts[22]
    play(tmp_path, on, 7, clients=6)
    page = tmp_path / "report.html"
    write_report([tmp_path], page)
    assert "client 4" in page.read_text()
    last = json.loads((tmp_path / "rounds.jsonl").read_text().splitlines()[-1])
    assert last["clients"] == [1, 2, 3, 4, 2**64 - 9]
    assert last["dropped"] == [0]


def test_nan_figures_become_null_and_are_left_out_of_the_summary() -> None:
    figures = Evaluations("auroc", {0: "north"})
    added, line = figures.lines(3, {0: 0.5, 1: float("nan")}, {0: 1.0, 1: 2.0}, {0: 10, 1: 30})
    assert added["metric"]["avg"] == pytest.approx(50.0)
    assert added["metric"]["missing"] == 1
    assert added["loss"]["avg"] == pytest.approx(1.75)
    assert line["names"] == ["north", "client 1"]


def test_flowers_result_holds_the_means_of_the_figures() -> None:
    strategy = FairStrategy("fedavg", clients=4, start_timeout=0.0)
    result = strategy.start(grid(), record(w=np.zeros(3, np.float32)), num_rounds=1, timeout=5)  # type: ignore[arg-type]
    received = [target**2 / 2 for target in TARGETS]
    expected = np.average(received, weights=SIZES)
    trained = result.train_metrics_clientapp[1]
    assert trained["received-loss"] == pytest.approx(expected)
    assert set(trained) == {"received-loss"}  # no mean of ids or counts
    assert set(result.evaluate_metrics_clientapp[1]) == {"eval_loss", "accuracy"}


def test_own_evaluation_at_the_server_is_called_as_flower_calls_it() -> None:
    seen = []

    def evaluate(number: int, arrays: object) -> MetricRecord:
        seen.append(number)
        return MetricRecord({"error": 1.0 / (1 + number)})

    strategy = FairStrategy("fedavg", clients=4, fraction_evaluate=0.0, start_timeout=0.0)
    result = strategy.start(
        grid(), record(w=np.zeros(3, np.float32)), num_rounds=2, timeout=5, evaluate_fn=evaluate,  # type: ignore[arg-type]
    )  # fmt: skip
    assert seen == [0, 1, 2]
    assert result.evaluate_metrics_serverapp[2]["error"] == pytest.approx(1 / 3)


def test_report_loss_keeps_what_is_there_and_knows_who_it_is() -> None:
    context = Context(1, 77, {"partition-id": 3}, RecordDict(), {})
    assert dict(report_loss({"num-examples": 5}, 0.25, context)) == {
        "num-examples": 5, "received-loss": 0.25, "client-id": 3,
    }  # fmt: skip
    own = report_loss(MetricRecord({"client-id": 9}), np.float32(0.5), context)  # type: ignore[arg-type]
    assert own["client-id"] == 9
    named = Context(1, 77, {"partition-id": 3, "client-id": 12}, RecordDict(), {})
    assert report_loss({}, 1.0, named)["client-id"] == 12
    assert "client-id" not in report_loss({}, 1.0)


def test_a_round_without_a_decision_is_a_line_like_any_other() -> None:
    line = round_record(4, None, [], dropped=[1, 2], set_aside={3: "loss is nan"}, seconds=0.5)
    assert line["clients"] == line["weights"] == line["losses"] == []
    assert (line["dropped"], line["set_aside"]) == ([1, 2], {"3": "loss is nan"})
    assert json.loads(json.dumps(line)) == line


def test_settings_survive_toml_whatever_is_in_them() -> None:
    import tomllib

    options = {"names": ['a "b"', "ü\\n"], "flag": True, "none": None, "more": {"q": 0.1}}
    text = Settings("wards\n", "term", 3, 9, options).toml()
    assert tomllib.loads(text) == {
        "dataset": "wards\n", "method": "term", "seed": 3, "rounds": 9,
        "names": ['a "b"', "ü\\n"], "flag": True, "more": {"q": 0.1},
    }  # fmt: skip
