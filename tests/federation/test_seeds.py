"""Randomness follows from what it is for: never from who asks, or when, or beside whom."""

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from aaggff.federation.seeds import derive, generator, numpy_generator, permutation, permutations


def test_seeds_differ_in_every_part():
    seeds = {
        derive(seed, round, client, purpose)
        for seed in range(6)
        for round in range(6)
        for client in range(6)
        for purpose in ("shuffle", "model", "sampling")
    }
    assert len(seeds) == 6 * 6 * 6 * 3
    assert all(0 <= seed < 2**64 for seed in seeds)
    assert derive(1, 23, 4, "x") != derive(12, 3, 4, "x")


def test_they_are_the_same_for_ever():
    """A run's configuration is all one needs to repeat it: these must never change."""
    assert derive(2, 3, 4, "shuffle") == 14756186462278618266
    assert permutation(2, 3, 4, 8).tolist() == [5, 6, 4, 0, 7, 2, 1, 3]
    assert numpy_generator(0, 1, 2, "x").integers(0, 1000, 3).tolist() == [750, 611, 58]
    assert generator(0, 1, 2, "x").initial_seed() == derive(0, 1, 2, "x") >> 1


@pytest.mark.parametrize("sizes", [[7, 7, 7], [5, 1, 12, 3]], ids=["alike", "unlike"])
def test_a_clients_order_does_not_depend_on_who_else_is_asked(sizes):
    clients = np.array([3, 1_499_999, 2**40, 0][: len(sizes)])
    ends = np.cumsum(sizes)
    together = np.split(permutations(9, 4, clients, np.array(sizes), epoch=2), ends[:-1])
    for client, size, order in zip(clients, sizes, together):
        assert sorted(order.tolist()) == list(range(size))
        assert order.tolist() == permutation(9, 4, int(client), size, epoch=2).tolist()
    backwards = permutations(9, 4, clients[::-1].copy(), np.array(sizes[::-1]), epoch=2)
    assert np.split(backwards, np.cumsum(sizes[::-1])[:-1])[0].tolist() == together[-1].tolist()


def test_orders_change_with_seed_round_client_and_epoch():
    orders = {
        tuple(permutation(seed, round, client, 30, epoch).tolist())
        for seed in range(3) for round in range(3) for client in range(3) for epoch in range(3)
    }  # fmt: skip
    assert len(orders) == 81


def test_every_order_is_as_likely_as_another():
    """All 24 orders of 4 samples, over clients and over rounds; and each place of 50 samples."""
    for orders in (
        permutations(1, 1, np.arange(24_000), np.full(24_000, 4)).reshape(-1, 4),
        np.array([permutation(1, round, 0, 4) for round in range(24_000 // 4)]),
    ):
        _, counts = np.unique(orders, axis=0, return_counts=True)
        assert len(counts) == 24
        assert stats.chisquare(counts).pvalue > 1e-4
    orders = permutations(1, 2, np.arange(10_000), np.full(10_000, 50)).reshape(-1, 50)
    table = np.array([np.bincount(column, minlength=50) for column in orders.T])
    assert stats.chisquare(table.ravel()).pvalue > 1e-4


def test_neighbours_are_unrelated():
    """The orders of clients k and k + 1, of rounds t and t + 1: no correlation of places."""
    by_client = permutations(5, 1, np.arange(2_000), np.full(2_000, 40)).reshape(-1, 40)
    by_round = np.array([permutation(5, t, 3, 40) for t in range(2_000)])
    for orders in (by_client, by_round):
        one, other = orders[:-1].ravel() - 19.5, orders[1:].ravel() - 19.5
        correlation = (one * other).mean() / (one**2).mean()
        assert abs(correlation) < 5 / np.sqrt(one.size)


SCRIPT = """
import torch
from aaggff.data.digits import load
from aaggff.federation.federation import Federation
f = Federation(load(clients=6), "mlp", "aaggff-d", per_round=3, seed=4,
               model_options={"hidden": 8, "dropout": 0.2}, executor="EXECUTOR", workers=2)
for _ in range(3):
    f.step()
f.close()
print(torch.cat([p.detach().reshape(-1) for p in f.model.parameters()]).double().sum().item().hex())
"""


def test_another_process_gives_the_same_model():
    """Whatever Python's hash seed, the threads allowed, or the executor."""
    found = set()
    for hashes, threads, executor in (("1", "1", "sequential"), ("2", "2", "processes")):
        environment = os.environ | {"PYTHONHASHSEED": hashes, "OMP_NUM_THREADS": threads}
        script = SCRIPT.replace("EXECUTOR", executor)
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(done.stdout)
    assert len(found) == 1
    assert float.fromhex(found.pop()) != 0
