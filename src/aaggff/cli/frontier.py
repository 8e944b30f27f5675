"""`aaggff frontier`: average against worst-off, over each method's dial."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False)

EXAMPLES = """\b
Examples:
  aaggff frontier heart --methods fedavg,uniform,qfedavg,aaggff-s
  aaggff frontier heart --methods aaggff-s,aaggff-s:cdf=weibull --grid strength=0,1,10,100
  aaggff frontier heart --seeds 1-10 --out heart-frontier && aaggff report heart-frontier
"""


@app.command(epilog=EXAMPLES)
def frontier(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="See `aaggff data list`.")],
    methods: Annotated[
        str,
        typer.Option(
            metavar="A,B,...",
            help="Methods; options in a name stay fixed: qfedavg:step=plain. all: what can be run.",
        ),
    ] = "all",
    grid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="K=V,V,...",
            help="Values of a dial (strength, q, lam, baseline, gamma, epsilon or any other "
            "option) for the methods that have it; repeatable.",
        ),
    ] = None,
    seeds: Annotated[
        str, typer.Option(metavar="N,N-N", help="Seeds; each is one split and one first model.")
    ] = "2,4,6",
    rounds: Annotated[int | None, typer.Option(help="Rounds [those of the data set].")] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="K=V", help="As in `aaggff compare`; repeatable."),
    ] = None,
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
    latex: Annotated[bool, typer.Option("--latex", help="Print LaTeX.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    workers: Annotated[int | None, typer.Option(help="Processes [the cores].")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where data sets lie [AAGGFF_DATA].")
    ] = None,
    stand_in: Annotated[
        bool, typer.Option("--stand-in", help="A made-up likeness of the data.")
    ] = False,
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
