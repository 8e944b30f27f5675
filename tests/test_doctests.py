"""Every example in a docstring runs, and prints what it says."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module

import pytest

import aaggff

# Apps of their own: they are run where they are deployed.
APART = (".template.", ".nvflare")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

MODULES = [
    module.name
    for module in pkgutil.walk_packages(aaggff.__path__, "aaggff.")
    if not any(part in f"{module.name}." for part in APART) and not module.name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # an example that writes, writes there
    module = import_module(name)
    found = doctest.testmod(module, optionflags=FLAGS)
    assert found.failed == 0, f"{found.failed} of {found.attempted} examples of {name}"


def test_the_examples_are_found():
    """Were the search for them to break, all of the above would pass."""
    attempted = sum(
        len(test.examples)
        for name in ("aaggff.decision.methods", "aaggff.federation.federation")
        for test in doctest.DocTestFinder().find(import_module(name))
    )
    assert attempted >= 5
