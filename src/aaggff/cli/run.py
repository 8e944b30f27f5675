"""`aaggff run`: train one federation, watch it, keep its record."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from aaggff.errors import UserError

app = typer.Typer(rich_markup_mode=None, add_completion=False)

EXAMPLES = """\b
Examples:
  aaggff run heart
  aaggff run heart --method qfedavg --set q=5 --seed 4 --out runs/q5
  aaggff run celeba --stand-in --method aaggff-d --per-round 10 --rounds 300
  aaggff run digits --model mlp --set model.hidden=32 --server-optimizer adam
  aaggff run synthetic --set data.clients=1500000 --per-round 5 --rounds 50
  aaggff run --config runs/q5/config.toml        the same run again
  aaggff run --resume runs/q5                    go on where it stopped
"""

TRAINING = "Local training"
SERVER = "Server"
MACHINE = "This machine"
RECORD = "Record"


def _option(help: str, panel: str | None = None, **more: Any) -> Any:
    return typer.Option(help=help, rich_help_panel=panel, **more)


@app.command(epilog=EXAMPLES)
def run(
    dataset: Annotated[
        str | None, typer.Argument(metavar="DATASET", help="See `aaggff data list`.")
    ] = None,
    method: Annotated[
        str | None,
        _option(
            "Decision maker, see `aaggff methods` [aaggff-s; aaggff-d where clients are sampled].",
            metavar="NAME",
        ),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="K=V",
            help="An option of the method (q=5), data (data.variant=flamby), model "
            "(model.hidden=64) or server optimiser (server.lr=0.01); repeatable.",
        ),
    ] = None,
    rounds: Annotated[int | None, _option("Rounds in all.")] = None,
    seed: Annotated[int | None, _option("Of split, first model, sampling and batches [0].")] = None,
    out: Annotated[
        Path | None,
        _option("Run directory, a new one [runs/DATASET-METHOD-seed-N].", metavar="DIR"),
    ] = None,
    resume: Annotated[
        Path | None, _option("Continue the run in this directory.", metavar="DIR")
    ] = None,
    config: Annotated[
        Path | None, _option("Settings from a TOML file; flags and --set win.", metavar="FILE")
    ] = None,
    per_round: Annotated[
        str | None,
        _option(
            "Clients a round: a number (5), a rate (0.1) or 'everybody'.", SERVER, metavar="N|RATE"
        ),
    ] = None,
    server_optimizer: Annotated[
        str | None,
        _option(
            "sgd, momentum, adam, yogi or adagrad [sgd: apply the mix].", SERVER, metavar="NAME"
        ),
    ] = None,
    drop_out: Annotated[
        float | None, _option("Probability that an asked client never answers.", SERVER)
    ] = None,
    slow: Annotated[
        float | None, _option("Share of the slowest clients that is not waited for.", SERVER)
    ] = None,
    model: Annotated[
        str | None, _option("By name, or your own as package.module:factory.", metavar="NAME")
    ] = None,
    lr: Annotated[float | None, _option("Clients' learning rate.", TRAINING)] = None,
    decay: Annotated[
        float | None, _option("What lr is multiplied by every --decay-every rounds.", TRAINING)
    ] = None,
    decay_every: Annotated[int | None, _option("See --decay.", TRAINING)] = None,
    batch_size: Annotated[int | None, _option("Samples a step.", TRAINING)] = None,
    epochs: Annotated[int | None, _option("Passes over a client's samples.", TRAINING)] = None,
    steps: Annotated[int | None, _option("Steps, instead of epochs.", TRAINING)] = None,
    momentum: Annotated[float | None, _option("Of local SGD.", TRAINING)] = None,
    weight_decay: Annotated[float | None, _option("Of local SGD.", TRAINING)] = None,
    clip: Annotated[float | None, _option("Largest gradient norm.", TRAINING)] = None,
    prox: Annotated[
        float | None, _option("FedProx's mu (its authors' is 1e-3).", TRAINING, metavar="MU")
    ] = None,
    executor: Annotated[
        str | None, _option("auto, sequential, batched or processes.", MACHINE, metavar="NAME")
    ] = None,
    workers: Annotated[int | None, _option("Processes, for --executor processes.", MACHINE)] = None,
    device: Annotated[str | None, _option("cpu, cuda, cuda:N or mps.", MACHINE)] = None,
    engine: Annotated[
        str | None, _option("local, or flower: Flower's simulation.", MACHINE, metavar="NAME")
    ] = None,
    data_dir: Annotated[
        Path | None, _option("Where data sets lie [AAGGFF_DATA].", MACHINE, metavar="DIR")
    ] = None,
    stand_in: Annotated[
        bool | None, typer.Option("--stand-in", help="A made-up likeness of the data.")
    ] = None,
    skip_corrupt: Annotated[
        bool, typer.Option("--skip-corrupt", help="Leave out unreadable images, and count them.")
    ] = False,
    evaluate_every: Annotated[
        int | None, _option("Rounds between evaluations [1/20 of all].", RECORD)
    ] = None,
    evaluate_clients: Annotated[
        int | None,
        _option("Evaluate a fixed sample of so many clients [all; 2000 if over 20000].", RECORD),
    ] = None,
    checkpoint_every: Annotated[
        int | None, _option("Rounds between checkpoints [1/10 of all].", RECORD)
    ] = None,
    tensorboard: Annotated[
        Path | None, _option("Also write TensorBoard's files there.", RECORD, metavar="DIR")
    ] = None,
    mlflow: Annotated[bool, typer.Option("--mlflow", help="Also log to MLflow.")] = False,
) -> None:
    """Train one federation, watch it, and keep its record in a directory.

    What is not given comes from --set, then --config, then the settings the data set is
    published with. The same settings give the same result, to the bit.
    """
    from aaggff.cli.options import number_or_rate, run_config

    flags: dict[str, Any] = {
        "method": method,
        "rounds": rounds,
        "seed": seed,
        "per_round": None if per_round is None else number_or_rate(per_round),
        "server_optimizer": server_optimizer,
        "drop_out": drop_out,
        "slow": slow,
        "model": model,
        "lr": lr,
        "decay": decay,
        "decay_every": decay_every,
        "batch_size": batch_size,
        "epochs": epochs,
        "steps": steps,
        "momentum": momentum,
        "weight_decay": weight_decay,
        "clip": clip,
        "prox": prox,
        "executor": executor,
        "workers": workers,
        "device": device,
        "engine": engine,
        "data_dir": None if data_dir is None else str(data_dir),
        "stand_in": stand_in,
        "evaluate_every": evaluate_every,
        "evaluate_clients": evaluate_clients,
        "checkpoint_every": checkpoint_every,
    }
    given = list(sets or []) + (["data.skip_corrupt=true"] if skip_corrupt else [])
    if resume is not None:
        if out is not None or config is not None:
            raise UserError(
                "--resume takes the run's own directory and settings: leave out --out and --config"
            )
        config = resume / "config.toml"
        if not config.exists():
            raise UserError(f"--resume {resume}: there is no run there (no config.toml)")
    if skip_corrupt and dataset is not None:
        _check_skippable(dataset)
    settings = run_config(dataset, file=config, sets=given, flags=flags)

    from aaggff.cli.watch import watch

    watch(settings, out, resume=resume, tensorboard=tensorboard, mlflow=mlflow)


def _check_skippable(dataset: str) -> None:
    from aaggff.data import dataset_spec

    if "skip_corrupt" not in dataset_spec(dataset).options:
        raise UserError(f"--skip-corrupt: {dataset} has no files that could be skipped one by one")
