"""Subject: a fitted model and its data, ready to be fitted again in other ways."""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from priormtl._arrays import Array
from priormtl.data import Table, TaskData, TaskStatistics, pooled_scale
from priormtl.estimators import (
    ClassificationTasks,
    MultiTaskClassifier,
    MultiTaskClassifierCV,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    own_strength,
    shared_coef,
)
from priormtl.problem import Problem
from priormtl.selection import pose_outliers
from priormtl.solvers import Solution, solve

__all__ = ["TUNED", "Subject", "plain_twin", "read_rows", "read_subject"]

FIXED = (MultiTaskRegressor, MultiTaskClassifier)
TUNED = (MultiTaskRegressorCV, MultiTaskClassifierCV)


@dataclass(frozen=True, eq=False)
class Subject:
    """A model with fixed strengths, its data, and its problem on them."""

    plain: Any  # estimator with fixed strengths
    data: TaskData | TaskStatistics
    setup: Any  # problem without own parts of tasks, moments, scale
    problem: Problem  # what was minimised
    coef: Array  # P (d, m) as the problem counts it, shared by tasks

    @property
    def feature_scale(self) -> Array:
        """Standard deviations of features as the problem sees them (d,)."""
        return np.asarray(pooled_scale(self.setup.moments) / self.setup.scale)

    def solve(self, *, theta: float, epsilon: float) -> Solution:
        """Fit the same data at other strengths of the priors, certified."""
        lam = self.problem.lam
        problem = self.problem.with_strengths(lam=lam, theta=theta, epsilon=epsilon)
        method = self.plain._choose_method(problem)
        rules = self.plain._rules(method)
        solution = solve(problem, method, coef=self.coef, stop=rules)
        self.plain._warn_unless_converged(solution, problem.null_objective)
        return solution


def plain_twin(model: Any) -> Any:
    """Estimator with the model's strengths as fixed ones."""
    if isinstance(model, TUNED):
        twin = model._plain(model.lam_, model.theta_, model.epsilon_)
        return _with_own_parts(twin, model)
    if not isinstance(model, FIXED):
        raise TypeError(
            "model must be a MultiTaskRegressor, a MultiTaskClassifier or one of their "
            f"CV variants: got {type(model).__name__}."
        )
    twin = copy.copy(model)
    twin.warm_start = False
    return _with_own_parts(twin, model)


def _with_own_parts(twin: Any, model: Any) -> Any:
    """Let tasks out as the model did, at the strength that it found."""
    if model.outlier_tasks and hasattr(model, "outlier_strength_"):
        twin.outlier_tasks = True
        twin.outlier_strength = own_strength(model)
    return twin


def read_rows(model: Any, X: Any, y: Any, task: Any, sample_weight: Any) -> Table:
    """Rows of the tasks and features that the model knows."""
    check_is_fitted(model)
    reader = copy.copy(model)
    table: Table = reader._read_table(X, y, task, sample_weight, reset=False)
    known = model.tasks_.tolist()
    if list(table.tasks) != known:
        odd = [t for t in [*known, *table.tasks] if (t in known) != (t in table.tasks)]
        raise ValueError(
            "X, y and task must be the rows that the model was fitted on: the tasks "
            f"differ in {odd[:8] or 'their order'}."
        )
    if isinstance(model, ClassificationTasks) and not np.array_equal(
        reader._classes, model._classes
    ):
        raise ValueError(
            "y must hold the classes that the model was fitted on: some tasks have "
            "other ones."
        )
    return table


def read_subject(model: Any, table: Table | None) -> Subject:
    """Join a model with its rows, or with the statistics that it kept."""
    plain = plain_twin(model)
    check_is_fitted(model)
    data = _find_data(model, table)
    # Relations that were found in data are those of the model, not found again.
    fixed = copy.copy(plain)
    fixed.feature_prior = model.feature_prior_
    setup = fixed._set_up(data)
    problem = setup.problem
    if fixed.outlier_tasks:
        problem = pose_outliers(problem, fixed.outlier_strength)
    coef = np.ascontiguousarray((shared_coef(model) * setup.scale).T)
    return Subject(plain, data, setup, problem, coef)


def _find_data(model: Any, table: Table | None) -> TaskData | TaskStatistics:
    if table is not None:
        return table.to_tasks()
    if not hasattr(model, "statistics_"):
        raise ValueError(
            "X, y and task must be given: this model keeps no statistics of its rows "
            "(its loss is logistic, X is sparse or has fewer rows than features, or it "
            "comes from a file); pass what it was fitted on."
        )
    statistics: TaskStatistics = model.statistics_
    return statistics
