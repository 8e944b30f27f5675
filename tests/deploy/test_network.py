"""Every hospital in its own network; one of them is cut off for three rounds and comes back."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path

import pytest

from aaggff.deploy.flower.local_federation import LocalFederation
from tests.deploy.hospitals import SEED, assert_equal_to_local_engine, make_app
from tests.deploy.networks import Networks

pytestmark = [pytest.mark.deploy, pytest.mark.slow]

SITES, ROUNDS = 4, 10
LOST = 2  # Switzerland
SETTINGS = {"rounds": ROUNDS, "seed": SEED, "round-timeout": 20.0, "evaluate-every": 100}


def test_a_hospital_that_is_cut_off_is_missed_and_comes_back(tmp_path: Path) -> None:
    with Networks(SITES) as networks:
        app = make_app(tmp_path, "--hosts", networks.host)
        federation = LocalFederation(
            app,
            tmp_path / "home",
            host=networks.host,
            prefix=[networks.inside(site) for site in range(SITES)],
        )
        with federation:
            federation.start()
            for site in range(SITES):  # it is really elsewhere: this machine's eth0 is not there
                links = [*networks.inside(site), "ip", "-brief", "link"]
                seen = subprocess.run(links, capture_output=True, text=True, check=True).stdout
                assert sorted(line.split()[0].split("@")[0] for line in seen.splitlines()) == [
                    "eth0", "lo",
                ]  # fmt: skip
            directory = tmp_path / "run"
            run = federation.submit(SETTINGS | {"directory": directory})
            records, missed = [], 0
            for record in federation.follow(run, directory, timeout=900):
                records.append(record)
                if record["round"] == 3:
                    networks.cut_off(LOST)
                missed += LOST in record["dropped"]
                if missed == 3 and LOST in record["dropped"]:
                    networks.join(LOST)
        assert federation.processes.found() == {}

    # The run went on, each round counted once.
    assert [record["round"] for record in records] == list(range(1, ROUNDS + 1))
    absent = [record["round"] for record in records if LOST in record["dropped"]]
    assert len(absent) >= 3
    assert absent == list(range(absent[0], absent[-1] + 1))
    assert LOST in records[-1]["clients"]
    for record in records:
        assert sorted(record["clients"] + record["dropped"]) == [0, 1, 2, 3]
        assert math.fsum(record["weights"]) == pytest.approx(1, abs=1e-12)
        assert min(record["weights"]) > 0
    # The local engine, with the same hospital missing in the same rounds, has the same model, the
    # same weights and the same memory of all four hospitals.
    assert_equal_to_local_engine(directory, records)
