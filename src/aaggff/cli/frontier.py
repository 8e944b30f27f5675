"""`aaggff frontier`: average against worst-off, over each method's dial."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aaggff.cli.shared_options import (
    DataDir,
    Dataset,
    Latex,
    Markdown,
    MethodsToVary,
    Rounds,
    Seeds,
    Sets,
    StandIn,
    Workers,
)

app = typer.Typer(rich_markup_mode=None, add_completion=False)

EXAMPLES = """\b
Examples:
  aaggff frontier heart --methods fedavg,uniform,qfedavg,aaggff-s
  aaggff frontier heart --methods aaggff-s,aaggff-s:cdf=weibull --grid strength=0,1,10,100
  aaggff frontier heart --seeds 1-10 --out heart-frontier && aaggff report heart-frontier
"""


@app.command(epilog=EXAMPLES)
def frontier(
    dataset: Dataset,
    methods: MethodsToVary = "all",
    grid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="K=V,V,...",
            help="Values of a dial (strength, q, lam, baseline, gamma, epsilon or any other "
            "option) for the methods that have it; repeatable.",
        ),
    ] = None,
    seeds: Seeds = "2,4,6",
    rounds: Rounds = None,
    sets: Sets = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where runs and frontier.json are kept [runs/frontier-DATASET...]; what is done "
            "there is not done again.",
        ),
    ] = None,
    json: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A copy of frontier.json; - for stdout."),
    ] = None,
    latex: Latex = False,
    markdown: Markdown = False,
    workers: Workers = None,
    data_dir: DataDir = None,
    stand_in: StandIn = False,
) -> None:
    """Show what each method can trade average for worst-off for, along its dial.

    Every method is run at several values of its option. The tables say which points no other
    beats, which method is best at which average, and how large an area each one dominates, with
    intervals over seeds. `aaggff report DIR` draws it.
    """
    from aaggff.cli.words import gather_settings, only_one, parse_grid, parse_methods, parse_seeds

    only_one(latex=latex, markdown=markdown, json=json == "-")
    chosen = None if methods.strip() == "all" else parse_methods(methods)
    every = parse_seeds(seeds)
    values = parse_grid(grid or [])
    from aaggff.experiments.pool import warm_up

    if workers != 1:
        warm_up()
    from aaggff.cli.show import Watch, print_sheets
    from aaggff.experiments import compare as experiment
    from aaggff.experiments.frontier import frontier as explore
    from aaggff.experiments.frontier_table import sheets

    settings = gather_settings(sets, rounds=rounds, data_dir=data_dir, stand_in=stand_in)
    directory = out or experiment.default_directory(f"frontier-{dataset}", settings, {})
    with Watch(by=lambda job: job.config.method, unit="run") as heard:
        found = explore(
            dataset,
            chosen,
            every,
            grid=values,
            settings=settings,
            out=directory,
            workers=workers,
            heard=heard,
        )
    content = found.as_json()
    experiment.write_json(directory / "frontier.json", content)
    if json is not None and json != "-":
        experiment.write_json(Path(json), content)
    if json == "-":
        typer.echo(experiment.json_text(content))
    elif print_sheets(sheets(found), latex=latex, markdown=markdown):
        typer.echo(f"\nruns in {directory}; aaggff report {directory} draws them")
