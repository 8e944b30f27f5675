"""`aaggff data`: which data sets there are, getting their files, and counting what is there."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aaggff.errors import UserError

if TYPE_CHECKING:
    from aaggff.data.download import Progress
    from aaggff.data.spec import DatasetSpec

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="List, fetch and check data sets.",
)

Directory = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Where data lives [AAGGFF_DATA, else ~/.cache/aaggff/data]."),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="A data set, see `aaggff data list`.")]


@app.command("list", epilog="Example: aaggff data list --data-dir ~/data")
def list_(
    data_dir: Directory = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Each data set: its clients, its licence, and whether its files are here."""
    from aaggff.data import DATASETS, dataset_spec

    rows = [
        {
            "name": spec.name,
            "title": spec.title,
            "clients": spec.statistics.clients if spec.statistics else None,
            "samples": spec.statistics.samples if spec.statistics else None,
            "licence": spec.licence,
            "here": _here(spec, data_dir),
            "stand_in": spec.stand_in is not None,
        }
        for spec in map(dataset_spec, DATASETS)
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    head = ("name", "here", "licence", "what it is")
    table = [(row["name"], row["here"], row["licence"], row["title"]) for row in rows]
    widths = [max(len(str(row[i])) for row in [head, *table]) for i in range(3)]
    for line in [head, *table]:
        cells = [str(cell).ljust(width) for cell, width in zip(line, widths)]
        typer.echo("  ".join([*cells, str(line[3])]))


def _here(spec: DatasetSpec, root: Path | None) -> str:
    if not spec.needs_files:
        return "built in"
    absent = spec.absent(root)
    if absent:
        return "partial" if any(f.present(spec.folder(root)) for f in spec.files) else "no"
    return "partial" if spec.missing is not None and spec.missing(spec.folder(root)) else "yes"


@app.command(
    epilog="Example: aaggff data fetch speechcommands, or aaggff data fetch celeba --from ~/celeba"
)
def fetch(
    name: Name,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="DIR", help="Copy the files from this folder."),
    ] = None,
    link: Annotated[
        bool, typer.Option("--link", help="With --from: link to the files, do not copy.")
    ] = False,
    data_dir: Directory = None,
    allow_http: Annotated[
        bool, typer.Option("--allow-http", help="Also from addresses without https or checksum.")
    ] = False,
) -> None:
    """Get a data set's official files, from their makers or from a folder one has.

    An interrupted download goes on where it stopped; size and checksum are compared with what is
    published; archives are unpacked and never leave their folder.
    """
    from aaggff.data import dataset_spec
    from aaggff.data.fetch import fetch as bring

    spec = dataset_spec(name)
    if not spec.needs_files:
        typer.echo(f"{name} comes with the package: there is nothing to fetch")
        return
    if link and source is None:
        raise UserError("--link needs --from DIR: the folder to link to")
    typer.echo(f"{spec.title}. Licence: {spec.licence}. Credit: {spec.credit}")
    with _Bars() as bars:
        folder = bring(
            spec,
            data_dir,
            source=source,
            link=link,
            allow_http=allow_http,
            say=bars.say,
            watch=bars.watch,
        )
    lacking = spec.missing(folder) if spec.missing is not None else []
    for line in lacking:
        typer.echo(f"partial: {line}")
    typer.echo(f"{folder} is ready: aaggff data check {name}, or aaggff run {name}")


@app.command(epilog="Example: aaggff data check berka --data-dir ~/data")
def check(
    name: Name,
    data_dir: Directory = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="data.NAME=VALUE", help="A loader option."),
    ] = None,
    stand_in: Annotated[
        bool, typer.Option("--stand-in", help="Count the stand-in instead of the files.")
    ] = False,
) -> None:
    """Read a data set and compare its counts with the paper's table of statistics.

    A partial copy is fine: it says what is missing. Of a pool that is dealt out to clients, it
    shows who gets how much of what. Exit code 1 only where a file is not the official one, or
    where nothing is missing and the counts still differ.
    """
    from aaggff.data import dataset_spec
    from aaggff.data.counts import agreement, count, dealt

    spec = dataset_spec(name)
    if stand_in and spec.stand_in is None:
        raise UserError(f"{name} has no stand-in: it is always at hand")
    given = {} if stand_in else spec.statistics_options
    options = {**given, **_options(sets or [])}
    spec.check_options(options, stand_in=stand_in)
    wrong, partial = False, False
    if spec.stand_in is not None and stand_in:
        typer.echo(f"{spec.title}: STAND-IN, not the data")
        data = spec.stand_in(**options)
    else:
        typer.echo(f"{spec.title}. Licence: {spec.licence}")
        wrong, partial = _files(spec, data_dir)
        started = time.perf_counter()
        data = spec.load(data_dir, **options)
        typer.echo(f"read in {time.perf_counter() - started:.1f} s")
    if spec.statistics is None:
        ours, _ = count(data)
        typer.echo(
            f"{ours.clients:,} clients, {ours.samples:,} samples, {ours.mean:.2f} a client "
            f"(deviation {ours.deviation:.2f}); the paper gives no numbers"
        )
        agree = True
    else:
        rows = agreement(data, spec.statistics)
        typer.echo(f"{'':10}{'here':>12}{'paper':>12}")
        for what, ours_, theirs, same in rows:
            typer.echo(f"{what:10}{ours_:>12}{theirs:>12}  {'' if same else 'differs'}".rstrip())
        agree = all(row[3] for row in rows)
    if "partition" in spec.offered(stand_in):
        typer.echo(dealt(data))
    asked = spec.statistics_options.items() <= options.items() and not sets
    if wrong or (not agree and not partial and asked):
        raise typer.Exit(1)


def _files(spec: DatasetSpec, root: Path | None) -> tuple[bool, bool]:
    """Print what is there and what is not; whether a file is wrong, and whether some lack."""
    from aaggff.data.download import differs

    if not spec.needs_files:
        typer.echo("comes with the package")
        return False, False
    wrong = partial = False
    folder = spec.require(root)
    for file in spec.files:
        shown = ", ".join(file.unpacks[:3]) if file.unpacks else file.name
        if not file.present(folder):
            partial = True
            typer.echo(f"{shown}: not here{' (optional)' if file.optional else ''}")
            continue
        complaint = None
        if not file.unpacks:
            complaint = differs(folder / file.name, file.size, file.checksum)
            wrong = wrong or complaint is not None
        verified = " (checksum as published)" if file.checksum and not file.unpacks else ""
        typer.echo(f"{shown}: {complaint or 'here' + verified}")
    for line in spec.missing(folder) if spec.missing is not None else []:
        partial = True
        typer.echo(f"partial: {line}")
    return wrong, partial


def _options(sets: list[str]) -> dict[str, Any]:
    from aaggff.cli.options import assignments

    found = {}
    for name, value in assignments(sets).items():
        prefix, _, option = name.rpartition(".")
        if prefix not in ("", "data"):
            raise UserError(f"--set {name}: expected a loader option, data.NAME=VALUE")
        found[option] = value
    return found


class _Bars:
    """Progress bars on a terminal, nothing elsewhere; lines go above them."""

    def __enter__(self) -> _Bars:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def say(self, line: str) -> None:
        self._progress.stop()
        typer.echo(line)
        self._progress.start()

    def watch(self, what: str, size: int | None) -> Progress:
        task = self._progress.add_task(what, total=size)
        update: Callable[..., None] = self._progress.update
        return lambda done, total: update(task, completed=done, total=total or size)
