"""trace_fit: the way of a solver to the answer, look by look."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from priormtl._arrays import Array
from priormtl.estimators.linear import LinearMultiTask
from priormtl.estimators.searching import CrossValidated
from priormtl.solvers import History, solve

__all__ = ["FitTrace", "trace_fit"]


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
    name, tol, _ = plain._solver_settings()
    data = plain._read_samples(X, y, task, sample_weight, reset=True)
    problem = plain._set_up(data).problem
    method, history = plain._choose_method(problem), History()
    solve(problem, method, stop=plain._rules(method), callbacks=[history])
    iterations, seconds, objectives, gaps = np.array(history.rows, dtype=float).T
    tolerance = tol * problem.null_objective
    return FitTrace(name, iterations, seconds, objectives, gaps, tolerance)


def _plain_copy(model: Any) -> LinearMultiTask:
    """Unfitted model with fixed strengths."""
    if isinstance(model, CrossValidated) and hasattr(model, "lam_"):
        return model._plain(model.lam_, model.theta_, model.epsilon_)
    if isinstance(model, LinearMultiTask):
        return clone(model)
    raise TypeError(
        "model must be a MultiTaskRegressor, a MultiTaskClassifier or a fitted search "
        f"over strengths: got {type(model).__name__}."
    )
