"""Berka (PKDD'99): 621 loans of a Czech bank; who stops paying. One client a region."""

from __future__ import annotations

from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aaggff.data.converted import converted
from aaggff.data.federated import FederatedRows
from aaggff.data.spec import DatasetSpec, Option, PaperSettings, RemoteFile, Statistics, stand_in
from aaggff.data.store import StoreWriter, open_store
from aaggff.errors import UserError
from aaggff.federation.data import Task

if TYPE_CHECKING:
    import polars as pl

HISTORIES = ("all", "before-loan")
LEFT_OUT = "north Bohemia"
"""The region with one default only."""

# Table -> its columns that are read, and how many rows the official file has.
TABLES = {
    "loan": ("loan_id account_id date amount duration payments status", 682),
    "account": ("account_id district_id frequency date", 4_500),
    "district": ("A1 A3 A4 A11 A12 A13 A14 A15 A16", 77),
    "order": ("account_id amount", 6_471),
    "trans": ("account_id date amount balance", 1_056_320),
}
TEXT = ("status", "frequency", "A3")
NUMBERS = (
    "amount", "duration", "payments", "days", "A4", "A11", "A14", "unemployment", "crime",
    "mean_order", "transactions", "mean_transaction", "mean_balance",
)  # fmt: skip
FREQUENCIES = ("POPLATEK MESICNE", "POPLATEK TYDNE", "POPLATEK PO OBRATU")
"""Statements monthly (the level that has no indicator), weekly, after each transaction."""


def load(root: Path | None = None, *, seed: int = 0, history: str = "all") -> FederatedRows:
    """Seven clients, one a region; target 1 where the loan's status is B or D (not paid back).

    13 numbers (standardised per region by its training part) and 2 indicators. history "all"
    counts every transaction of the account, as the paper does, also those after the loan was
    granted, which tell how it ended; "before-loan" counts only those before its date.
    """
    options = {"history": history}
    SPEC.check_options(options)
    store = converted(SPEC, root, options, _tables, partial(_convert, history=history))
    return open_store(store, seed=seed)


def _tables(folder: Path) -> list[Path]:
    return [folder / f"{table}.asc" for table in TABLES]


def _convert(folder: Path, store: Path, about: dict[str, Any], history: str) -> None:
    about["notes"] = missing(folder)
    loans = features(folder, history)
    with StoreWriter(
        store,
        "berka",
        Task("binary", 1, "auroc"),
        dtype="float64",
        shape=(len(NUMBERS) + len(FREQUENCIES) - 1,),
        target_dtype="uint8",
        standardise=len(NUMBERS),
        about=about,
    ) as writer:
        for (region,), rows in loans.group_by("A3", maintain_order=True):
            indicators = [rows["frequency"].to_numpy() == level for level in FREQUENCIES[1:]]
            numbers = rows.select(NUMBERS).to_numpy()
            writer.add(
                str(region),
                np.column_stack([numbers, *indicators]).astype(np.float64),
                rows["status"].is_in(["B", "D"]).to_numpy().astype(np.uint8),
            )


def features(folder: Path, history: str = "all") -> pl.DataFrame:
    """One row per loan: its region, its status, the 13 numbers and how often statements come."""
    import polars as pl

    loan, account, district, order, trans = (_read(folder, table) for table in TABLES)
    loan = loan.with_columns(granted=_date("date")).drop("date")
    account = account.with_columns(opened=_date("date")).drop("date")
    # `?` became a gap, which a mean over the two years leaves out.
    district = district.with_columns(
        unemployment=pl.mean_horizontal("A12", "A13"),
        crime=pl.mean_horizontal("A15", "A16"),
        place=pl.int_range(pl.len()),
    )
    loans = loan.join(account, on="account_id", how="left").join(
        district, left_on="district_id", right_on="A1", how="left"
    )
    _all_known(loans, "opened", "account_id", folder / "account.asc")
    _all_known(loans, "A3", "district_id", folder / "district.asc")
    _all_known(loans, "crime", "district_id", folder / "district.asc")
    _all_known(loans, "unemployment", "district_id", folder / "district.asc")
    mine = loans.select("account_id", "granted")
    trans = trans.join(mine, on="account_id").with_columns(date=_date("date"))
    if history == "before-loan":
        trans = trans.filter(pl.col("date") < pl.col("granted"))
    habits = trans.group_by("account_id").agg(
        transactions=pl.len().cast(pl.Float64),
        mean_transaction=pl.mean("amount"),
        mean_balance=pl.mean("balance"),
    )
    orders = order.group_by("account_id").agg(mean_order=pl.mean("amount"))
    # Who has no orders or transactions ordered and moved nothing.
    return (
        loans.join(orders, on="account_id", how="left")
        .join(habits, on="account_id", how="left")
        .with_columns(days=(pl.col("granted") - pl.col("opened")).dt.total_days())
        .with_columns(pl.col(NUMBERS).cast(pl.Float64).fill_null(0.0))
        .filter(pl.col("A3") != LEFT_OUT)
        # Regions in the district table's order, loans by number: the same whatever was joined how.
        .sort(pl.col("place").min().over("A3"), "loan_id")
    )


def _date(column: str) -> pl.Expr:
    import polars as pl

    return pl.col(column).cast(pl.Int64).cast(pl.String).str.to_date("%y%m%d")


def _all_known(loans: pl.DataFrame, column: str, key: str, path: Path) -> None:
    unknown = loans.filter(loans[column].is_null())
    if len(unknown):
        raise UserError(
            f"{path} says nothing of {key} {unknown[key][0]}, which loan {unknown['loan_id'][0]} "
            "needs: fetch the file again (`aaggff data fetch berka`)"
        )


def _read(folder: Path, table: str) -> pl.DataFrame:
    """One table's columns; numbers are numbers and `?` is a gap."""
    import polars as pl

    path, columns = folder / f"{table}.asc", TABLES[table][0].split()
    again = "fetch the file again (`aaggff data fetch berka`)"
    content = path.read_bytes()
    header = content[: content.find(b"\n")].decode("latin-1").strip().replace('"', "").split(";")
    absent = [column for column in columns if column not in header]
    if absent:
        raise UserError(f"{path}: the header has no column {absent[0]!r}: {again}")
    whole = _without_cut_line(content)
    if whole != content:
        # Of the transactions a part is of use, of the other tables it is not.
        if table != "trans":
            raise UserError(f"{path} is cut in the middle of its last line: {again}")
        content = whole
    kinds = {name: pl.String if name in TEXT else pl.Float64 for name in columns}
    ids = {name: pl.Int64 for name in columns if name.endswith("_id") or name == "A1"}
    try:
        frame = pl.read_csv(
            BytesIO(content),
            separator=";",
            columns=columns,
            schema_overrides={**kinds, **ids},
            null_values=["?"],
            encoding="utf8-lossy",
        )
    except pl.exceptions.PolarsError as error:
        raise UserError(f"{path} cannot be read ({str(error).splitlines()[0]}): {again}") from None
    if table != "district":
        gaps = [column for column in columns if frame[column].null_count()]
        if gaps:
            raise UserError(f"{path}: column {gaps[0]!r} has gaps: {again}")
    return frame


def _without_cut_line(content: bytes) -> bytes:
    """The table without its last line, if that has fewer fields than the header."""
    end = content.rfind(b"\n", 0, len(content) - 1) + 1
    separators = content[: content.find(b"\n")].count(b";")
    return content if content[end:].count(b";") >= separators else content[:end]


def missing(folder: Path) -> list[str]:
    """The tables that have fewer rows than the official ones."""
    lines = []
    for table, (_, expected) in TABLES.items():
        path = folder / f"{table}.asc"
        if not path.exists():
            continue
        content = path.read_bytes()
        whole = _without_cut_line(content)
        rows = whole.count(b"\n") - 1 + (not whole.endswith(b"\n"))
        if rows < expected:
            cut = " (its last line is cut)" if whole != content else ""
            lines.append(f"{path.name} has {rows:,} of {expected:,} rows{cut}")
    return lines


SPEC = DatasetSpec(
    name="berka",
    title="Berka: loans of a Czech bank, 7 regions",
    licence="none stated",
    credit="Petr Berka and Marta Sochorova, PKDD'99 Discovery Challenge",
    settings=PaperSettings(
        rounds=100,
        per_round=None,
        model="logistic",
        lr=1.0,
        weight_decay=1e-3,
        decay=0.99,
        decay_every=10,
        cdf="normal",
    ),
    load=load,
    options={
        "history": Option(
            "all",
            "all: also the transactions after the loan, as the paper (they leak the outcome); "
            "before-loan: only those before it",
            HISTORIES,
        )
    },
    stand_in=stand_in("berka"),
    files=(
        RemoteFile(
            "data_berka.zip",
            (
                "https://sorry.vse.cz/~berka/challenge/pkdd1999/data_berka.zip",
                "http://lisp.vse.cz/pkdd99/DATA/data_berka.zip",
            ),
            unpacks=tuple(f"{table}.asc" for table in TABLES),
        ),
    ),
    statistics=Statistics(7, 621, 88.71, 24.78),
    missing=missing,
)
