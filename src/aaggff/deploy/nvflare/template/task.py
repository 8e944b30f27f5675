"""What is yours: the data of a site, the model, and how a site trains it. Edit this file."""

import torch

from aaggff.data import heart
from aaggff.federation.local import LocalTraining
from aaggff.federation.setup import make_model as first_model

SITES = 4
ROUNDS = 20
SEED = 2
METHOD = "aaggff-s"
METHOD_OPTIONS = {"cdf": "frechet"}
LOCAL = LocalTraining(lr=0.01, decay=0.999, decay_every=2, batch_size=20, epochs=1)


def load_data():
    """Every site's training and test part.

    Heart disease at four hospitals comes with aaggff and stands here as an example: each site
    reads its own part only. For your data return `aaggff.from_arrays({"here": (x, y)})` made of
    what lies at the site, with one client.
    """
    return heart.load(seed=SEED)


def client_of(site):
    """Which client of `load_data` a site is: site-1 is client 0. With your own data: always 0."""
    return int(site.rsplit("-", 1)[-1]) - 1


def make_model(seed=SEED):
    """The first global model; NVFlare calls this at the server. Any torch.nn.Module will do."""
    return first_model("logistic", load_data(), seed, torch.device("cpu"), {})
