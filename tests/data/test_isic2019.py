"""ISIC 2019: who took which photograph, what it shows, and the real tables' counts."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from aaggff.data import isic2019
from aaggff.data.images import read_image
from aaggff.data.isic2019 import CENTRES, CLASSES, IMAGES
from aaggff.data.prepare import IMAGENET_MEAN, IMAGENET_STD
from aaggff.errors import UserError
from tests.data import official


def test_a_client_is_a_centre_in_flambys_order(tmp_path: Path) -> None:
    folder = official.isic2019(tmp_path)
    data = isic2019.load(tmp_path, size=16)
    assert [data.client_name(k) for k in range(len(data))] == list(CENTRES)
    # Each centre's fifth image has a gap in its metadata.
    assert (data.train_sizes + data.test_sizes).tolist() == [4] * 6
    whole = isic2019.load(tmp_path, rows="all", size=16)
    assert (whole.train_sizes + whole.test_sizes).tolist() == [5] * 6
    assert (data.task.kind, data.task.outputs, data.task.metric) == ("multiclass", 8, "top5")
    with (folder / "ISIC_2019_Training_GroundTruth.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    for client in range(6):
        x, y = whole.rows.take(client)
        mine = rows[5 * client : 5 * client + 5]
        shown = [int(np.argmax([float(row[name]) for name in CLASSES])) for row in mine]
        assert y.tolist() == shown
        images = [read_image(folder / IMAGES / f"{row['image']}.jpg", 16) for row in mine]
        np.testing.assert_array_equal(x, np.stack(images))


def test_images_are_seen_as_imagenets_models_expect(tmp_path: Path) -> None:
    official.isic2019(tmp_path)
    x, _ = isic2019.load(tmp_path).train(0)
    assert (x.dtype, tuple(x.shape[1:])) == (torch.uint8, (3, 224, 224))
    seen = isic2019.load(tmp_path).prepare(x)
    mean, std = (torch.tensor(v).reshape(1, 3, 1, 1) for v in (IMAGENET_MEAN, IMAGENET_STD))
    torch.testing.assert_close(seen, (x.float() / 255 - mean) / std)


def test_flambys_split_is_kept_whatever_the_seed(tmp_path: Path) -> None:
    official.isic2019(tmp_path)
    for seed in (0, 1):
        data = isic2019.load(tmp_path, split="flamby", rows="all", size=16, seed=seed)
        assert data.test_sizes.tolist() == [1] * 6
        whole = isic2019.load(tmp_path, rows="all", size=16)
        for client in range(6):
            first = whole.rows.take(client)[0][:1]  # of each centre the first image is the test's
            np.testing.assert_array_equal(data.test(client)[0].numpy(), first)


def test_the_split_table_is_needed_only_for_flambys_split(tmp_path: Path) -> None:
    (official.isic2019(tmp_path) / "train_test_split").unlink()
    assert len(isic2019.load(tmp_path, size=16)) == 6
    with pytest.raises(UserError, match=r"train_test_split is missing: `aaggff data fetch isic"):
        isic2019.load(tmp_path, size=16, split="flamby")


def test_a_partial_copy_is_used_and_says_so(tmp_path: Path) -> None:
    folder = official.isic2019(tmp_path)
    for path in sorted((folder / IMAGES).iterdir())[:5]:
        path.unlink()
    data = isic2019.load(tmp_path, size=16)
    assert data.client_name(0) == "vidir_molemax"
    assert len(data) == 5
    assert data.notes[-1] == "27 of 25,331 images are here"


@pytest.mark.parametrize("table", ["GroundTruth", "Metadata"])
def test_a_missing_table_is_named(tmp_path: Path, table: str) -> None:
    (official.isic2019(tmp_path) / f"ISIC_2019_Training_{table}.csv").unlink()
    with pytest.raises(UserError, match=rf"lacks ISIC_2019_Training_{table}\.csv.*data fetch"):
        isic2019.load(tmp_path)


def test_no_images_at_all_is_an_error(tmp_path: Path) -> None:
    folder = official.isic2019(tmp_path)
    for path in (folder / IMAGES).iterdir():
        path.unlink()
    with pytest.raises(UserError, match=r"holds none of the 24 images"):
        isic2019.load(tmp_path)


DAMAGE = [
    ("ISIC_2019_Training_Metadata.csv", lambda t: t.replace("lesion_id", "lesion"), "lesion_id"),
    ("ISIC_2019_Training_Metadata.csv", lambda t: t[: len(t) // 2], "is cut or damaged in line"),
    ("ISIC_2019_Training_Metadata.csv", lambda t: t.replace("BCN_", "XYZ_", 1), "ISIC_0000000"),
    ("HAM10000_metadata", lambda t: t.replace("vidir_modern", "elsewhere", 1), "comes from"),
    ("ISIC_2019_Training_GroundTruth.csv", lambda t: t.replace("VASC", "V"), "'VASC'"),
    (
        "ISIC_2019_Training_GroundTruth.csv",
        lambda t: t.replace("\nISIC_0000003", "\nISIC_9999999"),
        "does not say what ISIC_0000003 is",
    ),
]


@pytest.mark.parametrize(("file", "change", "says"), DAMAGE)
def test_a_damaged_table_is_named(tmp_path: Path, file, change, says) -> None:
    path = official.isic2019(tmp_path) / file
    changed = change(path.read_text())
    assert changed != path.read_text()
    path.write_text(changed)
    with pytest.raises(UserError) as error:
        isic2019.load(tmp_path, size=16)
    assert says in str(error.value)
    assert file in str(error.value)


def test_one_unreadable_image_is_named_or_skipped_and_counted(tmp_path: Path) -> None:
    folder = official.isic2019(tmp_path)
    bad = sorted((folder / IMAGES).iterdir())[7]
    bad.write_bytes(bad.read_bytes()[:300])
    with pytest.raises(UserError, match=rf"{bad.name} cannot be read as an image .*skip-corrupt"):
        isic2019.load(tmp_path, size=16)
    data = isic2019.load(tmp_path, size=16, skip_corrupt=True)
    assert (data.train_sizes + data.test_sizes).tolist() == [4, 3, 4, 4, 4, 4]
    assert data.notes[-1] == f"1 of 24 files cannot be read and are left out: {IMAGES}/{bad.name}"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"rows": "every"}, "known: all, paper"),
        ({"split": "flambi"}, "did you mean 'flamby'"),
        ({"size": 2_000}, "from 8 to 1024"),
    ],
)
def test_a_wrong_option_is_one_clear_line(tmp_path: Path, options, says) -> None:
    with pytest.raises(UserError) as error:
        isic2019.load(tmp_path, **options)
    assert says in str(error.value)


def test_the_real_tables_have_the_papers_counts(real: Callable[[str], Path]) -> None:
    folder = real("isic2019") / "isic2019"
    paper = isic2019.SPEC.statistics
    assert paper is not None
    used = isic2019.centre_of(folder, "paper")
    sizes = np.array([list(used.values()).count(centre) for centre in CENTRES])
    assert (len(sizes), sizes.sum()) == (paper.clients, paper.samples) == (6, 21_310)
    assert (round(sizes.mean(), 2), paper.mean) == (3_551.67, 3_551.67)
    assert round(sizes.std(ddof=0), 1) == 3_976.2
    every = isic2019.centre_of(folder, "all")
    assert [list(every.values()).count(centre) for centre in CENTRES] == [
        12_413, 3_954, 3_363, 2_259, 819, 439,
    ]  # fmt: skip
    labels = isic2019._labels(folder)
    assert {isic2019._label(labels, image, folder) for image in every} == set(range(8))


def test_the_real_images(real: Callable[[str], Path]) -> None:
    data = isic2019.load(real("isic2019"), rows="all", size=64)
    assert 0 < (data.train_sizes + data.test_sizes).sum() <= 400
    assert "400 of 25,331 images are here" in data.notes
    assert data.train(0)[0].float().std() > 10
