"""Plausible rows of results, for tests of what is made from them."""

from itertools import product

import numpy as np
import pyarrow as pa

from priormtl.experiments.rendering.measurements import Measurements

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
    return [(*setting, repeat) for setting in settings() for repeat in range(n_repeats)]


def measure(rows=None, planned=(), labels=LABELS, ratio=2 / 3):
    table = to_table(score_rows() if rows is None else rows)
    options = {"labels": labels, "planned": planned}
    return Measurements.of(table, test_to_train=lambda _, __: ratio, **options)


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
            excess = 1e3 * rate**k
            rows.append((problem, name, k, cost * k, excess, 1e3, 0.5, 20.0))
    names = ("problem", "algorithm", "iteration", "seconds", "excess", "start")
    names += ("sigma", "smoothness")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


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
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


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
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
