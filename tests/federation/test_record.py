"""The run directory: strict JSON, appended, cut to the checkpoint, never half a file."""

import json

import numpy as np
import pytest

from aaggff.errors import UserError
from aaggff.federation.config import RunConfig
from aaggff.federation.record import Recorder, cut, json_line, write_atomically

CONFIG = RunConfig.for_dataset("heart", method="fedavg", rounds=5)


def strict(text):
    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_lines_are_strict_json_whatever_the_numbers():
    line = json_line(
        {
            "round": np.int64(2),
            "losses": [0.5, float("inf"), float("nan")],
            "values": np.array([[1.0, np.nan]]),
            "responses": None,
            "set_aside": {"3": "its loss is nan"},
            "summary": {"avg": np.float32(np.nan), "missing": 1},
        }
    )
    assert line.endswith("}\n")
    assert strict(line) == {
        "round": 2,
        "losses": [0.5, None, None],
        "values": [[1.0, None]],
        "responses": None,
        "set_aside": {"3": "its loss is nan"},
        "summary": {"avg": None, "missing": 1},
    }


def test_what_json_cannot_hold_is_refused():
    with pytest.raises(TypeError, match="set"):
        json_line({"clients": {1, 2}})


@pytest.mark.parametrize("keep", range(6))
@pytest.mark.parametrize("torn", [b"", b"{", b'{"round": 6', b'{"round": 6, "x": 1}'])
def test_resuming_keeps_the_rounds_of_the_checkpoint_and_no_half_line(tmp_path, keep, torn):
    path = tmp_path / "rounds.jsonl"
    lines = [json_line({"round": t, "x": "é" * t}).encode() for t in range(1, 6)]
    path.write_bytes(b"".join(lines) + torn)
    assert cut(path, keep) == keep
    assert path.read_bytes() == b"".join(lines[:keep])


def test_a_line_that_is_no_record_is_named_with_its_number(tmp_path):
    path = tmp_path / "rounds.jsonl"
    path.write_bytes(b'{"round": 1}\nnonsense\n')
    with pytest.raises(UserError, match=r"rounds\.jsonl: line 2"):
        cut(path, 3)


def test_rounds_that_were_lost_are_noticed(tmp_path):
    (tmp_path / "rounds.jsonl").write_bytes(b'{"round": 1}\n{"round": 2}\n')
    with pytest.raises(UserError, match="has 2 of the 4 rounds before the checkpoint"):
        Recorder(tmp_path, CONFIG, round=4)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "done.json"
    write_atomically(path, b"old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["done.json"]


def test_a_place_that_cannot_be_written_is_a_users_mistake(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write to"):
        Recorder(tmp_path / "file" / "run", CONFIG)
