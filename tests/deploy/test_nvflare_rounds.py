"""The server's side of an NVFlare job, without NVFlare: decide, mix, survive."""

import json

import numpy as np
import pytest

from aaggff.decision import decision_maker
from aaggff.deploy.nvflare import report
from aaggff.deploy.nvflare.round import WHOLE
from aaggff.deploy.nvflare.server import FairRounds
from aaggff.deploy.state import FairServer
from aaggff.errors import UserError
from aaggff.federation.server_optimizers import server_optimizer
from aaggff.report.collect import read_run

SITES = ("site-1", "site-2", "site-3")


def update(rng, scale=1.0):
    return {
        "linear.weight": (scale * rng.normal(size=(2, 3))).astype(np.float32),
        "linear.bias": (scale * rng.normal(size=2)).astype(np.float32),
    }


def play(rounds, rng, sites=SITES, losses=None):
    """One round of random updates; what the sites sent and what came of it."""
    rounds.reset()
    sent = {site: update(rng) for site in sites}
    losses = losses or {site: float(rng.uniform(0.1, 2.0)) for site in sites}
    for site in sites:
        rounds.accept(site, sent[site], report(losses[site], 10 + len(site)))
    return sent, losses, rounds.close()


@pytest.mark.parametrize("method", ["fedavg", "term", "aaggff-s", "aaggff-d", "qfedavg", "fedmgda"])
def test_the_difference_is_the_mix_under_the_decision(method):
    rng = np.random.default_rng(0)
    rounds = FairRounds(FairServer(method, clients=3), lr=0.1)
    twin = decision_maker(method, clients=3, rate=1.0)
    for _ in range(3):
        sent, losses, change = play(rounds, rng)
        flat = np.stack([np.concatenate([v.ravel() for v in sent[s].values()]) for s in SITES])
        flat = flat.astype(np.float64)
        weights = twin.decide(
            list(SITES), [losses[s] for s in SITES], [16, 16, 16], gram=flat @ flat.T, lr=0.1
        )
        expected = twin.last.step * (weights @ flat)
        got = np.concatenate([v.ravel() for v in change.values()])
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
        assert all(v.dtype == np.float32 for v in change.values())


def test_the_order_of_arrival_does_not_matter():
    changes = []
    for order in (SITES, SITES[::-1]):
        rng = np.random.default_rng(1)
        rounds = FairRounds(FairServer("aaggff-s", clients=3))
        sent = {site: update(rng) for site in SITES}
        for site in order:
            rounds.accept(site, sent[site], report(0.1 + len(site) + ord(site[-1]), 10))
        changes.append(rounds.close())
    for name in changes[0]:
        assert (changes[0][name] == changes[1][name]).all()


def test_a_server_optimiser_takes_the_step():
    rng = np.random.default_rng(2)
    rounds = FairRounds(FairServer("uniform", clients=3, server_optimizer="adam"))
    import torch

    theta, optimizer = torch.zeros(8), server_optimizer("adam")
    total = np.zeros(8)
    for _ in range(4):
        sent, _, change = play(rounds, rng)
        flat = np.stack([np.concatenate([v.ravel() for v in sent[s].values()]) for s in SITES])
        optimizer.step(theta, torch.from_numpy(-flat.mean(axis=0)))
        total += np.concatenate([v.ravel() for v in change.values()])
    np.testing.assert_allclose(total, theta.numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"linear.weight": np.full((2, 3), np.nan, np.float32)}, "is not finite"),
        ({"linear.weight": np.zeros((3, 2), np.float32)}, "has shape"),
        ({"linear.weight": np.array([["x"] * 3] * 2)}, "holds <U1"),
        ({"linear.weight": np.full((2, 3), 3e38, np.float32)}, "too large to be mixed"),
        ({"linear.weight": {"deep": 1}}, "holds object"),
        ({"another": np.zeros(2, np.float32)}, "['another'] are not in every site's update"),
    ],
)
@pytest.mark.parametrize("who", SITES)
def test_a_site_that_sends_nonsense_is_set_aside_and_the_run_goes_on(bad, reason, who):
    rng = np.random.default_rng(3)
    rounds = FairRounds(FairServer("aaggff-s", clients=3))
    sent = {site: update(rng) for site in SITES}
    sent[who] |= bad
    others = [site for site in SITES if site != who]
    for site in SITES:
        rounds.accept(site, sent[site], report(0.5, 10))
    change = rounds.close()
    assert reason in rounds.record["set_aside"][who]
    assert rounds.record["clients"] == others
    expected = sum(sent[site]["linear.bias"] for site in others) / 2
    np.testing.assert_allclose(change["linear.bias"], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("metrics", "reason"),
    [
        ({"samples": 10}, "reports no 'received_loss'"),
        (None, "reports no 'received_loss'"),
        ({"received_loss": 0.5}, "samples is nan"),
        ({"received_loss": 0.5, "samples": -3}, "samples is -3"),
        ({"received_loss": 0.5, "samples": 1e13}, "samples is 1e+13"),
        ({"received_loss": 0.5, "samples": 10**5000}, "samples is inf"),
        ({"received_loss": "low", "samples": 9}, "loss is nan"),
        ({"received_loss": 10**400, "samples": 9}, "loss is inf"),
    ],
)
def test_a_site_that_reports_nonsense_is_set_aside(metrics, reason):
    rounds = FairRounds(FairServer("aaggff-s", clients=3))
    for site in SITES:
        ones = {"w": np.ones(1, np.float32)}
        rounds.accept(site, ones, metrics if site == "site-2" else report(0.5, 10))
    assert rounds.close()["w"] == pytest.approx(1.0)
    assert reason in rounds.record["set_aside"]["site-2"]
    weights = dict(zip(rounds.record["clients"], rounds.record["weights"]))
    assert weights["site-1"] + weights["site-3"] == pytest.approx(1.0)


def test_what_the_model_looks_like_is_remembered(tmp_path):
    ones, odd = {"w": np.ones(1, np.float32)}, {"w": np.ones(2, np.float32)}
    first = FairRounds(FairServer("uniform", clients=3, directory=tmp_path))
    for site in SITES:
        first.accept(site, ones, report(0.5, 10))
    first.close()
    again = FairRounds(FairServer("uniform", clients=3, directory=tmp_path))
    for site in SITES:  # two of three, and yet they are the ones that are wrong
        again.accept(site, ones if site == "site-3" else odd, report(0.5, 10))
    assert again.close()["w"].tolist() == [1.0]
    assert set(again.record["set_aside"]) == {"site-1", "site-2"}


def test_a_site_that_sends_a_whole_model_is_set_aside_and_a_job_that_does_is_told():
    rounds = FairRounds(FairServer("uniform", clients=2))
    rounds.accept("site-1", {"w": np.full(1, 9.0, np.float32)}, report(0.5, 10), WHOLE)
    rounds.accept("site-2", {"w": np.ones(1, np.float32)}, report(0.5, 10))
    assert rounds.close()["w"].tolist() == [1.0]
    rounds.reset()
    for site in SITES[:2]:
        rounds.accept(site, {"w": np.ones(1, np.float32)}, report(0.5, 10), WHOLE)
    with pytest.raises(UserError, match=r"every site sent a whole model.*TransferType\.DIFF"):
        rounds.close()


def test_two_updates_of_one_site_count_as_none():
    rounds = FairRounds(FairServer("uniform", clients=2))
    for site, value in (("site-1", 1.0), ("site-2", 5.0), ("site-2", 7.0)):
        rounds.accept(site, {"w": np.full(1, value, np.float32)}, report(0.5, 10))
    assert rounds.close()["w"].tolist() == [1.0]
    assert rounds.record["set_aside"] == {"site-2": "sent two updates"}


@pytest.mark.parametrize("method", ["aaggff-s", "aaggff-d", "term"])
def test_more_sites_than_were_said_to_exist_are_not_let_in(method):
    rng = np.random.default_rng(6)
    rounds = FairRounds(FairServer(method, clients=2))
    play(rounds, rng, sites=("site-2", "site-3"))
    play(rounds, rng)
    assert rounds.record["clients"] == ["site-2", "site-3"]
    assert "2 sites met before" in rounds.record["set_aside"]["site-1"]
    open_to_all = FairRounds(FairServer(method))
    play(open_to_all, rng, sites=("site-2", "site-3"))
    play(open_to_all, rng)
    assert open_to_all.record["clients"] == list(SITES)


def test_bad_losses_and_missing_sites_are_named():
    rng = np.random.default_rng(4)
    rounds = FairRounds(FairServer("aaggff-s", clients=3))
    play(rounds, rng)
    play(rounds, rng, losses={"site-1": float("nan"), "site-2": 0.5, "site-3": 0.7})
    assert rounds.record["set_aside"] == {"site-1": "loss is nan"}
    play(rounds, rng, sites=("site-1", "site-3"))
    assert rounds.record["dropped"] == ["site-2"]
    assert sum(rounds.record["weights"]) == pytest.approx(1.0)


def test_nobody_usable_leaves_the_model_as_it_is():
    rounds = FairRounds(FairServer("aaggff-s", clients=2))
    nan = {"w": np.array([np.nan], np.float32)}
    for site in SITES[:2]:
        rounds.accept(site, nan, report(0.5, 10))
    assert rounds.close()["w"].tolist() == [0.0]
    assert set(rounds.record["set_aside"]) == {"site-1", "site-2"}


def test_a_script_that_reports_no_loss_is_told_what_to_do():
    rounds = FairRounds(FairServer("aaggff-s", clients=1))
    rounds.accept("site-1", {"w": np.zeros(1, np.float32)}, {"accuracy": 0.5})
    with pytest.raises(UserError, match=r"call aaggff\.deploy\.nvflare\.report"):
        rounds.close()


def test_integer_buffers_keep_their_type():
    rounds = FairRounds(FairServer("uniform", clients=2))
    for site, steps in (("site-1", 12), ("site-2", 15)):
        params = {"w": np.ones(1, np.float32), "seen": np.array(steps, np.int64)}
        rounds.accept(site, params, report(0.5, 10))
    change = rounds.close()
    assert change["seen"].dtype == np.int64
    assert change["seen"] == 14
    assert change["seen"].shape == ()


def test_a_restarted_server_goes_on_with_what_it_knew(tmp_path):
    rng, twin_rng = np.random.default_rng(5), np.random.default_rng(5)
    whole = FairRounds(FairServer("aaggff-s", clients=3, server_optimizer="momentum"))
    first = FairRounds(
        FairServer("aaggff-s", clients=3, server_optimizer="momentum", directory=tmp_path)
    )
    for _ in range(3):
        play(whole, rng)
        play(first, twin_rng)
    again = FairRounds(
        FairServer("aaggff-s", clients=3, server_optimizer="momentum", directory=tmp_path)
    )
    assert again.server.round == 3
    for _ in range(3):
        _, _, expected = play(whole, rng)
        _, _, change = play(again, twin_rng)
        for name in expected:
            assert (change[name] == expected[name]).all()
    again.finish(6)
    run = read_run(tmp_path)
    assert [record["round"] for record in run.rounds] == [1, 2, 3, 4, 5, 6]
    assert run.done["rounds"] == 6


def test_what_sites_tested_is_in_the_record(tmp_path):
    rounds = FairRounds(FairServer("fedavg", clients=2, directory=tmp_path), metric="auroc")
    for site, area in (("site-1", 0.8), ("site-2", float("nan"))):
        tested = {"auroc": area, "test_loss": 0.4}
        metrics = report(0.5, 10, test=tested, test_samples=5)
        rounds.accept(site, {"w": np.ones(1, np.float32)}, metrics)
    rounds.close()
    rounds.finish(1)
    line = json.loads((tmp_path / "clients.jsonl").read_text())
    assert line["auroc"] == [0.8, None]
    assert line["names"] == ["site-1", "site-2"]
    assert rounds.record["metric"]["avg"] == pytest.approx(80.0)
    assert rounds.record["metric"]["missing"] == 1
