"""ISIC 2019: which of 8 kinds of skin lesion a photograph shows. One client an apparatus."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from aaggff.data.converted import converted
from aaggff.data.federated import FederatedRows
from aaggff.data.images import read_image
from aaggff.data.prepare import IMAGENET_MEAN, IMAGENET_STD, Prepare
from aaggff.data.samples import SKIP_CORRUPT, Sample, by_client, write_samples
from aaggff.data.spec import DatasetSpec, Option, PaperSettings, RemoteFile, Statistics, stand_in
from aaggff.data.store import StoreWriter, open_store
from aaggff.errors import UserError
from aaggff.federation.data import Task

IMAGES = "ISIC_2019_Training_Input"
TRUTH = "ISIC_2019_Training_GroundTruth.csv"
METADATA = "ISIC_2019_Training_Metadata.csv"
HAM10000 = "HAM10000_metadata"
SPLIT = "train_test_split"
CLASSES = ("MEL", "NV", "BCC", "AK", "BKL", "DF", "VASC", "SCC")
# In FLamby's order; four hospitals, of which Vienna's three apparatuses are clients of their own.
CENTRES = ("BCN", "vidir_molemax", "vidir_modern", "rosendahl", "MSK", "vienna_dias")
ROWS = ("paper", "all")
SPLITS = ("seed", "flamby")
COUNT = 25_331
LEFT_OUT = "ISIC_0029564"
"""The one image with whole metadata that the paper's 21,310 do not have."""

Row = dict[str, str]


def load(
    root: Path | None = None,
    *,
    seed: int = 0,
    rows: str = "paper",
    split: str = "seed",
    size: int = 224,
    skip_corrupt: bool = False,
) -> FederatedRows:
    """Six clients; target: the kind of lesion, 0..7 in the order of the official table.

    rows "paper" leaves out every image with a gap in its metadata (21,310 stay), "all" only those
    without a lesion number, whose origin is not known (23,247 stay). split "seed" holds out 20 % of
    each client by the seed, "flamby" takes FLamby's published test part. Images are resized to
    `size` x `size`.
    """
    options = {"rows": rows, "split": split, "size": size}
    SPEC.check_options({**options, "skip_corrupt": skip_corrupt})
    if not isinstance(size, int) or not 8 <= size <= 1024:
        raise UserError(f"data.size must be a whole number from 8 to 1024, not {size!r}")
    convert = partial(_convert, rows=rows, split=split, size=size, skip_corrupt=skip_corrupt)
    source = partial(_source, split=split)
    store = converted(SPEC, root, options, source, convert, skip_corrupt=skip_corrupt)
    return open_store(store, seed=seed)


def _source(folder: Path, split: str) -> list[Path]:
    names = [TRUTH, METADATA, HAM10000, IMAGES] + ([SPLIT] if split == "flamby" else [])
    absent = [name for name in names if not (folder / name).exists()]
    if absent:
        raise UserError(f"{folder / absent[0]} is missing: `aaggff data fetch isic2019` gets it")
    return [folder / name for name in names]


def _convert(
    folder: Path,
    store: Path,
    about: dict[str, Any],
    rows: str,
    split: str,
    size: int,
    skip_corrupt: bool,
) -> None:
    centres = centre_of(folder, rows)
    labels = _labels(folder)
    test = _flamby_test(folder) if split == "flamby" else set()
    present = _present(folder)
    samples = [
        Sample(
            centre, folder / IMAGES / f"{image}.jpg", _label(labels, image, folder), image in test
        )
        for image, centre in centres.items()
        if image in present
    ]
    if not samples:
        raise UserError(
            f"{folder / IMAGES} holds none of the {len(centres):,} images (ISIC_0000000.jpg, ...): "
            "`aaggff data fetch isic2019` gets them"
        )
    about["notes"] = missing(folder)
    with StoreWriter(
        store,
        "isic2019",
        Task("multiclass", len(CLASSES), "top5"),
        dtype="uint8",
        shape=(3, size, size),
        target_dtype="uint8",
        prepare=Prepare("scale", divide=255.0, mean=IMAGENET_MEAN, std=IMAGENET_STD),
        about=about,
    ) as writer:
        ordered = sorted(by_client(samples), key=lambda each: CENTRES.index(each.client))
        read = partial(read_image, size=size)
        write_samples(writer, ordered, read, folder, skip_corrupt=skip_corrupt)


def centre_of(folder: Path, rows: str = "paper") -> dict[str, str]:
    """Image -> the client it belongs to, for the images that are used."""
    metadata = _table(folder / METADATA, ("image", "lesion_id"))
    vienna = _table(folder / HAM10000, ("image_id", "dataset"))
    apparatus = {row["image_id"]: row["dataset"] for row in vienna}
    centres = {}
    for row in metadata:
        image, lesion = row["image"], row["lesion_id"]
        whole = all(row.values()) and image != LEFT_OUT
        if not lesion or (rows == "paper" and not whole):
            continue
        # The first four characters are BCN_, HAM_ or MSK4.
        centre = apparatus.get(image, "") if lesion.startswith("HAM_") else lesion[:3]
        if centre not in CENTRES:
            raise UserError(
                f"{folder / METADATA}: nobody knows where {image} (lesion {lesion}) comes from: "
                f"expected BCN_, MSK4 or HAM_, the last with a row in {HAM10000}"
            )
        centres[image] = centre
    return centres


def _labels(folder: Path) -> dict[str, Row]:
    return {row["image"]: row for row in _table(folder / TRUTH, ("image", *CLASSES))}


def _label(labels: dict[str, Row], image: str, folder: Path) -> int:
    row = labels.get(image, {})
    marked = [index for index, name in enumerate(CLASSES) if row.get(name) in ("1", "1.0")]
    if len(marked) != 1:
        raise UserError(f"{folder / TRUTH} does not say what {image} is: fetch it again")
    return marked[0]


def _flamby_test(folder: Path) -> set[str]:
    rows = _table(folder / SPLIT, ("image", "fold"))
    return {row["image"] for row in rows if row["fold"] == "test"}


def _table(path: Path, columns: Sequence[str]) -> list[Row]:
    again = "fetch it again (`aaggff data fetch isic2019`)"
    with path.open(encoding="utf-8", errors="replace", newline="") as stream:
        reader = csv.DictReader(stream)
        absent = [column for column in columns if column not in (reader.fieldnames or ())]
        if absent:
            raise UserError(f"{path} has no column {absent[0]!r}: {again}")
        rows = list(reader)
    # A row that is too short has None in it, one that is too long has the key None.
    for number, row in enumerate(rows, 2):
        if None in row or None in row.values():
            raise UserError(f"{path} is cut or damaged in line {number}: {again}")
    return rows


def _present(folder: Path) -> set[str]:
    return {path.stem for path in (folder / IMAGES).glob("*.jpg")}


def missing(folder: Path) -> list[str]:
    """How many of the official rows and images are not there."""
    lines = []
    for name in (TRUTH, METADATA):
        path = folder / name
        rows = path.read_bytes().count(b"\n") - 1 if path.exists() else COUNT
        if rows < COUNT:
            lines.append(f"{name} has {rows:,} of {COUNT:,} rows")
    images = len(_present(folder))
    return lines + ([f"{images:,} of {COUNT:,} images are here"] if images < COUNT else [])


_BUCKET = "https://isic-challenge-data.s3.amazonaws.com/2019/"
_OLD_BUCKET = "https://isic-archive.s3.amazonaws.com/challenges/2019/"
_FLAMBY = "https://raw.githubusercontent.com/owkin/FLamby/main/flamby/datasets/fed_isic2019/"

SPEC = DatasetSpec(
    name="isic2019",
    title="ISIC 2019: skin lesions, 6 centres",
    licence="CC BY-NC 4.0",
    credit="HAM10000 (Tschandl et al.), BCN_20000 (Combalia et al.), MSK (Codella et al.); FLamby",
    settings=PaperSettings(
        rounds=50,
        per_round=None,
        model="efficientnet",
        lr=1e-4,
        weight_decay=1e-2,
        decay=0.95,
        decay_every=5,
        cdf="weibull",
    ),
    load=load,
    options={
        "rows": Option(
            "paper", "paper: the 21,310 without a gap; all: the 23,247 of known origin", ROWS
        ),
        "split": Option(
            "seed", "seed: 80/20 by the seed; flamby: FLamby's published split", SPLITS
        ),
        "size": Option(224, "side of the images in pixels"),
        "skip_corrupt": SKIP_CORRUPT,
    },
    stand_in=stand_in("isic2019"),
    files=(
        RemoteFile(
            f"{IMAGES}.zip",
            (_BUCKET + f"{IMAGES}.zip", _OLD_BUCKET + f"{IMAGES}.zip"),
            unpacks=(IMAGES,),
        ),
        RemoteFile(TRUTH, (_BUCKET + TRUTH, _OLD_BUCKET + TRUTH)),
        RemoteFile(METADATA, (_BUCKET + METADATA, _OLD_BUCKET + METADATA)),
        RemoteFile(HAM10000, (_FLAMBY + HAM10000,)),
        RemoteFile(SPLIT, (_FLAMBY + f"dataset_creation_scripts/{SPLIT}",), optional=True),
    ),
    statistics=Statistics(6, 21_310, 3_551.67, 3_976.16),
    missing=missing,
)
