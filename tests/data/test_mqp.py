from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from aaggff.data import mqp
from aaggff.errors import UserError
from aaggff.federation.client import rows_at_once
from aaggff.federation.data import Task
from tests.data import official


@pytest.fixture
def words(tmp_path: Path) -> str:
    return str(official.vocabulary(tmp_path / "encoder"))


def ids(text: str) -> list[int]:
    return [[*official.WORDS, '"'].index(word) for word in text.split()]


def test_a_pair_is_cls_q1_sep_q2_sep(tmp_path: Path, words: str) -> None:
    official.mqp(tmp_path)
    data = mqp.load(tmp_path, tokenizer=words)
    x, y = data.rows.take(0)
    expected = ids('[CLS] can i take two of these ? [SEP] no , can " i " ? [SEP]')
    assert x[1][: len(expected)].tolist() == expected
    assert not x[1][len(expected) :].any()
    assert x.shape == (10, 200)
    assert y.tolist() == [0, 1] * 5


def test_a_client_is_a_doctor_in_numeric_order(tmp_path: Path, words: str) -> None:
    official.mqp(tmp_path)
    data = mqp.load(tmp_path, tokenizer=words)
    assert [data.client_name(k) for k in range(len(data))] == [f"doctor {d}" for d in range(1, 12)]


def test_long_pairs_are_cut(tmp_path: Path, words: str) -> None:
    official.mqp(tmp_path)
    x, _ = mqp.load(tmp_path, tokenizer=words, longest=16).rows.take(0)
    assert x.shape == (10, 16)
    assert x[9].all()
    assert x[9, -1] == official.WORDS.index("[SEP]")


def test_a_batch_is_as_long_as_its_longest_pair(tmp_path: Path, words: str) -> None:
    official.mqp(tmp_path)
    data = mqp.load(tmp_path, tokenizer=words)
    inputs = torch.from_numpy(data.rows.take(0)[0])
    for rows in ([0], [0, 3], [1, 2]):
        prepared = data.prepare(inputs[rows])
        longest = int((inputs[rows] != 0).sum(dim=1).max())
        assert prepared.shape == (len(rows), longest)
        assert prepared.dtype == torch.int64
        assert torch.equal(prepared, inputs[rows][:, :longest].long())


def test_another_vocabulary_is_another_store(tmp_path: Path, words: str) -> None:
    official.mqp(tmp_path)
    first = mqp.load(tmp_path, tokenizer=words).rows.take(0)[0]
    (Path(words) / "vocab.txt").write_text(
        "\n".join([*official.WORDS[:5], "day", *official.WORDS[5:]]) + "\n"
    )
    second = mqp.load(tmp_path, tokenizer=words).rows.take(0)[0]
    assert first[0, 1] + 1 == second[0, 1]


def test_offline_the_hub_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("aaggff.data.mqp.HUB", "aaggff/there-is-no-such-encoder")
    official.mqp(tmp_path)
    with pytest.raises(UserError, match=r"--set data\.tokenizer=DIR"):
        mqp.load(tmp_path)


@pytest.mark.parametrize(
    ("row", "expected"),
    [("1,a question,1", "row 111"), ("x,a,b,1", "row 111"), ("1,a,b,7", "row 111")],
)
def test_a_damaged_row_is_named(tmp_path: Path, words: str, row: str, expected: str) -> None:
    with (official.mqp(tmp_path) / "mqp.csv").open("a") as stream:
        stream.write(row + "\n")
    with pytest.raises(UserError, match=expected) as caught:
        mqp.load(tmp_path, tokenizer=words)
    assert "mqp.csv" in str(caught.value)


def test_tokenizers_that_do_not_fit_are_errors(tmp_path: Path, words: str) -> None:
    official.mqp(tmp_path)
    with pytest.raises(UserError, match=r"tokenizer\.json or vocab\.txt"):
        mqp.load(tmp_path, tokenizer=str(tmp_path / "nowhere"))
    (Path(words) / "vocab.txt").write_text("\n".join(["it", *official.WORDS]))
    with pytest.raises(UserError, match="token 0 must be the padding"):
        mqp.load(tmp_path, tokenizer=words)
    (Path(words) / "tokenizer.json").write_text("{")
    with pytest.raises(UserError, match="cannot be read as a tokenizer"):
        mqp.load(tmp_path, tokenizer=words)
    with pytest.raises(UserError, match=r"data\.longest"):
        mqp.load(tmp_path, tokenizer=words, longest=3)


def test_a_partial_copy_says_so(tmp_path: Path, words: str) -> None:
    official.mqp(tmp_path)
    assert mqp.load(tmp_path, tokenizer=words).notes == ("mqp.csv has 110 of 3,048 rows",)


def test_the_real_pairs_have_the_papers_counts(real: Callable[[str], Path], words: str) -> None:
    data = mqp.load(real("mqp"), tokenizer=words)
    sizes = data.train_sizes + data.test_sizes
    assert (len(sizes), sizes.sum()) == (11, 3_048)
    assert (round(sizes.mean(), 2), round(sizes.std(), 2)) == (277.09, 63.25)
    assert data.notes == ()


def test_few_texts_are_judged_at_a_time_and_padded_to_their_own_longest() -> None:
    task = Task("binary", 1, "auroc")
    texts = torch.zeros(500, 200, dtype=torch.int32)
    assert rows_at_once(texts, task) == 32
    # As many plain numbers are no texts.
    assert rows_at_once(texts.float(), task) > 1_000
