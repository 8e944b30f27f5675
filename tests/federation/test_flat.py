"""A model is one vector: parameters, float buffers, and places for integer buffers."""

import numpy as np
import pytest
import torch
from torch import nn

from aaggff.errors import UserError
from aaggff.federation.federation import Federation
from aaggff.federation.flat import Flat
from aaggff.federation.local import LocalTraining
from tests.federation.makers import shaped_data


class Only:
    def __init__(self, client):
        self.client = client

    def sample(self, round):
        return np.array([self.client])


def model():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3), nn.BatchNorm1d(3)
    )


def test_the_vector_is_the_model_and_the_model_the_vector():
    module = model()
    before = {name: each.clone() for name, each in module.state_dict().items()}
    flat = Flat(module)
    vector = flat.bind(module)
    assert flat.parameters == sum(p.numel() for p in module.parameters()) == 4 * 6 + 6 + 12 + 21 + 6
    assert flat.floats == flat.parameters + 2 * (6 + 3)
    assert flat.size == flat.floats + 2
    for name, each in module.state_dict().items():
        assert torch.equal(each, before[name])
    expected = [*module.parameters(), *(b for b in module.buffers() if b.is_floating_point())]
    assert torch.equal(vector, torch.cat([each.detach().reshape(-1) for each in expected]))
    vector.fill_(0.25)
    assert all((each == 0.25).all() for each in expected)
    module[0].weight.data[0, 0] = 9.0
    assert (vector == 9.0).sum() == 1


def test_a_bound_model_still_trains_and_counts():
    module = model()
    flat = Flat(module)
    vector = flat.bind(module)
    before = vector.clone()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    module(torch.randn(8, 4)).sum().backward()
    optimizer.step()
    assert not torch.equal(vector[: flat.parameters], before[: flat.parameters])
    assert not torch.equal(vector[flat.parameters :], before[flat.parameters :])  # statistics
    assert flat.integers(module).tolist() == [1, 1]
    flat.set_integers(module, torch.tensor([5, 7]))
    assert [
        int(each) for each in (module[1].num_batches_tracked, module[4].num_batches_tracked)
    ] == [5, 7]


def test_tied_weights_stay_tied():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    module = Tied()
    flat = Flat(module)
    assert flat.parameters == 9 + 3 + 3
    flat.bind(module).fill_(2.0)
    assert module.a.weight is module.b.weight
    assert (module.b.weight == 2.0).all()


def test_frozen_parameters_are_left_out():
    module = model()
    module[0].requires_grad_(False)
    frozen = module[0].weight.clone()
    flat = Flat(module)
    flat.bind(module).zero_()
    assert flat.parameters == 12 + 21 + 6
    assert torch.equal(module[0].weight, frozen)


def test_what_cannot_be_one_vector_is_refused():
    with pytest.raises(UserError, match="no trainable parameters"):
        Flat(nn.ReLU())
    mixed = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double())
    with pytest.raises(UserError, match=r"of several types \(float32, float64\)"):
        Flat(mixed)


@pytest.mark.parametrize("executor", ["sequential", "processes"])
def test_buffers_are_mixed_with_the_same_weights(executor):
    """BatchNorm's statistics and its counter, against the clients' models trained apart."""
    data = shaped_data((4,), sizes=(9, 5, 14))
    local = LocalTraining(lr=0.1, batch_size=4)
    settings = {"decision_maker": "fedavg", "local": local, "seed": 1}
    together = Federation(data, model(), executor=executor, workers=2, **settings)
    try:
        weights = torch.tensor(together.step()["weights"])
    finally:
        together.close()
    assert len(set(weights.tolist())) == 3
    ends = []
    for client in range(3):
        alone = Federation(
            data, model(), executor="sequential", **settings,
            sampler=Only(client),
        )  # fmt: skip
        alone.step()
        ends.append(alone.model.state_dict())
    for name, found in together.model.state_dict().items():
        mixed = sum(w * end[name].double() for w, end in zip(weights, ends))
        if found.is_floating_point():
            torch.testing.assert_close(found.double(), mixed, rtol=1e-4, atol=1e-6)
        else:  # 3, 2 and 4 batches
            assert found.dtype == torch.int64
            assert int(found) == round(float(mixed))


def test_a_counter_nobody_changed_stays_exactly_as_it_is():
    module = model()
    module[1].num_batches_tracked.fill_(2**40 + 1)  # float32 could not hold it
    for norm in (module[1], module[4]):
        norm.momentum, norm.track_running_stats = 0.1, True
    data = shaped_data((4,), sizes=(9, 5))
    federation = Federation(data, module, local=LocalTraining(batch_size=9, steps=1), seed=1)
    federation.step()
    assert int(federation.model[1].num_batches_tracked) == 2**40 + 2
    assert int(federation.model[4].num_batches_tracked) == 1
