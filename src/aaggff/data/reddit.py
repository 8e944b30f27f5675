"""Reddit (LEAF): the next word of a comment. One client a user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from aaggff.data.converted import converted
from aaggff.data.federated import FederatedRows
from aaggff.data.leaf import leaf_files, leaf_users
from aaggff.data.prepare import Prepare
from aaggff.data.spec import DatasetSpec, Option, PaperSettings, RemoteFile, Statistics, stand_in
from aaggff.data.split import split_client
from aaggff.data.store import StoreWriter, open_store
from aaggff.errors import UserError
from aaggff.federation.data import Task

SPECIALS = ("<PAD>", "<UNK>", "<BOS>", "<EOS>")
PAD, UNK = 0, 1
LENGTH = 10
NOTHING = -100
"""The target where there is none."""
VALIDATION = ("train", "drop")

Row = tuple[list[str], list[str]]
Encoded = dict[str, tuple[list[list[int]], list[list[int]]]]


def load(
    root: Path | None = None,
    *,
    seed: int = 0,
    vocabulary: int = 10_000,
    validation: str = "train",
) -> FederatedRows:
    """One client a user; inputs are 10 token numbers, targets the next token of each.

    Tokens 0..3 are <PAD>, <UNK>, <BOS> and <EOS>; the others are the most frequent words of the
    training rows, and every other word is <UNK>. The published split is used where LEAF's train
    and test folders are there (its validation part then joins the training part, or is dropped);
    undivided data is split 80/20 by the seed.
    """
    options: dict[str, Any] = {"vocabulary": vocabulary, "validation": validation}
    SPEC.check_options(options)
    if not isinstance(vocabulary, int) or not len(SPECIALS) < vocabulary <= 2**31 - 1:
        raise UserError(f"data.vocabulary must be a whole number above 4, not {vocabulary!r}")
    if "all" in leaf_files(SPEC.folder(root)):
        # The vocabulary is of the training rows, which are other ones for another seed.
        options["seed"] = seed
    convert = partial(_convert, vocabulary=vocabulary, validation=validation, seed=seed)
    return open_store(converted(SPEC, root, options, _source, convert), seed=seed)


def _source(folder: Path) -> list[Path]:
    return list(chain.from_iterable(leaf_files(folder).values()))


def _convert(
    folder: Path, store: Path, about: dict[str, Any], vocabulary: int, validation: str, seed: int
) -> None:
    parts = leaf_files(folder)
    if validation == "drop":
        parts.pop("val", None)
    held_out = _held_out(parts["all"], seed) if "all" in parts else None

    def rows(test: bool) -> Iterator[tuple[str, Row]]:
        if held_out is not None:
            for user, number, row in _numbered(parts["all"]):
                if (number in held_out[user]) == test:
                    yield user, row
            return
        for part, files in parts.items():
            if (part == "test") == test:
                yield from ((user, row) for user, _, row in _numbered(files))

    words = Counter(word for _, (tokens, _) in rows(test=False) for word in tokens)
    number = numbering(words, vocabulary)
    train, test = (_encode(rows(test), number) for test in (False, True))
    if not train:
        raise UserError(f"{folder} holds no training rows: expected .json files in train/, test/")
    dtype = "int16" if vocabulary <= 2**15 - 1 else "int32"
    about["words"] = len(words)
    without = sum(user not in train for user in test)
    about["notes"] = _lacking(len(train))
    if without:
        about["notes"].append(f"{without:,} users have test rows only and are left out")
    with StoreWriter(
        store,
        "reddit",
        Task("tokens", vocabulary, "top1"),
        dtype=dtype,
        shape=(LENGTH,),
        target_dtype=dtype,
        target_shape=(LENGTH,),
        prepare=Prepare("integers"),
        about=about,
    ) as writer:
        for user, (x, y) in train.items():
            writer.add(user, np.array(x, dtype=dtype), np.array(y, dtype=dtype))
            if user in test:
                x, y = test[user]
                writer.add(user, np.array(x, dtype=dtype), np.array(y, dtype=dtype), test=True)


def numbering(words: Counter[str], vocabulary: int) -> dict[str, int]:
    """The special tokens, then the most frequent words; of equally frequent ones, by the alphabet.

    >>> numbering(Counter("b a a c b <PAD>".split()), 6)
    {'<PAD>': 0, '<UNK>': 1, '<BOS>': 2, '<EOS>': 3, 'a': 4, 'b': 5}
    """
    ordered = sorted(words.items(), key=lambda item: (-item[1], item[0]))
    kept = [word for word, _ in ordered if word not in SPECIALS][: vocabulary - len(SPECIALS)]
    return {word: index for index, word in enumerate([*SPECIALS, *kept])}


def _encode(rows: Iterator[tuple[str, Row]], number: dict[str, int]) -> Encoded:
    users: Encoded = {}
    for user, (tokens, following) in rows:
        x, y = users.setdefault(user, ([], []))
        short = LENGTH - len(tokens)
        x.append([number.get(word, UNK) for word in tokens] + [PAD] * short)
        targets = [number.get(word, UNK) for word in following] + [PAD] * short
        y.append([NOTHING if target == PAD else target for target in targets])
    return users


def _held_out(files: list[Path], seed: int) -> dict[str, set[int]]:
    """Which of each user's rows are test rows, when nobody has published that."""
    counts = Counter(user for user, _, _ in _numbered(files))
    return {
        user: set(split_client(count, seed=seed, client=client)[1].tolist())
        for client, (user, count) in enumerate(counts.items())
    }


def _numbered(files: list[Path]) -> Iterator[tuple[str, int, Row]]:
    """Every row of the files with its user and its number among the user's rows."""
    seen: Counter[str] = Counter()
    for file in files:
        for user, inputs, targets in leaf_users(file):
            for comment, following in zip(inputs, targets):
                for row in _rows(comment, following, f"{file}: user {user!r}"):
                    yield user, seen[user], row
                    seen[user] += 1


def _rows(comment: Any, following: Any, where: str) -> Iterator[Row]:
    """A comment's rows of tokens with the tokens that follow them.

    LEAF has a list of rows a comment and a dictionary of targets; also understood are one row a
    sample, and for its targets a row, or the one token that comes after the row.
    """
    if isinstance(following, dict):
        following = following.get("target_tokens")
    if _is_row(comment):
        comment, following = [comment], [following]
    if not isinstance(comment, list) or not isinstance(following, list):
        raise UserError(f"{where}: expected rows of tokens and their target_tokens")
    if len(comment) != len(following):
        raise UserError(f"{where}: {len(comment)} rows of tokens but {len(following)} of targets")
    for tokens, targets in zip(comment, following):
        if isinstance(targets, str) and _is_row(tokens):
            targets = [*tokens[1:], targets]
        if not _is_row(tokens) or not _is_row(targets) or len(tokens) != len(targets):
            raise UserError(f"{where}: a row of tokens and its targets do not match")
        if not 1 <= len(tokens) <= LENGTH:
            raise UserError(f"{where}: a row of {len(tokens)} tokens; expected 1 to {LENGTH}")
        yield tokens, targets


def _is_row(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, str) for each in value)


def missing(folder: Path) -> list[str]:
    """How many users of LEAF's sample, which is the paper's, are not there."""
    files = leaf_files(folder)
    users = {
        user for file in files.get("train", files.get("all", [])) for user, _, _ in leaf_users(file)
    }
    return _lacking(len(users))


def _lacking(users: int) -> list[str]:
    paper = SPEC.statistics
    assert paper is not None
    return [f"{users:,} of {paper.clients:,} users are here"] if users < paper.clients else []


SPEC = DatasetSpec(
    name="reddit",
    title="Reddit (LEAF): the next word, 817 users",
    licence="none stated (comments of December 2017, collected by pushshift.io)",
    credit="Caldas et al. (LEAF), pushshift.io",
    settings=PaperSettings(
        rounds=300,
        per_round=5,
        model="stackedlstm",
        lr=10**0.875,
        weight_decay=1e-6,
        decay=0.95,
        decay_every=20,
        cdf="frechet",
    ),
    load=load,
    options={
        "vocabulary": Option(10_000, "how many tokens are known, the 4 special ones among them"),
        "validation": Option(
            "train", "LEAF's validation part: join it to the training part, or drop it", VALIDATION
        ),
    },
    stand_in=stand_in("reddit"),
    files=(
        RemoteFile(
            "reddit_subsampled.zip",
            unpacks=("train", "test"),
            instead=("all_data", "data/train", "data/all_data"),
        ),
    ),
    manual=(
        "LEAF gives Reddit out by hand: follow data/reddit/README.md of "
        "https://github.com/TalwalkarLab/leaf to its subsampled data and put the folders train/, "
        "val/ and test/ of .json files into DIR/reddit"
    ),
    statistics=Statistics(817, 97_961, 119.90, 229.85),
    missing=missing,
)
