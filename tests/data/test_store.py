"""Stores on disk: what is written comes back, of one client only; damage is seen and named."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from aaggff.data.federated import FederatedRows
from aaggff.data.prepare import Prepare
from aaggff.data.store import StoreWriter, open_rows, open_store, read_manifest, verify_store
from aaggff.errors import UserError
from aaggff.federation.data import FederatedData, Task

TASK = Task("multiclass", 3, "top1")
COUNTS = (7, 1, 12)


def images(client: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(client)
    return rng.integers(0, 256, (rows, 3, 4, 4), dtype=np.uint8), rng.integers(0, 3, rows)


def write(path: Path, counts: tuple[int, ...] = COUNTS, *, test: int = 0) -> Path:
    """Images of as many clients; each client's last `test` rows are a published test part."""
    with StoreWriter(
        path, "mine", TASK, dtype="uint8", shape=(3, 4, 4), target_dtype="uint8",
        prepare=Prepare("scale", divide=255.0, mean=(0.5,) * 3, std=(0.25,) * 3),
        about={"licence": "CC0", "notes": ["half of it"]},
    ) as writer:  # fmt: skip
        for client, rows in enumerate(counts):
            x, y = images(client, rows)
            last = rows - test
            writer.add(f"c{client}", x[: last // 2], y[: last // 2])
            writer.add(f"c{client}", x[last // 2 : last], y[last // 2 : last])
            if test:
                writer.add(f"c{client}", x[last:], y[last:], test=True)
    return path


def texts(path: Path) -> list[list[int]]:
    """Rows of unequal length, one of them empty, of two clients."""
    rows = [[5, 6], [], [7], [8, 9, 10, 11], [12]]
    with StoreWriter(
        path, "words", Task("binary", 1, "auroc"), dtype="int32", shape=(4,), ragged=True,
        target_dtype="uint8", prepare=Prepare("text"),
    ) as writer:  # fmt: skip
        writer.add("a", rows[:3], [0, 1, 0])
        writer.add("b", rows[3:], [1, 1])
    return rows


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    data = open_store(write(tmp_path / "store"), seed=2)
    assert isinstance(data, FederatedData)
    assert (data.name, data.task, data.notes, data.stand_in) == (
        "mine",
        TASK,
        ("half of it",),
        False,
    )
    assert [data.client_name(k) for k in range(len(data))] == ["c0", "c1", "c2"]
    for client, rows in enumerate(COUNTS):
        x, y = images(client, rows)
        np.testing.assert_array_equal(data.rows.take(client)[0], x)
        np.testing.assert_array_equal(data.rows.labels(client), y)
        train, test = data.split(client)
        assert sorted([*train, *test]) == list(range(rows))
        assert (len(train), len(test)) == (data.train_sizes[client], data.test_sizes[client])
        inputs, targets = data.train(client)
        assert (inputs.dtype, targets.dtype) == (torch.uint8, torch.int64)
        np.testing.assert_array_equal(inputs.numpy(), x[train])
        np.testing.assert_array_equal(targets.numpy(), y[train])
    seen = data.prepare(torch.full((1, 3, 4, 4), 255, dtype=torch.uint8))
    assert torch.equal(seen, torch.full((1, 3, 4, 4), 2.0))
    assert verify_store(tmp_path / "store") == []


def test_the_manifest_says_what_and_how_much(tmp_path: Path) -> None:
    manifest = read_manifest(write(tmp_path / "store"))
    assert (manifest["clients"], manifest["samples"]) == (3, 20)
    assert manifest["mean"] == pytest.approx(20 / 3)
    assert manifest["deviation"] == pytest.approx(np.std(COUNTS))
    assert manifest["about"]["licence"] == "CC0"
    assert manifest["files"]["x.bin"]["bytes"] == 20 * 48


def test_one_store_serves_every_seed(tmp_path: Path) -> None:
    path = write(tmp_path / "store")
    splits = [open_store(path, seed=seed).split(2)[1].tolist() for seed in range(6)]
    assert len({tuple(each) for each in splits}) > 1
    assert splits[0] == open_store(path, seed=0).split(2)[1].tolist()


def test_a_published_split_is_kept_whatever_the_seed(tmp_path: Path) -> None:
    path = write(tmp_path / "store", (7, 4, 12), test=2)
    for seed in (0, 5):
        data = open_store(path, seed=seed)
        assert data.train_sizes.tolist() == [5, 2, 10]
        for client, rows in enumerate((7, 4, 12)):
            x, _ = images(client, rows)
            np.testing.assert_array_equal(data.train(client)[0].numpy(), x[:-2])
            np.testing.assert_array_equal(data.test(client)[0].numpy(), x[-2:])


def test_text_is_stored_without_padding_and_read_with_it(tmp_path: Path) -> None:
    rows = texts(tmp_path / "store")
    assert (tmp_path / "store" / "x.bin").stat().st_size == 4 * sum(map(len, rows))
    data = open_store(tmp_path / "store")
    padded = np.array([row + [0] * (4 - len(row)) for row in rows])
    np.testing.assert_array_equal(data.rows.take(0)[0], padded[:3])
    np.testing.assert_array_equal(data.rows.take(1)[0], padded[3:])
    np.testing.assert_array_equal(data.rows.take(0, np.array([0, 2]))[0], padded[[0, 2]])
    assert data.prepare(torch.from_numpy(data.rows.take(0)[0])).tolist() == [[5, 6], [0, 0], [7, 0]]


def test_rows_can_be_dealt_anew_without_writing(tmp_path: Path) -> None:
    for write_it in (write, texts):
        path = tmp_path / write_it.__name__
        write_it(path)
        before = sorted(file.stat().st_mtime_ns for file in path.iterdir())
        pool = open_store(path)
        x = np.concatenate([pool.rows.take(k)[0] for k in range(len(pool))])
        groups = [np.array([4, 0]), np.array([1, 2, 3])]
        dealt = open_store(path, groups=groups)
        for client, group in enumerate(groups):
            np.testing.assert_array_equal(dealt.rows.take(client)[0], x[group])
        assert sorted(file.stat().st_mtime_ns for file in path.iterdir()) == before


def test_a_client_is_a_view_of_the_file_and_no_other_is_read(tmp_path: Path) -> None:
    rows = open_rows(write(tmp_path / "store"))
    inputs, _ = rows.take(2)
    assert np.shares_memory(inputs, rows.x)
    assert not inputs.flags.writeable
    # Cut out what only the others have: the client is whole all the same.
    with (tmp_path / "store" / "x.bin").open("r+b") as file:
        file.write(bytes(8 * 48))
    np.testing.assert_array_equal(rows.take(2)[0], images(2, 12)[0])
    assert not rows.take(0)[0].any()


def test_what_a_client_gets_is_its_own_to_change(tmp_path: Path) -> None:
    data = open_store(write(tmp_path / "store"))
    before = data.train(0)[0].clone()
    data.train(0)[0].zero_()
    assert torch.equal(data.train(0)[0], before)
    assert verify_store(tmp_path / "store") == []


@pytest.mark.parametrize("make", [write, texts])
def test_another_process_gets_the_path_not_the_contents(tmp_path: Path, make: Callable) -> None:
    make(tmp_path / "store")
    data: FederatedRows = open_store(tmp_path / "store", seed=3)
    sent = pickle.dumps(data)
    assert len(sent) < 2_500
    again = pickle.loads(sent)  # noqa: S301
    for client in range(len(data)):
        assert torch.equal(again.train(client)[0], data.train(client)[0])
        assert torch.equal(again.test(client)[1], data.test(client)[1])


def test_test_parts_come_in_blocks(tmp_path: Path) -> None:
    data = open_store(write(tmp_path / "store"), seed=1)
    x, y, offsets = data.test_block(0, 3)
    assert offsets.tolist() == [0, *np.cumsum(data.test_sizes)]
    assert torch.equal(x, torch.cat([data.test(k)[0] for k in range(3)]))
    assert torch.equal(y, torch.cat([data.test(k)[1] for k in range(3)]))


def test_columns_are_standardised_by_each_clients_training_part(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(1e6, 50, (40, 3))
    x[:, 1] = 4.2
    with StoreWriter(
        tmp_path / "store", "t", Task("binary", 1, "auroc"), dtype="float64", shape=(3,),
        standardise=2,
    ) as writer:  # fmt: skip
        writer.add("a", x[:20], [0, 1] * 10)
        writer.add("b", x[20:] + 7, [0, 1] * 10)
    data = open_store(tmp_path / "store")
    for client, values in enumerate((x[:20], x[20:] + 7)):
        train, test = data.split(client)
        mean, std = values[train, 0].mean(), values[train, 0].std()
        found = data.test(client)[0].numpy()
        assert found.dtype == np.float32
        np.testing.assert_allclose(found[:, 0], (values[test, 0] - mean) / std, atol=1e-5)
        assert np.abs(found[:, 1]).max() < 1e-12  # a constant column
        np.testing.assert_allclose(found[:, 2], values[test, 2].astype(np.float32))


DAMAGE = {
    "x.bin cut": lambda path: _cut(path / "x.bin"),
    "y.bin cut": lambda path: _cut(path / "y.bin"),
    "offsets.bin cut": lambda path: _cut(path / "offsets.bin"),
    "names.json cut": lambda path: _cut(path / "names.json"),
    "train.bin cut": lambda path: _cut(path / "train.bin"),
    "x.bin is missing": lambda path: (path / "x.bin").unlink(),
    "manifest.json cut": lambda path: _cut(path / "manifest.json"),
    "names.json is missing": lambda path: (path / "names.json").unlink(),
    "manifest.json of another format": lambda path: _manifest(path, format=99),
    "manifest.json holds objects": lambda path: _manifest(
        path, sample={"dtype": "object", "shape": [3, 4, 4], "ragged": False}
    ),
    "offsets.bin descends": lambda path: np.array([0, 9, 4, 23]).tofile(path / "offsets.bin"),
    "offsets.bin ends elsewhere": lambda path: np.array([0, 1, 2, 3]).tofile(path / "offsets.bin"),
    "manifest.json is no table": lambda path: (path / "manifest.json").write_text("[1]"),
}


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-5])


def _manifest(path: Path, **changes: object) -> None:
    file = path / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_store_is_refused_and_named(tmp_path: Path, damage: str) -> None:
    path = write(tmp_path / "store", (7, 4, 12), test=2)
    DAMAGE[damage](path)
    with pytest.raises(UserError) as error:
        open_store(path)
    assert damage.split()[0] in str(error.value)
    assert str(path) in str(error.value)


def test_a_manifest_without_a_field_names_it(tmp_path: Path) -> None:
    path = write(tmp_path / "store")
    file = path / "manifest.json"
    written = json.loads(file.read_text())
    del written["prepare"]
    file.write_text(json.dumps(written))
    with pytest.raises(UserError, match=r"lacks prepare: delete .* to have it rebuilt"):
        open_store(path)


def test_no_store_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no store: manifest\.json is missing"):
        open_store(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="holds no store"):
        open_store(tmp_path / "file")


def test_a_changed_byte_is_found_by_reading_all(tmp_path: Path) -> None:
    path = write(tmp_path / "store")
    content = bytearray((path / "x.bin").read_bytes())
    content[100] ^= 1
    (path / "x.bin").write_bytes(content)
    (path / "y.bin").unlink()
    assert verify_store(path) == [
        f"{path / 'x.bin'} has changed since it was written",
        f"{path / 'y.bin'} is missing",
    ]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([("a", np.zeros((2, 4, 4)), [0, 0])], "shape (4, 4), not (3, 4, 4)"),
        ([("a", np.zeros((2, 3, 4, 4), np.uint8), [0])], "2 inputs but 1 targets"),
        ([("a", np.zeros((1, 3, 4, 4), np.uint8), [[0]])], "targets of shape (1,), not ()"),
        (
            [(name, np.zeros((1, 3, 4, 4), np.uint8), [0]) for name in "aba"],
            "'a' was added before another one",
        ),
        ([], "no client has any sample"),
    ],
)
def test_wrong_rows_are_refused_and_leave_nothing(tmp_path: Path, rows, says) -> None:
    def written() -> None:
        with StoreWriter(tmp_path / "s", "mine", TASK, dtype="uint8", shape=(3, 4, 4)) as writer:
            for name, x, y in rows:
                writer.add(name, np.asarray(x, dtype=np.uint8), y)

    with pytest.raises(UserError) as error:
        written()
    assert says in str(error.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("dtype", "x", "says"),
    [
        ("uint8", [[0.5]], "inputs do not fit the uint8"),
        ("uint8", [[256]], "inputs do not fit the uint8"),
        ("uint8", [[-1]], "inputs do not fit the uint8"),
        ("int16", [[float("nan")]], "inputs do not fit the int16"),
        ("float32", [["a"]], "inputs hold <U1, expected numbers"),
    ],
)
def test_values_that_do_not_fit_are_refused(tmp_path: Path, dtype, x, says) -> None:
    writer = StoreWriter(tmp_path / "s", "mine", TASK, dtype=dtype, shape=(1,))
    with pytest.raises(UserError) as error, writer:
        writer.add("a", x, [0])
    assert says in str(error.value)
    with (
        pytest.raises(UserError, match="targets do not fit the int64"),
        StoreWriter(tmp_path / "s", "mine", TASK, dtype="float32", shape=(1,)) as writer,
    ):
        writer.add("a", [[1]], [0.5])


def test_a_store_holds_plain_numbers_only(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not 'object'"):
        StoreWriter(tmp_path / "s", "mine", TASK, dtype="object", shape=(1,))


def test_training_rows_come_before_test_rows(tmp_path: Path) -> None:
    def in_the_wrong_order() -> None:
        with StoreWriter(tmp_path / "s", "mine", TASK, dtype="uint8", shape=(1,)) as writer:
            writer.add("a", [[1]], [0], test=True)
            writer.add("a", [[2]], [0])

    with pytest.raises(UserError, match="training rows come before test rows"):
        in_the_wrong_order()


def test_a_text_that_is_too_long_is_refused(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path / "s", "mine", TASK, dtype="int32", shape=(2,), ragged=True)
    with pytest.raises(UserError, match="at most 2 long"), writer:
        writer.add("a", [[1, 2, 3]], [0])


def test_an_interrupted_writer_leaves_the_old_store(tmp_path: Path) -> None:
    path = write(tmp_path / "store")
    before = (path / "x.bin").read_bytes()

    def interrupted() -> None:
        with StoreWriter(path, "mine", TASK, dtype="uint8", shape=(3, 4, 4)) as writer:
            writer.add("a", *images(0, 5))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (path / "x.bin").read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    write(path, (2, 2))
    assert len(open_store(path)) == 2


def test_a_client_that_does_not_exist_is_named(tmp_path: Path) -> None:
    data = open_store(write(tmp_path / "store"))
    with pytest.raises(UserError, match=r"client 3 does not exist; mine has 0\.\.2"):
        data.train(3)
