"""Run directories in the documented format, made from a random generator: any size, any oddity."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from aaggff import fairness

METHODS = ("fedavg", "uniform", "aaggff-d")


def write_run(
    directory: Path,
    *,
    method: str = "fedavg",
    seed: int = 2,
    clients: int = 12,
    per_round: int | None = None,
    rounds: int = 20,
    every: int = 5,
    names: list[str] | None = None,
    missing: tuple[int, ...] = (),
    finished: bool = True,
    stand_in: bool = False,
) -> Path:
    """One run whose clients get slowly better, the later methods more evenly."""
    rng = np.random.default_rng([seed, sum(method.encode())])
    directory.mkdir(parents=True)
    (directory / "config.toml").write_text(
        f'dataset = "made"\nmethod = "{method}"\nseed = {seed}\nrounds = {rounds}\nlr = 0.1\n'
    )
    skill = rng.uniform(0.3, 0.9, clients)
    sizes = rng.integers(5, 60, clients)
    with (
        (directory / "rounds.jsonl").open("w") as record,
        (directory / "clients.jsonl").open("w") as people,
    ):
        for t in range(1, rounds + 1):
            asked = np.arange(clients) if per_round is None else rng.choice(clients, per_round)
            losses = -np.log(skill[asked])
            weights = losses / losses.sum()
            line: dict[str, object] = {
                "round": t,
                "clients": asked.tolist(),
                "losses": losses.tolist(),
                "sizes": sizes[asked].tolist(),
                "weights": weights.tolist(),
                "responses": None,
                "set_aside": {},
                "dropped": [],
                "step": 1.0,
                "objective": float(weights @ losses),
                "entropy": float(-(weights * np.log(weights)).sum()),
                "effective_clients": float(np.exp(-(weights * np.log(weights)).sum())),
                "kl_from_size": 0.1,
                "lr": 0.1,
                "seconds": 0.01,
            }
            if t % every == 0:
                values = np.clip(skill + 0.1 * t / rounds, 0, 1)
                values[list(missing)] = np.nan
                loss = -np.log(np.clip(skill, 1e-3, 1))
                line["regret"] = 0.1 * np.sqrt(t)
                line["regret_bound"] = 2.0 * np.sqrt(t)
                line["metric"] = {
                    key: None if value != value else value
                    for key, value in fairness.summary(100 * values, sizes).items()
                }
                line["loss"] = fairness.summary(loss, sizes, larger_is_better=False)
                evaluation = {
                    "round": t,
                    "sizes": sizes.tolist(),
                    "top1": [None if v != v else v for v in values.tolist()],
                    "loss": loss.tolist(),
                }
                if t == every:
                    evaluation["names"] = names or [f"client {i}" for i in range(clients)]
                people.write(json.dumps(evaluation) + "\n")
            record.write(json.dumps(line) + "\n")
    if finished:
        done = {"version": "0.1.0", "rounds": rounds, "seconds": 1.5, "metric": "top1"}
        (directory / "done.json").write_text(json.dumps(done | {"stand_in": stand_in}))
    return directory


def write_comparison(root: Path, *, seeds: tuple[int, ...] = (2, 4, 6), **options: object) -> Path:
    """`root`/METHOD/seed-N for a few methods."""
    for method in METHODS:
        for seed in seeds:
            write_run(root / method / f"seed-{seed}", method=method, seed=seed, **options)  # type: ignore[arg-type]
    return root
