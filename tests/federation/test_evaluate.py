"""Every client's loss and metric in one pass, against scikit-learn client by client."""

import logging

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss, roc_auc_score, top_k_accuracy_score
from torch import nn
from torch.nn import functional as F

from aaggff import fairness
from aaggff.data.memory import ArrayData
from aaggff.federation import evaluate as module
from aaggff.federation.data import Task
from aaggff.federation.evaluate import auroc, evaluate
from aaggff.models import build_model
from tests.federation.makers import shaped_data, token_data

SIZES = (40, 3, 0, 25, 1, 60, 8)


def made(task, outputs, sizes=SIZES, seed=0, decimals=None):
    """Targets at random; inputs of few decimals give tied scores."""
    generator = torch.Generator().manual_seed(seed)
    parts = []
    for size in sizes:
        x = torch.randn(size, 3, generator=generator)
        x = x if decimals is None else x.round(decimals=decimals)
        parts.append((x, torch.randint(0, outputs, (size,), generator=generator)))
    return ArrayData("made", task, parts, parts)


def model(outputs):
    torch.manual_seed(1)
    return nn.Linear(3, outputs).eval()


def scores(net, data, client):
    with torch.no_grad():
        return net(data.test(client)[0]).double(), data.test(client)[1].numpy()


@pytest.fixture(params=[None, 64], ids=["one block", "many blocks"])
def blocks(request, monkeypatch):
    if request.param:
        monkeypatch.setattr(module, "_BLOCK_BYTES", request.param)


@pytest.mark.parametrize("rows", [None, 7])
@pytest.mark.parametrize("decimals", [None, 0], ids=["distinct", "tied"])
def test_auroc_and_loss_are_scikit_learns(rows, decimals, blocks):
    data, net = made(Task("binary", 1, "auroc"), 2, decimals=decimals), model(1)
    found = evaluate(net, data, rows=rows, round=9)
    assert (found.round, found.metric) == (9, "auroc")
    np.testing.assert_array_equal(found.sizes, SIZES)
    one_class = 0
    for client in range(len(data)):
        z, y = scores(net, data, client)
        if not len(y):
            assert np.isnan(found.loss[client])
            assert np.isnan(found.values[client])
            continue
        expected = log_loss(y, torch.sigmoid(z).numpy().ravel(), labels=[0, 1])
        assert found.loss[client] == pytest.approx(expected, rel=1e-5)
        if len(set(y)) == 1:
            one_class += 1
            assert np.isnan(found.values[client])
        else:
            assert found.values[client] == pytest.approx(roc_auc_score(y, z.numpy()), abs=1e-12)
    assert one_class >= 1
    assert found.metric_summary()["missing"] == one_class + 1
    assert found.loss_summary()["missing"] == 1


@pytest.mark.parametrize(("metric", "k"), [("top1", 1), ("top5", 5)])
@pytest.mark.parametrize("outputs", [4, 9])
def test_top_k_is_scikit_learns(metric, k, outputs, blocks):
    data, net = made(Task("multiclass", outputs, metric), outputs), model(outputs)
    found = evaluate(net, data)
    for client in range(len(data)):
        z, y = scores(net, data, client)
        if not len(y):
            assert np.isnan(found.values[client])
            continue
        expected = 1.0
        if k < outputs:
            expected = top_k_accuracy_score(y, z.numpy(), k=k, labels=np.arange(outputs))
        assert found.values[client] == pytest.approx(expected)
        assert found.loss[client] == pytest.approx(
            log_loss(y, torch.softmax(z, 1).numpy(), labels=np.arange(outputs)), rel=1e-5
        )


def test_accuracy_of_a_binary_task():
    data, net = made(Task("binary", 1, "top1"), 2), model(1)
    found = evaluate(net, data)
    for client in (0, 1, 3, 4, 5, 6):
        z, y = scores(net, data, client)
        assert found.values[client] == pytest.approx(((z.numpy().ravel() > 0) == y).mean())


@pytest.mark.parametrize("metric", ["top1", "top5"])
def test_tokens_count_where_there_is_one(metric, blocks):
    data = token_data(sizes=(9, 5, 7))
    data.task = Task("tokens", 20, metric)
    torch.manual_seed(0)
    net = build_model("stackedlstm", (6,), data.task, embedding=4, hidden=5).eval()
    found = evaluate(net, data)
    for client in range(3):
        x, y = data.test(client)
        with torch.no_grad():
            z = net(x)
        real = y != -100
        loss = F.cross_entropy(z[real], y[real])
        best = z[real].topk(1 if metric == "top1" else 5).indices
        assert found.loss[client] == pytest.approx(float(loss), rel=1e-5)
        assert found.values[client] == pytest.approx(
            float((best == y[real, None]).any(1).float().mean())
        )


def test_some_clients_only_and_in_any_order(blocks):
    data, net = made(Task("binary", 1, "auroc"), 2), model(1)
    everybody = evaluate(net, data)
    chosen = np.array([5, 0, 3])
    some = evaluate(net, data, clients=chosen)
    np.testing.assert_array_equal(some.clients, chosen)
    np.testing.assert_allclose(some.loss, everybody.loss[chosen], rtol=1e-6)
    np.testing.assert_array_equal(some.values, everybody.values[chosen])


def test_nobody_has_a_test_part():
    data = made(Task("binary", 1, "auroc"), 2, sizes=(0, 0))
    data._train = made(Task("binary", 1, "auroc"), 2, sizes=(4, 4))._train
    found = evaluate(model(1), data)
    assert np.isnan(found.loss).all()
    assert found.metric_summary()["missing"] == 2


def test_a_model_is_left_in_the_mode_it_was_in():
    data, net = made(Task("binary", 1, "auroc"), 2), model(1)
    for training in (True, False):
        net.train(training)
        evaluate(net, data)
        assert net.training is training


def test_a_model_judges_in_evaluation_mode():
    data = shaped_data((4,), classes=3)
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))
    net.train()
    counted = int(net[1].num_batches_tracked)
    assert np.array_equal(evaluate(net, data).loss, evaluate(net, data).loss)
    assert int(net[1].num_batches_tracked) == counted


def test_scores_that_are_not_finite_are_not_performance():
    data, net = made(Task("binary", 1, "auroc"), 2), model(1)
    with torch.no_grad():
        net.weight.fill_(float("nan"))
    found = evaluate(net, data)
    assert np.isnan(found.loss).all()


def test_auroc_of_many_owners_at_once_is_that_of_each():
    generator = np.random.default_rng(0)
    owners = np.sort(generator.integers(0, 50, 2_000))
    values, targets = generator.integers(0, 9, 2_000) / 8, generator.integers(0, 2, 2_000)
    found = auroc(values, targets, owners, 51)
    for owner in range(50):
        mine = owners == owner
        assert found[owner] == pytest.approx(roc_auc_score(targets[mine], values[mine]), abs=1e-12)
    assert np.isnan(found[50])  # has no samples


def test_summaries_are_the_papers(caplog):
    with caplog.at_level(logging.WARNING):
        found = evaluate(model(1), made(Task("binary", 1, "auroc"), 2))
    assert found.metric_summary() == fairness.summary(100 * found.values, found.sizes)
    loss = found.loss_summary()
    assert set(loss) == set(fairness.KEYS)
    assert loss["worst_client"] == np.nanmax(found.loss)
    assert loss["best_client"] == np.nanmin(found.loss)
    assert caplog.records == []
