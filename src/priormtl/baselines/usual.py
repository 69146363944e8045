"""Usual methods: what people use for grouped tables instead of multi-task learning.

Each method sees all rows at once and the task of each row, as a column of dummies, a
category or a random effect:

``ridge-dummies``
    Ridge regression on standardised features and one dummy per task, the strength by
    generalised cross-validation. Classes: logistic regression with the same features,
    the strength by five inner folds.
``mixed-model``, ``mixed-slopes``
    Linear mixed model by REML (statsmodels ``MixedLM``): random intercepts, and also
    independent random slopes of up to ten features that vary within tasks. Classes:
    logistic regression with random intercepts by the Laplace approximation, as lme4
    does; there is no ``mixed-slopes`` for classes.
``lightgbm``
    Gradient boosting with the task as a category. Inner folds choose among five
    settings, two of them for small tasks, without which boosting ignores the task.
``gpboost``
    Gradient boosting with a random intercept per task; the number of trees by inner
    folds.
``last-value``
    The last target of the task, where a column gives the time of rows. Inner folds of
    the other methods then go forward in time.
``hist-gradient-boosting``, ``random-forest``
    scikit-learn's defaults with 300 trees (forests with at least five rows per leaf);
    the task as a category or, in forests and with more than 255 tasks, as the shrunken
    mean of its targets in other folds.

Packages are imported when a method is fitted.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from importlib.util import find_spec
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.linalg import qr
from scipy.optimize import minimize_scalar
from scipy.sparse import issparse
from scipy.special import expit, logit
from sklearn.base import BaseEstimator

from priormtl._arrays import Array, Index, Matrix
from priormtl.data import StackedRows, TaskData, TaskStatistics, place_labels
from priormtl.estimators import ClassificationTasks, MultiTaskEstimator, RegressionTasks
from priormtl.estimators.task_folds import column_times
from priormtl.fitted import task_array
from priormtl.selection import (
    Split,
    deal_rows,
    most_forward_splits,
    split_by_fold,
    split_forward,
)

MOST_CATEGORIES = 255  # of histogram boosting


class Rows(NamedTuple):
    """All rows, with the position of their task."""

    X: Array  # (n, d)
    y: Array  # (n,), 0 and 1 for classes
    codes: Index  # (n,)
    n_tasks: int
    weight: Array | None  # (n,); None: all equal
    time: Array | None = None  # (n,); then inner folds go forward in time


Predict = Callable[[Array, Index], Array]  # values or probabilities of rows (n,)


@dataclass(frozen=True, eq=False)
class Extended:
    """Predictions of a model of features with further columns for the task."""

    model: BaseEstimator
    extend: Predict  # features and tasks to the model's features
    classify: bool

    def __call__(self, X: Array, codes: Index) -> Array:
        Z = self.extend(X, codes)
        if self.classify:
            return np.asarray(self.model.predict_proba(Z))[:, 1]
        return np.asarray(self.model.predict(Z))


def stack_rows(data: TaskData) -> Rows:
    """Rows of all tasks, dense; a row counts once for each of its targets."""
    parts = [data.rows_of(i) for i in range(data.shape[1])]
    X = np.vstack([_dense(part[0]) for part in parts])
    y, weight = (np.concatenate([part[k] for part in parts]) for k in (1, 2))
    codes = np.repeat(np.arange(len(parts)), [len(part[1]) for part in parts])
    time = data.time if isinstance(data, StackedRows) else None
    given = None if np.ptp(weight) == 0 else weight
    return Rows(X, y, codes, len(parts), given, time)


def _dense(X: Matrix) -> Array:
    return X.toarray() if issparse(X) else np.asarray(X)


def _inner_splits(rows: Rows, n_folds: int, *, classify: bool) -> list[Split]:
    """Folds that are even within tasks and classes, or that go forward in time."""
    if rows.time is not None:
        horizon, known = 0.2, (rows.codes, rows.time)
        count = min(n_folds, 3, most_forward_splits(*known, horizon))
        return split_forward(*known, count, horizon)
    codes = rows.codes[:, np.newaxis]
    strata = 2 * codes + (rows.y[:, np.newaxis] > 0) if classify else codes
    folds = min(n_folds, len(codes))
    # Tasks may be absent in training here: these methods do without.
    return split_by_fold(deal_rows(strata, folds, kept=codes[:, :0]))


def log_loss(y: Array, share: Array) -> float:
    """Mean negative log-likelihood of probabilities, clipped to [0.001, 0.999]."""
    p = np.clip(share, 1e-3, 1.0 - 1e-3)
    return float(-np.mean(np.log(np.where(y > 0, p, 1.0 - p))))


# Ridge regression with dummies.

RIDGES = np.geomspace(1e-4, 1e4, 17)


def fit_ridge_dummies(rows: Rows, *, classify: bool) -> Predict:
    from sklearn.linear_model import LogisticRegression, RidgeCV  # noqa: PLC0415

    mean, scale = rows.X.mean(axis=0), rows.X.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    cells = len(rows.y) * (rows.X.shape[1] + rows.n_tasks)
    if cells > (most := 10**8):  # 800 MB
        raise ValueError(
            f"ridge-dummies needs a matrix of at most {most} numbers: "
            f"{len(rows.y)} rows with {rows.n_tasks} dummies are {cells}; leave it out."
        )
    extend = partial(_add_dummies, mean, scale, rows.n_tasks)
    Z = extend(rows.X, rows.codes)
    model: BaseEstimator = RidgeCV(RIDGES)
    if classify:
        costs = np.geomspace(1e-3, 1e3, 8)
        scores = np.zeros(len(costs))
        for train, test in _inner_splits(rows, 5, classify=True):
            weight = None if rows.weight is None else rows.weight[train]
            for k, cost in enumerate(costs):
                model = LogisticRegression(C=cost, max_iter=1000)
                model.fit(Z[train], rows.y[train], sample_weight=weight)
                share = np.asarray(model.predict_proba(Z[test]))[:, 1]
                scores[k] += log_loss(rows.y[test], share) * len(test)
        model = LogisticRegression(C=costs[int(np.argmin(scores))], max_iter=1000)
    model.fit(Z, rows.y, sample_weight=rows.weight)
    return Extended(model, extend, classify)


def _add_dummies(mean: Array, scale: Array, m: int, X: Array, codes: Index) -> Array:
    dummies = np.zeros((len(codes), m))
    known = np.flatnonzero(codes >= 0)
    dummies[known, codes[known]] = 1.0
    return np.hstack([(X - mean) / scale, dummies])


def fit_last_value(rows: Rows, *, classify: bool) -> Predict:
    """Predict the last target of each task, or the mean of those of its last time."""
    if rows.time is None:
        raise ValueError("last-value needs the column of time: pass time.")
    ends = np.full(rows.n_tasks, -np.inf)
    np.maximum.at(ends, rows.codes, rows.time)
    last = rows.time == ends[rows.codes]
    weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
    sums, counts = (
        np.bincount(rows.codes[last], part[last], rows.n_tasks)
        for part in (weight * rows.y, weight)
    )
    return partial(_look_up, sums / counts)


def _look_up(values: Array, X: Array, codes: Index) -> Array:
    """Value of the task of each row; the mean of all for new tasks."""
    return np.append(values, values.mean())[codes]


# Mixed models.


def fit_mixed(rows: Rows, *, classify: bool, slopes: bool) -> Predict:
    """Fixed effects of all features, random effects of the task, by REML.

    Predictions use the best linear unbiased predictors of the random effects,
    Ψ Zᵢᵀ (Zᵢ Ψ Zᵢᵀ + σ²I)⁻¹ (yᵢ − Xᵢβ), which also exist where an estimated variance
    is zero (there statsmodels refuses them).
    """
    from statsmodels.regression.mixed_linear_model import (  # noqa: PLC0415
        MixedLM,
        MixedLMParams,
    )

    if rows.weight is not None:
        raise ValueError("mixed models take no sample weights: leave them out.")
    mean, scale = rows.X.mean(axis=0), rows.X.std(axis=0)
    used = _independent_columns(rows.X, mean, scale)
    mean, scale = mean[used], scale[used]
    F = (rows.X[:, used] - mean) / scale
    varying = _varying_columns(F, rows) if slopes else np.zeros(0, dtype=np.intp)
    Xf = np.column_stack([np.ones(len(F)), F])
    if classify:
        beta, intercepts = fit_logistic_intercepts(Xf, rows)
        effects = intercepts[:, np.newaxis]
        return MixedModel(used, mean, scale, beta, varying, effects, expit)
    Z = np.column_stack([np.ones(len(F)), F[:, varying]])
    size = Z.shape[1]
    free = None
    if size > 1:  # independent slopes
        free = MixedLMParams.from_components(np.ones(Xf.shape[1]), np.eye(size))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # variances of zero are not a failure here
        model = MixedLM(rows.y, Xf, groups=rows.codes, exog_re=Z)
        result = model.fit(reml=True, free=free)
    beta, psi, noise = result.fe_params, np.asarray(result.cov_re), result.scale
    residual = rows.y - Xf @ beta
    effects = np.zeros((rows.n_tasks, size))
    for i in range(rows.n_tasks):
        own = rows.codes == i
        Zi = Z[own]
        V = Zi @ psi @ Zi.T + noise * np.eye(len(Zi))
        effects[i] = psi @ Zi.T @ np.linalg.solve(V, residual[own])
    return MixedModel(used, mean, scale, beta, varying, effects)


def fit_logistic_intercepts(X: Array, rows: Rows) -> tuple[Array, Array]:
    """Logistic regression with random intercepts: coefficients (p,), intercepts (m,).

    Maximises the Laplace approximation of the marginal likelihood over the standard
    deviation s of the intercepts u: log p(y | β, u) − ‖u‖²/(2s²) − ½ Σᵢ log(1 + s² wᵢ)
    at the best (β, u), with wᵢ the summed variances of the rows of task i.
    """
    y, codes, m = rows.y, rows.codes, rows.n_tasks
    beta, u = np.zeros(X.shape[1]), np.zeros(m)

    def likelihood(beta: Array, u: Array, variance: float) -> float:
        eta = X @ beta + u[codes]
        return float(np.sum(y * eta - np.logaddexp(0.0, eta)) - u @ u / (2 * variance))

    def solve(log_s: float) -> float:
        nonlocal beta, u
        variance = float(np.exp(2.0 * log_s))
        value = likelihood(beta, u, variance)
        total: Array = np.zeros(m)
        for _ in range(50):
            share = expit(X @ beta + u[codes])
            w = share * (1.0 - share)
            total = np.bincount(codes, w, m).astype(np.float64)
            g, h = X.T @ (y - share), np.bincount(codes, y - share, m) - u / variance
            D = total + 1.0 / variance
            B = np.column_stack([np.bincount(codes, w * x, m) for x in X.T])
            # The intercepts are eliminated: D is diagonal.
            S = (X.T * w) @ X - B.T @ (B / D[:, np.newaxis])
            # A little ridge, for classes that a feature separates.
            S[np.diag_indices_from(S)] += 1e-8 * len(y)
            step = np.linalg.solve(S, g - B.T @ (h / D))
            move = (h - B @ step) / D
            size = 1.0
            while size > 1e-4:
                new = likelihood(beta + size * step, u + size * move, variance)
                if new >= value:
                    break
                size /= 2.0
            beta, u = beta + size * step, u + size * move
            done = new - value <= 1e-9 * (1.0 + abs(value))
            value = new
            if done:
                break
        return -value + 0.5 * float(np.sum(np.log1p(variance * total)))

    best = minimize_scalar(solve, bounds=(-4.0, 2.5), method="bounded")
    solve(float(best.x))
    return beta, u


def _independent_columns(X: Array, mean: Array, scale: Array) -> Index:
    """Columns without those that are constant or combinations of others."""
    moving = np.flatnonzero(scale > 0)
    Z = (X[:, moving] - mean[moving]) / scale[moving]
    _, R, order = qr(Z, mode="economic", pivoting=True)
    size = np.abs(np.diag(R))
    kept = order[: len(size)][size > 1e-8 * size.max(initial=0.0)]
    return moving[np.sort(kept)]


def _varying_columns(F: Array, rows: Rows) -> Index:
    """Columns that vary within tasks, at most ten; those of two values come last."""
    counts = np.maximum(np.bincount(rows.codes, minlength=rows.n_tasks), 1)
    numbers: list[int] = []
    switches: list[int] = []
    for j, column in enumerate(F.T):
        centre = np.bincount(rows.codes, column, rows.n_tasks) / counts
        if np.mean((column - centre[rows.codes]) ** 2) > 1e-8:
            (numbers if len(np.unique(column)) > 2 else switches).append(j)
    return np.array([*numbers, *switches][:10], dtype=np.intp)


@dataclass(frozen=True, eq=False)
class MixedModel:
    """Predictions of fixed effects and of the random effects of the tasks."""

    used: Index  # columns of X
    mean: Array
    scale: Array
    beta: Array  # intercept and fixed effects
    varying: Index  # of the used columns, those with random slopes
    effects: Array  # (m, 1 + slopes)
    link: Callable[[Array], Array] = np.asarray

    def __call__(self, X: Array, codes: Index) -> Array:
        F = (X[:, self.used] - self.mean) / self.scale
        Z = np.column_stack([np.ones(len(F)), F[:, self.varying]])
        effects = np.where(codes[:, np.newaxis] >= 0, self.effects[codes], 0.0)
        own = np.sum(Z * effects, axis=1)
        return self.link(self.beta[0] + F @ self.beta[1:] + own)


# Boosting with the task as a category, or as a random effect.

BOOSTING: Mapping[str, object] = {
    "learning_rate": 0.05,
    "num_threads": 1,
    "seed": 0,
    "deterministic": True,
    "force_row_wise": True,
    "verbose": -1,
}
# By default a category needs 100 rows, so that small tasks are never told apart.
SMALL_GROUPS = {
    "min_data_per_group": 2,
    "cat_smooth": 1.0,
    "cat_l2": 1.0,
    "max_cat_threshold": 256,
    "min_data_in_leaf": 3,
}
SETTINGS: Sequence[Mapping[str, object]] = (
    {"num_leaves": 31, "min_data_in_leaf": 20},
    {"num_leaves": 7, "min_data_in_leaf": 10},
    {"num_leaves": 63, "min_data_in_leaf": 5},
    {"num_leaves": 15, **SMALL_GROUPS},
    {"num_leaves": 5, **SMALL_GROUPS},
)


def fit_lightgbm(rows: Rows, *, classify: bool) -> Predict:
    """Choose a setting and a number of trees on three inner folds, then refit."""
    import lightgbm as lgb  # noqa: PLC0415

    Z = _add_code(rows.X, rows.codes)
    last = [Z.shape[1] - 1]
    goal = {"objective": "binary" if classify else "regression"}
    stop = lgb.early_stopping(50, verbose=False)

    def data(part: Index | slice) -> lgb.Dataset:
        own = None if rows.weight is None else rows.weight[part]
        return lgb.Dataset(Z[part], rows.y[part], weight=own, categorical_feature=last)

    splits = _inner_splits(rows, 3, classify=classify)
    scores, rounds = np.zeros(len(SETTINGS)), np.zeros(len(SETTINGS))
    for k, setting in enumerate(SETTINGS):
        settings = {**BOOSTING, **goal, **setting}
        for train, test in splits:
            booster = lgb.train(
                settings, data(train), 2000, [data(test)], callbacks=[stop]
            )
            ((score,),) = (found.values() for found in booster.best_score.values())
            scores[k] += score * len(test)
            rounds[k] += booster.best_iteration / len(splits)
    best = int(np.argmin(scores))
    settings = {**BOOSTING, **goal, **SETTINGS[best]}
    booster = lgb.train(settings, data(slice(None)), max(1, round(rounds[best])))
    # Boosters predict probabilities of the second class by themselves.
    return Extended(booster, _add_code, classify=False)


def fit_gpboost(rows: Rows, *, classify: bool) -> Predict:
    """Trees of the features and a random intercept per task, fitted together."""
    import gpboost as gpb  # noqa: PLC0415

    if rows.weight is not None:
        raise ValueError("gpboost takes no sample weights: leave them out.")
    likelihood = "bernoulli_logit" if classify else "gaussian"
    settings = {**BOOSTING, "num_leaves": 15, "min_data_in_leaf": 5}

    def effects() -> gpb.GPModel:
        return gpb.GPModel(
            group_data=rows.codes, likelihood=likelihood, num_parallel_threads=1
        )

    folds = [tuple(split) for split in _inner_splits(rows, 3, classify=classify)]
    found = gpb.cv(
        settings,
        gpb.Dataset(rows.X, rows.y),
        gp_model=effects(),
        folds=folds,
        num_boost_round=500,
        early_stopping_rounds=25,
        use_gp_model_for_validation=True,
        verbose_eval=False,
    )
    trees = len(next(values for name, values in found.items() if "-mean" in name))
    table = gpb.Dataset(rows.X, rows.y)
    booster = gpb.train(settings, table, gp_model=effects(), num_boost_round=trees)
    return partial(_ask_gpboost, booster)


def _ask_gpboost(booster: BaseEstimator, X: Array, codes: Index) -> Array:
    found = booster.predict(
        data=X, group_data_pred=codes, predict_var=False, pred_latent=False
    )
    return np.asarray(found["response_mean"])


def fit_histograms(rows: Rows, *, classify: bool) -> Predict:
    from sklearn.ensemble import (  # noqa: PLC0415
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
    )

    kind = HistGradientBoostingClassifier if classify else HistGradientBoostingRegressor
    model: BaseEstimator = kind(max_iter=300, random_state=0)
    if rows.n_tasks > MOST_CATEGORIES:
        return _fit_encoded(model, rows, classify)
    model.set_params(categorical_features=[rows.X.shape[1]])
    model.fit(_add_code(rows.X, rows.codes), rows.y, sample_weight=rows.weight)
    return Extended(model, _add_code, classify)


def fit_forest(rows: Rows, *, classify: bool) -> Predict:
    from sklearn.ensemble import (  # noqa: PLC0415
        RandomForestClassifier,
        RandomForestRegressor,
    )

    kind = RandomForestClassifier if classify else RandomForestRegressor
    return _fit_encoded(kind(300, min_samples_leaf=5, random_state=0), rows, classify)


def _fit_encoded(model: BaseEstimator, rows: Rows, classify: bool) -> Predict:
    """Fit with the shrunken mean target of the task as a feature.

    In training that mean is of other folds: a row must not see its own target.
    """
    own = np.empty(len(rows.y))
    for train, test in _inner_splits(rows, 5, classify=classify):
        own[test] = _task_means(rows, train)[rows.codes[test]]
    y = rows.y.astype(int) if classify else rows.y
    model.fit(np.column_stack([rows.X, own]), y, sample_weight=rows.weight)
    means = _task_means(rows, np.arange(len(y)))
    return Extended(model, partial(_add_mean, means), classify)


def _task_means(rows: Rows, part: Index) -> Array:
    """Mean target of each task (m,), shrunken by its variance between and within."""
    y, codes, m = rows.y[part], rows.codes[part], rows.n_tasks
    counts, centre = np.bincount(codes, minlength=m), float(y.mean())
    means = np.bincount(codes, y, m) / np.maximum(counts, 1)
    seen = int(np.count_nonzero(counts))
    within = float(np.sum((y - means[codes]) ** 2)) / max(1, len(y) - seen)
    spread = float(np.sum(counts * (means - centre) ** 2)) / len(y)
    between = max(spread - within * seen / len(y), 1e-12 * spread)
    share = counts * between / np.maximum(counts * between + within, 1e-300)
    return np.asarray(centre + share * (means - centre))


def _add_code(X: Array, codes: Index) -> Array:
    return np.column_stack([X, np.where(codes >= 0, codes, np.nan)])


def _add_mean(means: Array, X: Array, codes: Index) -> Array:
    return np.column_stack([X, _look_up(means, X, codes)])


# By name.


class UsualMethod(NamedTuple):
    """How a usual method is fitted, and the package that it needs."""

    fit: Callable[..., Predict]
    package: str
    classifies: bool = True


USUAL: Mapping[str, UsualMethod] = {
    "ridge-dummies": UsualMethod(fit_ridge_dummies, "sklearn"),
    "mixed-model": UsualMethod(partial(fit_mixed, slopes=False), "statsmodels"),
    "mixed-slopes": UsualMethod(partial(fit_mixed, slopes=True), "statsmodels", False),
    "lightgbm": UsualMethod(fit_lightgbm, "lightgbm"),
    "gpboost": UsualMethod(fit_gpboost, "gpboost"),
    "last-value": UsualMethod(fit_last_value, "sklearn"),
    "hist-gradient-boosting": UsualMethod(fit_histograms, "sklearn"),
    "random-forest": UsualMethod(fit_forest, "sklearn"),
}


def is_installed(name: str) -> bool:
    return find_spec(USUAL[name].package) is not None


def require_package(name: str) -> None:
    if not is_installed(name):
        package = USUAL[name].package
        # gpboost has no wheels for some systems, so that it is in no extra.
        wanted = package if package == "gpboost" else "'priormtl[compare]'"
        raise ImportError(
            f"{name} needs the package {package}: pip install {wanted}.", name=package
        )


@dataclass(eq=False, repr=False)
class _Usual(MultiTaskEstimator):
    """One of the usual methods, with the interface of our estimators."""

    _classifies: ClassVar[bool]

    method: str = "ridge-dummies"
    _: KW_ONLY
    task: object = None
    time: object = None

    def _read_times(self, X: object) -> Array | None:
        return None if self.time is None else column_times(X, self.time)

    def _fit_tasks(self, data: TaskData | TaskStatistics) -> None:
        if not isinstance(data, TaskData):
            raise TypeError(f"{type(self).__name__} needs rows: call fit.")
        require_package(self.method)
        rows = stack_rows(data)
        if self._classifies:
            rows = rows._replace(y=(rows.y > 0).astype(np.float64))
        self._predict = USUAL[self.method].fit(rows, classify=self._classifies)
        self.tasks_ = task_array(data.tasks)

    def _row_scores(self, X: Matrix, labels: object) -> tuple[Array, Index]:
        n, m = X.shape[0], len(self.tasks_)
        if labels is None:
            codes = self._find_tasks(labels, n)
            return self._score(X, codes), codes
        codes = place_labels(labels, self.tasks_.tolist(), n)[0]
        # Tasks that were not seen are −1 from here on.
        scores = self._score(X, np.where(codes < m, codes, -1))
        return scores, np.where(codes < m, codes, 0)

    def _task_scores(self, X: Matrix, i: int) -> Array:
        return self._score(X, np.full(X.shape[0], i, dtype=np.intp))

    def _score(self, X: Matrix, codes: Index) -> Array:
        return self._predict(_dense(X), codes)


class UsualRegressor(RegressionTasks, _Usual):
    """A usual method for regression on grouped tables: LightGBM, a mixed model, ….

    Parameters
    ----------
    method : str
        "ridge-dummies", "mixed-model", "mixed-slopes", "lightgbm", "gpboost",
        "hist-gradient-boosting", "random-forest" or "last-value". The mixed models
        need statsmodels, the boosting methods the package of their name:
        ``priormtl[compare]``. New tasks are predicted without what tasks add.
    task : str or int, optional
        Column of X that holds the tasks.
    time : str or int, optional
        Column of X that orders the rows of each task; inner folds then go forward in
        time. It stays a feature. "last-value" needs it.

    Attributes
    ----------
    tasks_ : array (m,)
        Task labels.

    Examples
    --------
    >>> from priormtl.baselines import UsualRegressor
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> model = UsualRegressor("ridge-dummies").fit(X, y, task=task)
    >>> bool(model.score(X, y, task=task) > 0.5)
    True
    """

    _classifies = False


class UsualClassifier(ClassificationTasks, _Usual):
    """A usual method for classification, otherwise as :class:`UsualRegressor`.

    There is no "mixed-slopes" for classes.

    Examples
    --------
    >>> from priormtl.baselines import UsualClassifier
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> model = UsualClassifier("ridge-dummies").fit(X, y > 0, task=task)
    >>> model.predict_proba(X, task=task).shape
    (120, 2)
    """

    _classifies = True
    # Scores are log-odds, and tasks of one class are no problem.
    loss = "logistic"
    fit_intercept = False

    def _score(self, X: Matrix, codes: Index) -> Array:
        share = np.clip(super()._score(X, codes), 1e-9, 1.0 - 1e-9)
        return np.asarray(logit(share))
