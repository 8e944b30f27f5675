"""A checkpoint is data: it round-trips exactly, and is checked before anything believes it."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from aaggff.errors import UserError
from aaggff.federation.checkpoint import load_checkpoint, pack, restore, save_checkpoint, unpack
from aaggff.federation.config import RunConfig
from aaggff.federation.run import build

CONFIG = RunConfig.for_dataset("heart", method="aaggff-d", per_round=2, server_optimizer="adam")


@pytest.fixture
def saved(tmp_path):
    federation = build(CONFIG)
    for _ in range(3):
        federation.step()
    path = tmp_path / "checkpoint.safetensors"
    tensors, facts = federation.state_dict()
    facts = {"federation": facts, "round": 3}
    save_checkpoint(path, tensors, facts, CONFIG)
    return path, tensors, facts


def test_what_was_saved_is_what_is_loaded(saved):
    path, tensors, facts = saved
    read, about = load_checkpoint(path, CONFIG)
    assert about == facts
    assert read.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert read[name].dtype == tensor.dtype
        assert torch.equal(read[name], tensor)
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "array",
    [
        np.array([1.5, -0.0, np.inf, 5e-324]),
        np.array([], dtype=np.float64),
        np.array(7),
        np.arange(6, dtype=np.int64).reshape(2, 3).T,
        np.array([2**63], dtype=np.uint64),
        np.array([True, False]),
        np.array(["ann", "böb", ""]),
        np.array(["ann", 3, 2**70], dtype=object),
    ],
    ids=str,
)
def test_a_decision_state_survives_to_the_bit(array, tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    tensors, texts = pack({"state": array})
    save_checkpoint(path, tensors, {"texts": texts}, CONFIG)
    read, facts = load_checkpoint(path)
    back = unpack(read, facts["texts"])["state"]
    assert back.dtype.kind == array.dtype.kind
    assert back.tolist() == array.tolist()


def test_a_state_of_objects_is_refused():
    with pytest.raises(UserError, match="'scores' holds object"):
        pack({"scores": np.array([{}], dtype=object)})


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_a_file_cut_short_is_refused(saved, share):
    path, *_ = saved
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(UserError, match=r"checkpoint\.safetensors is not a whole checkpoint"):
        load_checkpoint(path, CONFIG)


@pytest.mark.parametrize(
    "metadata",
    [None, {}, {"aaggff": "{"}, {"aaggff": "[]"}, {"aaggff": '{"format": 1, "facts": 3}'}],
    ids=str,
)
def test_a_file_of_another_kind_is_refused(tmp_path, metadata):
    path = tmp_path / "checkpoint.safetensors"
    save_file({"x": torch.zeros(1)}, path, metadata)
    with pytest.raises(UserError, match="is not a whole checkpoint of aaggff"):
        load_checkpoint(path)


def test_another_format_says_which(tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    about = {"format": 9, "config": {}, "facts": {}}
    save_file({"x": torch.zeros(1)}, path, {"aaggff": json.dumps(about)})
    with pytest.raises(UserError, match="has format 9; this version reads format 1"):
        load_checkpoint(path)


@pytest.mark.parametrize(
    ("change", "named"),
    [({"lr": 0.5}, "lr"), ({"method": "fedavg"}, "method"), ({"seed": 1}, "seed"),
     ({"data": {"variant": "flamby"}}, "data")],
)  # fmt: skip
def test_a_checkpoint_of_other_settings_is_refused_and_says_which(saved, change, named):
    with pytest.raises(UserError, match=f"saved with {named}"):
        load_checkpoint(saved[0], CONFIG.but(**change))


def test_settings_that_change_no_result_may_differ(saved):
    load_checkpoint(saved[0], CONFIG.but(rounds=999, evaluate_every=1, executor="sequential"))


@pytest.mark.parametrize("fault", ["missing", "shape", "type", "nan", "extra", "server"])
def test_tensors_are_checked_before_the_model_takes_them(saved, fault):
    path, tensors, facts = saved
    name = next(name for name in tensors if name.startswith("model.") and "weight" in name)
    changed = dict(tensors)
    if fault == "missing":
        del changed[name]
    elif fault == "shape":
        changed[name] = tensors[name][:, :-1]
    elif fault == "type":
        changed[name] = tensors[name].to(torch.int32)
    elif fault == "nan":
        changed[name] = torch.full_like(tensors[name], float("nan"))
    elif fault == "server":
        name = "server.m"
        changed[name] = tensors[name][1:]
    else:
        changed["model.intruder"] = torch.zeros(1)
    save_checkpoint(path, changed, facts, CONFIG)
    federation = build(CONFIG)
    before = federation.state_dict()[0]
    with pytest.raises(UserError, match="intruder" if fault == "extra" else name):
        restore(federation, path, CONFIG)
    after = federation.state_dict()[0]
    assert federation.round == 0
    assert all(torch.equal(before[key], after[key]) for key in before)


def test_a_run_cannot_be_resumed_to_fewer_rounds_than_it_has(saved):
    config = CONFIG.but(rounds=2)
    with pytest.raises(UserError, match="is of round 3; rounds is only 2"):
        restore(build(config), saved[0], config)
