"""`aaggff compare heart`, all nine methods, 200 rounds: how long it takes, and what it finds.

.venv/bin/python bench/compare.py [--quick]

Three seeds and thirty, each on two processes and, beside that, on one; then the thirty again, of
which nothing may be run. --quick leaves the thirty out. Bounds hold for a machine of two cores
that does nothing else: the load before is printed.
"""

from __future__ import annotations

import csv
import io
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

AAGGFF = Path(sys.executable).with_name("aaggff")
METHODS, ROUNDS = 9, 200
BOUNDS = {3: 30.0, 30: 180.0}
"""Seconds at most, by seeds."""


def compare(place: Path, seeds: str, *options: str) -> tuple[float, float, str, str]:
    """Seconds by the clock, seconds of CPU if nothing was handed to workers, output, progress."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [AAGGFF, "compare", "heart", "--seeds", seeds, "--out", place, "--csv", *options],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    took = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return took, cpu, done.stdout, done.stderr


def found(text: str) -> dict[tuple[str, str], dict[str, str]]:
    return {(row["method"], row["measure"]): row for row in csv.DictReader(io.StringIO(text))}


def timed(place: Path, full: bool) -> list[tuple[str, str, str, bool]]:
    """A row a figure: what, measured, required, whether it holds."""
    rows = []
    took, _, two, _ = compare(place / "two", "2,4,6", "--workers", "2")
    rows.append(("3 seeds, two processes", f"{took:.1f} s", "at most 30 s", took <= BOUNDS[3]))
    alone, cpu, one, _ = compare(place / "one", "2,4,6", "--workers", "1")
    per_run = f"{1000 * cpu / (3 * METHODS):.0f} ms of CPU a run of {ROUNDS} rounds"
    rows.append(("3 seeds, one process", f"{alone:.1f} s", per_run, True))
    rows.append(("  one over two", f"{alone / took:.2f}", "mostly start-up", True))
    rows.append(
        ("the same numbers", "yes" if one == two else "no", "to the last digit", one == two)
    )
    if not full:
        return rows
    took, _, text, _ = compare(place / "thirty", "1-30", "--workers", "2")
    rows.append(("30 seeds, two processes", f"{took:.1f} s", "at most 180 s", took <= BOUNDS[30]))
    alone, _, one, _ = compare(place / "thirty-alone", "1-30", "--workers", "1")
    rows.append(("30 seeds, one process", f"{alone:.1f} s", "", True))
    rows.append(("  one over two", f"{alone / took:.2f}", "above 1", alone > took))
    rows.append(("  the same numbers", "yes" if one == text else "no", "", one == text))
    again, _, repeated, said = compare(place / "thirty", "1-30", "--workers", "2")
    every = f"{30 * METHODS} of {30 * METHODS} runs were there already"
    idle = every in said and repeated == text
    rows.append(("the same again", f"{again:.1f} s", "nothing is run", idle))
    return rows + significance(found(text))


def significance(table: dict[tuple[str, str], dict[str, str]]) -> list[tuple[str, str, str, bool]]:
    worst, auroc = table["aaggff-s", "loss_worst"], table["aaggff-s", "avg"]
    p, none = float(worst["vs_fedavg_p_holm"]), float(auroc["vs_fedavg_p_holm"])
    lower = (
        100 * -float(worst["vs_fedavg_difference"]) / float(table["fedavg", "loss_worst"]["mean"])
    )
    apart = float(auroc["vs_fedavg_difference"])
    ends = float(auroc["vs_fedavg_low"]), float(auroc["vs_fedavg_high"])
    return [
        ("worst client's loss, AAggFF-S less FedAvg, p", f"{p:.0e}", "below 1e-6", p < 1e-6),
        ("  lowered by", f"{lower:.0f} %", "", True),
        ("average AUROC, AAggFF-S less FedAvg, p", f"{none:.2g}", "at least 0.05", none >= 0.05),
        ("  apart, points", f"{apart:+.2f}", f"{ends[0]:+.2f} to {ends[1]:+.2f}", True),
    ]  # fmt: skip


def main() -> int:
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"load before: {load} on {len(os.sched_getaffinity(0))} cores (p after Holm, 105 tests)")
    with tempfile.TemporaryDirectory() as place:
        rows = timed(Path(place), full="--quick" not in sys.argv)
    for name, measured, required, good in rows:
        print(f"{name:<46}{measured:>10}   {required:<36}{'ok' if good else 'NOT'}")
    return 0 if all(good for *_, good in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
