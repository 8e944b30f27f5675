"""A client is not trusted: whatever is reported, the weights are finite and sum to 1.

Who sent something that cannot be a loss is set aside for the round, by name and with the reason;
the others go on, and the client is heard again as soon as it makes sense.
"""

import math

import aaggff

ids, sizes = ["Oslo", "Bergen", "Tromso", "Bodo"], [120, 80, 60, 40]
for method in aaggff.methods():
    if method == "fedmgda":
        continue  # needs the clients' updates as well; see docs/decision-makers.md
    options = {"step": "plain"} if method == "qfedavg" else {}
    maker = aaggff.decision_maker(method, clients=4, **options)
    maker.decide(ids, [0.4, 0.5, 0.6, 0.7], sizes)
    weights = maker.decide(ids, [0.4, math.nan, -3.0, math.inf], sizes)
    assert weights.tolist() == [1.0, 0.0, 0.0, 0.0]
    named = maker.last.set_aside
    weights = maker.decide(ids, [0.4, 0.5, 0.6, 1e300], sizes)
    assert abs(weights.sum() - 1) < 1e-12
    assert (weights >= 0).all()
    print(f"{method:<9} set aside {named}; then {weights.round(2).tolist()}")
