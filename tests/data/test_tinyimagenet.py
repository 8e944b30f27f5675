"""TinyImageNet: one pool of images, dealt out by the seed in any of the ways there are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from aaggff.data import tinyimagenet
from aaggff.data.images import read_image
from aaggff.data.partition import PARTITIONS
from aaggff.data.store import open_store
from aaggff.errors import UserError
from tests.data import official


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The official layout with two images a class; read only."""
    root = tmp_path_factory.mktemp("tinyimagenet")
    official.tinyimagenet(root)
    return root


def sizes(data: object) -> list[int]:
    return (data.train_sizes + data.test_sizes).tolist()  # type: ignore[attr-defined, no-any-return]


def test_a_class_is_its_place_among_the_sorted_numbers(tiny: Path) -> None:
    tinyimagenet.load(tiny, clients=4)
    store = next((tiny / "tinyimagenet").glob(".store-*"))
    pool = open_store(store)
    assert len(pool) == 1
    x, y = pool.rows.take(0)
    place = tiny / "tinyimagenet" / tinyimagenet.FOLDER
    numbers = sorted((place / "wnids.txt").read_text().split())
    seen = 0
    for label, number in enumerate(numbers):
        files = sorted((place / "train" / number / "images").iterdir())
        images = np.stack([read_image(file, 64) for file in files])
        np.testing.assert_array_equal(x[y == label], images)
        seen += len(files)
    assert seen == len(y) == 400


def test_the_defaults_are_the_papers(tiny: Path) -> None:
    data = tinyimagenet.load(tiny, clients=40)
    assert sizes(data) == [10] * 40
    assert (data.task.outputs, data.task.metric) == (200, "top5")
    x, _ = data.train(0)
    assert (x.dtype, tuple(x.shape[1:])) == (torch.uint8, (3, 64, 64))
    spec = tinyimagenet.SPEC
    assert (spec.options["clients"].default, spec.options["alpha"].default) == (1_000, 0.01)
    assert spec.options["partition"].default == "dirichlet"


@pytest.mark.parametrize("partition", PARTITIONS)
def test_every_image_goes_to_one_client_however_it_is_dealt(tiny: Path, partition: str) -> None:
    data = tinyimagenet.load(tiny, clients=20, partition=partition, alpha=0.3, min_size=3)
    assert sum(sizes(data)) == 400
    assert min(sizes(data)) >= 3
    labels = np.concatenate([data.rows.labels(k) for k in range(20)])
    assert np.bincount(labels).tolist() == [2] * 200


def test_the_seed_decides_who_gets_what_from_one_store(tiny: Path) -> None:
    stores = set((tiny / "tinyimagenet").glob(".store-*"))
    two, again, four = (tinyimagenet.load(tiny, clients=20, seed=seed) for seed in (2, 2, 4))
    assert torch.equal(two.train(0)[0], again.train(0)[0])
    assert two.train(0)[1].tolist() != four.train(0)[1].tolist()
    assert len(set((tiny / "tinyimagenet").glob(".store-*")) | stores) == 1


def test_the_validation_images_may_join(tmp_path: Path) -> None:
    folder = official.tinyimagenet(tmp_path, each=1)
    train = tinyimagenet.load(tmp_path, clients=4)
    both = tinyimagenet.load(tmp_path, clients=4, images="train+val")
    assert (sum(sizes(train)), sum(sizes(both))) == (200, 204)
    numbers = (folder / tinyimagenet.FOLDER / "wnids.txt").read_text().split()
    extra = np.bincount(np.concatenate([both.rows.labels(k) for k in range(4)])) - 1
    assert sorted(np.flatnonzero(extra)) == sorted(sorted(numbers).index(n) for n in numbers[:4])


def test_a_partial_copy_says_so(tiny: Path) -> None:
    assert tinyimagenet.load(tiny, clients=4).notes == (
        "400 of 100,000 training images are here",
        "4 of 10,000 validation images are here",
    )


def test_damage_is_named(tmp_path: Path) -> None:
    place = official.tinyimagenet(tmp_path, each=1) / tinyimagenet.FOLDER
    bad = place / "train" / "n00000007" / "images" / "n00000007_0.JPEG"
    good = bad.read_bytes()
    bad.write_bytes(good[:200])
    with pytest.raises(UserError, match=r"n00000007_0\.JPEG cannot be read as an image"):
        tinyimagenet.load(tmp_path, clients=4)
    data = tinyimagenet.load(tmp_path, clients=4, skip_corrupt=True)
    assert sum(sizes(data)) == 199
    assert "1 of 200 files cannot be read" in data.notes[-1]
    bad.write_bytes(good)
    table = place / "val" / "val_annotations.txt"
    table.write_text("val_0.JPEG n00000007\n")
    with pytest.raises(UserError, match=r"val_annotations\.txt: line 1 is not image, class, box"):
        tinyimagenet.load(tmp_path, clients=4, images="train+val")
    table.unlink()
    with pytest.raises(UserError, match=r"val_annotations\.txt is missing.*data\.images"):
        tinyimagenet.load(tmp_path, clients=4, images="train+val")
    (place / "wnids.txt").write_text("n00000007\n")
    with pytest.raises(UserError, match=r"wnids\.txt names 1 classes, not 200"):
        tinyimagenet.load(tmp_path, clients=4)
    (place / "wnids.txt").unlink()
    for store in (tmp_path / "tinyimagenet").glob(".store-*"):
        if store.is_dir():
            (store / "manifest.json").unlink()
    with pytest.raises(UserError, match=r"lacks tiny-imagenet-200/wnids\.txt"):
        tinyimagenet.load(tmp_path, clients=4)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"partition": "dirichelt"}, "did you mean 'dirichlet'"),
        ({"clients": 401}, "400 samples cannot be dealt to 401 clients"),
        ({"clients": 300}, "at least 2 each"),
        ({"clients": 4, "alpha": -1.0}, "alpha must be above 0"),
        ({"images": "val"}, "known: train, train+val"),
    ],
)
def test_a_wrong_option_is_one_clear_line(tiny: Path, options, says) -> None:
    with pytest.raises(UserError) as error:
        tinyimagenet.load(tiny, **options)
    assert says in str(error.value)


def test_the_real_images(real: Callable[[str], Path]) -> None:
    data = tinyimagenet.load(real("tinyimagenet"), seed=2)
    assert sizes(data) == [2] * 1_000
    assert data.notes == (
        "2,000 of 100,000 training images are here",
        "2,000 of 10,000 validation images are here",
    )
    labels = np.concatenate([data.rows.labels(k) for k in range(1_000)])
    assert np.bincount(labels).tolist() == [10] * 200
