"""Archives: what is honest comes out, nothing ever lands outside the folder."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from aaggff.data import archives as module
from aaggff.data.archives import is_archive, unpack
from aaggff.errors import UserError

FILES = {"data/a.txt": b"first", "data/deep/b.bin": bytes(5_000), "c": b""}


def make_zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def make_tar(path: Path, files: dict[str, bytes]) -> Path:
    kind = "w:gz" if path.suffix in (".gz", ".tgz") else "w"
    with tarfile.open(path, kind) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


MAKERS: list[tuple[str, Callable[[Path, dict[str, bytes]], Path]]] = [
    ("a.zip", make_zip),
    ("a.tar", make_tar),
    ("a.tar.gz", make_tar),
    ("a.tgz", make_tar),
]


def everything(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize(("name", "make"), MAKERS)
def test_an_honest_archive_comes_out_whole(tmp_path: Path, name: str, make) -> None:
    archive = make(tmp_path / name, FILES)
    assert is_archive(name)
    seen: list[int] = []
    assert unpack(archive, tmp_path / "out", progress=seen.append) == ["c", "data"]
    assert everything(tmp_path / "out") == FILES
    assert seen[-1] == 5_005


def test_it_comes_beside_what_is_there(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "data").mkdir(parents=True)
    (out / "data" / "mine.txt").write_text("mine")
    (out / "data" / "a.txt").write_text("old")
    unpack(make_zip(tmp_path / "a.zip", FILES), out)
    assert everything(out) == {**FILES, "data/mine.txt": b"mine"}


def test_a_folder_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    (tmp_path / "out" / "c").mkdir(parents=True)
    with pytest.raises(UserError, match="is a folder where the archive has a file"):
        unpack(make_zip(tmp_path / "a.zip", FILES), tmp_path / "out")


OUTSIDE = ["../evil", "data/../../evil", "/tmp/evil", "..", "a\\..\\evil", "C:/evil", " "]


@pytest.mark.parametrize(("archive", "make"), MAKERS[:3])
@pytest.mark.parametrize("name", OUTSIDE)
def test_nothing_leaves_the_folder(tmp_path: Path, archive: str, make, name: str) -> None:
    made = make(tmp_path / archive, {"good": b"good", name: b"evil"})
    before = set(tmp_path.rglob("*"))
    with pytest.raises(UserError, match="would land outside its folder"):
        unpack(made, tmp_path / "in" / "out")
    left = set(tmp_path.rglob("*")) - before
    assert left == {tmp_path / "in", tmp_path / "in" / "out"}


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE,
                                  tarfile.BLKTYPE, tarfile.FIFOTYPE])  # fmt: skip
def test_links_and_devices_in_a_tar_are_refused(tmp_path: Path, kind: bytes) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        info = tarfile.TarInfo("way")
        info.type, info.linkname = kind, "/etc"
        archive.addfile(info)
        inside = tarfile.TarInfo("way/passwd")
        inside.size = 4
        archive.addfile(inside, io.BytesIO(b"evil"))
    with pytest.raises(UserError, match="is a link or a device"):
        unpack(tmp_path / "a.tar", tmp_path / "out")
    assert everything(tmp_path / "out") == {}


def test_links_in_a_zip_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        info = zipfile.ZipInfo("way")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc")
    with pytest.raises(UserError, match="is a link or a device"):
        unpack(tmp_path / "a.zip", tmp_path / "out")


def test_a_link_in_the_folder_is_replaced_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "data").symlink_to(outside)
    with pytest.raises(UserError):
        unpack(make_zip(tmp_path / "a.zip", FILES), tmp_path / "out")
    assert everything(outside) == {}


@pytest.mark.parametrize(("name", "make"), MAKERS[:3])
def test_a_bomb_does_not_fill_the_disk(
    tmp_path: Path, name: str, make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SMALL", 1_000)
    monkeypatch.setattr(module, "LARGEST_RATIO", 0.5 if name == "a.tar" else 20)
    made = make(tmp_path / name, {"zeros": bytes(3_000_000)})
    with pytest.raises(UserError, match="made to fill the disk"):
        unpack(made, tmp_path / "out")
    assert everything(tmp_path / "out") == {}


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FILES", 2)
    with pytest.raises(UserError, match="more than 2 files"):
        unpack(make_zip(tmp_path / "a.zip", FILES), tmp_path / "out")


def test_a_name_that_comes_twice_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for content in (b"first", b"other"):
            info = tarfile.TarInfo("same")
            info.size = 5
            archive.addfile(info, io.BytesIO(content))
    with pytest.raises(UserError):
        unpack(tmp_path / "a.tar", tmp_path / "out")


@pytest.mark.parametrize(("name", "make"), MAKERS)
def test_a_cut_archive_is_named_and_leaves_nothing(tmp_path: Path, name: str, make) -> None:
    archive = make(tmp_path / name, {"x": b"", "y": bytes(range(256)) * 100})
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    with pytest.raises(UserError, match="damaged or cut short") as error:
        unpack(archive, tmp_path / "out")
    assert str(archive) in str(error.value)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_changed_byte_in_a_zip_is_noticed(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("a", b"A" * 1_000)
    content = bytearray((tmp_path / "a.zip").read_bytes())
    content[content.index(b"AAAA") + 10] = 0
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(UserError, match="damaged"):
        unpack(tmp_path / "a.zip", tmp_path / "out")


def test_permissions_are_those_of_new_files(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        info = tarfile.TarInfo("tool")
        info.mode = 0o6777
        archive.addfile(info, io.BytesIO(b""))
    unpack(tmp_path / "a.tar", tmp_path / "out")
    assert not (tmp_path / "out" / "tool").stat().st_mode & 0o6111
