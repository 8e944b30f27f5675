"""The server optimisers a second time, from the papers: plain numpy, in double precision.

Reddi et al. 2021 (Adaptive Federated Optimization), algorithm 2, with its Delta_t = -g;
FedAvgM is Hsu et al. 2019.
"""

import numpy as np


def sgd(lr):
    return lambda theta, g: theta - lr * g


def fedavgm(lr, beta=0.9):
    v = 0.0

    def apply(theta, g):
        nonlocal v
        v = beta * v + g
        return theta - lr * v

    return apply


def adaptive(second_moment):
    def made(lr, beta1=0.9, beta2=0.999, tau=1e-4):
        m, v = 0.0, tau**2

        def apply(theta, g):
            nonlocal m, v
            delta = -g
            m = beta1 * m + (1 - beta1) * delta
            v = second_moment(v, delta, beta2)
            return theta + lr * m / (np.sqrt(v) + tau)

        return apply

    return made


SERVERS = {
    "sgd": sgd,
    "momentum": fedavgm,
    "adam": adaptive(lambda v, d, beta2: beta2 * v + (1 - beta2) * d**2),
    "yogi": adaptive(lambda v, d, beta2: v - (1 - beta2) * d**2 * np.sign(v - d**2)),
    "adagrad": adaptive(lambda v, d, beta2: v + d**2),
}
