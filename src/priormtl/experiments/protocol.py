"""How each data set is split, scaled and scored: the same for every method.

A data set, the number of a repeat and a training size determine one split and one set
of folds. Scales are computed from training rows. Images are split, not rows: an image
that belongs to several tasks is on one side, and in one fold, in all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple
from zlib import crc32

import numpy as np

import priormtl
from priormtl._arrays import Array, Index
from priormtl.datasets import SOURCES, Rows, TaskSet
from priormtl.datasets.loaders import LOADERS
from priormtl.metrics import auc, nmse
from priormtl.selection import deal_rows

TRAINING_SHARE = 0.6  # of the images, in the paper's 60/40 splits
SCHOOL_ROWS = 20  # of each task, in the paper's split
SARCOS_ROWS = 2000  # of the 4449 that a repeat uses
SHARED_ROWS = 50  # of them to learn from, in the paper's split
SARCOS_SIZES = (5, 10, 20, 100)  # of them to learn from, along the learning curve
MOST_FOLDS = 5

Draw = Callable[[TaskSet, np.random.Generator, int | None], tuple[Index, Index]]


@dataclass(frozen=True)
class Budget:
    """Grid of strengths of our model: lams × thetas × epsilons.

    Grids with and without a prior are nested: theta = 0, "no prior", is a candidate of
    every prior, and lam and epsilon have the same values. Strengths are relative: lam
    to lam_max, at which all coefficients vanish, theta and epsilon to the number of
    training rows per task, since features have variance one.
    """

    lams: tuple[float, ...]
    thetas: tuple[float, ...]
    epsilons: tuple[float, ...]

    @property
    def settings(self) -> int:
        return len(self.lams) * len(self.thetas) * len(self.epsilons)


@dataclass(frozen=True)
class Protocol:
    """Splits, budget and accuracy for one data set."""

    dataset: str
    draw: Draw
    sizes: tuple[int, ...]  # of the learning curve: rows per task, images per class
    budget: Budget  # of our model
    n_settings: int  # of the other methods, at most
    tol: float
    held_out: int = MOST_FOLDS  # folds on which our model is tuned; others: all
    most: int | None = None  # images per class that the paper's split is cut to
    version: int = 1  # to be raised when splits or scales change

    def settings(self) -> dict[str, object]:
        """What scores depend on, besides the method and its grid."""
        source = SOURCES[self.dataset]
        return {
            "dataset": self.dataset,
            "data": {name: array.digest for name, array in source.arrays.items()},
            "tol": self.tol,
            "most": self.most,
            "protocol": self.version,
            "priormtl": priormtl.__version__,
        }


class Split(NamedTuple):
    """Training and test rows, scaled."""

    train: Rows
    test: Rows
    unit: Array | float  # scale of the training targets, task by task
    folds: Index  # (n,) of the training rows, for tuning; −1: never held out


class Score(NamedTuple):
    """One value of a metric, of one task or over all."""

    metric: str
    task: str | None
    value: float


def make_split(
    protocol: Protocol, data: TaskSet, repeat: int, size: int | None = None
) -> Split:
    # The seed of a data set must not change from one process to the next.
    rng = np.random.default_rng([repeat, crc32(protocol.dataset.encode())])
    count = protocol.most if size is None else size
    training, testing = protocol.draw(data, rng, count)
    train, test = data.rows(training), data.rows(testing)
    centre, scale = train.X.mean(axis=0), train.X.std(axis=0)
    if data.image_shape is not None:  # pixels share one scale
        scale = np.full_like(scale, np.sqrt(np.mean(scale**2)))
    scale = np.where(scale > 0, scale, 1.0)
    unit: Array | float = 1.0
    if data.kind == "regression" and train.y.ndim == 2:
        spread = train.y.std(axis=0)
        unit = np.where(spread > 0, spread, 1.0)
    if data.label is None:  # folds balanced within tasks
        folds = deal_rows(_codes(data)[training, np.newaxis], MOST_FOLDS)
    else:
        # Balanced within classes, and drawn over images, so that an image is in one
        # fold in all tasks.
        images, place = np.unique(data.sample[training], return_inverse=True)
        kinds = np.unique(data.label[images], return_inverse=True)[1]
        fewest = int(np.bincount(kinds).min())
        folds = deal_rows(kinds[:, np.newaxis], min(MOST_FOLDS, fewest))[place]
    return Split(
        Rows((train.X - centre) / scale, train.y / unit, train.task),
        Rows((test.X - centre) / scale, test.y, test.task),
        unit,
        folds,
    )


def draw_per_task(
    data: TaskSet, rng: np.random.Generator, size: int | None
) -> tuple[Index, Index]:
    """Draw rows of each task for training (20 in the paper), the rest for testing."""
    training, testing = [], []
    code = _codes(data)
    for task in np.unique(code):
        rows = rng.permutation(np.flatnonzero(code == task))
        # A point of a learning curve leaves a quarter of the rows to judge by.
        most = int(0.75 * len(rows))
        count = SCHOOL_ROWS if size is None else min(size, most)
        training.append(rows[:count])
        testing.append(rows[count:])
    return np.concatenate(training), np.concatenate(testing)


def _codes(data: TaskSet) -> Index:
    return np.zeros(len(data.sample), np.intp) if data.code is None else data.code


def draw_shared(
    data: TaskSet, rng: np.random.Generator, size: int | None
) -> tuple[Index, Index]:
    """Draw rows that all tasks share (50 in the paper).

    Test rows are those that no size trains on, so that all sizes share them.
    """
    rows = rng.permutation(len(data.sample))[:SARCOS_ROWS]
    count = SHARED_ROWS if size is None else size
    return rows[:count], rows[max(SARCOS_SIZES) :]


def draw_images(
    data: TaskSet, rng: np.random.Generator, size: int | None
) -> tuple[Index, Index]:
    """Draw 60 % of the images of each class, or fewer of them; 40 % for testing.

    Images of one group stay together, and an image is on one side in all tasks.
    """
    if data.label is None:
        raise ValueError(f"data must be of labelled images: got {data.name}.")
    used = np.unique(data.sample)
    group = used if data.group is None else data.group[used]
    names, first = np.unique(group, return_index=True)
    # Groups of several images mix classes, so these cannot be balanced.
    alone = len(names) == len(group)
    kind = data.label[used][first] if alone else np.zeros(len(names), dtype=np.intp)
    chosen = np.zeros(len(names), dtype=bool)
    for value in np.unique(kind):
        members = rng.permutation(np.flatnonzero(kind == value))
        chosen[members[: round(TRAINING_SHARE * len(members))]] = True
    training = chosen[np.searchsorted(names, group)]
    train = rng.permutation(used[training])
    if size is not None:
        label = data.label[train]
        train = np.concatenate([train[label == c][:size] for c in np.unique(label)])
    return data.find(train), data.find(used[~training])


def score_tasks(data: TaskSet, test: Rows, predicted: Array) -> list[Score]:
    """All metrics of the data set's kind, over all tasks and task by task."""
    y, task = test.y, test.task
    if data.kind == "classification":
        name, each = "auc", np.asarray(auc(y, predicted, task=task, average=None))
        overall = {"auc": float(np.nanmean(each))}
    else:
        each = np.asarray(nmse(y, predicted, task=task, average=None))
        name = "nmse_tasks"
        pooled = float(nmse(y, predicted, task=task))
        mean = float(nmse(y, predicted, task=task, average="tasks"))
        overall = {"nmse_pooled": pooled, "nmse_tasks": mean}
        overall |= {"ve_pooled": 1.0 - pooled, "ve_tasks": 1.0 - mean}
    return [
        *(Score(metric, None, value) for metric, value in overall.items()),
        *(
            Score(name, task_name, float(value))
            for task_name, value in zip(data.task_names, each, strict=True)
        ),
    ]


def _list_protocols() -> list[Protocol]:
    """Grids were laid out by hand on a split outside the repeats (protocol.md)."""
    six = (0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)
    four = (0.0, 0.1, 1.0, 10.0)
    school = Budget(six, four, (0.0, 100.0, 1e3, 1e4, 1e5, 1e6))
    sarcos = Budget((0.3, *six[:5]), four, (0.0, 0.01, 0.1, 1.0, 10.0))
    faces = Budget((0.3, 0.1, 0.03, 0.01), (0.0, 1.0, 10.0), (0.01, 0.1, 1.0, 10.0))
    yale = replace(faces, lams=(*faces.lams, 0.003, 0.001))
    digits = Budget((0.01, 0.001), (0.0, 1.0, 10.0), (0.1,))
    words = Budget((0.1, 0.01, 0.001), (0.0, 1.0, 10.0, 100.0), (0.0, 0.1, 1.0))
    letters = Budget((0.3, *six), (*four, 100.0), four)
    five = (2, 5, 10, 20, 50)  # images per class
    return [
        Protocol("school", draw_per_task, (3, 5, 10), school, 100, 1e-5),
        Protocol("sarcos", draw_shared, SARCOS_SIZES, sarcos, 100, 1e-5),
        Protocol("yale", draw_images, (2,), yale, 12, 1e-2),
        Protocol("mnist", draw_images, five, digits, 6, 1e-2),
        Protocol("letter", draw_images, five, words, 36, 1e-2),
        Protocol("letter_uci", draw_images, (2, 5, 20), letters, 36, 1e-2),
        Protocol("orl", draw_images, (2,), faces, 12, 1e-2, held_out=2),
    ]


PROTOCOLS = {protocol.dataset: protocol for protocol in _list_protocols()}


def find_protocol(dataset: str, *, quick: bool = False) -> Protocol:
    """Protocol of a data set; ``quick`` has fewer settings, images and sizes."""
    protocol = PROTOCOLS[dataset]
    if not quick:
        return protocol
    budget = Budget((0.03, 0.003), (0.0, 1.0), (1.0,))
    return replace(
        protocol,
        budget=budget,
        n_settings=budget.settings,
        tol=1e-2,
        sizes=protocol.sizes[: len(protocol.sizes) // 2 + 1 : 2],
        most=3 if protocol.draw is draw_images else None,
    )


@cache
def load_rows(dataset: str) -> TaskSet:
    return LOADERS[dataset]()
