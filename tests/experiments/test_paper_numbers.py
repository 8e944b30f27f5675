"""The paper's numbers, digit for digit: read from its source where that is at hand."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files

import pytest

from tests.shared import shared

NUMBERS = tomllib.loads(
    files("aaggff.experiments").joinpath("paper_numbers.toml").read_text(encoding="utf-8")
)
METHODS = {
    "FedAvg": "fedavg",
    "AFL": "afl",
    "q-FedAvg": "qfedavg",
    "TERM": "term",
    "FedMGDA": "fedmgda",
    "PropFair": "propfair",
    "AAggFF-S": "aaggff-s",
    "AAggFF-D": "aaggff-d",
}
BASES = ("fedavg", "fedprox", "fedadam", "fedyogi", "fedadagrad")
# 80.09\\ \tiny \color[HTML]{9B9B9B} (2.45), with or without \textbf{...} and a line break.
CELL = re.compile(
    r"(\d+\.\d\d)\}?\s*(?:\\\\)?\s*(?:\\\w+\s*)?\\color\[HTML\]\{9B9B9B\}\s*\((\d+\.\d\d)\)"
)


def table(label: str) -> str:
    """The source of one table of the paper."""
    text = shared("paper", "aaggff.tex").read_text(encoding="utf-8")
    start = text.index(rf"\label{{{label}}}")
    return text[start : text.index(r"\end{table", start)]


def cells(source: str) -> list[list[float]]:
    return [[float(mean), float(deviation)] for mean, deviation in CELL.findall(source)]


def rows(source: str) -> dict[str, list[list[float]]]:
    """Method -> its cells, left to right."""
    parts = re.split(r"\\texttt\{([^}]*)\}", source)
    return {
        METHODS[name]: cells(body) for name, body in zip(parts[1::2], parts[2::2]) if cells(body)
    }


@pytest.mark.parametrize(
    ("setting", "label", "parity", "data"),
    [
        ("silo", "tab:result_silo", "tab:ag_silo", ("berka", "mqp", "isic2019")),
        ("device", "tab:result_device", "tab:ag_device", ("celeba", "reddit", "speechcommands")),
    ],
)
def test_tables_two_to_five(setting: str, label: str, parity: str, data: tuple[str, ...]) -> None:
    printed, gaps = rows(table(label)), rows(table(parity))
    assert len(printed) == (7 if setting == "silo" else 6)
    for index, name in enumerate(data):
        ours = {key: row for key, row in NUMBERS[setting][name].items() if isinstance(row, dict)}
        assert set(ours) == set(printed) == set(gaps)
        for method, row in ours.items():
            assert len(printed[method]) == 12
            assert len(gaps[method]) == 3
            four = printed[method][4 * index : 4 * index + 4]
            assert [row["avg"], row["worst"], row["best"], row["gini"]] == four, (name, method)
            assert row["gap"] == gaps[method][index], (name, method)


def test_table_six() -> None:
    printed = cells(table("tab:pnp"))
    assert len(printed) == 40
    for base in BASES:
        for with_aaggff in ("plain", "aaggff"):
            row, printed = printed[:4], printed[4:]
            for index, name in enumerate(("heart", "tinyimagenet")):
                ours = NUMBERS["plug-and-play"][name][base][with_aaggff]
                assert [ours["avg"], ours["worst"]] == row[2 * index : 2 * index + 2], (name, base)


def test_the_figure_s_text() -> None:
    text = shared("paper", "aaggff.tex").read_text(encoding="utf-8")
    said = text[text.index("For the Berka dataset, the Normal CDF yields") :][:700]
    numbers = [float(number) for number in re.findall(r"\d+\.\d\d", said)]
    ours = NUMBERS["cdf-figure"]
    assert numbers[:8] == [
        ours[data][cdf][measure]
        for data in ("berka", "reddit")
        for cdf in ("normal", "weibull")
        for measure in ("avg", "worst")
    ]


def test_every_table_names_its_metric_and_its_limits() -> None:
    for setting in NUMBERS.values():
        for block in setting.values():
            assert block["metric"] in ("auroc", "top1", "top5")
            assert block["limits"]
            assert all(line.endswith(".") for line in block["limits"])


@pytest.mark.parametrize("setting", ["silo", "device"])
def test_a_gap_that_is_not_best_less_worst_is_named_as_a_limit(setting: str) -> None:
    """Over the same seeds, a difference of means is the mean difference, but for rounding."""
    for name, block in NUMBERS[setting].items():
        odd = [
            method
            for method, row in block.items()
            if isinstance(row, dict)
            and abs(row["best"][0] - row["worst"][0] - row["gap"][0]) > 0.025
        ]
        assert not odd or any("Delta AG" in line for line in block["limits"]), (name, odd)
