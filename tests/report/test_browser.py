"""The page in a real browser: every plot drawn, no error, usable by keyboard, phone and printer."""

import os
import shutil
from pathlib import Path

import pytest

from aaggff.report.page import write_report
from tests.report.made_runs import write_comparison

pytestmark = pytest.mark.browser

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium on this machine")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=chromium, args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    root = tmp_path_factory.mktemp("small")
    names = ["Cleveland", "Hungary", "Switzerland", "Long Beach VA"]
    write_comparison(root / "out", clients=4, names=names)
    return write_report([root / "out"], root / "report.html")


def opened(browser, file: Path, **options):
    page = browser.new_page(**options)
    problems = []
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda asked: problems.append(asked.url) if "http" in asked.url else None)
    page.goto(file.as_uri())
    # AAGGFF_SCREENSHOTS=DIR keeps pictures to look at by eye.
    if folder := os.environ.get("AAGGFF_SCREENSHOTS"):
        width = page.viewport_size["width"]
        scheme = options.get("color_scheme", "light")
        picture = Path(folder) / f"{file.parent.name}-{width}-{scheme}.png"
        page.screenshot(path=picture, full_page=True)
    return page, problems


def test_every_plot_is_drawn_and_nothing_complains(browser, small):
    page, problems = opened(browser, small)
    drawings = page.locator("figure svg")
    assert drawings.count() >= 12
    for i in range(drawings.count()):
        box = drawings.nth(i).bounding_box()
        assert box is not None
        assert box["width"] > 200
        assert box["height"] > 80
        marks = drawings.nth(i).locator("path.line, circle, rect, image")
        assert marks.count() > 0
    assert problems == []


def test_values_are_read_with_the_keyboard_and_methods_hidden(browser, small):
    page, problems = opened(browser, small)
    figure = page.locator("figure[data-readout]").last
    svg = figure.locator("svg").first
    svg.focus()
    page.keyboard.press("ArrowRight")
    first = figure.locator("output").text_content()
    assert first
    assert "round" in first
    page.keyboard.press("End")
    assert figure.locator("output").text_content() != first
    button = page.locator(".legend button[data-key]").first
    key = button.get_attribute("data-key")
    button.focus()
    page.keyboard.press("Enter")
    assert button.get_attribute("aria-pressed") == "false"
    assert page.locator(f"figure g.{key}").first.is_visible() is False
    page.keyboard.press("Enter")
    assert page.locator(f"figure g.{key}").first.is_visible() is True
    assert problems == []


def test_the_table_sorts_by_a_column(browser, small):
    page, _ = opened(browser, small)
    cells = page.locator("table.sortable tbody tr td:nth-child(3)")
    page.locator("table.sortable thead th:nth-child(3) button").click()
    values = [float(v) for v in cells.evaluate_all("cells => cells.map(c => c.dataset.value)")]
    assert values == sorted(values, reverse=True)
    page.locator("table.sortable thead th:nth-child(3) button").click()
    values = [float(v) for v in cells.evaluate_all("cells => cells.map(c => c.dataset.value)")]
    assert values == sorted(values)


def test_a_phone_shows_it_without_scrolling_sideways(browser, small):
    page, problems = opened(browser, small, viewport={"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert problems == []


def test_dark_mode_follows_the_system_and_can_be_switched(browser, small):
    page, _ = opened(browser, small, color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    page.locator("#theme").click()
    light = page.evaluate(background)
    assert sum(map(int, dark[4:-1].split(","))) < 150
    assert light == "rgb(255, 255, 255)"


def test_print_is_black_on_white_even_in_dark_mode(browser, small):
    page, _ = opened(browser, small, color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("#theme").is_visible() is False


def test_nine_thousand_clients_open_at_once(browser, tmp_path):
    root = write_comparison(
        tmp_path / "big", seeds=(2, 4), clients=9343, per_round=5, rounds=300, every=100
    )
    page, problems = opened(browser, write_report([root], tmp_path / "report.html"))
    loaded = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    assert loaded > 0
    assert page.locator("figure svg").count() >= 10
    # A page this size has few nodes, which is why it opens at once; time itself is for bench/.
    assert page.evaluate("document.querySelectorAll('*').length") < 5_000
    assert problems == []
