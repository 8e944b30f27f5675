"""Any decision maker with an account of its regret, behind the same interface."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike, NDArray

from aaggff.decision.base import Array, DecisionMaker, State
from aaggff.decision.regret import Regret, RegretTracker
from aaggff.decision.responses import CdfResponse
from aaggff.decision.state import check_keys
from aaggff.errors import UserError


class Tracked(DecisionMaker):
    """A decision maker with its regret account; decides exactly as the one it wraps.

    Made by `track_regret`. Its state is the wrapped maker's and the account's.
    """

    def __init__(self, maker: DecisionMaker, response: CdfResponse | None = None) -> None:
        self.maker = maker
        self.tracker = RegretTracker(maker, response)
        self.wants_updates = maker.wants_updates

    @property
    def clients(self) -> int | None:  # type: ignore[override]
        """K, as far as the wrapped maker knows."""
        return self.maker.clients

    @property
    def regret(self) -> Regret:
        """The regret so far."""
        return self.tracker.summary()

    def decide(
        self,
        ids: Sequence[Hashable] | NDArray[Any],
        losses: ArrayLike,
        sizes: ArrayLike,
        *,
        updates: Any = None,
        gram: ArrayLike | None = None,
        lr: float | None = None,
    ) -> Array:
        weights = self.maker.decide(ids, losses, sizes, updates=updates, gram=gram, lr=lr)
        self.last = self.maker.last
        if self.last is None:
            raise UserError("maker: it decided, but its `last` holds no decision (see `settle`)")
        self.tracker.record(self.last, losses)
        return weights

    def regret_bound(self, rounds: int, *, fewest: int | None = None) -> float | None:
        return self.maker.regret_bound(rounds, fewest=fewest)

    def forget(self, ids: Iterable[Hashable]) -> None:
        gone = list(ids)
        self.maker.forget(gone)
        self.tracker.forget(gone)

    def state_dict(self) -> State:
        account = {f"regret.{key}": value for key, value in self.tracker.state_dict().items()}
        return {**self.maker.state_dict(), **account}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        start = len("regret.")
        account = {k[start:]: v for k, v in state.items() if k.startswith("regret.")}
        check_keys(account, self.tracker.state_dict())
        before = self.maker.state_dict()
        self.maker.load_state_dict({k: v for k, v in state.items() if not k.startswith("regret.")})
        try:
            self.tracker.load_state_dict(account)
        except UserError:  # refused untouched: both or neither
            self.maker.load_state_dict(before)
            raise


def track_regret(maker: DecisionMaker, response: CdfResponse | None = None) -> Tracked:
    """The same decision maker, keeping account of its regret.

    Args:
        maker: one that has not decided yet.
        response: judge the decisions by these responses. Needed for rules without bounded
            responses of their own (all but AAggFF).

    >>> from aaggff import decision_maker
    >>> maker = track_regret(decision_maker("aaggff-d", clients=1000, rate=0.002))
    >>> weights = maker.decide([5, 17], [0.2, 0.9], [10, 30])
    >>> maker.regret.value < maker.regret.bound
    True
    """
    return Tracked(maker, response)
