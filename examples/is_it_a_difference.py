"""A difference is marked only if it is one: Heart, twelve paired seeds, FedAvg against AAggFF-S.

The worst hospital's loss falls under every seed, so that even Holm's correction leaves it standing;
the average AUROC goes up under some seeds and down under others, and is not marked.
"""

from aaggff.experiments.compare import compare

methods = ["fedavg", "aaggff-s"]
found = compare("heart", methods, seeds=range(1, 13), workers=1)
tests = found.differences()["fedavg"]
for measure, title in (("avg", "average AUROC, points"), ("loss_worst", "worst hospital's loss")):
    difference = tests[measure]["aaggff-s"]
    mark = "differs" if difference.significant() else "no evidence"
    print(
        f"{title:<24}{difference.mean:+.3f} ({difference.low:+.3f} to {difference.high:+.3f}), "
        f"p {difference.corrected:.2g} after Holm over {found.tests()} tests: {mark}"
    )
