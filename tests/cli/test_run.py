"""`aaggff run` as a user types it: what it prints, keeps, refuses, and how it stops and goes on."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

import pytest
import torch

from aaggff.cli.app import app
from aaggff.federation.checkpoint import load_checkpoint
from tests.cli.typed import refused, run

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}
FILES = ["checkpoint.safetensors", "clients.jsonl", "config.toml", "done.json", "rounds.jsonl"]


def records(directory):
    lines = [json.loads(line) for line in (directory / "rounds.jsonl").read_text().splitlines()]
    for line in lines:
        line.pop("seconds")
    clients = (directory / "clients.jsonl").read_text()
    return lines, clients


def same_run(one, other):
    assert records(one) == records(other)
    ours, theirs = (load_checkpoint(d / "checkpoint.safetensors")[0] for d in (one, other))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.fixture(scope="module")
def heart(tmp_path_factory):
    folder = tmp_path_factory.mktemp("heart")
    said, beside = run("run", "heart", "--rounds", 40, "--seed", 2, cwd=folder)
    return folder, said, beside


def test_piped_it_prints_plain_lines(heart):
    _, said, beside = heart
    assert beside == ""
    assert "\x1b" not in said
    assert "\r" not in said
    lines = said.splitlines()
    assert lines[0] == "heart  aaggff-s (cdf frechet)  logistic, 40 rounds, everybody, seed 2"
    assert lines[1].startswith("executor: batched (")
    progress = [line for line in lines if line.startswith("round ")]
    assert len(progress) == 20  # about twenty evaluations in a run
    pattern = (
        r"round +\d+/40  loss \d\.\d{3}  worst [A-Z][\w ]+ \d\.\d{3}.*"
        r"\| test AUROC \d+\.\d %, worst tenth \d+\.\d %; loss \d\.\d{3}, worst client \d\.\d{3}"
    )
    assert all(re.fullmatch(pattern, line) for line in progress)
    assert all("rounds/s" in line or "s/round" in line for line in progress[1:])


def test_at_the_end_it_says_how_well_how_evenly_and_what_next(heart):
    folder, said, _ = heart
    last = json.loads(
        (folder / "runs/heart-aaggff-s-seed-2/rounds.jsonl").read_text().splitlines()[-1]
    )
    for name in ("Cleveland", "Hungary", "Switzerland", "Long Beach VA"):
        assert name in said
    assert f"{last['metric']['avg']:.2f}" in said
    assert f"{last['loss']['worst_client']:.4f}" in said
    assert "record: runs/heart-aaggff-s-seed-2\n" in said
    assert "aaggff report runs/heart-aaggff-s-seed-2 -o" in said


def test_the_run_directory_is_complete(heart):
    folder, _, _ = heart
    directory = folder / "runs/heart-aaggff-s-seed-2"
    assert sorted(each.name for each in directory.iterdir()) == FILES


def test_the_saved_configuration_run_again_gives_the_identical_result(heart):
    folder, _, _ = heart
    first = folder / "runs/heart-aaggff-s-seed-2"
    run("run", "--config", first / "config.toml", "--out", "again", cwd=folder)
    same_run(folder / "again", first)
    assert (folder / "again/config.toml").read_text() == (first / "config.toml").read_text()


def test_without_out_a_new_directory_is_found(heart):
    folder, _, _ = heart
    said, _ = run("run", "heart", "--rounds", 1, "--seed", 2, cwd=folder)
    assert "record: runs/heart-aaggff-s-seed-2-2\n" in said


def test_flags_win_over_set_and_set_over_the_file(tmp_path):
    (tmp_path / "mine.toml").write_text(
        'dataset = "digits"\nmethod = "qfedavg"\nrounds = 3\nlr = 0.5\nseed = 7\n'
        "[data]\nclients = 6\n[method_options]\nq = 5.0\n"
    )
    run(
        "run", "--config", "mine.toml", "--set", "lr=0.25", "--set", "q=2", "--set",
        "server.lr=0.5", "--set", "model.hidden=[8, 4]", "--lr", "0.125", "--model", "mlp",
        "--server-optimizer", "fedadam", "--executor", "sequential", "--out", "it",
        cwd=tmp_path,
    )  # fmt: skip
    saved = (tmp_path / "it/config.toml").read_text()
    for line in (
        "rounds = 3", "lr = 0.125", "seed = 7", "q = 2.0", "clients = 6", "hidden = [8, 4]",
        'executor = "sequential"', "lr = 0.5",
    ):  # fmt: skip
        assert line in saved.splitlines()


MISTAKES = [
    (["run", "hart"], "unknown data set 'hart'; did you mean 'heart'?"),
    (["run"], "which data set?"),
    (["run", "heart", "--method", "afll"], "unknown method 'afll'; did you mean 'afl'?"),
    (["run", "heart", "--set", "cfd=normal"], "unknown setting 'cfd'; did you mean 'cdf'?"),
    (["run", "heart", "--set", "q=3"], "method 'aaggff-s' has no such option, it is one of qfed"),
    (["run", "heart", "--set", "cdf=nomal"], "did you mean 'normal'?"),
    (["run", "heart", "--set", "data.varian=paper"], "did you mean 'variant'?"),
    (["run", "heart", "--set", "varian=paper"], "did you mean --set data.variant=...?"),
    (["run", "heart", "--set", "dat.variant=paper"], "did you mean 'data'?"),
    (["run", "heart", "--set", "lr"], "expected NAME=VALUE"),
    (["run", "heart", "--rounds", "0"], "rounds: must be greater than or equal to 1, not 0"),
    (["run", "heart", "--rounds", "x"], "'--rounds': 'x' is not a valid integer"),
    (["run", "heart", "--executr", "batched"], "No such option '--executr'. Did you mean"),
    (["run", "heart", "--executor", "fast"], "executor: must be 'auto', 'sequential'"),
    (["run", "heart", "--model", "logistc"], "unknown model 'logistc'; did you mean 'logistic'?"),
    (["run", "heart", "--server-optimizer", "adm"], "did you mean 'adam'?"),
    (["run", "heart", "--device", "tpu"], "device: expected cpu, cuda, cuda:N or mps"),
    (["run", "heart", "--config", "no.toml"], "cannot read no.toml"),
    (["run", "--resume", "nowhere"], "--resume nowhere: there is no run there"),
    (["run", "heart", "--out", "x", "--resume", "x"], "leave out --out and --config"),
    (["run", "heart", "--stand-in"], "stand_in: heart needs none"),
    (["run", "heart", "--skip-corrupt"], "heart has no files that could be skipped"),
    (["run", "heart", "--method", "aaggff-s", "--drop-out", "0.1"], "drop_out and slow must be 0"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "said"), MISTAKES, ids=[said for _, said in MISTAKES])
def test_a_mistake_is_one_line_and_nothing_is_trained(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert said in refused(capsys, *words)
    assert not (tmp_path / "runs").exists()


LATE = [
    (["run", "heart", "--model", "convnet"], "convnet: expected images"),
    (["run", "heart", "--per-round", "5"], "per_round: 5 clients a round, but only 4 have data"),
    (["run", "celeba", "--data-dir", "."], "`--stand-in` runs on a likeness"),
    (["run", "heart", "--out", "full"], "already holds a run: `aaggff run --resume full`"),
]


@pytest.mark.parametrize(("words", "said"), LATE, ids=[said for _, said in LATE])
def test_what_only_the_data_can_tell_is_one_line_too(words, said, capsys, tmp_path, monkeypatch):
    """Below the heading, which is there before the data is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/config.toml").write_text("")
    with pytest.raises(SystemExit) as stop:
        app(words)
    out, err = capsys.readouterr()
    assert stop.value.code == 2
    assert out.count("\n") == 1
    assert err.startswith("aaggff: ")
    assert err.count("\n") == 1
    assert said in err
    assert not (tmp_path / "runs").exists()


LONG = ["run", "digits", "--rounds", "3000", "--out", "long", "--set", "evaluate_every=1000"]


def started(folder, *words):
    return subprocess.Popen(
        [sys.executable, "-m", "aaggff", *words], cwd=folder, env=ENVIRONMENT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def wait_for_rounds(folder, number):
    """Until so many rounds are on the disk."""
    path, until = folder / "long/rounds.jsonl", time.monotonic() + 120
    while not path.exists() or path.read_bytes().count(b"\n") < number:
        assert time.monotonic() < until, "no rounds were written"
        time.sleep(0.005)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_after_the_round_saved_and_says_how_to_go_on(number, tmp_path):
    process = started(tmp_path, *LONG)
    wait_for_rounds(tmp_path, 30)
    process.send_signal(number)
    said, beside = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert "Traceback" not in beside
    assert "finishing this round, then saving (again: stop at once)" in said
    done = int(re.search(r"stopped after round (\d+) of 3000; it is saved", said)[1])
    assert "go on: aaggff run --resume long\n" in said
    assert load_checkpoint(tmp_path / "long/checkpoint.safetensors")[1]["round"] == done >= 30
    assert (tmp_path / "long/rounds.jsonl").read_bytes().count(b"\n") == done
    assert not (tmp_path / "long/done.json").exists()


@pytest.mark.slow
def test_interrupted_killed_and_resumed_as_typed_it_ends_at_the_identical_model(tmp_path):
    words = [*LONG, "--set", "checkpoint_every=50"]
    words[3] = "2000"
    run(*[word if word != "long" else "whole" for word in words], cwd=tmp_path)
    process = started(tmp_path, *words)
    wait_for_rounds(tmp_path, 120)
    process.kill()
    process.communicate()
    process = started(tmp_path, "run", "--resume", "long")
    wait_for_rounds(tmp_path, 260)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert not (tmp_path / "long/done.json").exists()
    run("run", "--resume", "long", cwd=tmp_path)
    same_run(tmp_path / "long", tmp_path / "whole")


def test_more_rounds_by_resuming(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in (
        "run heart --rounds 4 --set evaluate_every=2 --out it",
        "run --resume it --rounds 6",
        "run heart --rounds 6 --set evaluate_every=2 --out whole",
    ):
        with pytest.raises(SystemExit) as stop:
            app(words.split())
        assert not stop.value.code
    same_run(tmp_path / "it", tmp_path / "whole")


def test_on_a_terminal_there_is_one_live_display_and_then_the_tables(tmp_path):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "aaggff", "run", "heart", "--rounds", "300"],
        cwd=tmp_path, env=ENVIRONMENT | {"TERM": "xterm", "COLUMNS": "100"},
        stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    while True:
        ready, _, _ = select.select([ours], [], [], 120)
        assert ready, "it fell silent"
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    assert process.wait() == 0
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
    assert "/300" in text
    assert "left" in text
    assert "test after round" in text
    assert "round 15/300" not in text  # no plain lines
    assert shown.count(b"\x1b[?25l") == shown.count(b"\x1b[?25h") == 1  # the cursor is back
    assert "client by client" in text
    assert text.count("300 rounds in") == 1


def test_without_mlflow_what_to_install_is_one_line(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "mlflow", None)
    said = refused(capsys, "run", "heart", "--rounds", 1, "--mlflow")
    assert said.startswith("aaggff: --mlflow needs MLflow")


def test_tensorboards_files_are_written_where_asked(tmp_path):
    run("run", "heart", "--rounds", 2, "--tensorboard", "tb", cwd=tmp_path)
    assert list((tmp_path / "tb").glob("events.out.tfevents.*"))


def test_help_shows_examples_and_every_setting():
    said, _ = run("run", "--help", cwd=".")
    assert "aaggff run heart --method qfedavg --set q=5" in said
    for option in (
        "--server-optimizer",
        "--prox",
        "--resume",
        "--config",
        "--drop-out",
        "--device",
    ):
        assert option in said
