"""Run directories are data to be checked: unfinished, cut short, damaged, mixed up."""

import numpy as np
import pytest

from aaggff.errors import UserError
from aaggff.report.collect import collect, read_run
from aaggff.report.groups import group_runs
from tests.report.made_runs import METHODS, write_comparison, write_run


def test_a_comparison_is_grouped_by_method_in_the_order_of_the_tables(tmp_path):
    groups = group_runs(collect([write_comparison(tmp_path / "out")]))
    assert [group.label for group in groups] == list(METHODS)
    assert [[run.seed for run in group.runs] for group in groups] == [[2, 4, 6]] * 3


def test_variants_of_a_method_stand_beside_it(tmp_path):
    for name in ("term", "qfedavg:q=5", "qfedavg:q=0.1", "fedavg"):
        write_run(tmp_path / name / "seed-2", method=name.split(":")[0])
    labels = [group.label for group in group_runs(collect([tmp_path]))]
    assert labels == ["fedavg", "qfedavg:q=0.1", "qfedavg:q=5", "term"]


def test_a_line_cut_by_a_crash_is_left_out_and_any_other_damage_is_named(tmp_path):
    run = write_run(tmp_path / "run", rounds=10, finished=False)
    rounds = run / "rounds.jsonl"
    text = rounds.read_text()
    rounds.write_text(text[:-40])
    assert len(read_run(run).rounds) == 9
    rounds.write_text("{broken\n" + text)
    with pytest.raises(UserError, match="line 1 is not JSON"):
        read_run(run)


def test_clients_without_a_value_are_left_out_seed_by_seed(tmp_path):
    write_run(tmp_path / "fedavg" / "seed-2", seed=2, missing=(0,))
    write_run(tmp_path / "fedavg" / "seed-4", seed=4, missing=(1,))
    (group,) = group_runs(collect([tmp_path]))
    values = group.clients("top1")
    assert np.isfinite(values).all()
    first, second = (run.last("top1") for run in group.runs)
    assert values[0] == pytest.approx(100 * second[0])
    assert values[2] == pytest.approx(50 * (first[2] + second[2]))


def test_what_cannot_be_shown_together_is_said(tmp_path):
    with pytest.raises(UserError, match="is not a directory"):
        collect([tmp_path / "nothing"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="holds no run"):
        collect([tmp_path / "empty"])
    write_run(tmp_path / "a")
    other = write_run(tmp_path / "b")
    (other / "config.toml").write_text('dataset = "heart"\n')
    with pytest.raises(UserError, match="one report shows one data set"):
        collect([tmp_path])


def test_a_damaged_configuration_is_named(tmp_path):
    run = write_run(tmp_path / "a")
    (run / "config.toml").write_text("not toml at all [")
    with pytest.raises(UserError, match=r"config\.toml is not TOML"):
        collect([run])


def test_the_same_method_and_seed_from_two_places_are_kept_apart(tmp_path):
    write_comparison(tmp_path / "short", rounds=10)
    write_comparison(tmp_path / "long", rounds=20)
    write_run(tmp_path / "long" / "term" / "seed-2", method="term")
    runs = collect([tmp_path / "short", tmp_path / "long"])
    labels = [group.label for group in group_runs(runs)]
    expected = [f"{place}/{name}" for place in ("short", "long") for name in METHODS]
    assert sorted(labels) == sorted([*expected, "term"])
    assert all(len(group.runs) <= 3 for group in group_runs(runs))
    alone = [write_run(tmp_path / name, method="fedavg", seed=7) for name in ("first", "second")]
    assert [run.label for run in collect(alone)] == ["first/fedavg", "second/fedavg"]
