"""Every decision maker with every server optimiser and every client objective.

Each of the 90 federations is compared with one written down here a second time, with torch's own
SGD and the servers' formulas in numpy: the three choices meet in no other place than the weights
and the pseudo-gradient, so no combination can need code of its own.
"""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import aaggff
from aaggff.federation.client import batches
from aaggff.federation.federation import Federation
from aaggff.federation.local import LocalTraining
from aaggff.federation.server_optimizers import SERVER_OPTIMIZERS, server_optimizer
from tests.federation.makers import class_data
from tests.federation.servers import SERVERS

EVERYBODY = {"afl", "aaggff-s"}
ROUNDS, SEED = 3, 5


def client(data, model, who, round, local):
    """Delta_i by a bare loop: (loss before, theta - theta_i)."""
    x, y = data.train(who)
    received = torch.nn.utils.parameters_to_vector(model.parameters()).detach().clone()
    with torch.no_grad():
        loss = float(F.cross_entropy(model(x), y))
    optimizer = torch.optim.SGD(model.parameters(), lr=local.lr_at(round))
    for rows in batches(len(y), local, seed=SEED, round=round, client=who):
        optimizer.zero_grad()
        objective = F.cross_entropy(model(x[rows]), y[rows])
        away = torch.nn.utils.parameters_to_vector(model.parameters()) - received
        (objective + 0.5 * local.prox * away.square().sum()).backward()
        optimizer.step()
    after = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    update = (received - after).double().numpy()
    torch.nn.utils.vector_to_parameters(received, model.parameters())
    return loss, update


@pytest.mark.parametrize("prox", [0.0, 0.5], ids=["plain", "fedprox"])
@pytest.mark.parametrize("server", SERVER_OPTIMIZERS)
@pytest.mark.parametrize("method", aaggff.methods())
def test_it_is_what_the_three_choices_say(method, server, prox):
    data = class_data()
    local = LocalTraining(lr=0.1, batch_size=8, prox=prox, epochs=2)
    per_round = None if method in EVERYBODY else 3
    federation = Federation(
        data, "logistic", method, local=local, per_round=per_round, seed=SEED,
        server_optimizer=server_optimizer(server, lr=0.5),
    )  # fmt: skip
    model = torch.nn.Linear(5, 4)
    model.load_state_dict(
        {name.split(".")[-1]: each for name, each in federation.model.state_dict().items()}
    )
    theta = torch.nn.utils.parameters_to_vector(model.parameters()).detach().double().numpy()
    maker = aaggff.decision_maker(method, clients=4, rate=1.0 if per_round is None else 0.75)
    apply = SERVERS[server](lr=0.5)
    for round in range(1, ROUNDS + 1):
        record = federation.step()
        asked = record["clients"]
        losses, updates = zip(*(client(data, model, who, round, local) for who in asked))
        sizes = data.train_sizes[asked]
        given = {"updates": np.array(updates)} if maker.wants_updates else {}
        weights = maker.decide(asked, losses, sizes, lr=0.1, **given)
        np.testing.assert_allclose(record["losses"], losses, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(record["weights"], weights, atol=1e-4)
        assert record["step"] == pytest.approx(maker.last.step, rel=1e-3)
        theta = apply(theta, maker.last.step * weights @ np.array(updates))
        torch.nn.utils.vector_to_parameters(torch.tensor(theta).float(), model.parameters())
    ours = torch.nn.utils.parameters_to_vector(federation.model.parameters()).detach()
    np.testing.assert_allclose(ours, theta, rtol=1e-3, atol=1e-4)


def test_every_choice_makes_a_difference():
    """The same comparison would pass if a choice were ignored on both sides."""
    ends = {}
    for method in aaggff.methods():
        for server in SERVER_OPTIMIZERS:
            for prox in (0.0, 0.5):
                federation = Federation(
                    class_data(), "logistic", method, seed=SEED, server_optimizer=server,
                    local=LocalTraining(lr=0.1, batch_size=8, prox=prox, epochs=2),
                )  # fmt: skip
                for _ in range(2):
                    federation.step()
                flat = torch.nn.utils.parameters_to_vector(federation.model.parameters())
                ends[method, server, prox] = tuple(flat.tolist())
    assert len(set(ends.values())) == len(ends) == 9 * 5 * 2
