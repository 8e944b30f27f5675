"""A model of one's own: built, known to fit before round 1, or refused in one line."""

import pytest
import torch
from torch import nn

from aaggff.data.heart import load
from aaggff.errors import UserError
from aaggff.federation.federation import Federation

DATA = load()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(15, 1)

    def forward(self, x):
        return self.linear(x)


class Pair(Net):
    def forward(self, x):
        return super().forward(x), 3


def factory(shape, task, *, width=4):
    return nn.Sequential(nn.Linear(*shape, width), nn.ReLU(), nn.Linear(width, task.outputs))


def broken(shape, task):
    raise KeyError("layers")


def frozen(shape, task):
    return nn.Linear(*shape, 1).requires_grad_(False)


def test_a_module_a_factory_and_its_name_are_models():
    module = Net()
    before = module.linear.weight.clone()
    trained = Federation(DATA, module)
    trained.step()
    assert torch.equal(module.linear.weight, before)  # it was copied
    assert not torch.equal(trained.model.linear.weight, before)
    one = Federation(DATA, factory, model_options={"width": 3}, seed=1)
    other = Federation(DATA, f"{__name__}:factory", model_options={"width": 3}, seed=1)
    assert one.model[0].weight.shape == (3, 15)
    assert torch.equal(one.model[0].weight, other.model[0].weight)
    assert one.step()["losses"] == other.step()["losses"]


BAD = [
    (Net, {}, r"Net must take \(sample_shape, task\).*write a function"),
    (factory, {"widht": 3}, "factory must take .*unexpected keyword argument 'widht'"),
    (lambda shape, task: None, {}, "returned NoneType, expected a torch.nn.Module"),
    (lambda shape, task: nn.Identity(), {}, "has no parameters to train"),
    (frozen, {}, "frozen has no parameters to train"),
    (broken, {}, r"broken failed to be made: KeyError: 'layers' \(test_setup.py, line \d+\)"),
    (Pair(), {}, "Pair gives tuple, expected one tensor"),
    (Net(), {"width": 3}, "model_options belong to a model given by name or as a factory"),
    (nn.Linear(14, 1), {}, r"Linear cannot take samples of shape \(15,\): RuntimeError"),
    (nn.Linear(15, 2), {}, r"2 samples give outputs of shape \(2, 2\), expected \(2, 1\)"),
    (nn.Linear(15, 1).double(), {}, "same dtype"),
    (5, {}, "model: expected a name, a factory or a torch.nn.Module, got 5"),
    ("no.such:factory", {}, "'no.such:factory' cannot be imported"),
]


@pytest.mark.parametrize(("model", "options", "said"), BAD, ids=[said for *_, said in BAD])
def test_a_model_that_cannot_be_is_refused_in_one_line(model, options, said):
    with pytest.raises(UserError, match=said) as error:
        Federation(DATA, model, model_options=options)
    assert "\n" not in str(error.value)
