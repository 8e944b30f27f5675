"""The table marks what the statistics support, and nothing else."""

import numpy as np
import pytest

from aaggff.experiments.compare import MEASURES, Comparison
from aaggff.experiments.jobs import Outcome
from aaggff.experiments.statistics import paired
from aaggff.report.collect import RunRecord, collect
from aaggff.report.groups import Group, group_runs
from aaggff.report.table import each_client, tables
from tests.report.made_runs import write_comparison


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


def table(groups):
    """The first of the page's tables: the results."""
    return tables(groups)[0]


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


def compared(directory, seeds):
    """The runs of three methods and the same numbers as `aaggff compare` has them."""
    rng = np.random.default_rng(1)
    groups, outcomes = [], {}
    for i, label in enumerate(["fedavg", "uniform", "aaggff-s"]):
        runs, outcomes[label] = [], []
        for seed in seeds:
            metric = {key: 70 + rng.normal() for key in ("avg", "worst", "best", "gini", "gap")}
            metric["worst"] += 4 * i
            loss = {"avg": 0.5 + 0.01 * rng.normal(), "worst_client": 0.9 - 0.1 * i}
            loss["worst_client"] += 0.01 * rng.normal()
            record = {"round": 1, "metric": metric, "loss": loss}
            runs.append(RunRecord(directory, label, seed, {}, [record], [], {}))
            outcomes[label].append(Outcome(metric, loss, "auroc", False, 0.0, 0.0))
        groups.append(Group(f"m{i}", label, runs))
    return groups, Comparison("heart", "auroc", 1, list(seeds), outcomes)


def test_marks_and_differences_are_those_that_compare_prints(tmp_path):
    groups, comparison = compared(tmp_path, range(1, 13))
    made = tables(groups)
    assert [each.heading for each in made] == [
        "",
        "Less FedAvg, seed by seed",
        "Less uniform weights, seed by seed",
    ]
    assert f"over all {comparison.tests()} tests" in made[1].caption
    found = comparison.differences()
    for each, reference in zip(made[1:], ("fedavg", "uniform"), strict=True):
        for row in each.rows:
            cells = zip(each.columns, row.cells, MEASURES, strict=True)
            for _, cell, measure in cells:
                difference = found[reference][measure.key][row.label]
                assert float(cell.value) == pytest.approx(difference.mean, rel=1e-5)
                assert cell.mark == difference.significant()
    assert [row.label for row in made[2].rows] == ["aaggff-s"]
    assert {cell.mark for row in made[1].rows for cell in row.cells} == {True, False}
    results = {row.label: [cell.mark for cell in row.cells] for row in made[0].rows}
    assert results["aaggff-s"] == [cell.mark for cell in made[1].rows[1].cells]
    assert not any(results["fedavg"])


def test_every_client_can_be_read_in_numbers_where_they_are_few(tmp_path):
    write_comparison(tmp_path / "out", clients=4, names=["north", "east", "south", "west"])
    groups = group_runs(collect([tmp_path / "out"]))
    made = each_client(groups, "loss", "test loss", 40)
    assert [row.label for row in made.rows] == ["north", "east", "south", "west"]
    for i, group in enumerate(groups):
        shown = [float(row.cells[i].value) for row in made.rows]
        assert shown == pytest.approx(group.clients("loss").tolist(), rel=1e-5)
    assert each_client(groups, "loss", "test loss", 3) is None
    assert each_client(groups, "auroc", "AUROC", 40) is None
