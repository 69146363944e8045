"""Ties of tasks to their mean, estimated from rows in lme4's form.

The model is that of `ties` for tasks that are all tied to their mean: the deviations of
coefficient j have the variance τ_j² / w, w the weight of the graph. What does not vary
has no unknowns of tasks here and an infinite tie there, so that no Gram matrix of a
task is formed: see `mixed`.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import NamedTuple, Self, TypeGuard

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.data import CentredSamples, Moments, StackedRows
from priormtl.losses import Intercepts, TiedIntercepts
from priormtl.priors.graphs import Laplacian
from priormtl.reml.arrow import Vectors
from priormtl.reml.drift import Drift, estimate_drift
from priormtl.reml.mixed import (
    LEAST_GAIN,
    ROUGH,
    ROUGHER,
    Errors,
    Mixed,
    Variances,
    estimate_mixed,
)
from priormtl.reml.restricted import Factor, Laplace, Rows
from priormtl.reml.ties import (
    COMMON,
    NO_MISFIT,
    SETTLED,
    TIGHTEST,
    CrossedEffects,
    Families,
    Precision,
    Ties,
    unknown_ties,
)

SMALLEST = 1e-8  # variance of shrunken effects, in units of the noise in their data
MOST_DENSE = 64  # levels of a factor that is laid out as dense columns


def find_drift(
    moments: CentredSamples,
    laplacian: Laplacian,
    families: Families,
    start: Ties | None = None,
    known: Drift | None = None,
) -> tuple[Drift, float] | None:
    """Drift of levels of tasks that are tied to their mean, and its deviation τ.

    None where there is none: it must gain as much as a slope that varies. Where that of
    similar data is ``known``, there is one.
    """
    data, weight = moments.data, moments.weight
    assert isinstance(data, StackedRows)
    assert data.time is not None
    level = float(weight @ moments.y_mean / weight.sum())
    layout = Layout.of(moments, level, families)
    n_free = 1 + int(np.count_nonzero(families.fixed < 0))
    if np.count_nonzero(data.weight) <= n_free:
        return known and (known, np.nan)
    group = laplacian.one_group or 1.0
    rows, time = _some_tasks(layout.rows, data.time)
    found = estimate_drift(
        rows,
        time,
        layout.families,
        intercepts=int(np.count_nonzero(weight)) > 1,
        drift=known,
        start=None if start is None else layout.variances(start, group),
        tolerance=ROUGH if known is None else ROUGHER,
    )
    if found is None:  # no task has two times
        return known and (known, np.nan)
    gain = found.gain * len(data.time) / len(time)  # of all tasks
    return (found.drift, found.sd) if gain >= LEAST_GAIN else None


def _some_tasks(rows: Rows, time: Array) -> tuple[Rows, Array]:
    """Rows and times of as many tasks, drawn at random, as say enough of a drift."""
    enough = 3000  # rows: log ρ is known to about a tenth, and a climb takes a second
    if len(time) <= enough or rows.n_tasks == 1:
        return rows, time
    order = np.random.default_rng(0).permutation(rows.n_tasks)
    ends = np.cumsum(np.bincount(rows.task, minlength=rows.n_tasks)[order])
    chosen = order[: max(int(np.searchsorted(ends, enough)), 2)]
    number = np.full(rows.n_tasks, -1)
    number[chosen] = np.arange(len(chosen))
    kept = np.flatnonzero(number[rows.task] >= 0)
    weight = None if rows.weight is None else rows.weight[kept]
    parts = rows.X[kept], rows.y[kept], number[rows.task[kept]], len(chosen)
    return Rows(*parts, weight), time[kept]


def suits_rows(
    moments: Moments, laplacian: Laplacian, intercepts: Intercepts
) -> TypeGuard[CentredSamples]:
    """Whether rows are at hand, and tasks are tied to the mean of all."""
    if not isinstance(moments, CentredSamples) or moments.rows_per_task is None:
        return False
    if not isinstance(intercepts, TiedIntercepts):
        return False
    data, alone = moments.data, laplacian.m == 1
    return isinstance(data, StackedRows) and (
        laplacian.one_group > 0 or (alone and data.crossed is not None)
    )


def estimate_from_rows(
    moments: CentredSamples,
    laplacian: Laplacian,
    *,
    families: Families | None = None,
    noise_variance: float | None = None,
    slopes: bool = True,
    start: Ties | None = None,
    tolerance: float | None = None,
    laplace: Laplace | None = None,
) -> Ties:
    """Ties as `estimate_ties` finds them, infinite where effects do not vary.

    Levels of crossed factors, which the rows may have, get effects of their own.
    ``tolerance`` is the promised gain of a last step; by default it is small, or, with
    a start, that of models that are there to be scored. With ``laplace``, the
    estimate has the leverages of rows.
    """
    (d, m), weight = moments.shape, moments.weight
    unknown = unknown_ties((d, m), True, laplacian.between)
    level = float(weight @ np.where(weight > 0, moments.y_mean, 0.0) / weight.sum())
    own = families or Families(np.arange(d), np.full(d, -1))
    layout = Layout.of(moments, level, own)
    row_weight = moments.data.weight
    rows = layout.rows._replace(laplace=laplace)
    squares = float(row_weight @ rows.y**2)
    several = int(np.count_nonzero(weight)) > 1
    if not (several or layout.crossed) or not squares > 0:
        return unknown
    n_free = 1 + int(np.count_nonzero(own.fixed < 0))
    # A single row of next to no weight keeps the place of a task that a fold lacks.
    alone = weight[np.bincount(rows.task, minlength=m) == 1]
    faint = (alone > 0) & (alone < 1e-6 * row_weight.max())
    n_rows = int(np.count_nonzero(row_weight) - np.count_nonzero(faint))
    if n_rows <= n_free:
        if start is None:  # folds are smaller
            warnings.warn(
                f'ties="adaptive" needs more rows than the {n_free} coefficients that '
                f"all tasks have in common: got {n_rows}; all ties have weight 1.",
                UserWarning,
                stacklevel=2,
            )
        return unknown
    if tolerance is None:
        tolerance = SETTLED if start is None else ROUGHER
    cheap = 3 * 10**6  # tasks × features³: all variances with any gain are freed
    least_gain = SETTLED if m * len(layout.used) ** 3 <= cheap else LEAST_GAIN
    if start is not None and n_rows < start.n_rows:
        least_gain = np.inf  # a fold: all rows have told which effects vary
    group = laplacian.one_group or 1.0  # of one task
    found = estimate_mixed(
        rows,
        layout.families,
        intercepts=several,
        slopes=slopes and several,
        noise_variance=noise_variance,
        start=None if start is None else layout.variances(start, group),
        least_gain=least_gain,
        tolerance=tolerance,
    )
    if not found.point.misfit > NO_MISFIT * squares:
        return unknown
    ties = layout.ties(found, laplacian, float(weight.mean()), level)
    if laplace is None:
        return ties
    leverages = np.zeros(len(laplace.pull))
    leverages[found.point.likelihood.data.order] = found.point.leverages()
    return replace(ties, leverages=leverages)


class Layout(NamedTuple):
    """Rows of a mixed model, whose small factors are dense columns after features.

    Their levels meet most tasks, so that products with them are hardly sparse. Features
    that are zero, as curves are where effects are straight, have no columns.
    """

    rows: Rows
    families: Families
    d: int  # features
    used: Index  # (p,) rows of intercept and features that have columns
    crossed: dict[str, int]  # number of levels of all factors
    dense: dict[str, slice]  # columns of X of small ones

    @classmethod
    def of(cls, moments: CentredSamples, level: float, families: Families) -> Self:
        """Rows of samples, with targets less a level."""
        data, (d, m) = moments.data, moments.shape
        assert isinstance(data, StackedRows)
        task = np.repeat(np.arange(m), np.diff(data.starts))
        y = data.y + (moments.y_mean[task] - level)
        # Means show most columns: no need to look at rows.
        seen = np.asarray(moments.x_mean.any(axis=0))
        seen[~seen] = data.X[:, ~seen].any(axis=0) & (moments.unit[~seen] > 0)
        live = np.flatnonzero(seen)
        X = (data.X if seen.all() else data.X[:, live]) * moments.unit[live]
        for i, (a, b) in enumerate(pairwise(data.starts.tolist())):
            X[a:b] += moments.x_mean[i, live]
        factors, dense, columns = dict[str, Factor](), dict[str, slice](), [X]
        names, sizes, codes = data.crossed or ((), (), np.zeros((len(y), 0), int))
        deviations, fixed = [families.deviations[live]], [families.fixed[live]]
        for name, size, levels in zip(names, sizes, codes.T, strict=True):
            if size > MOST_DENSE:
                factors[name] = Factor(levels, size)
                continue
            end = sum(block.shape[1] for block in columns)
            dense[name] = slice(end, end + size)
            columns.append(np.equal.outer(levels, np.arange(size)).astype(float))
            deviations.append(np.full(size, COMMON))
            last = max(int(part.max(initial=-1)) for part in fixed)
            fixed.append(np.full(size, last + 1))
        if dense:
            X = np.hstack(columns)
        own = Families(np.concatenate(deviations), np.concatenate(fixed))
        rows, used = Rows(X, y, task, m, data.weight, factors), np.append(0, 1 + live)
        return cls(rows, own, d, used, dict(zip(names, sizes, strict=True)), dense)

    def variances(self, known: Ties, weight: float) -> Variances | None:
        """Variances of an earlier estimate."""
        if known.noise_variance is None or known.intercept is None:
            return None
        noise = known.noise_variance
        ties = np.append(known.intercept, known.weights)[self.used]
        varying = np.flatnonzero(np.isfinite(ties))
        common = np.full(1 + self.rows.X.shape[1], np.inf)
        with np.errstate(divide="ignore"):
            common[1 : len(ties)] = noise / known.shrinkage[self.used[1:] - 1]
        sd = {} if known.crossed is None else known.crossed.sd
        for name, places in self.dense.items():
            if name in sd:
                common[1:][places] = sd[name] ** 2
        return Variances(common, varying, noise / (weight * ties[varying]), sd, noise)

    def ties(
        self, found: Mixed, laplacian: Laplacian, task_weight: float, level: float
    ) -> Ties:
        """Weights, precisions and fitted rows of an estimate."""
        noise, group = found.noise_variance, laplacian.one_group or 1.0
        unit, used, p = found.point.likelihood.data.unit, self.used, len(self.used)
        weights = np.full(1 + self.d, np.inf)
        weights[0] = TIGHTEST * task_weight / group  # even if intercepts do not vary
        weights[used[found.varying]] = noise / (group * found.task_variance)
        fitted = np.zeros((1 + self.d, laplacian.m))
        fitted[used] = found.common[:p, np.newaxis]
        fitted[0] += level
        fitted[used[found.varying]] += found.task_effects.T
        # Effects of a family without variance are zero, and stay so.
        least = SMALLEST / np.maximum(unit * self._squares(), np.finfo(float).tiny)
        shrinkage = np.zeros(self.d)
        shrinkage[used[1:] - 1] = 1.0 / np.maximum(
            found.common_variance[1:p] / noise, least
        )
        return Ties(
            weights[1:],
            float(weights[0]),
            noise,
            fitted,
            shrinkage,
            laplacian.between,
            found.criterion,
            partial(_precision, found.errors, used, self.d, found.varying),
            self._effects(found) if self.crossed else None,
            len(found.point.likelihood.data.y),
        )

    def _squares(self) -> Array:
        """Sums of squares of features about means, in units of a mean row."""
        X = self.rows.X[:, : len(self.used) - 1]
        weight = np.ones(len(X)) if self.rows.weight is None else self.rows.weight
        share = weight / weight.mean()
        middle = share @ X / len(X)
        squares = np.einsum("i,ij,ij->j", share, X, X) - len(X) * middle**2
        return np.maximum(squares, 0.0)

    def _effects(self, found: Mixed) -> CrossedEffects:
        """Effects of levels, factor after factor."""
        sd, effects = dict[str, float](), list[Array]()
        # The intercept is the first of common effects.
        dense = {
            name: slice(1 + place.start, 1 + place.stop)
            for name, place in self.dense.items()
        }
        for name in self.crossed:
            if name not in dense:
                sd[name] = found.crossed_sd[name]
                effects.append(found.crossed_effects[name])
                continue
            variance = float(found.common_variance[dense[name]].min())
            sd[name] = float(np.sqrt(variance)) if np.isfinite(variance) else 0.0
            effects.append(found.common[dense[name]])
        errors = partial(_level_errors, found.errors, tuple(self.crossed), dense)
        noise, probes = found.noise_variance, found.is_stochastic
        return CrossedEffects(sd, noise, np.concatenate(effects), errors, probes)


def _level_errors(
    errors: Errors, names: Sequence[str], dense: dict[str, slice]
) -> Array:
    """Standard errors of levels; those of small factors are common effects."""
    variances = [
        errors.common.diagonal()[dense[name]] if name in dense else errors.levels[name]
        for name in names
    ]
    return np.sqrt(np.maximum(np.concatenate(variances), 0.0))


def _precision(errors: Errors, used: Index, d: int, varying: Index) -> Precision:
    """Covariances of what was fitted, in units of the noise of a mean row."""
    (m, k), p, own = errors.shape, 1 + d, slice(len(used))
    middle = np.zeros(m)
    if 0 in varying:
        top = np.zeros((len(errors.mean), 1))
        terms = [np.zeros((size, 1)) for size in errors.factor.arrow.sizes]
        terms[0][::k] = 1.0 / m
        middle = errors.factor.solve(Vectors(top, tuple(terms))).terms[0][::k, 0]
    common, cross = np.zeros((p, p)), np.zeros((m, k, p))
    common[np.ix_(used, used)] = errors.common[own, own] / errors.noise
    cross[:, :, used] = errors.task_common[:, :, own] / errors.noise
    return Precision(used[varying], common, cross, errors.task / errors.noise, middle)
