"""What a store on disk costs: to open, to read a round of, and in memory while it is made and used.

.venv/bin/python bench/store.py            full sizes, about 9 GB of disk in all, 5 GB at a time
.venv/bin/python bench/store.py --quick    a tenth

CelebA's shape (9,343 persons, 200,288 images of 84 x 84): opening is timed beside reading the file
once, which is what loading into memory begins with; then one round of five clients is trained and
the part of the file that the process has mapped is read from /proc. Sound (2,005 speakers, 84,700
clips, 2.7 GB) and ragged text (1.2 GB) are written and read to the end by a process that may not
have more than 1 GB of memory of its own, and M5 is trained for three rounds on the sound; the same
process then tries to hold the file as an array.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from aaggff.data import stand_in
from aaggff.data.prepare import Prepare
from aaggff.data.store import StoreWriter, open_store
from aaggff.federation.config import RunConfig
from aaggff.federation.data import Task
from aaggff.federation.run import build

GIGABYTE = 1 << 30
OPENS_IN, READS_AT_MOST = 0.1, 1.5
"""Seconds; mapped bytes as a multiple of what the sampled clients' training rows have."""
BLOCK = 16 << 20


def write_images(path: Path, scale: float) -> None:
    counts = stand_in.celeba(clients=round(9_343 * scale)).rows.counts
    pool = np.random.default_rng(0).integers(0, 256, (64, 3, 84, 84), dtype=np.uint8)
    with StoreWriter(
        path, "celeba", Task("binary", 1, "top1"), dtype="uint8", shape=(3, 84, 84),
        target_dtype="uint8", prepare=Prepare("scale", divide=255.0),
    ) as writer:  # fmt: skip
        for client, count in enumerate(counts):
            writer.add(str(client), pool[:count], np.arange(count) % 2)


def mapped(name: str) -> int:
    """Bytes of the file `name` that are in this process's memory map and have been touched."""
    inside, total = False, 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ", 1)[0]:
            inside = line.endswith(name)
        elif inside and line.startswith("Rss:"):
            total += int(line.split()[1]) << 10
    return total


def read_through(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        while file.read(BLOCK):
            pass


def forget(path: Path) -> None:
    """Let the system drop what it keeps of the file, so that reading means reading."""
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(handle)


def seconds(work: object, *arguments: object) -> float:
    begin = time.perf_counter()
    work(*arguments)  # type: ignore[operator]
    return time.perf_counter() - begin


def images(folder: Path, scale: float) -> Iterator[bool]:
    path = folder / "images"
    write_images(path, scale)
    size = (path / "x.bin").stat().st_size
    opening, reading = [], []
    for _ in range(3):
        forget(path / "x.bin")
        opening.append(seconds(open_store, path))
        reading.append(seconds(read_through, path / "x.bin"))
    forget(path / "x.bin")
    data = open_store(path)
    once = min(reading)
    print(f"images: {len(data):,} clients, {data.rows.counts.sum():,} samples, {size / 1e9:.2f} GB")
    print(f"  opening the store, worst of 3      {max(opening):8.4f} s   (bound {OPENS_IN} s)")
    print(f"  reading the file once, best of 3   {once:8.4f} s   {once / max(opening):,.0f} x")
    config = RunConfig.for_dataset(
        "celeba", stand_in=True, method="aaggff-d", executor="sequential", rounds=1, seed=2
    )
    federation = build(config, data=data)
    before = mapped("images/x.bin")
    record = federation.step()
    touched = mapped("images/x.bin") - before
    federation.close()
    # Training rows lie among test rows, so pages hold some of both: count the client's all.
    own = int(data.rows.counts[record["clients"]].sum()) * 3 * 84 * 84
    print(f"  one round of {len(record['clients'])} clients maps       {touched / 1e6:8.2f} MB  "
          f"= {touched / own:.2f} x these clients' own, {100 * touched / size:.3f} % of the file "
          f"(bound {READS_AT_MOST} x)")  # fmt: skip
    yield max(opening) < OPENS_IN
    yield touched < READS_AT_MOST * own or scale < 1


def write_sound(path: Path, scale: float) -> None:
    counts = stand_in.speechcommands(clients=round(2_005 * scale)).rows.counts
    pool = np.random.default_rng(0).integers(-9_000, 9_000, (400, 1, 16_000)).astype(np.int16)
    with StoreWriter(
        path, "speechcommands", Task("multiclass", 35, "top5"), dtype="int16", shape=(1, 16_000),
        target_dtype="uint8", prepare=Prepare("scale", divide=32_768.0),
    ) as writer:  # fmt: skip
        for client, count in enumerate(counts):
            writer.add(str(client), pool[:count], np.arange(count) % 35)


def write_text(path: Path, scale: float) -> None:
    rng = np.random.default_rng(0)
    pool = rng.integers(1, 30_000, 4_096).astype(np.int32)
    with StoreWriter(
        path, "text", Task("binary", 1, "auroc"), dtype="int32", shape=(512,),
        target_dtype="uint8", ragged=True, prepare=Prepare("text"),
    ) as writer:  # fmt: skip
        for client in range(round(2_000 * scale)):
            ends = rng.integers(100, 513, 500)
            writer.add(str(client), [pool[:end] for end in ends], ends % 2)


WRITERS = {"sound": write_sound, "text": write_text}


class Peak(threading.Thread):
    """The most memory of its own (not mapped from files) that this process was seen to have."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.bytes, self.done = 0, threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.02):
            status = Path("/proc/self/status").read_text()
            self.bytes = max(self.bytes, int(status.split("RssAnon:")[1].split()[0]) << 10)


def limited(name: str, path: Path, scale: float) -> int:
    """In a process of its own: everything with at most a gigabyte of private memory."""
    resource.setrlimit(resource.RLIMIT_DATA, (GIGABYTE, GIGABYTE))
    peak = Peak()
    peak.start()
    writing = seconds(WRITERS[name], path, scale)
    data = open_store(path, seed=2)
    size, rows, begin = (path / "x.bin").stat().st_size, 0, time.perf_counter()
    for client in range(len(data)):
        for x, y in (data.train(client), data.test(client)):
            data.prepare(x[:20])
            rows += len(y)
    reading = time.perf_counter() - begin
    if name == "sound":
        config = RunConfig.for_dataset(
            "speechcommands", stand_in=True, method="aaggff-d", executor="sequential", rounds=3
        )
        federation = build(config, data=data)
        for _ in range(config.rounds):
            federation.step()
        federation.evaluate(np.arange(20))
        federation.close()
    peak.done.set()
    peak.join()
    try:
        fits = f"fits ({len(np.fromfile(path / 'x.bin', dtype=np.uint8)) / 1e9:.2f} GB)"
    except MemoryError:
        fits = "MemoryError"
    print(f"{name}: {len(data):,} clients, {rows:,} samples, {size / 1e9:.2f} GB, in a process "
          f"that may have {GIGABYTE / 1e9:.2f} GB of its own")  # fmt: skip
    print(f"  written in {writing:.1f} s, every part of every client read in {reading:.1f} s")
    if name == "sound":
        print("  M5 trained for 3 rounds, 20 clients evaluated")
    print(f"  had of its own at most             {peak.bytes / 1e6:8.0f} MB")
    print(f"  the same file as one array in memory: {fits}")
    return 0 if rows == int(data.rows.counts.sum()) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes")
    parser.add_argument("--limited", nargs=2, metavar=("NAME", "DIR"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    scale = 0.1 if arguments.quick else 1.0
    if arguments.limited:
        return limited(arguments.limited[0], Path(arguments.limited[1]), scale)
    good = True
    with tempfile.TemporaryDirectory() as place:
        good &= all(list(images(Path(place), scale)))
    for name in WRITERS:
        with tempfile.TemporaryDirectory() as place:
            words = [sys.executable, __file__, "--limited", name, f"{place}/store"]
            done = subprocess.run([*words, *sys.argv[1:]], check=False)
            good &= done.returncode == 0
    print("every bound holds" if good else "NOT every bound holds")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
