"""What is tuned for: a measure of the table, or a mix of several."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from aaggff.errors import UserError, unknown
from aaggff.experiments.compare import MEASURES, Measure
from aaggff.experiments.jobs import Failed, Outcome

BY_KEY = {measure.key: measure for measure in MEASURES}
TERM = re.compile(r"(?:(\d+(?:\.\d*)?|\.\d+)\*)?([a-z_]+)")


@dataclass(frozen=True)
class Objective:
    """A weighted sum of measures; larger is better, so those to be small count negatively."""

    text: str
    parts: tuple[tuple[float, Measure], ...]

    def score(self, outcome: Outcome | Failed) -> float:
        """One run's score; a run that failed, or has no such value, is worse than any other."""
        if isinstance(outcome, Failed):
            return -math.inf
        total = 0.0
        for weight, measure in self.parts:
            value = float(getattr(outcome, measure.source)[measure.entry])
            total += weight * (value if measure.larger_is_better else -value)
        return total if math.isfinite(total) else -math.inf

    def mean(self, outcomes: Sequence[Outcome | Failed]) -> float:
        """Over seeds."""
        return math.fsum(self.score(outcome) for outcome in outcomes) / len(outcomes)


def parse_objective(text: str) -> Objective:
    """`avg`, `worst`, or a mix such as `0.7*avg+0.3*worst`.

    >>> [(weight, measure.key) for weight, measure in parse_objective("0.5*avg + worst").parts]
    [(0.5, 'avg'), (1.0, 'worst')]
    """
    parts = []
    for term in text.replace(" ", "").split("+"):
        matched = TERM.fullmatch(term)
        if matched is None:
            raise UserError(
                f"metric: expected a measure or a mix like 0.7*avg+0.3*worst, got {text!r} "
                f"(measures: {', '.join(BY_KEY)})"
            )
        if matched[2] not in BY_KEY:
            raise unknown("metric to tune for", matched[2], BY_KEY)
        parts.append((float(matched[1] or 1.0), BY_KEY[matched[2]]))
    if not any(weight for weight, _ in parts):
        raise UserError(f"metric: every weight in {text!r} is 0")
    return Objective(text.replace(" ", ""), tuple(parts))
