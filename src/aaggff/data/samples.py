"""One file a sample (images, sound) into a store: read in parallel, written in order."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from aaggff.data.rows import Array
from aaggff.data.spec import Option
from aaggff.data.store_writer import StoreWriter
from aaggff.errors import UserError

CHUNK = 256
"""Files read at a time: what is in memory is a chunk, whatever the size of the data set."""

SKIP_CORRUPT = Option(
    False, "leave out files that cannot be read, and count them, instead of stopping", (False, True)
)


class UnreadableError(Exception):
    """Why a file is no sample."""


@dataclass(frozen=True)
class Sample:
    """One file, whose it is and what it shows; `test` marks a published test part."""

    client: str
    path: Path
    label: int
    test: bool = False


def write_samples(
    writer: StoreWriter,
    samples: Sequence[Sample],
    read: Callable[[Path], Array],
    folder: Path,
    *,
    skip_corrupt: bool,
) -> None:
    """Write samples that stand client by client, each client's training rows first.

    An unreadable file is an error that names it; with `skip_corrupt` it is left out, counted, and
    named in the store's manifest.
    """
    skipped: list[str] = []
    with ThreadPoolExecutor(4) as pool:
        for chunk in _with_progress(samples, writer.path.parent.name):
            arrays = pool.map(lambda sample: _attempt(read, sample.path), chunk)
            good: list[tuple[Sample, Array]] = []
            for sample, array in zip(chunk, arrays):
                if not isinstance(array, UnreadableError):
                    good.append((sample, array))
                elif skip_corrupt:
                    skipped.append(sample.path.relative_to(folder).as_posix())
                else:
                    raise UserError(
                        f"{sample.path} {array}: fetch it again, or leave such files out with "
                        "--skip-corrupt"
                    )
            for (client, test), group in groupby(good, lambda pair: (pair[0].client, pair[0].test)):
                pairs = list(group)
                labels = np.array([sample.label for sample, _ in pairs], dtype=np.uint8)
                writer.add(client, np.stack([array for _, array in pairs]), labels, test=test)
    if skipped:
        if len(skipped) == len(samples):
            raise UserError(f"{folder}: not one of {len(samples):,} files can be read")
        writer.about["skipped"] = skipped
        note = f"{len(skipped):,} of {len(samples):,} files cannot be read and are left out: "
        few = ", ".join(skipped[:3]) + (", ..." if skipped[3:] else "")
        writer.about["notes"] = [*writer.about.get("notes", []), note + few]


def _attempt(read: Callable[[Path], Array], path: Path) -> Array | UnreadableError:
    try:
        return read(path)
    except UnreadableError as error:
        return error
    except FileNotFoundError:
        return UnreadableError("is missing")
    except OSError as error:
        return UnreadableError(f"cannot be read ({error.strerror or error})")


def _with_progress(samples: Sequence[Sample], name: str) -> Iterator[Sequence[Sample]]:
    """The samples in chunks; on a terminal with a bar, since it may take minutes."""
    chunks: Iterable[Sequence[Sample]] = (
        samples[first : first + CHUNK] for first in range(0, len(samples), CHUNK)
    )
    if not sys.stderr.isatty():
        yield from chunks
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"reading {name}", total=len(samples))
        for chunk in chunks:
            yield chunk
            progress.advance(task, len(chunk))


def by_client(samples: Iterable[Sample]) -> list[Sample]:
    """In the order `write_samples` wants: client by client, training rows first, then by path."""
    return sorted(samples, key=lambda each: (each.client, each.test, str(each.path)))
