"""One round of updates as NVFlare sends them: differences theta_i - theta, by site name.

No NVFlare in here, so that the arithmetic can be read and tested without it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Tensors = dict[str, NDArray[Any]]

LOSS, SAMPLES = "received_loss", "samples"
"""What a site must report: its mean training loss of the model as received, its sample count."""
TEST_LOSS, TEST_SAMPLES = "test_loss", "test_samples"
"""What a site may report besides, of the same model on its test part."""


@dataclass(frozen=True)
class Contribution:
    """What one site sent. `reason` says why it cannot be used, if it cannot."""

    site: str
    loss: float
    samples: float
    metrics: Mapping[str, Any]
    difference: Tensors
    reason: str | None = None


def contribution(
    site: str, params: Mapping[str, Any], metrics: Mapping[str, Any] | None
) -> Contribution:
    """Check what a site sent; nothing a single site does may end the run.

    >>> contribution("site-1", {"w": np.ones(2)}, {"received_loss": 0.5, "samples": 10}).reason
    >>> contribution("site-1", {"w": np.ones(2)}, {"samples": 10}).reason
    "reports no 'received_loss'"
    >>> contribution("site-1", {"w": [float("nan")]}, {"received_loss": 1, "samples": 9}).reason
    "update of 'w' is not finite"
    """
    said = dict(metrics or {})
    loss, samples = number(said.get(LOSS)), number(said.get(SAMPLES))
    difference: Tensors = {}
    reason = None
    for name, values in params.items():
        array = np.asarray(values)
        difference[name] = array
        if array.dtype.kind not in "fiub":
            reason = f"update of {name!r} holds {array.dtype}"
        elif not np.isfinite(array).all():
            reason = f"update of {name!r} is not finite"
    if LOSS not in said:
        reason = f"reports no {LOSS!r}"
    elif not 0 < samples < 1e100:
        reason = f"{SAMPLES} is {said.get(SAMPLES)!r}, expected a positive number"
        samples = 1.0
    return Contribution(site, loss, samples, said, difference, reason)


def number(value: Any) -> float:
    """A float, or nan for what is none (numpy scalars and 0-d arrays are)."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def same_shapes(first: Contribution, other: Contribution) -> str | None:
    """Why `other` cannot be mixed with `first`, or None if it can."""
    if first.difference.keys() != other.difference.keys():
        odd = sorted(first.difference.keys() ^ other.difference.keys())
        return f"arrays {odd[:3]} are not in every site's update"
    for name, values in first.difference.items():
        shape = other.difference[name].shape
        if shape != values.shape:
            return f"update of {name!r} has shape {shape}, expected {values.shape}"
    return None


def gram(contributions: list[Contribution]) -> NDArray[np.float64]:
    """<Delta_i, Delta_j> for all pairs of sites."""
    rows = np.stack(
        [
            np.concatenate(
                [
                    np.asarray(values, dtype=np.float64).reshape(-1)
                    for values in each.difference.values()
                    if values.dtype.kind == "f"
                ]
            )
            for each in contributions
        ]
    )
    product: NDArray[np.float64] = rows @ rows.T
    return product


def mixed(contributions: list[Contribution], weights: list[float]) -> Tensors:
    """sum_i w_i (theta_i - theta), in float64, for every array.

    >>> one = contribution("a", {"w": np.float32([2.0])}, {"received_loss": 1, "samples": 1})
    >>> two = contribution("b", {"w": np.float32([4.0])}, {"received_loss": 1, "samples": 1})
    >>> mixed([one, two], [0.25, 0.75])["w"]
    array([3.5])
    """
    total: Tensors = {
        name: np.zeros(values.shape) for name, values in contributions[0].difference.items()
    }
    for each, weight in zip(contributions, weights):
        for name, values in each.difference.items():
            total[name] += weight * values.astype(np.float64)
    return total
