"""Peak memory: with the clients sampled, and with the clients there are.

.venv/bin/python bench/memory.py [--quick]

Each figure is the largest resident memory of a process of its own, from beginning to end. Five
clients a round and fifty: at most one model more, since updates are mixed one at a time; FedMGDA+
looks at all of a round's updates and stands beside it. And 1,500,000 clients, 3,000 rounds, five a
round, as one types it: `aaggff run synthetic --set data.clients=1500000 ...`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

SAMPLED = """
import json, resource, sys
import torch
from aaggff.data.memory import ArrayData
from aaggff.federation.data import Task
from aaggff.federation.federation import Federation
from aaggff.federation.local import LocalTraining

clients, method, executor = int(sys.argv[1]), sys.argv[2], sys.argv[3]
task = Task("tokens", 10_000, "top1")
parts = [(torch.randint(1, 10_000, (4, 10)), torch.randint(1, 10_000, (4, 10))) for _ in range(60)]
federation = Federation(
    ArrayData("made", task, parts, parts), "stackedlstm", method, per_round=clients,
    local=LocalTraining(lr=0.1, batch_size=4), executor=executor, workers=2,
)
for _ in range(2):
    federation.step()
federation.close()
kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([kilobytes / 1024, federation._flat.size * 4 / 2**20]))
"""
RUN = """
import resource, sys
from aaggff.cli.app import app
try:
    app(sys.argv[1:])
finally:
    print("PEAK", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, flush=True)
"""
CASES = (("fedavg", "sequential"), ("aaggff-d", "processes"), ("fedmgda", "sequential"))


def megabytes(clients: int, method: str, executor: str) -> tuple[float, float]:
    """Peak of a process that trains, and what a model takes."""
    given = [sys.executable, "-c", SAMPLED, str(clients), method, executor]
    peak, model = json.loads(subprocess.run(given, check=True, capture_output=True).stdout)
    return peak, model


def gigabytes(clients: int, rounds: int, directory: Path) -> float:
    """Peak of `aaggff run synthetic` with so many clients."""
    options = ["run", "synthetic", "--set", f"data.clients={clients}", "--rounds", str(rounds)]
    options += ["--per-round", "5", "--out", str(directory / str(clients))]
    given = [sys.executable, "-c", RUN, *options]
    said = subprocess.run(given, check=True, capture_output=True, text=True).stdout
    finished = json.loads((directory / str(clients) / "done.json").read_text())
    assert finished["rounds"] == rounds
    return float(said.split("PEAK")[1])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="300 rounds instead of 3,000")
    rounds = 300 if parser.parse_args().quick else 3_000
    good = True
    print("stackedlstm, MiB" + f"{'5':>22}{'50':>10}{'more':>10}{'in models':>12}   required")
    for method, executor in CASES:
        (few, model), (many, _) = (megabytes(n, method, executor) for n in (5, 50))
        more = (many - few) / model
        line = f"{f'{method}, {executor}':<26}{few:>12.0f}{many:>10.0f}"
        line += f"{many - few:>10.1f}{more:>12.2f}"
        if method == "fedmgda":
            print(f"{line}   none: holds them all")
            continue
        good &= more <= 1
        print(f"{line}   <= 1   {'ok' if more <= 1 else 'NOT'}")
    print(f"\nsynthetic, 5 a round, {rounds:,} rounds{'GiB':>12}   required")
    with tempfile.TemporaryDirectory() as directory:
        for clients in (1_000, 1_500_000):
            peak = gigabytes(clients, rounds, Path(directory))
            line = f"{f'K = {clients:,}':<30}{peak:>18.2f}"
            if clients > 1_000:
                good &= peak <= 1.5
                line += f"   <= 1.5   {'ok' if peak <= 1.5 else 'NOT'}"
            print(line)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
