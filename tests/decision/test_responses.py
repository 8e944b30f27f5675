"""The six distribution functions against table A1 and scipy.stats."""

from __future__ import annotations

import numpy as np
import pytest

from aaggff.decision.responses import CDFS, MANY, CdfResponse, log_barrier, power, relative
from aaggff.errors import UserError
from tests.decision.dense import DISTRIBUTIONS

# Table A1 of the paper: losses 0.01, 0.10, 0.02.
TABLE_A1 = {
    "weibull": (0.05, 1.00, 0.19),
    "frechet": (0.01, 0.65, 0.11),
    "gumbel": (0.12, 0.76, 0.18),
    "exponential": (0.21, 0.90, 0.37),
    "logistic": (0.32, 0.79, 0.37),
    "normal": (0.22, 0.90, 0.29),
}


@pytest.mark.parametrize("cdf", CDFS)
def test_table_a1_to_its_printed_digits(cdf):
    """The paper rounds the ratios to 0.23, 2.31, 0.46 before it takes the CDF of them.

    That shows in one entry only: the normal CDF of 0.46 is 0.29, that of 6/13 is 0.30.
    """
    ratios = relative(np.array([0.01, 0.10, 0.02])).round(2)
    assert tuple(CDFS[cdf](ratios, CDFS[cdf].defaults).round(2).tolist()) == TABLE_A1[cdf]
    exact = tuple(CdfResponse(cdf)(np.array([0.01, 0.10, 0.02])).round(2).tolist())
    assert exact == (TABLE_A1[cdf] if cdf != "normal" else (0.22, 0.90, 0.30))


@pytest.mark.parametrize("cdf", CDFS)
@pytest.mark.parametrize("size", [9, 4 * MANY])
def test_equals_scipy_and_keeps_the_range(cdf, size):
    losses = np.random.default_rng(1).gamma(0.3, 2.0, size)
    losses[0] = 0.0
    responses = CdfResponse(cdf, low=0.25, high=0.75)(losses)
    expected = 0.25 + 0.5 * DISTRIBUTIONS[cdf].cdf(losses / losses.mean())
    np.testing.assert_allclose(responses, expected, rtol=1e-13)
    assert responses.min() >= 0.25
    assert responses.max() <= 0.75
    order = np.argsort(losses)
    assert (np.diff(responses[order]) >= -1e-15).all()


@pytest.mark.parametrize("cdf", CDFS)
def test_parameters_of_scale_and_shape(cdf):
    """Twice the scale at twice the loss; a location moves instead."""
    response = CdfResponse(cdf, {"scale": 2.0})
    x = np.array([0.5, 1.0, 3.0])
    if CDFS[cdf].location:
        at = x + 1
    else:
        at = x / 2 if cdf == "exponential" else 2 * x
    expected = CDFS[cdf](x, CDFS[cdf].defaults)
    np.testing.assert_allclose(CDFS[cdf](at, response.params), expected, rtol=1e-12)


@pytest.mark.parametrize("cdf", CDFS)
@pytest.mark.parametrize("params", [{}, {"scale": 1e-300}, {"scale": 1e300}])
def test_any_losses_give_responses_in_range_without_a_warning(cdf, params):
    for losses in ([0.0], [0.0, 0.0], [1e100, 0.0, 5e-324], [5e-324] * 3, [1e100] * 500):
        responses = CdfResponse(cdf, params)(np.array(losses))
        assert np.isfinite(responses).all()
        assert (responses >= 0).all()
        assert (responses <= 1).all()


def test_the_relative_loss_of_nobody_and_of_one_is_1():
    assert relative(np.zeros(3)).tolist() == [1.0, 1.0, 1.0]
    assert relative(np.array([0.3])).tolist() == [1.0]


def test_power():
    np.testing.assert_allclose(np.exp(power(np.array([0.0, 2.0, 3.0]), 2.0)), [0, 4, 9])
    assert power(np.array([0.0, 2.0]), 0.0).tolist() == [0.0, 0.0]


def test_log_barrier_clips_below_the_baseline():
    values = np.exp(log_barrier(np.array([1.0, 4.9, 7.0, 1e100]), 5.0, 0.2))
    np.testing.assert_allclose(values, [1 / 4, 5, 5, 5])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cdf": "norml"}, "unknown cdf 'norml'; did you mean 'normal'"),
        ({"fit": "moments"}, "unknown fit 'moments'"),
        ({"low": 1.0, "high": 1.0}, "expected 0 <= low < high, got low=1, high=1"),
        ({"low": -0.1}, "expected 0 <= low < high"),
        ({"cdf": "weibull", "params": {"shape": 0}}, "shape: cdf 'weibull' expects a positive"),
        ({"cdf": "exponential", "params": {"shape": 2}}, "unknown parameter of cdf 'exponential'"),
        ({"params": {"scale": "wide"}}, "scale: cdf 'normal' expects a finite number, got 'wide'"),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(UserError, match=message):
        CdfResponse(**arguments)


def test_a_location_may_have_any_sign():
    assert CdfResponse("gumbel", {"scale": -1.0}).params["scale"] == -1.0


def test_a_range_that_was_given_is_not_overruled():
    given, left = CdfResponse(high=0.7), CdfResponse(high=None)
    for response in (given, left):
        response.choose_high(0.3)
    assert (given.high, left.high) == (0.7, 0.3)
