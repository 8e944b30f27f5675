"""The worker processes: every job once, progress heard, failures told, nobody left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from aaggff.errors import UserError
from aaggff.experiments.pool import Pool, cores
from tests.experiments import pool_jobs


def run(workers: int) -> tuple[dict[int, int], list[str], dict[str, set[int]]]:
    heard: list[str] = []
    results: dict[int, int] = {}
    by_kind: dict[str, set[int]] = {"a": set(), "b": set()}
    jobs = [(kind, number) for number in range(6) for kind in "ab"]
    jobs = [(kind, 2 * number + (kind == "b")) for kind, number in jobs]
    with Pool(pool_jobs.square, workers, preload=()) as pool:
        for job, (value, worker) in pool.run(
            jobs, alike=lambda job: job[0], told=lambda job, word: heard.append(word)
        ):
            results[job[1]] = value
            by_kind[job[0]].add(worker)
    return results, heard, by_kind


@pytest.mark.parametrize("workers", [1, 2])
def test_every_job_is_done_once_and_heard_of(workers: int) -> None:
    results, heard, by_kind = run(workers)
    assert results == {number: number**2 for number in range(12)}
    assert sorted(heard) == sorted(f"on {number}" for number in range(12))
    if workers == 1:
        assert by_kind["a"] == by_kind["b"] == {os.getpid()}
    else:
        assert os.getpid() not in by_kind["a"] | by_kind["b"]


def test_workers_use_one_thread_each() -> None:
    with Pool(pool_jobs.threads, 2) as pool:
        assert [threads for _, threads in pool.run([1, 2, 3])] == [1, 1, 1]


def test_failures_are_told_and_end_it() -> None:
    with Pool(pool_jobs.fail, 2, preload=()) as pool, pytest.raises(UserError, match="negative"):
        list(pool.run(["sleep", "mistake"]))
    with Pool(pool_jobs.fail, 2, preload=()) as pool, pytest.raises(RuntimeError, match="by hand"):
        list(pool.run(["sleep", "crash"]))
    with Pool(pool_jobs.fail, 2, preload=()) as pool, pytest.raises(RuntimeError, match="code 9"):
        list(pool.run(["sleep", "die"]))


def test_workers_end_when_the_parent_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "from aaggff.experiments.pool import Pool\n"
        "from tests.experiments import pool_jobs\n"
        "if __name__ == '__main__':\n"
        "    with Pool(pool_jobs.touch_then_wait, 2, preload=()) as pool:\n"
        f"        list(pool.run([{str(tmp_path / 'one')!r}, {str(tmp_path / 'two')!r}]))\n"
    )
    root = Path(__file__).resolve().parents[2]
    parent = subprocess.Popen([sys.executable, script], env={**os.environ, "PYTHONPATH": str(root)})
    marks = [tmp_path / "one", tmp_path / "two"]
    wait_until(lambda: all(mark.exists() and mark.read_text() for mark in marks))
    workers = [int(mark.read_text()) for mark in marks]
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    wait_until(lambda: not any(alive(worker) for worker in workers))


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/stat")
    return not status.exists() or status.read_text().split()[2] != "Z"


def wait_until(condition: object, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def test_there_is_a_core() -> None:
    assert cores() >= 1
