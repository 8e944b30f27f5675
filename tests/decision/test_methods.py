"""Methods by name: what is wrong is said in one line, what is right arrives as its type."""

from __future__ import annotations

import numpy as np
import pytest

import aaggff
from aaggff import decision_maker
from aaggff.decision.methods import METHODS, MethodOption
from aaggff.errors import UserError


def test_the_nine_methods():
    names = "fedavg uniform qfedavg term propfair afl fedmgda aaggff-s aaggff-d"
    assert aaggff.methods() == names.split()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("aagff-d", {}, "unknown method 'aagff-d'; did you mean 'aaggff-d'? (known: "),
        ("fedavgg", {}, "did you mean 'fedavg'?"),
        ("zzz", {}, "unknown method 'zzz' (known: aaggff-d, aaggff-s, afl,"),
        ("term", {"lamda": 1}, "unknown option of method 'term' 'lamda'; did you mean 'lam'?"),
        ("fedavg", {"q": 1}, "unknown option of method 'fedavg' 'q' (there are none)"),
        ("term", {"lam": -1}, "lam: expected a number >= 0, got -1"),
        ("term", {"lam": "much"}, "lam: expected a number >= 0, got 'much'"),
        ("term", {"lam": True}, "lam: expected a number >= 0, got True"),
        ("term", {"lam": None}, "lam: expected a number >= 0, got None"),
        ("term", {"lam": float("nan")}, "lam: expected a number >= 0, got nan"),
        ("term", {"lam": 10**400}, "lam: expected a number >= 0, got 1000"),
        ("propfair", {"baseline": 0}, "baseline: expected a number > 0, got 0"),
        ("propfair", {"baseline": 0.1}, "margin: expected less than baseline=0.1, got 0.2"),
        ("qfedavg", {"step": "plane"}, "unknown step: 'plane'; did you mean 'plain'?"),
        ("fedmgda", {"epsilon": -0.1}, "epsilon: expected a number >= 0, got -0.1"),
        ("aaggff-s", {"cdf": "nomal"}, "unknown cdf: 'nomal'; did you mean 'normal'?"),
        ("aaggff-s", {"fit": "moments"}, "unknown fit: 'moments'"),
        ("aaggff-s", {"shape": 0}, "shape: expected a number > 0 or none, got 0"),
        ("aaggff-s", {"cdf": "weibull", "scale": -1}, "scale: cdf 'weibull' expects a positive"),
        ("aaggff-s", {"low": 2, "high": 1}, "expected 0 <= low < high, got low=2, high=1"),
        ("aaggff-s", {"clients": 0}, "clients: expected a whole number >= 1, got 0"),
        ("aaggff-s", {"clients": 2.5}, "clients: expected a whole number >= 1, got 2.5"),
        ("aaggff-s", {"clients": "many"}, "clients: expected a whole number >= 1, got 'many'"),
        ("aaggff-s", {"clients": True}, "clients: expected a whole number >= 1, got True"),
        ("aaggff-d", {}, "clients: method 'aaggff-d' needs the number of clients, clients=K"),
        ("aaggff-d", {"clients": 9, "rate": 0}, "rate: expected a share of the clients, 0 < rate"),
        ("aaggff-d", {"clients": 9, "rate": 1.5}, "rate: expected a share of the clients"),
        ("aaggff-d", {"clients": 9, "rate": "all"}, "rate: expected a share of the clients"),
        ("aaggff-d", {"clients": 9, "correction": 2}, "correction: expected true or false, got 2"),
    ],
)
def test_a_mistake_names_the_argument_what_was_expected_and_the_nearest(name, options, message):
    with pytest.raises(UserError) as caught:
        decision_maker(name, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_numbers_and_booleans_may_come_as_text_as_from_a_command_line():
    typed = decision_maker(
        "aaggff-d", clients="9", rate="0.5", strength="2", correction="True", high="none"
    )
    meant = decision_maker("aaggff-d", clients=9, rate=0.5, strength=2, correction=True)
    report = ([1, 2, 3], [0.1, 0.5, 0.2], [1, 1, 1])
    assert np.array_equal(typed.decide(*report), meant.decide(*report))


def test_three_billion_clients_are_a_number_like_any_other():
    assert decision_maker("aaggff-d", clients=3_000_000_000).clients == 3_000_000_000
    assert decision_maker("fedavg", clients=np.int64(7)).clients == 7


@pytest.mark.parametrize("name", METHODS)
def test_every_row_describes_itself(name):
    row = METHODS[name]
    assert row.name == name
    assert row.title
    assert row.formula.startswith("p")
    assert row.reference
    for key, option in row.options.items():
        assert option.read(key, option.default) == option.default
        assert option.help
        assert option.expected


def test_what_an_option_expects_is_said_in_words():
    assert MethodOption(None, "x").expected == "a number or none"
    assert MethodOption("a", "x", ("a", "b")).expected == "one of a, b"
