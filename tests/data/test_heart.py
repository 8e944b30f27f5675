"""Heart is shipped whole, in both variants; hospitals are standardised by their training parts."""

from hashlib import md5
from importlib.resources import files

import numpy as np
import pytest
import torch

from aaggff.data.heart import HOSPITALS, load
from aaggff.errors import UserError
from tests.shared import shared

# From the data's README: rows of each hospital, with and without gaps; the files' sums.
COUNTS = {"paper": (303, 294, 123, 200), "flamby": (303, 261, 46, 130)}
FEATURES = {"paper": 15, "flamby": 13}
SUMS = (
    "2d91a8ff69cfd9616aa47b59d6f843db",
    "22e96bee155b5973568101c93b3705f6",
    "9a87f7577310b3917730d06ba9349e20",
    "4249d03ca7711e84f4444768c9426170",
)


def raw(name):
    folder = files("aaggff.data").joinpath("heart_files")
    text = folder.joinpath(HOSPITALS[name]).read_text(encoding="ascii")
    return [line.split(",") for line in text.split()]


def test_the_files_are_the_official_ones():
    folder = files("aaggff.data").joinpath("heart_files")
    found = tuple(
        md5(folder.joinpath(file).read_bytes()).hexdigest() for file in HOSPITALS.values()
    )
    assert found == SUMS


def test_the_files_are_those_of_the_archive():
    for file in HOSPITALS.values():
        ours = files("aaggff.data").joinpath("heart_files", file).read_bytes()
        assert ours == shared("data", "heart", file).read_bytes()


@pytest.mark.parametrize("variant", COUNTS)
@pytest.mark.parametrize("seed", [0, 2])
def test_rows_features_and_split(variant, seed):
    data = load(seed=seed, variant=variant)
    counts = np.array(COUNTS[variant])
    np.testing.assert_array_equal(data.train_sizes + data.test_sizes, counts)
    np.testing.assert_array_equal(data.test_sizes, [round(0.2 * count) for count in counts])
    assert [data.client_name(k) for k in range(4)] == list(HOSPITALS)
    assert (data.task.kind, data.task.outputs, data.task.metric) == ("binary", 1, "auroc")
    for k in range(4):
        x, _ = data.train(k)
        assert x.dtype == torch.float32
        assert x.shape == (data.train_sizes[k], FEATURES[variant])
        assert data.test(k)[0].shape[1] == FEATURES[variant]


@pytest.mark.parametrize("variant", COUNTS)
def test_features_are_standardised_by_the_training_part_alone(variant):
    data = load(seed=4, variant=variant)
    for k in range(4):
        x = data.train(k)[0].double()
        torch.testing.assert_close(
            x.mean(0), torch.zeros(x.shape[1], dtype=torch.float64), atol=1e-5, rtol=0
        )
        deviation = x.std(0, correction=0)
        constant = deviation < 1e-6
        torch.testing.assert_close(
            deviation[~constant], torch.ones_like(deviation[~constant]), atol=1e-5, rtol=0
        )
        assert (x[:, constant] == 0).all()
        assert data.test(k)[0].mean(0).abs().max() > 1e-3  # it was not standardised by itself


@pytest.mark.parametrize("variant", COUNTS)
def test_targets_and_order_of_features_are_those_of_the_files(variant):
    """Every row is found again: the ill are those above 0, age is the first column."""
    data = load(variant=variant)
    for k, name in enumerate(HOSPITALS):
        rows = raw(name)
        if variant == "flamby":
            rows = [row for row in rows if "?" not in row[:10]]
        ill = sum(int(row[-1]) > 0 for row in rows)
        labels = torch.cat([data.train(k)[1], data.test(k)[1]])
        assert int(labels.sum()) == ill
        both = torch.cat([data.train(k)[0], data.test(k)[0]])
        ages = np.sort([float(row[0]) for row in rows])
        found = np.sort(both[:, 0].double().numpy())
        slope, offset = np.polyfit(found, ages, 1)
        np.testing.assert_allclose(slope * found + offset, ages, atol=1e-3)


def test_splits_are_stratified_and_follow_from_the_seed():
    for k in range(4):
        shares = [float(part[1].double().mean()) for part in (load().train(k), load().test(k))]
        assert abs(shares[0] - shares[1]) < 0.05
    assert torch.equal(load(seed=6).train(1)[0], load(seed=6).train(1)[0])
    assert not torch.equal(load(seed=6).train(1)[0], load(seed=7).train(1)[0])


def test_an_unknown_variant_suggests_the_nearest():
    with pytest.raises(UserError, match="unknown variant of heart 'papr'; did you mean 'paper'"):
        load(variant="papr")
