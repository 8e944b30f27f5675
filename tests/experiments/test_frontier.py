"""The frontier: who is dominated, how large an area is, how sure both are; against brute force."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aaggff.errors import UserError
from aaggff.experiments import jobs
from aaggff.experiments.frontier import (
    Frontier,
    Point,
    frontier,
    hypervolume,
    undominated,
)
from aaggff.experiments.frontier_table import sheets
from aaggff.experiments.grids import DIALS
from aaggff.experiments.jobs import Failed, Outcome
from aaggff.experiments.statistics import resamples, tails

places = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=7
).map(lambda pairs: np.array(pairs, dtype=float))  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(places)
def test_a_point_stays_unless_another_is_as_good_on_both_and_better_on_one(points) -> None:
    kept = undominated(points[None])[0]
    for i, (a, w) in enumerate(points):
        beaten = any(a2 >= a and w2 >= w and (a2 > a or w2 > w) for a2, w2 in points)
        assert kept[i] == (not beaten)


@settings(max_examples=200, deadline=None)
@given(places)
def test_hypervolume_is_the_number_of_unit_squares_below_some_point(points) -> None:
    squares = sum(
        any(a >= x + 1 and w >= y + 1 for a, w in points) for x in range(6) for y in range(6)
    )
    assert hypervolume(points[None], np.zeros((1, 2)))[0] == pytest.approx(squares)


def test_hypervolume_of_many_draws_is_that_of_each_alone() -> None:
    rng = np.random.default_rng(0)
    points, reference = rng.normal(size=(50, 8, 2)), rng.normal(size=(50, 2))
    together = hypervolume(points, reference)
    alone = [hypervolume(points[i : i + 1], reference[i : i + 1])[0] for i in range(50)]
    assert together == pytest.approx(alone, rel=1e-14)
    # And by throwing darts at one of them.
    darts = rng.uniform(reference[0], points[0].max(axis=0), size=(200_000, 2))
    hit = (darts[:, None, :] <= points[0][None]).all(axis=2).any(axis=1).mean()
    area = np.prod(points[0].max(axis=0) - reference[0]) * hit
    assert together[0] == pytest.approx(area, rel=0.02)


def outcome(avg: float, worst: float) -> Outcome:
    metric = {"avg": avg, "worst": worst}
    return Outcome(metric, {"avg": -avg, "worst": -worst}, "auroc", False, 0.0, 0.0)


def made(seeds: int, noise: float) -> Frontier:
    """Two methods of two points each, and FedAvg, which everybody beats; seeds shift all alike."""
    rng = np.random.default_rng(5)
    shift = rng.normal(0, 3, size=(seeds, 1))
    places = {
        ("fedavg", None): (70, 40), ("a", 1): (80, 50), ("a", 2): (75, 60), ("b", 1): (79, 49),
        ("b", 2): (72, 61),
    }  # fmt: skip
    points = []
    for (method, value), place in places.items():
        figures = np.array(place) + shift + noise * rng.normal(size=(seeds, 2))
        found = [outcome(*row) for row in figures.tolist()]
        points.append(Point(method, "" if value is None else "dial", value, found))
    return Frontier("heart", "auroc", 1, list(range(seeds)), points)


def test_who_is_best_where_and_how_surely() -> None:
    sure = made(12, noise=0.01)
    assert [(sure.points[i].label, share) for i, share in sure.best()] == [
        ("a:dial=1", 1.0),
        ("a:dial=2", 1.0),
        ("b:dial=2", 1.0),
    ]
    # By loss the same: it is the metric turned round here.
    assert sure.best("loss") == sure.best()
    unsure = dict(made(6, noise=4.0).best())
    assert min(unsure.values()) < 1.0


def test_volumes_are_paired_over_seeds_and_resampled_with_their_floor() -> None:
    found = made(12, noise=0.5)
    volumes = found.volumes()
    means = found.coordinates().mean(axis=0)
    floor = means.min(axis=0, keepdims=True)
    drawn = np.einsum("bs,spk->bpk", resamples(12), found.coordinates())
    for method, at in {"fedavg": [0], "a": [1, 2], "b": [3, 4]}.items():
        assert volumes[method].area == pytest.approx(hypervolume(means[None, at], floor)[0])
        areas = [
            hypervolume(draw[None, at], draw.min(axis=0, keepdims=True))[0] for draw in drawn[:400]
        ]
        tail = tails(12)
        low, high = np.quantile(areas, [tail, 1 - tail])
        # A 25th of the draws says the same within their own spread.
        spread = np.std(areas)
        assert volumes[method].low == pytest.approx(low, abs=0.5 * spread + 1e-9)
        assert volumes[method].high == pytest.approx(high, abs=0.5 * spread + 1e-9)
        assert volumes[method].low <= volumes[method].area <= volumes[method].high
    assert volumes["a"].largest > 0.95
    assert volumes["fedavg"].area == pytest.approx(0.0, abs=1e-9)


def test_what_a_seed_does_to_all_points_cancels_out() -> None:
    calm, shaken = made(12, noise=0.5), made(12, noise=0.5)
    for point in shaken.points:
        for seed, each in enumerate(point.outcomes):
            for numbers in (each.metric, each.loss):
                for key in numbers:
                    numbers[key] += 10.0 * seed * (1 if numbers is each.metric else -1)
    for method, volume in calm.volumes().items():
        other = shaken.volumes()[method]
        assert (volume.low, volume.high) == pytest.approx((other.low, other.high), abs=1e-6)


def test_every_dial_goes_from_no_fairness_to_more_than_is_good_and_can_be_built() -> None:
    assert DIALS["aaggff-s"]["strength"][0] == DIALS["qfedavg"]["q"][0] == 0
    assert 1 in DIALS["aaggff-d"]["strength"]
    assert set(DIALS) == {
        "qfedavg", "term", "propfair", "afl", "fedmgda", "aaggff-s", "aaggff-d"
    }  # fmt: skip


def test_a_frontier_runs_every_value_and_strength_zero_is_uniform(tmp_path: Path) -> None:
    found = frontier(
        "heart", ["uniform", "aaggff-s"], [2, 4], grid={"strength": [0, 1]},
        settings={"rounds": 4}, out=tmp_path, workers=1,
    )  # fmt: skip
    labels = [point.label for point in found.points]
    assert labels == ["uniform", "aaggff-s:strength=0", "aaggff-s:strength=1"]
    uniform, none, one = found.points
    for source in ("metric", "loss"):
        assert none.values(source, "avg") == pytest.approx(uniform.values(source, "avg"))
    assert one.values("loss", "avg") != pytest.approx(uniform.values("loss", "avg"), rel=1e-9)
    content = found.as_json()
    json.dumps(content, allow_nan=False)
    assert [len(point["avg"]) for point in content["points"]] == [2, 2, 2]
    assert set(content["hypervolume"]) == {"uniform", "aaggff-s"}
    assert len(sheets(found)) == 4
    assert (tmp_path / "aaggff-s:strength=1" / "seed-4" / "done.json").exists()


def test_a_value_that_diverges_has_no_point_and_is_named(monkeypatch) -> None:
    true = jobs.attempt

    def attempt(job, tell):
        too_far = job.config.method_options.get("lam") == 1e6
        return Failed("the model is not finite") if too_far else true(job, tell)

    monkeypatch.setattr(jobs, "attempt", attempt)
    options = {"settings": {"rounds": 2}, "workers": 1}
    found = frontier("heart", ["term"], [2], grid={"lam": [1.0, 1e6]}, **options)
    assert [point.label for point in found.points] == ["term:lam=1.0"]
    assert found.notes == ["term:lam=1000000.0 has no point: the model is not finite"]
    with pytest.raises(UserError, match="the model is not finite"):
        frontier("heart", ["term"], [2], grid={"lam": [1e6]}, **options)


@pytest.mark.parametrize(
    ("methods", "grid", "said"),
    [
        (["qfedavg"], {"q": [1], "step": ["plain"]}, "a line has one dial"),
        (["term"], {"q": [1]}, "no method here has it"),
        (["term:lam=1"], {"lam": [2]}, "leave one of them out"),
    ],
)
def test_a_dial_that_is_none_is_refused(methods, grid, said) -> None:
    with pytest.raises(UserError, match=said):
        frontier("heart", methods, [2], grid=grid, settings={"rounds": 1}, workers=1)
