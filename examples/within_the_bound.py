"""The theorem holds: regret against the best fixed weights, certified, below the paper's bound.

The worst-off client changes twice, so that no fixed weights are good all the time.
"""

import numpy as np

import aaggff

rng = np.random.default_rng(3)
maker = aaggff.track_regret(aaggff.decision_maker("aaggff-s", clients=6))
for t in range(1, 301):
    losses = rng.uniform(0.2, 0.6, size=6)
    losses[t // 101] += 1.0
    maker.decide(list(range(6)), losses, [10] * 6)
    if t % 100 == 0:
        found = maker.regret
        assert found.value <= found.bound
        print(f"round {t}: regret {found.value:.3f}, at most {found.bound:.3f} by theorem 1")
