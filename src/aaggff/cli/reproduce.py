"""`aaggff reproduce`: the paper's tables, ours beside theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from aaggff.cli.shared_options import DataDir, Json, Latex, Markdown, Workers

app = typer.Typer(rich_markup_mode=None, add_completion=False)

EXAMPLES = """\b
Tables:
  silo            table 2: Berka, MQP, ISIC 2019
  device          table 3: CelebA, Reddit, Speech Commands
  parity          tables 4 and 5: Delta AG of the same runs
  plug-and-play   table 6: server optimisers with and without AAggFF, Heart and TinyImageNet
  cdf-figure      cumulative objective by CDF: Berka and Reddit
\b
Examples:
  aaggff reproduce plug-and-play --only heart
  aaggff reproduce plug-and-play --only heart --seeds 1-30 --out heart-table6
  aaggff reproduce silo --data-dir ~/data --tune
  aaggff reproduce device --stand-in --rounds 20
"""


@app.command(epilog=EXAMPLES)
def reproduce(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="See below.")],
    only: Annotated[
        str, typer.Option(metavar="A,B,...", help="These data sets of the table [all of it].")
    ] = "",
    seeds: Annotated[str, typer.Option(metavar="N,N-N", help="The paper has three.")] = "2,4,6",
    rounds: Annotated[int | None, typer.Option(help="Rounds [the paper's].")] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="K=V", help="As in `aaggff compare`, such as model.pretrained=DIR."
        ),
    ] = None,
    tune: Annotated[
        bool,
        typer.Option(
            "--tune", help="First tune every method over the paper's grid, by average on seed 0."
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where runs are kept [runs/reproduce...]; what is done is not done again.",
        ),
    ] = None,
    json: Json = None,
    latex: Latex = False,
    markdown: Markdown = False,
    workers: Workers = None,
    data_dir: DataDir = None,
    stand_in: Annotated[
        bool, typer.Option("--stand-in", help="A made-up likeness of data that is not here.")
    ] = False,
) -> None:
    """Run a table of the paper with the data that is here, beside the paper's own numbers.

    Says what could not be run and why, how far apart the numbers are in standard deviations, and
    what is known to be odd about the printed ones. A data set's table is shown as soon as it is
    done.
    """
    from aaggff.cli.words import gather_settings, only_one, parse_names, parse_seeds

    only_one(latex=latex, markdown=markdown, json=json == "-")
    every = parse_seeds(seeds)
    wanted = parse_names(only)
    from aaggff.cli.show import Watch, console, print_sheets
    from aaggff.experiments import compare as experiment
    from aaggff.experiments import reproduce as paper
    from aaggff.experiments.pool import warm_up
    from aaggff.experiments.reproduce_table import not_run, sheets

    parts = paper.blocks(table, wanted)
    if workers != 1:
        warm_up()
    shared = gather_settings(sets, rounds=rounds, data_dir=data_dir)
    directory = out or experiment.default_directory("reproduce", shared, {})
    say = console(err=True)
    content: dict[str, Any] = {"table": table, "blocks": [], "not_run": []}
    for part in parts:
        settings = paper.here(part, shared, stand_in=stand_in)
        with Watch(by=lambda job: job.label.partition(":")[0], unit="run") as heard:
            found = paper.reproduce(
                part,
                every,
                settings=settings,
                tune_first=tune,
                out=directory,
                workers=workers,
                heard=heard,
            )
        if isinstance(found, paper.NotRun):
            content["not_run"].append({"dataset": part.dataset, "why": found.why})
            (say if json == "-" or latex or markdown else console()).print(
                not_run(found), soft_wrap=True, markup=False
            )
            typer.echo("", err=True)
            continue
        content["blocks"].append(found.as_json())
        if json != "-":
            print_sheets(sheets(found), latex=latex, markdown=markdown)
            typer.echo("")
    if json == "-":
        typer.echo(experiment.json_text(content))
    elif json is not None:
        experiment.write_json(Path(json), content)
    if not content["blocks"]:
        raise typer.Exit(1)
    say.print(f"runs below {directory}; aaggff report DIR draws those of one data set")
