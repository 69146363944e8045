"""The paper's structure, and its data in miniature: task sets, files, and results."""

import gzip
import struct
from itertools import combinations, product

import numpy as np
import pyarrow as pa
from scipy.io import savemat

from priormtl.datasets import TaskSet
from priormtl.datasets.loaders import SCHOOL_COLUMNS
from priormtl.datasets.task_set import name_pixels, pair_classes
from priormtl.experiments.rendering.measurements import Measurements, Results, Setting

# Structure of the paper's objective, for searches that only choose strengths.
PAPER = {
    "task_prior": "chain",
    "ties": "uniform",
    "fit_intercept": True,
    "intercept_strength": 1.0,
    "standardize": False,
}

# Small task sets of every kind, under the names of the real ones.

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
    names = SCHOOL_COLUMNS[:-1]
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


# Files in the public formats of the originals, written from arrays of ours.


def as_cells(parts):
    cells = np.empty((1, len(parts)), dtype=object)
    for i, part in enumerate(parts):
        cells[0, i] = part
    return cells


def split_by(labels, *columns):
    """Parts of each column for each run of equal labels."""
    starts = np.flatnonzero(np.diff(labels)) + 1
    return [np.split(column, starts) for column in columns]


def write_school(folder, arrays):
    X, y = split_by(arrays["task"], arrays["X"].astype(float), arrays["y"][:, None])
    path = folder / "school.mat"
    savemat(path, {"X": as_cells(X), "Y": as_cells(y)})
    return [path]


def write_sarcos(folder, arrays):
    path = folder / "sarcos_inv_test.mat"
    savemat(path, {"sarcos_inv_test": np.hstack([arrays["X"], arrays["Y"]])})
    return [path]


def by_columns(pixels, height, width):
    images = pixels.reshape(-1, height, width)
    return np.stack([image.ravel(order="F") for image in images])


def write_faces(folder, arrays):
    path = folder / "faces_32x32.mat"
    subject = arrays["subject"][:, None].astype(float) + 1
    savemat(path, {"fea": by_columns(arrays["X"], 32, 32), "gnd": subject})
    return [path]


def write_idx(path, values):
    header = bytes([0, 0, 8, values.ndim]) + struct.pack(
        f">{values.ndim}I", *values.shape
    )
    path.write_bytes(gzip.compress(header + values.tobytes(), mtime=0))


def write_mnist(folder, arrays):
    paths = [folder / "images-idx3-ubyte.gz", folder / "labels-idx1-ubyte.gz"]
    write_idx(paths[0], arrays["X"].reshape(-1, 28, 28))
    write_idx(paths[1], arrays["digit"])
    return paths


def write_letter(folder, arrays):
    """letter.data.gz, with words of fold 0 between those of other folds."""
    fold = np.where(arrays["train_part"], 0, 1 + arrays["word"] % 9)
    place = np.where(arrays["train_part"], 10 * arrays["word"], 1 + arrays["word"])
    lines = []
    for i in np.argsort(place, kind="stable"):
        fields = [
            i + 1,
            chr(97 + arrays["letter"][i]),
            -1,
            arrays["word"][i] + 1,
            arrays["position"][i] + 1,
            fold[i],
            *arrays["X"][i],
        ]
        lines.append("\t".join(map(str, fields)) + "\t\n")
    path = folder / "letter.data.gz"
    path.write_bytes(gzip.compress("".join(lines).encode(), 1, mtime=0))
    return [path]


def write_letter_mat(folder, arrays):
    """ocr_taskar.mat: a word's letters side by side, a bias of 1 under the pixels."""
    columns = by_columns(arrays["X"], 16, 8).astype(float)
    columns = np.hstack([columns, np.ones((len(columns), 1))])
    variables = {}
    for part, rows in (
        ("train", arrays["train_part"]),
        ("test", ~arrays["train_part"]),
    ):
        patterns, labels = split_by(
            arrays["word"][rows], columns[rows], arrays["letter"][rows]
        )
        variables[f"patterns_{part}"] = as_cells([word.T for word in patterns])
        variables[f"labels_{part}"] = as_cells([word[None] for word in labels])
    path = folder / "ocr_taskar.mat"
    savemat(path, variables)
    return [path]


def write_letter_uci(folder, arrays):
    path = folder / "letter-recognition.data"
    lines = [
        ",".join([chr(65 + letter), *map(str, row)])
        for letter, row in zip(arrays["letter"], arrays["X"].tolist(), strict=True)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
    return [path]


WRITERS = {
    "school": write_school,
    "sarcos": write_sarcos,
    "yale": write_faces,
    "mnist": write_mnist,
    "letter": write_letter,
    "letter_uci": write_letter_uci,
    "orl": write_faces,
}


# Plausible rows of results, for tests of what is made from them.

LABELS = {
    "natural": "ours, natural prior",
    "artificial": "ours, artificial prior",
    "expert": "ours, expert prior",
    "none": "ours, no prior",
    "ridge-single": "ridge per task",
    "ridge-pooled": "ridge, pooled",
}
LEVELS = {
    "school": 0.32,
    "sarcos": 0.78,
    "yale": 0.965,
    "mnist": 0.995,
    "letter": 0.94,
    "orl": 0.985,
}
GAINS = {
    "natural": 0.004,
    "artificial": 0.002,
    "expert": 0.012,
    "none": 0.0,
    "ridge-single": -0.02,
    "ridge-pooled": -0.01,
}
REGRESSION = ("school", "sarcos")
SIZES = (3, 5, 10, 20, 50, 100)
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
FIELDS = {
    "dataset": pa.string(),
    "method": pa.string(),
    "size": pa.int32(),
    "wrong": pa.float64(),
    "repeat": pa.int32(),
    "metric": pa.string(),
    "task": pa.string(),
    "value": pa.float64(),
    "seconds": pa.float64(),
    "strengths": pa.string(),
    "version": pa.string(),
}


def row(dataset, method, repeat, metric, value, *, size=None, wrong=None, task=None):
    cells = (dataset, method, size, wrong, repeat, metric, task, value)
    return dict(zip(FIELDS, (*cells, 0.1, "{}", "0.1.0"), strict=True))


def to_table(rows):
    return pa.Table.from_pylist(list(rows), schema=pa.schema(FIELDS))


def metrics_of(dataset, level):
    """A level as all metrics of the data set."""
    if dataset not in REGRESSION:
        return {"auc": level}
    by_task = level - 0.04
    return {
        "ve_pooled": level,
        "nmse_pooled": 1 - level,
        "ve_tasks": by_task,
        "nmse_tasks": 1 - by_task,
    }


def has(dataset, method):
    return not (dataset == "sarcos" and method == "expert")


def settings():
    """Cells of the paper's split, the learning curves and the robustness curves."""
    for dataset, method in product(LEVELS, LABELS):
        if has(dataset, method):
            yield dataset, method, None, None
    for dataset, method, size in product(LEVELS, list(LABELS)[:4], SIZES):
        if has(dataset, method):
            yield dataset, method, size, None
    for dataset, share in product(LEVELS, SHARES):
        yield dataset, "natural", 10, share


def level_of(dataset, method, size, wrong):
    rows = 60 if size is None else size
    gain = GAINS[method] * (1 - (wrong or 0.0)) * (60 / rows) ** 0.5
    return LEVELS[dataset] - 0.25 * (1 - LEVELS[dataset]) * (20 / rows) ** 0.5 + gain


def score_rows(n_repeats=10, seed=0):
    rng = np.random.default_rng(seed)
    splits = rng.normal(scale=0.006, size=(len(LEVELS), n_repeats))
    shared = dict(zip(LEVELS, splits, strict=True))
    for setting in settings():
        dataset, method, size, wrong = setting
        for repeat in range(n_repeats):
            noise = shared[dataset][repeat] + rng.normal(scale=0.001)
            level = min(level_of(*setting) + noise, 1.0)
            for metric, value in metrics_of(dataset, level).items():
                place = {"size": size, "wrong": wrong}
                yield row(dataset, method, repeat, metric, value, **place)


def planned_cells(n_repeats=10):
    return [Setting(*setting) for setting in settings()] * n_repeats


def measure(rows=None, planned=(), labels=LABELS, ratio=2 / 3):
    table = to_table(score_rows() if rows is None else rows)
    options = {"labels": labels, "planned": planned}
    return Measurements.of(table, test_to_train=lambda _, __: ratio, **options)


def gather(measurements=None, convergence=None, roc=None, surfaces=None):
    """Results of which some are empty."""
    return Results(
        measure([]) if measurements is None else measurements,
        convergence_rows([]) if convergence is None else convergence,
        roc_rows([]) if roc is None else roc,
        surface_rows([]) if surfaces is None else surfaces,
    )


def table_of(rows, names):
    """Table of rows that are tuples."""
    texts = {"problem", "algorithm", "dataset", "method", "task", "metric"}
    whole = {"iteration", "repeat"}
    types = ["string" if n in texts else "int32" if n in whole else "f8" for n in names]
    lines = [dict(zip(names, line, strict=True)) for line in rows]
    schema = pa.schema(list(zip(names, types, strict=True)))
    return pa.Table.from_pylist(lines, schema=schema)


def convergence_rows(problems=("synthetic", "school")):
    rates = {
        "gd": 0.97,
        "ista": 0.96,
        "ista-reverse": 0.94,
        "fista": 0.9,
        "linear": 0.88,
        "auto": 0.3,
    }
    rows = []
    for problem, (name, rate) in product(problems, rates.items()):
        steps = 12 if name == "auto" else 300
        cost = 2e-4 if name == "auto" else 5e-4
        for k in range(1, steps + 1):
            excess, change = 1e3 * rate**k, 1e3 * rate ** (k - 1) * (1 - rate)
            rows.append((problem, name, k, cost * k, excess, change, 1e3, 0.5, 20.0))
    names = ("problem", "algorithm", "iteration", "seconds", "excess", "change")
    return table_of(rows, (*names, "start", "sigma", "smoothness"))


def roc_rows(datasets=("yale", "mnist", "orl"), n_tasks=12, n_repeats=2, seed=0):
    rng = np.random.default_rng(seed)
    fpr = np.linspace(0, 1, 101)
    rows = []
    for dataset, repeat, task in product(datasets, range(n_repeats), range(n_tasks)):
        power = rng.uniform(0.002, 0.06)
        for x, y in zip(fpr, fpr**power, strict=True):
            area = 1 / (1 + power)
            rows.append((dataset, "natural", repeat, f"{task}", x, y, area))
    names = ("dataset", "method", "repeat", "task", "fpr", "tpr", "auc")
    return table_of(rows, names)


SURFACES = (
    ("yale", "auc"),
    ("orl", "auc"),
    ("school", "ve_pooled"),
    ("school", "nmse_pooled"),
)


def surface_rows(surfaces=SURFACES, n_repeats=2):
    grid = np.geomspace(1, 100, 5)
    rows = []
    for (dataset, metric), repeat in product(surfaces, range(n_repeats)):
        for lam, theta, epsilon in product(grid, grid, grid):
            logs = np.log10([lam, theta, epsilon]) - (1.0, 0.5, 1.5)
            weight = (0.02, 0.004, 0.002) if metric != "auc" else (2e-3, 1e-3, 1e-3)
            level = LEVELS[dataset] - float(np.dot(weight, logs**2)) + 1e-4 * repeat
            value = 1 - level if metric.startswith("nmse") else level
            rows.append((dataset, repeat, lam, theta, epsilon, metric, value))
    names = ("dataset", "repeat", "lam", "theta", "epsilon", "metric", "value")
    return table_of(rows, names)
