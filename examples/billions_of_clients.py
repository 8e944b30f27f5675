"""AAggFF-D is the paper's formula exactly, and nothing in it has the size of the federation.

First the formula as it is printed, with vectors over all K clients, beside the decision maker: the
same weights. Then three billion clients: the state holds those ever heard, and no one else.
"""

import math

import numpy as np

import aaggff
from aaggff.decision.responses import CdfResponse

rng = np.random.default_rng(1)
K, n, rounds = 50, 10, 200
C = n / K
maker = aaggff.decision_maker("aaggff-d", clients=K, rate=C, cdf="normal")
respond = CdfResponse("normal", high=C)
bound = C + 2 * C / C  # L~ of theorem 2 for responses in [0, C]
gradients, furthest = np.zeros(K), 0.0
for t in range(1, rounds + 1):
    asked = rng.choice(K, n, replace=False)
    losses = rng.exponential(size=n)
    r = respond(losses)
    mean = r.mean()
    doubly_robust = np.full(K, mean)
    doubly_robust[asked] += (r - mean) / C  # eq. 10
    gradients -= doubly_robust / (1 + mean)  # eqs. 11 and 12, but for what all clients share
    exponent = -math.sqrt(math.log(K)) * gradients / (bound * math.sqrt(t + 1))
    p = np.exp(exponent - exponent.max())[asked]  # eqs. 14 and 16
    weights = maker.decide(asked.tolist(), losses, np.ones(n))
    furthest = max(furthest, float(np.abs(weights - p / p.sum()).max()))
print(f"furthest from the printed formula in {rounds} rounds: {furthest:.0e}")
assert furthest < 1e-12

maker = aaggff.decision_maker("aaggff-d", clients=3_000_000_000, rate=100 / 3_000_000_000)
for _ in range(20):
    ids = rng.integers(0, 3_000_000_000, 100).tolist()
    weights = maker.decide(ids, rng.exponential(size=100), np.ones(100))
held = sum(array.nbytes for array in maker.state_dict().values())
print(f"3,000,000,000 clients, 20 rounds of 100: a state of {held / 1000:.0f} kB")
