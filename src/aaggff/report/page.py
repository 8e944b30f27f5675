"""One self-contained HTML page from run directories: no network, no library, opens at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from aaggff.errors import UserError
from aaggff.federation.record import write_atomically
from aaggff.report import figures
from aaggff.report.collect import RunRecord, collect
from aaggff.report.figures import Drawing
from aaggff.report.frontier import frontiers, methods, numbers, read_frontiers
from aaggff.report.groups import Group, group_runs
from aaggff.report.table import Table, each_client, tables
from aaggff.version import __version__

COLOURS = 9
BAND = 0.16
"""How dark a band over seeds is; of many methods each is fainter, so that lines stay visible."""
MANY = 18
"""A section with more figures than this is folded away."""
DASHES = ("none", "7 3", "2 3", "8 3 2 3")
TITLES = {"auroc": "AUROC", "top1": "top-1 accuracy", "top5": "top-5 accuracy"}


@dataclass(frozen=True)
class Section:
    """A heading and the drawings below it."""

    heading: str
    blurb: str
    drawings: list[Drawing]
    tables: list[Table]
    """The same numbers to be read, folded away."""


def write_report(directories: Sequence[Path], output: Path) -> Path:
    """Write the page of all runs at or below `directories` to `output`, at once or not at all."""
    text = render(directories)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(output, text.encode())
    except OSError as error:
        raise UserError(f"cannot write {output}: {error.strerror}") from error
    return output


def render(directories: Sequence[Path]) -> str:
    """The page as text."""
    runs = collect(directories)
    if not runs:
        raise UserError("there is no finished round in these directories yet")
    groups, found = group_runs(runs), read_frontiers(directories)
    data_set = str(runs[0].config.get("dataset", "your data"))
    stand_in = any(run.stand_in for run in runs)
    title = f"Fairness report: {data_set}{' (stand-in)' if stand_in else ''}"
    try:
        from jinja2 import Environment
    except ImportError as error:
        raise UserError("the report needs jinja2: pip install 'aaggff[report]'") from error
    here = files("aaggff.report")
    template = Environment(autoescape=True).from_string(here.joinpath("page.html.j2").read_text())
    return template.render(
        title=title,
        version=__version__,
        dataset=data_set,
        stand_in=stand_in,
        facts=_facts(groups),
        notices=_notices(runs),
        groups=groups,
        tables=tables(groups),
        sections=[_as_text(section) for section in _sections(groups, found)],
        settings=_settings(groups),
        css=_markup(here.joinpath("page.css").read_text() + _colours(groups, found)),
        script=_markup(here.joinpath("page.js").read_text()),
    )


def _sections(groups: list[Group], found: Sequence[dict[str, Any]]) -> list[Section]:
    metric = next((run.metric for group in groups for run in group.runs if run.metric), "")
    title = TITLES.get(metric, metric)
    measured = f"{title}, per cent"
    kept: list[Section] = []

    def add(
        heading: str, blurb: str, *drawings: Drawing | None, tables: Sequence[Table | None] = ()
    ) -> None:
        drawn = [drawing for drawing in drawings if drawing is not None]
        if drawn:
            numbers = [table for table in tables if table is not None]
            kept.append(Section(heading, blurb, drawn, numbers))

    add(
        "How performance is spread over clients",
        "",
        figures.distribution(groups, metric, title) if metric else None,
        figures.distribution(groups, "loss", "test loss"),
        figures.lorenz_curves(groups, metric, title) if metric else None,
        figures.lorenz_curves(groups, "loss", "test loss"),
        tables=[
            each_client(groups, metric, measured, figures.FEW) if metric else None,
            each_client(groups, "loss", "test loss", figures.FEW),
        ],
    )
    gained = figures.gains(groups, metric, title) if metric else []
    add(
        "Who gains and who loses against FedAvg",
        "Orange is better for the client, blue is worse.",
        *gained,
        *figures.gains(groups, "loss", "test loss"),
    )
    add(
        "The frontier",
        "What each method's dial buys the worst-off, and what it costs on average.",
        *[drawing for content in found for drawing in frontiers(content, title or "metric")],
        tables=[numbers(content) for content in found],
    )
    add(
        "Over the rounds",
        "",
        figures.curves(groups, ("metric", "avg"), f"Average {title}", measured),
        figures.curves(groups, ("metric", "worst"), f"Worst 10 %: {title}", measured),
        figures.curves(groups, ("loss", "avg"), "Average test loss", "test loss"),
        figures.curves(groups, ("loss", "worst_client"), "Test loss of the worst client", "loss"),
        figures.cumulative_objective(groups),
        figures.objective_apart(groups),
        figures.curves(
            groups,
            ("effective_clients",),
            "Effective number of clients",
            "exp(entropy of weights)",
            "How many equally weighted clients would be as spread out.",
        ),
    )
    add(
        "The server's decisions",
        "How much each client's update counted, round by round.",
        *[figures.weights(group) for group in groups],
    )
    add(
        "Regret",
        "What the decisions cost against the best fixed weights, known only in hindsight.",
        figures.regret(groups),
    )
    return kept


def _as_text(section: Section) -> dict[str, Any]:
    return {
        "heading": section.heading,
        "blurb": section.blurb,
        "tables": section.tables,
        "folded": len(section.drawings) > MANY,
        "drawings": [
            {
                "heading": drawing.heading,
                "caption": drawing.caption,
                "colours": drawing.keys,
                "svg": _markup(drawing.figure.text()),
                "readout": (
                    json.dumps(drawing.figure.readout(), separators=(",", ":"))
                    if drawing.figure.series
                    else ""
                ),
            }
            for drawing in section.drawings
        ],
    }


def _markup(text: str) -> Any:
    """Text that is HTML already: ours, or escaped where it was made."""
    from markupsafe import Markup

    return Markup(text)


def _colours(groups: Sequence[Group], found: Sequence[dict[str, Any]]) -> str:
    """A colour and a dash for every method, and for every line of a frontier."""
    lines = max((len(methods(content)) for content in found), default=0)
    keys = [[group.key for group in groups], [f"f{i}" for i in range(lines)]]
    rules = [
        f".{key} {{ --c: var(--c{i % COLOURS}); --dash: {DASHES[i // 3 % len(DASHES)]}; }}"
        for each in keys
        for i, key in enumerate(each)
    ]
    bands = min(BAND, 3 * BAND / max(1, len(groups)))
    return "\n".join([f":root {{ --band: {bands:.3f}; }}", *rules])


def _facts(groups: Sequence[Group]) -> str:
    runs = [run for group in groups for run in group.runs]
    rounds = {int(run.rounds[-1]["round"]) for run in runs}
    length = f"{min(rounds)}" if len(rounds) == 1 else f"{min(rounds)} to {max(rounds)}"
    seeds = sorted({run.seed for run in runs})
    listed = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
    clients = max(
        (len(e["loss"]) for run in runs for e in run.evaluations[-1:] if e.get("loss")),
        default=0,
    )
    told = [f"{len(groups)} method{'s' if len(groups) > 1 else ''}", f"{length} rounds"]
    everybody = max((int(e.get("of") or 0) for run in runs for e in run.evaluations), default=0)
    if clients:
        part = f" of {everybody:,}" if everybody > clients else ""
        told.append(f"{clients:,}{part} clients")
    told.append(listed if len(seeds) <= 10 else f"{len(seeds)} seeds")
    return ", ".join(told) + "."


def _notices(runs: Sequence[RunRecord]) -> list[str]:
    notices = []
    unfinished = [run for run in runs if not run.done]
    if unfinished:
        names = ", ".join(sorted({f"{run.label} seed {run.seed}" for run in unfinished})[:6])
        notices.append(f"{len(unfinished)} of {len(runs)} runs have not finished: {names}.")
    missing = max((int(r.get("metric", {}).get("missing") or 0) for run in runs for r in run.rounds
                   if isinstance(r.get("metric"), dict)), default=0)  # fmt: skip
    if missing:
        notices.append(
            f"Up to {missing} clients have no value of the metric (one class, or no test data); "
            "they are left out of every average of it, and counted here."
        )
    aside = sum(bool(record.get("set_aside")) for run in runs for record in run.rounds)
    if aside:
        notices.append(
            f"In {aside} rounds a client's report was set aside (nan, negative, absurd)."
        )
    return notices


def _settings(groups: Sequence[Group]) -> list[tuple[str, str]]:
    """What all runs share, what differs, and each method's own options."""
    runs = [run for group in groups for run in group.runs]
    configs = [_flat(run.config) for run in runs]
    names = sorted({name for config in configs for name in config} - {"seed", "method"})
    rows = []
    for name in names:
        if name.startswith("method_options"):
            continue
        values = sorted({str(config.get(name, "not set")) for config in configs})
        rows.append((name, values[0] if len(values) == 1 else " | ".join(values)))
    for group in groups:
        options = group.runs[0].config.get("method_options") or {}
        if options:
            told = ", ".join(f"{name} {value}" for name, value in options.items())
            rows.append((f"options of {group.label}", told))
    versions = sorted({str(run.done["version"]) for run in runs if run.done.get("version")})
    rows.append(("aaggff", ", ".join(versions) or __version__))
    seconds = sum(float(run.done.get("seconds") or 0.0) for run in runs)
    rows.append(("time of all runs", f"{seconds:,.1f} s"))
    return rows


def _flat(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat
