"""Random fits of every kind, judged in long double: is what is published certified?

`draw` makes a problem of a seed. `Reference` is its objective in the user's data, in
long double, written down from the documentation alone; `polish` lowers it from a given
point by Newton's method. `judge` fits the problem and names what is wrong.

``python tests/long_double.py 4000 --jobs 8`` judges as many in eight processes and
prints a summary; with ``--kind families`` counts and amounts, with ``--kind classes``
several classes.
"""

import argparse
import copy
import signal
import sys
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskRegressor,
    TaskPrior,
    summarize,
)

LONG = np.longdouble
ROUNDING = 8 * np.finfo(np.float64).eps
MOST_SECONDS = 30
# Warnings of data, not of fits: ties of intercepts at zero, few rows for REML.
ADVICE = ("far from zero", "needs more rows")
FAMILIES = ("poisson", "gamma", "negative_binomial")
OFFSETS = (0.0, 0.0, 0.0, 1.0, 1e2, 1e4, 1e6, 1e8)


@dataclass(frozen=True)
class Case:
    """Data, settings of the estimator, and statements about features."""

    X: np.ndarray  # (n, d)
    y: np.ndarray  # (n,), or (n, m) with gaps
    task: np.ndarray | None
    weight: np.ndarray | None
    loss: str  # "regression", or that of a classifier
    m: int
    source: str  # "dense", "sparse" or "statistics"
    settings: dict[str, Any]
    groups: tuple[int, ...]  # of tasks, for priors that need some
    pairs: tuple[tuple[int, int, float], ...] = ()  # alike, or opposite
    near: tuple[tuple[int, float], ...] = ()
    signs: tuple[tuple[int, int], ...] = ()
    common: tuple[int, ...] = ()
    classes: int = 1  # above one: columns of coefficients in each task

    def feature_prior(self):
        parts = [
            (FeaturePrior.similar if sign > 0 else FeaturePrior.opposite)([(j, k)])
            for j, k, sign in self.pairs
        ]
        parts += [FeaturePrior.near({j: value}) for j, value in self.near]
        for j, sign in self.signs:
            bound = FeaturePrior.nonnegative if sign > 0 else FeaturePrior.nonpositive
            parts.append(bound([j]))
        if self.common:
            parts.append(FeaturePrior.common(list(self.common)))
        return sum(parts[1:], parts[0]) if parts else None

    def fit(self):
        """Fitted model, and whether it warned that it has not converged."""
        settings = self.settings | {"feature_prior": self.feature_prior()}
        if settings["task_prior"] == "groups":
            alike = {f"g{g}": np.flatnonzero(np.equal(self.groups, g)) for g in (0, 1)}
            settings["task_prior"] = TaskPrior.groups(
                {name: tasks.tolist() for name, tasks in alike.items() if len(tasks)}
            )
        if settings["task_prior"] == "nested":
            parents = {i: f"g{g}" for i, g in enumerate(self.groups)}
            settings["task_prior"] = TaskPrior.nested(parents)
        if self.loss == "regression":
            model = MultiTaskRegressor(**settings)
        elif self.loss in FAMILIES:
            model = MultiTaskRegressor(loss=self.loss, **settings)
        else:
            loss = "logistic" if self.classes > 1 else self.loss
            model = MultiTaskClassifier(loss=loss, **settings)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if self.source == "statistics":
                model.fit_statistics(
                    summarize(self.X, self.y, self.task, sample_weight=self.weight)
                )
            else:
                X = csr_array(self.X) if self.source == "sparse" else self.X
                model.fit(X, self.y, task=self.task, sample_weight=self.weight)
        warned = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
        for other in (w for w in caught if w not in warned):
            assert any(words in str(other.message) for words in ADVICE), other.message
        return model, bool(warned)


def draw(seed):
    """A case of this seed: scales to 1e±10, offsets to 1e8, ties to 1e9."""
    rng = np.random.default_rng(seed)
    chance = lambda share: rng.random() < share  # noqa: E731
    pick = lambda *options: options[rng.integers(len(options))]  # noqa: E731
    power = lambda size=None: 10.0 ** rng.integers(-10, 11, size)  # noqa: E731
    m, d = int(rng.integers(1, 6)), int(rng.integers(1, 6))
    loss = pick("regression", "regression", "logistic", "logistic", "squared")
    regression = loss == "regression"
    shared = regression and chance(0.2)  # the same X for all tasks
    counts = rng.integers(2, 12, m)
    n = int(rng.integers(2, 15)) if shared else int(counts.sum())
    X = rng.standard_normal((n, d))
    if chance(0.3):
        X = np.round(X)
    if d > 1 and chance(0.2):
        X[:, -1] = X[:, 0] * pick(1.0, -2.0, 1.0 + 1e-9)
    if chance(0.15):
        X[:, rng.integers(d)] = pick(0.0, 1.0)
    task = None if shared else np.repeat(np.arange(m), counts)
    truth = rng.standard_normal((d, 1)) + 0.3 * rng.standard_normal((d, m))
    y = X @ truth if shared else np.sum(X * truth.T[task], axis=1)
    y = y + pick(0.0, 0.1, 1.0) * rng.standard_normal(y.shape)
    y = y + pick(0.0, 1.0, 10.0) * rng.standard_normal(m)[... if shared else task]
    X = X + pick(*OFFSETS) * (rng.random(d) < pick(0.3, 1.0))
    if chance(0.5):
        X = X * power(d if chance(0.3) else None)
    if regression:
        y = (y + pick(*OFFSETS)) * (power() if chance(0.3) else 1.0)
    else:
        y = (y > np.median(y)).astype(int)
        ends = np.cumsum(counts)
        y[ends - 1], y[ends - 2] = 1, 0
    if shared and chance(0.5):
        y = np.where(
            (rng.random(y.shape) < 0.3) & (np.arange(n) > 0)[:, None], np.nan, y
        )
    weight = None
    if chance(0.3):
        weight = rng.uniform(0.1, 3.0, n) * pick(1.0, 1.0, 1e-6, 1e6)
        if chance(0.3):
            idle = rng.random(n) < 0.3
            if not shared:  # every task keeps two rows, of both classes
                idle[np.cumsum(counts) - 1] = idle[np.cumsum(counts) - 2] = False
            weight[idle & (np.arange(n) > 0)] = 0.0
    penalty = pick("l21", "l21", "l21", "nuclear")
    by_rows = penalty == "l21"
    intercept = pick(False, True, "tied")
    prior = pick("chain", "mean", "mean", "groups", "nested", None)
    if intercept == "tied" and prior is None:
        prior = "mean"
    standardize = chance(0.4)
    unit = float(np.sqrt(np.nansum((y - np.nanmean(y)) ** 2)) or 1.0)
    unit *= float(np.mean(np.abs(X - X.mean(axis=0)))) * np.sqrt(n) or 1.0
    settings = {
        "lam": pick(0.0, 1e-9, 1e-6, 1e-3, 1e-2, 0.1, 1.0)
        * (1 if standardize else unit),
        "theta": pick(1e-3, 1.0, 1e3),
        "epsilon": pick(0.0, 1e-3, 1.0, 1e3, 1e6, 1e9),
        "task_prior": prior,
        "penalty": penalty,
        "fit_intercept": intercept,
        "intercept_strength": pick(1e-6, 1.0, 1e3),
        "standardize": standardize,
        "tol": pick(1e-4, 1e-6, 1e-6, 1e-8, 1e-10),
    }
    if chance(0.15):
        settings["ties"] = rng.uniform(0.0, 2.0, d)
    if by_rows and chance(0.15):
        settings["feature_weights"] = rng.uniform(0.5, 2.0, d)
    pairs = ((0, 1, pick(1.0, -1.0)),) if d > 1 and chance(0.4) else ()
    near = ((0, pick(0.0, 0.5, 2.0)),) if chance(0.15) else ()
    signs, common = (), ()
    if by_rows and chance(0.15):
        signs = ((int(rng.integers(d)), 1 if near else pick(1, -1)),)
    if by_rows and chance(0.15):
        common = (int(rng.integers(d)),)
    source = pick("dense", "dense", "sparse")
    if regression and not shared and chance(0.2):
        source = "statistics"
    if regression and prior == "mean" and not pairs and not near and chance(0.2):
        settings["ties"] = "adaptive"
    groups = tuple(rng.integers(0, 2, m).tolist())
    return Case(
        *(X, y, task, weight, loss, m, source, settings, groups),
        *(pairs, near, signs, common),
    )


def draw_family(seed):
    """The same with counts or amounts as targets; see `draw` for features and ties."""
    case, rng = draw(seed), np.random.default_rng([seed, 1])
    loss = ("poisson", "gamma", "negative_binomial")[seed % 3]
    measured = ~np.isnan(case.y.astype(float))
    ranks = np.argsort(np.argsort(np.where(measured, case.y, 0.0), axis=None))
    eta = 3.0 * ranks.reshape(case.y.shape) / ranks.size - 1.5
    mean = np.exp(eta + rng.normal(size=eta.shape) * rng.choice([0.0, 0.5]))
    mean = mean * 10.0 ** rng.integers(0, 6)
    if loss == "gamma":
        y = np.maximum(rng.gamma(2.0, mean / 2.0), 1e-6)
    else:
        y = rng.poisson(mean).astype(float)
        y[
            np.unique(np.r_[0, np.cumsum(np.bincount(case.task)) - 1])
            if case.task is not None
            else slice(0, 1)
        ] += 1.0
    settings = dict(case.settings)
    # The penalty in units of the new targets.
    old, new = (np.sqrt(np.nansum((v - np.nanmean(v)) ** 2)) for v in (case.y, y))
    if not settings["standardize"]:
        settings["lam"] *= float((new or 1.0) / (old or 1.0))
    if isinstance(settings.get("ties"), str):
        del settings["ties"]
    if loss == "negative_binomial":
        settings["dispersion"] = float(rng.choice([1e-3, 0.3, 5.0]))
    y = np.where(measured, y, np.nan)
    source = "dense" if case.source == "statistics" else case.source
    return replace(case, y=y, loss=loss, source=source, settings=settings)


def draw_classes(seed):
    """The same with one of several classes as targets."""
    case, rng = draw(seed), np.random.default_rng([seed, 2])
    K = int(rng.integers(3, 5))
    X, task, weight, y = case.X, case.task, case.weight, case.y
    if task is None:  # the same rows for all tasks, one below the other
        X, task = np.tile(X, (case.m, 1)), np.repeat(np.arange(case.m), len(X))
        weight, y = None if weight is None else np.tile(weight, case.m), y.T.ravel()
    if np.bincount(task).max() < K:  # a task with all classes
        rows = np.sort(np.tile(np.arange(len(X)), K))
        X, task, y = X[rows], task[rows], y[rows]
        weight = None if weight is None else weight[rows]
    y = np.where(np.isnan(y), 0.0, y) + 1e-3 * rng.standard_normal(len(X))
    ranks = np.argsort(np.argsort(y))
    y = np.where(
        rng.random(len(X)) < 0.2, rng.integers(0, K, len(X)), ranks * K // len(X)
    )
    settings, complete = case.settings | {"penalty": "l21"}, True
    for i in range(case.m):
        rows = np.flatnonzero(task == i)
        complete &= len(rows) >= K
        # Every class, first where tasks have rows enough, else in all tasks together.
        y[rows[-K:]] = (np.arange(min(K, len(rows))) + i) % K
    if weight is not None:  # classes without weight are none
        weight = np.maximum(weight, 0.01 * weight.max())
    if settings["fit_intercept"] is True and not complete:
        settings["fit_intercept"] = False  # a class without rows has none
    if isinstance(settings.get("ties"), str):
        del settings["ties"]
    source = "dense" if case.source == "statistics" else case.source
    return replace(
        case,
        X=X,
        y=y,
        task=task,
        weight=weight,
        loss="multinomial",
        source=source,
        settings=settings,
        classes=K,
    )


def tie_rows(kind, groups):
    """B (edges, m) with Σ over edges (B p)² as the task prior's penalty of p."""
    m = len(groups)
    if kind == "chain":
        return np.diff(np.eye(m, dtype=LONG), axis=0)
    if kind is None:
        return np.zeros((0, m), LONG)
    # Each task has an edge to the latent mean of its group; nested groups to their own.
    group = np.zeros(m, int) if kind == "mean" else np.array(groups)
    used = np.unique(group)
    parent = m + np.searchsorted(used, group)
    edges = list(enumerate(parent))
    k = m + len(used)
    if kind == "nested":
        edges += [(latent, k) for latent in range(m, k)]
        k += 1
    B = np.zeros((len(edges), k), LONG)
    for row, (a, b) in zip(B, edges, strict=True):
        row[a], row[b] = 1, -1
    # Latent means at their best; again, with what a first solution has left.
    rows, latent = B[:, :m].copy(), B[:, m:]
    for _ in range(4):
        left = [cholesky_solve(latent.T @ latent, latent.T @ each) for each in rows.T]
        rows -= latent @ np.array(left, LONG).T
    return rows


class Reference:
    """Objective over v: scaled coefficients, feature by feature, then intercepts.

    Coefficients are counted in deviations of their feature, intercepts at the features'
    means, so that all unknowns are well scaled. Common effects are one unknown each.
    """

    def __init__(self, case, model):
        self.case, settings = case, case.settings
        self.logistic, self.lam = case.loss == "logistic", LONG(settings["lam"])
        d, m, K = case.X.shape[1], case.m, case.classes
        self.m, width = m, m * K  # columns of coefficients are class after class
        X, y = case.X.astype(LONG), case.y.astype(LONG)
        weight = np.ones(len(X), LONG)
        if case.weight is not None:
            weight = case.weight.astype(LONG)
        task = case.task
        if y.ndim == 2:
            known, n = ~np.isnan(y.T.ravel()), len(y)
            X, y = np.tile(X, (m, 1))[known], y.T.ravel()[known]
            weight, task = np.tile(weight, m)[known], np.repeat(np.arange(m), n)[known]
        self.X, self.weight, self.task = X, weight, task
        self.y = 2 * y - 1 if case.loss in ("logistic", "squared") else y
        self.least = LONG(0)  # what no objective is below, without priors
        if case.loss in FAMILIES:
            best = np.where(self.y > 0, np.log(np.maximum(self.y, LONG(1e-300))), -1e4)
            self.least = weight @ self.losses(best)[0]
        self.centre = weight @ X / weight.sum()
        spread = np.sqrt(weight @ (X - self.centre) ** 2 / weight.sum())
        seen = spread > 1e-13 * np.abs(self.centre)
        self.deviation = np.where(seen, spread, LONG(1.0))
        standardize = settings["standardize"]
        scale = self.deviation if standardize else np.ones(d, LONG)
        self.unit = scale / self.deviation  # coefficients in the model's units over v

        # Which unknown is the coefficient (feature, task), and the intercept of a task.
        ties = np.asarray(model.tie_weights_, LONG)
        self.common = np.isinf(ties)
        self.places, count = np.zeros((d, width), int), 0
        for j in range(d):
            own = np.arange(width) // (m if self.common[j] else 1)
            self.places[j] = count + own
            count += own[-1] + 1
        self.has_intercept = settings["fit_intercept"] is not False
        self.intercepts = count + np.arange(width if self.has_intercept else 0)
        self.size = count + len(self.intercepts)

        # Scores of rows are design v, class after class; prior and ties ½ ‖A v − c‖².
        n = len(task)
        self.design = np.zeros((n * K, self.size), LONG)
        Z = (X - self.centre) / self.deviation
        if not self.has_intercept:
            Z = X / self.deviation
        for k in range(K):
            lines, columns = k * n + np.arange(n), k * m + task
            for j in range(d):
                np.add.at(self.design, (lines, self.places[j, columns]), Z[:, j])
            if self.has_intercept:
                self.design[lines, self.intercepts[columns]] = 1
        rows, targets = [], []

        def add(factor, entries, target=0.0):
            row = np.zeros(self.size, LONG)
            for places, values in entries:
                np.add.at(row, places, values)
            rows.append(np.sqrt(LONG(factor)) * row)
            targets.append(np.sqrt(LONG(factor)) * target)

        for p in self.places.T:
            for j, k, sign in case.pairs:
                pair = [(p[j], self.unit[j]), (p[k], -sign * self.unit[k])]
                add(settings["theta"], pair)
            for j, value in case.near:
                add(settings["theta"], [(p[j], self.unit[j])], value * scale[j])
        classes = [k * m + np.arange(m) for k in range(K)]
        for b in tie_rows(settings["task_prior"], case.groups):
            for j in np.flatnonzero(~self.common):
                for of_class in classes:
                    tie = settings["epsilon"] * ties[j]
                    add(tie, [(self.places[j, of_class], b * self.unit[j])])
            for of_class in classes if settings["fit_intercept"] == "tied" else []:
                entries = [(self.intercepts[of_class], b)]
                if not standardize:  # tied where features are zero, not at their means
                    entries += zip(
                        self.places[:, of_class],
                        np.outer(-self.centre / self.deviation, b),
                        strict=True,
                    )
                add(model.intercept_strength_, entries)
        self.A = np.array(rows, LONG).reshape(-1, self.size)
        self.c = np.array(targets, LONG)

        # The ℓ2,1 norm is Σ weights_j ‖v[row_j]‖; common effects count m times.
        factor = np.asarray(settings.get("feature_weights", np.ones(d)), LONG)
        factor = factor * np.where(self.common, np.sqrt(LONG(m)), 1)
        self.weights = self.lam * factor * self.unit
        self.rows = [np.unique(places) for places in self.places]
        self.nuclear = settings["penalty"] == "nuclear"
        self.signs = np.zeros(self.size, int)
        for j, sign in case.signs:
            self.signs[self.rows[j]] = sign

    def unknowns(self, model):
        """The published model as v, common effects and signs aside."""
        v = np.zeros(self.size, LONG)
        coef, intercept = model.coef_.astype(LONG).T, model.intercept_.astype(LONG)
        coef, intercept = coef.reshape(len(coef), -1), intercept.T.ravel()
        v[self.places] = coef * self.deviation[:, np.newaxis]
        if self.has_intercept:
            v[self.intercepts] = intercept + self.centre @ coef
        return v

    def losses(self, scores):
        """Loss of each row, its first and second derivative, per unit of weight."""
        if self.case.loss in FAMILIES:
            return self.family_losses(scores)
        if self.case.classes > 1:
            eta = scores.reshape(self.case.classes, -1)
            top, own = eta.max(axis=0), np.arange(len(eta))[:, np.newaxis] == self.y
            share = np.exp(eta - top)
            total = share.sum(axis=0)
            chance = share / total
            loss = top + np.log(total) - eta[own.argmax(axis=0), np.arange(len(top))]
            return loss, (chance - own).ravel(), chance.ravel()
        if not self.logistic:
            rest = scores - self.y
            return rest**2 / 2, rest, np.ones_like(rest)
        z = self.y * scores
        far = np.exp(-np.abs(z))
        wrong = np.where(z > 0, far, 1) / (1 + far)
        loss = np.maximum(-z, 0) + np.log1p(far)
        return loss, -self.y * wrong, wrong * (1 - wrong)

    def smooth(self, v, basis=None):
        """Value, gradient and Hessian without the penalty, over v or a basis of it."""
        loss, slope, bend = self.losses(self.design @ v)
        rest = self.A @ v - self.c
        design, A, weight = self.design, self.A, np.tile(self.weight, self.case.classes)
        if basis is not None:
            design, A = design @ basis, A @ basis
        gradient = design.T @ (weight * slope) + A.T @ rest
        hessian = (design.T * (weight * bend)) @ design
        if self.case.classes > 1:  # less what classes of a row have in common
            shared = (bend[:, np.newaxis] * design).reshape(
                self.case.classes, -1, len(A.T)
            )
            shared = shared.sum(axis=0)
            hessian = hessian - (shared.T * self.weight) @ shared
        value = self.weight @ loss + rest @ rest / 2
        return value, gradient, hessian + A.T @ A

    def levels(self):
        """What all tasks have in common, as a basis: no ties, however strong, see it.

        Over single tasks data would be lost beside strong ties, even in long double.
        """
        parts = [
            np.unique(part) for places in self.places for part in self.split(places)
        ]
        parts += list(self.intercepts)
        basis = np.zeros((self.size, len(parts)), LONG)
        for k, part in enumerate(parts):
            basis[part, k] = 1
        return basis

    def split(self, columns):
        """Columns of each class."""
        return np.split(columns, self.case.classes)

    def matrix(self, v):
        """Coefficients in the model's units (d, m)."""
        return v[self.places] * self.unit[:, np.newaxis]

    def penalty(self, v):
        if self.nuclear:
            sizes = np.linalg.svd(self.matrix(v).astype(float), compute_uv=False)
            return self.lam * LONG(sizes.sum())
        lengths = [np.sqrt(v[row] @ v[row]) for row in self.rows]
        return self.weights @ np.array(lengths, LONG)

    def row_norms(self, v):
        """Value, gradient and Hessian of the ℓ2,1 norm, over rows that are not zero."""
        value, gradient = LONG(0), np.zeros_like(v)
        hessian = np.zeros((self.size, self.size), LONG)
        for weight, row in zip(self.weights, self.rows, strict=True):
            length = np.sqrt(v[row] @ v[row])
            if weight > 0 and length > 0:
                value, e = value + weight * length, v[row] / length
                gradient[row] = weight * e
                bend = np.eye(len(row), dtype=LONG) - np.outer(e, e)
                hessian[np.ix_(row, row)] = bend * weight / length
        return value, gradient, hessian

    def family_losses(self, s):
        """The same for counts and amounts, as third.md writes them."""
        y, mean = self.y, np.exp(np.clip(s, -11000, 11000))
        if self.case.loss == "poisson":
            return mean - y * s, mean - y, mean
        if self.case.loss == "gamma":
            return s + y / mean, 1 - y / mean, y / mean
        r = 1 / LONG(self.case.settings["dispersion"])
        level = np.logaddexp(np.log(r), s)  # of r + mean, which may overflow
        share = np.exp(s - level)
        loss = (y + r) * level - y * s
        return loss, (y + r) * share - y, (y + r) * share * (1 - share)

    def value(self, v):
        return self.smooth(v)[0] + self.penalty(v)

    def project(self, v):
        return np.where(self.signs * v < 0, LONG(0), v)

    def rounding(self, v):
        """What a few rounding errors of data and published numbers may change."""
        coef = v[self.places] / self.deviation[:, np.newaxis]
        size = np.abs(self.y)
        if self.case.loss in FAMILIES:
            size = 1 + np.abs(np.log(np.maximum(self.y, 1)))
        K = self.case.classes
        column = (self.m * np.arange(K)[:, np.newaxis] + self.task).ravel()
        size, X = np.tile(size, K), np.tile(self.X, (K, 1))
        terms = size + np.sum(np.abs(X * coef.T[column]), axis=1)
        weight = np.tile(self.weight, K)
        if self.has_intercept:
            intercept = v[self.intercepts] - self.centre @ coef
            terms = terms + np.abs(intercept)[column]
        if self.case.settings["fit_intercept"] == "tied":
            weight = weight + self.case.settings["intercept_strength"]
        slope, noise = np.abs(self.losses(self.design @ v)[1]), ROUNDING * terms
        found = weight @ (slope * noise + noise**2) + ROUNDING * abs(self.value(v))
        found += ROUNDING * abs(self.least)
        # Long doubles are rounded, too: strong ties of large coefficients show it.
        # Rounded features have rounded deviations, the unit of coefficients.
        share = np.full(self.size, 8 * np.finfo(LONG).eps)
        if self.case.settings["standardize"]:
            doubt = ROUNDING * np.abs(self.centre) / self.deviation
            share[self.places] += doubt[:, np.newaxis]
            lengths = [np.sqrt(v[row] @ v[row]) for row in self.rows]
            found += (doubt * self.weights) @ np.array(lengths, LONG)
        lost = np.abs(self.A) @ (share * np.abs(v))
        # So have targets, in these units.
        lost += np.max((self.A != 0) * share, axis=1, initial=0) * np.abs(self.c)
        found += lost @ (np.abs(self.A @ v - self.c) + lost)
        if self.case.source == "statistics":  # squares of centred rows, added up
            Z = np.abs((self.X - self.centre) * coef.T[self.task])
            sizes = np.sum(Z, axis=1) + np.abs(self.y - self.y.mean())
            found += ROUNDING * (weight @ sizes**2)
        return found

    def null(self):
        """Objective without coefficients and targets, the unit of tolerances.

        Where intercepts explain all rows, the targets count.
        """
        bare = copy.copy(self)
        bare.c = np.zeros_like(self.c)
        free = np.isin(np.arange(self.size), self.intercepts)
        v = newton(bare.smooth, np.zeros(self.size, LONG), free)
        return (bare.smooth(v)[0] - self.least) or self.value(v) - self.least


def cholesky_solve(H, g):
    """x with H x = g in long double; None where H is not positive definite."""
    L, x = np.array(H, LONG), np.array(g, LONG)
    scale = np.sqrt(np.maximum(np.diagonal(L), 0))
    if not np.all(scale > 0):
        return None
    L, x, n = L / np.outer(scale, scale), x / scale, len(x)
    for j in range(n):
        if not L[j, j] > 1e-18:
            return None
        L[j:, j] /= np.sqrt(L[j, j])
        L[j + 1 :, j + 1 :] -= np.outer(L[j + 1 :, j], L[j + 1 :, j])
    for j in range(n):
        x[j] /= L[j, j]
        x[j + 1 :] -= x[j] * L[j + 1 :, j]
    for j in reversed(range(n)):
        x[j] = (x[j] - L[j + 1 :, j] @ x[j + 1 :]) / L[j, j]
    return x / scale


def newton(function, v, free, most=60):
    """Minimise over the free unknowns by Newton's method with a ridge as needed."""
    ridge, idle = LONG(0), 0
    value, gradient, hessian = function(v)
    for _ in range(most if free.any() else 0):
        H = hessian[np.ix_(free, free)]
        diagonal = np.where(np.diagonal(H) > 0, np.diagonal(H), LONG(1))
        step = cholesky_solve(H + np.diag(ridge * diagonal), -gradient[free])
        if step is not None:
            trial = v.copy()
            trial[free] += step
            there = function(trial)
            if there[0] < value:
                idle = idle + 1 if value - there[0] <= 1e-18 * abs(value) else 0
                v, (value, gradient, hessian) = trial, there
                ridge = ridge / 10 if ridge > 1e-19 else LONG(0)
                if idle > 2:
                    break
                continue
        if ridge > 1e6:
            break
        ridge = max(10 * ridge, LONG(1e-19))
    return v


def polish(reference, v):
    """The lowest point that Newton's method finds from v."""
    if reference.nuclear and reference.lam > 0:
        return polish_nuclear(reference, v)

    def both(v):
        pairs = zip(reference.smooth(v), reference.row_norms(v), strict=True)
        return tuple(a + b for a, b in pairs)

    basis, K = reference.levels(), reference.case.classes

    def common(z, start):
        v = start + basis @ z
        norms = reference.row_norms(v)
        norms = norms[0], basis.T @ norms[1], basis.T @ norms[2] @ basis
        pairs = zip(reference.smooth(v, basis), norms, strict=True)
        return tuple(a + b for a, b in pairs)

    best, least = v, reference.value(v)
    for _ in range(6):
        gradient, hessian = reference.smooth(best)[1:]
        free = np.ones(reference.size, bool)
        # At a bound, and pushed against it.
        free &= ~(
            (best == 0) & (reference.signs != 0) & (reference.signs * gradient >= 0)
        )
        candidates = []
        shared = reference.smooth(best, basis)[1:]
        for j, row in enumerate(reference.rows):
            weight = reference.weights[j]
            if weight == 0:
                continue
            if best[row].any():  # a row that should be zero
                candidates.append(best.copy())
                candidates[-1][row] = 0
                continue
            free[row] = False
            length = np.sqrt(gradient[row] @ gradient[row])
            bend = np.trace(hessian[np.ix_(row, row)])
            if length > weight and bend > 0:  # a row that should not
                candidates.append(best.copy())
                candidates[-1][row] = -gradient[row] * (1 - weight / length) / bend
            # The same for all tasks at once, which ties do not hold back.
            for level in range(j * K, (j + 1) * K):
                slope, bend = shared[0][level], shared[1][level, level]
                entries = basis[:, level] > 0
                length = weight * np.sqrt(LONG(entries.sum()))
                kept = 1 - length / max(abs(slope), LONG(1e-300))
                if kept > 0 and bend > 0:
                    candidates.append(best.copy())
                    candidates[-1][entries] = -slope * kept / bend
        candidates.append(newton(both, best, free))
        loose = np.array([free[column > 0].all() for column in basis.T])
        zero = np.zeros(basis.shape[1], LONG)
        z = newton(partial(common, start=best), zero, loose)
        candidates.append(best + basis @ z)
        candidates = [reference.project(candidate) for candidate in candidates]
        values = [reference.value(candidate) for candidate in candidates]
        k = int(np.argmin(values))
        if not values[k] < least:
            break
        best, least = candidates[k], values[k]
    return best


def polish_nuclear(reference, v):
    """Newton's method on ‖P‖* ≤ ½ tr(Pᵀ S⁻¹ P + S), S = (P Pᵀ + δ²)^½, δ falling."""
    best, least = v, reference.value(v)
    d = len(reference.places)
    order = reference.places.ravel()

    def above(v, weights):
        value, gradient, hessian = reference.smooth(v)
        P = reference.matrix(v)
        slope = reference.lam * (weights @ P)
        gradient[order] += (slope * reference.unit[:, np.newaxis]).ravel()
        outer = weights * np.outer(reference.unit, reference.unit)
        eye = np.eye(reference.places.shape[1], dtype=LONG)
        hessian[np.ix_(order, order)] += reference.lam * np.kron(outer, eye)
        return value + np.vdot(P, slope) / 2, gradient, hessian

    gradient, hessian = reference.smooth(v)[1:]
    guess = np.abs(gradient[order]).max() / max(np.trace(hessian), LONG(1e-300))
    guess = float(guess * reference.unit.max())
    for share in 10.0 ** np.arange(-2, -12, -0.5):
        U, s, _ = np.linalg.svd(reference.matrix(v).astype(float))
        sizes = np.zeros(d)
        sizes[: len(s)] = s
        floor = share * max(s[0], guess, 1e-150)
        inverse = ((U / np.sqrt(sizes**2 + floor**2)) @ U.T).astype(LONG)
        function = partial(above, weights=(inverse + inverse.T) / 2)
        v = newton(function, v, np.ones(reference.size, bool), most=8)
        value = reference.value(v)
        if value < least:
            best, least = v, value
    return best


class Verdict(NamedTuple):
    """What is wrong with a fit; whether it warned, and where the optimum is."""

    faults: tuple[str, ...]
    warned: bool = False
    gap: float = 0.0  # certified, in units of the null objective
    true_gap: float = 0.0  # to the best point that is known
    noise: float = 0.0  # what rounding errors of data may change

    def __str__(self):
        known = f"gap {self.gap:.2g}, truly {self.true_gap:.2g} ± {self.noise:.1g}"
        return "; ".join([*self.faults, known + (", warned" if self.warned else "")])


def judge(case):
    """Fit a case, and compare what is published with its reference."""
    model, warned = case.fit()
    values = [
        *model.coef_.ravel(),
        *model.intercept_.ravel(),
        model.objective_,
        model.dual_gap_,
    ]
    if not np.all(np.isfinite(values)):
        return Verdict(("not finite",), warned)
    faults, tol = [], case.settings["tol"]
    if any(np.ptp(model.coef_[..., j], axis=0).any() for j in case.common):
        faults.append("constraint: a common effect varies")
    if any(np.any(sign * model.coef_[..., j] < 0) for j, sign in case.signs):
        faults.append("constraint: a sign is not kept")
    reference = Reference(case, model)
    v = reference.unknowns(model)
    value, unit = reference.value(v), max(abs(reference.null()), LONG(1e-300))
    best = polish(reference, reference.project(v))
    noise = reference.rounding(v) + 1e-12 * unit + 1e-13 * abs(value)
    off = abs(value - model.objective_) - model.dual_gap_
    if off > noise:
        faults.append(f"published {value:.6g}, certified {model.objective_:.6g}")
    lower = value - reference.value(best)
    false = lower - model.dual_gap_ - noise - reference.rounding(best)
    if false > 0:
        faults.append(f"false by {false / unit:.2g}")
    gap = float(model.dual_gap_ / unit)
    # Rounding puts no less in reach.
    hidden = 2.1e-10 * max(unit, value - reference.least) + noise
    hidden += (100 * np.finfo(float).eps) ** 2 * (reference.weight @ reference.y**2)
    if model.dual_gap_ > max(1.01 * tol * unit, hidden) and not warned:
        faults.append(f"silent above tol {tol:g}")
    if gap <= 0.99 * tol and warned:
        faults.append(f"warned below tol {tol:g}")
    return Verdict(tuple(faults), warned, gap, float(lower / unit), float(noise / unit))


@contextmanager
def limited(seconds):
    """Raise TimeoutError in what takes more of the processor's time."""

    def stop(*_):
        raise TimeoutError

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def judge_seed(seed, kind):
    """Seed, verdict, processor's seconds, and the tolerance that was asked for."""
    case, begin = KINDS[kind](seed), time.process_time()
    try:
        with limited(MOST_SECONDS), threadpool_limits(1):
            verdict = judge(case)
    except TimeoutError:
        verdict = Verdict(("beyond 30 s",))
    except Exception as error:  # any is a fault of the fit
        verdict = Verdict((f"exception {type(error).__name__}: {error}",))
    return seed, verdict, time.process_time() - begin, case.settings["tol"]


def main(count, first=0, kind="plain", jobs=1):
    """Judge ``count`` cases; print what is wrong, and a summary. True without fault."""
    found, seconds = Counter(), []
    with ProcessPoolExecutor(jobs) as pool:
        seeds = range(first, first + count)
        for seed, verdict, taken, tol in pool.map(
            partial(judge_seed, kind=kind), seeds
        ):
            found.update(fault.split()[0] for fault in verdict.faults)
            found["warnings"] += verdict.warned
            needless = verdict.warned and verdict.true_gap <= tol
            # Tolerances below the rounding errors of the data are out of reach.
            hidden = needless and verdict.true_gap + verdict.noise > tol
            found["hidden" if hidden else "needless"] += needless
            seconds.append(taken)
            if verdict.faults or needless or taken > MOST_SECONDS / 3:
                print(f"{kind} {seed}: {verdict} ({taken:.1f} s)", flush=True)  # noqa: T201
    print(  # noqa: T201
        f"{count} {kind} problems from seed {first}: {dict(found)}; "
        f"{np.mean(seconds):.2f} s in the mean, {np.max(seconds):.1f} s at most"
    )
    return not set(found) - {"warnings", "needless", "hidden"}


KINDS = {"plain": draw, "families": draw_family, "classes": draw_classes}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("count", type=int)
    parser.add_argument("first", type=int, nargs="?", default=0)
    parser.add_argument("--kind", choices=KINDS, default="plain")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    sys.exit(not main(**vars(parser.parse_args())))
