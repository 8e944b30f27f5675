"""Stand-ins: as the real data is in clients, sizes, shapes and types; learnable; made when read."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aaggff.data import dataset_spec, stand_in
from aaggff.data.counts import agreement
from aaggff.data.federated import FederatedRows
from aaggff.data.rows import GeneratedRows
from aaggff.errors import UserError
from tests.data import official

SMALL: dict[str, dict[str, Any]] = {
    "berka": {},
    "mqp": {"scale": 0.05},
    "isic2019": {"scale": 0.005, "size": 32},
    "celeba": {"clients": 40, "size": 24},
    "reddit": {"clients": 30, "scale": 0.3, "vocabulary": 500},
    "speechcommands": {"clients": 12, "scale": 0.2},
    "tinyimagenet": {"clients": 12, "scale": 0.006},
}
NAMES = list(SMALL)


def made(name: str, **options: Any) -> FederatedRows:
    return stand_in.STAND_INS[name](**{**SMALL[name], **options})


@pytest.fixture
def loaded(tmp_path: Path) -> Callable[[str], FederatedRows]:
    """The loader's own result, from tiny files in the official layout."""

    def load(name: str) -> FederatedRows:
        getattr(official, name)(tmp_path)
        options: dict[str, Any] = {}
        if name == "mqp":
            options["tokenizer"] = str(official.vocabulary(tmp_path / "words"))
        if name == "tinyimagenet":
            options["clients"] = 12
        data: FederatedRows = dataset_spec(name).load(tmp_path, **options)
        return data

    return load


@pytest.mark.parametrize("name", [name for name in NAMES if name != "tinyimagenet"])
def test_as_many_clients_and_samples_as_the_paper_counts(name: str) -> None:
    spec = dataset_spec(name)
    assert spec.stand_in is not None
    assert spec.statistics is not None
    rows = agreement(spec.stand_in(seed=3), spec.statistics)
    assert [row for row in rows if not row[3]] == []


def test_tinyimagenet_has_a_thousand_clients_of_a_hundred_images() -> None:
    data = stand_in.tinyimagenet(seed=2)
    assert (data.train_sizes + data.test_sizes).tolist() == [100] * 1_000
    few = [len(np.unique(data.rows.labels(k))) for k in range(1_000)]
    assert np.median(few) <= 12  # Dirichlet(0.01); of 100 images at random it would be 79
    other = stand_in.tinyimagenet(seed=4)
    assert not np.array_equal(data.rows.labels(0), other.rows.labels(0))


@pytest.mark.parametrize("name", NAMES)
def test_shapes_and_types_are_those_of_the_real_data(name: str, loaded: Callable) -> None:
    small = {"scale": 0.002} if name == "isic2019" else {}
    real, likeness = loaded(name), stand_in.STAND_INS[name](clients=5, **small)
    assert likeness.stand_in
    assert not real.stand_in
    assert likeness.name == real.name
    assert likeness.task == real.task
    for part in ("train", "test"):
        (x, y), (x_, y_) = getattr(real, part)(0), getattr(likeness, part)(0)
        assert (x_.dtype, x_.shape[1:]) == (x.dtype, x.shape[1:])
        assert (y_.dtype, y_.shape[1:]) == (y.dtype, y.shape[1:])
    x, x_ = real.prepare(x), likeness.prepare(x_)
    assert x_.dtype == x.dtype
    assert name == "mqp" or x_.shape[1:] == x.shape[1:]
    if name == "berka":
        names = [real.client_name(k) for k in range(7)]
        assert names == [made("berka").client_name(k) for k in range(7)]


@pytest.mark.parametrize("name", NAMES)
def test_samples_depend_on_nothing_but_the_client(name: str) -> None:
    first, again = made(name), pickle.loads(pickle.dumps(made(name, seed=9)))  # noqa: S301
    if name == "tinyimagenet":
        again = pickle.loads(pickle.dumps(first))  # noqa: S301  (who gets what follows the seed)
    last = len(first) - 1
    again.rows.take(0)
    for client in (last, 0):
        x, y = first.rows.take(client)
        x_, y_ = again.rows.take(client)
        np.testing.assert_array_equal(x, x_)
        np.testing.assert_array_equal(y, y_)
        np.testing.assert_array_equal(first.rows.labels(client), y)
        some = np.arange(0, len(y), 2)
        np.testing.assert_array_equal(first.rows.take(client, some)[0], x[some])
    assert not np.array_equal(first.rows.take(0)[0][:1], first.rows.take(last)[0][:1])


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_decides_what_is_held_out(name: str) -> None:
    two, four = made(name, seed=2), made(name, seed=4)
    assert np.array_equal(two.split(0)[1], made(name, seed=2).split(0)[1])
    apart = [not np.array_equal(two.split(k)[1], four.split(k)[1]) for k in range(len(two))]
    assert any(apart)


def test_only_clients_that_are_read_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    data = stand_in.celeba()
    seen: list[int] = []
    assert isinstance(data.rows, GeneratedRows)
    maker = type(data.rows.maker)
    for method in ("labels", "samples"):
        before = getattr(maker, method)

        def watched(self: Any, client: int, *rest: Any, before: Any = before) -> Any:
            seen.append(client)
            return before(self, client, *rest)

        monkeypatch.setattr(maker, method, watched)
    assert len(data) == 9_343
    assert not seen
    data.train(7), data.train(9_000)
    assert set(seen) == {7, 9_000}


def test_bytes_of_images_do_not_overflow() -> None:
    for name in ("isic2019", "celeba", "tinyimagenet"):
        data = made(name, **({} if name == "tinyimagenet" else {"skew": 1.0}))
        x = np.concatenate([data.rows.take(k)[0] for k in range(len(data))])
        # A byte that ran over would be far from its neighbours.
        steps = np.abs(np.diff(x.astype(int), axis=-1))
        assert steps.max() < 170
        assert x.min() >= 24
        assert x.max() < 255


def pooled(data: FederatedRows, part: str, features: Callable) -> tuple[np.ndarray, np.ndarray]:
    pairs = [getattr(data, part)(k) for k in range(len(data))]
    return (
        np.concatenate([features(data.prepare(x).numpy()) for x, _ in pairs]),
        np.concatenate([y.numpy() for _, y in pairs]),
    )


def flat(x: np.ndarray) -> np.ndarray:
    return x.reshape(len(x), -1)


def spectrum(x: np.ndarray) -> np.ndarray:
    power = np.abs(np.fft.rfft(x[:, 0]))[:, :2_400]
    return np.log1p(power.reshape(len(x), 60, 40).mean(axis=2))


LEARNERS: list[tuple[str, dict[str, Any], Callable, float]] = [
    ("isic2019", {"scale": 0.02, "size": 16}, flat, 0.3),
    ("celeba", {"clients": 60, "size": 16}, flat, 0.5),
    ("speechcommands", {"clients": 30}, spectrum, 0.2),
    ("berka", {}, flat, 0.3),
]


@pytest.mark.parametrize(("name", "options", "features", "better"), LEARNERS)
def test_a_plain_learner_of_another_make_finds_the_signal(name, options, features, better) -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    data = made(name, **options)
    x, y = pooled(data, "train", features)
    x_, y_ = pooled(data, "test", features)
    scale = x.mean(axis=0), x.std(axis=0) + 1e-9
    learner = LogisticRegression(C=0.05, max_iter=300).fit((x - scale[0]) / scale[1], y)
    x_ = (x_ - scale[0]) / scale[1]
    if name == "berka":
        constant, right = 0.5, float(roc_auc_score(y_, learner.decision_function(x_)))
    else:
        constant = float(np.bincount(y_).max() / len(y_))
        right = float((learner.predict(x_) == y_).mean())
    # Of what the best constant answer gets wrong, a good part is put right, and not all.
    assert right > constant + better * (1 - constant), (constant, right)
    assert right < 0.995


def test_words_follow_words() -> None:
    data = made("reddit", clients=200, scale=1.0)
    follows: dict[int, list[int]] = {}
    said: list[int] = []
    for client in range(len(data)):
        x, y = data.train(client)
        for before, after in zip(x.flatten().tolist(), y.flatten().tolist()):
            if after >= 0:
                follows.setdefault(before, []).append(after)
                said.append(after)
    best = {before: max(set(after), key=after.count) for before, after in follows.items()}
    commonest = max(set(said), key=said.count)
    right = constant = total = 0
    for client in range(len(data)):
        x, y = data.test(client)
        for before, after in zip(x.flatten().tolist(), y.flatten().tolist()):
            if after >= 0:
                total += 1
                right += best.get(before, commonest) == after
                constant += commonest == after
    assert right > 2 * constant
    assert 0.25 * total < right < 0.9 * total


def test_pairs_that_mean_the_same_share_words() -> None:
    data = made("mqp", scale=0.2)
    agree: dict[int, list[float]] = {0: [], 1: []}
    for client in range(len(data)):
        for row, label in zip(*(part.tolist() for part in data.train(client))):
            tokens = [token for token in row if token]
            assert tokens[0] == 101
            assert tokens[-1] == 102
            middle = tokens.index(102)
            first, second = set(tokens[1:middle]), set(tokens[middle + 1 : -1])
            agree[label].append(len(first & second) / len(first | second))
    assert np.quantile(agree[1], 0.1) > np.median(agree[0])
    assert made("mqp", longest=16).rows.take(0)[0].shape[1] == 16


def test_skew_says_how_unlike_clients_are() -> None:
    def spread(skew: float) -> float:
        data = made("celeba", skew=skew)
        means = [data.rows.take(k)[0].astype(float).mean(axis=0) for k in range(len(data))]
        return float(np.std(means, axis=0).mean())

    assert spread(0.0) < 0.7 * spread(1.0)


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("berka", {"clients": 8}, "has 1 to 7"),
        ("celeba", {"clients": 0}, "data.clients must be a whole number of at least 1"),
        ("celeba", {"size": 4}, "data.size"),
        ("isic2019", {"scale": 0.0}, "data.scale must be above 0"),
        ("speechcommands", {"skew": 1.5}, "data.skew must be a number from 0 to 1"),
        ("reddit", {"vocabulary": 40_000}, "at most 32767"),
        ("mqp", {"longest": 3}, "data.longest"),
        ("tinyimagenet", {"partition": "dirichlt"}, "did you mean 'dirichlet'"),
        ("tinyimagenet", {"clients": 0}, "data.clients"),
    ],
)
def test_a_mistake_is_one_clear_line(name: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as error:
        made(name, **options)
    assert says in str(error.value)


def test_options_of_the_files_are_not_the_stand_ins() -> None:
    spec = dataset_spec("berka")
    spec.check_options({"history": "all"})
    spec.check_options({"scale": 0.5}, stand_in=True)
    with pytest.raises(UserError, match="option of the stand-in of 'berka' 'histry'"):
        spec.check_options({"histry": "all"}, stand_in=True)
    with pytest.raises(UserError, match="option of data set 'berka' 'scale'"):
        spec.check_options({"scale": 0.5})
