"""A real federation on this machine: a SuperLink, four SuperNodes, TLS, keys - and kill -9."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aaggff.deploy.flower.local_federation import LocalFederation, free_port, read_records
from aaggff.deploy.flower.processes import program
from aaggff.errors import UserError
from aaggff.report.collect import read_run
from tests.deploy.hospitals import (
    SEED,
    assert_equal_to_local_engine,
    holding,
    make_app,
    secrets_of,
)
from tests.deploy.waiting import until

pytestmark = [pytest.mark.deploy, pytest.mark.slow]

TWENTY_ROUNDS = 900.0
"""Seconds after which a run is given up; it takes some two minutes on an idle machine."""


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFederation]:
    folder = tmp_path_factory.mktemp("federation")
    app = make_app(folder)
    with LocalFederation(app, folder / "home") as federation:
        federation.start()
        yield federation
    assert federation.processes.found() == {}


def test_twenty_rounds_end_where_the_local_engine_does(
    federation: LocalFederation, tmp_path: Path
) -> None:
    directory = tmp_path / "run"
    run = federation.submit({"rounds": 20, "seed": SEED, "directory": directory})
    records = list(federation.follow(run, directory, timeout=TWENTY_ROUNDS))
    assert [record["round"] for record in records] == list(range(1, 21))
    assert not any(record["dropped"] or record["set_aside"] for record in records)
    assert_equal_to_local_engine(directory, records)
    # The same files as `aaggff run` writes: the report reads them.
    found = read_run(directory)
    assert found.names() == ["Cleveland", "Hungary", "Switzerland", "Long Beach VA"]
    assert found.done["rounds"] == 20
    assert len(found.evaluations) == 4  # evaluated every five rounds
    # Databases, logs, record, the app's copies: nowhere is a private key but in keys/.
    secrets = secrets_of(federation.keys)
    assert len(secrets) >= 6
    kept = federation.home.parent
    assert holding(secrets, kept, but=federation.keys) == []
    assert holding(secrets, tmp_path, but=federation.keys) == []


def test_who_has_no_registered_key_is_refused(federation: LocalFederation, tmp_path: Path) -> None:
    strangers = make_app(tmp_path) / "keys"  # made in the same way, and known to nobody

    def knock(*more: str, ca: Path = federation.keys / "ca.crt") -> str:
        federation.processes.start(
            "stranger",
            [
                *(program("flower-supernode"), "--root-certificates", str(ca)),
                *("--superlink", f"{federation.host}:{federation.port}"),
                *("--port", str(free_port("127.0.0.1")), "--max-wait-time", "5", *more),
            ],
        )
        process = federation.processes.running["stranger"]
        until(lambda: process.poll() is not None, 120)
        federation.processes.kill("stranger")
        said = federation.processes.said("stranger")
        assert process.returncode != 0, said
        assert "SuperNode ID:" not in said
        return said

    key = ("--auth-supernode-private-key", str(strangers / "site-0.key"))
    assert "Failed to activate SuperNode" in knock(*key)
    assert "must be registered" in knock()  # no key at all
    # And a site refuses a server that its certificate authority does not vouch for.
    own = ("--auth-supernode-private-key", str(federation.keys / "site-0.key"))
    assert "CERTIFICATE_VERIFY_FAILED" in knock(*own, ca=strangers / "ca.crt")


def test_killed_in_mid_round_it_goes_on_and_counts_no_round_twice(
    federation: LocalFederation, tmp_path: Path
) -> None:
    directory = tmp_path / "run"
    settings = {"rounds": 6, "seed": SEED, "directory": directory, "evaluate-every": 3}

    federation.submit(settings)
    in_mid_round(federation, directory, 3)
    (serverapp, command), = (
        (pid, command)
        for pid, command in federation.processes.found("superlink").items()
        if "flwr-serverapp" in command
    )  # fmt: skip
    os.kill(serverapp, signal.SIGKILL)

    run = federation.submit(settings)
    in_mid_round(federation, directory, 5)
    superlink = federation.processes.running.pop("superlink")
    os.kill(superlink.pid, signal.SIGKILL)
    superlink.wait(timeout=30)
    with pytest.raises(UserError, match="SuperLink is unavailable"):
        federation.status(run)
    federation.start_superlink()  # the sites find it again, what was of the old one ends
    run = federation.submit(settings)
    for _ in federation.follow(run, directory, timeout=TWENTY_ROUNDS):
        pass
    records = read_records(directory)
    assert [record["round"] for record in records] == [1, 2, 3, 4, 5, 6]
    assert not any(record["dropped"] for record in records)
    assert_equal_to_local_engine(directory, records)
    until(lambda: "flwr-serverapp" not in str(federation.processes.found("superlink")), 60)
    # The token by which a server app is known to its SuperLink stands in no log or record.
    words = command.split()
    tokens = [words[words.index(flag) + 1].encode() for flag in words if flag == "--token"]
    assert tokens
    assert holding(tokens, directory, but=federation.keys) == []
    logs = [path for path in federation.home.glob("*.log") if tokens[0] in path.read_bytes()]
    assert logs == []


def test_a_run_that_fails_says_why(federation: LocalFederation, tmp_path: Path) -> None:
    settings = {"rounds": 2, "directory": tmp_path / "run", "method": "no-such-method"}
    run = federation.submit(settings)
    with pytest.raises(UserError, match="no-such-method"):
        list(federation.follow(run, tmp_path / "run", timeout=120))
    with pytest.raises(UserError, match="did you mean 'rounds'"):
        federation.submit({"round": 1})


def test_the_script_of_the_readme_goes_on_after_kill_9(tmp_path: Path) -> None:
    app, run = make_app(tmp_path), tmp_path / "app" / "run"
    command = [sys.executable, "federation.py", "rounds=3", f"seed={SEED}"]
    first = subprocess.Popen(command, cwd=app, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        until(lambda: first.poll() is not None or len(read_records(run)) == 1, 300)
        again = subprocess.run(command, cwd=app, capture_output=True, text=True, check=False)
        assert "another server is at work" in again.stderr  # two at a time would end each other
    finally:
        first.kill()
        first.communicate()
    done = subprocess.run(
        command, cwd=app, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"done; see it with: aaggff report {run} -o report.html"
    assert "round 3 (loss x weight): Cleveland" in done.stdout
    records = read_records(run)
    assert [record["round"] for record in records] == [1, 2, 3]
    assert_equal_to_local_engine(run, records)
    assert LocalFederation(app, app / "flower-home").processes.found() == {}


def in_mid_round(federation: LocalFederation, directory: Path, round: int) -> None:
    """Until the sites are at work on a round: the one before it is saved, theirs has arrived."""
    site = federation.home / "site-0.log"
    until(lambda: len(read_records(directory)) == round - 1, 300)
    before = site.read_text().count("Receiving: train message")
    answered = site.read_text().count("Sending: train message")
    if before == answered:
        until(lambda: site.read_text().count("Receiving: train message") > before, 60)
    assert len(read_records(directory)) == round - 1
