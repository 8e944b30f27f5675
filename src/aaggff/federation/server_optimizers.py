"""What the server does with the mixed update: its pseudo-gradient (Reddi et al. 2021, algorithm 2).

Each optimiser works on flat vectors, in place, and combines with every decision maker.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from aaggff.errors import UserError, unknown


class ServerOptimizer(ABC):
    """theta <- theta - something made of the pseudo-gradient sum_i w_i Delta_i."""

    slots: ClassVar[tuple[str, ...]] = ()
    """The vectors it keeps from round to round."""

    def __init__(self) -> None:
        self._kept: dict[str, Tensor] = {}

    @abstractmethod
    def step(self, theta: Tensor, pseudo_gradient: Tensor) -> Tensor:
        """Apply one round's mix to `theta`, in place, and return it."""

    def state_dict(self) -> dict[str, Tensor]:
        """What must survive a restart."""
        return {name: value.clone() for name, value in self._kept.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue exactly where the saved optimiser stood."""
        if state and set(state) != set(self.slots):
            raise UserError(
                f"server optimiser's state: expected {', '.join(self.slots) or 'nothing'}, "
                f"got {', '.join(sorted(state))}"
            )
        self._kept = {name: value.clone() for name, value in state.items()}

    def _slot(self, name: str, like: Tensor, start: float = 0.0) -> Tensor:
        if name not in self._kept:
            self._kept[name] = torch.full_like(like, start)
        kept = self._kept[name]
        if kept.device != like.device:
            kept = self._kept[name] = kept.to(like.device)
        return kept


class SGD(ServerOptimizer):
    """theta <- theta - lr g. With lr 1 the plain mix of the clients' models.

    >>> SGD().step(torch.tensor([1.0]), torch.tensor([0.25]))
    tensor([0.7500])
    """

    def __init__(self, *, lr: float = 1.0) -> None:
        super().__init__()
        self.lr = _positive("lr", lr)

    def step(self, theta: Tensor, pseudo_gradient: Tensor) -> Tensor:
        return theta.sub_(pseudo_gradient, alpha=self.lr)


class Momentum(ServerOptimizer):
    """FedAvgM (Hsu et al. 2019): v <- beta v + g, theta <- theta - lr v.

    >>> optimizer = Momentum(beta=0.5)
    >>> theta = torch.tensor([1.0])
    >>> for _ in range(2):
    ...     theta = optimizer.step(theta, torch.tensor([0.25]))
    >>> theta  # 1 - 0.25 - 0.375
    tensor([0.3750])
    """

    slots = ("velocity",)

    def __init__(self, *, lr: float = 1.0, beta: float = 0.9) -> None:
        super().__init__()
        self.lr, self.beta = _positive("lr", lr), _share("beta", beta)

    def step(self, theta: Tensor, pseudo_gradient: Tensor) -> Tensor:
        velocity = self._slot("velocity", theta)
        velocity.mul_(self.beta).add_(pseudo_gradient)
        return theta.sub_(velocity, alpha=self.lr)


class Adaptive(ServerOptimizer):
    """What FedAdam, FedYogi and FedAdagrad share: theta <- theta - lr m / (sqrt(v) + tau).

    m <- beta1 m + (1 - beta1) g, and v starts at tau^2, its least value in the paper. There is no
    bias correction: algorithm 2 has none.
    """

    slots = ("m", "v")

    def __init__(
        self, *, lr: float = 1e-2, beta1: float = 0.9, beta2: float = 0.999, tau: float = 1e-4
    ) -> None:
        super().__init__()
        self.lr, self.tau = _positive("lr", lr), _positive("tau", tau)
        self.beta1, self.beta2 = _share("beta1", beta1), _share("beta2", beta2)

    def step(self, theta: Tensor, pseudo_gradient: Tensor) -> Tensor:
        m = self._slot("m", theta)
        v = self._slot("v", theta, self.tau**2)
        m.lerp_(pseudo_gradient, 1 - self.beta1)
        self._second_moment(v, pseudo_gradient)
        return theta.addcdiv_(m, v.sqrt().add_(self.tau), value=-self.lr)

    @abstractmethod
    def _second_moment(self, v: Tensor, g: Tensor) -> None: ...


class Adam(Adaptive):
    """FedAdam: v <- beta2 v + (1 - beta2) g^2.

    >>> theta = Adam(lr=0.1).step(torch.tensor([1.0]), torch.tensor([1.0]))
    >>> round(float(theta), 4)  # 1 - 0.1 * 0.1 / (sqrt(0.001) + 0.0001)
    0.6848
    """

    def _second_moment(self, v: Tensor, g: Tensor) -> None:
        v.mul_(self.beta2).addcmul_(g, g, value=1 - self.beta2)


class Yogi(Adaptive):
    """FedYogi: v <- v - (1 - beta2) g^2 sign(v - g^2)."""

    def _second_moment(self, v: Tensor, g: Tensor) -> None:
        square = g * g
        v.addcmul_(square, torch.sign(v - square), value=self.beta2 - 1)


class Adagrad(Adaptive):
    """FedAdagrad: v <- v + g^2. `beta2` has no part in it."""

    def __init__(self, *, lr: float = 1e-2, beta1: float = 0.9, tau: float = 1e-4) -> None:
        super().__init__(lr=lr, beta1=beta1, tau=tau)

    def _second_moment(self, v: Tensor, g: Tensor) -> None:
        v.addcmul_(g, g)


SERVER_OPTIMIZERS: dict[str, type[ServerOptimizer]] = {
    "sgd": SGD,
    "momentum": Momentum,
    "adam": Adam,
    "yogi": Yogi,
    "adagrad": Adagrad,
}
ALIASES = {"fedavgm": "momentum", "fedadam": "adam", "fedyogi": "yogi", "fedadagrad": "adagrad"}


def server_optimizer(name: str, **options: float) -> ServerOptimizer:
    """A server optimiser by name: sgd, momentum, adam, yogi, adagrad (or fedadam and so on).

    >>> server_optimizer("fedyogi", lr=0.1).lr
    0.1
    >>> server_optimizer("adam", beta3=0.1)
    Traceback (most recent call last):
    ...
    aaggff.errors.UserError: unknown option of server optimiser 'adam' 'beta3'; did you mean ...
    """
    chosen = ALIASES.get(name, name)
    if chosen not in SERVER_OPTIMIZERS:
        raise unknown("server optimiser", name, [*SERVER_OPTIMIZERS, *ALIASES])
    known = server_optimizer_options(chosen)
    for option in options:
        if option not in known:
            raise unknown(f"option of server optimiser {name!r}", option, known)
    return SERVER_OPTIMIZERS[chosen](**options)


def server_optimizer_options(name: str) -> dict[str, Any]:
    """The options of a server optimiser and their defaults.

    >>> server_optimizer_options("momentum")
    {'lr': 1.0, 'beta': 0.9}
    """
    parameters = inspect.signature(SERVER_OPTIMIZERS[ALIASES.get(name, name)]).parameters
    return {p.name: p.default for p in parameters.values()}


def _positive(name: str, value: float) -> float:
    if not (math.isfinite(value) and value > 0):
        raise UserError(f"server {name}: expected a positive number, got {value!r}")
    return float(value)


def _share(name: str, value: float) -> float:
    if not 0 <= value < 1:
        raise UserError(f"server {name}: expected a number in [0, 1), got {value!r}")
    return float(value)
