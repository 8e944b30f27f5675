"""Are marks honest? FedAvg against FedAvg under other seeds: how often is it "different"?

.venv/bin/python bench/null.py [REPETITIONS]

Every repetition compares two groups of ten seeds that no other repetition uses, so they are
independent: 200 of them are 4,000 federations on Heart, 20 rounds each. Both groups are the same
method, so whatever is found is a false alarm. Counted are single tests at 5 %, and tables of all
seven measures in which Holm's correction leaves any mark, each with its 95 % binomial interval.
"""

from __future__ import annotations

import sys

from scipy.stats import binomtest

from aaggff.experiments.compare import MEASURES
from aaggff.experiments.jobs import Job, Outcome, work
from aaggff.experiments.pool import Pool, cores
from aaggff.experiments.statistics import paired
from aaggff.federation.config import RunConfig

SEEDS, ROUNDS, LEVEL = 10, 20, 0.05
FIRST = 1_000
"""Seeds from here on, so that none is one that results are shown of."""


def group(number: int) -> list[Outcome]:
    """FedAvg under the `number`-th ten seeds."""
    seeds = range(FIRST + number * SEEDS, FIRST + (number + 1) * SEEDS)
    settings = {"method": "fedavg", "rounds": ROUNDS, "evaluate_every": ROUNDS}
    settings["track_regret"] = False
    configs = [RunConfig.for_dataset("heart", seed=seed, **settings) for seed in seeds]
    return [work(Job("fedavg", config), lambda _: None) for config in configs]


def p_values(number: int, tell: object) -> dict[str, tuple[float, float]]:
    """One repetition: p of each measure, before and after Holm's correction over the seven."""
    columns = {
        measure.key: {
            name: [getattr(each, measure.source)[measure.entry] for each in outcomes]
            for name, outcomes in groups.items()
        }
        for groups in [{"fedavg": group(2 * number), "again": group(2 * number + 1)}]
        for measure in MEASURES
    }
    found = paired(columns, ["fedavg"])["fedavg"]
    return {key: (each["again"].p, each["again"].corrected) for key, each in found.items()}


def main(repetitions: int = 200) -> int:
    with Pool(p_values, cores()) as pool:
        found = [each for _, each in pool.run(list(range(repetitions)))]
    counts = {
        f"{measure.title}, p < {LEVEL:g}": sum(each[measure.key][0] < LEVEL for each in found)
        for measure in MEASURES
    }
    counts["any of the seven, after Holm"] = sum(
        any(corrected < LEVEL for _, corrected in each.values()) for each in found
    )
    print(f"FedAvg against FedAvg: {repetitions} repetitions of {SEEDS} paired seeds each")
    print(f"{'false alarms':<32}{'count':>6}{'share':>8}{'95 % interval':>18}   at most 5 %")
    good = True
    for name, count in counts.items():
        interval = binomtest(count, repetitions).proportion_ci()
        low, high = 100 * interval.low, 100 * interval.high
        holds = interval.low <= LEVEL
        good &= holds
        print(
            f"{name:<32}{count:>6}{100 * count / repetitions:>7.1f}%"
            f"{f'{low:.1f} to {high:.1f} %':>18}   {'ok' if holds else 'NOT'}"
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
