"""The page in a real browser: every plot drawn, no error, usable by keyboard, phone and printer."""

import json
import os
import shutil
from pathlib import Path

import pytest

from aaggff.report.page import write_report
from tests.report.made_runs import write_comparison, write_run

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
    table = page.locator("table.sortable").first
    cells = table.locator("tbody tr td:nth-child(3)")
    table.locator("thead th:nth-child(3) button").click()
    values = [float(v) for v in cells.evaluate_all("cells => cells.map(c => c.dataset.value)")]
    assert values == sorted(values, reverse=True)
    table.locator("thead th:nth-child(3) button").click()
    values = [float(v) for v in cells.evaluate_all("cells => cells.map(c => c.dataset.value)")]
    assert values == sorted(values)


def test_a_focused_method_stands_out_and_the_others_come_back(browser, small):
    page, problems = opened(browser, small)
    opacity = "svg => getComputedStyle(svg).opacity"
    others = page.locator("figure g.m1").first
    page.locator('.legend button[data-key="m0"]').focus()
    assert float(others.evaluate(opacity)) < 0.5
    assert page.locator("figure g.m0").first.evaluate(opacity) == "1"
    page.locator("#theme").focus()
    assert others.evaluate(opacity) == "1"
    assert problems == []


# Words of a drawing that stick out of it, or lie on each other.
ILLEGIBLE = """() => [...document.querySelectorAll("figure > svg")].flatMap((svg) => {
  const frame = svg.getBoundingClientRect();
  const words = [...svg.querySelectorAll("text")].filter((word) => word.textContent)
    .map((word) => [word.textContent, word.getBoundingClientRect()]);
  const out = words.filter(([, box]) => box.left < frame.left - 1 || box.right > frame.right + 1);
  const on = words.flatMap(([text, a], i) => words.slice(i + 1)
    .filter(([, b]) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
                    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3)
    .map(([other]) => [`${text} on ${other}`]));
  return [...out, ...on].map(([text]) => `${svg.getAttribute("aria-label")}: ${text}`);
})"""


@pytest.mark.parametrize("width", [360, 390, 1280])
def test_it_fits_any_screen_and_no_word_is_cut_or_covered(browser, small, width):
    page, problems = opened(browser, small, viewport={"width": width, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(ILLEGIBLE) == []
    assert problems == []


def test_the_frontier_is_drawn_with_its_own_colours_and_many_figures_are_folded(browser, tmp_path):
    dials = [("fedavg", "", None), *[("aaggff-d", "strength", v) for v in range(1, 13)]]
    points = []
    for i, (method, option, value) in enumerate(dials):
        label = f"{method}:{option}={value}" if option else method
        for seed in (2, 4):
            place = tmp_path / "out" / label / f"seed-{seed}"
            write_run(place, method=method, seed=seed, clients=4)
        figures = {"avg": [80 - i, 81 - i], "worst": [50 + i, 52 + i]}
        losses = {"loss_avg": [0.5, 0.4], "loss_worst_tenth": [0.9, 0.8]}
        points.append({"method": method, "option": option, "value": value} | figures | losses)
    content = {"points": points, "hypervolume": {"fedavg": [1, 0.5, 2]}, "hypervolume_loss": {}}
    (tmp_path / "out" / "frontier.json").write_text(json.dumps(content))
    page, problems = opened(browser, write_report([tmp_path / "out"], tmp_path / "report.html"))
    figure = page.locator("figure", has_text="The frontier by top-1 accuracy")
    assert figure.locator("circle").count() == 13
    assert figure.locator(".keys li").all_text_contents() == ["fedavg", "aaggff-d"]
    strokes = {
        key: figure.locator(f"li.{key} path").evaluate("path => getComputedStyle(path).stroke")
        for key in ("f0", "f1")
    }
    assert len(set(strokes.values())) == 2
    line = figure.locator("g.f1 path.line")
    assert line.evaluate("path => getComputedStyle(path).stroke") == strokes["f1"]
    gains = page.locator("details", has_text="Show these 24 figures")
    assert gains.locator("svg").first.is_visible() is False
    gains.locator("summary").first.focus()
    page.keyboard.press("Enter")
    assert gains.locator("figure > svg").first.is_visible() is True
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
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
