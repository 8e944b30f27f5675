"""What the clients' updates say, checked: their inner products, from either form.

A decision needs no more of the updates than their Gram matrix <Delta_i, Delta_j>, so a server that
never holds them all at once can hand over that instead. An update that is not finite sets its
client aside, as a bad loss does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aaggff.decision.base import Array
from aaggff.decision.reports import Reports, as_list
from aaggff.errors import UserError


def gram_matrix(reports: Reports, updates: Any, gram: ArrayLike | None) -> tuple[Reports, Array]:
    """The Gram matrix of the accepted clients' updates, and who is accepted."""
    n = reports.accepted.size
    if gram is not None:
        inner = _matrix("gram", gram, (n, n))
    else:
        rows = _rows(updates, n)
        with np.errstate(over="ignore", invalid="ignore"):
            inner = rows @ rows.T
    reports = _without(reports, np.diagonal(inner))
    kept = reports.accepted
    inner = inner[np.ix_(kept, kept)]
    if not np.isfinite(inner).all():
        raise UserError("gram: holds a value that is not finite beside finite squared norms")
    return reports, inner


def squared_norms(reports: Reports, updates: Any, gram: ArrayLike | None) -> tuple[Reports, Array]:
    """|Delta_i|^2 of the accepted clients, and who is accepted. `gram` may be just its diagonal."""
    n = reports.accepted.size
    if gram is not None:
        given = np.asarray(gram, dtype=np.float64)
        squares = given if given.shape == (n,) else np.diagonal(_matrix("gram", given, (n, n)))
    else:
        rows = _rows(updates, n)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.einsum("ij,ij->i", rows, rows)
    reports = _without(reports, squares)
    return reports, squares[reports.accepted]


def _rows(updates: Any, n: int) -> Array:
    if updates is None:
        raise UserError("updates: this method decides from the updates, pass updates= or gram=")
    try:
        rows = np.asarray(updates, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserError("updates: expected one row of numbers per client, all as long") from None
    if rows.ndim != 2 or len(rows) != n:
        raise UserError(f"updates: expected {n} rows, one per client, got shape {rows.shape}")
    return rows


def _matrix(name: str, values: ArrayLike, shape: tuple[int, int]) -> Array:
    matrix: NDArray[np.float64] = np.asarray(values, dtype=np.float64)
    if matrix.shape != shape:
        raise UserError(f"{name}: expected shape {shape}, one row per client, got {matrix.shape}")
    return matrix


def _without(reports: Reports, squares: Array) -> Reports:
    good = np.isfinite(squares) & (squares >= 0)
    if good.all():
        return reports
    names = as_list(reports.all_ids)
    bad = [names[i] for i in np.flatnonzero(~good).tolist()]
    fresh = {i: "update is not finite" for i in bad if i not in reports.set_aside}
    return reports.without(fresh)
