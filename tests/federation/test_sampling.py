"""Who is asked: uniform, reproducible, O(n); who answers: told apart, never nobody."""

import logging
import tracemalloc

import numpy as np
import pytest

from aaggff.errors import UserError
from aaggff.federation.sampling import Available, Everybody, Sampler, Uniform, Unreliable, cohort
from aaggff.federation.sampling import sampler as make


def test_everybody_is_everybody_with_data():
    assert Everybody([3, 0, 1]).sample(9).tolist() == [0, 2]


@pytest.mark.parametrize(
    ("per_round", "clients", "expected"),
    [
        (0.1, 9_343, 934),
        (5 / 817, 817, 5),
        (5 / 9_343, 9_343, 5),
        (0.001, 10, 1),
        (1.0, 7, 7),
        (1, 7, 1),
        (0.29, 100, 29),
        (0.999, 100, 99),
    ],
)
def test_a_rate_means_the_floor_of_it_and_at_least_one(per_round, clients, expected):
    assert cohort(per_round, clients) == expected


@pytest.mark.parametrize("per_round", [0, -1, 8, 0.0, 1.5, float("nan")])
def test_what_cannot_be_sampled_is_refused(per_round):
    with pytest.raises(UserError, match="per_round"):
        Uniform([1] * 7, per_round)


def test_a_sample_has_distinct_ascending_clients_and_follows_from_seed_and_round():
    one, other = (Uniform([1] * 300, 40, seed=3) for _ in range(2))
    other.sample(8)  # asking for another round first changes nothing
    ids = one.sample(5)
    assert ids.dtype == np.int64
    assert (np.diff(ids) > 0).all()
    np.testing.assert_array_equal(ids, other.sample(5))
    assert not np.array_equal(ids, one.sample(6))
    assert not np.array_equal(ids, Uniform([1] * 300, 40, seed=4).sample(5))


@pytest.mark.parametrize("clients", [30, 20_000])
def test_every_client_and_every_pair_is_as_likely_as_another(clients):
    """Also beyond 10,000, where numpy takes Floyd's method. Chi-square over clients."""
    sampler, rounds, number = Uniform([1] * clients, 6, seed=1), 4_000, 6
    bins = np.zeros(30)
    together = 0
    for t in range(rounds):
        places = sampler.sample(t) * 30 // clients
        np.add.at(bins, places, 1)
        together += int((np.bincount(places, minlength=30) > 1).any())
    expected = rounds * number / 30
    chi_square = ((bins - expected) ** 2 / expected).sum()
    assert chi_square < 62  # 29 degrees of freedom: p = 4e-4
    if clients == 30:
        assert together == 0  # without replacement


def test_a_round_of_a_million_and_a_half_clients_allocates_next_to_nothing():
    sampler = Uniform(np.ones(1_500_000, dtype=np.int64), 5)
    sampler.sample(1)
    tracemalloc.start()
    for t in range(20):
        sampler.sample(t)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000


def test_clients_without_data_are_never_asked_and_said_once(caplog):
    with caplog.at_level(logging.WARNING, "aaggff"):
        sampler = Uniform([4, 0, 4, 0, 4], 2)
        seen = {int(i) for t in range(50) for i in sampler.sample(t)}
    assert seen == {0, 2, 4}
    assert len(caplog.records) == 1
    assert "2 of 5 clients have no training data" in caplog.text
    with pytest.raises(UserError, match="no client has training data"):
        Everybody([0, 0])


def test_availability_decides_who_can_be_asked():
    calls = []

    def available(t):
        calls.append(t)
        return [4, 1, 1, 2] if t == 1 else np.arange(6)

    sampler = Available([1, 1, 0, 1, 1, 1], available, 3, seed=2)
    assert sampler.sample(1).tolist() == [1, 4]
    assert len(sampler.sample(2)) == 3
    assert calls == [1, 2]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([7], "no client 7"),
        ([-1], "no client -1"),
        ([], "no client with training data"),
        ([0.5], "client numbers"),
    ],
)
def test_an_availability_that_makes_no_sense_is_named_with_its_round(answer, said):
    with pytest.raises(UserError, match=f"round 3: .*{said}|round 3.*{said}"):
        Available([1, 1], lambda t: answer).sample(3)


def test_drop_outs_have_their_rate_and_are_drawn_anew_each_round():
    sampler = Unreliable(Everybody([5] * 100), [5] * 100, drop_out=0.3, seed=1)
    asked = sampler.sample(1)
    answering = [sampler.answering(t, asked) for t in range(1, 201)]
    missing = 1 - np.mean([ids.size for ids in answering]) / 100
    assert missing == pytest.approx(0.3, abs=0.02)  # 20,000 draws: 6 deviations
    assert len({ids.tobytes() for ids in answering}) > 190


def test_who_is_slow_stays_slow_and_large_clients_are_slower():
    sizes = np.repeat([10, 400], 200)
    sampler = Unreliable(Everybody(sizes), sizes, slow=0.5, seed=3)
    asked = sampler.sample(1)
    first, later = sampler.answering(1, asked), sampler.answering(9, asked)
    np.testing.assert_array_equal(first, later)
    assert first.size == 200
    assert (first < 200).mean() > 0.9


@pytest.mark.parametrize("drop_out", [0.0, 0.999999])
@pytest.mark.parametrize("slow", [0.0, 0.999999])
def test_somebody_always_answers(drop_out, slow):
    sampler = make([3] * 6, 4, seed=5, drop_out=drop_out, slow=slow)
    assert isinstance(sampler, Sampler)
    for t in range(30):
        asked = sampler.sample(t)
        left = sampler.answering(t, asked) if drop_out or slow else asked
        assert 1 <= left.size <= 4
        assert set(left.tolist()) <= set(asked.tolist())


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_shares_out_of_range_are_refused(share):
    with pytest.raises(UserError, match="drop_out"):
        Unreliable(Everybody([1]), [1], drop_out=share)
