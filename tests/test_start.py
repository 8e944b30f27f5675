"""Whoever only decides waits for nothing that trains: what `import aaggff` loads, in a process."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("torch", "scipy.stats", "scipy.optimize", "sklearn", "polars", "pydantic", "typer", "flwr")


def loaded_after(code):
    """The modules a fresh interpreter holds after this code."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_loads_nothing_heavy():
    loaded = loaded_after("import aaggff")
    assert "numpy" in loaded
    assert not loaded & {*HEAVY, "scipy"}


@pytest.mark.parametrize(
    "name", ["fedavg", "term", "afl", "fedmgda", "aaggff-s", "aaggff-d", "tracked"]
)
def test_deciding_loads_nothing_that_trains(name):
    made = "aaggff.decision_maker('aaggff-s')" if name == "tracked" else ""
    made = f"aaggff.track_regret({made})" if made else f"aaggff.decision_maker('{name}', clients=9)"
    code = f"import aaggff\nmaker = {made}\n"
    code += "print(maker.decide([1, 2], [0.1, 0.9], [5, 5], updates=[[1, 0], [0, 1]]))\n"
    code += "maker.load_state_dict(maker.state_dict())"
    assert not loaded_after(code) & set(HEAVY)


def test_what_is_offered_exists_and_what_is_not_is_said():
    import aaggff

    for name in aaggff.__all__:
        assert getattr(aaggff, name) is not None
    assert set(aaggff.__all__) <= set(dir(aaggff))
    with pytest.raises(AttributeError, match="module 'aaggff' has no attribute 'decide'"):
        _ = aaggff.decide
