"""Ties estimated from the data: restricted maximum likelihood (REML).

With the mixed model, V, P and g_j of `models`, twice the negative restricted
log-likelihood of the targets and its derivatives are

    f log σ² + yᵀ P y / σ² + log |V| + log |Xᵀ V⁻¹ X|,       f = n − rank X,
    ∂/∂θ_j = tr(L⁺ Z_jᵀ P Z_j) − g_j L⁺ g_jᵀ / σ²,

and the average of observed and expected information is g_j L⁺ Z_jᵀ P Z_l L⁺ g_lᵀ / σ²
(Gilmour, Thompson, Cullis 1995). Newton's method in log t_j = −log θ_j maximises it.
Features whose tie t_j = σ² / τ_j² grows without end become fixed effects only, and
leave the equations of tasks; they come back if the derivative at θ_j = 0 says so.

Nested tasks have one more variance per level of groups, in the same ratio to τ_j² for
all features and intercepts: q_g has the covariance c τ_j², c = 1 / between.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl.data import Moments, pooled_variance
from priormtl.exceptions import TooLargeError
from priormtl.losses import (
    FreeIntercepts,
    Intercepts,
    SquaredFit,
    TiedIntercepts,
)
from priormtl.priors.graphs import Laplacian
from priormtl.problem.elimination import Elimination, TieGraph
from priormtl.reml.models import (
    Derivatives,
    GraphModel,
    ModeModel,
    RowModel,
    StarModel,
    Stars,
    TiedFit,
)

Mask = np.ndarray[Any, np.dtype[np.bool_]]

LEAST_MISFIT = 1e-13  # of the sum of squared targets: rounding
NO_MISFIT = 1e-12  # of the squared targets: rounding
CONSTANT = 1e-12  # spread of a constant column, in units of its mean
STILL = 1e-12  # variance within tasks of a column that has none, of its variance

# Conventions; no measurement is recorded that chose them.
LOOSEST, TIGHTEST = 1e-8, 1e5  # ties in units of a task's curvature
NEARLY_COMMON = 1e3  # ties beyond this are tried as infinite
LONGEST_STEP = 4.0  # in log t
SETTLED = 3e-4  # promised gain in twice the log-likelihood
TINY = 1e-12
SATURATED = 0.1  # share of observations that is left for the noise
SHORTER, LONGER = 0.2, 0.7  # gains, of the promise, that ask for other steps
MOST_STEPS = 60
ENTRIES = 4  # sizes that are tried of a variance that comes back
FIRST_DAMPING, LEAST_DAMPING = 1e-3, 1e-6

MOST_NUMBERS = 2**26  # in one stack of blocks: 512 MB
MOST_BLOCK_STEPS = 10**6
MANY_TASKS = 4000  # beyond, a sample of tasks gives the start
SAMPLED_TASKS = 2000


# The likelihood, and its maximum.


@dataclass(frozen=True, eq=False)
class Components:
    """Which variance each row has: of its deviations, and of its fixed effect.

    Rows of one family share a variance. Families of deviations come first, then those
    of fixed effects, then the variances of groups of nested tasks, level by level, in
    units of those of tasks.
    """

    deviations: Index  # (k,) family of each row
    fixed: Index  # (k,) family of its fixed effect; −1: not shrunken
    n_deviations: int
    n_parts: int  # connected parts, each with its own fixed effects
    estimates_fixed: bool
    levels: tuple[int, ...] = ()  # of nested tasks whose variance is estimated
    n_levels: int = 0

    @property
    def spreads(self) -> Index:
        """Place of the variance of each level."""
        first = max(self.n_deviations - 1, int(self.fixed.max(initial=-1))) + 1
        return np.asarray(first + np.arange(len(self.levels)), dtype=np.intp)

    def spread(self, theta: Array) -> Array:
        """Variance at each level, in units of that of tasks."""
        found = np.ones(self.n_levels)
        found[list(self.levels)] = theta[self.spreads]
        return found

    def theta(self, theta: Array) -> Array:
        """Variance of each row's deviations (k,)."""
        return theta[self.deviations]

    def shrinkage(self, theta: Array) -> Array:
        """Precisions of fixed effects (k,); zero where they are not shrunken."""
        shrinks = self.fixed >= 0
        found = np.zeros(len(self.fixed))
        found[shrinks] = 1.0 / theta[self.fixed[shrinks]]
        return found

    def derivatives(self, fit: TiedFit, families: Index) -> Derivatives:
        """Derivatives of families: sums over their rows."""
        rows = np.flatnonzero(np.isin(self.deviations, families))
        columns = np.flatnonzero(np.isin(self.fixed, families))
        chosen = np.isin(self.spreads, families)
        levels = np.array(self.levels, dtype=np.intp)[chosen]
        found = fit.derivatives(rows, columns, levels)
        parts = self.deviations[rows], self.spreads[chosen], self.fixed[columns]
        member = np.concatenate(parts)
        sums = (families[:, np.newaxis] == member).astype(np.float64)
        return Derivatives(
            sums @ found.squares,
            sums @ found.traces,
            sums @ found.information @ sums.T,
        )


@dataclass(frozen=True, eq=False)
class Evidence:
    """Restricted likelihood at some variances; the noise is known or at its best."""

    model: RowModel
    components: Components
    squares: float  # of the targets
    freedom: float  # observations beyond fixed effects
    known_noise: float | None
    theta: Array  # variances of all families over that of the noise

    def at(self, theta: Array) -> Self:
        """Same data, other variances."""
        return replace(self, theta=theta)

    @cached_property
    def fit(self) -> TiedFit:
        """Best rows."""
        parts = self.components
        return self.model.fit(
            parts.theta(self.theta),
            parts.shrinkage(self.theta),
            parts.spread(self.theta),
        )

    @cached_property
    def misfit(self) -> float:
        """Least penalised sum of squares."""
        return max(self.fit.misfit, LEAST_MISFIT * self.squares)

    @property
    def noise_variance(self) -> float:
        """σ²."""
        if self.known_noise is None:
            return self.misfit / self.freedom
        return self.known_noise

    @cached_property
    def value(self) -> float:
        """Twice the negative log-likelihood, but for a constant."""
        if self.known_noise is None:
            data = self.freedom * float(np.log(self.misfit))
        else:
            data = self.misfit / self.known_noise
        shrinkage = self.components.shrinkage(self.theta)
        priors = float(np.log(shrinkage[shrinkage > 0]).sum())
        return data + self.fit.log_determinant - self.components.n_parts * priors

    @property
    def varying(self) -> Index:
        """Families whose variance is above zero and estimated."""
        known = np.ones(len(self.theta), dtype=bool)
        if not self.components.estimates_fixed:
            known[self.components.n_deviations :] = False
        return np.flatnonzero(known & (self.theta > 0))

    @cached_property
    def _here(self) -> Derivatives:
        return self.components.derivatives(self.fit, self.varying)

    @property
    def used(self) -> Array:
        """Degrees of freedom that each family takes beyond fixed effects."""
        return self.theta[self.varying] * self._here.traces

    @property
    def is_saturated(self) -> bool:
        """Whether variances leave next to no observations for the noise."""
        return self.freedom - float(self.used.sum()) < SATURATED * self.freedom

    def without_zero_noise(self) -> Self:
        """Same data, with log σ added to the log-likelihood: σ = 0 is impossible.

        A gamma prior of σ with shape 2 and a rate near zero, which moves estimates by
        less than a standard error (Chung, Rabe-Hesketh, Dorie, Gelman, Liu, "A
        nondegenerate penalized likelihood estimator for variance parameters in
        multilevel models", Psychometrika 2013). It takes one degree of freedom.
        """
        return replace(self, freedom=max(self.freedom - 1.0, 1.0))

    @property
    def slope(self) -> Array:
        """Derivative of the value in log t = −log θ, of rows that vary."""
        theta = self.theta[self.varying]
        return -theta * self._in_theta(self._here)[0]

    @property
    def information(self) -> Array:
        """Average information about log t of rows that vary."""
        theta = self.theta[self.varying]
        return self._in_theta(self._here)[1] * np.outer(theta, theta)

    def entries(self, rows: Index) -> tuple[Array, Array]:
        """Best θ of rows that do not vary, each alone, and the gain that it promises.

        A gain of zero means that the likelihood falls from θ = 0.
        """
        found = self.components.derivatives(self.fit, rows)
        slope, information = self._in_theta(found)
        curvature = np.maximum(information.diagonal(), TINY * np.abs(slope) + TINY)
        best = np.maximum(-slope, 0.0) / curvature
        return best, best * np.abs(slope)

    def _in_theta(self, found: Derivatives) -> tuple[Array, Array]:
        """Derivative and average information in θ, with σ² at its best."""
        squares = found.squares / self.noise_variance
        information = found.information / self.noise_variance
        if self.known_noise is None:
            information = information - np.outer(squares, squares) / self.freedom
        return found.traces - squares, information


def maximise(
    evidence: Evidence, unit: float, allowed: Index, tolerance: float
) -> Evidence:
    """Newton's method on log t with the average information, damped, in a box.

    Rows whose tie passes NEARLY_COMMON become fixed effects. When nothing else is to be
    gained those of ``allowed`` come back whose derivative at θ = 0 promises a gain.
    """
    low, drop, high = (
        float(np.log(x * unit)) for x in (LOOSEST, NEARLY_COMMON, TIGHTEST)
    )
    last = np.full(len(evidence.theta), drop)  # tie beyond which a row is dropped
    last[evidence.components.n_deviations :] = np.inf
    damping, stretch = FIRST_DAMPING, 1.0
    for _ in range(MOST_STEPS):
        try:
            step, promise = _step(evidence, damping, stretch, low, high)
        except np.linalg.LinAlgError:  # rounding: nothing more can be told
            break
        if promise <= tolerance:
            entered = _enter(evidence, allowed, tolerance)
            if entered is None and tolerance > SETTLED:
                break
            if entered is None:
                # The last step is known already, and doubles the number of digits.
                theta = np.array(evidence.theta)
                theta[evidence.varying] *= np.exp(-step)
                polished = evidence.at(theta)
                return min(evidence, polished, key=_value)
            evidence, damping, stretch = entered, FIRST_DAMPING, 1.0
            continue
        gain = -np.inf
        if evidence.slope @ step < 0:
            rows = evidence.varying
            log_tie = step - np.log(evidence.theta[rows])
            dropped = (log_tie > last[rows]) & (step > 0)
            for drops in (dropped, np.zeros_like(dropped)):
                theta = np.array(evidence.theta)
                theta[rows] = np.where(drops, 0.0, np.exp(-np.minimum(log_tie, high)))
                trial = evidence.at(theta)
                gain = evidence.value - _value(trial)
                if gain > 0 or not dropped.any():
                    break
                last[rows[dropped]] = high
        if gain > 0:
            evidence = trial
        # A quadratic with this information would gain half of the promise. Where the
        # information is too large, longer steps make up for it.
        stretch = 2.0 * stretch if gain > LONGER * promise else 1.0
        damping *= 0.1 if gain > SHORTER * promise else 1.0 if gain > 0 else 10.0
        damping = max(damping, LEAST_DAMPING)
    return evidence


def _step(
    evidence: Evidence, damping: float, stretch: float, low: float, high: float
) -> tuple[Array, float]:
    """Damped step in log t, and the gain that it would promise without its bounds.

    Rows pressed against the box do not move, and no row moves too far.
    """
    place, slope = -np.log(evidence.theta[evidence.varying]), evidence.slope
    inside = ((slope <= 0) | (place > low)) & ((slope >= 0) | (place < high))
    free = np.flatnonzero(inside)
    step = np.zeros_like(slope)
    if len(free):
        weight = np.maximum(evidence.used, 0.0) + np.abs(slope) + TINY
        matrix = evidence.information + damping * np.diag(weight)
        inner = matrix[np.ix_(free, free)]
        step[free] = np.linalg.lstsq(inner, -slope[free], rcond=None)[0]
    promise = -float(slope @ step)
    step *= stretch
    return np.maximum(np.clip(step, -LONGEST_STEP, LONGEST_STEP), low - place), promise


def _enter(evidence: Evidence, allowed: Index, tolerance: float) -> Evidence | None:
    """Let fixed effects vary that promise a gain: all, the best, or less of it."""
    common = allowed[evidence.theta[allowed] == 0]
    if len(common) == 0:
        return None
    try:
        best, gain = evidence.entries(common)
    except np.linalg.LinAlgError:
        return None
    chosen = gain > tolerance
    only = gain == gain.max()
    for share in 0.25 ** np.arange(ENTRIES) if chosen.any() else ():
        for rows in (chosen, only):
            theta = np.array(evidence.theta)
            theta[common[rows]] = share * best[rows]
            entered = evidence.at(theta)
            if _value(entered) < evidence.value - 0.1 * share * tolerance:
                return entered
    return None


def _value(evidence: Evidence) -> float:
    """Value, or infinity where rounding leaves nothing to factorise."""
    try:
        return evidence.value
    except np.linalg.LinAlgError:
        return np.inf


# Estimates from data.


COMMON = -2  # family of features that do not vary between tasks


class Families(NamedTuple):
    """Features that share a variance: those of their deviations, of fixed effects.

    Wiggles of one column share both, and so do the categories of one column.
    """

    deviations: Index  # (d,) family of each feature
    fixed: Index  # (d,) family of its fixed effect; −1: it is not shrunken


class Precision(NamedTuple):
    """How sure fitted rows are: covariances given the data.

    They are in units of the noise of a row of mean weight. Rows are the intercept and
    the features, common effects b with deviations u_i of tasks.
    """

    varying: Index  # (k,) rows that vary
    common: Array  # (p, p) of b
    cross: Array  # (m, k, p) of u_i with b
    own: Array  # (m, k, k) of u_i
    middle: Array  # (m,) of deviations of intercepts with their mean


@dataclass(frozen=True, eq=False)
class CrossedEffects:
    """Effects of the levels of crossed factors, those of the first factor first."""

    sd: dict[str, float]  # standard deviation of the effects of each factor
    noise_variance: float
    effects: Array  # (levels,)
    find_errors: Callable[[], Array]
    is_stochastic: bool = False  # whether the likelihood was estimated by probes

    @cached_property
    def errors(self) -> Array:
        """Standard errors (levels,)."""
        return self.find_errors()

    def strengths(self, sizes: Sequence[int]) -> Array:
        """σ² / τ² of each level (levels,): what their squares cost."""
        variances = np.square(list(self.sd.values()))
        with np.errstate(divide="ignore"):
            return np.repeat(self.noise_variance / variances, sizes)


@dataclass(frozen=True, eq=False)
class Ties:
    """Weights t_j = σ² / τ_j² of ties, with the noise variance σ².

    τ_j² is the variance of coefficient j between tasks, in the metric of L.
    """

    weights: Array  # (d,)
    intercept: float | None  # None unless intercepts are tied
    noise_variance: float | None  # None where nothing could be estimated
    rows: Array  # fitted coefficients (d, m), after intercepts (1, m) where tied
    shrinkage: Array  # (d,) precisions s_j = σ² / κ_j² of fixed effects; 0: none
    between: tuple[float, ...] = ()  # weights between groups of nested tasks
    # Minus twice the restricted log-likelihood, but for a constant that depends on the
    # data and on which effects are fixed only; NaN where nothing could be estimated.
    deviance: float = float("nan")
    # Where it comes with the estimate; folds of most structures never ask.
    find_precision: Callable[[], Precision] | None = None
    crossed: CrossedEffects | None = None
    n_rows: int = 0  # that it was estimated from, where rows were at hand
    leverages: Array | None = None  # (n,) of rows, where they are asked for

    @cached_property
    def precision(self) -> Precision | None:
        """How sure fitted rows are, where it comes with the estimate."""
        return None if self.find_precision is None else self.find_precision()


def estimate_ties(
    moments: Moments,
    laplacian: Laplacian,
    intercepts: Intercepts,
    *,
    families: Families | None = None,
    noise_variance: float | None = None,
    slopes: bool = True,
    start: Ties | None = None,
    unit: float = 1.0,
) -> Ties:
    """Maximise the restricted likelihood (REML) of the ties, on statistics alone.

    A weight of 100,000 times the mean curvature of a task, over the mean degree of L,
    stands for "does not vary between tasks". Features that are constant within every
    task get it too, unless there are no intercepts: how their coefficients vary cannot
    be told from how intercepts do. Features that are constant or zero throughout get 1,
    and so does everything where the data cannot tell: no two tasks tied, targets all
    zero or fitted exactly by one model for all tasks, or (with a warning) no more rows
    than coefficients to be known without ties. A row of weight w has noise of variance
    σ² / w.

    Parameters
    ----------
    moments : Moments
        Data, however they are kept.
    laplacian : Laplacian
        L over the tasks.
    intercepts : Intercepts
        Their kind; if tied, their tie is estimated too, whatever strength is given.
    families : Families, optional
        Features that share a variance, and fixed effects that are shrunken. By default
        each feature has its own variance, and no fixed effect is shrunken.
    noise_variance : float, optional
        σ² where it is known; else it is estimated.
    slopes : bool, default=True
        Whether coefficients vary. If not, all have the tightest tie, and only that of
        tied intercepts is estimated (random intercepts).
    start : Ties, optional
        Estimate from similar data with the same features, where the search starts.
    unit : float, default=1.0
        Mean weight of rows, which says how many rows a total weight stands for.

    Returns
    -------
    Ties
        Twice the log-likelihood is about 3e-4 below a maximum (1e-6 per task if that is
        more). Deterministic: same data, same bits.
    """
    search = Search(families, noise_variance, slopes, start, SETTLED, unit)
    return search_ties(moments, laplacian, intercepts, search)[0]


class Search(NamedTuple):
    """What is known, and how a maximum is sought."""

    families: Families | None
    noise_variance: float | None
    slopes: bool
    start: Ties | None
    tolerance: float  # promised gain in twice the log-likelihood
    unit: float  # mean weight of rows


def search_ties(
    moments: Moments, laplacian: Laplacian, intercepts: Intercepts, search: Search
) -> tuple[Ties, float]:
    """Estimate, and how much more likely it is than the start."""
    tied = isinstance(intercepts, TiedIntercepts)
    fit = SquaredFit(moments, TiedIntercepts(laplacian, 1.0) if tied else intercepts)
    unknown = unknown_ties(moments.shape, tied, laplacian.between), 0.0
    if not np.any(laplacian.degree > 0) or not fit.magnitude > 0:
        return unknown
    if tied and fit.means_are_free:  # no two tasks that are tied have rows
        return unknown
    plan = _plan(fit, laplacian)
    kinds = RowKinds.of(fit, laplacian, search)
    if not kinds.varies.any():
        if search.slopes:
            return unknown
        d, m = moments.shape
        coef = np.zeros((len(kinds.weights), m))
        between = laplacian.between
        return Ties(kinds.weights, None, None, coef, np.zeros(d), between), 0.0
    scaled = Scaled.of(fit, laplacian, plan, kinds, search)
    start = scaled.start(search)
    if scaled.noise is None and start.freedom <= 0:
        warnings.warn(
            f'ties="adaptive" needs more rows than the {start.model.n_free} '
            "coefficients that all tasks have in common: got "
            f"{float(scaled.observations.sum()):g}; all ties have weight 1.",
            UserWarning,
            stacklevel=2,
        )
        return unknown
    if not _can_be_told(start):
        return unknown
    best = scaled.maximise(start, search.tolerance)
    if scaled.noise is None and best.is_saturated:
        # Coefficients explain all rows, and the likelihood is flat in the noise.
        best = scaled.maximise(best.without_zero_noise(), search.tolerance)
    return scaled.to_ties(best, kinds, fit.level), start.value - best.value


class RowKinds(NamedTuple):
    """What data tell about rows of coefficients: intercepts, where tied, then slopes.

    Rows that are not seen are zero in all tasks; of those that are, some are fixed
    effects only.
    """

    extra: int  # 1 where intercepts are tied
    curvature: Array  # (k,) of a mean task
    seen: Mask  # (k,)
    varies: Mask  # (k,) whether tasks may differ
    weights: Array  # (k,) ties unless they are estimated

    @classmethod
    def of(cls, fit: SquaredFit, laplacian: Laplacian, search: Search) -> Self:
        """Find out which features are constant, in all tasks or within each."""
        (d, m), moments = fit.shape, fit.moments
        tied = isinstance(fit.intercepts, TiedIntercepts)
        free = isinstance(fit.intercepts, FreeIntercepts)
        gram, extra = fit.normal_form().gram, int(tied)
        curvature = np.diagonal(gram, axis1=1, axis2=2).mean(axis=0)
        variance = pooled_variance(moments)
        level = (CONSTANT * np.abs(moments.x_mean).max(axis=0)) ** 2
        within = moments.squared_deviations().sum(axis=0) / moments.weight.sum()
        constant = variance <= level
        still = within <= np.maximum(level, STILL * variance)
        seen = curvature > 0
        if tied:
            seen[1:] &= ~constant
        elif free:
            seen &= ~still
        varies = np.array(seen)
        if tied:
            varies[1:] &= ~still
        varies[extra:] &= search.slopes
        if search.families is not None:
            varies[extra:] &= search.families.deviations != COMMON
        tightest = TIGHTEST * m / float(laplacian.degree.sum())
        weights = np.ones(extra + d)
        weights[seen] = tightest * curvature[seen]
        if tied or free:
            tight = tightest * moments.weight.mean() * variance
            hidden = still & ~constant & ~seen[extra:]
            weights[extra:] = np.where(hidden, tight, weights[extra:])
        return cls(extra, curvature, seen, varies, weights)


@dataclass(frozen=True, eq=False)
class Scaled:
    """Data in units in which the targets and a task's mean curvature are 1.

    Rows that share a variance share their unit.
    """

    laplacian: Laplacian
    plan: "Plan"
    components: Components
    rows: Index  # that are seen
    allowed: Index  # families that may vary
    unit: float  # tie as strong as a curvature of 1
    scale: Array  # of the rows
    height: float  # of the targets
    gram: Array  # (m, k, k)
    linear: Array  # (k, m)
    squares: Array  # (m,) of the targets
    observations: Array  # (m,)
    noise: float | None  # variance, where it is known

    @classmethod
    def of(
        cls,
        fit: SquaredFit,
        laplacian: Laplacian,
        plan: "Plan",
        kinds: RowKinds,
        search: Search,
    ) -> Self:
        """Choose units, and number the families of rows."""
        (d, m), moments, form = fit.shape, fit.moments, fit.normal_form()
        families = search.families or Families(np.arange(d), np.full(d, -1))
        rows, first = np.flatnonzero(kinds.seen), np.full(kinds.extra, -1)
        own = np.concatenate([first, families.deviations])[rows]
        own[~kinds.varies[rows]] = COMMON  # whatever family they are of
        fixed = np.concatenate([first, families.fixed])[rows]
        _, alike = np.unique(np.where(fixed >= 0, fixed + d, own), return_inverse=True)
        mean = np.bincount(alike, kinds.curvature[rows]) / np.bincount(alike)
        total = 2.0 * fit.magnitude
        scale, height = np.sqrt(mean[alike]), float(np.sqrt(total))
        components = _components(own, fixed, laplacian, isinstance(plan, Stars))
        gram = form.gram
        if not kinds.seen.all():
            gram = gram[:, rows[:, np.newaxis], rows]
        free = isinstance(fit.intercepts, FreeIntercepts)
        means = 0.0 if free else moments.weight * moments.y_mean**2
        present = (moments.weight > 0) * float(free)
        known = search.noise_variance
        return cls(
            laplacian,
            plan,
            components,
            rows,
            np.unique(components.deviations[kinds.varies[rows]]),
            m / float(laplacian.degree.sum()),
            scale,
            height,
            gram / np.outer(scale, scale),
            form.linear[rows] / (height * scale[:, np.newaxis]),
            (moments.yy + means) / total,
            moments.weight / search.unit - present,
            None if known is None else known / total,
        )

    def start(self, search: Search) -> Evidence:
        """Likelihood where the search for its maximum begins."""
        m = self.laplacian.m
        theta = _first_variances(
            search.start,
            self.rows,
            self.scale,
            self.unit,
            self.components,
            self.laplacian.between,
        )
        families = np.arange(self.components.n_deviations)
        theta[np.setdiff1d(families, self.allowed)] = 0.0
        is_large = self.laplacian.one_group > 0 and m > MANY_TASKS
        if is_large and isinstance(self.plan, Stars) and search.start is None:
            # The maximum for some tasks leaves a few steps to that for all.
            some = np.arange(0, m, m // SAMPLED_TASKS)
            weight, parts = self.plan.weight[some], self.plan.parts[some]
            stars = self.plan._replace(weight=weight, parts=parts)
            sample = self.likelihood(theta, stars, some)
            if _can_be_told(sample):
                theta = self.maximise(sample, search.tolerance).theta
        return self.likelihood(theta, self.plan, slice(None))

    def likelihood(self, theta: Array, plan: "Plan", tasks: Index | slice) -> Evidence:
        """Likelihood of the data of some tasks."""
        squares = float(self.squares[tasks].sum())
        data = self.gram[tasks], self.linear[:, tasks], squares
        shrinks = self.components.fixed >= 0
        model = _model(plan, self.laplacian, *data, shrinks)
        freedom = float(self.observations[tasks].sum()) - model.n_free
        return Evidence(model, self.components, squares, freedom, self.noise, theta)

    def maximise(self, start: Evidence, tolerance: float) -> Evidence:
        """Likelihood at its maximum, up to a gain in twice its logarithm."""
        settled_per_task = 1e-6  # the same, where it is more
        least = max(tolerance, settled_per_task * self.laplacian.m)
        return maximise(start, self.unit, self.allowed, least)

    def to_ties(self, best: Evidence, kinds: RowKinds, level: Array | None) -> Ties:
        """Estimate in the units of the data."""
        extra, parts, scale = kinds.extra, self.components, self.scale
        theta = parts.theta(best.theta)
        varies = theta > 0
        weights = kinds.weights.copy()
        weights[self.rows[varies]] = scale[varies] ** 2 / theta[varies]
        shrinkage = np.zeros(len(weights))
        shrinkage[self.rows] = parts.shrinkage(best.theta) * scale**2
        coef = np.zeros((len(weights), self.laplacian.m))
        coef[self.rows] = self.height / scale[:, np.newaxis] * best.fit.coef
        if level is not None:
            coef[0] += level
        between = np.array(self.laplacian.between)
        between[list(parts.levels)] = 1.0 / best.theta[parts.spreads]
        return Ties(
            weights[extra:],
            float(weights[0]) if extra else None,
            best.noise_variance * self.height**2,
            coef,
            shrinkage[extra:],
            tuple(between.tolist()),
            float(best.value),
        )


def _first_variances(
    start: Ties | None,
    rows: Index,
    scale: Array,
    unit: float,
    components: Components,
    between: tuple[float, ...],
) -> Array:
    """Variances of an earlier estimate, else as large as noise in a task's data."""
    n_families = max(components.n_deviations - 1, int(components.fixed.max())) + 1
    theta = np.full(n_families + len(components.levels), 1.0 / unit)
    theta[components.n_deviations :] = 1.0
    if start is not None and len(start.between) == components.n_levels:
        between = start.between
    theta[components.spreads] = 1.0 / np.array(between)[list(components.levels)]
    if start is None or start.noise_variance is None:
        return theta
    extra = int(start.intercept is not None)
    first = np.array([start.intercept] if extra else [], dtype=np.float64)
    weights = np.concatenate([first, start.weights])
    if len(rows) and rows[-1] >= len(weights):
        return theta
    tie = weights[rows] / scale**2
    nearly_tightest = 1e4  # ties beyond this, of an earlier estimate, are infinite
    near = np.where(tie < nearly_tightest * unit, 1.0 / tie, 0.0)
    theta[components.deviations] = near
    shrinkage = np.concatenate([np.zeros(extra), start.shrinkage])[rows] / scale**2
    known = (components.fixed >= 0) & (shrinkage > 0)
    theta[components.fixed[known]] = 1.0 / shrinkage[known]
    return theta


def _can_be_told(evidence: Evidence) -> bool:
    """Whether there is a likelihood at the start, and something left to explain."""
    if evidence.known_noise is None and evidence.freedom <= 0:
        return False
    enough = NO_MISFIT * evidence.squares
    return np.isfinite(_value(evidence)) and evidence.misfit > enough


def unknown_ties(
    shape: tuple[int, int], tied: bool, between: tuple[float, ...]
) -> Ties:
    """Ties of weight 1, where data tell nothing."""
    d, m = shape
    zeros = np.zeros((d + tied, m))
    return Ties(np.ones(d), 1.0 if tied else None, None, zeros, np.zeros(d), between)


def _components(
    own: Index, fixed: Index, laplacian: Laplacian, estimates_fixed: bool
) -> Components:
    """Families of rows, numbered without gaps."""
    names, deviations = np.unique(own, return_inverse=True)
    shrinks = fixed >= 0
    places = np.full(len(fixed), -1)
    _, found = np.unique(fixed[shrinks], return_inverse=True)
    places[shrinks] = found + len(names)
    n_parts = int(laplacian.components.max()) + 1
    # Levels without groups that are tied have no variance.
    levels = np.unique(laplacian.level[laplacian.level > 0]) - 1
    if not estimates_fixed:
        levels = levels[:0]  # only stars know them
    return Components(
        deviations,
        places,
        len(names),
        n_parts,
        estimates_fixed,
        tuple(levels.tolist()),
        len(laplacian.between),
    )


# How tasks come apart.


Plan = Stars | Elimination | tuple[Array, Array]  # the last: modes of L


def _plan(fit: SquaredFit, laplacian: Laplacian) -> Plan:
    """Modes of L where tasks share a Gram matrix, stars, or an order of elimination."""
    d, m = fit.shape
    shared = fit.normal_size < m * d**2 and not laplacian.between
    modes = laplacian.modes if shared else None
    plan: Plan | None = modes or stars_of(laplacian)
    blocks = m if modes is None else len(np.unique(modes[0]))
    if plan is None:
        plan = _order(laplacian)
        blocks = 0 if plan is None else plan.n_blocks
    if plan is None or blocks * (d + 1) ** 2 > MOST_NUMBERS:
        n_ties = len(TieGraph.of(laplacian).weight)
        raise TooLargeError(
            'ties="adaptive" must factorise blocks of features × features for '
            f"each task and tie, which is too much for {d} features and "
            f"{n_ties} ties between {m} tasks; give the weights, choose features "
            "first, or tie tasks to their mean or in a chain."
        )
    return plan


@lru_cache(maxsize=8)
def _order(laplacian: Laplacian) -> Elimination | None:
    """Order of elimination of all nodes but the ground; None if it takes too long."""
    return Elimination.plan(TieGraph.of(laplacian).grounded().graph, MOST_BLOCK_STEPS)


def stars_of(laplacian: Laplacian) -> Stars | None:
    """Trees of groups that are all there is; None for other graphs."""
    if not laplacian.is_zero and not laplacian.is_tree:
        return None
    m, forest = laplacian.m, laplacian.forest
    tied = laplacian.first < m
    inner = laplacian.first >= m
    weight, parts = np.full(m, np.inf), np.zeros(m, dtype=np.intp)
    weight[laplacian.first[tied]] = laplacian.weight[tied]
    parts[laplacian.first[tied]] = laplacian.second[tied] - m
    # Tasks that are not tied are groups of their own.
    alone, k = np.flatnonzero(np.isinf(weight)), len(forest.parent)
    parts[alone] = k + np.arange(len(alone))
    parent = np.concatenate([forest.parent, np.full(len(alone), -1)])
    # Weights of groups as if they varied as much as tasks do.
    factor, level = np.array([1.0, *laplacian.between]), np.full(len(parent), -1)
    level[laplacian.first[inner] - m] = laplacian.level[inner] - 1
    above = np.concatenate([forest.weight, np.zeros(len(alone))]) / factor[level + 1]
    return Stars(weight, parts, parent, above, level)


def _model(
    plan: Plan,
    laplacian: Laplacian,
    gram: Array,
    linear: Array,
    squares: float,
    shrinks: Mask,
) -> RowModel:
    """Model of least squares in units in which curvatures are 1."""
    if isinstance(plan, Stars):
        return StarModel.of(gram, linear, squares, plan, shrinks)
    least = float(laplacian.degree.sum()) / (TIGHTEST * laplacian.m)
    if isinstance(plan, Elimination):
        return GraphModel.of(gram, linear, squares, laplacian, plan, least, shrinks)
    return ModeModel.of(gram, linear, squares, plan, least, shrinks)
