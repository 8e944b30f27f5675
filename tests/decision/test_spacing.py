"""Maximum spacing estimation against samples drawn with known parameters."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from aaggff.decision.responses import CDFS, CdfResponse
from aaggff.decision.spacing import ENOUGH, PER_ROUND, WINDOW, SpacingFit, fit_spacing
from aaggff.errors import UserError

# cdf -> (true parameters, the same distribution in scipy.stats)
TRUE = {
    "weibull": ({"scale": 1.4, "shape": 3.0}, stats.weibull_min(c=3.0, scale=1.4)),
    "frechet": ({"scale": 0.7, "shape": 2.5}, stats.invweibull(c=2.5, scale=0.7)),
    "gumbel": ({"scale": 0.8, "shape": 0.4}, stats.gumbel_r(loc=0.8, scale=0.4)),
    "exponential": ({"scale": 2.0}, stats.expon(scale=1 / 2.0)),
    "logistic": ({"scale": 1.2, "shape": 0.3}, stats.logistic(loc=1.2, scale=0.3)),
    "normal": ({"scale": 0.9, "shape": 0.2}, stats.norm(loc=0.9, scale=0.2)),
}


@pytest.mark.parametrize("cdf", CDFS)
def test_recovers_the_parameters_a_sample_was_drawn_with(cdf):
    true, distribution = TRUE[cdf]
    sample = distribution.rvs(4000, random_state=np.random.default_rng(5))
    found = fit_spacing(CDFS[cdf], sample, CDFS[cdf].defaults)
    for name, value in true.items():
        # The estimator's standard error here is 1 to 2 per cent of each parameter.
        assert found[name] == pytest.approx(value, rel=0.07), found


@pytest.mark.parametrize("cdf", CDFS)
def test_no_neighbouring_parameters_spread_the_sample_more_evenly(cdf):
    _, distribution = TRUE[cdf]
    sample = np.sort(distribution.rvs(300, random_state=np.random.default_rng(6)))
    best = fit_spacing(CDFS[cdf], sample, CDFS[cdf].defaults)

    def evenness(params):
        at = np.concatenate([[0.0], CDFS[cdf](sample, params), [1.0]])
        return np.log(np.diff(at)).sum()

    for name in best:
        for factor in (0.97, 1.03):
            assert evenness({**best, name: best[name] * factor}) < evenness(best)


def test_repeated_values_share_a_spacing():
    sample = np.repeat([0.5, 0.9, 1.1, 1.6], 10)
    found = fit_spacing(CDFS["normal"], sample, CDFS["normal"].defaults)
    assert 0.7 < found["scale"] < 1.3
    assert 0.1 < found["shape"] < 2.0


@pytest.mark.parametrize("sample", [np.ones(50), np.repeat([0.5, 1.5], 30), np.empty(0)])
def test_a_sample_without_a_spread_keeps_the_start(sample):
    start = {"scale": 1.5, "shape": 0.7}
    assert fit_spacing(CDFS["normal"], sample, start) == start


def test_a_round_is_judged_by_the_parameters_of_the_rounds_before_it():
    rng = np.random.default_rng(0)
    fitted, plain = CdfResponse("normal", fit="spacing"), CdfResponse("normal")
    first = rng.gamma(4.0, 1.0, 2 * ENOUGH)
    np.testing.assert_array_equal(fitted(first), plain(first))
    assert fitted.params != plain.params
    known = CdfResponse("normal", fitted.params)
    second = rng.gamma(4.0, 1.0, 30)
    np.testing.assert_array_equal(fitted(second), known(second))


def test_the_memory_is_bounded_and_the_order_of_arrival_forgotten():
    rng = np.random.default_rng(0)
    one, other = (SpacingFit(CDFS["gumbel"], CDFS["gumbel"].defaults) for _ in range(2))
    for _ in range(8):
        ratios = rng.gamma(2.0, 0.5, 5000)
        assert one.learn(ratios) == other.learn(rng.permutation(ratios))
    assert one.ratios.size == min(WINDOW, 8 * PER_ROUND)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ratios", np.array([0.5, np.nan])),
        ("ratios", np.array([-0.5, 1.0])),
        ("ratios", np.ones(WINDOW + 1)),
        ("ratios", np.array(["a"])),
        ("params", np.array([1.0])),
        ("params", np.array([1.0, -1.0])),
        ("fresh", np.array(-1)),
        ("fresh", np.array(41)),
        ("fresh", np.array(0.5)),
    ],
)
def test_a_damaged_state_is_refused_and_changes_nothing(key, value):
    response = CdfResponse("normal", fit="spacing")
    response(np.random.default_rng(0).gamma(4.0, 1.0, 40))
    before = response.state_dict()
    with pytest.raises(UserError, match="state"):
        response.load_state_dict({**before, key: value})
    for name, kept in response.state_dict().items():
        assert np.array_equal(kept, before[name])
