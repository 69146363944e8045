"""Small task sets of every kind, under the names of the real ones."""

from itertools import combinations

import numpy as np

from priormtl.datasets import TaskSet
from priormtl.datasets.regression import COLUMNS
from priormtl.datasets.task_set import name_pixels, pair_classes

SHAPE = (2, 3)
NOTES = {"description": "", "quirks": (), "source": ""}
KINDS = {
    "school": "regression, rows of their own",
    "sarcos": "regression, shared X",
    "yale": "pairs of classes",
    "letter": "pairs of classes, images in groups",
    "orl": "one class against the rest, shared X",
}


def small_school(n_tasks=5, seed=0):
    """Schools of 27, 28, … pupils; one column is constant and two are collinear."""
    rng = np.random.default_rng(seed)
    names = COLUMNS[:-1]
    code = np.repeat(np.arange(n_tasks), 27 + np.arange(n_tasks))
    X = rng.integers(0, 2, size=(len(code), len(names)))
    X[:, 3:5] = rng.integers(0, 100, size=(len(code), 2))
    X[:, 6] = 1 - X[:, 5]
    X[:, -1] = 1
    effect = rng.normal(size=len(names)) + 0.3 * rng.normal(size=(n_tasks, len(names)))
    y = np.sum(X * effect[code], axis=1) + rng.normal(size=len(code)) + 5.0 * code
    return TaskSet(
        "school",
        "regression",
        X.astype(np.uint8),
        np.arange(len(code)),
        y,
        code,
        names,
        tuple(f"school {i:03d}" for i in range(n_tasks)),
        **NOTES,
    )


def small_sarcos(n=160, d=6, m=3, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(0.1, 10.0, d)
    common = rng.normal(size=(d, 1)) + 0.3 * rng.normal(size=(d, m))
    y = (X @ common + rng.normal(size=(n, m))) * np.geomspace(1.0, 100.0, m)
    return TaskSet(
        "sarcos",
        "regression",
        X,
        np.arange(n),
        y,
        None,
        tuple(f"x{j}" for j in range(d)),
        tuple(f"joint {i}" for i in range(m)),
        **NOTES,
    )


def images(n_classes, n_each, seed):
    """Noisy pictures of each class, and their labels."""
    rng = np.random.default_rng(seed)
    label = rng.permutation(np.repeat(np.arange(n_classes), n_each))
    centre = rng.normal(size=(n_classes, SHAPE[0] * SHAPE[1]))
    pixels = 100 + 30 * (centre[label] + rng.normal(size=(len(label), centre.shape[1])))
    return pixels.clip(0, 255).astype(np.uint8), label


def small_pairs(name="yale", group_size=None, seed=2):
    """Four classes of ten images, all pairs; the images may come in groups."""
    originals, label = images(4, 10, seed)
    pairs = list(combinations(range(4), 2))
    sample, y, code = pair_classes(label, pairs)
    names = tuple(f"{a} vs {b}" for a, b in pairs)
    group = None if group_size is None else np.arange(len(label)) // group_size
    return TaskSet(
        name,
        "classification",
        originals,
        sample,
        y,
        code,
        name_pixels(*SHAPE),
        names,
        **NOTES,
        label=label,
        group=group,
        image_shape=SHAPE,
    )


def small_letter():
    return small_pairs("letter", group_size=2, seed=3)


def small_orl(seed=4):
    """Five classes of ten images, each against the rest."""
    originals, label = images(5, 10, seed)
    return TaskSet(
        "orl",
        "classification",
        originals,
        np.arange(len(label)),
        np.where(label[:, np.newaxis] == np.arange(5), 1.0, -1.0),
        None,
        name_pixels(*SHAPE),
        tuple(f"{k} vs rest" for k in range(5)),
        **NOTES,
        label=label,
        image_shape=SHAPE,
    )


MAKERS = {
    "school": small_school,
    "sarcos": small_sarcos,
    "yale": small_pairs,
    "letter": small_letter,
    "orl": small_orl,
}
