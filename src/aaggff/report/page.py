"""One self-contained HTML page from run directories: no network, no library, opens at once."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from aaggff.errors import UserError
from aaggff.report import figures
from aaggff.report.collect import RunRecord, collect
from aaggff.report.figures import Drawing
from aaggff.report.frontier import frontier, read_frontiers
from aaggff.report.groups import Group, group_runs
from aaggff.report.table import table
from aaggff.version import __version__

COLOURS = 8
DASHES = ("none", "7 3", "2 3", "8 3 2 3")
TITLES = {"auroc": "AUROC", "top1": "top-1 accuracy", "top5": "top-5 accuracy"}


@dataclass(frozen=True)
class Section:
    """A heading and the drawings below it."""

    heading: str
    blurb: str
    drawings: list[Drawing]


def write_report(directories: Sequence[Path], output: Path) -> Path:
    """Write the page of all runs at or below `directories` to `output`, at once or not at all."""
    text = render(directories)
    output.parent.mkdir(parents=True, exist_ok=True)
    partial = output.with_name(f".{output.name}.{secrets.token_hex(4)}")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, output)
    return output


def render(directories: Sequence[Path]) -> str:
    """The page as text."""
    runs = collect(directories)
    if not runs:
        raise UserError("there is no finished round in these directories yet")
    groups = group_runs(runs)
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
        table=table(groups),
        sections=[_as_text(section) for section in _sections(groups, directories)],
        settings=_settings(runs),
        css=_markup(here.joinpath("page.css").read_text() + _colours(groups)),
        script=_markup(here.joinpath("page.js").read_text()),
    )


def _sections(groups: list[Group], directories: Sequence[Path]) -> list[Section]:
    metric = next((name for name in TITLES if any(g.clients(name) is not None for g in groups)), "")
    title = TITLES.get(metric, metric)
    kept: list[Section] = []

    def add(heading: str, blurb: str, *drawings: Drawing | None) -> None:
        drawn = [drawing for drawing in drawings if drawing is not None]
        if drawn:
            kept.append(Section(heading, blurb, drawn))

    add(
        "How performance is spread over clients",
        "",
        figures.distribution(groups, metric, title) if metric else None,
        figures.distribution(groups, "loss", "test loss"),
        figures.lorenz_curves(groups, metric, title) if metric else None,
        figures.lorenz_curves(groups, "loss", "test loss"),
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
        *[frontier(content, groups) for content in read_frontiers(directories)],
    )
    measured = f"{title}, per cent"
    add(
        "Over the rounds",
        "",
        figures.curves(groups, ("metric", "avg"), f"Average {title}", measured),
        figures.curves(groups, ("metric", "worst"), f"Worst 10 %: {title}", measured),
        figures.curves(groups, ("loss", "avg"), "Average test loss", "test loss"),
        figures.curves(groups, ("loss", "worst_client"), "Test loss of the worst client", "loss"),
        figures.cumulative_objective(groups),
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
        "drawings": [
            {
                "heading": drawing.heading,
                "caption": drawing.caption,
                "wide": drawing.wide,
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


def _colours(groups: Sequence[Group]) -> str:
    rules = [
        f".{group.key} {{ --c: var(--c{i % COLOURS}); --dash: {DASHES[i // 3 % len(DASHES)]}; }}"
        for i, group in enumerate(groups)
    ]
    return "\n".join(rules)


def _facts(groups: Sequence[Group]) -> str:
    runs = [run for group in groups for run in group.runs]
    rounds = {int(run.rounds[-1]["round"]) for run in runs}
    length = f"{min(rounds)}" if len(rounds) == 1 else f"{min(rounds)} to {max(rounds)}"
    seeds = sorted({run.seed for run in runs})
    listed = ", ".join(map(str, seeds)) if len(seeds) <= 10 else f"{len(seeds)} seeds"
    clients = max(
        (len(e["loss"]) for run in runs for e in run.evaluations[-1:] if e.get("loss")),
        default=0,
    )
    told = [f"{len(groups)} method{'s' if len(groups) > 1 else ''}", f"{length} rounds"]
    if clients:
        told.append(f"{clients:,} clients")
    told.append(f"seed{'s' if len(seeds) > 1 else ''} {listed}")
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


def _settings(runs: Sequence[RunRecord]) -> list[tuple[str, str]]:
    """What all runs share, then what differs; the seed and the method are in the page already."""
    configs = [_flat(run.config) for run in runs]
    names = sorted({name for config in configs for name in config} - {"seed", "method"})
    rows = []
    for name in names:
        values = sorted({str(config.get(name, "not set")) for config in configs})
        if name.startswith("method_options") and len(values) > 1:
            continue
        rows.append((name, values[0] if len(values) == 1 else " | ".join(values)))
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
