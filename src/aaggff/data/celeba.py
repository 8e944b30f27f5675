"""CelebA: is the person smiling? One client a celebrity, as in LEAF."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from aaggff.data.converted import converted
from aaggff.data.federated import FederatedRows
from aaggff.data.images import read_image
from aaggff.data.leaf import leaf_files, leaf_users
from aaggff.data.prepare import Prepare
from aaggff.data.samples import SKIP_CORRUPT, Sample, by_client, write_samples
from aaggff.data.spec import DatasetSpec, Option, PaperSettings, RemoteFile, Statistics, stand_in
from aaggff.data.store import StoreWriter, open_store
from aaggff.errors import UserError
from aaggff.federation.data import Task

IMAGES = "img_align_celeba"
ATTRIBUTES, IDENTITIES = "list_attr_celeba.txt", "identity_CelebA.txt"
COUNT = 202_599


def load(
    root: Path | None = None,
    *,
    seed: int = 0,
    attribute: str = "Smiling",
    at_least: int = 5,
    size: int = 84,
    skip_corrupt: bool = False,
) -> FederatedRows:
    """One client a person with at least 5 images; target 1 where the attribute holds.

    Read from the official tables, or, where those are not there, from LEAF's json, with the split
    of its train and test folders if it has them. Images are resized to `size` x `size`.
    """
    options = {"attribute": attribute, "at_least": at_least, "size": size}
    SPEC.check_options({**options, "skip_corrupt": skip_corrupt})
    if not isinstance(size, int) or not 8 <= size <= 1024:
        raise UserError(f"data.size must be a whole number from 8 to 1024, not {size!r}")
    convert = partial(
        _convert, attribute=attribute, at_least=at_least, size=size, skip_corrupt=skip_corrupt
    )
    store = converted(SPEC, root, options, _source, convert, skip_corrupt=skip_corrupt)
    return open_store(store, seed=seed)


def _source(folder: Path) -> list[Path]:
    if _has_tables(folder):
        return [folder / ATTRIBUTES, folder / IDENTITIES, folder / IMAGES]
    return [*chain.from_iterable(leaf_files(folder).values()), folder / IMAGES]


def _has_tables(folder: Path) -> bool:
    return (folder / ATTRIBUTES).exists() and (folder / IDENTITIES).exists()


def _convert(
    folder: Path,
    store: Path,
    about: dict[str, Any],
    attribute: str,
    at_least: int,
    size: int,
    skip_corrupt: bool,
) -> None:
    if _has_tables(folder):
        samples = _from_tables(folder, attribute)
    elif attribute == "Smiling":
        samples = _from_leaf(folder)
    else:
        raise UserError(f"data.attribute={attribute} needs {folder / ATTRIBUTES}")
    present = {path.name for path in (folder / IMAGES).iterdir()}
    samples = [sample for sample in samples if sample.path.name in present]
    images = Counter(sample.client for sample in samples)
    samples = [sample for sample in samples if images[sample.client] >= at_least]
    if not samples:
        raise UserError(f"{folder / IMAGES} has no person with at least {at_least} images")
    about["notes"] = missing(folder)
    with StoreWriter(
        store,
        "celeba",
        Task("binary", 1, "top1"),
        dtype="uint8",
        shape=(3, size, size),
        target_dtype="uint8",
        prepare=Prepare("scale", divide=255.0),
        about=about,
    ) as writer:
        # A person's name is a number: in numeric order.
        ordered = sorted(by_client(samples), key=lambda each: each.client.zfill(9))
        read = partial(read_image, size=size)
        write_samples(writer, ordered, read, folder, skip_corrupt=skip_corrupt)


def _from_tables(folder: Path, attribute: str) -> list[Sample]:
    persons = {}
    for number, line in enumerate(_lines(folder / IDENTITIES), 1):
        fields = line.split()
        if len(fields) != 2 or not fields[1].isdigit():
            raise _damaged(folder / IDENTITIES, number, "image and person")
        persons[fields[0]] = fields[1]
    path = folder / ATTRIBUTES
    lines = _lines(path)
    names = lines[1].split() if len(lines) > 1 else []
    if attribute not in names:
        raise UserError(
            f"{path}: the second line names no attribute {attribute!r}"
            + (f" (it names {', '.join(names[:6])}, ...)" if names else "")
        )
    column = names.index(attribute) + 1
    samples = []
    for number, line in enumerate(lines[2:], 3):
        fields = line.split()
        if len(fields) != len(names) + 1 or fields[column] not in ("1", "-1"):
            raise _damaged(path, number, f"an image and {len(names)} times 1 or -1")
        if fields[0] in persons:
            person, label = persons[fields[0]], int(fields[column] == "1")
            samples.append(Sample(person, folder / IMAGES / fields[0], label))
    return samples


def _from_leaf(folder: Path) -> list[Sample]:
    samples = []
    for part, files in leaf_files(folder).items():
        for file in files:
            for person, images, labels in leaf_users(file):
                for image, label in zip(images, labels):
                    if not isinstance(image, str) or label not in (0, 1):
                        raise UserError(f"{file}: user {person!r}: expected file names and 0 or 1")
                    path = folder / IMAGES / Path(image).name
                    samples.append(Sample(person, path, int(label), part == "test"))
    return samples


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines()


def _damaged(path: Path, line: int, expected: str) -> UserError:
    return UserError(f"{path} is cut or damaged: line {line} is not {expected}; get it again")


def missing(folder: Path) -> list[str]:
    """How many of the official images are not there."""
    images = folder / IMAGES
    here = sum(path.suffix == ".jpg" for path in images.iterdir()) if images.is_dir() else 0
    return [f"{here:,} of {COUNT:,} images are here"] if here < COUNT else []


_LEAF = ("train", "all_data", "data/train", "data/all_data")

SPEC = DatasetSpec(
    name="celeba",
    title="CelebA: who smiles, 9,343 celebrities",
    licence="non-commercial research only, by agreement with its makers",
    credit="Ziwei Liu, Ping Luo, Xiaogang Wang, Xiaoou Tang (CUHK); clients after LEAF",
    settings=PaperSettings(
        rounds=3_000,
        per_round=5,
        model="convnet",
        lr=0.1,
        weight_decay=1e-4,
        decay=0.96,
        decay_every=300,
        cdf="gumbel",
    ),
    load=load,
    options={
        "attribute": Option("Smiling", "which of the 40 attributes is the target"),
        "at_least": Option(5, "persons with fewer images are left out"),
        "size": Option(84, "side of the images in pixels"),
        "skip_corrupt": SKIP_CORRUPT,
    },
    stand_in=stand_in("celeba"),
    files=(
        RemoteFile(
            f"{IMAGES}.zip", checksum="md5:00d2c5bc6d35e252742224ab0c1e8fcb", unpacks=(IMAGES,)
        ),
        RemoteFile(ATTRIBUTES, checksum="md5:75e246fa4810816ffd6ee81facbd244c", instead=_LEAF),
        RemoteFile(IDENTITIES, checksum="md5:32bd1bd63d3c78cd57e08160ec5ed1e2", instead=_LEAF),
    ),
    manual=(
        f"CelebA is given out by hand: from http://mmlab.ie.cuhk.edu.hk/projects/CelebA.html take "
        f"{IMAGES}.zip (unpacked to {IMAGES}/), {ATTRIBUTES} and {IDENTITIES} and put them into "
        "DIR/celeba; LEAF's train/ and test/ json serve instead of the two tables"
    ),
    statistics=Statistics(9_343, 200_288, 21.44, 7.63),
    missing=missing,
)
