"""LEAF's Reddit: tokens numbered by the training rows, the published split, its known forms."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from aaggff.data import reddit
from aaggff.data.federated import FederatedRows
from aaggff.data.reddit import LENGTH, NOTHING, PAD, SPECIALS, UNK
from aaggff.errors import UserError
from tests.data import official


def said(folder: Path, *parts: str) -> dict[str, list[tuple[list[str], list[str]]]]:
    """User -> rows of tokens and what follows them, read with plain loops."""
    users: dict[str, list[tuple[list[str], list[str]]]] = {}
    for part in parts:
        for path in sorted((folder / part).glob("*.json")):
            for user, data in json.loads(path.read_text())["user_data"].items():
                for comment, targets in zip(data["x"], data["y"]):
                    users.setdefault(user, []).extend(zip(comment, targets["target_tokens"]))
    return users


def numbers(users: dict[str, list[tuple[list[str], list[str]]]]) -> dict[str, int]:
    words = Counter(word for rows in users.values() for row, _ in rows for word in row)
    for special in SPECIALS:
        words.pop(special, None)
    ordered = [*SPECIALS, *sorted(words, key=lambda word: (-words[word], word))]
    return {word: number for number, word in enumerate(ordered)}


def test_rows_and_targets_are_leafs_in_numbers(tmp_path: Path) -> None:
    folder = official.reddit(tmp_path)
    data = reddit.load(tmp_path)
    train, test = said(folder, "train", "val"), said(folder, "test")
    number = numbers(train)
    assert [data.client_name(k) for k in range(len(data))] == ["1", "2", "3"]
    assert (data.task.kind, data.task.outputs, data.task.metric) == ("tokens", 10_000, "top1")
    for client, user in enumerate(("1", "2", "3")):
        for part, rows in (("train", train[user]), ("test", test[user])):
            x, y = getattr(data, part)(client)
            assert x.tolist() == [[number.get(w, UNK) for w in row] for row, _ in rows]
            expected = [[number.get(w, UNK) for w in following] for _, following in rows]
            assert y.tolist() == [[NOTHING if t == PAD else t for t in each] for each in expected]
    # A word that only a test row holds is unknown.
    assert "test" not in number
    assert (data.test(0)[0] == UNK).any()
    assert not (data.train(0)[0] == UNK).any()


def test_every_position_is_to_guess_the_next_token(tmp_path: Path) -> None:
    official.reddit(tmp_path)
    x, y = reddit.load(tmp_path).train(0)
    assert x.shape == y.shape == (len(x), LENGTH)
    assert (x.dtype, y.dtype) == (torch.int16, torch.int64)
    # Inside a row the target of a position is the token at the next, unless that is padding.
    inside = x[:, 1:].long()
    known = inside != PAD
    assert torch.equal(y[:, :-1][known], inside[known])
    assert (y[:, :-1][~known & (x[:, :-1] == PAD)] == NOTHING).all()


def test_the_published_split_is_kept_and_validation_joins_or_goes(tmp_path: Path) -> None:
    folder = official.reddit(tmp_path)
    joined, dropped = reddit.load(tmp_path), reddit.load(tmp_path, validation="drop")
    assert joined.test_sizes.tolist() == dropped.test_sizes.tolist()
    train, val = (len(said(folder, part)["1"]) for part in ("train", "val"))
    assert joined.train_sizes[0] == train + val
    assert dropped.train_sizes[0] == train
    assert torch.equal(reddit.load(tmp_path, seed=9).test(1)[0], joined.test(1)[0])


def test_a_small_vocabulary_keeps_the_most_frequent_words(tmp_path: Path) -> None:
    folder = official.reddit(tmp_path)
    data = reddit.load(tmp_path, vocabulary=8)
    number = {w: n for w, n in numbers(said(folder, "train", "val")).items() if n < 8}
    assert data.task.outputs == 8
    rows = said(folder, "train", "val")["2"]
    assert data.train(1)[0].tolist() == [[number.get(w, UNK) for w in row] for row, _ in rows]
    assert int(data.train(1)[1].max()) < 8


def test_undivided_data_is_split_by_the_seed_and_numbered_by_its_training_rows(
    tmp_path: Path,
) -> None:
    folder = official.reddit(tmp_path, users=4, parts=("all_data",))
    two, four = reddit.load(tmp_path, seed=2), reddit.load(tmp_path, seed=4)
    rows = len(said(folder, "all_data")["1"])
    for data in (two, four):
        assert (data.train_sizes + data.test_sizes).tolist() == [rows] * 4
        assert data.test_sizes.tolist() == [round(0.2 * rows)] * 4
    assert not all(torch.equal(two.test(k)[0], four.test(k)[0]) for k in range(4))
    assert torch.equal(reddit.load(tmp_path, seed=2).test(0)[0], two.test(0)[0])
    # Numbered by the training rows: those hold no unknown word, whatever the seed.
    assert not any((data.train(k)[0] == UNK).any() for data in (two, four) for k in range(4))


FORMS: dict[str, tuple[list[object], list[object]]] = {
    "leaf": ([[["<BOS>", "a", "b"]]], [{"target_tokens": [["a", "b", "<EOS>"]]}]),
    "one row a sample": ([["<BOS>", "a", "b"]], [["a", "b", "<EOS>"]]),
    "the token after the row": ([["<BOS>", "a", "b"]], ["<EOS>"]),
    "a dictionary with one row": ([["<BOS>", "a", "b"]], [{"target_tokens": ["a", "b", "<EOS>"]}]),
}


def one_user(root: Path, x: list[object], y: list[object]) -> FederatedRows:
    """A federation of one user who says the same in both parts."""
    for part in ("train", "test"):
        official.leaf_json(root / "reddit" / part / "a.json", {"u": {"x": x, "y": y}})
    return reddit.load(root)


@pytest.mark.parametrize("form", FORMS)
def test_the_known_forms_come_to_the_same(tmp_path: Path, form: str) -> None:
    x, y = one_user(tmp_path, *FORMS[form]).train(0)
    assert x.tolist() == [[2, 4, 5, 0, 0, 0, 0, 0, 0, 0]]
    assert y.tolist() == [[4, 5, 3] + [NOTHING] * 7]


BROKEN: list[tuple[list[object], list[object], str]] = [
    ([[["a"]]], [{"target_tokens": []}], "1 rows of tokens but 0 of targets"),
    ([[["a", "b"]]], [{"target_tokens": [["b"]]}], "do not match"),
    ([[["a"] * 11]], [{"target_tokens": [["a"] * 11]}], "a row of 11 tokens; expected 1 to 10"),
    ([[[1]]], [{"target_tokens": [["a"]]}], "do not match"),
    (["a"], [{"target_tokens": [["a"]]}], "expected rows of tokens"),
    ([[["a"]]], [{}], "expected rows of tokens and their target_tokens"),
    ([[["a"]]], [], "1 inputs and 0 targets"),
]


@pytest.mark.parametrize(("x", "y", "says"), BROKEN)
def test_a_damaged_row_names_file_and_user(tmp_path: Path, x, y, says) -> None:
    with pytest.raises(UserError) as error:
        one_user(tmp_path, x, y)
    assert says in str(error.value)
    assert "a.json: user 'u'" in str(error.value)


def test_a_cut_file_is_named(tmp_path: Path) -> None:
    path = official.reddit(tmp_path) / "val" / "reddit_0_val.json"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(UserError, match=r"reddit_0_val\.json is cut or damaged .*LEAF's script"):
        reddit.load(tmp_path)


def test_users_without_training_rows_are_left_out_and_said(tmp_path: Path) -> None:
    folder = official.reddit(tmp_path)
    only = {"99": {"x": [[["a"]]], "y": [{"target_tokens": [["b"]]}]}}
    official.leaf_json(folder / "test" / "more.json", only)
    data = reddit.load(tmp_path)
    assert len(data) == 3
    assert data.notes == (
        "3 of 817 users are here",
        "1 users have test rows only and are left out",
    )


def test_nothing_there_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"TalwalkarLab/leaf.*DIR/reddit.*--stand-in"):
        reddit.load(tmp_path)


@pytest.mark.parametrize(
    ("options", "says"),
    [({"vocabulary": 4}, "above 4"), ({"validation": "keep"}, "known: drop, train")],
)
def test_a_wrong_option_is_one_clear_line(tmp_path: Path, options, says) -> None:
    with pytest.raises(UserError) as error:
        reddit.load(tmp_path, **options)
    assert says in str(error.value)


def test_many_tokens_need_a_larger_type(tmp_path: Path) -> None:
    official.reddit(tmp_path)
    assert reddit.load(tmp_path, vocabulary=40_000).train(0)[0].dtype == torch.int32
    small, large = reddit.load(tmp_path), reddit.load(tmp_path, vocabulary=40_000)
    np.testing.assert_array_equal(small.train(0)[0].long(), large.train(0)[0].long())
