"""What is known about a data set before it is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aaggff.federation.data import FederatedData


@dataclass(frozen=True)
class PaperSettings:
    """One row of the paper's experiments (appendix C): the defaults of `aaggff run`."""

    rounds: int
    per_round: int | None
    """Clients sampled a round; None: everybody."""
    model: str
    lr: float
    weight_decay: float = 0.0
    decay: float = 1.0
    decay_every: int = 1
    cdf: str = "normal"
    batch_size: int = 20
    epochs: int = 1


@dataclass(frozen=True)
class Option:
    """A choice a data set's loader offers: `--set data.NAME=VALUE`."""

    default: Any
    help: str
    choices: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class DatasetSpec:
    """Name, rights, settings and loader of one data set.

    `load(root, seed=..., **options)` reads official files (or the store made from them) under
    `root`, which is None for data that needs none; `stand_in(seed=..., **options)` makes a
    learnable likeness with the same clients, sizes, shapes and types, and is None where the data
    is always at hand.
    """

    name: str
    title: str
    licence: str
    credit: str
    settings: PaperSettings
    load: Callable[..., FederatedData]
    options: Mapping[str, Option] = field(default_factory=dict)
    stand_in: Callable[..., FederatedData] | None = None
    needs_files: bool = True

    def available(self, root: Path | None) -> bool:
        """Whether loading would find its files."""
        return not self.needs_files
