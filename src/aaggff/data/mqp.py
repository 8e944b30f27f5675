"""Medical Question Pairs: do two questions mean the same? One client a doctor."""

from __future__ import annotations

import csv
import hashlib
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from aaggff.data.converted import converted
from aaggff.data.federated import FederatedRows
from aaggff.data.prepare import Prepare
from aaggff.data.spec import DatasetSpec, Option, PaperSettings, RemoteFile, Statistics, stand_in
from aaggff.data.store import StoreWriter, open_store
from aaggff.errors import UserError
from aaggff.federation.data import Task

FILE = "mqp.csv"
ROWS = 3_048
HUB = "distilbert-base-uncased"
AGAIN = "fetch the file again (`aaggff data fetch mqp`)"

Pairs = dict[str, list[tuple[str, str, int]]]


def load(
    root: Path | None = None, *, seed: int = 0, tokenizer: str = "hub", longest: int = 200
) -> FederatedRows:
    """Eleven clients, one a doctor; target 1 where the two questions mean the same.

    A pair is stored as the token numbers of `[CLS] q1 [SEP] q2 [SEP]`, at most `longest`, and
    padded with 0 only when a batch is put together, to the batch's own longest pair. tokenizer:
    "hub" (distilbert-base-uncased's, from the Hugging Face hub or its cache) or a folder with
    tokenizer.json or vocab.txt: the folder that holds the encoder's weights.
    """
    SPEC.check_options({"tokenizer": tokenizer, "longest": longest})
    if not isinstance(longest, int) or longest < 8:
        raise UserError(f"data.longest must be a whole number of at least 8, not {longest!r}")
    # The numbers depend on what is in the tokenizer's file, not on where it lies.
    words = HUB if tokenizer == "hub" else _checksum(_tokenizer_file(tokenizer))
    options = {"tokenizer": words, "longest": longest}
    convert = partial(_convert, tokenizer=tokenizer, longest=longest)
    return open_store(converted(SPEC, root, options, _files, convert), seed=seed)


def _files(folder: Path) -> list[Path]:
    return [folder / FILE]


def _convert(
    folder: Path, store: Path, about: dict[str, Any], tokenizer: str, longest: int
) -> None:
    doctors = read_pairs(folder / FILE)
    about["notes"] = missing(folder)
    encoder = _open_tokenizer(tokenizer)
    encoder.no_padding()
    encoder.enable_truncation(longest, strategy="longest_first")
    with StoreWriter(
        store,
        "mqp",
        Task("binary", 1, "auroc"),
        dtype="int32",
        shape=(longest,),
        target_dtype="uint8",
        ragged=True,
        prepare=Prepare("text"),
        about=about,
    ) as writer:
        for doctor in sorted(doctors, key=int):
            pairs = doctors[doctor]
            encoded = encoder.encode_batch([(first, second) for first, second, _ in pairs])
            writer.add(
                f"doctor {doctor}",
                [np.array(each.ids, dtype=np.int32) for each in encoded],
                np.array([label for _, _, label in pairs], dtype=np.uint8),
            )


def read_pairs(path: Path) -> Pairs:
    """Doctor -> (question 1, question 2, label) in the order of the file, which has no header."""
    doctors: Pairs = {}
    with path.open(encoding="utf-8", errors="replace", newline="") as stream:
        for number, row in enumerate(csv.reader(stream), 1):
            if len(row) != 4 or not row[0].isdigit() or row[3] not in ("0", "1"):
                raise UserError(
                    f"{path}: row {number} is not doctor, question 1, question 2, label: {AGAIN}"
                )
            doctors.setdefault(row[0], []).append((row[1], row[2], int(row[3])))
    if not doctors:
        raise UserError(f"{path} is empty: {AGAIN}")
    return doctors


def _tokenizer_file(tokenizer: str) -> Path:
    """tokenizer.json or vocab.txt in a folder, or the file itself."""
    place = Path(tokenizer).expanduser()
    found = [place] if place.is_file() else [place / "tokenizer.json", place / "vocab.txt"]
    for file in found:
        if file.is_file():
            return file
    raise UserError(
        f"data.tokenizer={tokenizer}: expected a folder with tokenizer.json or vocab.txt (the one "
        f"with the encoder's weights), or 'hub', which downloads {HUB}'s"
    )


def _open_tokenizer(tokenizer: str) -> Any:
    try:
        from tokenizers import BertWordPieceTokenizer, Tokenizer
    except ImportError:
        raise UserError("mqp needs tokenizers: pip install 'aaggff[text]'") from None
    file = _from_hub() if tokenizer == "hub" else _tokenizer_file(tokenizer)
    try:
        if file.suffix == ".json":
            encoder = Tokenizer.from_file(str(file))
        else:
            encoder = BertWordPieceTokenizer(str(file), lowercase=_lowercase(file.parent))
    except Exception as error:  # the library raises plain Exception for a damaged file
        raise UserError(f"{file} cannot be read as a tokenizer ({error})") from None
    padding = {encoder.token_to_id(name) for name in ("[PAD]", "<pad>")} - {None}
    if padding != {0}:
        raise UserError(
            f"{file}: token 0 must be the padding, as BERT's, DistilBERT's and MiniLM's is; here "
            f"it is {', '.join(map(str, padding)) or 'not there'}"
        )
    return encoder


def _lowercase(folder: Path) -> bool:
    config = folder / "tokenizer_config.json"
    if not config.is_file():
        return True
    return bool(json.loads(config.read_text(encoding="utf-8")).get("do_lower_case", True))


def _from_hub() -> Path:
    """The default encoder's tokenizer from the hub's cache, else from the hub."""
    reason = "huggingface_hub is not installed"
    try:
        from huggingface_hub import hf_hub_download

        from aaggff.models.pretrained import unreachable

        try:
            return Path(hf_hub_download(HUB, "tokenizer.json", local_files_only=True))
        except Exception:
            reason = unreachable() or ""
        if not reason:
            return Path(hf_hub_download(HUB, "tokenizer.json"))
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
    raise UserError(
        f"mqp: the tokenizer of {HUB} is not in the hub's cache and cannot be downloaded "
        f"({reason}); give a folder with tokenizer.json or vocab.txt, such as the one with the "
        "encoder's weights: --set data.tokenizer=DIR"
    )


def _checksum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def missing(folder: Path) -> list[str]:
    """How many pairs of the official 3,048 are not there."""
    path = folder / FILE
    if not path.exists():
        return []
    rows = sum(map(len, read_pairs(path).values()))
    return [f"{FILE} has {rows:,} of {ROWS:,} rows"] if rows < ROWS else []


SPEC = DatasetSpec(
    name="mqp",
    title="Medical Question Pairs, 11 doctors",
    licence="none stated",
    credit="Clara McCreery, Namit Katariya, Anitha Kannan, Manish Chablani, Xavier Amatriain",
    settings=PaperSettings(
        rounds=100,
        per_round=None,
        model="distilbert",
        lr=10**-2.5,
        weight_decay=1e-2,
        decay=0.99,
        decay_every=15,
        cdf="logistic",
    ),
    load=load,
    options={
        "tokenizer": Option("hub", f"hub: {HUB}'s; else a folder with tokenizer.json or vocab.txt"),
        "longest": Option(200, "at most this many tokens a pair"),
    },
    stand_in=stand_in("mqp"),
    files=(
        RemoteFile(
            FILE,
            (
                "https://raw.githubusercontent.com/curai/medical-question-pair-dataset/master/"
                "mqp.csv",
            ),
        ),
    ),
    statistics=Statistics(11, 3_048, 277.09, 63.25),
    missing=missing,
)
