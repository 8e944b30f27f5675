"""What is told about a federation while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aaggff.federation.evaluate import Evaluation
    from aaggff.federation.federation import Federation


class Callback:
    """Overrides what it wants to hear of; the other calls do nothing.

    `record` is the line that `rounds.jsonl` gets for the round; see docs/running.md.

    >>> class Worst(Callback):
    ...     def on_evaluation(self, federation, evaluation, record):
    ...         print(record["round"], record["metric"]["worst_client"])
    """

    def on_evaluation(
        self, federation: Federation, evaluation: Evaluation, record: dict[str, Any]
    ) -> None:
        """After a round whose model was evaluated on the clients' test parts."""

    def on_round(self, federation: Federation, record: dict[str, Any]) -> None:
        """After every round; of an evaluated one, after `on_evaluation`."""

    def on_end(self, federation: Federation) -> None:
        """Once, when training stops, be it finished or interrupted."""
