"""Somebody's Flower app, before and after the three lines of docs/flower.md, under `flwr run`."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from aaggff.deploy.flower.environment import LOOPBACK, QUIET
from aaggff.deploy.flower.local_federation import free_port
from aaggff.deploy.flower.processes import Processes, program
from aaggff.report.page import write_report

pytestmark = [pytest.mark.deploy, pytest.mark.slow]

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "flower.md"

APP = {
    "pyproject.toml": """
        [build-system]
        requires = ["hatchling"]
        build-backend = "hatchling.build"

        [project]
        name = "wards"
        version = "1.0.0"
        description = "Somebody's app"
        license = "Apache-2.0"
        dependencies = ["flwr[simulation]"]

        [tool.flwr.app]
        publisher = "somebody"

        [tool.flwr.app.components]
        serverapp = "wards.server_app:app"
        clientapp = "wards.client_app:app"

        [tool.flwr.app.config]
        rounds = 2
        record = ""
        """,
    "wards/__init__.py": "",
    "wards/task.py": '''
        """Handwritten digits; every ward sees some of the ten more often than others."""

        import numpy as np
        from sklearn.datasets import load_digits


        def load_data(ward):
            pixels, digit = load_digits(return_X_y=True)
            chance = np.where(digit % 4 == ward, 0.5, 0.02 * (1 + ward))
            mine = np.random.default_rng(ward).random(len(digit)) < chance
            x = np.hstack([pixels[mine] / 16, np.ones((mine.sum(), 1))])
            return x.astype(np.float32), digit[mine]


        def softmax(x, w):
            scores = x @ w
            e = np.exp(scores - scores.max(axis=1, keepdims=True))
            return e / e.sum(axis=1, keepdims=True)


        def loss_and_hits(w, x, y):
            p = softmax(x, w)
            loss = -np.log(p[np.arange(len(y)), y] + 1e-12).mean()
            return float(loss), float((p.argmax(1) == y).mean())


        def fit(w, x, y):
            for _ in range(20):
                w = w - 0.5 * x.T @ (softmax(x, w) - np.eye(10)[y]) / len(y)
            return w.astype(np.float32)
        ''',
    "wards/client_app.py": """
        from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
        from flwr.clientapp import ClientApp

        from wards.task import fit, load_data, loss_and_hits

        app = ClientApp()


        @app.train()
        def train(message, context):
            (w,) = message.content["arrays"].to_numpy_ndarrays()
            x, y = load_data(context.node_config["partition-id"])
            metrics = {"num-examples": len(y)}
            w = fit(w, x, y)
            metrics["loss_after"], metrics["hits"] = loss_and_hits(w, x, y)
            content = {"arrays": ArrayRecord([w]), "metrics": MetricRecord(metrics)}
            return Message(RecordDict(content), reply_to=message)


        @app.evaluate()
        def evaluate(message, context):
            (w,) = message.content["arrays"].to_numpy_ndarrays()
            x, y = load_data(context.node_config["partition-id"])
            loss, hits = loss_and_hits(w, x, y)
            metrics = {"loss": loss, "hits": hits, "num-examples": len(y)}
            return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message)
        """,
    "wards/server_app.py": """
        import numpy as np
        from flwr.app import ArrayRecord
        from flwr.serverapp import ServerApp
        from flwr.serverapp.strategy import FedAvg

        app = ServerApp()


        @app.main()
        def main(grid, context):
            record = context.run_config["record"]
            strategy = FedAvg(fraction_evaluate=1.0)
            first = ArrayRecord([np.zeros((65, 10), np.float32)])
            result = strategy.start(grid, first, num_rounds=context.run_config["rounds"])
            np.save(record + ".npy", result.arrays.to_numpy_ndarrays()[0])
        """,
}


def three_lines() -> list[tuple[str, str]]:
    """What docs/flower.md says to change: (before, after) of each of its diffs."""
    changes = []
    for block in re.findall(r"```diff\n(.*?)```", DOCUMENT.read_text(), re.DOTALL):
        lines = block.splitlines()
        before = [line[1:] for line in lines if line[0] in "- "]
        after = [line[1:] for line in lines if line[0] in "+ "]
        changes.append(("\n".join(before), "\n".join(after)))
    return changes


def write_app(where: Path, changes: list[tuple[str, str]]) -> Path:
    made = 0
    for name, text in APP.items():
        lines = [line[8:] for line in text.splitlines()[1:]]
        text = "\n".join(lines) + "\n"
        for before, after in changes:
            made += text.count(before)
            text = text.replace(before, after)
        (where / name).parent.mkdir(parents=True, exist_ok=True)
        (where / name).write_text(text)
    assert made == len(changes)
    return where


@pytest.fixture
def flower(tmp_path: Path) -> Iterator[Processes]:
    """Flower's programs, in a home of their own; nothing is left of them."""
    home = tmp_path / "home"
    home.mkdir()
    ports = {
        name: str(free_port("127.0.0.1"))
        for name in ("FLWR_LOCAL_SUPERLINK_HTTP_API_PORT", "FLWR_LOCAL_CONTROL_API_PORT")
    }
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    own = {"FLWR_HOME": str(home), "PATH": path, "OMP_NUM_THREADS": "1"}
    started = Processes(home, {**os.environ, **QUIET, **LOOPBACK, **ports, **own})
    try:
        yield started
    finally:
        started.end(last="flwr")
        assert started.found() == {}


def flwr_run(flower: Processes, app: Path, record: Path, rounds: int) -> str:
    settings = f'record="{record}" rounds={rounds}'
    flower.start("flwr", [
        program("flwr"), "run", str(app), "--stream",
        "--federation-config", "num-supernodes=4", "--run-config", settings,
    ])  # fmt: skip
    code = flower.running["flwr"].wait(timeout=300)
    said = flower.said("flwr")
    assert code == 0, said[-3000:]
    assert Path(f"{record}.npy").exists(), said[-3000:]
    return said


def test_three_lines_make_it_fair_and_it_goes_on_where_it_stopped(
    flower: Processes, tmp_path: Path
) -> None:
    changes = three_lines()
    assert len(changes) == 3
    plain = write_app(tmp_path / "plain", [])
    fair = write_app(tmp_path / "fair", changes)
    flwr_run(flower, plain, tmp_path / "fedavg", 1)

    record = tmp_path / "run"
    flwr_run(flower, fair, record, 2)
    said = flwr_run(flower, fair, record, 4)
    assert "continuing after round 2" in said
    lines = [json.loads(line) for line in (record / "rounds.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines] == [1, 2, 3, 4]
    for line in lines:
        assert line["clients"] == [0, 1, 2, 3]  # the race for the first round was waited out
        assert sum(line["weights"]) == pytest.approx(1.0)
        assert line["dropped"] == []
    # Who is worst off weighs most.
    last = lines[-1]
    assert np.argmax(last["weights"]) == np.argmax(np.sum([line["losses"] for line in lines], 0))

    page = tmp_path / "report.html"
    write_report([record], page)
    assert "client 3" in page.read_text()
    expected = without_flower(fair / "wards" / "task.py", lines)
    np.testing.assert_allclose(np.load(f"{record}.npy"), expected, rtol=1e-4, atol=1e-5)


def without_flower(task: Path, lines: list[dict]) -> np.ndarray:
    """The same rounds in this process, under the weights of the record."""
    spec = importlib.util.spec_from_file_location("wards_task", task)
    assert spec is not None
    assert spec.loader is not None
    wards = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(wards)
    w = np.zeros((65, 10), np.float32)
    for line in lines:
        moved = [wards.fit(w, *wards.load_data(ward)) for ward in range(4)]
        w = sum(p * each for p, each in zip(line["weights"], moved))
    return w
