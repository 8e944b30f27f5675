"""One round of updates as NVFlare sends them: differences theta_i - theta, by site name.

No NVFlare in here, so that the arithmetic can be read and tested without it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaggff.deploy.state import MOST_SAMPLES

Tensors = dict[str, NDArray[Any]]
Shapes = dict[str, tuple[int, ...]]

LOSS, SAMPLES = "received_loss", "samples"
"""What a site must report: its mean training loss of the model as received, its sample count."""
TEST_LOSS, TEST_SAMPLES = "test_loss", "test_samples"
"""What a site may report besides, of the same model on its test part."""

NO_LOSS = f"reports no {LOSS!r}: call aaggff.deploy.nvflare.report(...) in the training script"
WHOLE = "sent a whole model; set params_transfer_type=TransferType.DIFF in the recipe"
MISTAKES = (NO_LOSS, WHOLE)
"""Where every site has the same of these, it is the job's mistake, not a site's."""


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
    site: str,
    params: Mapping[str, Any] | None,
    metrics: Mapping[str, Any] | None,
    reason: str | None = None,
) -> Contribution:
    """Check what a site sent; nothing a single site does may end the run.

    >>> contribution("site-1", {"w": np.ones(2)}, {"received_loss": 0.5, "samples": 10}).reason
    >>> contribution("site-1", {"w": np.ones(2)}, {"samples": 10}).reason == NO_LOSS
    True
    >>> contribution("site-1", {"w": [float("nan")]}, {"received_loss": 1, "samples": 9}).reason
    "update of 'w' is not finite"
    """
    said = dict(metrics or {})
    loss, samples = number(said.get(LOSS)), number(said.get(SAMPLES))
    difference = {name: np.asarray(values) for name, values in (params or {}).items()}
    if reason is None and LOSS not in said:
        reason = NO_LOSS
    if not 0 < samples <= MOST_SAMPLES:
        reason = reason or f"{SAMPLES} is {samples:g}, expected a positive number"
        samples = 1.0
    for name, values in difference.items():
        reason = reason or unmixable(name, values)
    return Contribution(site, loss, samples, said, difference, reason)


def unmixable(name: str, values: NDArray[Any]) -> str | None:
    """Why an array cannot be mixed, or None if it can.

    >>> unmixable("w", np.float32([0, 3e38]))
    "update of 'w' holds 3e+38, too large to be mixed"
    """
    if values.dtype.kind not in "fiub":
        return f"update of {name!r} holds {values.dtype}"
    if values.dtype.kind != "f" or not values.size:
        return None
    largest = float(np.abs(values).max())
    if not math.isfinite(largest):
        return f"update of {name!r} is not finite"
    # The model it is added to must stay finite as well.
    if largest > float(np.finfo(values.dtype).max) / 4:
        return f"update of {name!r} holds {largest:g}, too large to be mixed"
    return None


def number(value: Any) -> float:
    """A float, or nan for what is none (numpy scalars and 0-d arrays are)."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan
    except OverflowError:  # an integer too long for a float
        return math.inf


def shapes(contribution: Contribution) -> Shapes:
    """What its model looks like."""
    return {name: values.shape for name, values in sorted(contribution.difference.items())}


def most_common(contributions: Sequence[Contribution]) -> Shapes:
    """What most sites' models look like: a single one may not say what is right.

    Of as many on either side, the side of the lowest name.
    """
    looks = [tuple(shapes(each).items()) for each in contributions]
    return dict(Counter(looks).most_common(1)[0][0]) if looks else {}


def other_shape(expected: Shapes, other: Contribution) -> str | None:
    """Why `other` is no update of a model that looks so, or None if it is."""
    found = shapes(other)
    if found.keys() != expected.keys():
        odd = sorted(found.keys() ^ expected.keys())
        return f"arrays {odd[:3]} are not in every site's update"
    for name, shape in expected.items():
        if found[name] != shape:
            return f"update of {name!r} has shape {found[name]}, expected {shape}"
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
