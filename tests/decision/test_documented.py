"""What the documentation of the decision makers shows, runs and prints what it says."""

from __future__ import annotations

import doctest
import re

import numpy as np
import pytest

from aaggff.decision.methods import METHODS
from aaggff.decision.responses import CDFS
from aaggff.testing import PROPERTIES
from tests.shared import ROOT

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
DOCS = ROOT / "docs"


@pytest.mark.parametrize(("name", "least"), [("decision-makers.md", 9), ("regret.md", 10)])
def test_examples_print_what_they_say(name, least):
    found = doctest.testfile(str(DOCS / name), module_relative=False, optionflags=FLAGS)
    assert found.attempted >= least
    assert found.failed == 0


def test_the_rule_of_ones_own_passes_trains_and_is_thirty_lines():
    text = (DOCS / "your-own-decision-maker.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    generator = np.random.default_rng(0)
    known = {
        "x": generator.normal(size=(120, 5)).astype(np.float32),
        "y": generator.integers(0, 2, 120),
        "hospital": np.repeat(["a", "b", "c"], 40),
    }
    for block in blocks:
        exec(compile(block, "your-own-decision-maker.md", "exec"), known)
    assert known["federation"].round == 5
    assert known["maker"].regret.rounds == 20
    rule = blocks[0][blocks[0].index("class ") :]
    assert len([line for line in rule.splitlines() if line.strip()]) <= 30


def test_every_property_of_the_suite_is_in_its_table():
    text = (DOCS / "your-own-decision-maker.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", text, re.M) == list(PROPERTIES)


def test_every_method_option_and_cdf_is_documented():
    text = (DOCS / "decision-makers.md").read_text()
    rows = {
        row.split("|")[1].strip(" `"): row for row in text.splitlines() if row.startswith("| `")
    }
    for name, method in METHODS.items():
        assert name in rows
        for option in method.options:
            named = re.search(rf"`{option}[`=]|^### {option}", text, re.M)
            assert named, f"{name}: {option}"
    assert set(CDFS) <= {name.split("`")[0] for name in rows}
