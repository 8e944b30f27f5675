"""Berka's 1,056,320 transactions: our reader against one pass of Python's own csv module.

.venv/bin/python bench/berka.py

A trans.asc of the official size and layout is made up (rows in the official order of columns),
the small tables come with it. Bounds: all features in less than 3 s, and sooner than that pass.
"""

from __future__ import annotations

import csv
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from aaggff.data import berka

ROWS, ACCOUNTS, LOANS = 1_056_320, 4_500, 682
TARGET = 3.0


def write(folder: Path) -> None:
    """The five tables in their official sizes."""
    rng = np.random.default_rng(0)
    lines = {
        "district": ["A1;A2;A3;A4;A5;A6;A7;A8;A9;A10;A11;A12;A13;A14;A15;A16"]
        + [
            f'{d};"Town";"region {d % 8}";50000;0;0;0;1;1;50.0;8000;0.5;1.5;100;1000;2000'
            for d in range(1, 78)
        ],
        "account": ['"account_id";"district_id";"frequency";"date"']
        + [f'{a};{a % 77 + 1};"POPLATEK MESICNE";930101' for a in range(1, ACCOUNTS + 1)],
        "loan": ['"loan_id";"account_id";"date";"amount";"duration";"payments";"status"']
        + [f'{5000 + a};{a};960105;80952;24;3373.00;"A"' for a in range(1, LOANS + 1)],
        "order": ['"order_id";"account_id";"bank_to";"account_to";"amount";"k_symbol"']
        + [f'{a};{a % ACCOUNTS + 1};"YZ";"87144583";2452.00;"SIPO"' for a in range(6_471)],
    }
    for table, rows in lines.items():
        (folder / f"{table}.asc").write_text("\n".join(rows) + "\n")
    who = rng.integers(1, ACCOUNTS + 1, ROWS)
    day = rng.integers(0, 28, ROWS) + 1
    year = rng.integers(93, 99, ROWS)
    cents = rng.integers(100, 9_000_000, (2, ROWS)) / 100
    with (folder / "trans.asc").open("w") as stream:
        stream.write(
            '"trans_id";"account_id";"date";"type";"operation";"amount";"balance";"k_symbol";'
            '"bank";"account"\n'
        )
        for t in range(ROWS):
            stream.write(
                f'{t};{who[t]};{year[t]}05{day[t]:02d};"PRIJEM";"PREVOD Z UCTU";'
                f'{cents[0, t]:.2f};{cents[1, t]:.2f};"DUCHOD";"YZ";{t}\n'
            )


def with_csv(folder: Path) -> int:
    """Number, sum of amounts and sum of balances of each account, in a plain loop."""
    seen: dict[str, list[float]] = {}
    with (folder / "trans.asc").open() as stream:
        for row in csv.DictReader(stream, delimiter=";"):
            sums = seen.setdefault(row["account_id"], [0.0, 0.0, 0.0])
            sums[0] += 1
            sums[1] += float(row["amount"])
            sums[2] += float(row["balance"])
    return len(seen)


def timed(work: object, *arguments: object) -> float:
    begin = time.perf_counter()
    work(*arguments)  # type: ignore[operator]
    return time.perf_counter() - begin


def main() -> int:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write(folder)
        size = (folder / "trans.asc").stat().st_size / 1e6
        rounds = [(timed(berka.features, folder), timed(with_csv, folder)) for _ in range(3)]
    ours, plain = (sorted(times)[1] for times in zip(*rounds))
    print(f"trans.asc: {ROWS:,} rows, {size:.0f} MB; medians of 3")
    print(f"{'all features':<32}{ours:8.2f} s   (bound {TARGET:.0f} s)")
    print(f"{'one pass of the csv module':<32}{plain:8.2f} s")
    print(f"{'ratio':<32}{plain / ours:8.1f} x   (bound 1 x)")
    return 0 if ours < TARGET and ours < plain else 1


if __name__ == "__main__":
    sys.exit(main())
