"""TinyImageNet: 200 classes at 64 x 64 pixels, dealt out to clients that are unlike in classes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from aaggff.data.converted import converted
from aaggff.data.federated import FederatedRows
from aaggff.data.images import read_image
from aaggff.data.partition import PARTITIONS, deal
from aaggff.data.prepare import IMAGENET_MEAN, IMAGENET_STD, Prepare
from aaggff.data.samples import SKIP_CORRUPT, Sample, by_client, write_samples
from aaggff.data.spec import DatasetSpec, Option, PaperSettings, RemoteFile, stand_in
from aaggff.data.store import StoreWriter, open_rows, open_store
from aaggff.errors import UserError
from aaggff.federation.data import Task
from aaggff.federation.seeds import numpy_generator

FOLDER = "tiny-imagenet-200"
CLASSES, EACH, VALIDATION, SIDE = 200, 500, 10_000, 64
IMAGES = ("train", "train+val")
AGAIN = "fetch it again (`aaggff data fetch tinyimagenet`)"


def load(
    root: Path | None = None,
    *,
    seed: int = 0,
    clients: int = 1_000,
    partition: str = "dirichlet",
    alpha: float = 0.01,
    labels_each: int = 2,
    min_size: int = 2,
    images: str = "train",
    skip_corrupt: bool = False,
) -> FederatedRows:
    """The images dealt out to `clients`; target: the class, 0..199 in the order of their numbers.

    partition "dirichlet": every client draws its own mix of classes from Dirichlet(alpha) and all
    have the same size, as in the paper (1,000 clients, alpha 0.01); the others are those of
    `aaggff.data.partition`. images "train": the 100,000 training images; "train+val": the 10,000
    of the official validation part too.
    """
    given = {
        "clients": clients, "partition": partition, "alpha": alpha, "labels_each": labels_each,
        "min_size": min_size, "images": images, "skip_corrupt": skip_corrupt,
    }  # fmt: skip
    SPEC.check_options(given)
    convert = partial(_convert, images=images, skip_corrupt=skip_corrupt)
    store = converted(SPEC, root, {"images": images}, _source, convert, skip_corrupt=skip_corrupt)
    # The store is one pool; who gets what depends on the seed and is worked out when it is opened.
    groups = deal(
        partition,
        open_rows(store).labels(0),
        clients,
        numpy_generator(seed, 0, 0, "partition"),
        alpha=alpha,
        labels_each=labels_each,
        min_size=min_size,
    )
    return open_store(store, seed=seed, groups=groups)


def _source(folder: Path) -> list[Path]:
    place = folder / FOLDER
    folders = [place / "train" / number / "images" for number in _numbers(place)]
    folders.append(place / "val" / "images")
    return [place / "wnids.txt", *(each for each in folders if each.is_dir())]


def _convert(
    folder: Path, store: Path, about: dict[str, Any], images: str, skip_corrupt: bool
) -> None:
    samples = _train(folder / FOLDER)
    if images == "train+val":
        samples += _validation(folder / FOLDER)
    if not samples:
        raise UserError(f"{folder / FOLDER / 'train'} holds no images: {AGAIN}")
    about["notes"] = missing(folder)
    with StoreWriter(
        store,
        "tinyimagenet",
        Task("multiclass", CLASSES, "top5"),
        dtype="uint8",
        shape=(3, SIDE, SIDE),
        target_dtype="uint8",
        prepare=Prepare("scale", divide=255.0, mean=IMAGENET_MEAN, std=IMAGENET_STD),
        about=about,
    ) as writer:
        read = partial(read_image, size=SIDE)
        write_samples(writer, by_client(samples), read, folder, skip_corrupt=skip_corrupt)


def _numbers(place: Path) -> list[str]:
    """The classes' WordNet numbers in ascending order: class 0, 1, ..."""
    numbers = sorted((place / "wnids.txt").read_text(encoding="utf-8").split())
    if len(numbers) != CLASSES or len(set(numbers)) != CLASSES:
        raise UserError(f"{place / 'wnids.txt'} names {len(numbers)} classes, not 200: {AGAIN}")
    return numbers


def _train(place: Path) -> list[Sample]:
    return [
        Sample("pool", path, label)
        for label, number in enumerate(_numbers(place))
        for path in (place / "train" / number / "images").glob("*.JPEG")
    ]


def _validation(place: Path) -> list[Sample]:
    """The validation images that are there; which class each shows stands in a table."""
    label = {number: index for index, number in enumerate(_numbers(place))}
    table = place / "val" / "val_annotations.txt"
    if not table.exists():
        raise UserError(f"{table} is missing: {AGAIN}, or leave data.images at 'train'")
    samples = []
    for number, line in enumerate(table.read_text(encoding="utf-8").splitlines(), 1):
        fields = line.split("\t")
        if len(fields) < 2 or fields[1] not in label:
            raise UserError(f"{table}: line {number} is not image, class, box: {AGAIN}")
        path = place / "val" / "images" / fields[0]
        if path.exists():
            samples.append(Sample("pool", path, label[fields[1]]))
    return samples


def missing(folder: Path) -> list[str]:
    """How many of the official images are not there."""
    train = len(_train(folder / FOLDER))
    validation = len(list((folder / FOLDER / "val" / "images").glob("*.JPEG")))
    return [
        f"{here:,} of {all_:,} {what} images are here"
        for here, all_, what in (
            (train, CLASSES * EACH, "training"),
            (validation, VALIDATION, "validation"),
        )
        if here < all_
    ]


SPEC = DatasetSpec(
    name="tinyimagenet",
    title="TinyImageNet, 200 classes dealt out to 1,000 clients",
    licence="ImageNet terms (non-commercial research)",
    credit="Stanford CS231n, from ImageNet (Deng et al.)",
    settings=PaperSettings(
        rounds=2_000,
        per_round=5,
        model="mobilevit",
        lr=0.01,
        decay=0.95,
        decay_every=100,
        cdf="exponential",
    ),
    load=load,
    options={
        "clients": Option(1_000, "how many clients"),
        "partition": Option("dirichlet", "how images are dealt out", PARTITIONS),
        "alpha": Option(0.01, "dirichlet and quantity: small is unlike, large is alike"),
        "labels_each": Option(2, "label: about how many classes a client has"),
        "min_size": Option(2, "dirichlet and quantity: no client has fewer samples"),
        "images": Option("train", "train: 100,000 images; train+val: 10,000 more", IMAGES),
        "skip_corrupt": SKIP_CORRUPT,
    },
    stand_in=stand_in("tinyimagenet"),
    files=(
        RemoteFile(
            "tiny-imagenet-200.zip",
            ("http://cs231n.stanford.edu/tiny-imagenet-200.zip",),
            size=248_100_043,
            checksum="md5:90528d7ca1a48142e341f4ef8d21d0de",
            unpacks=(f"{FOLDER}/wnids.txt", f"{FOLDER}/train"),
        ),
    ),
    missing=missing,
)
