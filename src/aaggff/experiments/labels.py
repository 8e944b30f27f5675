"""A method as it is called in a comparison: its name, and the options spelled out in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aaggff.cli.options import value_of
from aaggff.errors import UserError, unknown


@dataclass(frozen=True)
class Labelled:
    """A method under the name it is shown by, with the options that the name spells out."""

    label: str
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)


def parse_method(label: str) -> Labelled:
    """`qfedavg:q=5:step=plain` is q-FedAvg with two options, and is shown as written.

    >>> parse_method("qfedavg:q=5").options
    {'q': 5}
    """
    from aaggff.decision.methods import METHODS

    name, *rest = (part.strip() for part in label.strip().split(":"))
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    options: dict[str, Any] = {}
    for part in rest:
        option, equals, value = part.partition("=")
        if not equals:
            raise UserError(f"methods: {label!r} should be like {name}:OPTION=VALUE")
        if option not in METHODS[name].options:
            raise unknown(f"option of method {name!r}", option, METHODS[name].options)
        options[option] = value_of(value)
    return Labelled(":".join([name, *rest]), name, options)
