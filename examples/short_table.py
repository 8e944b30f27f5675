"""A short table for a README or a slide, from a comparison that has been run.

    aaggff compare heart --seeds 1-30 --out heart
    python examples/short_table.py heart heart

The second word is the directory. Every change against FedAvg stands with its 95 % interval over
seeds; a star marks what Wilcoxon's test with Holm's correction, over all that `compare` tests,
leaves standing.
"""

import sys
from pathlib import Path

import numpy as np

from aaggff.experiments.compare import MEASURES, choose, compare
from aaggff.experiments.tables import signed

dataset, directory = sys.argv[1], Path(sys.argv[2])
seeds = sorted(int(run.name.removeprefix("seed-")) for run in (directory / "fedavg").iterdir())
methods = [each for each in choose(dataset, None, {})[0] if (directory / each.label).is_dir()]
found = compare(dataset, methods, seeds, out=directory, workers=1)  # reads what is there
against = found.differences()["fedavg"]
shown = {"avg": "AUROC", "worst": "AUROC, worst", "loss_avg": "loss", "loss_worst": "loss, worst"}
measures = [measure for measure in MEASURES if measure.key in shown]

print(
    "| method | "
    + " | ".join(shown.values())
    + " | AUROC less FedAvg's | worst loss less FedAvg's |"
)
print("|---|" + "---:|" * (len(shown) + 2))
for label in found.outcomes:
    cells = [f"{np.nanmean(found.values(m)[label]):.{m.digits}f}" for m in measures]
    for measure in (measures[0], measures[-1]):
        change = against[measure.key].get(label)
        if change is None:
            cells.append("")
            continue
        ends = " to ".join(signed(end, measure.digits) for end in (change.low, change.high))
        star = r"\*" if change.significant() else ""
        cells.append(f"{signed(change.mean, measure.digits)}{star} ({ends})")
    print(f"| {label} | " + " | ".join(cells) + " |")
print(
    f"\n{len(seeds)} seeds, {found.rounds} rounds; \\* Holm's correction over {found.tests()} tests"
)
