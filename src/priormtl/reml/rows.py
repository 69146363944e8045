"""Ties of tasks to their mean, estimated from rows in lme4's form.

The model is that of `ties` for tasks that are all tied to their mean: the deviations of
coefficient j have the variance τ_j² / w, w the weight of the graph. What does not vary
has no unknowns of tasks here and an infinite tie there, so that no Gram matrix of a
task is formed: see `mixed`.
"""

import warnings

import numpy as np

from priormtl.data import CentredSamples, Moments, StackedRows
from priormtl.graphs import Laplacian
from priormtl.losses import Intercepts, TiedIntercepts
from priormtl.reml.arrow import Vectors
from priormtl.reml.mixed import LEAST_GAIN, Mixed, Variances, estimate_mixed
from priormtl.reml.restricted import Rows
from priormtl.reml.ties import (
    NO_MISFIT,
    SETTLED,
    TIGHTEST,
    Families,
    Precision,
    Ties,
    unknown_ties,
)

SMALLEST = 1e-8  # variance of shrunken effects, in units of the noise in their data


def suits_rows(moments: Moments, laplacian: Laplacian, intercepts: Intercepts) -> bool:
    """Whether rows are at hand, and tasks are tied to the mean of all."""
    if not isinstance(moments, CentredSamples) or moments.rows_per_task is None:
        return False
    is_tied = isinstance(intercepts, TiedIntercepts)
    return is_tied and laplacian.one_group > 0 and isinstance(moments.data, StackedRows)


def estimate_from_rows(
    moments: CentredSamples,
    laplacian: Laplacian,
    *,
    families: Families | None = None,
    noise_variance: float | None = None,
    slopes: bool = True,
    start: Ties | None = None,
) -> Ties:
    """Ties as `estimate_ties` finds them, infinite where effects do not vary."""
    (d, m), weight = moments.shape, moments.weight
    unknown = unknown_ties((d, m), True, laplacian.between)
    level = float(weight @ np.where(weight > 0, moments.y_mean, 0.0) / weight.sum())
    rows = read_rows(moments, level)
    row_weight = moments.data.weight
    squares = float(row_weight @ rows.y**2)
    if np.count_nonzero(weight) < 2 or not squares > 0:
        return unknown
    families = families or Families(np.arange(d), np.full(d, -1))
    n_free = 1 + int(np.count_nonzero(families.fixed < 0))
    n_rows = int(np.count_nonzero(row_weight))
    if n_rows <= n_free:
        warnings.warn(
            f'ties="adaptive" needs more rows than the {n_free} coefficients that all '
            f"tasks have in common: got {n_rows}; all ties have weight 1.",
            UserWarning,
            stacklevel=2,
        )
        return unknown
    cheap = 3 * 10**6  # tasks × features³: all variances with any gain are freed
    found = estimate_mixed(
        rows,
        families,
        slopes=slopes,
        noise_variance=noise_variance,
        start=_variances(start, laplacian.one_group),
        least_gain=SETTLED if m * d**3 <= cheap else LEAST_GAIN,
    )
    if not found.point.misfit > NO_MISFIT * squares:
        return unknown
    return _as_ties(found, laplacian, float(weight.mean()), level)


def read_rows(moments: CentredSamples, level: float) -> Rows:
    """Rows of samples, with targets less a level."""
    data, m = moments.data, len(moments.tasks)
    assert isinstance(data, StackedRows)
    task = np.repeat(np.arange(m), np.diff(data.starts))
    X, y = data.X + moments.x_mean[task], data.y + (moments.y_mean[task] - level)
    return Rows(X, y, task, m, data.weight)


def _variances(known: Ties | None, weight: float) -> Variances | None:
    """Variances of an earlier estimate."""
    if known is None or known.noise_variance is None or known.intercept is None:
        return None
    noise = known.noise_variance
    ties = np.concatenate([[known.intercept], known.weights])
    varying = np.flatnonzero(np.isfinite(ties))
    shrinkage = np.concatenate([[0.0], known.shrinkage])
    with np.errstate(divide="ignore"):
        common = noise / shrinkage
    return Variances(common, varying, noise / (weight * ties[varying]), {}, noise)


def _as_ties(
    found: Mixed, laplacian: Laplacian, task_weight: float, level: float
) -> Ties:
    """Weights, precisions and fitted rows of an estimate."""
    noise, m, group = found.noise_variance, laplacian.m, laplacian.one_group
    weights = np.full(len(found.common), np.inf)
    weights[0] = TIGHTEST * task_weight / group  # even if intercepts do not vary
    weights[found.varying] = noise / (group * found.task_variance)
    rows = np.tile(found.common[:, np.newaxis], (1, m))
    rows[found.varying] += found.task_effects.T
    rows[0] += level
    # Effects of a family without variance are zero, and stay so.
    data = found.point.likelihood.data
    least = SMALLEST / np.maximum(data.unit * data.norm**2, np.finfo(float).tiny)
    shrinkage = 1.0 / np.maximum(found.common_variance / noise, least)
    return Ties(
        weights[1:],
        float(weights[0]),
        noise,
        rows,
        shrinkage[1:],
        laplacian.between,
        found.criterion,
        _precision(found),
    )


def _precision(found: Mixed) -> Precision:
    """Covariances of what was fitted, in units of the noise of a mean row."""
    point, m = found.point, len(found.task_effects)
    noise = point.noise_variance
    middle = np.zeros(m)
    if 0 in found.varying:
        k = len(found.varying)
        top = np.zeros((len(found.common), 1))
        terms = [np.zeros((size, 1)) for size in point.likelihood.arrow.sizes]
        terms[0][::k] = 1.0 / m
        middle = point.factor.solve(Vectors(top, tuple(terms))).terms[0][::k, 0]
    return Precision(
        found.varying,
        found.common_covariance / noise,
        found.task_common_covariance / noise,
        found.task_covariance / noise,
        middle,
    )
