"""Fit a fitted model again: without its prior, or on reweighted rows.

An audit compares a model with the same model at other strengths, on the same data and
to the same tolerance (``FittedProblem``). ``resample_coefficients`` keeps the strengths
and changes the weights of the rows instead: the Bayesian bootstrap of Rubin (1981).
"""

import copy
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from priormtl import estimators
from priormtl._arrays import Array, Index
from priormtl.checks import check_count
from priormtl.data import Table, TaskData, TaskStatistics, name_features, pooled_scale
from priormtl.model import Posed
from priormtl.problem import Problem
from priormtl.selection import pose_outliers
from priormtl.solvers import Solution

TUNED = (estimators.MultiTaskRegressorCV, estimators.MultiTaskClassifierCV)


@dataclass(frozen=True, eq=False)
class FittedProblem:
    """A model with fixed strengths, its data, and the problem that it minimised."""

    plain: BaseEstimator  # estimator with fixed strengths
    data: TaskData | TaskStatistics
    setup: Posed  # without task-specific components
    problem: Problem  # what was minimised
    coef: Array  # P (d, m) in the units of the problem, shared components

    @property
    def feature_scale(self) -> Array:
        """Standard deviations of features in the units of the problem (d,)."""
        return np.asarray(pooled_scale(self.setup.moments) / self.setup.scale)

    def solve(self, *, theta: float, epsilon: float) -> Solution:
        """Fit the same data at other strengths of the priors, certified."""
        lam = self.problem.lam
        problem = self.problem.with_strengths(lam=lam, theta=theta, epsilon=epsilon)
        solver = self.plain._solver()
        solution = solver.solve(problem, self.coef)
        estimators.warn_unless_converged(
            solution, self.setup._replace(problem=problem), solver
        )
        return solution

    def without_tasks(self, tasks: Index) -> Problem:
        """Problem without task-specific components, these tasks downweighted."""
        problem: Problem = self.setup.problem
        if not len(tasks):
            return problem
        fit = self.setup.bind(downweight_tasks(self.data, tasks))
        return replace(problem, fit=fit, memo={})


def downweight_tasks(
    data: TaskData | TaskStatistics, tasks: Index
) -> TaskData | TaskStatistics:
    """Take nearly all weight from rows of these tasks; zero would leave no means."""
    factor = np.ones(data.shape[1])
    factor[tasks] = 1e-9
    if isinstance(data, TaskData):
        return replace(data, weight=data.weight * data.spread(factor))
    return data.derive(
        weight=data.weight * factor,
        xx=data.gram() * factor[:, np.newaxis, np.newaxis],
        xy=data.xy * factor[:, np.newaxis],
        yy=data.yy * factor,
    )


def with_fixed_strengths(model: object) -> BaseEstimator:
    """Estimator with the strengths of a fitted model, those of outliers included."""
    plain: BaseEstimator
    if isinstance(model, TUNED):
        plain = model._fixed(model.lam_, model.theta_, model.epsilon_)
    elif isinstance(
        model, estimators.MultiTaskRegressor | estimators.MultiTaskClassifier
    ):
        plain = copy.copy(model)
        plain.warm_start = False
    else:
        raise TypeError(
            "model must be a MultiTaskRegressor, a MultiTaskClassifier or one of their "
            f"CV variants: got {type(model).__name__}."
        )
    if model.fitted_.outliers is not None:
        plain.outlier_tasks = True
        plain.outlier_strength = estimators.own_strength(model)
    return plain


def with_known_prior(plain: BaseEstimator, model: BaseEstimator) -> BaseEstimator:
    """Same estimator with the relations of the fitted model, not found again."""
    known = copy.copy(plain)
    known.feature_prior = model.feature_prior_
    return known


def read_rows(
    model: BaseEstimator, X: object, y: object, task: object, sample_weight: object
) -> Table:
    """Rows with the tasks and features of the model.

    Effects of crossed factors, as the model has them, become a known part of scores.
    """
    check_is_fitted(model)
    reader = copy.copy(model)
    table: Table = reader._read_table(X, y, task, sample_weight, reset=False)
    levels, effects = table.crossed, model.fitted_.crossed
    if levels is not None and effects is not None:
        offset = 0.0 if table.offset is None else table.offset
        offset = offset + levels.forward(effects.effects)
        table = replace(table, crossed=None, offset=offset)
    known = model.tasks_.tolist()
    if list(table.tasks) != known:
        odd = [t for t in [*known, *table.tasks] if (t in known) != (t in table.tasks)]
        raise ValueError(
            "X, y and task must be the rows that the model was fitted on: the tasks "
            f"differ in {odd[:8] or 'their order'}."
        )
    if isinstance(model, estimators.ClassificationTasks) and not np.array_equal(
        reader._classes, model._classes
    ):
        raise ValueError(
            "y must hold the classes that the model was fitted on: some tasks have "
            "other classes."
        )
    return table


def read_problem(model: BaseEstimator, table: Table | None) -> FittedProblem:
    """Pose the problem of a fitted model on its rows, or on its statistics."""
    plain = with_fixed_strengths(model)
    check_is_fitted(model)
    data: TaskData | TaskStatistics
    if table is not None:
        data = table.to_tasks()
    elif model.fitted_.statistics is not None and model.fitted_.crossed is None:
        data = model.fitted_.statistics
    else:
        raise ValueError(
            "X, y and task must be given: this model keeps no statistics of its rows "
            "(its loss is logistic, X is sparse or has fewer rows than features, it "
            "has crossed factors, or it was loaded from a file). Pass the rows that it "
            "was fitted on."
        )
    setup = with_known_prior(plain, model)._model().pose(data)
    problem = setup.problem
    if plain.outlier_tasks:
        problem = pose_outliers(problem, plain.outlier_strength)
    coef = np.ascontiguousarray((model.fitted_.shared_coef * setup.scale).T)
    return FittedProblem(plain, data, setup, problem, coef)


class CoefficientBand(NamedTuple):
    """Quantiles of coefficients over resamples, (m, d) each."""

    low: Array
    middle: Array
    high: Array
    level: float


@dataclass(frozen=True, eq=False)
class ResampledCoefficients:
    """Coefficients of fits to reweighted rows, in the units of X."""

    coefs: Array  # (k, m, d)
    intercepts: Array  # (k, m)
    tasks: np.ndarray  # (m,)
    features: tuple[str, ...]

    def band(self, level: float = 0.9) -> CoefficientBand:
        """Return an interval and the median of each coefficient.

        Parameters
        ----------
        level : float, default=0.9
            Fraction of the resamples that the central interval contains.

        Returns
        -------
        CoefficientBand
        """
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1: got {level!r}.")
        ends = [(1.0 - level) / 2.0, 0.5, (1.0 + level) / 2.0]
        low, middle, high = np.quantile(self.coefs, ends, axis=0)
        return CoefficientBand(low, middle, high, level)

    @property
    def selected(self) -> Array:
        """Fraction of resamples in which any task uses a feature (d,)."""
        return np.asarray(np.any(self.coefs != 0, axis=1).mean(axis=0))

    def __repr__(self) -> str:
        k, m, d = self.coefs.shape
        return f"ResampledCoefficients({k} resamples, {m} tasks, {d} features)"


def resample_coefficients(
    model: BaseEstimator,
    X: object,
    y: object,
    *,
    task: object = None,
    sample_weight: object = None,
    n_resamples: int = 50,
    random_state: int | np.random.Generator | None = 0,
) -> ResampledCoefficients:
    """Refit a model with random sample weights (Bayesian bootstrap).

    The weights of the rows of a task are exponential with mean one, so no task or
    class is ever missing. The strengths of the model are kept, and so are the effects
    of crossed factors.

    Parameters
    ----------
    model : MultiTaskRegressor, MultiTaskClassifier or their CV variants
        Fitted model.
    X, y, task, sample_weight
        The rows to which the model was fitted.
    n_resamples : int, default=50
        Number of fits.
    random_state : int or Generator, default=0
        Seed of the weights.

    Returns
    -------
    ResampledCoefficients
        ``coefs`` (k, m, d) contains all coefficients, ``band(level)`` returns
        quantiles, and ``selected`` is the fraction of fits that use each feature.

    Examples
    --------
    >>> from priormtl import MultiTaskRegressor
    >>> from priormtl.audits import resample_coefficients
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=3, n_features=4, random_state=0)
    >>> model = MultiTaskRegressor().fit(X, y, task=task)
    >>> found = resample_coefficients(model, X, y, task=task, n_resamples=20)
    >>> found.band(0.9).low.shape, bool((found.band().low <= found.band().high).all())
    ((3, 4), True)
    """
    count = check_count("n_resamples", n_resamples)
    plain = with_fixed_strengths(model)
    table = read_rows(model, X, y, task, sample_weight)
    plain = with_known_prior(plain, model)
    rng = np.random.default_rng(random_state)
    coefs, intercepts = [], []
    with estimators.show_progress(
        None, None, f"{count} resamples", count, "fits"
    ) as advance:
        for _ in range(count):
            data = reweight(table, rng).to_tasks()
            setup = plain._model().pose(data)
            # Solutions are near those of all rows: start from these.
            start = model.fitted_.shared_coef.T * setup.scale[:, np.newaxis]
            _, solution = plain._solve(setup, data, np.ascontiguousarray(start))
            coefs.append(solution.point.total.T / setup.scale)
            intercepts.append(solution.intercept)
            advance()
    labels = name_features(table.features, coefs[0].shape[1])
    return ResampledCoefficients(
        np.stack(coefs), np.stack(intercepts), model.tasks_, labels
    )


def reweight(table: Table, rng: np.random.Generator) -> Table:
    """Multiply weights by exponential draws, keeping the total of each task."""
    draws = rng.exponential(size=len(table))
    own = np.ones(len(table)) if table.weight is None else table.weight
    if table.codes is None:
        # A row of a shared table has the same draw in all tasks.
        factor = draws / draws.mean()
        return replace(table, weight=(own.T * factor).T)
    total = np.bincount(table.codes, own, minlength=len(table.tasks))
    drawn = np.bincount(table.codes, own * draws, minlength=len(table.tasks))
    with np.errstate(invalid="ignore"):
        scale = np.where(drawn > 0, total / np.where(drawn > 0, drawn, 1.0), 1.0)
    return replace(table, weight=own * draws * scale[table.codes])
