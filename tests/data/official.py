"""Tiny made-up files in exactly the official layouts, so that every loader is tested anywhere."""

from __future__ import annotations

import json
import wave
from pathlib import Path

import numpy as np
from PIL import Image

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


def image(
    path: Path, shown: int = 0, size: tuple[int, int] = (32, 24), mode: str = "RGB", **options: int
) -> Path:
    """A JPEG of noise around a grey that tells what is shown."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(shown).integers(0, 40, (size[1], size[0], 3), dtype=np.uint8)
    picture = Image.fromarray(noise + np.uint8(5 * (shown % 40))).convert(mode)
    picture.save(path, format="JPEG", **options)
    return path


ISIC_PLACES = (
    ("BCN_", ""), ("HAM_", "vidir_molemax"), ("HAM_", "vidir_modern"), ("HAM_", "rosendahl"),
    ("MSK4", ""), ("HAM_", "vienna_dias"),
)  # fmt: skip


def isic2019(root: Path, images_each: int = 5) -> Path:
    """Six centres; of each the last image has a gap in its metadata. Two have no lesion number."""
    folder = root / "isic2019"
    classes = ["MEL", "NV", "BCC", "AK", "BKL", "DF", "VASC", "SCC"]
    truth = ["image," + ",".join(classes) + ",UNK"]
    metadata = ["image,age_approx,anatom_site_general,lesion_id,sex"]
    vienna = ["lesion_id,image_id,dx,dx_type,age,sex,localization,dataset"]
    split = ["image," + ",".join(classes) + ",UNK,target,center,fold,fold2"]
    number = 0
    for place, (prefix, dataset) in enumerate([*ISIC_PLACES, ("", "")]):
        for index in range(images_each if prefix else 2):
            name, label = f"ISIC_{number:07d}", (number + place) % 8
            lesion = f"{prefix}{number:07d}" if prefix else ""
            marks = ",".join("1.0" if each == label else "0.0" for each in range(9))
            truth.append(f"{name},{marks}")
            age = "" if index == images_each - 1 else "55.0"
            metadata.append(f"{name},{age},anterior torso,{lesion},female")
            fold = "test" if index == 0 else "train"
            split.append(f"{name},{marks},{label},{place},{fold},{fold}_{place}")
            if dataset:
                vienna.append(f"{lesion},{name},nv,histo,55.0,female,back,{dataset}")
            image(folder / "ISIC_2019_Training_Input" / f"{name}.jpg", label, (64, 48))
            number += 1
    for file, lines in (
        ("ISIC_2019_Training_GroundTruth.csv", truth),
        ("ISIC_2019_Training_Metadata.csv", metadata),
        ("HAM10000_metadata", vienna),
        ("train_test_split", split),
    ):
        (folder / file).write_text("\n".join(lines) + "\n")
    return folder


def tinyimagenet(root: Path, each: int = 2, validation: int = 4) -> Path:
    """200 classes, some images grey, one of them CMYK."""
    place = root / "tinyimagenet" / "tiny-imagenet-200"
    numbers = [f"n{7 * index % 200:08d}" for index in range(200)]
    modes = ["RGB", "L", "RGB", "RGB"]
    for index, number in enumerate(numbers):
        for take in range(each):
            mode = "CMYK" if (index, take) == (0, 0) else modes[index % 4]
            path = place / "train" / number / "images" / f"{number}_{take}.JPEG"
            image(path, int(number[1:]), (64, 64), mode)
    (place / "wnids.txt").write_text("\n".join(numbers) + "\n")
    lines = []
    for index in range(validation):
        image(place / "val" / "images" / f"val_{index}.JPEG", index, (64, 64))
        lines.append(f"val_{index}.JPEG\t{numbers[index]}\t0\t0\t62\t62")
    (place / "val" / "val_annotations.txt").write_text("\n".join(lines) + "\n")
    return root / "tinyimagenet"


def celeba(root: Path, persons: int = 6, tables: bool = True, leaf: str = "") -> Path:
    """Person p has p + 3 images, so that two have fewer than 5; who has an even number smiles.

    leaf "all_data" or "split" writes LEAF's json too.
    """
    folder = root / "celeba"
    images = [(person, take) for take in range(persons + 3) for person in range(1, persons + 1)]
    images = [(person, take) for person, take in images if take < person + 2]
    smiles = [number % 2 for number in range(1, len(images) + 1)]
    names = [f"{number:06d}.jpg" for number in range(1, len(images) + 1)]
    for number, name in enumerate(names):
        image(folder / "img_align_celeba" / name, number, (178, 218))
    if tables:
        lines = [str(len(images)), "Male Smiling Young "]
        lines += [f"{name} -1 {'-1' if smile else ' 1'}  1" for name, smile in zip(names, smiles)]
        (folder / "list_attr_celeba.txt").write_text("\n".join(lines) + "\n")
        lines = [f"{name} {person}" for name, (person, _) in zip(names, images)]
        (folder / "identity_CelebA.txt").write_text("\n".join(lines) + "\n")
    parts = {"split": {"train": (0, 4), "test": (4, 99)}, "all_data": {"all_data": (0, 99)}}
    for part, (first, last) in parts.get(leaf, {}).items():
        data: dict[str, dict[str, list[object]]] = {}
        for person in range(3, persons + 1):
            mine = [index for index, (who, _) in enumerate(images) if who == person][first:last]
            data[str(person)] = {
                "x": [names[index] for index in mine],
                "y": [float(1 - smiles[index]) for index in mine],
            }
        leaf_json(folder / part / f"{part}.json", data)
    return folder


def leaf_json(path: Path, data: dict[str, dict[str, list[object]]]) -> Path:
    """LEAF's json."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sizes = [len(each["y"]) for each in data.values()]
    path.write_text(
        json.dumps({"users": list(data), "num_samples": sizes, "user_data": data}), "utf-8"
    )
    return path


def comment(text: str) -> tuple[list[list[str]], dict[str, object]]:
    """A comment as LEAF writes it: rows of ten tokens, and what follows each of them."""
    words = text.split()
    tokens, following = ["<BOS>", *words, "<EOS>"], [*words, "<EOS>", "<PAD>"]
    padding = ["<PAD>"] * (-len(tokens) % 10)
    tokens, following = tokens + padding, following + padding
    rows = range(0, len(tokens), 10)
    targets: dict[str, object] = {
        "subreddit": "pics",
        "created_utc": 1_512_086_400,
        "score": 1,
        "target_tokens": [following[row : row + 10] for row in rows],
        "count_tokens": [[float(t != "<PAD>") for t in tokens[row : row + 10]] for row in rows],
    }
    return [tokens[row : row + 10] for row in rows], targets


def reddit(root: Path, users: int = 3, parts: tuple[str, ...] = ("train", "val", "test")) -> Path:
    """Each user says "w<user> a b c ..." five times in each part."""
    for part in parts:
        data: dict[str, dict[str, list[object]]] = {}
        for user in range(users):
            said = [comment(f"w{user} {part} " + "a b c d e f g h i j"[: 4 * n]) for n in range(5)]
            data[str(user + 1)] = {"x": [x for x, _ in said], "y": [y for _, y in said]}
        leaf_json(root / "reddit" / part / f"reddit_0_{part}.json", data)
    return root / "reddit"
