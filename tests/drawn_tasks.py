"""Tasks drawn to be compared, with outliers and relations, and a convex solver."""

from dataclasses import replace
from typing import NamedTuple

import cvxpy as cp
import numpy as np
from scipy.special import expit

from instances import golden_rows
from priormtl import FeaturePrior
from priormtl.baselines.mixtures import LinearFamily, Samples
from priormtl.data import from_labels
from priormtl.datasets import make_related_tasks

# Tasks on which compared methods must not stumble.


def golden_classes():
    X, y, task = golden_rows(4, 5)
    return X, np.where(y >= 0, 1.0, -1.0), task


def split_tasks(X, y, task):
    """Tables and targets of each task."""
    parts = [task == i for i in np.unique(task)]
    return [X[part] for part in parts], [y[part] for part in parts]


def _rows(m=4, d=6, n=12):
    return make_related_tasks(m, d, n, noise=0.5, random_state=3)


def _one_task():
    X, y, _ = _rows(1)
    return X, y, np.zeros(len(y), int)


def _one_row_each():
    X, y, _ = _rows(4, 6, 2)
    return X[::2], y[::2], np.arange(4)


def _constant_and_twin_columns():
    X, y, task = _rows()
    X = np.array(X)
    X[:, 1], X[:, 3] = 7.0, X[:, 2]
    return X, y, task


def _one_hot():
    X, y, task = _rows()
    level = np.arange(len(y)) % 3
    # In the last task a level is absent, and all columns of a block sum to one.
    level[task == 3] %= 2
    return np.hstack([X[:, :2], np.eye(3)[level]]), y, task


def _scaled(size):
    X, y, task = _rows()
    return size * X, y / size, task


AWKWARD_TASKS = {
    "one task": _one_task,
    "one row each": _one_row_each,
    "few rows": lambda: _rows(3, 9, 4),
    "constant and twin columns": _constant_and_twin_columns,
    "one hot": _one_hot,
    "huge": lambda: _scaled(1e8),
    "tiny": lambda: _scaled(1e-8),
}


# Tasks that mix models, and mixtures to fit to them.


def mixed_tasks(m=10, n=50, d=5, noise=0.3, seed=0):
    """Tasks that mix two linear models within themselves."""
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal((2, d)) * 1.5
    share = rng.uniform(0.0, 1.0, m)
    task = np.repeat(np.arange(m), n)
    X = rng.standard_normal((m * n, d))
    part = (rng.uniform(size=m * n) < share[task]).astype(int)
    signal = np.sum(X * theta[part], axis=1)
    return X, signal + noise * rng.standard_normal(m * n), task, theta, share


def mixed_classes(seed=0, **kwargs):
    X, y, task, *_ = mixed_tasks(seed=seed, noise=0.0, **kwargs)
    rng = np.random.default_rng(seed + 1)
    return X, np.where(rng.uniform(size=len(y)) < expit(3 * y), 1.0, -1.0), task


def family_of(X, y, task, *, loss="squared", ridge=0.0, intercept=False, plain=False):
    samples = Samples.of(from_labels(X, y, task), classify=loss == "logistic")
    family = LinearFamily.of(samples, intercept=intercept, rotate=not plain)
    return replace(family, ridge=ridge)


def random_mixture(family, M, seed=0):
    rng = np.random.default_rng(seed)
    coef = rng.standard_normal((M, len(family.penalised)))
    weights = rng.dirichlet(np.ones(M), family.samples.n_tasks)
    return family.at(coef, weights, 0.7)


# Tasks of which some do not belong.


class OutlyingTasks(NamedTuple):
    """Rows, their coefficients, and which tasks were drawn apart."""

    X: np.ndarray
    y: np.ndarray
    task: np.ndarray
    coef: np.ndarray  # (m, d)
    outliers: list[int]

    @property
    def normal(self):
        """Tasks that belong."""
        return np.setdiff1d(np.arange(len(self.coef)), self.outliers)


def plant_outliers(seed=0, m=16, d=8, n_outliers=2, rows=(15, 60), spread=0.2):
    """Tasks around one set of coefficients, and outliers with any others."""
    rng = np.random.default_rng(seed)
    used = np.arange(d) < d - 3
    coef = rng.normal(size=d) * used + spread * rng.normal(size=(m, d)) * used
    outliers = np.sort(rng.choice(m, n_outliers, replace=False))
    coef[outliers] = 2.0 * rng.normal(size=(n_outliers, d))
    task = np.repeat(np.arange(m), rng.integers(*rows, size=m))
    X = rng.normal(size=(len(task), d))
    y = np.sum(X * coef[task], axis=1) + rng.normal(size=len(task)) + 0.3 * task
    return OutlyingTasks(X, y, task, coef, outliers.tolist())


# Tasks with known relations between features, one of which the prior gets wrong.


class RelatedTasks(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    task: np.ndarray
    prior: FeaturePrior
    wrong: str  # the relation that does not hold, in words


def plant_relations(
    seed,
    *,
    m=4,
    d=12,
    n=25,
    noise=1.0,
    flip="similar",
    common=0.0,
    classification=False,
):
    """Claim the opposite of a relation that matters; ``common`` correlates features."""
    data = make_related_tasks(
        m, d, n, n_informative=d * 2 // 3 // 2 * 2, noise=0.0, random_state=seed
    )
    rng = np.random.default_rng(seed)
    X = data.X + common * rng.standard_normal((len(data.X), 1))
    score = np.sum(X * data.coef[data.task], axis=1) + data.intercept[data.task]
    y = score + noise * rng.standard_normal(len(score))
    if classification:
        y = np.where(y >= 0, "yes", "no")
    pairs, signs = _relations(data.feature_prior)
    sizes = np.abs(data.coef).mean(axis=0)[[a for a, _ in pairs]]
    alike = np.array([sign > 0 for sign in signs]) == (flip == "similar")
    k = int(np.argmax(np.where(alike, sizes, -1.0)))
    signs[k] = -signs[k]
    graph = [(*pair, sign) for pair, sign in zip(pairs, signs, strict=True)]
    first, second = pairs[k]
    minus = "−" if signs[k] < 0 else ""
    wrong = f"x{first} ~ {minus}x{second}"
    return RelatedTasks(X, y, data.task, FeaturePrior.from_graph(graph), wrong)


def _relations(prior):
    pairs, signs = [], []
    for part in prior.parts:
        for a, b in zip(part.first, part.second, strict=True):
            pairs.append((min(a, b), max(a, b)))
        signs += part.sign
    return pairs, signs


# Small tasks of rank two, and their losses as a convex solver reads them.


def low_rank_tasks(m, d, seed, n=5):
    """X, y and the task of each row."""
    rng = np.random.default_rng(seed)
    X, task = rng.normal(size=(m * n, d)), np.repeat(np.arange(m), n)
    W = rng.normal(size=(m, 2)) @ rng.normal(size=(2, d))
    return X, np.sum(X * W[task], axis=1) + 0.5 * rng.normal(size=m * n), task


def squared_loss(W, rows):
    """Without intercepts, for a variable W (d, m)."""
    X, y, task = rows
    parts = [X[task == i] @ W[:, i] - y[task == i] for i in range(W.shape[1])]
    return sum(0.5 * cp.sum_squares(part) for part in parts)


def logistic_loss(W, rows):
    """Of the signs of y."""
    X, y, task = rows
    signed = X * np.where(y >= 0, 1.0, -1.0)[:, None]
    parts = [signed[task == i] @ W[:, i] for i in range(W.shape[1])]
    return sum(cp.sum(cp.logistic(-part)) for part in parts)


def optimum(goal, *constraints):
    return cp.Problem(cp.Minimize(goal), list(constraints)).solve("CLARABEL")
