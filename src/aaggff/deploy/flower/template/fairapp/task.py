"""Your model and your data: the one file to change.

As it stands it is UCI Heart Disease, whose four hospitals come with aaggff.
"""

from __future__ import annotations

import torch
from torch import nn

from aaggff.data import heart
from aaggff.federation.data import Part, Task
from aaggff.federation.local import LocalTraining
from aaggff.federation.setup import make_model

NAME = "heart"
SITES = list(heart.HOSPITALS)  # the sites' names, in the order of their ids 0, 1, 2, ...
TASK = Task("binary", 1, "auroc")  # one logit; Task("multiclass", 10, "top1") has ten
LOCAL = LocalTraining(lr=0.01, decay=0.999, decay_every=2, batch_size=20, epochs=1)


def model(seed: int) -> nn.Module:
    """The model at the start; the server's copy is the one that counts.

    Your own is any torch module:

        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(15, 32), nn.ReLU(), nn.Linear(32, 1))
    """
    return make_model("logistic", heart.load(seed=seed), seed, torch.device("cpu"), {})


def data(site: int, seed: int, where: str) -> tuple[Part, Part]:
    """This site's own training and test part: (inputs, targets) and (inputs, targets).

    On a real site read what lies at `where`: whatever its SuperNode was started with, as in
    --node-config 'partition-id=0 data="/srv/ward.csv"'. `site` says which site this is.
    """
    hospitals = heart.load(seed=seed)
    return hospitals.train(site), hospitals.test(site)
