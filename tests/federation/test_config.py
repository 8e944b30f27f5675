"""A configuration that exists is valid; one that cannot be says which field and what instead."""

import pickle
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aaggff.data import dataset_spec
from aaggff.decision.methods import METHODS
from aaggff.errors import UserError
from aaggff.federation.config import RunConfig
from aaggff.federation.local import LocalTraining

for_dataset = RunConfig.for_dataset


@pytest.mark.parametrize("name", ["heart", "digits", "synthetic"])
def test_defaults_are_the_settings_the_data_set_is_published_with(name):
    paper, config = dataset_spec(name).settings, for_dataset(name)
    for field in ("rounds", "model", "lr", "weight_decay", "decay", "decay_every", "per_round"):
        assert getattr(config, field) == getattr(paper, field)
    assert config.method == ("aaggff-s" if paper.per_round is None else "aaggff-d")
    assert config.method_options == {"cdf": paper.cdf}


def test_the_papers_cdf_is_a_default_of_aaggff_only():
    assert for_dataset("heart", method="aaggff-d").method_options == {"cdf": "frechet"}
    own = for_dataset("heart", method="aaggff-d", method_options={"cdf": "gumbel", "strength": 3})
    assert own.method_options == {"cdf": "gumbel", "strength": 3.0}
    assert for_dataset("heart", method="term").method_options == {}


def test_what_clients_do_is_handed_on():
    config = for_dataset("heart", lr=0.5, steps=7, clip=2.0, momentum=0.5, prox=1e-3)
    assert config.local_training() == LocalTraining(
        lr=0.5, decay=0.999, decay_every=2, steps=7, clip=2.0, momentum=0.5, prox=1e-3
    )


BAD = [
    ({"rounds": 0}, "rounds: must be greater than or equal to 1, not 0"),
    ({"rounds": "many"}, "rounds: must be a whole number, not 'many'"),
    ({"rounds": 2.5}, "rounds: must be a whole number"),
    ({"rouns": 3}, "unknown setting 'rouns'; did you mean 'rounds'?"),
    ({"seed": -1}, "seed: must be"),
    ({"lr": 0}, "lr: must be greater than 0"),
    ({"lr": float("nan")}, "lr: "),
    ({"decay": 1.5}, r"decay: expected a number in \(0, 1\]"),
    ({"momentum": 1}, "momentum: must be less than 1"),
    ({"per_round": 0}, "per_round: expected a number of clients"),
    ({"per_round": 1.5}, "per_round: .*rate in"),
    ({"per_round": True}, "per_round: "),
    ({"per_round": "most"}, "per_round: .*'everybody'"),
    ({"per_round": [1]}, r"^per_round: expected a number of clients[^;]*got \[1\]$"),
    ({"drop_out": 1.0}, "drop_out: must be less than 1"),
    ({"executor": "quick"}, "executor: must be 'auto', .*not 'quick'"),
    ({"engine": "flour"}, "engine: must be 'local' or 'flower'"),
    ({"device": "gpu"}, "device: expected cpu, cuda"),
    ({"stand_in": True}, "heart needs none"),
    ({"data_dir": "no/such/folder"}, "data_dir: no/such/folder is not a directory"),
    ({"data": {"varient": "flamby"}}, "'varient'; did you mean 'variant'?"),
    ({"data": {"variant": "flambi"}}, "data.variant 'flambi'; did you mean 'flamby'?"),
    ({"data": 5}, "data: must be a table of options"),
    ({"method": "fedavgg"}, "unknown method 'fedavgg'; did you mean 'fedavg'?"),
    ({"method": "qfedavg", "method_options": {"qq": 1}}, "'qq'; did you mean 'q'?"),
    ({"method": "qfedavg", "method_options": {"q": -1}}, "q: expected a number >= 0, got -1"),
    ({"method": "aaggff-d", "method_options": {"cdf": "norml"}}, "did you mean 'normal'?"),
    ({"method": "afl", "per_round": 2}, "'afl' needs everybody every round.*per_round is 2"),
    ({"method": "afl", "per_round": 1}, "'afl' needs everybody"),
    ({"method": "afl", "drop_out": 0.1}, "'afl' needs everybody.*drop_out"),
    ({"model": "mpl"}, "unknown model 'mpl'; did you mean 'mlp'?"),
    ({"model": "no.such.module:factory"}, "model 'no.such.module:factory' cannot be imported"),
    ({"model": "mlp", "model_options": {"hiden": 3}}, "'hiden'; did you mean 'hidden'?"),
    ({"model": "mlp", "model_options": {"dropout": "x"}}, "model.dropout: expected a number"),
    ({"server_optimizer": "adan"}, "unknown server optimiser 'adan'; did you mean 'adam'?"),
    ({"server_options": {"beta1": 0.5}}, "server optimiser 'sgd' 'beta1'"),
    ({"server_options": {"lr": "fast"}}, "server.lr: expected a number, got 'fast'"),
    ({"server_options": {"lr": [1]}}, r"server.lr: expected a number, got \[1\]"),
    ({"server_options": {"lr": -1}}, "lr: expected a positive number"),
    ({"model_options": {"hidden": 3}}, r"'hidden' \(there are none\)"),
]


@pytest.mark.parametrize(("settings", "said"), BAD, ids=[str(each) for each, _ in BAD])
def test_a_mistake_is_one_line_that_names_it(settings, said):
    with pytest.raises(UserError, match=said) as error:
        for_dataset("heart", **{"method": "fedavg", **settings})
    assert "\n" not in str(error.value)


def test_all_mistakes_of_a_kind_are_told_at_once():
    with pytest.raises(UserError, match=r"rounds: .*; lr: "):
        for_dataset("heart", rounds=0, lr=-1)


def test_an_unknown_data_set_suggests_the_nearest():
    with pytest.raises(UserError, match="did you mean 'heart'"):
        for_dataset("haert")


def test_a_data_set_is_named_by_a_word():
    with pytest.raises(UserError, match="dataset: must be a word, not 5"):
        for_dataset(5)


def test_options_take_the_kind_of_their_default():
    config = for_dataset("digits", method="qfedavg", data={"clients": 8.0}, method_options={"q": 5})
    assert repr(config.data["clients"]) == "8"
    assert repr(config.method_options["q"]) == "5.0"


def test_none_where_none_is_the_default_is_not_set():
    options = {"fit": None, "cdf": "normal", "scale": "none"}
    config = for_dataset("heart", method="aaggff-d", method_options=options)
    assert config.method_options == {"cdf": "normal"}


def test_fewer_clients_than_are_usually_sampled_means_everybody():
    assert for_dataset("synthetic", data={"clients": 4}).per_round is None
    assert for_dataset("synthetic", data={"clients": 40}).per_round == 10


def test_a_change_of_choice_drops_the_options_of_the_old_one():
    config = for_dataset(
        "heart", method="qfedavg", method_options={"q": 5}, server_optimizer="adam",
        server_options={"beta1": 0.5}, model="mlp", model_options={"hidden": 3},
    )  # fmt: skip
    changed = config.but(method="aaggff-d", seed=9)
    assert changed.method_options == {"cdf": "frechet"}
    assert (changed.seed, changed.model_options) == (9, {"hidden": 3})
    assert changed.but(server_optimizer="yogi").server_options == {}
    assert config.but(seed=1).method_options == {"q": 5.0}
    with pytest.raises(UserError, match="rounds"):
        config.but(rounds=0)


def test_it_survives_being_sent_to_another_process():
    config = for_dataset("digits", method="aaggff-d", data={"clients": 6})
    assert pickle.loads(pickle.dumps(config)) == config  # noqa: S301


@settings(max_examples=60, deadline=None)
@given(
    method=st.sampled_from(sorted(METHODS)),
    per_round=st.one_of(st.none(), st.integers(1, 20), st.floats(0.01, 0.99)),
    lr=st.floats(1e-12, 1e12),
    clip=st.one_of(st.none(), st.floats(1e-6, 1e6)),
    seed=st.integers(0, 2**63 - 1),
    strength=st.floats(0, 1e6),
    hidden=st.lists(st.integers(1, 9), min_size=1, max_size=3),
)
def test_toml_gives_back_exactly_what_was_saved(
    method, per_round, lr, clip, seed, strength, hidden
):
    config = for_dataset(
        "digits",
        method=method,
        per_round=None if METHODS[method].everybody else per_round,
        lr=lr,
        clip=clip,
        seed=seed,
        model="mlp",
        model_options={"hidden": hidden},
        method_options={"strength": strength} if method.startswith("aaggff") else {},
    )
    read = RunConfig(**tomllib.loads(config.toml()))
    assert read == config
    assert type(read.per_round) is type(config.per_round)
    assert RunConfig.for_dataset(**tomllib.loads(config.toml())) == config


@pytest.mark.parametrize("text", ['a "quoted" \\ name', "tab\tand\nline", "naïve ü 猫", "\x01"])
def test_any_text_survives_toml(text, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    config = for_dataset("heart", data_dir=str(folder)).model_copy(update={"data_dir": text})
    assert tomllib.loads(config.toml())["data_dir"] == text


def test_a_file_that_is_not_a_configuration_is_named(tmp_path):
    path = tmp_path / "run.toml"
    with pytest.raises(UserError, match=r"cannot read .*run\.toml"):
        RunConfig.read(path)
    path.write_text("rounds = = 3")
    with pytest.raises(UserError, match=r"run\.toml is not TOML"):
        RunConfig.read(path)
    path.write_text("rounds = 3")
    with pytest.raises(UserError, match=r"run\.toml names no data set"):
        RunConfig.read(path)
