"""The generated app's README, followed line by line: a server and four sites, by hand."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from aaggff.deploy.flower.local_federation import free_port, read_records
from aaggff.deploy.flower.processes import Processes
from tests.deploy.hospitals import SEED, assert_equal_to_local_engine, make_app
from tests.deploy.waiting import until

pytestmark = [pytest.mark.deploy, pytest.mark.slow]


def test_the_commands_of_the_readme_make_a_federation(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    own_pair, server, register, site, run = blocks(app / "README.md", "On real machines")
    if shutil.which("ssh-keygen"):  # one of the sites makes its pair itself
        for half in ("key", "pub"):
            (app / "keys" / f"site-0.{half}").unlink()
        subprocess.run(own_pair[0], shell=True, cwd=app / "keys", check=True, capture_output=True)
    environment = [line for line in server if line.startswith("export")]
    port = str(free_port("127.0.0.1"))
    (tmp_path / "logs").mkdir()
    # As in a terminal with the environment active.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    terminals = Processes(tmp_path / "logs", os.environ | {"PATH": path})

    def bash(*lines: str) -> list[str]:
        script = "\n".join((f"cd {app}", *lines)).replace("127.0.0.1:8000", f"127.0.0.1:{port}")
        return ["bash", "-ec", script.replace("--port 8000", f"--port {port}")]

    def here(number: int, line: str) -> str:
        line = line.replace("--port 9100", f"--port {free_port('127.0.0.1')}")
        line = line.replace("partition-id=0", f"partition-id={number}")
        return line.replace("site-0", f"site-{number}")

    try:
        terminals.start("server", bash(*server))
        until(lambda: "Uvicorn running on https" in terminals.said("server"), 120)
        for number in range(4):
            words = bash(*environment, *(here(number, line) for line in register))
            subprocess.run(words, env=terminals.environment, check=True, timeout=120)
            terminals.start(f"site-{number}", bash(*(here(number, line) for line in site)))
        settings = f'--run-config "seed={SEED} evaluate-every=9 '
        (command,) = run
        command = command.replace("rounds=20", "rounds=2").replace('--run-config "', settings)
        done = subprocess.run(
            bash("umask 077", *environment, command),
            env=terminals.environment, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        terminals.end(last="server")
    records = read_records(app / "state" / "run")
    assert [record["round"] for record in records] == [1, 2]
    assert_equal_to_local_engine(app / "state" / "run", records)
    # What lies at the server is for its user alone.
    for path_ in (app / "state").rglob("*"):
        assert path_.stat().st_mode & 0o077 == 0, path_


def blocks(document: Path, section: str) -> list[list[str]]:
    """The lines of a section's console blocks."""
    text = document.read_text().split(f"## {section}\n")[1].split("\n## ")[0]
    return [
        [line.removeprefix("$ ") for line in block.splitlines()]
        for block in re.findall(r"```console\n(.*?)```", text, re.S)
    ]
