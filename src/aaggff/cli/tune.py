"""`aaggff tune`: options chosen on seeds of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aaggff.cli.shared_options import (
    DataDir,
    Dataset,
    MethodsToVary,
    Rounds,
    Sets,
    StandIn,
    Workers,
)

app = typer.Typer(rich_markup_mode=None, add_completion=False)

EXAMPLES = """\b
Examples:
  aaggff tune heart
  aaggff tune heart --method qfedavg --grid q=0.1,1,5,10 --metric worst
  aaggff tune heart --metric 0.7*avg+0.3*worst --seeds 100-104 --out tuned.toml
  aaggff tune celeba --stand-in --halving
  aaggff tune heart --out tuned.toml && aaggff compare heart --tuned tuned.toml
"""


@app.command(epilog=EXAMPLES)
def tune(
    dataset: Dataset,
    methods: MethodsToVary = "all",
    grid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="K=V,V,...",
            help="Values to try, instead of the paper's, of every method that has the option; "
            "repeatable, then every combination.",
        ),
    ] = None,
    metric: Annotated[
        str,
        typer.Option(
            help="avg, worst, best, gini, gap, loss_avg, loss_worst, or a mix: 0.7*avg+0.3*worst."
        ),
    ] = "avg",
    seeds: Annotated[
        str, typer.Option("--seeds", "--seed", metavar="N,N-N", help="None that is compared later.")
    ] = "0",
    halving: Annotated[
        bool,
        typer.Option(
            "--halving", help="Sort the worst two thirds out early, for a third of the time."
        ),
    ] = False,
    rounds: Rounds = None,
    sets: Sets = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What is chosen, for compare --tuned [RUNS/tuned.toml]."),
    ] = None,
    runs: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where runs are kept [runs/tune-DATASET...]; what is done is not done again.",
        ),
    ] = None,
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Every trial's numbers; - for stdout.")
    ] = None,
    workers: Workers = None,
    data_dir: DataDir = None,
    stand_in: StandIn = False,
) -> None:
    """Choose methods' options on a separate seed, by the paper's grids or your own.

    A file given as --out keeps the methods it has, if they were tuned in the same way.
    """
    from aaggff.cli.words import gather_settings, parse_grid, parse_methods, parse_seeds

    chosen = None if methods.strip() == "all" else parse_methods(methods)
    every = parse_seeds(seeds)
    values = parse_grid(grid or [])
    from aaggff.experiments import compare as experiment
    from aaggff.experiments.objective import parse_objective
    from aaggff.experiments.pool import warm_up

    tuned_for = parse_objective(metric).text
    if workers != 1:
        warm_up()
    from aaggff.cli.show import Watch, show
    from aaggff.experiments import tuned_file
    from aaggff.experiments.tune import tune as search
    from aaggff.experiments.tune_table import sheet

    settings = gather_settings(sets, rounds=rounds, data_dir=data_dir, stand_in=stand_in)
    directory = runs or experiment.default_directory(f"tune-{dataset}", settings, {})
    file = out or directory / "tuned.toml"
    way = {"dataset": dataset, "seeds": every, "metric": tuned_for, "settings": settings}
    kept = tuned_file.before(file, way, replaceable=out is None)
    with Watch(by=lambda job: job.config.method, unit="run") as heard:
        found = search(
            dataset,
            chosen,
            grid=values,
            seeds=every,
            metric=metric,
            halving=halving,
            settings=settings,
            out=directory,
            workers=workers,
            heard=heard,
        )
    tuned_file.write(file, found, kept, settings)
    if json == "-":
        typer.echo(experiment.json_text(found.as_json()))
        return
    if json is not None:
        experiment.write_json(Path(json), found.as_json())
    show([sheet(found)])
    typer.echo(f"\nchosen: {file}; aaggff compare {dataset} --tuned {file}")
