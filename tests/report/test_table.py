"""The table marks what the statistics support, and nothing else."""

import numpy as np

from aaggff.experiments.statistics import paired
from aaggff.report.collect import RunRecord
from aaggff.report.groups import Group
from aaggff.report.table import table


def run_with(directory, label, seed, **values):
    metric = {"avg": 80.0, "worst": 60.0, "best": 95.0, "gini": 5.0, "gap": 35.0} | values
    record = {"round": 1, "metric": metric, "loss": {"avg": 0.5, "worst_client": 0.9}}
    return RunRecord(directory, label, seed, {}, [record], [], {})


def groups_with(directory, seeds, **differences):
    rng = np.random.default_rng(0)
    noise = {seed: rng.normal(0, 3) for seed in seeds}
    made = []
    for i, label in enumerate(["fedavg", "aaggff-s"]):
        runs = []
        for seed in seeds:
            # The split's luck is shared by both methods; the differences are the method's.
            shift = {key: i * d + rng.normal(0, 0.1) for key, d in differences.items()}
            base = {"avg": 80.0, "worst": 60.0}
            values = {key: base[key] + noise[seed] + shift[key] for key in base}
            runs.append(run_with(directory, label, seed, **values))
        made.append(Group(f"m{i}", label, runs))
    return made


def marked(made):
    return {
        column.name
        for index, column in enumerate(made.columns)
        for row in made.rows
        if row.cells[index].mark
    }


def test_only_what_is_significant_is_marked(tmp_path):
    made = table(groups_with(tmp_path, range(30), avg=0.0, worst=2.0))
    assert marked(made) == {"worst 10 %"}
    assert "30 seeds" in made.caption


def test_three_seeds_cannot_mark_anything_and_the_caption_says_so(tmp_path):
    made = table(groups_with(tmp_path, (2, 4, 6), avg=0.0, worst=50.0))
    assert marked(made) == set()
    assert "no difference from FedAvg can be significant" in made.caption


def test_cells_are_means_and_deviations_over_seeds(tmp_path):
    group = Group(
        "m0", "term", [run_with(tmp_path, "term", seed, avg=70.0 + seed) for seed in (1, 2, 3)]
    )
    made = table([group])
    assert made.rows[0].cells[0].text == "72.00"
    assert made.rows[0].cells[0].small == "± 1.00"
    assert marked(made) == set()


def test_a_measure_that_nobody_has_gets_no_column_and_one_that_some_lack_says_none(tmp_path):
    first = Group("m0", "fedavg", [run_with(tmp_path, "fedavg", 2)])
    second = Group("m1", "term", [run_with(tmp_path, "term", 2, gini=None)])
    made = table([first, second])
    gini = [column.name for column in made.columns].index("Gini")
    assert made.rows[1].cells[gini].text == "none"
    bare = Group("m0", "fedavg", [RunRecord(tmp_path, "fedavg", 2, {}, [{"round": 1}], [], {})])
    assert table([bare]).columns == []


def test_the_marks_are_those_of_the_statistics_module(tmp_path):
    groups = groups_with(tmp_path, range(12), avg=0.3, worst=-0.2)
    columns = {
        name: {g.label: list(g.final("metric", name).values()) for g in groups}
        for name in ("avg", "worst")
    }
    found = paired(columns, ["fedavg"])["fedavg"]
    strong = {name for name in columns if found[name]["aaggff-s"].corrected * 7 / 2 < 0.05}
    titles = {"avg": "avg", "worst": "worst 10 %"}
    assert {titles[name] for name in strong} <= marked(table(groups))
