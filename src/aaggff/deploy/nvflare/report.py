"""What a site tells the server beside its update: one call in its training script."""

from __future__ import annotations

import math
from typing import Any

from aaggff.deploy.nvflare.round import LOSS, SAMPLES, TEST_SAMPLES
from aaggff.errors import UserError


def report(
    loss: float, samples: int, *, test: dict[str, float] | None = None, test_samples: int = 0
) -> dict[str, Any]:
    """The `metrics` of the FLModel a site sends back.

    Args:
        loss: mean training loss of the model *as received*, before any local step. A loss that is
            nan or infinite is sent as it is: the server sets the site aside and says why.
        samples: how many training samples the site has.
        test: what the received model reaches on the site's test part, such as
            {"accuracy": 0.8, "test_loss": 0.4}; it goes into the record and the report.
        test_samples: how many test samples that was.

    >>> report(0.7, 120)
    {'received_loss': 0.7, 'samples': 120}
    >>> sorted(report(0.7, 120, test={"accuracy": 0.9, "test_loss": 0.3}, test_samples=30))
    ['accuracy', 'received_loss', 'samples', 'test_loss', 'test_samples']
    """
    if samples < 1:
        raise UserError(
            f"samples must be at least 1, not {samples}: this site has nothing to train"
        )
    metrics: dict[str, Any] = {LOSS: float(loss), SAMPLES: int(samples)}
    for name, value in (test or {}).items():
        if not math.isnan(value):  # no value of the metric, such as AUROC of one class
            metrics[name] = float(value)
    if test:
        metrics[TEST_SAMPLES] = int(test_samples)
    return metrics
