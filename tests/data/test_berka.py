from __future__ import annotations

import csv
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from aaggff.data import berka
from aaggff.errors import UserError
from tests.data import official


def by_hand(folder: Path, history: str) -> dict[str, list[list[float]]]:
    """The 13 numbers and the label of each loan, worked out with plain loops."""

    def table(name: str) -> list[dict[str, str]]:
        with (folder / f"{name}.asc").open() as stream:
            return list(csv.DictReader(stream, delimiter=";"))

    def day(text: str) -> datetime:
        return datetime.strptime("19" + text, "%Y%m%d")

    def mean(values: list[float]) -> float:
        return sum(values) / len(values) if values else 0.0

    districts = {row["A1"]: row for row in table("district")}
    accounts = {row["account_id"]: row for row in table("account")}
    regions: dict[str, list[list[float]]] = {}
    for loan in sorted(table("loan"), key=lambda row: int(row["loan_id"])):
        account = accounts[loan["account_id"]]
        place = districts[account["district_id"]]
        orders = [
            float(row["amount"])
            for row in table("order")
            if row["account_id"] == loan["account_id"]
        ]
        moves = [
            row
            for row in table("trans")
            if row["account_id"] == loan["account_id"]
            and row["balance"]
            and (history == "all" or day(row["date"]) < day(loan["date"]))
        ]
        two_years = [
            mean([float(place[c]) for c in pair if place[c] != "?"])
            for pair in (("A12", "A13"), ("A15", "A16"))
        ]
        regions.setdefault(place["A3"], []).append(
            [
                *(float(loan[c]) for c in ("amount", "duration", "payments")),
                (day(loan["date"]) - day(account["date"])).days,
                *(float(place[c]) for c in ("A4", "A11", "A14")),
                *two_years,
                mean(orders),
                len(moves),
                mean([float(row["amount"]) for row in moves]),
                mean([float(row["balance"]) for row in moves]),
                loan["status"] in "BD",
            ]
        )
    return regions


@pytest.mark.parametrize("history", ["all", "before-loan"])
def test_the_features_are_those_of_the_tables(tmp_path: Path, history: str) -> None:
    folder = official.berka(tmp_path, loans_each=4)
    expected = by_hand(folder, history)
    data = berka.load(tmp_path, history=history)
    names = [data.client_name(k) for k in range(len(data))]
    assert names == [region for region in official.REGIONS if region != "north Bohemia"]
    for client, name in enumerate(names):
        x, y = data.rows.take(client)
        np.testing.assert_allclose(x[:, :13], np.array(expected[name])[:, :13])
        np.testing.assert_array_equal(y, np.array(expected[name])[:, 13])
        assert x.shape[1] == 15


def test_statement_frequency_is_two_indicators(tmp_path: Path) -> None:
    official.berka(tmp_path, loans_each=6)
    data = berka.load(tmp_path)
    seen = {tuple(row) for k in range(7) for row in data.rows.take(k)[0][:, 13:].tolist()}
    assert seen == {(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)}


def test_history_before_the_loan_ignores_what_came_after(tmp_path: Path) -> None:
    folder = official.berka(tmp_path / "a")
    before = berka.features(folder, "before-loan")
    with (folder / "trans.asc").open("a") as stream:
        stream.write('9;1;981231;"PRIJEM";"VKLAD";1.00;1.00;"";;\n')
    assert berka.features(folder, "before-loan").equals(before)
    assert not berka.features(folder, "all").equals(before)


def test_numbers_are_standardised_per_region_by_its_training_part(tmp_path: Path) -> None:
    official.berka(tmp_path)
    x, _ = berka.load(tmp_path, seed=3).train(0)
    np.testing.assert_allclose(x[:, :4].mean(dim=0), np.zeros(4), atol=1e-6)
    np.testing.assert_allclose(x[:, :4].std(dim=0, correction=0), np.ones(4), atol=1e-5)
    # A region of one district: its columns are constant.
    assert not x[:, 4].any()


def test_a_cut_last_line_of_the_transactions_is_left_out_and_said(tmp_path: Path) -> None:
    folder = official.berka(tmp_path)
    whole = berka.features(folder)
    with (folder / "trans.asc").open("a") as stream:
        stream.write('3526882;1;940331;"PRIJE')
    assert berka.features(folder).equals(whole)
    data = berka.load(tmp_path)
    assert data.notes[-1] == "trans.asc has 400 of 1,056,320 rows (its last line is cut)"
    # A last line that only lacks its newline is whole.
    text = (folder / "trans.asc").read_text()
    (folder / "trans.asc").write_text(text[: text.rindex("\n")])
    assert berka.features(folder).equals(whole)
    assert "cut" not in berka.missing(folder)[-1]


def test_damage_is_named(tmp_path: Path) -> None:
    for number, (table, change, expected) in enumerate(
        [
            ("loan", lambda text: text[:-20], "loan.asc is cut in the middle"),
            ("account", lambda text: text.replace('"frequency"', '"often"'), "no column 'freq"),
            ("account", lambda text: text.replace("\n1;", "\n77777;"), "nothing of account_id 1"),
            ("district", lambda text: text.replace("\n2;", "\n88;"), "nothing of district_id 2"),
            ("trans", lambda text: text.replace("930", "x30"), "trans.asc"),
            ("order", lambda text: text.replace("1000.50", ""), "column 'amount' has gaps"),
        ]
    ):
        root = tmp_path / str(number)
        path = official.berka(root) / f"{table}.asc"
        path.write_text(change(path.read_text()))
        with pytest.raises(UserError, match=expected) as caught:
            berka.load(root)
        assert f"{table}.asc" in str(caught.value)
        assert "aaggff data fetch berka" in str(caught.value)


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    (official.berka(tmp_path) / "order.asc").unlink()
    with pytest.raises(UserError, match=r"lacks order\.asc"):
        berka.load(tmp_path)


def test_an_unknown_history_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="before-loan"):
        berka.load(tmp_path, history="before")


def test_the_real_tables_have_the_papers_counts(real: Callable[[str], Path]) -> None:
    data = berka.load(real("berka"), seed=2)
    sizes = data.train_sizes + data.test_sizes
    paper = berka.SPEC.statistics
    assert paper is not None
    assert (len(sizes), sizes.sum()) == (paper.clients, paper.samples)
    assert (round(sizes.mean(), 2), round(sizes.std(), 2)) == (88.71, 24.78)
    assert (paper.mean, paper.deviation) == (88.71, 24.78)
    defaults = sum(int(data.rows.labels(k).sum()) for k in range(7))
    assert defaults == 75
    assert all(len(np.unique(data.test(k)[1])) == 2 for k in range(7))
