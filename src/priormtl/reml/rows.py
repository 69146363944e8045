"""Ties of tasks to their mean, estimated from rows in lme4's form.

The model is that of `ties` for tasks that are all tied to their mean: the deviations of
coefficient j have the variance τ_j² / w, w the weight of the graph. What does not vary
has no unknowns of tasks here and an infinite tie there, so that no Gram matrix of a
task is formed: see `mixed`.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self, TypeGuard

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.data import CentredSamples, Moments, StackedRows
from priormtl.graphs import Laplacian
from priormtl.losses import Intercepts, TiedIntercepts
from priormtl.reml.arrow import Vectors
from priormtl.reml.mixed import LEAST_GAIN, ROUGH, Mixed, Variances, estimate_mixed
from priormtl.reml.restricted import Factor, Rows
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


def suits_rows(
    moments: Moments, laplacian: Laplacian, intercepts: Intercepts
) -> TypeGuard[CentredSamples]:
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
    factors: Mapping[str, Sequence[int]] | None = None,
    noise_variance: float | None = None,
    slopes: bool = True,
    start: Ties | None = None,
) -> Ties:
    """Ties as `estimate_ties` finds them, infinite where effects do not vary.

    ``factors`` are features that are the levels of one column each, 0 or 1 but for a
    constant. Their effects are common, and take no dense columns.
    """
    (d, m), weight = moments.shape, moments.weight
    unknown = unknown_ties((d, m), True, laplacian.between)
    level = float(weight @ np.where(weight > 0, moments.y_mean, 0.0) / weight.sum())
    split = Split.of(read_rows(moments, level), factors or {})
    row_weight = moments.data.weight
    squares = float(row_weight @ split.rows.y**2)
    if np.count_nonzero(weight) < 2 or not squares > 0:
        return unknown
    families = families or Families(np.arange(d), np.full(d, -1))
    families = Families(*(part[split.dense] for part in families))
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
        split.rows,
        families,
        slopes=slopes,
        noise_variance=noise_variance,
        start=None if start is None else split.variances(start, laplacian.one_group),
        least_gain=SETTLED if m * len(split.dense) ** 3 <= cheap else LEAST_GAIN,
        # Folds, which start from all rows, are there to be scored.
        tolerance=SETTLED if start is None else ROUGH,
    )
    if not found.point.misfit > NO_MISFIT * squares:
        return unknown
    return split.ties(found, laplacian, float(weight.mean()), level)


def read_rows(moments: CentredSamples, level: float) -> Rows:
    """Rows of samples, with targets less a level."""
    data, m = moments.data, len(moments.tasks)
    assert isinstance(data, StackedRows)
    task = np.repeat(np.arange(m), np.diff(data.starts))
    X, y = data.X + moments.x_mean[task], data.y + (moments.y_mean[task] - level)
    return Rows(X, y, task, m, data.weight)


class Split(NamedTuple):
    """Features as dense columns, and as levels of factors."""

    rows: Rows
    dense: Index  # features that are columns
    factors: Mapping[str, Index]  # features that are levels
    low: Array  # (d,) values of features at rows of other levels
    squares: Array  # (d,) sums of squares about means, in units of a mean row

    @classmethod
    def of(cls, rows: Rows, factors: Mapping[str, Sequence[int]]) -> Self:
        """Take the columns of levels out."""
        X, d = rows.X, rows.X.shape[1]
        weight = np.ones(len(X)) if rows.weight is None else rows.weight
        share = weight / weight.mean()
        middle = share @ X / len(X)
        squares = np.einsum("i,ij,ij->j", share, X, X) - len(X) * middle**2
        dense, low, crossed = np.ones(d, dtype=bool), np.zeros(d), dict[str, Factor]()
        places = {name: np.array(each, dtype=np.intp) for name, each in factors.items()}
        for name, each in places.items():
            block = X[:, each]
            low[each] = block.min(axis=0)
            block = block - low[each]
            level = np.where(block.max(axis=1) > 0.5, block.argmax(axis=1), -1)
            crossed[name], dense[each] = Factor(level, len(each)), False
        kept = np.flatnonzero(dense)
        short = rows._replace(X=X[:, kept] if places else X, crossed=crossed)
        return cls(short, kept, places, low, np.maximum(squares, 0.0))

    @property
    def places(self) -> Index:
        """Rows of coefficients, intercepts first, of the columns of the estimate."""
        return np.concatenate([[0], 1 + self.dense]).astype(np.intp)

    def variances(self, known: Ties, weight: float) -> Variances | None:
        """Variances of an earlier estimate."""
        if known.noise_variance is None or known.intercept is None:
            return None
        noise = known.noise_variance
        ties = np.concatenate([[known.intercept], known.weights])[self.places]
        varying = np.flatnonzero(np.isfinite(ties))
        with np.errstate(divide="ignore"):
            common = noise / np.concatenate([[0.0], known.shrinkage])
        sd = {
            name: float(np.sqrt(common[1 + j[0]])) for name, j in self.factors.items()
        }
        task = noise / (weight * ties[varying])
        return Variances(common[self.places], varying, task, sd, noise)

    def ties(
        self, found: Mixed, laplacian: Laplacian, task_weight: float, level: float
    ) -> Ties:
        """Weights, precisions and fitted rows of an estimate."""
        noise, group = found.noise_variance, laplacian.one_group
        places, d = self.places, len(self.low)
        weights = np.full(1 + d, np.inf)
        weights[0] = TIGHTEST * task_weight / group  # even if intercepts do not vary
        weights[places[found.varying]] = noise / (group * found.task_variance)
        common, variance = np.zeros(1 + d), np.full(1 + d, np.inf)
        common[places], variance[places] = found.common, found.common_variance
        for name, each in self.factors.items():
            common[1 + each] = found.crossed_effects[name]
            variance[1 + each] = found.crossed_sd[name] ** 2
        common[0] += level - common[1:] @ self.low
        rows = np.tile(common[:, np.newaxis], (1, laplacian.m))
        rows[places[found.varying]] += found.task_effects.T
        # Effects of a family without variance are zero, and stay so.
        unit = found.point.likelihood.data.unit
        least = SMALLEST / np.maximum(unit * self.squares, np.finfo(float).tiny)
        shrinkage = 1.0 / np.maximum(variance[1:] / noise, least)
        return Ties(
            weights[1:],
            float(weights[0]),
            noise,
            rows,
            shrinkage,
            laplacian.between,
            found.criterion,
            self.precision(found),
        )

    def precision(self, found: Mixed) -> Precision:
        """Covariances of what was fitted, in units of the noise of a mean row.

        Those of levels of factors with other effects are left out.
        """
        point, (m, k), places = found.point, found.task_effects.shape, self.places
        noise, p = point.noise_variance, 1 + len(self.low)
        middle = np.zeros(m)
        if 0 in found.varying:
            top = np.zeros((len(found.common), 1))
            terms = [np.zeros((size, 1)) for size in point.likelihood.arrow.sizes]
            terms[0][::k] = 1.0 / m
            middle = point.factor.solve(Vectors(top, tuple(terms))).terms[0][::k, 0]
        common, cross = np.zeros((p, p)), np.zeros((m, k, p))
        common[np.ix_(places, places)] = found.common_covariance / noise
        cross[:, :, places] = found.task_common_covariance / noise
        for name, each in self.factors.items():
            common[1 + each, 1 + each] = found.crossed_variance[name] / noise
        own = found.task_covariance / noise
        return Precision(places[found.varying], common, cross, own, middle)
