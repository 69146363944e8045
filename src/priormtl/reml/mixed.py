"""Mixed models in lme4's form: few varying effects, crossed factors, any width.

    y = X b + Σ_j x_j u_ij + Σ_c v_c[level] + e,    e ~ N(0, σ² / weight)

for a row of task i. The first column of X is the intercept. Common effects b are free,
or shrunken with a variance per family (wiggles of a curve, levels of a category). Only
columns whose variance between tasks is above zero have effects u_i, one variance per
family; effects v_c of the levels of a crossed factor share one. Variances maximise the
restricted likelihood, whose value (−2 log L) is counted as lme4 counts it.

With M of `arrow`, v = u / τ · σ the scaled effects of a family of q, θ = τ² / σ²,

    −2 log L = log |M| + f (1 + log(2 π σ²)) − Σ log weight,    σ² = yᵀ P y / f,
    ∂/∂log θ = q − tr (M⁻¹)_vv − vᵀv / σ²,
    information = (vᵀv − vᵀ M⁻¹ w) / σ² − (vᵀv)(wᵀw) / (σ⁴ f),

the last for families v and w: the average of observed and expected information
(Gilmour, Thompson, Cullis 1995). Variances are freed by their score at zero (`scores`).

Features 0 and 1 with variances of their own, 2 to 5 the wiggles of a curve, which never
vary between tasks and are shrunken together; levels are numbered, −1 where missing::

    rows = Rows(X, y, task, n_tasks, weight, {"item": Factor(item, n_items)})
    families = Families(
        deviations=np.array([0, 1, COMMON, COMMON, COMMON, COMMON]),
        fixed=np.array([-1, -1, 0, 0, 0, 0]),
    )
    mixed = estimate_mixed(rows, families)
    mixed.common  # (1 + d,) intercept first
    mixed.varying, mixed.task_variance, mixed.task_effects  # (k,), (k,), (m, k)
    mixed.crossed_sd["item"], mixed.crossed_effects["item"]
    mixed.noise_variance, mixed.criterion
    mixed.errors.common, mixed.errors.task, mixed.errors.levels
    estimate_mixed(fold, families, start=mixed.variances)  # folds start from all rows

The coefficient of column ``varying[j]`` in task i is ``common[varying[j]] +
task_effects[i, j]``. The score tests of a point are `score_varying(mixed.point)`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl.reml.arrow import Factor as ArrowFactor
from priormtl.reml.restricted import Data, Factor, Likelihood, Point, Rows, origin_of
from priormtl.reml.scores import score_varying
from priormtl.reml.ties import (
    ENTRIES,
    FIRST_DAMPING,
    LEAST_DAMPING,
    LONGER,
    LONGEST_STEP,
    LOOSEST,
    MOST_STEPS,
    NEARLY_COMMON,
    SETTLED,
    SHORTER,
    TIGHTEST,
    TINY,
    Families,
)

__all__ = ["Factor", "Mixed", "Rows", "estimate_mixed", "score_varying"]

# Gain in −2 log L that the score of slopes must promise, a z value of 2. On two drawn
# tables (180 tasks, 334 features) 0.3, 1, 2, 4 and 7 had mean squared errors of 0.214,
# 0.210, 0.207, 0.202 and 0.205, and took 4.1, 2.5, 1.7, 1.4 and 0.7 s.
LEAST_GAIN = 4.0
# Promised gain in −2 log L at which variances are tested for others, and that the score
# of shrunken effects must have. Ten times as much leaves the order of rows a say in
# which of two optima is found.
ROUGH = 0.1
# The same in variants of a model, which start at an estimate and are there to be
# scored: the step that is promised so much is taken, and leaves a tenth of it.
ROUGHER = 1.0


class Variances(NamedTuple):
    """Where a search starts."""

    common: Array  # (1 + d,) of shrunken common effects; inf: free
    varying: Index  # (k,) columns that vary between tasks
    task: Array  # (k,) their variances
    crossed_sd: Mapping[str, float]
    noise: float


@dataclass(frozen=True, eq=False)
class Mixed:
    """Maximum of the restricted likelihood; column 0 is the intercept."""

    common: Array  # (1 + d,) intercept and slopes; zero where a column is redundant
    common_variance: Array  # (1 + d,) κ² of shrunken common effects; inf: free
    varying: Index  # (k,) columns that vary between tasks
    task_variance: Array  # (k,) their variances
    task_effects: Array  # (m, k) deviations from common effects
    crossed_sd: dict[str, float]
    crossed_effects: dict[str, Array]
    noise_variance: float
    criterion: float  # −2 log L
    n_evaluations: int
    is_stochastic: bool
    point: "Point" = field(repr=False)  # what standard errors are computed from

    @classmethod
    def at(cls, point: Point) -> Self:
        """The estimate, in units of the data."""
        likelihood, data = point.likelihood, point.likelihood.data
        common = origin_of(data.mean) @ point.solution.top[:, 0]
        common[0] += data.y_mean
        noise = point.noise_variance
        variance = np.full(len(common), np.inf)
        shrunken = data.fixed >= 0
        variance[shrunken] = noise * point.theta[data.fixed[shrunken]]
        effects = [
            part.reshape(-1, len(f))
            for f, part in zip(likelihood.families, point.solution.terms, strict=True)
        ]
        m, names = data.n_tasks, list(data.crossed)
        tasks = effects[0] if len(likelihood.varying) else np.zeros((m, 0))
        crossed = effects[len(effects) - len(names) :]
        sd = np.sqrt(noise * point.theta[data.first_crossed :])
        return cls(
            common=common,
            common_variance=variance,
            varying=likelihood.varying,
            task_variance=noise * point.theta[data.deviations[likelihood.varying]],
            task_effects=tasks,
            crossed_sd=dict(zip(names, sd.tolist(), strict=True)),
            crossed_effects={
                name: part[:, 0] for name, part in zip(names, crossed, strict=True)
            },
            noise_variance=noise * data.unit,
            criterion=point.value,
            n_evaluations=data.counter[0],
            is_stochastic=likelihood.arrow.is_stochastic,
            point=point,
        )

    @property
    def variances(self) -> Variances:
        """Where a search in similar data may start."""
        return Variances(
            self.common_variance,
            self.varying,
            self.task_variance,
            self.crossed_sd,
            self.noise_variance,
        )

    @cached_property
    def errors(self) -> "Errors":
        """Covariances of errors, without the rows."""
        point, names = self.point, tuple(self.crossed_sd)
        shape, mean = self.task_effects.shape, point.likelihood.data.mean
        return Errors(point.factor, point.noise_variance, mean, shape, names)


@dataclass(frozen=True, eq=False)
class Errors:
    """Covariances of the errors of effects."""

    factor: ArrowFactor
    noise: float  # variance of a row of mean weight
    mean: Array  # (1 + d,) of columns
    shape: tuple[int, ...]  # of task effects
    crossed: tuple[str, ...]  # names of factors

    @cached_property
    def common(self) -> Array:
        """Covariance (1 + d, 1 + d) of common effects."""
        origin = origin_of(self.mean)
        return np.asarray(self.noise * (origin @ self.factor.common() @ origin.T))

    @cached_property
    def task(self) -> Array:
        """Covariances (m, k, k) of task effects."""
        m, k = self.shape
        return self.noise * self.factor.blocks(0) if k else np.zeros((m, k, k))

    @cached_property
    def task_common(self) -> Array:
        """Covariances (m, k, 1 + d) of task effects with common ones."""
        m, k = self.shape
        if k == 0:
            return np.zeros((m, k, len(self.mean)))
        cross = np.array(self.factor.cross(0)).reshape(m, k, -1)
        # To effects about zero, as `origin_of` has it, which is nearly the identity.
        cross[:, :, 0] -= cross @ self.mean
        return self.noise * cross

    @cached_property
    def levels(self) -> dict[str, Array]:
        """Variances (levels,) of the effects of each crossed factor."""
        return {
            name: self.noise * self.factor.blocks(term)[:, 0, 0]
            for term, name in enumerate(self.crossed, int(self.shape[1] > 0))
        }


def estimate_mixed(
    rows: Rows,
    families: Families,
    *,
    intercepts: bool = True,
    slopes: bool = True,
    noise_variance: float | None = None,
    start: Variances | None = None,
    least_gain: float = LEAST_GAIN,
    tolerance: float = SETTLED,
) -> Mixed:
    """Maximise the restricted likelihood (REML), and find which effects vary.

    Parameters
    ----------
    rows : Rows
        Data.
    families : Families
        Features that share a variance between tasks, and common effects that are
        shrunken together. Features of the family COMMON never vary.
    intercepts, slopes : bool, default=True
        Whether intercepts vary between tasks, and whether slopes may.
    noise_variance : float, optional
        σ² where it is known; else it is estimated.
    start : Variances, optional
        Those of similar data with the same columns, where the search starts.
    least_gain : float
        Gain in −2 log L that the score of a family of slopes must promise; infinite
        for a fold: variances that are zero at the start are not tested.
    tolerance : float
        Gain in −2 log L that a last step may promise.

    Returns
    -------
    Mixed
        −2 log L is about ``tolerance`` above a minimum. Deterministic: same data, same
        bits.
    """
    data = Data.of(rows, families, intercepts, slopes, noise_variance)
    first = data.first_variances() if start is None else _variances_of(start, data)
    best = Likelihood.of(data, first).at(first)
    if not np.isfinite(least_gain):
        # A fold: the estimate from all rows has passed the tests below. Estimates from
        # other rows of the same model are one away from the optimum for each variance,
        # so that half of it is nothing.
        rough = max(tolerance, 0.5 * len(best.active))
        return Mixed.at(maximise(best, rough).trimmed())
    rough = max(ROUGH, tolerance)
    best = maximise(best, rough)
    most_rounds = 20  # of score tests
    for _ in range(most_rounds):
        entered = _enter(best, least_gain)
        if entered is None:
            break
        best = maximise(entered, rough)
    if tolerance < ROUGH:
        best = maximise(best, tolerance)
    if noise_variance is None and best.is_saturated:
        # Effects explain all rows, and the likelihood is flat in the noise.
        best = maximise(best.without_zero_noise(), tolerance)
    return Mixed.at(best.without_unseen().trimmed())


def _variances_of(start: Variances, data: Data) -> Array:
    """θ of an earlier estimate, or the first ones where it has none."""
    theta, noise = data.first_variances(), start.noise / data.unit
    for f in range(data.n_fixed):
        variance = start.common[data.fixed == f][0]
        if np.isfinite(variance):
            theta[f] = variance / noise
    theta[data.n_fixed : data.first_crossed] = 0.0
    for column, variance in zip(start.varying, start.task, strict=True):
        if data.deviations[column] >= 0:
            theta[data.deviations[column]] = variance / noise
    for c, name in enumerate(data.crossed):
        if name in start.crossed_sd:
            theta[data.first_crossed + c] = start.crossed_sd[name] ** 2 / noise
    return theta


# Its maximum.


def maximise(point: Point, tolerance: float = SETTLED) -> Point:
    """Newton's method on log θ with the average information, damped, in a box.

    Families whose θ falls below 1 / NEARLY_COMMON of the noise in the data of an effect
    are tried at zero.
    """
    unit = -np.log(point.likelihood.data.curvature)
    low, drop, high = (unit - np.log(x) for x in (TIGHTEST, NEARLY_COMMON, LOOSEST))
    if point.likelihood.pull is not None:
        # Where effects separate classes, no variance is most likely.
        largest = np.log(point.likelihood.data.largest_variances)
        high = np.minimum(high, np.maximum(largest, low + 1.0))
    stochastic = point.likelihood.arrow.is_stochastic
    settled_stochastic = 0.01  # promised gain where −2 log L is estimated by probes
    if stochastic:
        tolerance = max(tolerance, settled_stochastic)
    damping, stretch = FIRST_DAMPING, 1.0
    for _ in range(MOST_STEPS):
        active = point.active
        if not len(active):
            break
        place, gradient = np.log(point.theta[active]), point.gradient
        free = ((gradient <= 0) | (place > low[active])) & (
            (gradient >= 0) | (place < high[active])
        )
        weight = np.maximum(point.used, 0.0) + np.abs(gradient) + TINY
        matrix = (point.information + damping * np.diag(weight))[np.ix_(free, free)]
        step = np.zeros(len(active))
        step[free] = np.linalg.lstsq(matrix, -gradient[free], rcond=None)[0]
        promise = -float(gradient @ step)
        target = place + np.clip(stretch * step, -LONGEST_STEP, LONGEST_STEP)
        target = np.clip(target, low[active], high[active])
        theta = np.array(point.theta)
        theta[active] = np.exp(target)
        if promise <= tolerance:
            # The last step is known already, and doubles the number of digits.
            polished = point.moved(theta)
            return polished if stochastic else min(point, polished, key=_value)
        dropped = (target < drop[active]) & (step < 0)
        trial, gain = point, -np.inf
        if dropped.any():
            none = np.array(theta)
            none[active[dropped]] = 0.0
            trial = point.moved(none)
            gain = point.value - _value(trial)
            drop[active[dropped]] = low[active[dropped]]
        if not gain > 0:
            trial = point.moved(theta)
            gain = point.value - _value(trial)
        # Estimates of the value are not quite consistent with those of its derivative.
        if gain > (-promise if stochastic else 0.0):
            point = trial
        # A quadratic with this information would gain half of the promise.
        stretch = 2.0 * stretch if gain > LONGER * promise else 1.0
        damping *= 0.1 if gain > SHORTER * promise else 1.0 if gain > 0 else 10.0
        damping = max(damping, LEAST_DAMPING)
    return point


def _value(point: Point) -> float:
    """Value, or infinity where rounding leaves nothing to factorise."""
    try:
        return point.value
    except np.linalg.LinAlgError:
        return np.inf


def _widths(data: Data, families: Index) -> Index:
    """Columns that vary between tasks with each of these families."""
    known = data.deviations[data.deviations >= 0]
    return np.bincount(known, minlength=data.n_families)[families]


def _room(point: Point) -> int:
    """Further columns that may vary while an evaluation takes a third of a second."""
    data = point.likelihood.data
    most = 3 * 10**8 // max(data.n_tasks * len(data.norm) ** 2, 1)
    return max(most, 8) - len(point.likelihood.varying)


def _enter(point: Point, least_gain: float) -> Point | None:
    """Free the variances whose score promises a gain: all, the best, or less of it."""
    if np.all(point.theta > 0):
        return None
    scores, data = score_varying(point), point.likelihood.data
    least = np.full(data.n_families, SETTLED)
    least[: data.n_fixed] = ROUGH
    least[data.slopes] = least_gain
    gain = np.where(scores.gain > least[scores.families], scores.gain, 0.0)
    gain[_widths(data, scores.families) > _room(point)] = 0.0
    if not gain.any():
        return None
    # families whose promise is this share of the best are freed with it
    near_best = 0.3
    chosen = gain >= near_best * gain.max()
    order = np.argsort(-gain, kind="stable")
    widths = np.cumsum(_widths(data, scores.families)[order])
    chosen[order[widths > _room(point)]] = False
    best_only = gain == gain.max()
    for which in (chosen, best_only) if chosen.sum() > 1 else (chosen,):
        families, best = scores.families[which], scores.best[which]
        theta = np.array(point.theta)
        theta[families] = best
        likelihood = Likelihood.of(data, theta)
        for share in 0.25 ** np.arange(ENTRIES):
            theta[families] = share * best
            entered = likelihood.at(theta.copy())
            if _value(entered) < point.value:
                return entered
    return None
