"""regularization_path: coefficients for many values of lam, in the user's units."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from priormtl._arrays import Array
from priormtl.estimators.cross_validated import CrossValidated
from priormtl.estimators.linear import (
    LinearMultiTask,
    task_array,
    warn_unless_converged,
)
from priormtl.estimators.regressor import MultiTaskRegressor
from priormtl.estimators.splitting import read_lams
from priormtl.solvers import History, Solution, solve

__all__ = ["FitTrace", "RegularizationPath", "regularization_path", "trace_fit"]


DEFAULT_LAMS = 30


@dataclass(frozen=True, eq=False)
class RegularizationPath:
    """Solutions for decreasing lam."""

    lams: Array  # (l,)
    coefs: Array  # (l, m, d)
    intercepts: Array  # (l, m)
    active: np.ndarray  # (l, d) whether any task uses the feature
    objectives: Array  # (l,)
    dual_gaps: Array  # (l,)
    tasks: np.ndarray  # (m,)
    features: tuple[str, ...] | None = None  # names of features, where X has any


def regularization_path(
    X: Any,
    y: Any,
    *,
    task: Any = None,
    sample_weight: Any = None,
    lams: Any = None,
    **settings: Any,
) -> RegularizationPath:
    """Follow the solutions of MultiTaskRegressor from lam_max down.

    Parameters
    ----------
    X, y
        As in :meth:`MultiTaskRegressor.fit`.
    task : (n,) labels, or a column of X
        Task of each row, or where X holds it, as in :class:`MultiTaskRegressor`.
    sample_weight : (n,), or (n, m) with such targets, optional
        Weights.
    lams : array, int or None
        Values of lam; or how many (None: 30) on a geometric grid from lam_max, at which
        all coefficients vanish, down to a thousandth of it.
    **settings
        All other settings of :class:`MultiTaskRegressor`.

    Returns
    -------
    RegularizationPath
        ``lams`` in decreasing order with ``coefs`` (l, m, d), ``intercepts`` (l, m),
        ``active`` features (l, d), ``objectives`` and ``dual_gaps`` (l,), ``tasks``
        and ``features``, their names where X has any.

    Examples
    --------
    >>> from priormtl import regularization_path
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> path = regularization_path(X, y, task=task, lams=5, epsilon=10.0)
    >>> path.coefs.shape, path.active.sum(axis=1).tolist()
    ((5, 4, 6), [0, 5, 6, 6, 6])
    """
    column = _column(task)
    model = MultiTaskRegressor(task=column, **settings)
    labels = task if column is None else None
    data = model._read_samples(X, y, labels, sample_weight, reset=True)
    posed, solver = model._model().pose(data), model._solver()
    values = read_lams(DEFAULT_LAMS if lams is None else lams, posed.problem)
    values = np.sort(values)[::-1]
    solutions = model._solve_path(posed, values)
    for solution in solutions:
        warn_unless_converged(solution, posed, solver)
    path = _publish(values, solutions, posed.scale, task_array(data.tasks))
    names = getattr(model, "feature_names_in_", None)
    return path if names is None else replace(path, features=tuple(names))


def _column(task: Any) -> Any:
    """Name or position of a column; None where labels are given."""
    return task if isinstance(task, str | int | np.integer) else None


def _publish(
    lams: Array, solutions: list[Solution], scale: Array, tasks: np.ndarray
) -> RegularizationPath:
    coefs = np.stack([solution.point.total.T for solution in solutions]) / scale
    return RegularizationPath(
        lams,
        coefs,
        np.stack([solution.intercept for solution in solutions]),
        np.asarray(coefs.any(axis=1)),
        np.array([solution.certificate.primal for solution in solutions]),
        np.array([solution.certificate.gap for solution in solutions]),
        tasks,
    )


# trace_fit: the way of a solver to the answer, look by look.


@dataclass(frozen=True, eq=False)
class FitTrace:
    """Objective and certificate along one run."""

    name: str  # of the solver
    iterations: Array  # (k,)
    seconds: Array  # (k,) spent in steps, looks not counted
    objectives: Array  # (k,)
    gaps: Array  # (k,) duality gaps: how far the optimum can be below, at most
    tolerance: float  # gap at which the model counts as solved


def trace_fit(
    model: Any,
    X: Any,
    y: Any,
    *,
    task: Any = None,
    sample_weight: Any = None,
    solver: str | None = None,
) -> FitTrace:
    """Fit a copy of a model from zero and note every step.

    Every look at the certificate takes time, which ``seconds`` leaves out, so that
    the call itself can last longer than a fit.

    Parameters
    ----------
    model : MultiTaskRegressor, MultiTaskClassifier, or fitted search over strengths
        Whose settings are used; it is left as it is. A search gives the settings
        that it has chosen.
    X, y, task, sample_weight
        As in :meth:`MultiTaskRegressor.fit`.
    solver : str, optional
        Another solver than the model's.

    Returns
    -------
    FitTrace

    Examples
    --------
    >>> from priormtl import MultiTaskRegressor
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> trace = trace_fit(MultiTaskRegressor(), X, y, task=task, solver="fista")
    >>> bool(trace.gaps[-1] <= trace.tolerance < trace.gaps[0])
    True
    """
    plain = _plain_copy(model)
    if solver is not None:
        plain.set_params(solver=solver)
    how = plain._solver()
    data = plain._read_samples(X, y, task, sample_weight, reset=True)
    problem = plain._model().pose(data).problem
    method, history = how.choose(problem), History()
    solve(problem, method, stop=how.rules(method), callbacks=[history])
    iterations, seconds, objectives, gaps = np.array(history.rows, dtype=float).T
    tolerance = how.tol * problem.null_objective
    return FitTrace(how.method, iterations, seconds, objectives, gaps, tolerance)


def _plain_copy(model: Any) -> LinearMultiTask:
    """Unfitted model with fixed strengths."""
    if isinstance(model, CrossValidated):
        if hasattr(model, "lam_"):
            return model._fixed(model.lam_, model.theta_, model.epsilon_)
    elif isinstance(model, LinearMultiTask):
        return clone(model)
    raise TypeError(
        "model must be a MultiTaskRegressor, a MultiTaskClassifier or a fitted search "
        f"over strengths: got {type(model).__name__}."
    )
