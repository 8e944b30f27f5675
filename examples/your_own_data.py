"""Your own data and model: arrays and who they belong to are enough for a federation."""

import numpy as np

import aaggff

rng = np.random.default_rng(4)
hospital = np.repeat(["north", "south", "coast"], [800, 600, 200])
shift = {"north": 0.0, "south": 0.3, "coast": -2.0}
x = rng.normal(size=(1600, 5)).astype(np.float32)
turned = x[:, 0] + np.array([shift[name] for name in hospital]) * x[:, 1]
y = (turned + 0.5 * rng.normal(size=1600) > 0).astype(int)

data = aaggff.from_arrays(x, y, clients=hospital)
for method in ("fedavg", "aaggff-s"):
    federation = aaggff.Federation(data, model="logistic", decision_maker=method, seed=2)
    losses = federation.run(rounds=60).loss_summary()
    print(f"{method:<9} test loss {losses['avg']:.3f}, worst client {losses['worst_client']:.3f}")
