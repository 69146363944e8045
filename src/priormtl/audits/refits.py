"""Fit a fitted model again: without its prior, on the same data.

An audit compares a model with the same model at other strengths, on the same data and
to the same tolerance (``FittedProblem``).
"""

import copy
from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from priormtl import estimators
from priormtl._arrays import Array, Index
from priormtl.data import StackedRows, Table, TaskData, TaskStatistics, pooled_scale
from priormtl.model import Posed
from priormtl.priors import FeaturePrior, Signs
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
    coef: Array  # P (d, m), or (d, K m), in the units of the problem, shared part

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

    @property
    def has_several_classes(self) -> bool:
        """Whether there are more than two classes: P has columns class after class."""
        return self.setup.model.n_classes > 2

    def class_pairs(self) -> "list[FittedProblem]":
        """Every other class beside the most frequent one, as problems of two classes.

        Among the rows of two classes, log-odds are the difference of their scores (Begg
        and Gray 1984). What holds for each class holds for differences, in which known
        values cancel; signs do not hold for them.
        """
        data, model, found = self.data, self.setup.model, list[FittedProblem]()
        assert isinstance(data, StackedRows)
        sums = np.bincount(data.y.astype(np.intp), data.weight, model.n_classes)
        most = int(np.argmax(sums))
        prior, known = self.setup.feature_prior, None
        if prior is not None:
            known = FeaturePrior(
                tuple(one for one in prior.parts if not isinstance(one, Signs))
            )
        binary = replace(model, n_classes=2, feature_prior=known)
        for k in np.delete(np.arange(model.n_classes), most):
            kept = (data.y == k) | (data.y == most)
            # One faint row keeps the place of a task that has neither class.
            absent = np.flatnonzero(data.task_sums(kept * data.weight) == 0)
            first, weight = data.starts[absent], data.weight.copy()
            weight[first], kept[first] = 1e-9 * data.weight.mean(), True
            counts = data.task_sums(kept.astype(np.intp))
            rows = replace(
                data,
                X=data.X[np.flatnonzero(kept)],
                y=np.where(data.y[kept] == k, 1.0, -1.0),
                weight=weight[kept],
                offset=None if data.offset is None else data.offset[kept],
                starts=np.concatenate([[0], np.cumsum(counts)]).astype(np.intp),
            )
            setup = binary.pose(rows)
            coef = np.zeros(setup.problem.shape)
            found.append(FittedProblem(self.plain, rows, setup, setup.problem, coef))
        return found

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
    plain: BaseEstimator  # with the strengths of the model, those of outliers included
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
    check_is_fitted(model)
    if isinstance(model, estimators.ClassificationTasks):
        plain._set_classes(model._classes)
    if model.fitted_.outliers is not None:
        plain.outlier_tasks = True
        plain.outlier_strength = estimators.own_strength(model)
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
    known = copy.copy(plain)  # with the relations of the fit, not found again
    known.feature_prior = model.feature_prior_
    setup = known._model().pose(data)
    problem = setup.problem
    if plain.outlier_tasks:
        problem = pose_outliers(problem, plain.outlier_strength)
    # Columns are tasks, class after class.
    coef = (model.fitted_.shared_coef * setup.scale).T.reshape(problem.shape)
    coef = np.ascontiguousarray(coef)
    return FittedProblem(plain, data, setup, problem, coef)
