"""CelebA from its official tables and from LEAF's json, in tiny copies of both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from aaggff.data import celeba
from aaggff.data.federated import FederatedRows
from aaggff.data.images import read_image
from aaggff.errors import UserError
from tests.data import official

PERSONS = [str(person) for person in range(3, 7)]
"""Persons 1 and 2 of the tiny copy have 3 and 4 images."""


def names(data: FederatedRows) -> list[str]:
    return [data.client_name(k) for k in range(len(data))]


def truth(folder: Path) -> dict[str, list[tuple[str, int]]]:
    """Person -> (image, whether it smiles), read from the tables with plain loops."""
    smiling = {}
    lines = (folder / "list_attr_celeba.txt").read_text().splitlines()
    for line in lines[2:]:
        image, *values = line.split()
        smiling[image] = int(values[lines[1].split().index("Smiling")] == "1")
    persons: dict[str, list[tuple[str, int]]] = {}
    for line in (folder / "identity_CelebA.txt").read_text().splitlines():
        image, person = line.split()
        persons.setdefault(person, []).append((image, smiling[image]))
    return persons


def test_a_client_is_a_person_with_at_least_five_images(tmp_path: Path) -> None:
    folder = official.celeba(tmp_path)
    data = celeba.load(tmp_path)
    assert names(data) == PERSONS
    assert (data.train_sizes + data.test_sizes).tolist() == [5, 6, 7, 8]
    assert len(celeba.load(tmp_path, at_least=1)) == 6
    assert len(celeba.load(tmp_path, at_least=8)) == 1
    assert (data.task.kind, data.task.outputs, data.task.metric) == ("binary", 1, "top1")
    expected = truth(folder)
    for client, person in enumerate(PERSONS):
        x, y = data.rows.take(client)
        images = [read_image(folder / "img_align_celeba" / name, 84)
                  for name, _ in sorted(expected[person])]  # fmt: skip
        np.testing.assert_array_equal(x, np.stack(images))
        assert y.tolist() == [smiles for _, smiles in sorted(expected[person])]


def test_images_are_84_by_84_and_seen_between_0_and_1(tmp_path: Path) -> None:
    official.celeba(tmp_path)
    data = celeba.load(tmp_path)
    x, _ = data.train(0)
    assert (x.dtype, tuple(x.shape[1:])) == (torch.uint8, (3, 84, 84))
    assert torch.equal(data.prepare(x), x.float() / 255)
    assert celeba.load(tmp_path, size=32).train(0)[0].shape[2:] == (32, 32)


def test_another_attribute_is_another_target(tmp_path: Path) -> None:
    official.celeba(tmp_path)
    young = celeba.load(tmp_path, attribute="Young")
    assert all(young.rows.labels(k).all() for k in range(4))
    with pytest.raises(UserError, match=r"names no attribute 'Smilng' \(it names Male, Smiling"):
        celeba.load(tmp_path, attribute="Smilng")


def test_leafs_json_gives_the_same_clients_and_its_split(tmp_path: Path) -> None:
    official.celeba(tmp_path / "tables")
    tables = celeba.load(tmp_path / "tables")
    for leaf in ("split", "all_data"):
        official.celeba(tmp_path / leaf, tables=False, leaf=leaf)
        data = celeba.load(tmp_path / leaf)
        assert names(data) == PERSONS
        for client in range(4):
            ours, theirs = data.rows.take(client), tables.rows.take(client)
            np.testing.assert_array_equal(ours[0], theirs[0])
            np.testing.assert_array_equal(ours[1], theirs[1])
    split = celeba.load(tmp_path / "split", seed=7)
    assert split.train_sizes.tolist() == [4] * 4
    assert split.test_sizes.tolist() == [1, 2, 3, 4]
    with pytest.raises(UserError, match=r"needs .*list_attr_celeba\.txt"):
        celeba.load(tmp_path / "split", attribute="Young")


def test_a_partial_copy_is_used_and_says_so(tmp_path: Path) -> None:
    folder = official.celeba(tmp_path)
    for name, _ in truth(folder)["6"][:4]:
        (folder / "img_align_celeba" / name).unlink()
    data = celeba.load(tmp_path)
    assert names(data) == ["3", "4", "5"]
    assert data.notes == ("29 of 202,599 images are here",)


def test_nothing_there_says_which_files_to_put_where(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        celeba.load(tmp_path)
    for word in ("img_align_celeba", "list_attr_celeba.txt", "identity_CelebA.txt", "DIR/celeba",
                 "mmlab.ie.cuhk.edu.hk", "--stand-in"):  # fmt: skip
        assert word in str(error.value)
    folder = official.celeba(tmp_path)
    (folder / "identity_CelebA.txt").unlink()
    with pytest.raises(UserError, match=r"lacks identity_CelebA\.txt\."):
        celeba.load(tmp_path)


def test_one_unreadable_image_is_named_or_skipped_and_counted(tmp_path: Path) -> None:
    folder = official.celeba(tmp_path)
    bad = truth(folder)["5"][2][0]
    (folder / "img_align_celeba" / bad).write_bytes(b"<html>not found</html>")
    with pytest.raises(UserError, match=rf"{bad} cannot be read as an image .*--skip-corrupt"):
        celeba.load(tmp_path)
    data = celeba.load(tmp_path, skip_corrupt=True)
    assert (data.train_sizes + data.test_sizes).tolist() == [5, 6, 6, 8]
    assert data.notes[-1] == (
        f"1 of 26 files cannot be read and are left out: img_align_celeba/{bad}"
    )


DAMAGE = [
    ("identity_CelebA.txt", lambda text: text[:-3], "line 33 is not image and person"),
    ("list_attr_celeba.txt", lambda text: text[:-4], "line 35 is not an image and 3 times"),
    ("list_attr_celeba.txt", lambda text: text.replace("-1  1\n", "0  1\n", 1), "line 3"),
    ("list_attr_celeba.txt", lambda text: text.splitlines()[0], "names no attribute 'Smiling'"),
]


@pytest.mark.parametrize(("file", "change", "says"), DAMAGE)
def test_a_damaged_table_is_named_with_its_line(tmp_path: Path, file, change, says) -> None:
    path = official.celeba(tmp_path) / file
    path.write_text(change(path.read_text()))
    with pytest.raises(UserError) as error:
        celeba.load(tmp_path)
    assert str(path) in str(error.value)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text[:-30], "is cut or damaged"),
        (lambda text: text.replace("user_data", "data"), "has no 'user_data'"),
        (lambda text: text.replace('"y"', '"z"', 1), "user '3' has no lists 'x' and 'y'"),
        (lambda text: text.replace('.jpg", ', '.jpg", "a", ', 1), "inputs and 4 targets"),
        (lambda text: text.replace('"y": [0.0', '"y": [0.5', 1), "expected file names and 0 or 1"),
    ],
)
def test_damaged_json_is_named(tmp_path: Path, change, says) -> None:
    path = official.celeba(tmp_path, tables=False, leaf="split") / "train" / "train.json"
    changed = change(path.read_text())
    assert changed != path.read_text()
    path.write_text(changed)
    with pytest.raises(UserError) as error:
        celeba.load(tmp_path)
    assert str(path) in str(error.value)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"size": 4}, "data.size must be a whole number from 8 to 1024"),
        ({"at_least": 99}, "has no person with at least 99 images"),
        ({"skip_corrupt": "yes"}, "data.skip_corrupt"),
    ],
)
def test_a_wrong_option_is_one_clear_line(tmp_path: Path, options, says) -> None:
    official.celeba(tmp_path)
    with pytest.raises(UserError) as error:
        celeba.load(tmp_path, **options)
    assert says in str(error.value)
