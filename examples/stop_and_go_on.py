"""Continuing equals never having stopped, bit for bit: the state is a dict of plain arrays."""

import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

import aaggff

rng = np.random.default_rng(2)
losses = rng.exponential(size=(40, 5))
ids, sizes = list(range(5)), [10, 20, 30, 40, 50]

straight = aaggff.decision_maker("aaggff-s", clients=5)
expected = [straight.decide(ids, row, sizes) for row in losses]

first = aaggff.decision_maker("aaggff-s", clients=5)
for row in losses[:20]:
    first.decide(ids, row, sizes)
with tempfile.TemporaryDirectory() as place:
    file = Path(place) / "maker.safetensors"
    save_file({name: np.asarray(value) for name, value in first.state_dict().items()}, file)
    second = aaggff.decision_maker("aaggff-s", clients=5)
    second.load_state_dict(load_file(file))
for row, weights in zip(losses[20:], expected[20:]):
    assert (second.decide(ids, row, sizes) == weights).all()
print("20 rounds, saved, loaded, 20 more: equal to 40 rounds in every bit")
