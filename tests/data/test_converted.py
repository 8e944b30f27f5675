"""Official files to a store: once, again when they change, and never half."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from aaggff.data import converted as module
from aaggff.data import mqp, speechcommands
from aaggff.data.store import open_store, read_manifest, verify_store
from aaggff.errors import UserError
from tests.data import official


@pytest.fixture
def words(tmp_path: Path) -> str:
    return str(official.vocabulary(tmp_path / "encoder"))


def stores(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob(".store-*/manifest.json"))


def watched(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The conversions that are really done from now on."""
    done: list[Path] = []
    convert = mqp._convert

    def counting(folder: Path, store: Path, *rest: object, **options: object) -> None:
        done.append(store)
        convert(folder, store, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(mqp, "_convert", counting)
    return done


def test_it_is_made_once_for_all_seeds(tmp_path, words, monkeypatch) -> None:
    done = watched(monkeypatch)
    folder = official.mqp(tmp_path)
    for seed in (0, 1, 2):
        mqp.load(tmp_path, tokenizer=words, seed=seed)
    assert len(done) == 1
    mqp.load(tmp_path, tokenizer=words, longest=16)
    assert len(done) == len(stores(folder)) == 2


def test_it_is_made_anew_when_a_file_changes(tmp_path, words, monkeypatch) -> None:
    done = watched(monkeypatch)
    path = official.mqp(tmp_path) / "mqp.csv"
    first = mqp.load(tmp_path, tokenizer=words)
    path.write_text(path.read_text() + "12,can i,no,1\n" * 5)
    second = mqp.load(tmp_path, tokenizer=words)
    assert (len(first), len(second)) == (11, 12)
    assert len(done) == 2
    assert len(stores(path.parent)) == 1


def test_the_manifest_says_where_it_comes_from(tmp_path: Path, words: str) -> None:
    folder = official.mqp(tmp_path)
    mqp.load(tmp_path, tokenizer=words, longest=32)
    about = read_manifest(stores(folder)[0])["about"]
    assert about["licence"] == "none stated"
    assert "McCreery" in about["credit"]
    assert about["options"]["longest"] == 32
    assert about["source"][0][:2] == ["mqp.csv", (folder / "mqp.csv").stat().st_size]
    assert len(about["sha256"]["mqp.csv"]) == 64
    assert about["made_by"].startswith("aaggff ")
    assert about["notes"] == ["mqp.csv has 110 of 3,048 rows"]


def test_it_serves_after_the_official_files_are_gone(tmp_path: Path, words: str) -> None:
    path = official.mqp(tmp_path) / "mqp.csv"
    before = mqp.load(tmp_path, tokenizer=words).train(0)[0]
    path.unlink()
    assert (mqp.load(tmp_path, tokenizer=words).train(0)[0] == before).all()
    with pytest.raises(UserError, match=r"lacks mqp\.csv"):
        mqp.load(tmp_path, tokenizer=words, longest=16)


@pytest.mark.parametrize("damage", ["cut manifest", "other format"])
def test_a_damaged_manifest_is_replaced(tmp_path, words, damage, monkeypatch) -> None:
    folder = official.mqp(tmp_path)
    mqp.load(tmp_path, tokenizer=words)
    manifest = stores(folder)[0] / "manifest.json"
    text = manifest.read_text()
    manifest.write_text(text[:-9] if damage == "cut manifest" else text.replace("1", "7", 1))
    done = watched(monkeypatch)
    assert len(mqp.load(tmp_path, tokenizer=words)) == 11
    assert len(done) == 1


def test_a_cut_array_is_named_with_what_to_delete(tmp_path: Path, words: str) -> None:
    folder = official.mqp(tmp_path)
    mqp.load(tmp_path, tokenizer=words)
    store = stores(folder)[0]
    (store / "x.bin").write_bytes((store / "x.bin").read_bytes()[:-4])
    with pytest.raises(UserError, match=r"x\.bin has \d+ bytes, not \d+: delete .*\.store-"):
        mqp.load(tmp_path, tokenizer=words)
    shutil.rmtree(store)
    assert len(mqp.load(tmp_path, tokenizer=words)) == 11


def test_where_the_folder_cannot_be_written_it_lies_in_the_cache(
    tmp_path: Path, words: str, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = official.mqp(tmp_path)
    # A read-only disk, whoever asks: root may write where permissions say no.
    monkeypatch.setattr(module, "_writable", lambda place: place != folder)
    first = mqp.load(tmp_path, tokenizer=words)
    assert not stores(folder)
    assert len(list((own_cache / "aaggff" / "stores").glob("mqp-*/manifest.json"))) == 1
    done = watched(monkeypatch)
    again = mqp.load(tmp_path, tokenizer=words)
    assert not done
    assert (again.train(3)[0] == first.train(3)[0]).all()


def test_a_folder_is_tried_by_writing_to_it(tmp_path: Path) -> None:
    assert module._writable(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert not module._writable(tmp_path / "nowhere")


KILLED = """
import os, sys
from pathlib import Path
from aaggff.data import samples, speechcommands
read = speechcommands.read_wav
def dying(path, **how):
    if path.name.startswith("00000003"):
        os._exit(9)
    return read(path, **how)
speechcommands.read_wav = dying
samples.CHUNK = 2
speechcommands.load(Path(sys.argv[1]))
"""


def test_a_killed_conversion_leaves_nothing_that_passes_for_a_store(tmp_path: Path) -> None:
    folder = official.speechcommands(tmp_path)
    died = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert died.returncode == 9
    assert not stores(folder)
    left = [path for path in folder.iterdir() if ".partial-" in path.name]
    assert len(left) == 1
    data = speechcommands.load(tmp_path)
    assert len(data) == 3
    assert not [path for path in folder.iterdir() if ".partial-" in path.name]
    assert verify_store(stores(folder)[0]) == []


LOADING = """
import sys
from pathlib import Path
from aaggff.data import mqp
convert = mqp._convert
def counting(*parts, **options):
    Path(sys.argv[3]).open("a").write("converted\\n")
    convert(*parts, **options)
mqp._convert = counting
print(len(mqp.load(Path(sys.argv[1]), tokenizer=sys.argv[2])))
"""


def test_of_several_processes_one_does_the_work(tmp_path: Path, words: str) -> None:
    official.mqp(tmp_path, pairs_each=60)
    log = tmp_path / "log"
    command = [sys.executable, "-c", LOADING, str(tmp_path), words, str(log)]
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ)
        for _ in range(2)
    ]
    assert [process.communicate()[0].strip() for process in processes] == ["11"] * 2
    assert log.read_text() == "converted\n"


def test_every_byte_of_a_store_is_vouched_for(
    tmp_path: Path, words: str, real: Callable[[str], Path]
) -> None:
    root = real("mqp")
    data = mqp.load(root, tokenizer=words)
    store = stores(root / "mqp")[0]
    assert verify_store(store) == []
    sizes = np.diff(open_store(store).rows.offsets)
    assert sizes.tolist() == (data.train_sizes + data.test_sizes).tolist()
