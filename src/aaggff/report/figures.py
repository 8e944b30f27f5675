"""The figures of the page, one function each: groups of runs in, drawings out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aaggff.fairness import lorenz
from aaggff.report.collect import Floats
from aaggff.report.groups import Group
from aaggff.report.svg import BOTTOM, RIGHT, TOP, Figure, Series, diverging, png, spread

FEW = 40
"""Up to so many clients are shown one by one, by name; more as a distribution."""
MOST_COLUMNS = 200


@dataclass(frozen=True)
class Drawing:
    """A finished figure and the sentence under it."""

    figure: Figure
    heading: str
    caption: str
    keys: list[tuple[str, str]] = field(default_factory=list)
    """What its colours mean, class and name, where the buttons at the top do not say."""


def measured(measure: str, title: str) -> str:
    """The name of an axis: losses are bare numbers, metrics are per cent."""
    return title if measure == "loss" else f"{title}, per cent"


def short(name: str, most: int = 16) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def margin(names: Sequence[str]) -> int:
    """Room for names to the left of a drawing, in the larger type of phones too."""
    return 16 + math.ceil(8.2 * max((len(short(name)) for name in names), default=0))


def client_names(groups: Sequence[Group], clients: int) -> list[str]:
    """What the runs call them, or their numbers."""
    known = next((run.names() for group in groups for run in group.runs if run.names()), [])
    return [known[i] if i < len(known) else f"client {i}" for i in range(clients)]


def distribution(groups: list[Group], measure: str, title: str) -> Drawing | None:
    """Every client's performance: a row of dots per method, or the share below each value."""
    values = [
        (g, v) for g in groups if (v := g.clients(measure)) is not None and np.isfinite(v).any()
    ]
    if not values:
        return None
    clients = max(len(v) for _, v in values)
    if clients <= FEW:
        names = client_names([g for g, _ in values], clients)
        rows = len(values)
        left = margin([g.label for g, _ in values])
        figure = Figure(
            f"{title} of every client, by method",
            x_name=measured(measure, title),
            x_range=spread(*(v for _, v in values)),
            y_range=(-0.5, rows - 0.5),
            left=left,
            height=max(150, 26 * rows + BOTTOM + TOP),
        ).axes(y_ticks=False)
        for row, (group, v) in enumerate(values):
            y = rows - 1 - row
            figure.text_at(left - 6, figure.y(y) + 4, short(group.label), anchor="end")
            titles = [f"{group.label}, {names[i]}: {x:.4g}" for i, x in enumerate(v)]
            figure.dots(group.key, v, np.full(len(v), float(y)), titles)
        return Drawing(
            figure, f"Every client's {title}", "One dot is one client, averaged over seeds."
        )
    figure = Figure(
        f"Share of clients below each {title}",
        x_name=measured(measure, title),
        y_name="share of clients",
        x_range=spread(*(v for _, v in values)),
        y_range=(0, 1),
    ).axes()
    for group, v in values:
        ordered = np.sort(v[np.isfinite(v)])
        share = np.arange(1, len(ordered) + 1) / len(ordered)
        figure.line(Series(group.key, group.label, ordered, share))
    return Drawing(
        figure,
        f"Every client's {title}",
        f"The share of the {clients:,} clients that are at or below a value, averaged over seeds.",
    )


def lorenz_curves(groups: list[Group], measure: str, title: str) -> Drawing | None:
    """How far the total is from being spread evenly: the diagonal is perfect equality."""
    figure = Figure(
        f"Lorenz curve of {title}",
        x_name=f"share of clients, {'lowest' if measure == 'loss' else 'worst'} first",
        y_name=f"their share of all {title}",
    ).axes()
    equal = np.array([0.0, 1.0])
    figure.line(Series("even", "equality", equal, equal, dashed=True))
    drawn = False
    for group in groups:
        values = group.clients(measure)
        if values is None:
            continue
        values = values[np.isfinite(values) & (values >= 0)]
        if values.size < 2 or values.sum() == 0:
            continue
        population, share = lorenz(values)
        figure.line(Series(group.key, group.label, population, share))
        drawn = True
    caption = "The closer to the dashed diagonal, the more even; Gini is twice the area between."
    return Drawing(figure, f"Lorenz curve of {title}", caption) if drawn else None


def gains(groups: list[Group], measure: str, title: str) -> list[Drawing]:
    """Who gains and who loses against FedAvg, client by client."""
    base = next((g for g in groups if g.label == "fedavg"), None)
    against = base.clients(measure) if base else None
    if base is None or against is None:
        return []
    better = -1.0 if measure == "loss" else 1.0
    moved: list[tuple[Group, Floats]] = []
    for group in groups:
        values = group.clients(measure)
        if group is base or values is None or len(values) != len(against):
            continue
        difference = better * (values - against)
        if np.isfinite(difference).any():
            moved.append((group, difference))
    if not moved:
        return []
    reach = spread(*(d for _, d in moved), np.zeros(1))
    sign = "lower" if measure == "loss" else "higher"
    if len(against) > FEW:
        figure = Figure(
            f"Change of {title} against FedAvg over clients",
            x_name="share of clients, from most hurt to most helped",
            y_name=f"{measured(measure, title)}: {sign} by",
            x_range=(0, 1),
            y_range=reach,
        ).axes()
        figure.line(Series("even", "no change", np.array([0.0, 1.0]), np.zeros(2), dashed=True))
        notes = []
        for group, difference in moved:
            ordered = np.sort(difference[np.isfinite(difference)])
            share = (np.arange(len(ordered)) + 0.5) / len(ordered)
            figure.line(Series(group.key, group.label, share, ordered))
            notes.append(
                f"{group.label} helps {(ordered > 0).mean():.0%}, hurts {(ordered < 0).mean():.0%}"
            )
        return [Drawing(figure, f"Who gains {title}", "; ".join(notes) + ".")]
    names = client_names(groups, len(against))
    left = margin(names)
    drawings = []
    for group, difference in moved:
        clients = len(difference)
        figure = Figure(
            f"{group.label}: change of {title} against FedAvg, by client",
            x_name=f"{measured(measure, title)}: {sign} than FedAvg by",
            x_range=reach,
            y_range=(0, 1),
            left=left,
            height=BOTTOM + TOP + max(80, 16 * clients),
        ).axes(y_ticks=False)
        figure.upright(0.0)
        slot = (figure.height - BOTTOM - TOP) / clients
        for i, d in enumerate(difference.tolist()):
            y = TOP + slot * (i + 0.5)
            figure.text_at(left - 6, y + 4, short(names[i]), anchor="end")
            figure.bar("gain" if d > 0 else "loss", d, y, slot * 0.66, f"{names[i]}: {d:+.4g}")
        helped, hurt = int((difference > 0).sum()), int((difference < 0).sum())
        caption = f"{helped} of {clients} clients gain, {hurt} lose (average over seeds)."
        drawings.append(Drawing(figure, f"{group.label}: who gains {title}", caption))
    return drawings


def weights(group: Group) -> Drawing | None:
    """Mixing weights over rounds, as multiples of an equal share, for one seed."""
    run = group.runs[0]
    rounds = [record for record in run.rounds if record["clients"]]  # in others nobody counted
    if not rounds:
        return None
    everybody = _same_clients(rounds)
    if everybody is not None:
        rows, names = _by_client(rounds, everybody, run.names())
        caption = "A row is a client, a column a round"
    else:
        rows, names = _by_loss_rank(rounds)
        caption = "A row is a rank: the top one is the client with the highest loss in its round"
    if rows.size == 0 or rows.shape[0] < 2:
        return None
    rows = _binned(rows)
    with np.errstate(divide="ignore"):
        relative = np.clip(np.log2(np.maximum(rows, 2.0**-10)), -2, 2) / 2
    clients, left = rows.shape[0], margin(names)
    figure = Figure(
        f"{group.label}: mixing weights over rounds",
        x_name="round",
        x_range=(
            float(rounds[0]["round"]),
            max(float(rounds[-1]["round"]), rounds[0]["round"] + 1.0),
        ),
        left=left,
        height=BOTTOM + TOP + min(260, max(80, 18 * clients)),
    )
    figure.picture(png(diverging(relative))).axes(y_ticks=False)
    slot = (figure.height - BOTTOM - TOP) / clients
    every = max(1, int(np.ceil(12 / slot)))
    for i in range(0, clients, every):
        figure.text_at(left - 6, TOP + slot * (i + 0.5) + 4, short(names[i]), anchor="end")
    caption += (
        f" (seed {run.seed}). Grey is an equal share, orange more, blue less; "
        "full colour is four times or a quarter."
    )
    return Drawing(figure, f"{group.label}: weights", caption)


Rounds = list[dict[str, Any]]


def _same_clients(rounds: Rounds) -> list[object] | None:
    """The clients, if a small fixed set takes part (drop-outs allowed); else None."""
    seen: dict[object, None] = {}
    for record in rounds:
        for client in record["clients"]:
            seen[client] = None
            if len(seen) > FEW:
                return None
    return sorted(seen, key=lambda c: (str(type(c)), c))


def _by_client(rounds: Rounds, clients: list[object], known: list[str]) -> tuple[Floats, list[str]]:
    row = {client: i for i, client in enumerate(clients)}
    table = np.full((len(clients), len(rounds)), np.nan)
    for column, record in enumerate(rounds):
        for client, weight in zip(record["clients"], record["weights"]):
            table[row[client], column] = (weight or 0.0) * len(record["clients"])
    names = [
        known[c] if isinstance(c, int) and 0 <= c < len(known) else f"client {c}" for c in clients
    ]
    return table, names


def _by_loss_rank(rounds: Rounds) -> tuple[Floats, list[str]]:
    most = min(FEW, max(len(record["clients"]) for record in rounds))
    table = np.full((most, len(rounds)), np.nan)
    for column, record in enumerate(rounds):
        losses = [np.inf if loss is None else loss for loss in record["losses"]]
        order = np.argsort([-loss for loss in losses], kind="stable")
        share = np.array([w or 0.0 for w in record["weights"]], dtype=float) * len(losses)
        # More reporters than rows: each row is the mean of its slice of ranks.
        for rank, part in enumerate(np.array_split(share[order], min(most, len(losses)))):
            table[rank, column] = part.mean()
    return table, ["highest loss", *[""] * (most - 2), "lowest loss"]


def _binned(table: Floats) -> Floats:
    """At most MOST_COLUMNS columns, each the mean of the rounds it stands for."""
    if table.shape[1] <= MOST_COLUMNS:
        return table
    columns = []
    for part in np.array_split(table, MOST_COLUMNS, axis=1):
        there = np.isfinite(part)
        count = there.sum(axis=1)
        total = np.where(there, part, 0.0).sum(axis=1)
        columns.append(np.where(count > 0, total / np.maximum(count, 1), np.nan))
    return np.stack(columns, axis=1)


def curves(
    groups: list[Group], path: tuple[str, ...], heading: str, y_name: str, caption: str = ""
) -> Drawing | None:
    """A number of the record over rounds: mean over seeds, shaded from lowest to highest seed."""
    found = [(g, c) for g in groups if (c := g.curve(*path)) is not None]
    return _drawn(found, heading, y_name, caption)


def cumulative_objective(groups: list[Group]) -> Drawing | None:
    """The paper's figure: sum over rounds of sum_i p_i F_i, smaller is better."""
    found = []
    for group in groups:
        curve = group.curve("objective")
        if curve is not None:
            found.append((group, (curve[0], np.cumsum(curve[1], axis=1))))
    caption = "What the server's weights made of the clients' losses, summed: smaller is better."
    return _drawn(found, "Cumulative global objective", "sum of the objective", caption)


def objective_apart(groups: list[Group]) -> Drawing | None:
    """The same against one method, seed by seed: sums that nearly agree differ visibly here."""
    sums = {}
    for group in groups:
        curve = group.curve("objective")
        if curve is not None:
            sums[group.label] = (group, curve[0], np.cumsum(curve[1], axis=1))
    base = sums.pop("fedavg", None) or (sums.pop(next(iter(sums))) if sums else None)
    if base is None:
        return None
    seeds = [run.seed for run in base[0].runs]
    found = [
        (group, (rounds, values - base[2]))
        for group, rounds, values in sums.values()
        if values.shape == base[2].shape
        and np.array_equal(rounds, base[1])
        and [run.seed for run in group.runs] == seeds
    ]
    heading = f"Cumulative global objective, less {base[0].label}'s"
    return _drawn(found, heading, "difference of the sums", "Seed by seed; below 0 is better.")


def regret(groups: list[Group]) -> Drawing | None:
    """Regret against the best fixed weights in hindsight, and what the theorem allows."""
    found = [(g, c) for g in groups if (c := g.curve("regret")) is not None]
    bounds = [(g, c) for g, _ in found if (c := g.curve("regret_bound")) is not None]
    caption = (
        "Against the best fixed weights in hindsight; dashed: what the theorem allows at most."
    )
    return _drawn(found, "Regret", "regret", caption, dashed=bounds)


Curve = tuple[Group, tuple[Floats, Floats]]


def _drawn(
    found: list[Curve], heading: str, y_name: str, caption: str, dashed: list[Curve] | None = None
) -> Drawing | None:
    found = [curve for curve in found if len(curve[1][0]) > 1]  # one point is no line
    dashed = [curve for curve in dashed or [] if len(curve[1][0]) > 1]
    if not found:
        return None
    seeds = max(len(values) for _, (_, values) in found)
    figure = Figure(
        heading,
        x_name="round",
        y_name=y_name,
        x_range=spread(*(rounds for _, (rounds, _) in found), pad=0.0),
        y_range=spread(*(values for _, (_, values) in found + dashed)),
    ).axes()
    named: list[float] = []
    for group, (rounds, values) in dashed:
        name = f"{group.label}, bound"
        middle = values.mean(axis=0)
        figure.line(Series(group.key, name, rounds, middle, dashed=True))
        end = figure.y(float(middle[-1]))
        if all(abs(end - other) > 16 for other in named):
            named.append(end)
            figure.text_at(figure.width - RIGHT - 2, end - 6, name, anchor="end")
    for group, (rounds, values) in found:
        several = len(values) > 1
        figure.line(
            Series(
                group.key,
                group.label,
                rounds,
                values.mean(axis=0),
                values.min(axis=0) if several else None,
                values.max(axis=0) if several else None,
            )
        )
    if seeds > 1:
        caption = f"{caption} Mean of {seeds} seeds, shaded from the lowest to the highest.".strip()
    return Drawing(figure, heading, caption)
