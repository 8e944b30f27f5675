from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from aaggff.data import speechcommands
from aaggff.errors import UserError
from tests.data import official


def names(data: object) -> list[str]:
    return [data.client_name(k) for k in range(len(data))]  # type: ignore[attr-defined, arg-type]


def test_a_client_is_a_training_speaker_with_at_least_three_clips(tmp_path: Path) -> None:
    official.speechcommands(tmp_path)
    data = speechcommands.load(tmp_path)
    assert names(data) == ["00000002", "00000003", "00000004"]
    assert (data.train_sizes + data.test_sizes).tolist() == [4, 4, 4]
    assert names(speechcommands.load(tmp_path, speakers="all"))[:2] == ["00000000", "00000001"]
    assert len(speechcommands.load(tmp_path, speakers="all", at_least=1)) == 6


def test_sound_is_stored_in_16_bits_and_seen_between_minus_1_and_1(tmp_path: Path) -> None:
    official.speechcommands(tmp_path)
    data = speechcommands.load(tmp_path)
    x, y = data.train(0)
    assert x.dtype == torch.int16
    assert tuple(x.shape[1:]) == (1, 16_000)
    assert not x[:, :, 15_500:].any()
    prepared = data.prepare(x)
    assert prepared.dtype == torch.float32
    assert torch.equal(prepared, x.float() / 32_768)
    # Words are numbered among all 35, also where few are here.
    assert set(y.tolist()) <= {speechcommands.WORDS.index("yes"), speechcommands.WORDS.index("no")}
    assert (data.task.kind, data.task.outputs, data.task.metric) == ("multiclass", 35, "top5")


def test_a_client_never_gets_another_speakers_clip(tmp_path: Path) -> None:
    folder = official.speechcommands(tmp_path)
    data = speechcommands.load(tmp_path)
    for client in range(len(data)):
        for x, word in zip(*data.rows.take(client)):
            clips = [
                speechcommands.read_wav(path, rate=16_000, longest=16_000)
                for path in (folder / speechcommands.FOLDER / speechcommands.WORDS[word]).glob(
                    f"{data.client_name(client)}_*.wav"
                )
            ]
            assert any((x == clip).all() for clip in clips)


def test_a_damaged_clip_stops_the_conversion_or_is_left_out(tmp_path: Path) -> None:
    folder = official.speechcommands(tmp_path)
    clip = folder / speechcommands.FOLDER / "yes" / "00000003_nohash_1.wav"
    clip.write_bytes(clip.read_bytes()[:1_000])
    with pytest.raises(UserError, match=r"00000003_nohash_1\.wav is cut short.*--skip-corrupt"):
        speechcommands.load(tmp_path)
    assert not list(folder.glob(".store-*/manifest.json"))
    data = speechcommands.load(tmp_path, skip_corrupt=True)
    assert (data.train_sizes + data.test_sizes).tolist() == [4, 3, 4]
    assert data.notes[-1].startswith("1 of 12 files cannot be read and are left out: ")
    # The store with a gap is not taken for a whole one later.
    with pytest.raises(UserError, match=r"00000003_nohash_1\.wav.*1 such file"):
        speechcommands.load(tmp_path)


def test_wrong_options_and_lists_are_errors(tmp_path: Path) -> None:
    folder = official.speechcommands(tmp_path)
    with pytest.raises(UserError, match="training"):
        speechcommands.load(tmp_path, speakers="train")
    with pytest.raises(UserError, match="holds no speaker with 99 clips"):
        speechcommands.load(tmp_path, at_least=99)
    (folder / speechcommands.FOLDER / "testing_list.txt").write_text("right/bb05582b_noh")
    with pytest.raises(UserError, match=r"testing_list\.txt: line 1"):
        speechcommands.load(tmp_path)
    (folder / speechcommands.FOLDER / "testing_list.txt").unlink()
    with pytest.raises(UserError, match=r"lacks speech_commands_v0\.02/testing_list\.txt"):
        speechcommands.load(tmp_path, at_least=2)


def test_the_real_clips(real: Callable[[str], Path]) -> None:
    root = real("speechcommands")
    data = speechcommands.load(root, speakers="all")
    assert len(data) == 110
    assert set(data.train_sizes + data.test_sizes) == {8}
    # 21 of the 110 are in the official testing and validation lists.
    assert len(speechcommands.load(root)) == 89
    assert data.notes == ("4 of 35 words are here", "880 of 105,829 clips are here")


def test_the_papers_2005_clients_follow_from_the_official_lists(
    real: Callable[[str], Path],
) -> None:
    # 2,618 speakers and 105,829 clips in all (the data set's README and paper). Without those of
    # the lists, 2,112 speakers and 84,843 clips stay; the paper's 2,005 and 84,700 are these
    # without 107 speakers of one or two clips, 143 together.
    place = real("speechcommands") / "speechcommands" / speechcommands.FOLDER
    clips = sum(len((place / name).read_text().split()) for name in speechcommands.LISTS)
    left = 2_618 - len(speechcommands._listed(place))
    paper = speechcommands.SPEC.statistics
    assert paper is not None
    assert (left, speechcommands.CLIPS - clips) == (2_112, 84_843)
    gone_speakers, gone_clips = left - paper.clients, 84_843 - paper.samples
    assert gone_speakers <= gone_clips <= 2 * gone_speakers
