"""What a deployed federation writes is shown and read like any other run, whoever joins late."""

import re

import numpy as np
import pytest

import aaggff
from aaggff.report.collect import read_run
from aaggff.report.page import render

pytest.importorskip("flwr", reason="flwr is not installed")

from aaggff.deploy.flower import FairStrategy
from tests.deploy.fake_grid import FakeGrid, quadratic_client, record

TARGETS, SIZES = (0.0, 1.0, 2.0, 5.0), (30, 60, 20, 50)


@pytest.fixture
def deployed(tmp_path):
    """Six rounds on Flower's messages, of which the fourth client is there for the last three."""
    apps = [quadratic_client(target, size) for target, size in zip(TARGETS, SIZES)]
    grid = FakeGrid(dict(zip((11, 22, 33), apps)))

    def at_round(number):
        if number == 3 and 44 not in grid.answers:
            grid.join(44, apps[3])
        return 0.1

    strategy = FairStrategy(
        "aaggff-s",
        clients=4,
        directory=tmp_path / "hospitals",
        names={0: "Cleveland", 1: "Hungary", 2: "Switzerland", 3: "Long Beach VA"},
        evaluate_every=1,
        min_available_nodes=3,
        min_train_nodes=3,
        start_timeout=0.0,
        client_lr=at_round,
    )
    strategy.start(grid, record(w=np.zeros(3, np.float32)), num_rounds=6, timeout=5)
    return tmp_path / "hospitals"


def test_its_page_shows_its_own_metric_and_everybody(deployed):
    run = read_run(deployed)
    assert run.metric == "accuracy"
    assert run.names() == ["Cleveland", "Hungary", "Switzerland", "Long Beach VA"]
    page = render([deployed])
    assert "Every client's accuracy" in page.replace("&#39;", "'")
    assert "aaggff-s: weights" in page
    assert "Long Beach VA" in page
    assert "1 method, 6 rounds, 4 clients" in page
    assert not re.search(r"\bnan\b|None\b", re.sub(r"<script>.*</script>", "", page, flags=re.S))


def test_load_runs_reads_it_as_a_run(deployed):
    loaded = aaggff.load_runs(deployed)
    assert loaded.runs.select("label", "metric", "finished", "rounds_done").row(0) == (
        "aaggff-s",
        "accuracy",
        True,
        6,
    )
    present = loaded.clients.filter(round=1)["name"].to_list()
    assert present == ["Cleveland", "Hungary", "Switzerland"]
    last = loaded.clients.filter(round=6)
    assert last["name"].to_list()[3] == "Long Beach VA"
    assert last["size"].to_list() == list(SIZES)
    for number in range(1, 7):
        assert loaded.weights.filter(round=number)["weight"].sum() == pytest.approx(1.0)


def test_rounds_in_which_nobody_counted_are_no_column_of_the_weights(deployed):
    file = deployed / "rounds.jsonl"
    lines = file.read_text().splitlines()
    empty = re.sub(r'"(clients|losses|sizes|weights)": \[[^]]*\]', r'"\1": []', lines[1])
    file.write_text("\n".join([lines[0], empty, *lines[2:]]) + "\n")
    assert "aaggff-s: weights" in render([deployed])
