"""What is known about a data set before it is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aaggff.data import data_dir
from aaggff.errors import UserError, unknown

if TYPE_CHECKING:
    from aaggff.federation.data import FederatedData


@dataclass(frozen=True)
class PaperSettings:
    """One row of the paper's experiments (appendix C): the defaults of `aaggff run`."""

    rounds: int
    per_round: int | None
    """Clients sampled a round; None: everybody."""
    model: str
    lr: float
    weight_decay: float = 0.0
    decay: float = 1.0
    decay_every: int = 1
    cdf: str = "normal"
    batch_size: int = 20
    epochs: int = 1


@dataclass(frozen=True)
class Option:
    """A choice a data set's loader offers: `--set data.NAME=VALUE`."""

    default: Any
    help: str
    choices: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class RemoteFile:
    """One official file: where it is to be had and how to know that it is the right one.

    `name` is its path below `DIR/DATASET/`. An archive names in `unpacks` what must be there once
    it is unpacked (files or folders, below `DIR/DATASET/` too), by which one sees that it was.
    """

    name: str
    urls: tuple[str, ...] = ()
    """Official addresses, the preferred one first; empty: it cannot be had automatically."""
    size: int | None = None
    """In bytes, where it is published."""
    checksum: str | None = None
    """"sha256:..." or "md5:...", where one is published."""
    unpacks: tuple[str, ...] = ()
    into: str = "."
    """Folder below `DIR/DATASET/` in which an archive is unpacked."""
    optional: bool = False
    """True: loading works without it (a partial copy)."""
    instead: tuple[str, ...] = ()
    """Files or folders of which any one serves as well (another published form of the same)."""

    def present(self, folder: Path) -> bool:
        """Whether the file, or everything it unpacks to, is in the data set's folder."""
        if any((folder / name).exists() for name in self.instead):
            return True
        if self.unpacks:
            return all((folder / name).exists() for name in self.unpacks)
        return (folder / self.name).exists()


@dataclass(frozen=True)
class Statistics:
    """Clients, samples and their mean and deviation a client: a row of the paper's table 4.

    The paper's deviations divide by K - 1 or by K, as its authors happened to compute them, so
    either is taken as agreeing.
    """

    clients: int
    samples: int
    mean: float
    deviation: float


@dataclass(frozen=True)
class DatasetSpec:
    """Name, rights, settings and loader of one data set.

    `load(root, seed=..., **options)` reads the official files in `root/NAME/` (or the store made
    from them); a root of None is AAGGFF_DATA or `~/.cache/aaggff/data`, and data that needs no
    files ignores it. `stand_in(seed=..., **options)` makes a learnable likeness with the same
    clients, sizes, shapes and types, and is None where the data is always at hand.
    """

    name: str
    title: str
    licence: str
    credit: str
    settings: PaperSettings
    load: Callable[..., FederatedData]
    options: Mapping[str, Option] = field(default_factory=dict)
    stand_in: Callable[..., FederatedData] | None = None
    needs_files: bool = True
    files: tuple[RemoteFile, ...] = ()
    """The official files; `aaggff data fetch` gets them."""
    manual: str = ""
    """Which files to put where by hand, when (some) cannot be downloaded automatically."""
    statistics: Statistics | None = None
    """What the paper's table of statistics says; `aaggff data check` compares."""
    statistics_options: Mapping[str, Any] = field(default_factory=dict)
    """The loader options under which the paper counted."""
    missing: Callable[[Path], list[str]] | None = None
    """`missing(folder)`: what a partial copy in `DIR/NAME` lacks, a line each, for `data check`."""

    def folder(self, root: Path | None) -> Path:
        """Where the files are looked for: `DIR/NAME`."""
        return data_dir(root) / self.name

    def available(self, root: Path | None) -> bool:
        """Whether loading would find its files."""
        return not self.absent(root)

    def absent(self, root: Path | None) -> list[str]:
        """The names of the files that loading needs and that are not there."""
        if not self.needs_files:
            return []
        folder = self.folder(root)
        return [
            name
            for file in self.files
            if not file.optional and not file.present(folder)
            for name in file.unpacks or (file.name,)
            if not (folder / name).exists()
        ]

    def require(self, root: Path | None) -> Path:
        """The folder `DIR/NAME`, once it is known to hold the files; else says what to do."""
        absent = self.absent(root)
        if absent:
            do = self.manual or f"`aaggff data fetch {self.name}` gets them"
            likeness = "; `--stand-in` runs on a likeness" if self.stand_in else ""
            few = ", ".join(absent[:4]) + (f" and {len(absent) - 4} more" if absent[4:] else "")
            raise UserError(f"{self.name}: {self.folder(root)} lacks {few}. {do}{likeness}")
        return self.folder(root)

    def offered(self, stand_in: bool = False) -> Mapping[str, Option]:
        """What `--set data.NAME=VALUE` may choose: of the files' loader, or of the stand-in."""
        if not stand_in or self.stand_in is None:
            return self.options
        module = import_module("aaggff.data.stand_in")
        offered: Mapping[str, Option] = module.stand_in_options(self.name)
        return offered

    def option(self, name: str, *, stand_in: bool = False) -> Option:
        """One of those; an unknown name suggests the nearest one."""
        known = self.offered(stand_in)
        if name not in known:
            whose = "the stand-in of" if stand_in else "data set"
            raise unknown(f"option of {whose} {self.name!r}", name, known)
        return known[name]

    def check_options(self, options: Mapping[str, Any], *, stand_in: bool = False) -> None:
        """An unknown option or choice is an error that suggests the nearest one."""
        for name, value in options.items():
            choices = self.option(name, stand_in=stand_in).choices
            if choices is not None and value not in choices:
                raise unknown(f"data.{name}", str(value), map(str, choices))


def stand_in(name: str) -> Callable[..., FederatedData]:
    """The stand-in of a data set, `aaggff.data.stand_in:NAME`, imported when it is called."""
    return partial(_stand_in, name)


def _stand_in(name: str, *, seed: int = 0, **options: Any) -> FederatedData:
    module = import_module("aaggff.data.stand_in")
    make: Callable[..., FederatedData] = getattr(module, name)
    return make(seed=seed, **options)
