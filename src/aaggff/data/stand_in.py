"""Stand-ins: learnable likenesses of the data sets that cannot just be had.

Each has the clients, sizes, shapes and types of the real one, so that everything can be tried
before the files are there: `aaggff run celeba --stand-in`. The samples are made up (see
`likeness`), and made when a client is asked for. As with real files, the samples are the same for
every seed and the seed decides what is held out (and for tinyimagenet who gets what). Numbers from
a stand-in say nothing about the real data: whatever shows them says so.

    data = celeba(seed=2, clients=200, size=32)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from aaggff.data.federated import FederatedRows
from aaggff.data.likeness import Images, Sounds
from aaggff.data.likeness_words import Comments, Loans, Pairs
from aaggff.data.partition import PARTITIONS, deal
from aaggff.data.prepare import IMAGENET_MEAN, IMAGENET_STD, Prepare
from aaggff.data.rows import DealtRows, GeneratedRows, Index, Rows
from aaggff.data.spec import Option
from aaggff.errors import UserError
from aaggff.federation.data import Task
from aaggff.federation.seeds import numpy_generator

REGIONS = {
    "Prague": (84, 7), "central Bohemia": (90, 10), "south Bohemia": (60, 9),
    "west Bohemia": (57, 9), "east Bohemia": (84, 9), "south Moravia": (129, 13),
    "north Moravia": (117, 18),
}  # fmt: skip
"""Loans, and those not paid back, of each of Berka's clients."""

DOCTORS = (130, 426, 280, 272, 276, 280, 278, 280, 280, 280, 266)
"""Pairs of each of the doctors."""

LESIONS = {
    "BCN": (2832, 4122, 2747, 716, 1109, 121, 111, 425),
    "vidir_molemax": (19, 2612, 0, 0, 82, 29, 30, 0),
    "vidir_modern": (631, 1534, 197, 20, 422, 51, 75, 11),
    "rosendahl": (342, 784, 295, 109, 487, 30, 3, 186),
    "MSK": (213, 406, 0, 0, 185, 0, 0, 0),
    "vienna_dias": (64, 288, 5, 0, 10, 4, 3, 0),
}
"""Images of each class (MEL, NV, BCC, AK, BKL, DF, VASC, SCC) in each of ISIC 2019's centres."""

HELP = {
    "clients": "how many clients; fewer are the first ones, or a sample of the sizes",
    "scale": "how large clients are: 1, as large as the real ones; 0.1, a tenth",
    "skew": "how unlike clients are, from 0 (alike) to 1",
    "size": "side of the images in pixels",
    "longest": "at most this many tokens a pair",
    "vocabulary": "how many tokens are known, the 4 special ones among them",
    "partition": "how images are dealt out",
    "alpha": "dirichlet and quantity: small is unlike, large is alike",
    "labels_each": "label: about how many classes a client has",
    "min_size": "dirichlet and quantity: no client has fewer samples",
}


def berka(
    *, seed: int = 0, clients: int = 7, scale: float = 1.0, skew: float = 1.0
) -> FederatedRows:
    """Regions with loans: 13 numbers, 2 indicators, and as many defaults as there were."""
    loans, defaults = np.array(list(REGIONS.values())).T
    counts = _listed("berka", loans, clients, scale)
    fails = np.minimum(counts - 1, np.maximum(1, np.rint(scale * defaults[:clients])))
    return _federation(
        "berka",
        Task("binary", 1, "auroc"),
        GeneratedRows(counts, Loans(counts, fails.astype(np.int64), _share(skew))),
        seed,
        names=list(REGIONS)[:clients],
        standardise=13,
    )


def mqp(
    *, seed: int = 0, clients: int = 11, scale: float = 1.0, skew: float = 1.0, longest: int = 200
) -> FederatedRows:
    """Doctors with pairs of questions, as token numbers of BERT's vocabulary."""
    counts = _listed("mqp", DOCTORS, clients, scale)
    _at_least("longest", longest, 8)
    return _federation(
        "mqp",
        Task("binary", 1, "auroc"),
        GeneratedRows(counts, Pairs(counts, longest, _share(skew))),
        seed,
        names=[f"doctor {number + 1}" for number in range(clients)],
        prepare=Prepare("text"),
    )


def isic2019(
    *, seed: int = 0, clients: int = 6, scale: float = 1.0, skew: float = 1.0, size: int = 224
) -> FederatedRows:
    """Centres with images of eight kinds of lesion, each kind as often as it is there."""
    lesions = np.array(list(LESIONS.values()))
    counts = _listed("isic2019", lesions.sum(axis=1), clients, scale)
    _at_least("size", size, 8)
    images = Images("isic2019", counts, lesions[:clients], size, _share(skew))
    return _federation(
        "isic2019",
        Task("multiclass", 8, "top5"),
        GeneratedRows(counts, images),
        seed,
        names=list(LESIONS)[:clients],
        prepare=Prepare("scale", divide=255.0, mean=IMAGENET_MEAN, std=IMAGENET_STD),
    )


def celeba(
    *, seed: int = 0, clients: int = 9_343, scale: float = 1.0, skew: float = 1.0, size: int = 84
) -> FederatedRows:
    """Persons with 5 to 35 images of whom about half smile."""
    counts = sizes(clients, scale, mean=200_288 / 9_343, deviation=7.63, least=5, most=35)
    _at_least("size", size, 8)
    images = Images("celeba", counts, np.array([0.52, 0.48]), size, _share(skew))
    return _federation(
        "celeba",
        Task("binary", 1, "top1"),
        GeneratedRows(counts, images),
        seed,
        prepare=Prepare("scale", divide=255.0),
    )


def reddit(
    *,
    seed: int = 0,
    clients: int = 817,
    scale: float = 1.0,
    skew: float = 1.0,
    vocabulary: int = 10_000,
) -> FederatedRows:
    """Users with rows of ten tokens, a few of them with very many."""
    counts = sizes(clients, scale, mean=97_961 / 817, deviation=229.85, least=2, most=10_000)
    _at_least("vocabulary", vocabulary, 16)
    if vocabulary > 32_767:
        raise UserError(f"data.vocabulary must be at most 32767 in a stand-in, not {vocabulary}")
    return _federation(
        "reddit",
        Task("tokens", vocabulary, "top1"),
        GeneratedRows(counts, Comments(counts, vocabulary, _share(skew))),
        seed,
        prepare=Prepare("integers"),
    )


def speechcommands(
    *, seed: int = 0, clients: int = 2_005, scale: float = 1.0, skew: float = 1.0
) -> FederatedRows:
    """Speakers with seconds of sound, each a word of 35."""
    counts = sizes(clients, scale, mean=84_700 / 2_005, deviation=36.69, least=3, most=316)
    return _federation(
        "speechcommands",
        Task("multiclass", 35, "top5"),
        GeneratedRows(counts, Sounds(counts, 35, _share(skew))),
        seed,
        prepare=Prepare("scale", divide=32_768.0),
    )


def tinyimagenet(
    *,
    seed: int = 0,
    clients: int = 1_000,
    scale: float = 1.0,
    partition: str = "dirichlet",
    alpha: float = 0.01,
    labels_each: int = 2,
    min_size: int = 2,
) -> FederatedRows:
    """200 classes of 500 images, dealt out by the seed as the real ones are."""
    _at_least("clients", clients, 1)
    counts = np.array([max(200, round(100_000 * _positive(scale)))])
    rows = GeneratedRows(counts, Images("tinyimagenet", counts, np.full(200, 0.005), 64, 0.0))
    groups = deal(
        partition,
        rows.labels(0),
        clients,
        numpy_generator(seed, 0, 0, "partition"),
        alpha=alpha,
        labels_each=labels_each,
        min_size=min_size,
    )
    return _federation(
        "tinyimagenet",
        Task("multiclass", 200, "top5"),
        DealtRows(rows, groups),
        seed,
        prepare=Prepare("scale", divide=255.0, mean=IMAGENET_MEAN, std=IMAGENET_STD),
    )


STAND_INS: dict[str, Callable[..., FederatedRows]] = {
    make.__name__: make
    for make in (berka, mqp, isic2019, celeba, reddit, speechcommands, tinyimagenet)
}


def stand_in_options(name: str) -> Mapping[str, Option]:
    """What the stand-in of a data set lets one choose, read from its keywords.

    >>> {option: known.default for option, known in stand_in_options("celeba").items()}
    {'clients': 9343, 'scale': 1.0, 'skew': 1.0, 'size': 84}
    """
    return {
        each.name: Option(
            each.default, HELP[each.name], PARTITIONS if each.name == "partition" else None
        )
        for each in inspect.signature(STAND_INS[name]).parameters.values()
        if each.name != "seed"
    }


def _federation(
    name: str,
    task: Task,
    rows: Rows,
    seed: int,
    *,
    prepare: Prepare | None = None,
    names: Sequence[str] | None = None,
    standardise: int = 0,
) -> FederatedRows:
    return FederatedRows(
        name,
        task,
        rows,
        seed=seed,
        prepare=prepare,
        stand_in=True,
        names=names,
        standardise=standardise,
    )


def sizes(
    clients: int, scale: float, *, mean: float, deviation: float, least: int, most: int
) -> Index:
    """Clients' sizes with this mean and deviation, between `least` and `most`, in mixed order.

    They are the quantiles of a beta law, stretched until the deviation is right.

    >>> found = sizes(817, 1.0, mean=97_961 / 817, deviation=229.85, least=2, most=10_000)
    >>> int(found.sum()), round(float(found.std())), int(found.min())
    (97961, 230, 2)
    """
    from scipy.special import betaincinv

    _at_least("clients", clients, 1)
    share = (mean - least) / (most - least)
    weight = share * (1 - share) / (deviation / (most - least)) ** 2 - 1
    places = (np.arange(clients) + 0.5) / clients
    grid = np.linspace(places[0], places[-1], min(clients, 500))  # the law is costly to invert
    law = betaincinv(share * weight, (1 - share) * weight, grid)
    drawn = least + (most - least) * np.interp(places, grid, law)
    middling = np.argsort(np.abs(drawn - mean), kind="stable")
    low, high = 0.5, 4.0
    for _ in range(30):
        stretch = (low + high) / 2
        found = np.rint(np.clip(mean + stretch * (drawn - mean), least, most)).astype(np.int64)
        _add(found, round(mean * clients) - int(found.sum()), middling)
        low, high = (stretch, high) if found.std() < deviation else (low, stretch)
    found = np.maximum(min(2, least), np.rint(found * _positive(scale))).astype(np.int64)
    return numpy_generator(0, 0, 0, "who is how large").permutation(found)


def _add(found: Index, number: int, middling: Index) -> None:
    """Make the sum larger by `number` (or smaller): what rounding left goes to middling clients."""
    while number:
        some = middling[: abs(number)]
        found[some] += int(np.sign(number))
        number -= int(np.sign(number)) * len(some)


def _listed(name: str, counts: Sequence[int] | Index, clients: int, scale: float) -> Index:
    """The first of the real sizes, scaled; two samples at least."""
    if not 1 <= clients <= len(counts):
        raise UserError(
            f"data.clients: the stand-in of {name} has 1 to {len(counts)}, not {clients}"
        )
    scaled = np.rint(np.asarray(counts[:clients]) * _positive(scale))
    return np.maximum(2, scaled).astype(np.int64)


def _positive(scale: float) -> float:
    if not (np.isfinite(scale) and scale > 0):
        raise UserError(f"data.scale must be above 0, not {scale}")
    return scale


def _share(skew: float) -> float:
    if not 0 <= skew <= 1:
        raise UserError(f"data.skew must be a number from 0 to 1, not {skew}")
    return float(skew)


def _at_least(option: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UserError(f"data.{option} must be a whole number of at least {least}, not {value!r}")
