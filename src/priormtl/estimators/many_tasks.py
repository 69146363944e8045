"""Fits of many small tasks from sums over them, in memory or where their rows are."""

import os
import warnings
from dataclasses import replace

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from priormtl._numerics import CONSTANT
from priormtl.conditional import MOST_CURVATURES, Conditional
from priormtl.data import (
    HeldTasks,
    SortedRows,
    StackedRows,
    TaskData,
    Tasks,
    TaskStatistics,
)
from priormtl.fitted import Certificate, Fitted, task_array
from priormtl.model import Model
from priormtl.partitioned import PartitionedFit, fit_tasks, refusal
from priormtl.task_steps import TaskTable
from priormtl.uncertainty import StandardErrors

# Tasks from which on a fit adds up sums over them: elimination over a graph of tasks
# takes 8 s for 20,000 tasks over 20 features, sums over them 2 s.
MANY = 5000


def held_tasks(data: TaskData | TaskStatistics, model: Model) -> HeldTasks | None:
    """Blocks of rows in memory, where a fit adds up sums over tasks; else None."""
    if not isinstance(data, StackedRows) or issparse(data.X):
        return None
    if data.crossed is not None or data.time is not None or refusal(model):
        return None
    labels, columns = task_array(data.tasks), (data.X, data.y, data.weight)
    rows = SortedRows(labels, data.starts, *columns, data.offset)
    as_rows, ours = model.family is not None, getattr(os, "sched_getaffinity", None)
    n_threads = len(ours(0)) if ours else os.cpu_count() or 1
    return HeldTasks.of(rows, as_rows=as_rows, n_threads=n_threads)


def fit_where(model: Model, tasks: Tasks, tol: float) -> PartitionedFit:
    """Fit tasks where they are; warn unless the gap has reached the tolerance."""
    # Blocks in memory are worked on in threads of our own.
    with threadpool_limits(1, user_api="blas"):
        found = fit_tasks(model, tasks, tol)
    if found.gap > tol * found.unit:
        warnings.warn(
            f"not converged: the duality gap is {found.gap:.3g}, "
            f"{found.gap / found.unit:.3g} of the squared targets, above tol={tol:g}, "
            f"after {found.n_iter} steps. Use standardize=True, or remove features "
            "that are near copies.",
            ConvergenceWarning,
            stacklevel=5,
        )
    return found


def to_fitted(estimator: str, found: PartitionedFit, tasks: Tasks) -> Fitted:
    """What an estimator has learned, with the coefficients of all tasks."""
    readout, m = found.readout, found.survey.n_tasks
    size = m * float(np.count_nonzero(readout.shared.theta)) ** 2
    known = found.model.lam == 0 and not readout.free_intercepts
    readout = readout._replace(with_curvature=known and size <= MOST_CURVATURES)
    tables = tasks.collect(readout.table)
    weight, coef, squares, deviance = (
        np.concatenate([table[part] for table in tables]) for part in range(1, 5)
    )
    intercept, slopes = coef[:, 0].copy(), np.ascontiguousarray(coef[:, 1:])
    d, survey, ties = slopes.shape[1], found.survey, found.ties
    levels = slopes @ found.mean[:d] + intercept
    tied = found.model.fit_intercept == "tied"
    fitted = Fitted(
        estimator,
        found.model,
        np.concatenate([table.tasks for table in tables]),
        slopes,
        intercept,
        Certificate(found.objective, found.gap, found.n_iter),
        tie_weights=ties.weights,
        intercept_strength=ties.intercept if tied else None,
        scale=found.scale,
        task_weight=weight,
        task_effect=levels - levels.mean(),
        deviations=ties.deviations,
        conditional=_conditional(found, tables),
    )
    if found.model.family is not None:
        return fitted
    noise = CONSTANT * np.abs(found.mean[d]) * np.sqrt(weight)
    with np.errstate(divide="ignore", invalid="ignore"):
        r2 = np.where(deviance > noise**2, 1.0 - squares / deviance, np.nan)
    fitted = replace(
        fitted,
        task_r2=r2,
        target_variance=float(survey.products[-1, -1] / survey.weight),
        within_variance=float(survey.within[d] / survey.weight),
    )
    return fitted.with_errors(_errors(found, tables, slopes))


def _conditional(found: PartitionedFit, tables: list[TaskTable]) -> Conditional | None:
    """Distribution of tasks given what they share, in the units of X."""
    both = [(t.curvature, t.right) for t in tables if t.curvature is not None]
    if not both:
        return None
    columns, shared = found.columns, found.readout.shared
    mean = np.zeros(1 + len(columns.centre))
    precision, varying = np.full(len(mean), np.inf), np.flatnonzero(shared.theta)
    places, unit = columns.used[varying], columns.scale[varying]
    mean[columns.used] = shared.centre / columns.scale
    own = precision[places] = unit**2 / shared.theta[varying]
    prior = mean, precision, columns.centre, np.diag(own), own * mean[places]
    G, h = map(np.concatenate, zip(*both, strict=True))
    return Conditional(*prior, G * np.outer(unit, unit), h * unit)


def _errors(
    found: PartitionedFit, tables: list[TaskTable], slopes: np.ndarray
) -> StandardErrors | None:
    """Standard errors given the variances that REML has estimated."""
    precision, deviations = found.readout.precision, found.ties.deviations
    if precision is None or deviations is None or deviations.noise is None:
        return None
    selected = np.flatnonzero(slopes.any(axis=0))
    variances = np.concatenate([t.variances for t in tables if t.variances is not None])
    noise = deviations.noise**2
    shared = precision.half @ found.readout.back
    squares = (
        noise * variances[:, 1 + selected],
        noise * np.einsum("kc,kc->c", shared, shared)[1 + selected],
        deviations.task[selected] ** 2 * found.scale[selected] ** 2,
        noise * variances[:, -1],
        np.array([deviations.noise**2]),
    )
    roots = (np.sqrt(np.maximum(part, 0.0)) for part in squares)
    return StandardErrors("conditional", selected, *roots)
