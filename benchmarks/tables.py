"""Real tables as tasks: faces, digits, schools and a robot's arm."""

import numpy as np

from benchmarks.data import Rows, load, load_school
from priormtl.data import TaskData, from_columns, from_labels, one_vs_one

TRAINING_SHARE = 0.6


def load_yale() -> TaskData:
    """Pairs of eight people: 28 tasks of 13 faces with 1024 pixels."""
    arrays = load("yale")
    first = arrays["subject"] < 8
    X, y, task = one_vs_one(arrays["X"][first] / 255.0, arrays["subject"][first])
    kept = _training_rows(task)
    return from_labels(X[kept], code_pairs(y, task)[kept], task[kept])


def load_mnist(count: int, features: slice = slice(None)) -> TaskData:
    """Pairs of digits: 45 tasks of images with 784 pixels."""
    arrays = load("mnist10k")
    chosen = np.random.default_rng(0).permutation(10_000)[:count]
    pixels = arrays["X"][np.sort(chosen)][:, features] / 255.0
    X, y, task = one_vs_one(pixels, arrays["digit"][np.sort(chosen)])
    return from_labels(X, code_pairs(y, task), task)


def load_orl() -> TaskData:
    """Forty people, each against the rest, on the same 240 faces."""
    arrays = load("orl")
    kept = _training_rows(arrays["subject"])
    people = arrays["subject"][kept]
    Y = np.where(people[:, np.newaxis] == np.unique(people), 1.0, -1.0)
    return from_columns(arrays["X"][kept] / 255.0, Y)


def load_sarcos() -> TaskData:
    """Seven torques of a robot's arm on the same 4449 rows."""
    arrays = load("sarcos")
    X, Y = arrays["X"], arrays["Y"]
    return from_columns(X / X.std(axis=0), Y / Y.std(axis=0))


def load_school_tasks() -> TaskData:
    """Exam scores of 139 schools, features in units of their deviation."""
    return from_labels(*_scaled(load_school()))


def load_school_classes() -> TaskData:
    """Whether an exam score is above the median."""
    X, y, task = _scaled(load_school())
    return from_labels(X, np.where(y > np.median(y), 1.0, -1.0), task)


def code_pairs(y: np.ndarray, task: np.ndarray) -> np.ndarray:
    """Classes of each pair as −1 and +1."""
    first = np.array([int(name.split(" vs ")[0]) for name in task])
    return np.where(y == first, -1.0, 1.0)


def _scaled(rows: Rows) -> Rows:
    return rows._replace(X=rows.X / rows.X.std(axis=0))


def _training_rows(labels: np.ndarray) -> np.ndarray:
    """Six in ten rows of every label."""
    rng = np.random.default_rng(0)
    parts = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    chosen = [
        rng.permutation(part)[: int(TRAINING_SHARE * len(part))] for part in parts
    ]
    return np.sort(np.concatenate(chosen))
