"""The page as text: whole, self-contained, honest about what is missing, safe against names."""

import re
from html.parser import HTMLParser

import pytest

from aaggff.errors import UserError
from aaggff.report.page import render, write_report
from tests.report.made_runs import write_comparison, write_run


class Outline(HTMLParser):
    """Tags and the addresses a page would load."""

    def __init__(self):
        super().__init__()
        self.tags, self.loads = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.loads += [value for name, value in attrs if name in ("src", "href", "action")]


def outline(text):
    parser = Outline()
    parser.feed(text)
    return parser


def test_every_section_is_there_and_nothing_is_loaded_from_anywhere(tmp_path):
    page = render([write_comparison(tmp_path / "out")])
    for heading in (
        "Results",
        "How performance is spread over clients",
        "Who gains and who loses against FedAvg",
        "Over the rounds",
        "The server's decisions",
        "Regret",
        "How this was made",
    ):
        assert heading in page.replace("&#39;", "'")
    found = outline(page)
    assert all(address.startswith(("#", "data:")) for address in found.loads)
    assert found.tags.count("figure") == found.tags.count("figcaption") >= 12
    assert "default-src 'none'" in page.replace("&#39;", "'")
    assert not re.search(r"\bnan\b|undefined|None\b", re.sub(r"<script>.*</script>", "", page))


def test_hostile_names_stay_text(tmp_path):
    name = '</script><script>alert("x")</script>'
    run = write_run(tmp_path / name.replace("/", "-") / "seed-2", names=[name] * 12)
    page = render([run])
    assert page.count("<script>") == 1
    assert "alert(&#34;x&#34;)" in page or "alert(&quot;x&quot;)" in page


def test_one_run_of_one_method_makes_a_page(tmp_path):
    page = render([write_run(tmp_path / "run", method="term")])
    assert "1 method, 20 rounds, 12 clients, seed 2." in page
    assert "Who gains" not in page


def test_stand_ins_missing_values_and_unfinished_runs_are_announced(tmp_path):
    write_run(tmp_path / "a", stand_in=True, missing=(0, 3))
    write_run(tmp_path / "b", method="uniform", finished=False)
    page = render([tmp_path])
    assert "Stand-in data." in page
    assert "Up to 2 clients have no value" in page
    assert "1 of 2 runs have not finished: uniform seed 2" in page


def test_nine_thousand_clients_stay_under_ten_megabytes(tmp_path):
    root = write_comparison(
        tmp_path / "big", seeds=(2,), clients=9343, per_round=5, rounds=60, every=20
    )
    written = write_report([root], tmp_path / "report.html")
    assert written.stat().st_size < 2_000_000
    assert [path.name for path in tmp_path.glob(".report*")] == []


def test_nothing_to_show_is_an_error_in_one_line(tmp_path):
    run = write_run(tmp_path / "run")
    (run / "rounds.jsonl").write_text("")
    with pytest.raises(UserError, match="no finished round"):
        render([run])
