"""How long the command line takes to answer, beside the least it could: python and numpy alone.

.venv/bin/python bench/start.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(sys.executable).parent
REPEATS = 9
COMMANDS: dict[str, list[str]] = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "python -c 'import numpy'": [sys.executable, "-c", "import numpy"],
    "python -c 'import torch'": [sys.executable, "-c", "import torch"],
    "python -c 'import aaggff'": [sys.executable, "-c", "import aaggff"],
    "aaggff --help": [str(HERE / "aaggff"), "--help"],
    "aaggff run --help": [str(HERE / "aaggff"), "run", "--help"],
    "aaggff methods": [str(HERE / "aaggff"), "methods"],
}
# command -> (seconds at most, times `import numpy` at most)
REQUIRED = {"python -c 'import aaggff'": (0.25, 2.5), "aaggff --help": (0.4, 4.0)}


def seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> int:
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for command in COMMANDS.values():
        seconds(command)  # once unseen, so that files are cached for all alike
    for _ in range(REPEATS):  # taking turns, so that a busy moment falls on all
        for name, command in COMMANDS.items():
            taken[name].append(seconds(command))
    median = {name: statistics.median(times) for name, times in taken.items()}
    numpy = median["python -c 'import numpy'"]
    print(f"{'median of ' + str(REPEATS):<28}{'seconds':>9}{'x numpy':>9}   required")
    good = True
    for name, value in median.items():
        line = f"{name:<28}{value:9.3f}{value / numpy:9.2f}"
        if name in REQUIRED:
            limit, times = REQUIRED[name]
            fine = value <= limit and value <= times * numpy
            good &= fine
            line += f"   <= {limit} s and <= {times:g} x: {'ok' if fine else 'NOT'}"
        print(line)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
