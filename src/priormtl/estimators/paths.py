"""regularization_path: coefficients for many values of lam, in the user's units."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from priormtl._arrays import Array
from priormtl.estimators.grids import read_lams
from priormtl.estimators.linear import task_array
from priormtl.estimators.regressor import MultiTaskRegressor
from priormtl.solvers import Solution

__all__ = ["RegularizationPath", "regularization_path"]

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
    setup = model._set_up(data)
    values = read_lams(DEFAULT_LAMS if lams is None else lams, setup.problem)
    values = np.sort(values)[::-1]
    solutions = model._solve_path(setup, values)
    for solution in solutions:
        model._warn_unless_converged(solution, setup.problem.null_objective)
    path = _publish(values, solutions, setup.scale, task_array(data.tasks))
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
