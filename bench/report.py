"""The report of 9,343 clients: how large it is and how soon it is open, beside one of four clients.

.venv/bin/python bench/report.py

Three methods x three seeds, 3,000 rounds of five sampled clients, all clients evaluated twenty
times. Each page is opened in headless Chromium, in turns; open is when everything is laid out and
the next frame is drawn.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

sys.path.append(str(Path(__file__).resolve().parents[1]))
from tests.report.made_runs import write_comparison

from aaggff.report.page import write_report

REPEATS = 5
LARGEST, SLOWEST = 10e6, 2.0
FRAME = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def made(place: Path, name: str, **options: object) -> tuple[Path, float]:
    """A page and the seconds it took to write."""
    write_comparison(place / name, **options)  # type: ignore[arg-type]
    began = time.perf_counter()
    page = write_report([place / name], place / f"{name}.html")
    return page, time.perf_counter() - began


def opened(browser: Browser, file: Path) -> float:
    """Seconds until everything is on the screen."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto("about:blank")
    began = time.perf_counter()
    page.goto(file.as_uri())
    page.evaluate("document.documentElement.scrollHeight")
    page.evaluate(FRAME)
    took = time.perf_counter() - began
    page.close()
    return took


def main() -> int:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("no chromium on this machine")
        return 1
    with tempfile.TemporaryDirectory() as name, sync_playwright() as running:
        place = Path(name)
        large, written = made(
            place, "celeba", clients=9343, per_round=5, rounds=3000, every=150, seeds=(2, 4, 6)
        )
        small, _ = made(place, "heart", clients=4, rounds=200, every=10)
        browser = running.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        taken: dict[Path, list[float]] = {small: [], large: []}
        for _ in range(REPEATS):
            for file, seconds in taken.items():
                seconds.append(opened(browser, file))
        browser.close()
        sizes = {file: file.stat().st_size for file in taken}
    seconds = {file: statistics.median(each) for file, each in taken.items()}
    print(f"9,343 clients: written in {written:.1f} s")
    print(f"{'':<16}{'4 clients':>12}{'9,343 clients':>16}{'times':>8}   required")
    checks = [
        ("size", "{:.2f} MB", {f: s / 1e6 for f, s in sizes.items()}, LARGEST / 1e6, "below 10 MB"),
        ("open (median)", "{:.2f} s", seconds, SLOWEST, "below 2 s"),
    ]  # fmt: skip
    good = True
    for what, shape, values, most, required in checks:
        holds = values[large] < most
        good &= holds
        print(
            f"{what:<16}{shape.format(values[small]):>12}{shape.format(values[large]):>16}"
            f"{values[large] / values[small]:>8.2f}   {required}   {'ok' if holds else 'NOT'}"
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
