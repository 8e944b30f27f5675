"""Speech Commands v0.02: which of 35 words is said in a second of sound. One client a speaker."""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from aaggff.data.converted import converted
from aaggff.data.federated import FederatedRows
from aaggff.data.prepare import Prepare
from aaggff.data.samples import SKIP_CORRUPT, Sample, by_client, write_samples
from aaggff.data.spec import DatasetSpec, Option, PaperSettings, RemoteFile, Statistics, stand_in
from aaggff.data.store import StoreWriter, open_store
from aaggff.data.wav import read_wav
from aaggff.errors import UserError
from aaggff.federation.data import Task

FOLDER = "speech_commands_v0.02"
LISTS = ("testing_list.txt", "validation_list.txt")
WORDS = (
    "backward", "bed", "bird", "cat", "dog", "down", "eight", "five", "follow", "forward", "four",
    "go", "happy", "house", "learn", "left", "marvin", "nine", "no", "off", "on", "one", "right",
    "seven", "sheila", "six", "stop", "three", "tree", "two", "up", "visual", "wow", "yes", "zero",
)  # fmt: skip
RATE = 16_000
"""Samples a second, and so the length of a clip."""
CLIPS = 105_829
SPEAKERS = ("training", "all")
NAME = re.compile(r"([0-9a-f]+)_nohash_\d+\.wav")


def load(
    root: Path | None = None,
    *,
    seed: int = 0,
    speakers: str = "training",
    at_least: int = 3,
    skip_corrupt: bool = False,
) -> FederatedRows:
    """One client a speaker with at least 3 clips; target: the word, 0..34 in alphabetical order.

    speakers "training" leaves out whoever is in the official testing and validation lists (the
    lists divide speakers, not clips): with them gone, and those with fewer than 3 clips, the
    paper's 2,005 clients and 84,700 clips are left. "all" keeps everybody.
    """
    options = {"speakers": speakers, "at_least": at_least}
    SPEC.check_options({**options, "skip_corrupt": skip_corrupt})
    convert = partial(_convert, speakers=speakers, at_least=at_least, skip_corrupt=skip_corrupt)
    store = converted(SPEC, root, options, _source, convert, skip_corrupt=skip_corrupt)
    return open_store(store, seed=seed)


def _source(folder: Path) -> list[Path]:
    """The lists, and the folders of words, whose dates change when a clip comes or goes."""
    place = folder / FOLDER
    return [place / name for name in LISTS] + [
        place / word for word in WORDS if (place / word).is_dir()
    ]


def _convert(
    folder: Path,
    store: Path,
    about: dict[str, Any],
    speakers: str,
    at_least: int,
    skip_corrupt: bool,
) -> None:
    samples = _clips(folder / FOLDER)
    if speakers == "training":
        others = _listed(folder / FOLDER)
        samples = [sample for sample in samples if sample.client not in others]
    clips = Counter(sample.client for sample in samples)
    samples = [sample for sample in samples if clips[sample.client] >= at_least]
    if not samples:
        raise UserError(
            f"{folder / FOLDER} holds no speaker with {at_least} clips: expected "
            "<word>/<speaker>_nohash_<n>.wav"
        )
    about["notes"] = missing(folder)
    with StoreWriter(
        store,
        "speechcommands",
        Task("multiclass", len(WORDS), "top5"),
        dtype="int16",
        shape=(1, RATE),
        target_dtype="uint8",
        prepare=Prepare("scale", divide=32_768.0),
        about=about,
    ) as writer:
        read = partial(read_wav, rate=RATE, longest=RATE)
        write_samples(writer, by_client(samples), read, folder, skip_corrupt=skip_corrupt)


def _clips(place: Path) -> list[Sample]:
    """Every clip of the 35 words; background noise is no clip."""
    found = []
    for label, word in enumerate(WORDS):
        if not (place / word).is_dir():
            continue
        for path in (place / word).iterdir():
            match = NAME.fullmatch(path.name)
            if match:
                found.append(Sample(match[1], path, label))
    return found


def _listed(place: Path) -> set[str]:
    """The speakers of the official testing and validation parts."""
    speakers = set()
    for name in LISTS:
        for number, line in enumerate((place / name).read_text(encoding="utf-8").split(), 1):
            match = NAME.fullmatch(line.rpartition("/")[2])
            if not match:
                raise UserError(
                    f"{place / name}: line {number} is not <word>/<speaker>_nohash_<n>.wav: fetch "
                    "it again (`aaggff data fetch speechcommands`)"
                )
            speakers.add(match[1])
    return speakers


def missing(folder: Path) -> list[str]:
    """How many words and clips of the official ones are not there."""
    clips = _clips(folder / FOLDER)
    words = len({sample.label for sample in clips})
    lines = [] if words == len(WORDS) else [f"{words} of {len(WORDS)} words are here"]
    return lines + ([f"{len(clips):,} of {CLIPS:,} clips are here"] if len(clips) < CLIPS else [])


SPEC = DatasetSpec(
    name="speechcommands",
    title="Speech Commands v0.02, 2,005 speakers",
    licence="CC BY 4.0",
    credit="Pete Warden, Google",
    settings=PaperSettings(
        rounds=500,
        per_round=5,
        model="m5",
        lr=0.1,
        decay=0.999,
        decay_every=10,
        cdf="weibull",
    ),
    load=load,
    options={
        "speakers": Option(
            "training",
            "training: without the speakers of the official testing and validation lists, as the "
            "paper's 2,005; all: everybody",
            SPEAKERS,
        ),
        "at_least": Option(3, "speakers with fewer clips are left out"),
        "skip_corrupt": SKIP_CORRUPT,
    },
    stand_in=stand_in("speechcommands"),
    files=(
        RemoteFile(
            "speech_commands_v0.02.tar.gz",
            (
                "https://storage.googleapis.com/download.tensorflow.org/data/"
                "speech_commands_v0.02.tar.gz",
                "http://download.tensorflow.org/data/speech_commands_v0.02.tar.gz",
            ),
            size=2_428_923_189,
            checksum="sha256:af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58",
            unpacks=tuple(f"{FOLDER}/{name}" for name in LISTS),
            into=FOLDER,
        ),
    ),
    statistics=Statistics(2_005, 84_700, 42.24, 36.69),
    missing=missing,
)
