"""Values to try of a method's options: the paper's grids, wider dials for frontiers, one's own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from aaggff.decision.methods import METHODS
from aaggff.decision.responses import CDFS
from aaggff.errors import UserError, unknown
from aaggff.experiments.labels import Labelled

Grid = Mapping[str, Sequence[Any]]
"""Values by option."""

PAPER: dict[str, Grid] = {
    "afl": {"gamma": [0.01, 0.1, 1]},
    "qfedavg": {"q": [0.1, 1, 5]},
    "term": {"lam": [0.1, 1, 10]},
    "fedmgda": {"epsilon": [0.1, 0.5, 1]},
    "propfair": {"baseline": [2, 3, 5]},
    "aaggff-s": {"cdf": list(CDFS)},
    "aaggff-d": {"cdf": list(CDFS)},
}
"""What the paper tuned over (appendix C)."""

STRENGTHS = [0, 0.3, 1, 3, 10, 30, 100]
DIALS: dict[str, Grid] = {
    "qfedavg": {"q": [0, 0.1, 0.5, 1, 2, 5, 10]},
    "term": {"lam": [0, 0.1, 0.5, 1, 2, 5, 10]},
    "propfair": {"baseline": [1, 1.5, 2, 3, 5, 10]},
    "afl": {"gamma": [0.001, 0.01, 0.03, 0.1, 0.3, 1]},
    "fedmgda": {"epsilon": [0, 0.1, 0.25, 0.5, 0.75, 1]},
    "aaggff-s": {"strength": STRENGTHS},
    "aaggff-d": {"strength": STRENGTHS},
}
"""Each method from no fairness at all to more of it than is good."""


def check_grid(grid: Grid, methods: Sequence[Labelled]) -> None:
    """Every option must belong to a method at hand, and every value to the option."""
    for option, values in grid.items():
        owners = [each for each in methods if option in METHODS[each.method].options]
        if not owners:
            known = {name for each in methods for name in METHODS[each.method].options}
            raise unknown("option in a grid (no method here has it)", option, known)
        for owner in owners:
            if option in owner.options:
                raise UserError(
                    f"grid: {owner.label!r} has {option} in its name already; leave one of them out"
                )
            for value in values:
                METHODS[owner.method].options[option].read(option, value)


def candidates(base: Labelled, grid: Grid) -> list[Labelled]:
    """A method under every combination of a grid's values, in the grid's order.

    >>> [each.label for each in candidates(Labelled("term", "term"), {"lam": [0.1, 1.0]})]
    ['term:lam=0.1', 'term:lam=1.0']
    """
    found = []
    for values in product(*grid.values()):
        options = dict(zip(grid, values, strict=True))
        written = [f"{option}={shown(value)}" for option, value in options.items()]
        label = ":".join([base.label, *written])
        found.append(Labelled(label, base.method, {**base.options, **options}))
    return found


def shown(value: Any) -> str:
    """As one would type it.

    >>> shown(True), shown(0.1), shown(None)
    ('true', '0.1', 'none')
    """
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def own(method: str, given: Grid) -> dict[str, Sequence[Any]]:
    """The part of a grid of one's own that a method has."""
    return {name: values for name, values in given.items() if name in METHODS[method].options}


def size(grid: Grid) -> int:
    """How many combinations there are."""
    return math.prod(len(values) for values in grid.values())
