"""Usual methods: what people use for grouped tables instead of multi-task learning.

Each method sees all rows at once and the task of each row, as a column of dummies, a
category or a random effect:

``ridge-dummies``
    Ridge regression on standardised features and one dummy per task, the strength by
    generalised cross-validation. Classes, counts and amounts: logistic, Poisson and
    gamma regression of scikit-learn, the strength by five inner folds.
``mixed-model``, ``mixed-slopes``
    Linear mixed model by REML (statsmodels ``MixedLM``): random intercepts, and also
    independent random slopes of up to ten features that vary within tasks. Two classes
    and counts: random intercepts by the Laplace approximation, as lme4 does, since
    statsmodels has a variational one without offsets only.
``lightgbm``, ``gpboost``
    Gradient boosting of the matching loss, with the task as a category (inner folds
    choose among five settings, two of them for small tasks, without which boosting
    ignores the task), or with a random intercept per task.
``last-value``
    The last target of the task, where a column gives the time of rows. Inner folds of
    the other methods then go forward in time.
``hist-gradient-boosting``, ``random-forest``
    scikit-learn's defaults with 300 trees (forests with at least five rows per leaf);
    the task as a category or, in forests and with more than 255 tasks, as the shrunken
    mean of its targets in other folds.

Exposure and offset enter as they do in our trees: y / exposure, weighted by exposure,
has the same Poisson loss in the rate, and y / exposure has the same gamma loss. Means
of negative binomial counts are estimated by Poisson loss, but for the mixed model.
Packages are imported when a method is fitted.
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
from scipy.linalg import qr
from scipy.optimize import minimize_scalar
from scipy.sparse import issparse
from scipy.special import logit
from sklearn.base import BaseEstimator

from priormtl._arrays import Array, Index, Matrix
from priormtl.checks import check_choice
from priormtl.data import (
    SharedRows,
    StackedRows,
    TaskData,
    TaskStatistics,
    place_labels,
)
from priormtl.estimators import ClassificationTasks, MultiTaskEstimator, RegressionTasks
from priormtl.estimators.regressor import REGRESSION_LOSSES
from priormtl.fitted import task_array
from priormtl.losses import Family, Logistic, Squared, find_family
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
    y: Array  # (n,), numbers from 0 on for classes
    codes: Index  # (n,)
    n_tasks: int
    weight: Array | None  # (n,); None: all equal
    time: Array | None = None  # (n,); then inner folds go forward in time
    n_classes: int = 0  # 0: targets are numbers
    family: Family | None = None  # of their loss; None: squared, or classes
    offset: Array | None = None  # (n,) known part of scores

    @property
    def weights(self) -> Array:
        return np.ones(len(self.y)) if self.weight is None else self.weight

    def without_offset(self) -> "Rows":
        """Rows with the same loss in what is left to be predicted."""
        if self.offset is None:
            return self
        loss = self.family or Squared()
        y, weight = loss.without_offset(self.y, self.weights, self.offset)
        given = None if np.ptp(weight) == 0 else weight
        return self._replace(y=y, weight=given, offset=None)


# Values of rows (n,), probabilities of the second of two classes (n,) or of all (n, K).
Predict = Callable[[Array, Index], Array]


@dataclass(frozen=True, eq=False)
class Extended:
    """Predictions of a model of features with further columns for the task."""

    model: BaseEstimator
    extend: Predict  # features and tasks to the model's features
    n_classes: int = 0
    unit: float = 1.0  # of the targets that the model predicts

    def __call__(self, X: Array, codes: Index) -> Array:
        return self.unit * ask(self.model, self.extend(X, codes), self.n_classes)


def ask(model: BaseEstimator, Z: Array, n_classes: int) -> Array:
    """Predictions of a model of scikit-learn; its training may lack a class."""
    if not n_classes:
        return np.asarray(model.predict(Z))
    shares = np.zeros((len(Z), n_classes))
    shares[:, np.asarray(model.classes_, np.intp)] = model.predict_proba(Z)
    return shares[:, 1] if n_classes == 2 else shares


def stack_rows(data: TaskData) -> Rows:
    """Rows of all tasks, dense; a row counts once for each of its targets."""
    if isinstance(data, SharedRows):
        data = data.with_matrix(_dense(data.X)).stacked()
    assert isinstance(data, StackedRows)
    given = None if np.ptp(data.weight) == 0 else data.weight
    known = data.task_codes, len(data.tasks), given, data.time
    return Rows(_dense(data.X), data.y, *known, offset=data.offset)


def _dense(X: Matrix) -> Array:
    return X.toarray() if issparse(X) else np.asarray(X)


def _inner_splits(rows: Rows, n_folds: int) -> list[Split]:
    """Folds that are even within tasks and classes, or that go forward in time."""
    if rows.time is not None:
        horizon, known = 0.2, (rows.codes, rows.time)
        count = min(n_folds, 3, most_forward_splits(*known, horizon))
        return split_forward(*known, count, horizon)
    codes = rows.codes[:, np.newaxis]
    strata = codes
    if rows.n_classes:
        strata = rows.n_classes * codes + rows.y[:, np.newaxis].astype(np.intp)
    folds = min(n_folds, len(codes))
    # Tasks may be absent in training here: these methods do without.
    return split_by_fold(deal_rows(strata, folds, kept=codes[:, :0]))


def log_loss(y: Array, share: Array, weight: Array | None = None) -> float:
    """Mean negative log-likelihood of probabilities, clipped to [0.001, 0.999].

    Those of the second class (n,), or of classes with numbers ``y`` (n, K).
    """
    p = share if share.ndim == 2 else np.column_stack([1.0 - share, share])
    own = p[np.arange(len(y)), np.maximum(y, 0).astype(np.intp)]
    return -float(np.average(np.log(np.clip(own, 1e-3, 1.0 - 1e-3)), weights=weight))


def judge_by(loss: str) -> Family | None:
    """Family whose deviance judges means; None for squared loss.

    Negative binomial deviance has a parameter, which only some methods estimate: their
    means are judged as those of Poisson counts.
    """
    return find_family("poisson" if loss == "negative_binomial" else loss)


def deviance(
    family: Family, y: Array, mean: Array, weight: Array | None = None
) -> float:
    """Mean deviance of predicted means."""
    return 2.0 * float(np.average(family.loss(family.link(mean), y), weights=weight))


# Ridge regression with dummies.


def fit_ridge_dummies(rows: Rows) -> Predict:
    from sklearn.linear_model import (  # noqa: PLC0415
        GammaRegressor,
        LogisticRegression,
        PoissonRegressor,
        RidgeCV,
    )

    rows = rows.without_offset()
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
    if not rows.n_classes and rows.family is None:
        model = RidgeCV(np.geomspace(1e-4, 1e4, 17)).fit(
            Z, rows.y, sample_weight=rows.weight
        )
        return Extended(model, extend)
    # The others minimise C · loss + ½‖w‖², or mean loss + alpha/2 ‖w‖².
    y, weight, family, unit = rows.y, rows.weights, rows.family, 1.0
    if family is None:
        grid = [
            LogisticRegression(C=c, max_iter=1000) for c in 10.0 ** np.arange(-3, 4)
        ]
    else:
        kind = GammaRegressor if family.name == "gamma" else PoissonRegressor
        settings = {"solver": "newton-cholesky", "max_iter": 1000}
        grid = [kind(alpha=a, **settings) for a in np.geomspace(1e-5, 1e2, 15)]
        unit = float(np.average(y, weights=weight))  # so that strengths have none
    scores = np.zeros(len(grid))
    for train, test in _inner_splits(rows, 5):
        for k, model in enumerate(grid):
            model.fit(Z[train], y[train] / unit, sample_weight=weight[train])
            predicted = unit * ask(model, Z[test], rows.n_classes)
            score = log_loss if family is None else partial(deviance, family)
            scores[k] += score(y[test], predicted, weight[test]) * weight[test].sum()
    model = grid[int(np.argmin(scores))].fit(Z, y / unit, sample_weight=weight)
    return Extended(model, extend, rows.n_classes, unit)


def _add_dummies(mean: Array, scale: Array, m: int, X: Array, codes: Index) -> Array:
    dummies = np.zeros((len(codes), m))
    known = np.flatnonzero(codes >= 0)
    dummies[known, codes[known]] = 1.0
    return np.hstack([(X - mean) / scale, dummies])


def fit_last_value(rows: Rows) -> Predict:
    """Predict the last target of each task, or the mean of those of its last time."""
    rows = rows.without_offset()
    if rows.time is None:
        raise ValueError("last-value needs the column of time: pass time.")
    ends = np.full(rows.n_tasks, -np.inf)
    np.maximum.at(ends, rows.codes, rows.time)
    last = np.flatnonzero(rows.time == ends[rows.codes])
    weight = rows.weights[last, np.newaxis]
    sums = _sum_by_task(rows, last, weight * _targets(rows)[last])
    return partial(_look_up, sums / _sum_by_task(rows, last, weight))


def _targets(rows: Rows) -> Array:
    """Targets (n, 1), or with more than two classes whether a row is of each (n, K)."""
    if rows.n_classes <= 2:
        return rows.y[:, np.newaxis]
    return (rows.y[:, np.newaxis] == np.arange(rows.n_classes)).astype(np.float64)


def _sum_by_task(rows: Rows, part: Index, values: Array) -> Array:
    """Sums of the values of some rows (n, k) over tasks (m, k)."""
    codes, m = rows.codes[part], rows.n_tasks
    return np.column_stack([np.bincount(codes, column, m) for column in values.T])


def _look_up(values: Array, X: Array, codes: Index) -> Array:
    """Values (m, k) of the task of each row; the mean of all for new tasks."""
    found = np.vstack([values, values.mean(axis=0)])[codes]
    return found[:, 0] if found.shape[1] == 1 else found


# Mixed models.


def fit_mixed(rows: Rows, *, slopes: bool) -> Predict:
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
    family = rows.family
    if rows.n_classes:
        family, rows = Logistic(), rows._replace(y=2.0 * rows.y - 1.0)
    if family is not None:
        beta, intercepts = fit_random_intercepts(Xf, rows, family)
        effects = intercepts[:, np.newaxis]
        return MixedModel(used, mean, scale, beta, varying, effects, family.mean)
    rows = rows.without_offset()
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


def fit_random_intercepts(X: Array, rows: Rows, family: Family) -> tuple[Array, Array]:
    """Generalised linear mixed model: coefficients (p,), random intercepts (m,).

    Maximises the Laplace approximation of the marginal likelihood over the standard
    deviation s of the intercepts u: log p(y | β, u) − ‖u‖²/(2s²) − ½ Σᵢ log(1 + s² wᵢ)
    at the best (β, u), with wᵢ the summed f″ of the rows of task i. A dispersion is the
    most likely one at these, and both are estimated in turn.
    """
    y, codes, m = rows.y, rows.codes, rows.n_tasks
    known = np.zeros(len(y)) if rows.offset is None else rows.offset
    beta, u = np.zeros(X.shape[1]), np.zeros(m)
    beta[0] = family.link(y.mean(keepdims=True))[0] - np.mean(
        known
    )  # X begins with ones

    def lost(beta: Array, u: Array, variance: float) -> float:
        losses = family.loss(X @ beta + u[codes] + known, y)
        return float(np.sum(losses) + u @ u / (2 * variance))

    def solve(log_s: float) -> float:
        nonlocal beta, u
        variance = float(np.exp(2.0 * log_s))
        value = lost(beta, u, variance)
        total: Array = np.zeros(m)
        for _ in range(50):
            eta = X @ beta + u[codes] + known
            residual, w = -family.slope(eta, y), family.bend(eta, y)
            total = np.bincount(codes, w, m).astype(np.float64)
            g, h = X.T @ residual, np.bincount(codes, residual, m) - u / variance
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
                new = lost(beta + size * step, u + size * move, variance)
                if new <= value:
                    break
                size /= 2.0
            beta, u = beta + size * step, u + size * move
            done = value - new <= 1e-9 * (1.0 + abs(value))
            value = new
            if done:
                break
        return value + 0.5 * float(np.sum(np.log1p(variance * total)))

    for _ in range(5 if family.has_dispersion else 1):
        best = minimize_scalar(solve, bounds=(-4.0, 2.5), method="bounded")
        solve(float(best.x))
        family = family.refit(X @ beta + u[codes] + known, y, np.ones(len(y)))
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


def fit_lightgbm(rows: Rows) -> Predict:
    """Choose a setting and a number of trees on three inner folds, then refit."""
    import lightgbm as lgb  # noqa: PLC0415

    rows = rows.without_offset()
    Z = _add_code(rows.X, rows.codes)
    last = [Z.shape[1] - 1]
    goal: dict[str, object] = {
        "objective": "binary" if rows.n_classes else "regression"
    }
    if rows.family is not None:
        goal = {"objective": rows.family.boosting}
    if rows.n_classes > 2:
        goal = {"objective": "multiclass", "num_class": rows.n_classes}
    stop = lgb.early_stopping(50, verbose=False)

    def data(part: Index | slice) -> lgb.Dataset:
        own = None if rows.weight is None else rows.weight[part]
        return lgb.Dataset(Z[part], rows.y[part], weight=own, categorical_feature=last)

    splits = _inner_splits(rows, 3)
    plain = {31: 20, 7: 10, 63: 5}  # rows in a leaf by leaves
    chosen = [{"num_leaves": n, "min_data_in_leaf": k} for n, k in plain.items()]
    tried: list[dict[str, object]] = [{**BOOSTING, **goal, **one} for one in chosen]
    tried += [{**BOOSTING, **goal, **SMALL_GROUPS, "num_leaves": n} for n in (15, 5)]
    scores, rounds = np.zeros((2, len(tried)))
    for k, settings in enumerate(tried):
        for train, test in splits:
            booster = lgb.train(
                settings, data(train), 2000, [data(test)], callbacks=[stop]
            )
            ((score,),) = (found.values() for found in booster.best_score.values())
            scores[k] += score * len(test)
            rounds[k] += booster.best_iteration / len(splits)
    best = int(np.argmin(scores))
    booster = lgb.train(tried[best], data(slice(None)), max(1, round(rounds[best])))
    # Boosters predict probabilities by themselves.
    return Extended(booster, _add_code)


def fit_gpboost(rows: Rows) -> Predict:
    """Trees of the features and a random intercept per task, fitted together."""
    import gpboost as gpb  # noqa: PLC0415

    if rows.weight is not None:
        raise ValueError("gpboost takes no sample weights: leave them out.")
    if rows.family is not None and rows.offset is not None:
        raise ValueError("gpboost takes no exposure and no offset: leave it out.")
    rows = rows.without_offset()
    likelihood = "bernoulli_logit" if rows.n_classes else "gaussian"
    if rows.family is not None:
        likelihood = rows.family.name
    settings = {**BOOSTING, "num_leaves": 15, "min_data_in_leaf": 5}

    def effects() -> gpb.GPModel:
        return gpb.GPModel(
            group_data=rows.codes, likelihood=likelihood, num_parallel_threads=1
        )

    found = gpb.cv(
        settings,
        gpb.Dataset(rows.X, rows.y),
        gp_model=effects(),
        folds=[tuple(split) for split in _inner_splits(rows, 3)],
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


def fit_histograms(rows: Rows) -> Predict:
    from sklearn import ensemble  # noqa: PLC0415

    rows, model = rows.without_offset(), ensemble.HistGradientBoostingRegressor()
    if rows.n_classes:
        model = ensemble.HistGradientBoostingClassifier()
    elif rows.family is not None:
        model.set_params(loss=rows.family.boosting)
    model.set_params(max_iter=300, random_state=0)
    if rows.n_tasks > MOST_CATEGORIES:
        return _fit_encoded(model, rows)
    model.set_params(categorical_features=[rows.X.shape[1]])
    model.fit(_add_code(rows.X, rows.codes), rows.y, sample_weight=rows.weight)
    return Extended(model, _add_code, rows.n_classes)


def fit_forest(rows: Rows) -> Predict:
    from sklearn import ensemble  # noqa: PLC0415

    rows, model = rows.without_offset(), ensemble.RandomForestRegressor()
    if rows.n_classes:
        model = ensemble.RandomForestClassifier()
    elif rows.family is not None and rows.family.boosting == "poisson":
        model.set_params(criterion="poisson")
    model.set_params(n_estimators=300, min_samples_leaf=5, random_state=0)
    return _fit_encoded(model, rows)


def _fit_encoded(model: BaseEstimator, rows: Rows) -> Predict:
    """Fit with the shrunken mean target of the task as a feature.

    In training that mean is of other folds: a row must not see its own target.
    """
    own = np.empty_like(_targets(rows))
    for train, test in _inner_splits(rows, 5):
        own[test] = _task_means(rows, train)[rows.codes[test]]
    y = rows.y.astype(int) if rows.n_classes else rows.y
    model.fit(np.column_stack([rows.X, own]), y, sample_weight=rows.weight)
    means = _task_means(rows, np.arange(len(y)))
    return Extended(model, partial(_add_mean, means), rows.n_classes)


def _task_means(rows: Rows, part: Index) -> Array:
    """Mean targets of each task (m, k), shrunken by variances between and within."""
    codes, y = rows.codes[part], _targets(rows)[part]
    counts = _sum_by_task(rows, part, np.ones((len(y), 1)))
    means = _sum_by_task(rows, part, y) / np.maximum(counts, 1.0)
    centre, seen = y.mean(axis=0), int(np.count_nonzero(counts))
    within = np.sum((y - means[codes]) ** 2, axis=0) / max(1, len(y) - seen)
    spread = np.sum(counts * (means - centre) ** 2, axis=0) / len(y)
    between = np.maximum(spread - within * seen / len(y), 1e-12 * spread)
    share = counts * between / np.maximum(counts * between + within, 1e-300)
    return np.asarray(centre + share * (means - centre))


def _add_code(X: Array, codes: Index) -> Array:
    return np.column_stack([X, np.where(codes >= 0, codes, np.nan)])


def _add_mean(means: Array, X: Array, codes: Index) -> Array:
    return np.column_stack([X, _look_up(means, X, codes)])


# By name.


class Scope(NamedTuple):
    """Targets that a method takes."""

    losses: tuple[str, ...] = REGRESSION_LOSSES
    most_classes: int = 10**6  # 0: numbers only

    def refusal(self, loss: str, n_classes: int) -> str | None:
        """Why a method does not take such targets; ``n_classes`` is 0 for numbers."""
        if n_classes > self.most_classes:
            return (
                f"not for {n_classes} classes"
                if self.most_classes
                else "not for classes"
            )
        return None if n_classes or loss in self.losses else f"not for loss={loss!r}"


class UsualMethod(NamedTuple):
    """How a usual method is fitted, the package that it needs, and its targets."""

    fit: Callable[[Rows], Predict]
    package: str
    scope: Scope = Scope()


USUAL: Mapping[str, UsualMethod] = {
    "ridge-dummies": UsualMethod(fit_ridge_dummies, "sklearn"),
    "mixed-model": UsualMethod(
        partial(fit_mixed, slopes=False),
        "statsmodels",
        Scope(("squared", "poisson", "negative_binomial"), 2),
    ),
    "mixed-slopes": UsualMethod(
        partial(fit_mixed, slopes=True), "statsmodels", Scope(("squared",), 0)
    ),
    "lightgbm": UsualMethod(fit_lightgbm, "lightgbm"),
    "gpboost": UsualMethod(fit_gpboost, "gpboost", Scope(most_classes=2)),
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

    method: str = "ridge-dummies"
    _: KW_ONLY
    task: object = None
    time: object = None

    def _fit_tasks(self, data: TaskData | TaskStatistics) -> None:
        if not isinstance(data, TaskData):
            raise TypeError(f"{type(self).__name__} needs rows: call fit.")
        require_package(self.method)
        method, rows = USUAL[self.method], self._describe(stack_rows(data))
        if reason := method.scope.refusal(self.loss, rows.n_classes):
            raise ValueError(f"{self.method} is {reason}: choose another method.")
        self._predict = method.fit(rows)
        self.tasks_ = task_array(data.tasks)

    @abstractmethod
    def _describe(self, rows: Rows) -> Rows:
        """Rows that say what their targets are."""

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
        """Scores whose inverse link is what the method predicts."""
        return self._link(self._predict(_dense(X), codes))

    @abstractmethod
    def _link(self, predicted: Array) -> Array:
        """Scores of predicted values or probabilities."""


@dataclass(eq=False, repr=False)
class UsualRegressor(RegressionTasks, _Usual):
    """A usual method for regression on grouped tables: LightGBM, a mixed model, ….

    Parameters
    ----------
    method : str
        "ridge-dummies", "mixed-model", "mixed-slopes", "lightgbm", "gpboost",
        "hist-gradient-boosting", "random-forest" or "last-value"; some need packages:
        ``priormtl[compare]``. New tasks are predicted without what tasks add.
    task : str or int, optional
        Column of X that holds the tasks.
    time : str or int, optional
        Column of X that orders the rows of each task; inner folds then go forward in
        time. It stays a feature. "last-value" needs it.
    loss : {"squared", "poisson", "gamma", "negative_binomial"}, default="squared"
        What targets are, as in :class:`MultiTaskRegressor`. "mixed-slopes" takes
        squared loss only, "mixed-model" no gamma loss, and only "mixed-model" has a
        negative binomial: the others estimate its means by Poisson loss.
    exposure, offset : str or int, optional
        Columns of X, as in :class:`MultiTaskRegressor`. "gpboost" takes none.

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

    _: KW_ONLY
    loss: str = "squared"
    exposure: object = None
    offset: object = None

    @property
    def _family(self) -> Family | None:
        return find_family(check_choice("loss", self.loss, REGRESSION_LOSSES))

    @property
    def _fitted_family(self) -> Family | None:
        return judge_by(self.loss)

    def _describe(self, rows: Rows) -> Rows:
        family = self._family
        if family is not None:
            family.check(rows.y, weighted=rows.weight is not None)
            family.check_mean(float(np.mean(rows.y)))
        return rows._replace(family=family)

    def _link(self, predicted: Array) -> Array:
        return predicted if self._family is None else self._family.link(predicted)


class UsualClassifier(ClassificationTasks, _Usual):
    """A usual method for classification, otherwise as :class:`UsualRegressor`.

    There is no "mixed-slopes" for classes, and "mixed-model" and "gpboost" take two of
    them only.
    """

    # Scores are log-odds, and tasks of one class are no problem.
    loss = "logistic"
    fit_intercept = False
    _takes_several = True

    def _describe(self, rows: Rows) -> Rows:
        if self._n_classes == 1:
            raise ValueError("y must have two classes or more: got one in all rows.")
        y = np.maximum(rows.y, 0.0)  # two classes are −1 and +1
        return rows._replace(y=y, n_classes=self._n_classes)

    def _link(self, predicted: Array) -> Array:
        share = np.clip(predicted, 1e-9, 1.0 - 1e-9)
        return np.asarray(np.log(share) if share.ndim == 2 else logit(share))
