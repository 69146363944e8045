"""Random fits of every kind, judged in long double: is what is published certified?

`draw` makes a problem of a seed, `Reference` is its objective in the user's data and in
long double, written down from the documentation alone, and `polish` lowers it from any
point by Newton's method, with plain loops for Cholesky factors, since NumPy has none in
long double.
"""

import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskRegressor,
    TaskPrior,
)

LONG = np.longdouble
ROUNDING = 8 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class Case:
    """Data, settings of the estimator, and statements about features."""

    X: np.ndarray  # (n, d)
    y: np.ndarray  # (n,) or (n, m)
    task: np.ndarray | None
    weight: np.ndarray | None
    settings: dict[str, Any]
    loss: str
    m: int
    sparse: bool = False
    pairs: tuple[tuple[int, int, float], ...] = ()
    near: dict[int, float] = field(default_factory=dict)
    signs: dict[int, int] = field(default_factory=dict)
    common: tuple[int, ...] = ()
    groups: tuple[int, ...] = ()  # of tasks, for task_prior "groups"

    @property
    def feature_prior(self):
        found = None
        parts = [
            FeaturePrior.similar([(j, k)])
            if sign > 0
            else FeaturePrior.opposite([(j, k)])
            for j, k, sign in self.pairs
        ]
        if self.near:
            parts.append(FeaturePrior.near(self.near))
        for j, sign in self.signs.items():
            make = FeaturePrior.nonnegative if sign > 0 else FeaturePrior.nonpositive
            parts.append(make([j]))
        if self.common:
            parts.append(FeaturePrior.common(list(self.common)))
        for part in parts:
            found = part if found is None else found + part
        return found

    def fit(self):
        """Fitted model, and what it warned of."""
        settings = dict(self.settings)
        if settings["task_prior"] == "groups":
            members: dict[str, list[int]] = {}
            for i, group in enumerate(self.groups):
                members.setdefault(f"g{group}", []).append(i)
            settings["task_prior"] = TaskPrior.groups(members)
        build = MultiTaskRegressor
        if self.loss != "regression":
            build, settings["loss"] = MultiTaskClassifier, self.loss
        model = build(feature_prior=self.feature_prior, **settings)
        X = csr_array(self.X) if self.sparse else self.X
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(X, self.y, task=self.task, sample_weight=self.weight)
        caught = [w for w in caught if "far from zero" not in str(w.message)]
        others = [w for w in caught if not issubclass(w.category, ConvergenceWarning)]
        assert not others, others[0].message
        return model, bool(caught)


def draw(seed):
    """A case of this seed: scales to 1e±10, offsets to 1e8, ties to 1e9."""
    rng = np.random.default_rng(seed)
    pick = lambda *options: options[rng.integers(len(options))]  # noqa: E731
    m, d = int(rng.integers(1, 6)), int(rng.integers(1, 6))
    loss = pick("regression", "regression", "logistic", "logistic", "squared")
    shared = loss == "regression" and rng.random() < 0.2
    counts = rng.integers(2, 12, m)
    n = int(rng.integers(2, 15)) if shared else int(counts.sum())
    X = rng.standard_normal((n, d))
    if rng.random() < 0.3:
        X = np.round(X)
    if d > 1 and rng.random() < 0.2:
        X[:, -1] = X[:, 0] * pick(1.0, -2.0, 1.0 + 1e-9)
    if rng.random() < 0.15:
        X[:, rng.integers(d)] = pick(0.0, 1.0)
    truth = rng.standard_normal((d, 1)) + 0.3 * rng.standard_normal((d, m))
    sparse = rng.random() < 0.3
    task = np.repeat(np.arange(m), counts)
    if shared:
        signal, task = X @ truth, None
    else:
        signal = np.sum(X * truth.T[task], axis=1)
    y = signal + pick(0.0, 0.1, 1.0) * rng.standard_normal(signal.shape)
    y = (
        y
        + pick(0.0, 1.0, 10.0)
        * rng.standard_normal(m)[task if task is not None else slice(None)]
    )
    # Scales and offsets: the same for all columns, or each its own.
    size = (
        10.0
        ** (rng.integers(-10, 11, d) if rng.random() < 0.3 else rng.integers(-10, 11))
        if rng.random() < 0.5
        else 1.0
    )
    offset = pick(0.0, 0.0, 1.0, 1e2, 1e4, 1e6, 1e8)
    columns = rng.random(d) < pick(0.3, 1.0)
    X = (X + offset * columns) * size
    if loss == "regression":
        y = (y + pick(0.0, 0.0, 1.0, 1e2, 1e4, 1e6, 1e8)) * (
            10.0 ** rng.integers(-10, 11) if rng.random() < 0.3 else 1.0
        )
    else:
        y = (y > np.median(y)).astype(int)
        ends = np.cumsum(counts)
        y[ends - 1], y[ends - 2] = 1, 0
    if shared and rng.random() < 0.5:
        gaps = rng.random(y.shape) < 0.3
        gaps[0] = False
        y = np.where(gaps, np.nan, y)
    weight = None
    if rng.random() < 0.3:
        weight = rng.uniform(0.1, 3.0, n) * pick(1.0, 1.0, 1e-6, 1e6)
    penalty = pick("l21", "l21", "l21", "nuclear")
    intercept = pick(False, True, "tied")
    prior = pick("chain", "mean", "mean", None, "groups")
    if intercept == "tied" and prior is None:
        prior = "mean"
    epsilon = pick(0.0, 1e-3, 1.0, 1e3, 1e6, 1e9)
    pairs = ()
    if d > 1 and rng.random() < 0.4:
        pairs = ((0, 1, float(pick(1.0, -1.0))),)
    near, signs, common = {}, {}, ()
    if rng.random() < 0.15:
        near = {0: float(pick(0.0, 0.5, 2.0))}
    if penalty == "l21" and rng.random() < 0.15:
        signs = {int(rng.integers(d)): 1 if near else int(pick(1, -1))}
    if penalty == "l21" and rng.random() < 0.15:
        common = (int(rng.integers(d)),)
    # lam relative to lam_max is set by the one who knows it; here an absolute guess.
    unit = float(np.sqrt(np.nansum((y - np.nanmean(y)) ** 2)) or 1.0)
    unit *= float(np.mean(np.abs(X - X.mean(axis=0)))) * np.sqrt(n) or 1.0
    lam = pick(0.0, 1e-9, 1e-6, 1e-3, 1e-2, 0.1, 1.0) * unit
    standardize = bool(rng.random() < 0.4)
    if standardize:
        lam = pick(0.0, 1e-6, 1e-3, 0.1, 1.0)
    settings = {
        "lam": float(lam),
        "theta": float(pick(1e-3, 1.0, 1e3)),
        "epsilon": epsilon,
        "task_prior": prior,
        "penalty": penalty,
        "fit_intercept": intercept,
        "intercept_strength": float(pick(1e-6, 1.0, 1e3)),
        "standardize": standardize,
        "tol": float(pick(1e-4, 1e-6, 1e-6, 1e-8, 1e-10)),
    }
    if rng.random() < 0.15:
        settings["ties"] = rng.uniform(0.0, 2.0, d)
    if penalty == "l21" and rng.random() < 0.15:
        settings["feature_weights"] = rng.uniform(0.5, 2.0, d)
    groups = tuple(int(g) for g in rng.integers(0, 2, m))
    return Case(
        X,
        y,
        task,
        weight,
        settings,
        loss,
        m,
        sparse,
        pairs,
        near,
        signs,
        common,
        groups,
    )


@dataclass(frozen=True, eq=False)
class Reference:
    """Objective of a case in long double, over q (d, m) and a (m,).

    Unknowns are well scaled: q = coefficients times the features' deviations, a =
    predictions of the tasks at the pooled means of the features.
    """

    case: Case

    @cached_property
    def rows(self):
        """Standardised rows, targets, weights and tasks, one after the other."""
        case = self.case
        X, y = case.X.astype(LONG), case.y.astype(LONG)
        weight = (
            np.ones(len(X), LONG) if case.weight is None else case.weight.astype(LONG)
        )
        if y.ndim == 2:
            n, m = y.shape
            known = ~np.isnan(y.T.ravel())
            X, y = np.tile(X, (m, 1))[known], y.T.ravel()[known]
            weight, task = np.tile(weight, m)[known], np.repeat(np.arange(m), n)[known]
        else:
            task = case.task
        if case.loss != "regression":
            y = 2 * y - 1
        return X, y, weight, task

    @cached_property
    def centre(self):
        X, _, weight, _ = self.rows
        return weight @ X / weight.sum()

    @cached_property
    def deviation(self):
        X, _, weight, _ = self.rows
        found = np.sqrt(weight @ (X - self.centre) ** 2 / weight.sum())
        return np.where(found > 1e-13 * np.abs(self.centre), found, LONG(1.0))

    @cached_property
    def Z(self):
        return (self.rows[0] - self.centre) / self.deviation

    @cached_property
    def scale(self):
        """What the model divides coefficients' units by."""
        return (
            self.deviation
            if self.case.settings["standardize"]
            else np.ones(len(self.deviation), LONG)
        )

    @cached_property
    def laplacian(self):
        m, kind = self.case.m, self.case.settings["task_prior"]
        L = np.zeros((m, m), LONG)
        if kind == "chain":
            for i in range(m - 1):
                L[i, i] += 1
                L[i + 1, i + 1] += 1
                L[i, i + 1] -= 1
                L[i + 1, i] -= 1
        groups = [list(range(m))] if kind == "mean" else []
        if kind == "groups":
            groups = [[i for i in range(m) if self.case.groups[i] == g] for g in (0, 1)]
        for members in groups:
            k = len(members)
            if k > 1:
                L[np.ix_(members, members)] += np.eye(k, dtype=LONG) - LONG(1.0) / k
        return L

    @cached_property
    def factor(self):
        """B with L = BᵀB (rows): differences, so that nothing cancels."""
        m, kind = self.case.m, self.case.settings["task_prior"]
        if kind == "chain":
            return np.diff(np.eye(m, dtype=LONG), axis=0)
        return self.laplacian  # projections: L = LᵀL

    @cached_property
    def ties(self):
        d = self.case.X.shape[1]
        found = np.asarray(self.case.settings.get("ties", np.ones(d)), LONG)
        free = np.isin(np.arange(d), self.case.common)
        return self.case.settings["epsilon"] * np.where(free, 0.0, found)

    @cached_property
    def relations(self):
        """Rows of D over coefficients in the model's units, and targets."""
        d, theta = self.case.X.shape[1], self.case.settings["theta"]
        D, C = [], []
        for j, k, sign in self.case.pairs:
            row = np.zeros(d, LONG)
            row[j], row[k] = 1.0, -sign
            D.append(row), C.append(LONG(0.0))
        for j, value in self.case.near.items():
            row = np.zeros(d, LONG)
            row[j] = 1.0
            D.append(row), C.append(LONG(value) * self.scale[j])
        root = np.sqrt(LONG(theta))
        return root * np.array(D, LONG).reshape(-1, d), root * np.array(C, LONG)

    @cached_property
    def weights(self):
        d = self.case.X.shape[1]
        found = self.case.settings.get("feature_weights", np.ones(d))
        return self.case.settings["lam"] * np.asarray(found, LONG)

    @property
    def intercept(self):
        return self.case.settings["fit_intercept"]

    def unknowns(self, model):
        """q and a of a fitted model."""
        coef = model.coef_.astype(LONG).T
        q = coef * self.deviation[:, np.newaxis]
        return q, model.intercept_.astype(LONG) + self.centre @ coef

    # Smooth part: squares ½‖A u − c‖² over u = (q by task, a), and losses of rows.

    @cached_property
    def squares(self):
        """A and c of prior and ties, over u (m (d + 1),): q of a task, then its a."""
        d, m = self.case.X.shape[1], self.case.m
        unit = self.scale / self.deviation  # coefficients in the model's units / q
        k = d + 1
        rows, target = [], []
        D, C = self.relations
        for i in range(m):
            for row, value in zip(D, C, strict=True):
                line = np.zeros(m * k, LONG)
                line[i * k : i * k + d] = row * unit
                rows.append(line), target.append(value)
        for line_of_B in self.factor:
            for j in range(d):
                if self.ties[j] > 0:
                    line = np.zeros(m * k, LONG)
                    line[j::k] = np.sqrt(self.ties[j]) * line_of_B * unit[j]
                    rows.append(line), target.append(LONG(0.0))
            if self.intercept == "tied":
                line = np.zeros(m * k, LONG)
                line[d::k] = line_of_B
                if not self.case.settings["standardize"]:
                    # Tied where features are zero: b = a − centre q / deviation.
                    for j in range(d):
                        line[j::k] = -line_of_B * self.centre[j] / self.deviation[j]
                root = np.sqrt(LONG(self.case.settings["intercept_strength"]))
                rows.append(root * line), target.append(LONG(0.0))
        return np.array(rows, LONG).reshape(-1, m * k), np.array(target, LONG)

    @cached_property
    def design(self):
        """Scores of rows are design u."""
        X, _, _, task = self.rows
        d, m = self.case.X.shape[1], self.case.m
        k = d + 1
        found = np.zeros((len(task), m * k), LONG)
        for r, i in enumerate(task):
            found[r, i * k : i * k + d] = self.Z[r]
            # Without intercepts, a is what q says at the centre.
            if self.intercept is False:
                found[r, i * k : i * k + d] += self.centre / self.deviation
            else:
                found[r, i * k + d] = 1.0
        return found

    def pack(self, q, a):
        return np.concatenate([q, a[np.newaxis]]).T.ravel().copy()

    def unpack(self, u):
        both = u.reshape(self.case.m, -1).T
        return both[:-1], both[-1]

    @property
    def fixed(self):
        """Unknowns that stay: the place of intercepts where there are none."""
        k = self.case.X.shape[1] + 1
        found = np.zeros(self.case.m * k, bool)
        if self.intercept is False:
            found[k - 1 :: k] = True
        return found

    def smooth(self, u):
        """Value, gradient and Hessian of loss, prior and ties."""
        _, y, weight, _ = self.rows
        A, c = self.squares
        rest = A @ u - c
        scores = self.design @ u
        if self.case.loss == "logistic":
            z = y * scores
            far = np.abs(z)
            loss = np.maximum(-z, 0) + np.log1p(np.exp(-far))
            p = np.where(z > 0, np.exp(-far), 1) / (1 + np.exp(-far))  # of the wrong
            value = weight @ loss
            slope, bend = -weight * y * p, weight * p * (1 - p)
        else:
            residual = scores - y
            value = LONG(0.5) * weight @ residual**2
            slope, bend = weight * residual, weight
        value += LONG(0.5) * rest @ rest
        gradient = self.design.T @ slope + A.T @ rest
        hessian = (self.design.T * bend) @ self.design + A.T @ A
        return value, gradient, hessian

    def penalty(self, q):
        p = q * (self.scale / self.deviation)[:, np.newaxis]
        if self.case.settings["lam"] == 0:
            return LONG(0.0)
        if self.case.settings["penalty"] == "nuclear":
            sizes = np.linalg.svd(p.astype(float), compute_uv=False)
            return LONG(self.case.settings["lam"] * sizes.sum())
        return self.weights @ np.sqrt(np.sum(p**2, axis=1))

    def value(self, u):
        return self.smooth(u)[0] + self.penalty(self.unpack(u)[0])

    def rounding(self, u):
        """What a few rounding errors of data and published numbers may change."""
        X, y, weight, task = self.rows
        q, a = self.unpack(u)
        coef = q / self.deviation[:, np.newaxis]
        intercept = a - self.centre @ coef if self.intercept is not False else 0 * a
        scores = self.design @ u
        slope = np.abs(scores - y)
        if self.case.loss == "logistic":
            slope = 1 / (1 + np.exp(np.minimum(y * scores, 11000)))
        terms = np.abs(y) + np.abs(intercept)[task]
        terms = terms + np.sum(np.abs(X * coef.T[task]), axis=1)
        noise = ROUNDING * terms
        if self.intercept == "tied":
            weight = weight + self.case.settings["intercept_strength"]
        return weight @ (slope * noise + noise**2) + ROUNDING * abs(self.value(u))

    def null(self):
        """Objective at zero coefficients, intercepts at their best, without targets."""
        free = np.zeros_like(self.fixed)
        k = self.case.X.shape[1] + 1
        if self.intercept is not False:
            free[k - 1 :: k] = True
        u = np.zeros(self.case.m * k, LONG)
        u = newton(self, u, free, lambda u: (LONG(0), 0, 0))
        A, c = self.squares
        return self.smooth(u)[0] - LONG(0.5) * c @ c


def cholesky_solve(H, g):
    """x with H x = g in long double; None where H is not positive definite."""
    n = len(g)
    L = np.array(H, LONG)
    scale = np.sqrt(np.diagonal(L).copy())
    if not np.all(scale > 0):
        return None
    L /= np.outer(scale, scale)
    for j in range(n):
        pivot = L[j, j]
        if not pivot > 1e-18:
            return None
        L[j:, j] /= np.sqrt(pivot)
        L[j + 1 :, j + 1 :] -= np.outer(L[j + 1 :, j], L[j + 1 :, j])
    x = g / scale
    for j in range(n):
        x[j] /= L[j, j]
        x[j + 1 :] -= x[j] * L[j + 1 :, j]
    for j in reversed(range(n)):
        x[j] = (x[j] - L[j + 1 :, j] @ x[j + 1 :]) / L[j, j]
    return x / scale


def newton(reference, u, free, extra, most=60):
    """Damped Newton over the free unknowns; ``extra`` adds to the smooth part."""
    if not free.any():
        return u
    damping, idle = LONG(0.0), 0
    value, gradient, hessian = (
        a + b for a, b in zip(reference.smooth(u), extra(u), strict=True)
    )
    for _ in range(most):
        g, H = gradient[free], hessian[np.ix_(free, free)]
        diagonal = np.diagonal(H).copy()
        diagonal = np.where(diagonal > 0, diagonal, LONG(1.0))
        step = cholesky_solve(H + np.diag(damping * diagonal), -g)
        if step is not None:
            trial = u.copy()
            trial[free] += step
            found = tuple(
                a + b
                for a, b in zip(reference.smooth(trial), extra(trial), strict=True)
            )
            if found[0] < value:
                gain = value - found[0]
                u, (value, gradient, hessian) = trial, found
                damping = damping / 10 if damping > 1e-19 else LONG(0.0)
                idle = idle + 1 if gain <= 1e-18 * abs(value) else 0
                if idle > 2:
                    break
                continue
        if damping > 1e6:
            break
        damping = max(10 * damping, LONG(1e-19))
    return u


def polish(reference, u):
    """A point with a lower objective, if the reference finds one near u."""
    case = reference.case
    d, m = case.X.shape[1], case.m
    unit = reference.scale / reference.deviation
    lam = reference.weights if case.settings["penalty"] == "l21" else np.zeros(d, LONG)
    if case.settings["penalty"] == "nuclear" and case.settings["lam"] > 0:
        return polish_nuclear(reference, u)
    best, best_value = u, reference.value(u)
    for _ in range(6):
        q, a = reference.unpack(best)
        used = np.array([lam[j] == 0 or np.any(q[j] != 0) for j in range(d)])
        free = np.zeros((d + 1, m), bool)
        free[:d] = used[:, np.newaxis]
        free[d] = case.settings["fit_intercept"] is not False
        _, gradient, _ = reference.smooth(best)
        slope = reference.unpack(gradient)[0]
        for j, sign in case.signs.items():
            # At the bound, and pushed against it.
            free[j] &= ~((q[j] == 0) & (sign * slope[j] >= 0))
        if case.common:
            u = polish_common(reference, best, free, lam, unit)
        else:
            u = newton(
                reference,
                best,
                free.T.ravel(),
                lambda u: row_norms(reference, u, lam, unit),
            )
        u = project(case, reference, u)
        # Rows that should be zero, and rows that should not.
        candidates = [u]
        q, a = reference.unpack(u)
        for j in range(d):
            if lam[j] > 0 and np.any(q[j] != 0):
                shorter = q.copy()
                shorter[j] = 0
                candidates.append(reference.pack(shorter, a))
        _, gradient, hessian = reference.smooth(best)
        slope = reference.unpack(gradient)[0]
        bend = reference.unpack(np.diagonal(hessian))[0]
        q, a = reference.unpack(best)
        for j in range(d):
            if not np.any(q[j] != 0):
                limit = lam[j] * unit[j]
                length = np.sqrt(slope[j] @ slope[j])
                if length > limit and bend[j].max() > 0:
                    moved = q.copy()
                    moved[j] = -slope[j] * (1 - limit / length) / (m * bend[j].max())
                    candidates.append(
                        project(case, reference, reference.pack(moved, a))
                    )
        values = [reference.value(candidate) for candidate in candidates]
        k = int(np.argmin(values))
        if not values[k] < best_value:
            break
        best, best_value = candidates[k], values[k]
    return best


def project(case, reference, u):
    q, a = reference.unpack(u)
    q = q.copy()
    for j in case.common:
        q[j] = q[j].mean()
    for j, sign in case.signs.items():
        q[j] = sign * np.maximum(sign * q[j], 0)
    return reference.pack(q, a)


def row_norms(reference, u, lam, unit):
    """Value, gradient and Hessian of Σ lam_j ‖p^j‖ where rows are not zero."""
    q, _ = reference.unpack(u)
    d, m = q.shape
    k = d + 1
    value, gradient = LONG(0.0), np.zeros(m * k, LONG)
    hessian = np.zeros((m * k, m * k), LONG)
    for j in range(d):
        length = np.sqrt(q[j] @ q[j])
        if lam[j] > 0 and length > 0:
            weight, e = lam[j] * unit[j], q[j] / length
            value += weight * length
            gradient[j::k] = weight * e
            bend = (np.eye(m, dtype=LONG) - np.outer(e, e)) * weight / length
            places = np.arange(j, m * k, k)
            hessian[np.ix_(places, places)] += bend
    return value, gradient, hessian


def polish_common(reference, u, free, lam, unit):
    """Newton where rows of common effects are one unknown each."""
    case = reference.case
    d, m = case.X.shape[1], case.m
    k = d + 1
    # u = T v: one column for each common row, one for each other unknown.
    columns = []
    for place in range(m * k):
        j = place % k
        if j in case.common and place >= k:
            continue
        column = np.zeros(m * k, LONG)
        column[place] = 1.0
        if j in case.common:
            column[j::k] = 1.0
        if free[j, place // k] or (j in case.common and free[j].any()):
            columns.append(column)
    T = np.array(columns, LONG).T.reshape(m * k, -1)

    class Turned:
        def smooth(self, v):
            value, gradient, hessian = reference.smooth(u + T @ v)
            return value, T.T @ gradient, T.T @ hessian @ T

    def extra(v):
        value, gradient, hessian = row_norms(reference, u + T @ v, lam, unit)
        return value, T.T @ gradient, T.T @ hessian @ T

    v = newton(Turned(), np.zeros(T.shape[1], LONG), np.ones(T.shape[1], bool), extra)
    return u + T @ v


def polish_nuclear(reference, u, most=300):
    """Accelerated proximal gradients, with a step for each block of unknowns."""
    case = reference.case
    unit = (reference.scale / reference.deviation)[:, np.newaxis]
    lam = case.settings["lam"]
    A = reference.smooth(u)[2].astype(float)
    k = case.X.shape[1] + 1
    scale = np.ones((case.m, k))
    scale[:, :-1] = 1.0 / unit.ravel().astype(float)  # steps in the model's units
    scale[:, -1] = 1.0 / np.sqrt(np.maximum(np.diagonal(A)[k - 1 :: k], 1e-300))
    flat = scale.ravel()
    fixed = reference.fixed
    flat[fixed] = 0.0
    bound = np.linalg.eigvalsh(A * np.outer(flat, flat))[-1]
    if case.loss == "logistic":
        D = reference.design.astype(float) * flat
        S = reference.squares[0].astype(float) * flat
        weight = reference.rows[2].astype(float)
        bound = np.linalg.eigvalsh(0.25 * (D.T * weight) @ D + S.T @ S)[-1]
    if bound <= 0:
        return u
    best, best_value = u, reference.value(u)
    here, ahead, t = u, u, 1.0
    for _ in range(most):
        _, gradient, _ = reference.smooth(ahead)
        moved = ahead - flat**2 * gradient / bound
        q, a = reference.unpack(moved)
        U, s, V = np.linalg.svd((q * unit).astype(float), full_matrices=False)
        p = (U * np.maximum(s - lam / bound, 0.0)) @ V
        new = reference.pack(p / unit, a)
        value = reference.value(new)
        if value < best_value:
            best, best_value = new, value
        after = 0.5 * (1 + np.sqrt(1 + 4 * t * t))
        ahead = new + (t - 1) / after * (new - here)
        here, t = new, after
    return best


def judge(case):
    """What is wrong with a fit of this case, in words; nothing if all is well."""
    model, warned = case.fit()
    reference = Reference(case)
    q, a = reference.unknowns(model)
    u = reference.pack(q, a)
    value, null = reference.value(u), reference.null()
    faults = []
    if not (np.all(np.isfinite(model.coef_)) and np.isfinite(model.dual_gap_)):
        return ["not finite"]
    for j in case.common:
        if np.ptp(model.coef_[:, j]) > 0:
            faults.append("a common effect varies")
    for j, sign in case.signs.items():
        if np.any(sign * model.coef_[:, j] < 0):
            faults.append("a sign is not kept")
    unit = max(abs(null), LONG(1e-300))
    rounding = reference.rounding(u)
    off = abs(value - LONG(model.objective_)) - LONG(model.dual_gap_)
    if off > rounding + 1e-12 * unit:
        faults.append(f"published {float(value):.6g}, certified {model.objective_:.6g}")
    better = polish(reference, project(case, reference, u))
    lower = reference.value(better)
    false = value - LONG(model.dual_gap_) - lower
    if false > rounding + reference.rounding(better) + 1e-12 * unit:
        faults.append(
            f"false by {float(false / unit):.2g}: gap {float(model.dual_gap_ / unit):.2g}"
        )
    tol = case.settings["tol"]
    share = float(model.dual_gap_ / unit)
    if share > max(1.01 * tol, 2.1e-10) and not warned:
        faults.append(f"silent at {share:.2g} above tol {tol:g}")
    if share <= 0.99 * tol and warned:
        faults.append(f"warned at {share:.2g} below tol {tol:g}")
    return faults + (
        [f"(warned at {share:.2g}, true {float((value - lower) / unit):.2g})"]
        if warned
        else []
    )
