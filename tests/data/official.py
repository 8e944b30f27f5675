"""Tiny made-up files in exactly the official layouts, so that every loader is tested anywhere."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np

REGIONS = (
    "Prague", "central Bohemia", "south Bohemia", "west Bohemia", "north Bohemia", "east Bohemia",
    "south Moravia", "north Moravia",
)  # fmt: skip
FREQUENCIES = ("POPLATEK MESICNE", "POPLATEK TYDNE", "POPLATEK PO OBRATU")


def berka(root: Path, loans_each: int = 10, transactions: int = 400) -> Path:
    """Eight regions with as many loans each, one account a loan."""
    rng = np.random.default_rng(0)
    folder = root / "berka"
    folder.mkdir(parents=True)
    count = len(REGIONS) * loans_each
    # District 3 has gaps in A12 and A15, as number 69 has in the official table.
    district = ["A1;A2;A3;A4;A5;A6;A7;A8;A9;A10;A11;A12;A13;A14;A15;A16"] + [
        f'{d + 1};"Town {d}";"{region}";{50_000 + d};0;0;0;1;1;{50 + d}.0;{8_000 + d};'
        f"{'?' if d == 2 else 0.5 + d};{1.5 + d};{100 + d};"
        f"{'?' if d == 2 else 1_000 + d};{2_000 + d}"
        for d, region in enumerate(REGIONS)
    ]
    account = ['"account_id";"district_id";"frequency";"date"'] + [
        f'{a + 1};{a % len(REGIONS) + 1};"{FREQUENCIES[a % 3]}";930{a % 9 + 1}01'
        for a in range(count)
    ]
    loan = ['"loan_id";"account_id";"date";"amount";"duration";"payments";"status"'] + [
        f"{5_000 + a};{a + 1};9501{a % 28 + 1:02d};{10_000 + 100 * a};{12 * (a % 5 + 1)};"
        f'{500 + a}.00;"{"ABCD"[a // len(REGIONS) % 4]}"'
        for a in range(count)
    ]
    order = ['"order_id";"account_id";"bank_to";"account_to";"amount";"k_symbol"'] + [
        f'{29_400 + a};{a + 1};"YZ";"87144583";{1_000 + a}.50;"SIPO"' for a in range(count - 1)
    ]
    head = (
        '"trans_id";"account_id";"date";"type";"operation";"amount";"balance";"k_symbol";"bank";'
        '"account"'
    )
    trans = [head] + [
        f'{t};{rng.integers(1, count + 3)};9{rng.integers(3, 9)}0{rng.integers(1, 10)}15;"PRIJEM";'
        f'"VKLAD";{rng.integers(1, 900)}.00;{rng.integers(1, 90_000)}.30;"";;'
        for t in range(transactions)
    ]
    tables = {
        "district": district,
        "account": account,
        "loan": loan,
        "order": order,
        "trans": trans,
    }
    for name, lines in tables.items():
        (folder / f"{name}.asc").write_text("\n".join(lines) + "\n")
    return folder


WORDS = (
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "can", "i", "take", "two", "of", "these",
    "pills", "a", "day", "?", "no", "yes", ",", "it",
)  # fmt: skip


def mqp(root: Path, pairs_each: int = 10) -> Path:
    """Eleven doctors; one question has a comma and quotation marks in it."""
    folder = root / "mqp"
    folder.mkdir(parents=True)
    lines = [
        f'{doctor},Can I take {"two of " * pair}these?,"No, can ""I""?",{pair % 2}'
        for doctor in range(1, 12)
        for pair in range(pairs_each)
    ]
    (folder / "mqp.csv").write_text("\n".join(lines) + "\n")
    return folder


def vocabulary(folder: Path) -> Path:
    """A folder with a BERT vocabulary of a few words."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join([*WORDS, '"']) + "\n")
    return folder


def wav(
    path: Path,
    samples: np.ndarray | None = None,
    *,
    rate: int = 16_000,
    channels: int = 1,
    width: int = 2,
) -> Path:
    """A WAV file written by the standard library."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if samples is None:
        samples = np.random.default_rng(0).integers(-900, 900, rate * channels)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(samples.astype(f"<i{width}").tobytes())
    return path


def speechcommands(root: Path, speakers: int = 6, words: tuple[str, ...] = ("yes", "no")) -> Path:
    """Speaker s says each word twice, the last one only one word once; noise lies beside them.

    Speaker 0 is in the testing list and speaker 1 in the validation list.
    """
    place = root / "speechcommands" / "speech_commands_v0.02"
    rng = np.random.default_rng(0)
    lists: list[list[str]] = [[] for _ in range(speakers)]
    for number in range(speakers):
        for word in words:
            for take in range(2):
                if number == speakers - 1 and (word, take) != (words[0], 0):
                    continue
                name = f"{word}/{number:08x}_nohash_{take}.wav"
                # Some clips are a little shorter than a second.
                length = 16_000 - 500 * (number == 2)
                wav(place / name, rng.integers(-3_000, 3_000, length))
                lists[number].append(name)
    wav(place / "_background_noise_" / "white_noise.wav", rng.integers(-9, 9, 99_000))
    (place / "testing_list.txt").write_text("\n".join(lists[0]) + "\n")
    (place / "validation_list.txt").write_text("\n".join(lists[1]) + "\n")
    return root / "speechcommands"
