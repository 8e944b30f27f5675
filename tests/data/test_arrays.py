"""People's own data: three ways in, one federation, and errors that name the client."""

import numpy as np
import polars as pl
import pytest
import torch
from torch.utils.data import TensorDataset

import aaggff
from aaggff.errors import UserError
from aaggff.federation.data import Task
from aaggff.federation.local import LocalTraining

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(90, 4)).astype(np.float32)
Y = GENERATOR.integers(0, 2, 90)
OWNERS = np.repeat(["north", "south", "west"], [40, 30, 20])


def samples(data):
    """All rows of every client with their targets, sorted: what was put in."""
    found = {}
    for k in range(len(data)):
        x = torch.cat([data.train(k)[0], data.test(k)[0]]).double().numpy()
        y = torch.cat([data.train(k)[1], data.test(k)[1]]).numpy()
        found[data.client_name(k)] = sorted(map(tuple, np.column_stack([x, y]).round(5).tolist()))
    return found


def expected():
    return {
        name: sorted(
            map(tuple, np.column_stack([X, Y])[name == OWNERS].astype(np.float64).round(5).tolist())
        )
        for name in ("north", "south", "west")
    }


def pairs():
    return {name: (X[name == OWNERS], Y[name == OWNERS]) for name in ("north", "south", "west")}


def frame():
    columns = {f"f{j}": X[:, j] for j in range(4)} | {"site": OWNERS, "ill": Y}
    order = np.random.default_rng(1).permutation(90)
    return pl.DataFrame(columns)[order.tolist()]


class Frame(dict):
    """As much of a pandas frame as is asked for, where pandas is not installed."""

    class Series(np.ndarray):
        def to_numpy(self):
            return np.asarray(self)

    @property
    def columns(self):
        return list(self)

    def __getitem__(self, name):
        return np.asarray(super().__getitem__(name)).view(Frame.Series)


def pandas_frame():
    columns = {f"f{j}": X[:, j] for j in range(4)} | {"site": OWNERS.astype(object), "ill": Y}
    try:
        import pandas as pd
    except ImportError:
        return Frame(columns)
    return pd.DataFrame(columns)


WAYS = {
    "arrays": lambda: aaggff.from_arrays(X, Y, OWNERS),
    "tensors": lambda: aaggff.from_arrays(torch.tensor(X), torch.tensor(Y), OWNERS),
    "lists": lambda: aaggff.from_arrays(X.tolist(), Y.tolist(), OWNERS.tolist()),
    "a mapping of pairs": lambda: aaggff.from_arrays(pairs()),
    "torch data sets": lambda: aaggff.from_torch_datasets(
        {k: TensorDataset(torch.tensor(x), torch.tensor(y)) for k, (x, y) in pairs().items()}
    ),
    "polars": lambda: aaggff.from_dataframe(frame(), client_column="site", target_column="ill"),
    "pandas": lambda: aaggff.from_dataframe(
        pandas_frame(), client_column="site", target_column="ill"
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_in_gives_the_same_federation(way):
    data = WAYS[way]()
    assert samples(data) == expected()
    assert data.train_sizes.tolist() == [32, 24, 16]
    assert data.test_sizes.tolist() == [8, 6, 4]
    assert data.task == Task("binary", 1, "auroc")
    evaluation = aaggff.Federation(data, decision_maker="aaggff-s").run(3)
    assert np.isfinite(evaluation.loss).all()


def test_a_sequence_of_pairs_has_numbered_clients():
    data = aaggff.from_arrays(list(pairs().values()))
    assert [data.client_name(k) for k in range(3)] == ["0", "1", "2"]


def test_text_labels_become_classes_and_keep_their_names():
    labels = np.array(["flu", "cold", "none"])[GENERATOR.integers(0, 3, 90)]
    data = aaggff.from_arrays(X, labels, OWNERS)
    assert data.task == Task("multiclass", 3, "top1")
    assert data.classes == ["cold", "flu", "none"]
    for k, name in enumerate(("north", "south", "west")):
        both = torch.cat([data.train(k)[1], data.test(k)[1]]).numpy()
        assert sorted(data.classes[y] for y in both) == sorted(labels[name == OWNERS].tolist())


def test_columns_of_text_become_indicators():
    table = frame().with_columns(
        pl.Series("kind", ["a", "b", "c"] * 30), pl.Series("on", [True, False] * 45)
    )
    data = aaggff.from_dataframe(
        table, client_column="site", target_column="ill", feature_columns=["f0", "kind", "on"]
    )
    x = data.train(0)[0]
    assert x.shape[1] == 1 + 3 + 1
    assert (x[:, 1:4].sum(1) == 1).all()
    assert set(x[:, 4].tolist()) == {0.0, 1.0}


def test_test_parts_given_apart_are_used_as_they_are():
    held = {name: (x[:3] + 100, y[:3]) for name, (x, y) in pairs().items()}
    data = aaggff.from_arrays(pairs(), test=dict(reversed(held.items())))
    assert data.train_sizes.tolist() == [40, 30, 20]
    for k, name in enumerate(held):
        np.testing.assert_allclose(data.test(k)[0], held[name][0])
    standard = aaggff.from_arrays(pairs(), test=held, standardise=True)
    assert standard.train(0)[0].mean(0).abs().max() < 1e-5
    assert standard.test(0)[0].mean() > 50  # by the training part's mean and deviation


def test_splits_follow_from_the_seed_and_the_fraction():
    one, other = (aaggff.from_arrays(X, Y, OWNERS, seed=seed) for seed in (0, 1))
    assert not torch.equal(one.train(0)[0], other.train(0)[0])
    half = aaggff.from_arrays(X, Y, OWNERS, test_fraction=0.5)
    assert half.test_sizes.tolist() == [20, 15, 10]


def test_prepare_is_applied_when_a_batch_is_used():
    pixels = GENERATOR.integers(0, 256, (90, 4)).astype(np.uint8)
    data = aaggff.from_arrays(pixels, Y, OWNERS, prepare=lambda x: x.float() / 255)
    assert data.train(0)[0].dtype == torch.uint8
    record = aaggff.Federation(data, local=LocalTraining(lr=0.1)).step()
    assert np.isfinite(record["losses"]).all()


def test_text_stays_integers():
    tokens = GENERATOR.integers(1, 50, (90, 6))
    data = aaggff.from_arrays(
        tokens, np.roll(tokens, -1, 1), OWNERS, text=True, task=Task("tokens", 50, "top1")
    )
    assert data.train(0)[0].dtype == torch.int64
    model = {"embedding": 4, "hidden": 5}
    record = aaggff.Federation(data, "stackedlstm", model_options=model).step()
    assert np.isfinite(record["losses"]).all()


def with_a_gap():
    x = X.copy()
    x[35, 1] = np.nan
    return x


BAD = [
    (lambda: aaggff.from_arrays(with_a_gap(), Y, OWNERS), "client north: row 35 holds a missing"),
    (lambda: aaggff.from_arrays(X, Y), "from_arrays needs inputs, targets and clients"),
    (lambda: aaggff.from_arrays(X, Y[:-1], OWNERS), "differ in length: 90, 89, 90"),
    (lambda: aaggff.from_arrays(X, Y * 0, OWNERS), "there is only one class"),
    (lambda: aaggff.from_arrays(X, Y + 0.5, OWNERS), "found fractions or missing values"),
    (lambda: aaggff.from_arrays(X.astype(str), Y, OWNERS), "client north: inputs hold"),
    (lambda: aaggff.from_arrays({"a": (X, Y), "b": (X[:, :3], Y)}), "client b: samples have shape"),
    (lambda: aaggff.from_arrays({"a": (X, Y[:5])}), "client a: 90 inputs and 5 targets"),
    (lambda: aaggff.from_arrays({}), "there are no clients"),
    (lambda: aaggff.from_arrays(pairs(), test={"nrth": (X, Y)}), "did you mean 'north'"),
    (lambda: aaggff.from_arrays(pairs(), test={"north": (X, Y)}), "client south has no test part"),
    (lambda: aaggff.from_arrays(X, Y, OWNERS, test_fraction=1.0), "between 0 and 1"),
    (lambda: aaggff.from_arrays(X, Y, OWNERS, metric="top3"), "did you mean 'top5'"),
    (lambda: aaggff.from_torch_datasets({"a": range(3)}), "every item must be a pair"),
    (lambda: aaggff.from_torch_datasets({"a": 3}), "client a: expected a map-style dataset"),
    (lambda: aaggff.from_torch_datasets({"a": []}), "client a: its dataset is empty"),
    (
        lambda: aaggff.from_torch_datasets({"a": [([1.0], 0), ([1.0, 2.0], 1)]}),
        "client a: inputs have several shapes",
    ),
    (
        lambda: aaggff.from_dataframe(frame(), client_column="sit", target_column="ill"),
        "unknown column 'sit'; did you mean 'site'",
    ),
    (
        lambda: aaggff.from_dataframe(
            frame().with_columns(pl.when(pl.col("f1") < 1).then(pl.col("f1"))),
            client_column="site", target_column="ill",
        ),
        "column 'f1'",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("make", "said"), BAD, ids=[said for _, said in BAD])
def test_what_cannot_be_is_refused_in_one_line_that_names_it(make, said):
    with pytest.raises(UserError, match=said) as error:
        make()
    assert "\n" not in str(error.value)


def test_a_client_with_one_sample_trains_and_is_not_judged():
    data = aaggff.from_arrays({"many": (X, Y), "one": (X[:1], Y[:1])})
    assert data.train_sizes.tolist() == [72, 1]
    assert data.test_sizes.tolist() == [18, 0]
    evaluation = aaggff.Federation(data).run(2)
    assert evaluation.metric_summary()["missing"] == 1


def test_the_test_parts_of_several_clients_at_once():
    data = aaggff.from_arrays(X, Y, OWNERS)
    x, y, offsets = data.test_block(1, 3)
    assert offsets.tolist() == [0, 6, 10]
    assert torch.equal(x[6:], data.test(2)[0])
    assert torch.equal(y[:6], data.test(1)[1])
