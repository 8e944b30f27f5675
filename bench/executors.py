"""Which executor is fastest for which model and cohort, and whether `auto` picks it.

.venv/bin/python bench/executors.py

Milliseconds a round by the clock, the executors taking turns in one process; `processes` has two
workers, which need two idle cores. What `auto` picks must cost at most 1.25 times the fastest.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import torch

from aaggff.data.memory import ArrayData
from aaggff.data.synthetic import load
from aaggff.federation.data import Task
from aaggff.federation.federation import Federation
from aaggff.federation.local import LocalTraining

MOST, TURNS = 1.25, 9


def noise(*shape: int):
    """Data of so many clients with 20 samples of a shape and 3 classes."""

    def made(clients: int) -> ArrayData:
        parts = [(torch.randn(20, *shape), torch.randint(0, 3, (20,))) for _ in range(clients)]
        return ArrayData("noise", Task("multiclass", 3, "top1"), parts, parts)

    return made


def tokens(clients: int) -> ArrayData:
    drawn = [torch.randint(0, 50, (2, 20, 6)) for _ in range(clients)]
    parts = [(x, y) for x, y in drawn]
    return ArrayData("tokens", Task("tokens", 50, "top1"), parts, parts)


CASES = {
    "logistic, 60 inputs": (lambda n: load(clients=n, size_deviation=0.0), "logistic", {}),
    "mlp, 64 hidden": (noise(20), "mlp", {}),
    "mlp with dropout": (noise(20), "mlp", {"hidden": 8, "dropout": 0.1}),
    "convnet, 16 x 16": (noise(3, 16, 16), "convnet", {}),
    "m5, 1100 samples": (noise(1, 1100), "m5", {}),
    "stackedlstm, small": (tokens, "stackedlstm", {"hidden": 32}),
}


def main() -> int:
    print(
        f"{'ms a round':<32}{'clients':>8}{'sequential':>12}{'batched':>10}{'processes':>11}   auto"
    )
    good = True
    for name, (make, model, options) in CASES.items():
        for clients in (2, 10):
            data = make(clients)
            settings = {"model_options": options, "local": LocalTraining(lr=0.1), "workers": 2}
            auto = Federation(data, model, **settings)
            picked = auto.executor.name
            auto.close()
            kinds = ["sequential", "processes"] + (["batched"] if picked == "batched" else [])
            federations = {k: Federation(data, model, executor=k, **settings) for k in kinds}
            times: dict[str, list[float]] = {k: [] for k in kinds}
            for turn in range(TURNS + 1):
                for kind, federation in federations.items():
                    began = time.perf_counter()
                    federation.step()
                    if turn:  # the first one starts processes and reads samples
                        times[kind].append(1e3 * (time.perf_counter() - began))
            for federation in federations.values():
                federation.close()
            median = {k: float(np.median(v)) for k, v in times.items()}
            ok = median[picked] <= MOST * min(median.values())
            good &= ok
            shown = [
                f"{median[k]:.2f}" if k in median else "-"
                for k in ("sequential", "batched", "processes")
            ]
            print(
                f"{name:<32}{clients:>8}{shown[0]:>12}{shown[1]:>10}{shown[2]:>11}   {picked}"
                f"{'' if ok else ': NOT the fastest'}"
            )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
