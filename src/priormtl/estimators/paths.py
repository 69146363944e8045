"""regularization_path: coefficients for many values of lam, in the user's units."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from priormtl._arrays import Array
from priormtl.estimators.cross_validated import CrossValidated
from priormtl.estimators.linear import LinearMultiTask, warn_unless_converged
from priormtl.estimators.regressor import MultiTaskRegressor
from priormtl.fitted import task_array
from priormtl.selection import read_lams
from priormtl.solvers import History, solve


@dataclass(frozen=True, eq=False)
class RegularizationPath:
    """Solutions for decreasing values of lam; see ``regularization_path``."""

    lams: Array  # (l,)
    coefs: Array  # (l, m, d)
    intercepts: Array  # (l, m)
    active: np.ndarray  # (l, d) whether any task uses the feature
    objectives: Array  # (l,)
    dual_gaps: Array  # (l,)
    tasks: np.ndarray  # (m,)
    features: tuple[str, ...] | None = None  # names of features, where X has any


def regularization_path(
    X: object,
    y: object,
    *,
    task: object = None,
    sample_weight: object = None,
    lams: object = None,
    **settings: Any,
) -> RegularizationPath:
    """Compute the solutions of MultiTaskRegressor for many values of lam.

    Parameters
    ----------
    X, y
        See :meth:`MultiTaskRegressor.fit`.
    task : (n,) labels, str or int, optional
        Task of each row, or the column of X that contains it.
    sample_weight : (n,) array, or (n, m) array with such targets, optional
        Sample weights.
    lams : array, int or None, default=None
        Values of lam, or their number (None: 30). A number gives a geometric grid from
        lam_max, the smallest value for which all coefficients are zero, down to
        lam_max / 1000.
    **settings
        Other parameters of :class:`MultiTaskRegressor`.

    Returns
    -------
    RegularizationPath
        ``lams`` (l,) in decreasing order, ``coefs`` (l, m, d), ``intercepts`` (l, m),
        ``active`` (l, d), which tells whether any task uses a feature,
        ``objectives`` (l,), ``dual_gaps`` (l,), ``tasks`` (m,), and ``features``, the
        names of the features if X has column names.

    Examples
    --------
    >>> from priormtl import regularization_path
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> path = regularization_path(X, y, task=task, lams=5, epsilon=10.0)
    >>> path.coefs.shape, path.active.sum(axis=1).tolist()
    ((5, 4, 6), [0, 5, 6, 6, 6])
    """
    column = task if isinstance(task, str | int | np.integer) else None
    model = MultiTaskRegressor(task=column, **settings)
    labels = task if column is None else None
    model._need_rows("regularization_path")
    data = model._read_table(X, y, labels, sample_weight, reset=True).to_tasks()
    posed, solver = model._model().pose(data), model._solver()
    default_lams = 30
    values = read_lams(default_lams if lams is None else lams, posed.problem)
    values = np.sort(values)[::-1]
    solutions = model._solve_path(posed, values)
    for solution in solutions:
        warn_unless_converged(solution, posed, solver)
    coefs = np.stack([solution.point.total.T for solution in solutions]) / posed.scale
    names = data.features
    return RegularizationPath(
        values,
        coefs,
        np.stack([solution.intercept for solution in solutions]),
        np.asarray(coefs.any(axis=1)),
        np.array([solution.certificate.primal for solution in solutions]),
        np.array([solution.certificate.gap for solution in solutions]),
        task_array(data.tasks),
        None if names is None else tuple(names),
    )


# trace_fit: a run of a solver, iteration by iteration.


@dataclass(frozen=True, eq=False)
class FitTrace:
    """Objective and duality gap along one run of a solver; see ``trace_fit``."""

    name: str  # of the solver
    iterations: Array  # (k,)
    seconds: Array  # (k,) spent in steps, checks of the gap not counted
    objectives: Array  # (k,)
    gaps: Array  # (k,) duality gaps: how far the optimum can be below, at most
    tolerance: float  # gap at which the model counts as solved


def trace_fit(
    model: object,
    X: object,
    y: object,
    *,
    task: object = None,
    sample_weight: object = None,
    solver: str | None = None,
) -> FitTrace:
    """Fit a copy of a model from zero and record every iteration.

    The gap is computed in every iteration. ``seconds`` does not include this time, so
    the call takes longer than a fit.

    Parameters
    ----------
    model : MultiTaskRegressor, MultiTaskClassifier or a fitted CV variant
        Model whose parameters are used. It is not changed. A CV variant provides the
        selected strengths.
    X, y, task, sample_weight
        See :meth:`MultiTaskRegressor.fit`.
    solver : str, optional
        Solver to use instead of that of the model.

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
    plain._need_rows("trace_fit")
    data = plain._read_table(X, y, task, sample_weight, reset=True).to_tasks()
    problem = plain._model().pose(data).problem
    method, history = how.choose(problem), History()
    solve(problem, method, stop=how.rules(method), callbacks=[history])
    iterations, seconds, objectives, gaps = np.array(history.rows, dtype=float).T
    tolerance = how.tol * problem.null_objective
    return FitTrace(how.method, iterations, seconds, objectives, gaps, tolerance)


def _plain_copy(model: object) -> LinearMultiTask:
    if isinstance(model, CrossValidated):
        if "fitted_" in vars(model):
            return model._fixed(model.lam_, model.theta_, model.epsilon_)
    elif isinstance(model, LinearMultiTask):
        return clone(model)
    raise TypeError(
        "model must be a MultiTaskRegressor, a MultiTaskClassifier or a fitted search "
        f"over strengths: got {type(model).__name__}."
    )
