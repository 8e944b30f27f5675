"""Whoever only decides waits for nothing that trains: what `import aaggff` loads, in a process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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


EVERYTHING = """
import importlib.util
assert not any(importlib.util.find_spec(name) for name in ("torch", "typer", "sklearn", "pydantic"))
import aaggff
from aaggff.decision.responses import CdfResponse
from aaggff.testing import check_decision_maker
for name in aaggff.methods():
    check_decision_maker(lambda: aaggff.decision_maker(name, clients=40))
fitted = aaggff.decision_maker("aaggff-s", cdf="weibull", fit="spacing")
tracked = aaggff.track_regret(fitted)
for t in range(30):
    tracked.decide(["a", "b", "c"], [0.1 + t % 3, 0.5, 0.9], [1, 2, 3])
assert tracked.regret.value < tracked.regret.bound
try:
    aaggff.Federation
except ImportError as error:
    print(error)
"""


def test_deciding_needs_numpy_and_scipy_and_nothing_else(tmp_path):
    """A process that sees only these two and this package."""
    import numpy
    import scipy

    import aaggff

    for package in (numpy, scipy, aaggff):
        folder = Path(package.__file__).parent
        libraries = folder.with_name(f"{folder.name}.libs")  # what the wheels bring along
        for each in (folder, libraries):
            if each.exists():
                (tmp_path / each.name).symlink_to(each, target_is_directory=True)
    alone = {"PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-S", "-c", EVERYTHING]
    done = subprocess.run(command, capture_output=True, text=True, env=alone)
    assert done.returncode == 0, done.stderr
    said = "aaggff.Federation needs the package 'torch': pip install 'aaggff[train]'"
    assert done.stdout == f"{said}\n"
