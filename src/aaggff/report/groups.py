"""Runs of one method over several seeds, and the statistics of them that figures draw."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aaggff.report.collect import Floats, RunRecord

# The order methods are listed in; labels that are not methods come after, as found.
ORDER = (
    "fedavg",
    "uniform",
    "qfedavg",
    "term",
    "propfair",
    "afl",
    "fedmgda",
    "aaggff-s",
    "aaggff-d",
)


@dataclass(frozen=True)
class Group:
    """One method's runs. `key` is its CSS class: colour and dash."""

    key: str
    label: str
    runs: list[RunRecord]

    def clients(self, measure: str) -> Floats | None:
        """Each client's final value, averaged over the seeds in which it has one.

        Metrics are in per cent, as everywhere on the page; losses are as they are.
        """
        per_seed = [v for v in (run.last(measure) for run in self.runs) if v is not None]
        if not per_seed or len({len(v) for v in per_seed}) != 1:
            return None
        stack = np.stack(per_seed)
        there = np.isfinite(stack)
        total = np.where(there, stack, 0.0).sum(axis=0)
        count = there.sum(axis=0)
        unit = 1.0 if measure == "loss" else 100.0
        return unit * np.where(count > 0, total / np.maximum(count, 1), np.nan)

    def final(self, *path: str) -> dict[int, float]:
        """By seed, the last number that `path` leads to in the rounds' records."""
        by_seed = {}
        for run in self.runs:
            for record in reversed(run.rounds):
                value = dig(record, path)
                if isinstance(value, int | float):
                    by_seed[run.seed] = float(value)
                    break
        return by_seed

    def curve(self, *path: str) -> tuple[Floats, Floats] | None:
        """Rounds, and one row per seed of the number that `path` leads to in a round's record."""
        rows: list[tuple[NDArray[np.int64], Floats]] = []
        for run in self.runs:
            found = [(r["round"], dig(r, path)) for r in run.rounds]
            found = [(t, v) for t, v in found if isinstance(v, int | float)]
            if found:
                rows.append(
                    (np.array([t for t, _ in found]), np.array([v for _, v in found], float))
                )
        if not rows:
            return None
        shared = rows[0][0]
        for rounds, _ in rows[1:]:
            shared = np.intersect1d(shared, rounds)
        if shared.size == 0:
            return None
        values = np.stack([v[np.isin(t, shared)] for t, v in rows])
        return shared.astype(float), values


def dig(record: object, path: Sequence[str]) -> object:
    for key in path:
        record = record.get(key) if isinstance(record, dict) else None
    return record


def natural(text: str) -> list[tuple[float, str]]:
    """A key by which q=2 comes before q=10.

    >>> sorted(["q=10", "q=2", "q=0.1"], key=natural)
    ['q=0.1', 'q=2', 'q=10']
    """
    parts = re.split(r"(\d+(?:\.\d+)?)", text)
    return [(float(part), "") if i % 2 else (-1.0, part) for i, part in enumerate(parts)]


def group_runs(runs: Sequence[RunRecord]) -> list[Group]:
    """One group per method label, in the order of the comparison tables."""
    by_label: dict[str, list[RunRecord]] = {}
    for run in runs:
        by_label.setdefault(run.label, []).append(run)

    def rank(name: str) -> tuple[int, list[tuple[float, str]], int]:
        method, _, options = name.partition(":")
        if method not in ORDER:
            return len(ORDER), [], list(by_label).index(name)
        return ORDER.index(method), natural(options), 0

    labels = sorted(by_label, key=rank)
    return [Group(f"m{i}", name, by_label[name]) for i, name in enumerate(labels)]
