"""`aaggff compare`: methods over seeds, with statistics."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aaggff.cli.shared_options import (
    DataDir,
    Dataset,
    Json,
    Latex,
    Markdown,
    Rounds,
    Seeds,
    StandIn,
    Workers,
)

app = typer.Typer(rich_markup_mode=None, add_completion=False)

EXAMPLES = """\b
Examples:
  aaggff compare heart
  aaggff compare heart --methods fedavg,uniform,qfedavg:q=5,aaggff-s --seeds 1-30
  aaggff compare digits --rounds 50 --json digits.json --out runs/digits
  aaggff compare heart --seeds 1-12 --latex > table.tex
  aaggff tune heart --method term --out tuned.toml && aaggff compare heart --tuned tuned.toml
"""


@app.command(epilog=EXAMPLES)
def compare(
    dataset: Dataset,
    methods: Annotated[
        str,
        typer.Option(
            metavar="A,B,...",
            help="Methods, which may carry options: qfedavg:q=5. all: those that can be run.",
        ),
    ] = "all",
    seeds: Seeds = "2,4,6",
    rounds: Rounds = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="K=V",
            help="A setting (lr=0.1), an option of data, model or server (data.variant=flamby), "
            "or of the methods that have it (cdf=weibull); repeatable.",
        ),
    ] = None,
    tuned: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Options chosen by `aaggff tune`.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where runs are kept [runs/DATASET...]; what is done there is not done again.",
        ),
    ] = None,
    json: Json = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV: all tests, unrounded.")] = False,
    latex: Latex = False,
    markdown: Markdown = False,
    workers: Workers = None,
    data_dir: DataDir = None,
    stand_in: StandIn = False,
) -> None:
    """Compare methods over seeds: same split, same first model, same sampled clients.

    Shows means and deviations, the paired differences from FedAvg and from uniform weights with
    95 % intervals, and marks only what Wilcoxon's test with Holm's correction leaves standing.
    """
    from aaggff.cli.words import gather_settings, only_one, parse_methods, parse_seeds
    from aaggff.experiments.pool import warm_up

    only_one(csv=csv, latex=latex, markdown=markdown, json=json == "-")
    chosen = None if methods.strip() == "all" else parse_methods(methods)
    every = parse_seeds(seeds)
    if workers != 1:
        warm_up()
    from aaggff.cli.show import Watch, print_sheets
    from aaggff.experiments import compare as experiment
    from aaggff.experiments import tables, tuned_file

    settings = gather_settings(sets, rounds=rounds, data_dir=data_dir, stand_in=stand_in)
    options = {} if tuned is None else tuned_file.read(tuned, dataset, every)
    directory = out or experiment.default_directory(dataset, settings, options)
    with Watch() as heard:
        found = experiment.compare(
            dataset,
            chosen,
            every,
            settings=settings,
            tuned=options,
            out=directory,
            workers=workers,
            heard=heard,
        )
    if json == "-":
        typer.echo(experiment.json_text(found.as_json()))
    elif json is not None:
        experiment.write_json(Path(json), found.as_json())
    if csv:
        typer.echo(tables.as_csv(found), nl=False)
    elif json != "-" and print_sheets(tables.sheets(found), latex=latex, markdown=markdown):
        typer.echo(f"\nruns in {directory}; aaggff report {directory} shows them")
