"""What is shown while a federation trains, by a clock of the test's own."""

import io
import re
from types import SimpleNamespace

import pytest
from rich.console import Console

from aaggff.cli.progress import QUIET, Progress, duration

FEDERATION = SimpleNamespace(
    data=SimpleNamespace(
        client_name=lambda k: ["ann", "bob", "cy"][k], task=SimpleNamespace(metric="top1")
    )
)
SUMMARY = {"avg": 81.26, "worst": 40.04, "worst_client": 0.9}


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def record(round, *, evaluated=False, losses=(0.5, 0.75, 0.25)):
    found = {"round": round, "objective": 0.5, "losses": list(losses), "clients": [0, 1, 2]}
    if evaluated:
        found |= {"metric": SUMMARY, "loss": {"avg": 0.4, "worst_client": 0.9}}
    return found


def watched(rounds, seconds, *, terminal=False, width=100, until=None, every=None, **more):
    out, clock = io.StringIO(), Clock()
    console = Console(file=out, force_terminal=terminal, width=width, color_system=None)
    progress = Progress(console, rounds, clock=clock)
    progress.start()
    for round in range(1, (until or rounds) + 1):
        clock.now += seconds
        progress.on_round(
            FEDERATION, record(round, evaluated=bool(every and round % every == 0), **more)
        )
    shown = out.getvalue()
    progress.on_end(FEDERATION)
    return shown


def test_off_a_terminal_a_line_comes_with_an_evaluation():
    lines = watched(40, 0.5, every=20).splitlines()
    assert lines == [
        "round 20/40  loss 0.500  worst bob 0.750  2 rounds/s  10 s left"
        "  | test top-1 81.3 %, worst tenth 40.0 %; loss 0.400, worst client 0.900",
        "round 40/40  loss 0.500  worst bob 0.750  2 rounds/s"
        "  | test top-1 81.3 %, worst tenth 40.0 %; loss 0.400, worst client 0.900",
    ]


def test_or_after_half_a_minute_of_silence():
    lines = watched(100, QUIET / 3, until=12).splitlines()
    assert [line.split("/")[0] for line in lines] == [
        "round   3",
        "round   6",
        "round   9",
        "round  12",
    ]
    assert lines[-1].endswith("10 s/round  14 min 40 s left")


def test_a_loss_that_is_no_number_is_not_the_worst():
    (line,) = watched(1, 1.0, every=1, losses=(float("nan"), 0.2, 0.1)).splitlines()
    assert "worst bob 0.200" in line


@pytest.mark.parametrize("width", [30, 100])
def test_on_a_terminal_lines_are_cut_never_wrapped(width):
    shown = watched(10, 1.0, terminal=True, width=width, every=5)
    assert "round 5/10" not in shown
    for line in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "\n", shown).splitlines():
        assert len(line) <= width


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.0, "0.0 s"), (9.94, "9.9 s"), (59.4, "59 s"), (61, "1 min 1 s"), (86_400, "24 h 0 min")],
)
def test_durations(seconds, said):
    assert duration(seconds) == said
