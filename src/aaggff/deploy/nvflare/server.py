"""What the server of an NVFlare job does each round, without NVFlare: decide, mix, remember.

Site names are stable ("site-1"), so they are the clients' ids. NVFlare's controller keeps the
model and asks for a difference to add to it; this keeps everything else.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from aaggff.deploy.nvflare.round import (
    MISTAKES,
    TEST_LOSS,
    TEST_SAMPLES,
    Contribution,
    Shapes,
    Tensors,
    contribution,
    gram,
    mixed,
    most_common,
    number,
    other_shape,
    shapes,
)
from aaggff.deploy.state import FairServer
from aaggff.deploy.state_record import Evaluations, Recorder, Settings, finish, round_record
from aaggff.errors import UserError


class FairRounds:
    """Rounds of contributions in, differences to add to the model out.

    >>> rounds = FairRounds(FairServer("uniform", clients=2))
    >>> rounds.accept("site-1", {"w": np.float32([1.0])}, {"received_loss": 0.7, "samples": 10})
    >>> rounds.accept("site-2", {"w": np.float32([3.0])}, {"received_loss": 0.2, "samples": 30})
    >>> rounds.close()
    {'w': array([2.], dtype=float32)}
    """

    def __init__(
        self,
        server: FairServer,
        *,
        settings: Settings | None = None,
        metric: str = "accuracy",
        lr: float | None = None,
    ) -> None:
        self.server, self.lr = server, lr
        self.metric = metric
        self.evaluations = Evaluations(metric)
        self.known: list[str] = []
        self.record: dict[str, Any] | None = None
        """The record of the latest round: a line of rounds.jsonl."""
        self._shapes: Shapes = {}
        """What the model looks like: known once a round has been mixed."""
        self._inbox: dict[str, Contribution] = {}
        self._twice: dict[str, str] = {}
        self._started = self._began = time.perf_counter()
        saved = server.resume()
        if saved is not None:
            self.known = [str(site) for site in saved[1]["sites"]]
            looks = saved[1].get("shapes", {})
            self._shapes = {name: tuple(shape) for name, shape in looks.items()}
        self._recorder: Recorder | None = None
        if server.directory is not None:
            about = settings or Settings("federation", server.method)
            self._recorder = Recorder(server.directory, about, round=server.round)

    def reset(self) -> None:
        """A new round begins."""
        self._inbox, self._twice = {}, {}
        self._began = time.perf_counter()

    def accept(
        self,
        site: str,
        params: Mapping[str, Any] | None,
        metrics: Mapping[str, Any] | None,
        reason: str | None = None,
    ) -> None:
        """Take one site's update; the order of arrival does not matter.

        reason: why it cannot be used, where the caller knows already.
        """
        if site in self._inbox:
            self._twice[site] = "sent two updates"
            return
        self._inbox[site] = contribution(site, params, metrics, reason)

    def close(self) -> Tensors:
        """Decide, mix, take the server optimiser's step, write the record, save the state."""
        if not self._inbox:
            raise UserError(f"round {self.server.round + 1}: no site sent an update")
        arrived = [self._inbox[site] for site in sorted(self._inbox)]
        told = {each.reason for each in arrived}
        if len(told) == 1 and told <= set(MISTAKES):
            raise UserError(f"round {self.server.round + 1}: every site {arrived[0].reason}")
        reasons = self._reasons(arrived)
        good = [each for each in arrived if each.site not in reasons]
        change = self._change(arrived, good, reasons)
        self._remember(arrived, reasons)
        return change

    def finish(self, planned: int) -> None:
        """The job is over: the record is complete if all its rounds were done."""
        if self._recorder is not None:
            self._recorder.close()
            self._recorder = None
        if self.server.directory is not None and self.server.round >= planned > 0:
            finish(
                self.server.directory,
                rounds=self.server.round,
                seconds=time.perf_counter() - self._started,
                metric=self.metric,
            )

    def _reasons(self, arrived: list[Contribution]) -> dict[str, str]:
        """Who is set aside before anything is decided, and why."""
        reasons = dict(self._twice)
        expected = self._shapes or most_common([e for e in arrived if e.reason is None])
        for each in arrived:
            reason = each.reason or other_shape(expected, each)
            if reason:
                reasons.setdefault(each.site, reason)
        good = [each.site for each in arrived if each.site not in reasons]
        for site in self.server.too_many(good, self.known):
            reasons[site] = f"is not one of the {self.server.room} sites met before it"
        return reasons

    def _change(
        self, arrived: list[Contribution], good: list[Contribution], reasons: dict[str, str]
    ) -> Tensors:
        """What to add to the model: nothing if nobody's update can be used."""
        if not good:
            self.record = round_record(self.server.round + 1, None, [], set_aside=reasons)
            looks = self._shapes or most_common(arrived)
            like = next((e for e in arrived if shapes(e) == looks), None)
            if like is None:
                return {name: np.zeros(shape, np.float32) for name, shape in looks.items()}
            return {name: np.zeros_like(values) for name, values in like.difference.items()}
        self._shapes = shapes(good[0])
        self.server.begin(len(good))
        signals: dict[str, Any] = {"lr": self.lr}
        if self.server.wants_updates:
            signals["gram"] = gram(good)
        losses = [each.loss for each in good]
        sites = [each.site for each in good]
        weights = self.server.decide(sites, losses, [each.samples for each in good], **signals)
        self.record = round_record(
            self.server.round + 1,
            self.server.last,
            losses,
            dropped=[site for site in self.known if site not in self._inbox],
            set_aside=reasons,
            lr=self.lr,
        )
        change = mixed(good, weights.tolist())
        kinds = {name: values.dtype for name, values in good[0].difference.items()}
        # Optimisers see updates Delta = theta - theta_i and move any theta alike: from 0, the
        # place they reach is the difference.
        floats = {name: -values for name, values in change.items() if kinds[name].kind == "f"}
        moved = self.server.step({name: np.zeros_like(v) for name, v in floats.items()}, floats)
        rounded = {name: np.rint(v) for name, v in change.items() if name not in floats}
        return {name: (moved | rounded)[name].astype(kind) for name, kind in kinds.items()}

    def _remember(self, arrived: list[Contribution], reasons: dict[str, str]) -> None:
        assert self.record is not None
        self.known += [each.site for each in arrived if each.site not in {*self.known, *reasons}]
        self.record["seconds"] = time.perf_counter() - self._began
        added, line = self._evaluation(arrived)
        self.record |= added
        if self._recorder is not None:
            # Records reach as far as the saved state or beyond; resuming cuts off what is beyond.
            self._recorder.write(self.record, line)
            self._recorder.secure()
        facts = {"sites": self.known, "shapes": self._shapes}
        self.server.save(self.server.round + 1, {}, facts)

    def _evaluation(
        self, arrived: list[Contribution]
    ) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """What the sites say of the model they received, if they tested it."""
        values = {
            e.site: number(e.metrics[self.metric]) for e in arrived if self.metric in e.metrics
        }
        losses = {e.site: number(e.metrics[TEST_LOSS]) for e in arrived if TEST_LOSS in e.metrics}
        if not values and not losses:
            return {}, None
        sizes = {e.site: number(e.metrics.get(TEST_SAMPLES, e.samples)) for e in arrived}
        added, line = self.evaluations.lines(self.server.round + 1, values, losses, sizes)
        return added | self.server.account(), line
