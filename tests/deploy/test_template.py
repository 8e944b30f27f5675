"""The app that `aaggff deploy new` writes: keys, bundle, containers, README, one's own model."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import shlex
import ssl
import stat
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import yaml
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_private_key,
    load_ssh_public_key,
)
from flwr.app import Context, RecordDict
from flwr.supernode import fleet_http_client

from aaggff.deploy.flower.environment import QUIET
from aaggff.deploy.flower.local_federation import LocalFederation
from aaggff.deploy.flower.processes import program
from aaggff.deploy.template import FRAMEWORKS, new_app, options
from aaggff.errors import UserError
from aaggff.version import __version__
from tests.deploy.fake_grid import FakeGrid
from tests.deploy.hospitals import make_app
from tests.shared import ROOT

TEMPLATE = ROOT / "src" / "aaggff" / "deploy" / "flower" / "template"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_app(tmp_path_factory.mktemp("new"))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_everything_of_the_template_is_there_and_nothing_else(
    framework: str, tmp_path: Path
) -> None:
    made = new_app(tmp_path / "made", framework)
    template = TEMPLATE.parents[1] / framework / "template"
    assert "README.md" in files(made)
    assert files(made) == {name for name in files(template) if "__pycache__" not in name}


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "here").write_text("mine")
    for taken in (tmp_path, tmp_path / "here"):
        with pytest.raises(UserError, match="not an empty directory"):
            new_app(taken, "flower")
    with pytest.raises(UserError, match="did you mean 'flower'"):
        new_app(tmp_path / "new", "flwer")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here"]
    with pytest.raises(UserError, match="cannot write to"):
        new_app(tmp_path / "here" / "below", "flower")


def test_options_in_a_line() -> None:
    assert options("") == {}
    assert options(" cdf = frechet,strength=2 ") == {"cdf": "frechet", "strength": 2.0}
    with pytest.raises(UserError, match="NAME=VALUE"):
        options("frechet")


# ---- keys -------------------------------------------------------------------------------------


def test_private_keys_are_for_their_owner_alone(app: Path) -> None:
    keys = app / "keys"
    assert stat.S_IMODE(keys.stat().st_mode) == 0o700
    private = sorted(path.name for path in keys.glob("*.key"))
    assert private == ["ca.key", "server.key", *(f"site-{site}.key" for site in range(4))]
    assert {stat.S_IMODE((keys / name).stat().st_mode) for name in private} == {0o600}
    again = subprocess.run(
        [sys.executable, "make_keys.py"], cwd=app, capture_output=True, text=True, check=False
    )
    assert again.returncode == 1
    assert "never overwritten" in again.stderr


def test_each_site_has_a_pair_of_its_own(app: Path) -> None:
    seen = set()
    for site in range(4):
        private = load_ssh_private_key((app / "keys" / f"site-{site}.key").read_bytes(), None)
        public = load_ssh_public_key((app / "keys" / f"site-{site}.pub").read_bytes())
        own = private.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        assert own == public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        seen.add(own)
    assert len(seen) == 4


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "superlink", "gate"])
def test_the_server_is_believed_under_its_names(app: Path, host: str) -> None:
    assert handshake(app / "keys", app / "keys" / "ca.crt", host)


def test_nobody_else_is_believed_to_be_the_server(app: Path, tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="match"):
        handshake(app / "keys", app / "keys" / "ca.crt", "fl.example.org")
    other = make_app(tmp_path, "--sites", "1", "--hosts", "fl.example.org") / "keys"
    assert handshake(other, other / "ca.crt", "fl.example.org")
    with pytest.raises(ssl.SSLCertVerificationError, match=r"signature|verify failed"):
        handshake(app / "keys", other / "ca.crt", "localhost")
    assert {path.name for path in other.glob("site-*")} == {"site-0.key", "site-0.pub"}


# ---- what is sent to the sites ----------------------------------------------------------------


@pytest.mark.deploy
def test_the_bundle_holds_the_app_and_no_key(app: Path) -> None:
    subprocess.run(
        [program("flwr"), "build", "--app", str(app)],
        cwd=app, env={**os.environ, **QUIET}, check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    (bundle,) = app.glob("*.fab")
    with zipfile.ZipFile(bundle) as archive:
        names = {name for name in archive.namelist() if not name.startswith(".info/")}
    bundle.unlink()
    code = {f"fairapp/{path.name}" for path in (TEMPLATE / "fairapp").glob("*.py")}
    assert names == {"pyproject.toml", *code}


# ---- containers -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compose(app: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((app / "compose.yml").read_text())
    return loaded


def test_every_image_is_pinned_and_flowers_are_those_tested_here(
    app: Path, compose: dict[str, Any]
) -> None:
    tested = re.search(r"^flwr==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M)
    assert tested
    bases = []
    for service in compose["services"].values():
        assert re.search(r":\d+\.\d+\.\d+", service["image"])
        if "build" in service:
            bases.append(service["build"]["args"]["BASE"])
    of = {"flwr/superlink", "flwr/supernode"}
    assert set(bases) == {f"{name}:{tested[1]}" for name in of}
    dockerfile = (app / "Dockerfile").read_text()
    assert f"ARG BASE=flwr/supernode:{tested[1]}\n" in dockerfile
    assert f'"aaggff[train]=={__version__}"' in dockerfile
    assert "COPY" not in dockerfile
    assert (app / ".dockerignore").read_text().splitlines()[-1] == "*"


def test_containers_see_the_keys_they_need_and_cannot_change_them(
    app: Path, compose: dict[str, Any]
) -> None:
    sees = {}
    for name, service in compose["services"].items():
        mounts = [mount.split(":") for mount in service["volumes"]]
        sees[name] = {source for source, *_ in mounts if source.startswith("./keys/")}
        for source, _, *mode in mounts:
            if source != "./state":
                assert (app / source).is_file()
                assert mode == ["ro"]
    server = {f"./keys/{name}" for name in ("ca.crt", "server.crt", "server.key")}
    sites = {f"site-{n}": {"./keys/ca.crt", f"./keys/site-{n}.key"} for n in range(4)}
    assert sees == {"superlink": server, "gate": server, **sites}


def test_only_the_gate_can_be_reached_and_only_through_it_the_superlink(
    app: Path, compose: dict[str, Any]
) -> None:
    services = compose["services"]
    ports = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert ports == {"superlink": ["127.0.0.1:8000:8000"], "gate": ["8443:8443"]}
    networks = {name: set(service["networks"]) for name, service in services.items()}
    assert networks.pop("superlink") == {"inside"}
    assert networks.pop("gate") == {"inside", "sites"}
    assert set(map(frozenset, networks.values())) == {frozenset({"sites"})}
    assert set(compose["networks"]) == {"inside", "sites"}
    # Whatever a SuperNode asks for lies under the one path that the gate lets through.
    asked = re.findall(r'path="([^"]+)"', inspect.getsource(fleet_http_client))
    gate = (app / "gate.conf").read_text()
    (passed,) = re.findall(r"location (\S+) \{\s*proxy_pass", gate)
    assert len(asked) >= 10
    assert all(path.startswith(passed) for path in asked)
    assert re.search(r"location / \{\s*return 404;", gate)
    assert gate.count("{") == gate.count("}")


@pytest.mark.deploy
def test_flowers_programs_know_every_option_they_are_given(
    app: Path, compose: dict[str, Any]
) -> None:
    known = {name: known_options(name) for name in ("flower-superlink", "flower-supernode")}
    given = [
        [*service["entrypoint"], *service.get("command", [])]
        for service in compose["services"].values()
        if "entrypoint" in service
    ]
    assert len(given) == 5
    readme = [words for words in commands(app / "README.md") if words[0] in known]
    assert len(readme) == 2
    for program_, *words in given + readme:
        used = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert used <= known[program_]
        assert "--insecure" not in used
    told = {name: s["command"][1] for name, s in compose["services"].items() if "command" in s}
    assert told == {f"site-{n}": f"partition-id={n} num-partitions=4" for n in range(4)}


def test_files_that_the_readme_names_are_there(app: Path) -> None:
    text = (app / "README.md").read_text()
    named = set(re.findall(r"`((?:fairapp/)?[a-z_]+\.(?:py|toml|yml|conf))`", text))
    assert named
    assert all((app / name).is_file() or name in ("config.toml", "task.py") for name in named)
    for words in commands(app / "README.md"):
        if words[0] == "python":
            assert (app / words[1]).is_file()
        for word in words:
            if word.startswith("keys/"):
                assert (app / word).is_file()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rouns=3"], "unknown setting 'rouns'; did you mean 'rounds'?"),
        (["rounds", "3"], "'rounds' is not NAME=VALUE"),
    ],
)
def test_a_mistake_is_said_before_anything_starts(app: Path, words: list[str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "federation.py", *words],
        cwd=app, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith(said)
    assert not list((app / "flower-home").glob("*.log"))


def test_without_keys_it_says_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"make them: python make_keys\.py"):
        LocalFederation(new_app(tmp_path / "app", "flower"), tmp_path / "home")
    assert not (tmp_path / "home").exists()


# ---- one's own model and data -----------------------------------------------------------------

OWN_TASK = """
import csv
import torch
from torch import nn
from aaggff.federation.data import Task
from aaggff.federation.local import LocalTraining

NAME = "wards"
SITES = ["north", "south", "east"]
TASK = Task("multiclass", 3, "top1")
LOCAL = LocalTraining(lr=0.2, batch_size=8, epochs=2)

def model(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))

def data(site, seed, where):
    with open(where) as file:
        rows = torch.tensor([[float(cell) for cell in row] for row in csv.reader(file)])
    part = rows[:, :2], rows[:, 2].long()
    return tuple(each[:30] for each in part), tuple(each[30:] for each in part)
"""


@pytest.fixture
def own_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The app's package with a task.py of a user's own."""
    made = new_app(tmp_path / "app", "flower")
    (made / "fairapp" / "task.py").write_text(OWN_TASK)
    monkeypatch.syspath_prepend(made)
    yield importlib.import_module("fairapp")
    for name in [name for name in sys.modules if name.partition(".")[0] == "fairapp"]:
        del sys.modules[name]


def test_it_trains_your_model_on_your_data(own_app: ModuleType, tmp_path: Path) -> None:
    """A class each site has much of, read from where its SuperNode says the data are."""
    client = importlib.import_module("fairapp.client_app").app
    server = importlib.import_module("fairapp.server_app").app
    generator, centres = np.random.default_rng(0), np.array([[-1, 0], [1, 0], [0, 1.5]])
    grid = FakeGrid(dict.fromkeys((11, 22, 33), client))
    for site, context in enumerate(grid.contexts.values()):
        labels = np.append(generator.integers(0, 3, 25), np.full(15, site))
        generator.shuffle(labels)
        points = centres[labels] + 0.3 * generator.normal(size=(40, 2))
        where = tmp_path / f"{site}.csv"
        np.savetxt(where, np.column_stack([points, labels]), delimiter=",")
        context.node_config["data"] = str(where)
        context.run_config["seed"] = 1
    settings = dict(settings_of(Path(own_app.__path__[0]).parent))
    settings |= {"rounds": 8, "evaluate-every": 8, "seed": 1, "directory": str(tmp_path / "run")}
    server(grid, Context(1, 0, {}, RecordDict(), settings))

    from aaggff.report.collect import read_run

    run = read_run(tmp_path / "run")
    assert [record["round"] for record in run.rounds] == list(range(1, 9))
    assert run.names() == ["north", "south", "east"]
    assert run.rounds[0]["sizes"] == [30, 30, 30]
    first, last = run.rounds[0]["losses"], run.rounds[-1]["losses"]
    assert max(last) < 0.5 * min(first)
    assert run.last("top1").min() >= 0.8


def test_a_model_of_another_shape_is_named(own_app: ModuleType, tmp_path: Path) -> None:
    task = importlib.import_module("fairapp.task")
    from aaggff.deploy.template_site import Site

    parts = [(np.zeros((4, 2), np.float32), np.zeros(4, np.int64))] * 2
    site = Site(*parts, task.TASK, task.model(0), task.LOCAL)
    with pytest.raises(UserError, match="not this site's"):
        site.receive({"0.weight": np.zeros((8, 3), np.float32)})


# ---- helpers ----------------------------------------------------------------------------------


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def settings_of(app: Path) -> dict[str, Any]:
    import tomllib

    found: dict[str, Any] = tomllib.loads((app / "pyproject.toml").read_text())
    config: dict[str, Any] = found["tool"]["flwr"]["app"]["config"]
    return config


def commands(document: Path) -> Iterator[list[str]]:
    """The commands of a document's console blocks, word by word."""
    for block in re.findall(r"```console\n(.*?)```", document.read_text(), re.S):
        for line in block.splitlines():
            yield shlex.split(line.removeprefix("$ "), comments=True)


def known_options(name: str) -> set[str]:
    said = subprocess.run(
        [program(name), "--help"], capture_output=True, text=True, check=True, timeout=60
    )
    return set(re.findall(r"--[a-z][a-z-]+", said.stdout))


def handshake(keys: Path, authority: Path, host: str) -> bool:
    """TLS between a server with these keys and a client that trusts this authority."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(keys / "server.crt", keys / "server.key")
    client = ssl.create_default_context(cafile=str(authority))
    one, two = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(one, two, server_hostname=host)
    theirs = server.wrap_bio(two, one, server_side=True)
    for _ in range(4):
        for side in (ours, theirs):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ours.version() == "TLSv1.3"
