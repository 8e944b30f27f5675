"""One line in a server of your own: the weights of a round, instead of n_i / n.

Four clients want the same line y = a x + b, but the smallest one's points lie elsewhere. The loop
below is plain federated averaging in numpy; the only line that decides is `maker.decide`.
"""

import numpy as np

import aaggff

rng = np.random.default_rng(0)
sizes = [300, 250, 200, 30]
centres = [(1.0, 0.0), (1.1, 0.1), (0.9, 0.0), (-1.0, 1.5)]  # each client's own (a, b)
data = []
for size, (a, b) in zip(sizes, centres):
    x = rng.uniform(-1, 1, size)
    data.append((np.stack([x, np.ones(size)], axis=1), a * x + b + 0.1 * rng.normal(size=size)))

for method in ("fedavg", "aaggff-s"):
    maker = aaggff.decision_maker(method, clients=4)
    theta = np.zeros(2)
    for _ in range(100):
        losses = [float(np.mean((x @ theta - y) ** 2)) for x, y in data]
        updates = [0.1 * x.T @ (x @ theta - y) / len(y) for x, y in data]
        weights = maker.decide(["a", "b", "c", "d"], losses, sizes)
        theta -= weights @ np.array(updates)
    losses = [float(np.mean((x @ theta - y) ** 2)) for x, y in data]
    print(f"{method:<9} worst client's loss {max(losses):.2f}, mean {np.mean(losses):.2f}")
