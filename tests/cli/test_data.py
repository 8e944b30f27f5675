"""`aaggff data list | fetch | check`, as typed, against a real server and real files."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from aaggff.cli.app import app
from aaggff.data import DATASETS
from aaggff.data.spec import RemoteFile, Statistics
from tests.cli import tiny_dataset
from tests.data.loopback import Loopback, loopback, whole
from tests.shared import shared

Run = Callable[..., tuple[int, str, str]]

CLIENTS = {"a": "1 2 3", "b": "-1 1 -2 2", "c": "1 -1 1 -1 1"}


def zipped(clients: dict[str, str], *, inside: str = "clients") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in clients.items():
            archive.writestr(f"{inside}/{name}", text)
    return buffer.getvalue()


ARCHIVE = zipped(CLIENTS)
CHECKSUM = "sha256:" + hashlib.sha256(ARCHIVE).hexdigest()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def typed(*words: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            app(["data", *map(str, words)])
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return typed


@pytest.fixture
def server() -> Iterator[Loopback]:
    with loopback() as server:
        yield server


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`tiny(urls=..., checksum=...)` makes the data set known, with these addresses."""

    def known(**changes: object) -> None:
        archive = RemoteFile("tiny.zip", unpacks=("clients",))
        files = (replace(archive, **changes), RemoteFile("about.txt", optional=True))
        monkeypatch.setitem(DATASETS, "tiny", "tests.cli.tiny_dataset")
        monkeypatch.setattr(tiny_dataset, "SPEC", replace(tiny_dataset.SPEC, files=files))

    return known


def test_fetch_then_check(run: Run, tiny, server: Loopback, tmp_path: Path) -> None:
    server.answers["/tiny.zip"] = [whole(ARCHIVE)]
    urls = (server.url("/gone.zip"), server.url("/tiny.zip"))
    tiny(urls=urls, checksum=CHECKSUM, size=len(ARCHIVE))
    code, out, err = run("fetch", "tiny", "--data-dir", tmp_path)
    assert (code, err) == (0, "")
    assert "Licence: CC0" in out
    assert sorted(path.name for path in (tmp_path / "tiny").iterdir()) == ["clients"]
    code, out, _ = run("check", "tiny", "--data-dir", tmp_path)
    assert code == 0
    assert "clients              3           3" in out
    assert "differs" not in out
    asked = len(server.ranges)
    code, out, _ = run("fetch", "tiny", "--data-dir", tmp_path)
    assert code == 0
    assert "clients: is here" in out
    assert len(server.ranges) == asked


def test_a_wrong_checksum_stops_it_in_one_line(
    run: Run, tiny, server: Loopback, tmp_path: Path
) -> None:
    server.answers["/tiny.zip"] = [whole(zipped({"a": "666"}))]
    tiny(urls=(server.url("/tiny.zip"),), checksum=CHECKSUM)
    code, _, err = run("fetch", "tiny", "--data-dir", tmp_path)
    assert code == 2
    assert err.count("\n") == 1
    assert "tiny.zip" in err
    assert "sha256" in err
    assert "--from DIR" in err
    assert list((tmp_path / "tiny").iterdir()) == []


def test_an_archive_without_the_files_is_refused(
    run: Run, tiny, server: Loopback, tmp_path: Path
) -> None:
    server.answers["/tiny.zip"] = [whole(zipped(CLIENTS, inside="other"))]
    tiny(urls=(server.url("/tiny.zip"),))
    code, _, err = run("fetch", "tiny", "--data-dir", tmp_path)
    assert code == 2
    assert "holds no clients" in err


def test_from_a_folder_with_the_archive(run: Run, tiny, tmp_path: Path) -> None:
    tiny(checksum=CHECKSUM)
    source = tmp_path / "downloads"
    source.mkdir()
    (source / "tiny.zip").write_bytes(ARCHIVE)
    assert run("fetch", "tiny", "--data-dir", tmp_path, "--from", source)[0] == 0
    assert (tmp_path / "tiny" / "clients" / "a").read_text() == CLIENTS["a"]
    assert (source / "tiny.zip").exists()


@pytest.mark.parametrize("link", [False, True])
def test_from_a_folder_with_the_files(run: Run, tiny, tmp_path: Path, link: bool) -> None:
    tiny()
    source = tmp_path / "mine" / "tiny" / "clients"
    source.mkdir(parents=True)
    (source / "a").write_text("1 -1 1 -1")
    words = ["fetch", "tiny", "--data-dir", tmp_path, "--from", tmp_path / "mine"]
    code, out, _ = run(*words, *(["--link"] if link else []))
    assert code == 0
    assert "partial: clients has 1 of 3 files" in out
    target = tmp_path / "tiny" / "clients"
    assert target.is_symlink() is link
    code, out, _ = run("check", "tiny", "--data-dir", tmp_path)
    assert code == 0
    assert "partial: clients has 1 of 3 files" in out
    assert "clients              1           3  differs" in out


def test_what_cannot_be_downloaded_says_what_to_put_where(
    run: Run, tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny()
    spec = replace(tiny_dataset.SPEC, manual="put tiny.zip from the moon there")
    monkeypatch.setattr(tiny_dataset, "SPEC", spec)
    code, _, err = run("fetch", "tiny", "--data-dir", tmp_path)
    assert code == 2
    assert "still lacks clients" in err
    assert "put tiny.zip from the moon there" in err
    assert run("check", "tiny", "--data-dir", tmp_path)[0] == 2


def test_counts_that_differ_with_nothing_missing_are_an_error(
    run: Run, tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny(checksum=CHECKSUM)
    (tmp_path / "tiny.zip").write_bytes(ARCHIVE)
    run("fetch", "tiny", "--data-dir", tmp_path, "--from", tmp_path)
    (tmp_path / "tiny" / "about.txt").write_text("about")
    assert run("check", "tiny", "--data-dir", tmp_path)[0] == 0
    changed = replace(tiny_dataset.SPEC, statistics=Statistics(3, 13, 4.33, 1.0))
    monkeypatch.setattr(tiny_dataset, "SPEC", changed)
    assert run("check", "tiny", "--data-dir", tmp_path)[0] == 1
    code, out, _ = run("check", "tiny", "--data-dir", tmp_path, "--set", "data.double=true")
    assert code == 0
    assert "samples             24          13  differs" in out


def test_a_changed_file_is_named_by_check(
    run: Run, tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny()
    files = (
        RemoteFile("clients"),
        RemoteFile("about.txt", checksum="md5:" + hashlib.md5(b"about").hexdigest()),
    )
    monkeypatch.setattr(tiny_dataset, "SPEC", replace(tiny_dataset.SPEC, files=files))
    folder = tmp_path / "tiny" / "clients"
    folder.mkdir(parents=True)
    for name, text in CLIENTS.items():
        (folder / name).write_text(text)
    (folder.parent / "about.txt").write_text("about")
    code, out, _ = run("check", "tiny", "--data-dir", tmp_path)
    assert "about.txt: here (checksum as published)" in out
    assert code == 0
    (folder.parent / "about.txt").write_text("changed")
    code, out, _ = run("check", "tiny", "--data-dir", tmp_path)
    assert "about.txt: its md5 is" in out
    assert code == 1


def test_check_shows_how_a_pool_is_dealt_out(run: Run) -> None:
    words = ["data.clients=3", "data.partition=quantity", "data.min_size=40", "data.alpha=0.2"]
    code, out, _ = run("check", "digits", *[part for word in words for part in ("--set", word)])
    assert code == 0
    lines = out.splitlines()
    table = lines[lines.index("client  samples  of each class") + 1 :]
    rows = [line.replace(",", "").split() for line in table]
    assert len(rows) == 3
    assert sum(int(row[1]) for row in rows) == 1_797
    assert all(int(row[1]) == sum(map(int, row[2:])) >= 40 for row in rows)
    code, out, _ = run("check", "tinyimagenet", "--stand-in", "--set", "data.scale=0.02")
    assert (code, "1,000 clients, 2,000 samples" in out) == (0, True)
    assert "... and 990 more" in out


def test_list_shows_every_data_set(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("list", "--data-dir", tmp_path)
    assert code == 0
    for name in DATASETS:
        assert f"\n{name} " in out
    rows = {row["name"]: row for row in json.loads(run("list", "--json")[1])}
    assert rows["heart"]["here"] == "built in"
    assert rows["celeba"]["clients"] == 9_343
    for name in ("berka", "mqp", "isic2019", "celeba", "reddit", "speechcommands", "tinyimagenet"):
        assert rows[name]["stand_in"] is True
        assert f"\n{name:14}  no " in out


def test_list_says_that_a_copy_is_partial(run: Run) -> None:
    folder = shared("data")
    out = run("list", "--data-dir", folder)[1]
    here = {line.split()[0]: line.split()[1] for line in out.splitlines()}
    assert here["berka"] == "partial"
    assert here["mqp"] == "yes"
    assert here["celeba"] == "no"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["fetch", "celebra"], "did you mean 'celeba'"),
        (["check", "berka", "--set", "data.histry=all"], "did you mean 'history'"),
        (["check", "berka", "--set", "model.x=1"], "data.NAME=VALUE"),
        (["check", "heart", "--stand-in"], "has no stand-in"),
        (["fetch", "mqp", "--link"], "needs --from"),
        (["fetch", "mqp", "--from", "no/such/folder"], "there is no such folder"),
        (["fetch", "celeba"], "list_attr_celeba.txt"),
        (["check", "mqp"], "aaggff data fetch mqp"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    run: Run, words, says, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AAGGFF_DATA", str(tmp_path))
    code, _, err = run(*words)
    assert code == 2
    assert says in err
    assert err.count("\n") == 1


def test_what_comes_with_the_package_needs_no_fetching(run: Run) -> None:
    code, out, _ = run("fetch", "heart")
    assert code == 0
    assert "nothing to fetch" in out
    code, out, _ = run("check", "heart")
    assert code == 0
    assert "4 clients, 920 samples" in out
