"""Digits are dealt out whole, as asked, and the same for a seed."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from aaggff.data.digits import load
from aaggff.data.partition import PARTITIONS
from aaggff.errors import UserError


def everything(data):
    parts = [data.train(k) for k in range(len(data))] + [data.test(k) for k in range(len(data))]
    return torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])


@pytest.mark.parametrize("partition", PARTITIONS)
def test_every_digit_goes_to_exactly_one_client(partition):
    data = load(clients=12, partition=partition, alpha=0.3, seed=5)
    x, y = everything(data)
    pixels, labels = load_digits(return_X_y=True)
    assert len(data) == 12
    assert x.dtype == torch.float32
    assert 0 <= x.min() < x.max() == 1

    def rows(x, y):
        return sorted(map(tuple, np.column_stack([x, y]).tolist()))

    assert rows((16 * x).numpy(), y.numpy()) == rows(pixels, labels)


@pytest.mark.parametrize("labels_each", [1, 3])
def test_by_label_a_client_has_few_classes(labels_each):
    data = load(clients=10, partition="label", labels_each=labels_each)
    classes = [len(torch.cat([data.train(k)[1], data.test(k)[1]]).unique()) for k in range(10)]
    assert np.mean(classes) <= labels_each + 1
    assert max(classes) <= 2 * labels_each + 1


def test_alpha_says_how_unlike_clients_are():
    def unlikeness(alpha):
        data = load(clients=10, alpha=alpha)
        shares = np.array(
            [np.bincount(data.train(k)[1], minlength=10) / data.train_sizes[k] for k in range(10)]
        )
        return np.abs(shares - shares.mean(0)).sum(1).mean()

    assert unlikeness(0.05) > 1.2 > 0.5 > unlikeness(100.0)


def test_who_has_what_follows_from_the_seed():
    assert torch.equal(load(seed=3).train(4)[0], load(seed=3).train(4)[0])
    assert not np.array_equal(load(seed=3).train(4)[1], load(seed=4).train(4)[1])


def test_what_cannot_be_dealt_is_refused():
    with pytest.raises(UserError, match=r"unknown partition.*did you mean 'dirichlet'"):
        load(partition="dirichle")
    with pytest.raises(UserError, match="clients"):
        load(clients=5_000)
