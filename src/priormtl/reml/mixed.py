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
(Gilmour, Thompson, Cullis 1995). Variances are freed by their score at zero, which is
tr(Uᵀ P U) − |Uᵀ P y|² / σ² for the columns U of a family. The trace is the mean of
|Uᵀ P y*|² over targets y* drawn from the model at σ = 1, so that a round of tests takes
products of rows with columns only.

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
    mixed.common_covariance, mixed.task_covariance, mixed.crossed_variance
    estimate_mixed(fold, families, start=mixed)  # folds start from all rows

The coefficient of column ``varying[j]`` in task i is ``common[varying[j]] +
task_effects[i, j]``. The score tests of a point are `score_varying(mixed.point)`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.linalg import lapack
from scipy.sparse import csr_array

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl.reml.arrow import Arrow, Term, Vectors
from priormtl.reml.arrow import Factor as ArrowFactor
from priormtl.reml.ties import (
    COMMON,
    ENTRIES,
    FIRST_DAMPING,
    LEAST_DAMPING,
    LEAST_MISFIT,
    LONGER,
    LONGEST_STEP,
    LOOSEST,
    MOST_STEPS,
    NEARLY_COMMON,
    SATURATED,
    SETTLED,
    SHORTER,
    STILL,
    TIGHTEST,
    TINY,
    Families,
)

NO_PIVOT = 1e-10  # pivots below this, of columns of norm 1, are zero
# Gain in −2 log L that the score of slopes must promise, a z value of 2. On two drawn
# tables (180 tasks, 334 features) 0.3, 1, 2, 4 and 7 had mean squared errors of 0.214,
# 0.210, 0.207, 0.202 and 0.205, and took 4.1, 2.5, 1.7, 1.4 and 0.7 s.
LEAST_GAIN = 4.0
NEAR_BEST = 0.3  # families whose promise is this share of the best are freed with it
MOST_DRAWS, FEWEST_DRAWS = 256, 8  # of targets for the trace of a score
DRAWN_TASKS, DRAWN_ROWS = 5_000, 2**25  # draws times tasks, or rows, that are enough
BATCH_NUMBERS = 2**22  # in targets that are drawn at once: 32 MB
SETTLED_STOCHASTIC = 0.01  # promised gain where −2 log L is estimated by probes
ROUGH = 0.1  # promised gain in −2 log L at which variances are tested for others
MANY_TASKS = 100  # per column, beyond which sums of tasks are taken column by column
MOST_ROUNDS = 20  # of score tests


class Factor(NamedTuple):
    """A crossed factor."""

    levels: Index  # (n,) level of each row; −1: missing
    n_levels: int


class Rows(NamedTuple):
    """Data of a mixed model."""

    X: Array  # (n, d) features, without intercept
    y: Array  # (n,)
    task: Index  # (n,) task of each row; −1: missing
    n_tasks: int
    weight: Array | None = None  # (n,) ≥ 0, precisions of rows up to a factor
    crossed: Mapping[str, Factor] = {}


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

    @cached_property
    def common_covariance(self) -> Array:
        """Covariance (1 + d, 1 + d) of errors of common effects."""
        origin = self.point.likelihood.data.origin
        noise = self.point.noise_variance
        return np.asarray(noise * (origin @ self.point.factor.common() @ origin.T))

    @cached_property
    def task_covariance(self) -> Array:
        """Covariances (m, k, k) of errors of task effects."""
        m, k = self.task_effects.shape
        if k == 0:
            return np.zeros((m, k, k))
        return self.point.noise_variance * self.point.factor.blocks(0)

    @cached_property
    def task_common_covariance(self) -> Array:
        """Covariances (m, k, 1 + d) of errors of task effects with common ones."""
        m, k = self.task_effects.shape
        if k == 0:
            return np.zeros((m, k, len(self.common)))
        cross = self.point.factor.cross(0).reshape(m, k, -1)
        origin = self.point.likelihood.data.origin
        return np.asarray(self.point.noise_variance * (cross @ origin.T))

    @cached_property
    def crossed_variance(self) -> dict[str, Array]:
        """Variances (levels,) of errors of the effects of each crossed factor."""
        point, first = self.point, int(len(self.varying) > 0)
        return {
            name: point.noise_variance * point.factor.blocks(term)[:, 0, 0]
            for term, name in enumerate(self.crossed_sd, first)
        }


def estimate_mixed(
    rows: Rows,
    families: Families,
    *,
    intercepts: bool = True,
    slopes: bool = True,
    noise_variance: float | None = None,
    start: Mixed | None = None,
    least_gain: float = LEAST_GAIN,
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
    start : Mixed, optional
        Estimate from similar data with the same columns, where the search starts.
    least_gain : float
        Gain in −2 log L that the score of a family of slopes must promise.

    Returns
    -------
    Mixed
        −2 log L is about 3e-4 above a minimum. Deterministic: same data, same bits.
    """
    data = Data.of(rows, families, intercepts, slopes, noise_variance)
    first = data.first_variances()
    if start is not None:
        first = data.variances_of(start, first)
    best = _maximise(Likelihood.of(data, first).at(first), ROUGH)
    for _ in range(MOST_ROUNDS):
        entered = _enter(best, least_gain)
        if entered is None:
            break
        best = _maximise(entered, ROUGH)
    best = _maximise(best)
    if noise_variance is None and best.is_saturated:
        # Effects explain all rows, and the likelihood is flat in the noise.
        best = _maximise(best.without_zero_noise())
    return best.trimmed().result()


# Data, and which families of variances there are.


@dataclass(frozen=True, eq=False)
class Data:
    """Rows times the roots of their weights, in order of tasks, about their means.

    Families are numbered: those of shrunken common effects, those of deviations of
    tasks, crossed factors.
    """

    X: Array  # (n, p), the first column is the root of the weight
    y: Array  # (n,)
    root: Array  # (n,) roots of weights, whose mean is 1
    mean: Array  # (p,) of columns, zero for the intercept
    y_mean: float
    unit: float  # mean weight
    task: Index  # (n,) in ascending order
    n_tasks: int
    crossed: Mapping[str, Factor]
    free: Any  # (p,) bool: common effects that are neither shrunken nor redundant
    norm: Array  # (p,) of columns
    fixed: Index  # (p,) family of a common effect; −1: not shrunken
    deviations: Index  # (p,) family of deviations; −1: column does not vary
    n_families: int
    n_fixed: int  # families of common effects
    known_noise: float | None
    counter: list[int] = field(default_factory=lambda: [0])  # of evaluations

    @classmethod
    def of(
        cls,
        rows: Rows,
        families: Families,
        intercepts: bool,
        slopes: bool,
        noise_variance: float | None,
    ) -> Self:
        """Sort, weigh and centre."""
        n, d = rows.X.shape
        weight = np.ones(n) if rows.weight is None else np.asarray(rows.weight)
        used = np.flatnonzero(weight > 0)
        order = used[np.argsort(rows.task[used], kind="stable")]
        weight, task = weight[order], rows.task[order]
        unit = float(weight.mean())
        root = np.sqrt(weight / unit)
        share = weight / weight.sum()
        X = np.empty((len(order), 1 + d))
        X[:, 0] = 1.0
        X[:, 1:] = rows.X[order]
        mean = np.concatenate([[0.0], share @ X[:, 1:]])
        X -= mean
        X *= root[:, np.newaxis]
        y_mean = float(share @ rows.y[order])
        y = root * (rows.y[order] - y_mean)
        norm = np.sqrt(np.einsum("ij,ij->j", X, X))
        moves = norm > STILL * np.abs(mean) * np.sqrt(len(order))
        norm[~moves] = 0.0
        fixed = np.concatenate([[-1], families.fixed])
        fixed[~moves] = -1
        fixed, n_fixed = _numbered(fixed)
        free = _independent(X, norm, fixed < 0)
        deviations = np.concatenate(
            [[0 if intercepts else -1], families.deviations + 1]
        )
        deviations[1:][families.deviations == COMMON] = -1
        if not slopes:
            deviations[1:] = -1
        if intercepts:
            # How a column that is constant within tasks varies cannot be told from how
            # intercepts do.
            deviations[1:][_still(X, task)[1:]] = -1
        deviations[~moves] = -1
        deviations, n_deviations = _numbered(deviations)
        deviations[deviations >= 0] += n_fixed
        crossed = {
            name: Factor(factor.levels[order], factor.n_levels)
            for name, factor in rows.crossed.items()
        }
        noise = None if noise_variance is None else noise_variance / unit
        return cls(
            X=X,
            y=y,
            root=root,
            mean=mean,
            y_mean=y_mean,
            unit=unit,
            task=task,
            n_tasks=rows.n_tasks,
            crossed=crossed,
            free=free,
            norm=norm,
            fixed=fixed,
            deviations=deviations,
            n_families=n_fixed + n_deviations + len(crossed),
            n_fixed=n_fixed,
            known_noise=noise,
        )

    @property
    def first_crossed(self) -> int:
        """Family of the first crossed factor."""
        return self.n_families - len(self.crossed)

    @property
    def slopes(self) -> Index:
        """Families of slopes that may vary between tasks."""
        families = np.arange(self.n_fixed, self.first_crossed)
        return families[families != self.deviations[0]]

    @property
    def origin(self) -> Array:
        """Matrix that takes effects about means of columns to those about zero."""
        matrix = np.eye(len(self.mean))
        matrix[0] -= self.mean
        return matrix

    def values(self, columns: Index | list[int]) -> Array:
        """Columns as they were given, times the roots of weights."""
        return self.X[:, columns] + self.root[:, np.newaxis] * self.mean[columns]

    @cached_property
    def bounds(self) -> Index:
        """Bounds (m + 1,) of the rows of tasks; those without a task come before."""
        return np.searchsorted(self.task, np.arange(self.n_tasks + 1))

    @cached_property
    def curvature(self) -> Array:
        """Mean sum of squares of a column of each family: per effect (families,)."""
        squares = self.norm**2
        raw = squares + len(self.y) * self.mean**2
        out = np.ones(self.n_families)
        seen = max(int(np.count_nonzero(np.diff(self.bounds))), 1)
        for f in range(self.first_crossed):
            if f < self.n_fixed:
                out[f] = squares[self.fixed == f].mean()
            else:
                out[f] = raw[self.deviations == f].mean() / seen
        for c, factor in enumerate(self.crossed.values()):
            counts = np.bincount(factor.levels[factor.levels >= 0])
            out[self.first_crossed + c] = (
                counts[counts > 0].mean() if counts.any() else 1.0
            )
        return out

    def first_variances(self) -> Array:
        """θ as large as noise in the data of an effect; slopes do not vary yet."""
        theta = 1.0 / self.curvature
        for f in range(self.n_fixed):
            # All effects of the family explain as much as is left.
            theta[f] *= len(self.y) / np.count_nonzero(self.fixed == f)
        theta[self.slopes] = 0.0
        return theta

    def variances_of(self, start: Mixed, first: Array) -> Array:
        """θ of an earlier estimate, or ``first`` where it has none."""
        theta, noise = np.array(first), start.noise_variance / self.unit
        for f in range(self.n_fixed):
            theta[f] = start.common_variance[self.fixed == f][0] / noise
        theta[self.n_fixed : self.first_crossed] = 0.0
        for column, variance in zip(start.varying, start.task_variance, strict=True):
            if self.deviations[column] >= 0:
                theta[self.deviations[column]] = variance / noise
        for c, name in enumerate(self.crossed):
            if name in start.crossed_sd:
                theta[self.first_crossed + c] = start.crossed_sd[name] ** 2 / noise
        return theta


def _numbered(names: Index) -> tuple[Index, int]:
    """Families without gaps, −1 where there is none, and their number."""
    known = names >= 0
    labels, places = np.unique(names[known], return_inverse=True)
    out = np.full(len(names), -1)
    out[known] = places
    return out, len(labels)


def _independent(X: Array, norm: Array, unshrunken: Any) -> Any:
    """Which columns (p,) are free and do not depend on other free ones."""
    columns = np.flatnonzero(unshrunken & (norm > 0))
    unit = X[:, columns] / norm[columns]
    _, pivots, rank, _ = lapack.dpstrf(unit.T @ unit, tol=NO_PIVOT)
    free = np.zeros(len(norm), dtype=bool)
    free[columns[pivots[:rank] - 1]] = True
    return free


def _still(X: Array, task: Index) -> Any:
    """Which columns (p,) are constant within every task."""
    starts = np.flatnonzero(np.diff(task, prepend=-2))
    weight = np.add.reduceat(X[:, 0] ** 2, starts)
    sums = np.add.reduceat(X[:, :1] * X, starts, axis=0)
    between = np.sum(sums**2 / weight[:, np.newaxis], axis=0)
    total = np.einsum("ij,ij->j", X, X)
    return total - between <= STILL * total


# The likelihood.


class Scales(NamedTuple):
    """Roots of variances: of common effects, and of the columns of each term."""

    common: Array  # (p,)
    ridge: Array  # (p,) 0 where a common effect is free
    terms: tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class Likelihood:
    """Restricted likelihood with some columns varying."""

    data: Data
    varying: Index  # (k,) columns that vary between tasks
    terms: tuple[Term, ...]  # tasks if there are such columns, then crossed factors
    matrices: tuple[csr_array, ...]
    arrow: Arrow
    right: Vectors  # products with y
    freedom: float

    @classmethod
    def of(cls, data: Data, theta: Array) -> Self:
        """Products of rows, for tasks of the columns with θ > 0 only."""
        known = data.deviations >= 0
        varying = np.flatnonzero(known & (theta[data.deviations] > 0))
        terms = []
        if len(varying):
            terms.append(Term(data.task, data.n_tasks, data.values(varying)))
        ones = data.root[:, np.newaxis]
        terms += [Term(levels, size, ones) for levels, size in data.crossed.values()]
        matrices = tuple(term.matrix() for term in terms)
        right = Vectors(
            (data.X.T @ data.y)[:, np.newaxis],
            tuple((Z.T @ data.y)[:, np.newaxis] for Z in matrices),
        )
        arrow = Arrow.of(data.X, terms, matrices)
        freedom = float(len(data.y) - np.count_nonzero(data.free))
        return cls(data, varying, tuple(terms), matrices, arrow, right, freedom)

    def at(self, theta: Array) -> "Point":
        """Factorise for variances θ ≥ 0 of all families."""
        return Point(self, theta)

    def scales(self, theta: Array) -> Scales:
        """Scales of all effects."""
        data, root = self.data, np.sqrt(theta)
        common = np.zeros(len(data.norm))
        common[data.free] = 1.0 / data.norm[data.free]
        shrunken = data.fixed >= 0
        common[shrunken] = root[data.fixed[shrunken]]
        return Scales(
            common, (~data.free).astype(float), tuple(root[f] for f in self.families)
        )

    @cached_property
    def families(self) -> tuple[Index, ...]:
        """Family of the columns of each term."""
        data = self.data
        tasks = [data.deviations[self.varying]] if len(self.varying) else []
        crossed = data.first_crossed + np.arange(len(data.crossed))
        return (*tasks, *crossed[:, np.newaxis])

    @cached_property
    def counts(self) -> Array:
        """Number of effects of each family."""
        ones = (np.ones((size, 1)) for size in self.arrow.sizes)
        return self.sums(Vectors(np.ones((len(self.data.fixed), 1)), tuple(ones)))[:, 0]

    def sums(self, values: Vectors) -> Array:
        """Sums by families (families, T) of values of all effects."""
        out = np.zeros((self.data.n_families + 1, values.top.shape[1]))
        np.add.at(out, self.data.fixed, values.top)
        for families, part in zip(self.families, values.terms, strict=True):
            k = len(families)
            np.add.at(out, families, part.reshape(-1, k, part.shape[1]).sum(axis=0))
        return out[:-1]

    def project(self, factor: ArrowFactor, rows: Array) -> Array:
        """P times rows (n, T): what is left of them when effects are fitted."""
        X, matrices = self.data.X, self.matrices
        effects = factor.solve(Vectors(X.T @ rows, tuple(Z.T @ rows for Z in matrices)))
        rest = rows - X @ effects.top
        for Z, part in zip(matrices, effects.terms, strict=True):
            rest -= Z @ part
        return rest


@dataclass(frozen=True, eq=False)
class Point:
    """The likelihood at some variances; the noise is known or at its best."""

    likelihood: Likelihood
    theta: Array  # (families,) variances over that of the noise

    @cached_property
    def scales(self) -> Scales:
        """Roots of variances."""
        return self.likelihood.scales(self.theta)

    @cached_property
    def factor(self) -> ArrowFactor:
        """Factorised normal equations."""
        self.likelihood.data.counter[0] += 1
        return self.likelihood.arrow.factorise(*self.scales)

    @cached_property
    def solution(self) -> Vectors:
        """Effects."""
        return self.factor.solve(self.likelihood.right)

    @cached_property
    def misfit(self) -> float:
        """yᵀ P y."""
        data = self.likelihood.data
        squares = float(data.y @ data.y)
        explained = float(_inner(self.likelihood.right, self.solution)[0, 0])
        return max(squares - explained, LEAST_MISFIT * squares)

    @property
    def noise_variance(self) -> float:
        """σ² of a row of mean weight."""
        known = self.likelihood.data.known_noise
        return self.misfit / self.likelihood.freedom if known is None else known

    @cached_property
    def value(self) -> float:
        """−2 log L."""
        data, freedom = self.likelihood.data, self.likelihood.freedom
        # Free columns have norm 1 in M, and noise is that of a row of mean weight.
        log = self.factor.log_determinant + 2.0 * float(
            np.log(data.norm[data.free]).sum() - np.log(data.root).sum()
        )
        noise = self.noise_variance
        return log + freedom * float(np.log(2.0 * np.pi * noise)) + self.misfit / noise

    @property
    def active(self) -> Index:
        """Families with variances above zero."""
        return np.flatnonzero(self.theta > 0)

    @cached_property
    def squares(self) -> Array:
        """|v|² / σ² of each active family."""
        values = Vectors(
            self.solution.top**2, tuple(part**2 for part in self.solution.terms)
        )
        sums = self.likelihood.sums(values)[self.active, 0]
        return sums / (self.theta[self.active] * self.noise_variance)

    @cached_property
    def used(self) -> Array:
        """Degrees of freedom that each active family takes: q − tr (M⁻¹)_vv."""
        sums = self.likelihood.sums(self.factor.diagonals())[self.active, 0]
        return self.likelihood.counts[self.active] - sums / self.theta[self.active]

    @property
    def gradient(self) -> Array:
        """Derivative of the value in log θ of active families."""
        return self.used - self.squares

    @cached_property
    def information(self) -> Array:
        """Average information about log θ of active families."""
        active, likelihood = self.active, self.likelihood
        weight = np.diag(1.0 / self.theta[active])
        known = likelihood.data.fixed[:, np.newaxis] == active
        parts = [known @ weight * self.solution.top]
        for families, part in zip(
            likelihood.families, self.solution.terms, strict=True
        ):
            own = (families[:, np.newaxis] == active) @ weight
            blocks = part.reshape(-1, len(families), 1) * own
            parts.append(blocks.reshape(len(part), len(active)))
        vectors = Vectors(parts[0], tuple(parts[1:]))
        inner = _inner(vectors, self.factor.solve(vectors))
        squares = self.squares
        out = np.diag(squares) - inner / self.noise_variance
        if likelihood.data.known_noise is None:
            out -= np.outer(squares, squares) / likelihood.freedom
        return 0.5 * (out + out.T)

    @property
    def is_saturated(self) -> bool:
        """Whether variances leave next to no observations for the noise."""
        freedom = self.likelihood.freedom
        return freedom - float(self.used.sum()) < SATURATED * freedom

    def without_zero_noise(self) -> Self:
        """Same data, with log σ added to the log-likelihood, as `ties` does."""
        freedom = max(self.likelihood.freedom - 1.0, 1.0)
        return replace(self, likelihood=replace(self.likelihood, freedom=freedom))

    def trimmed(self) -> Self:
        """Same variances, with effects of tasks only where they vary."""
        old = self.likelihood
        if np.all(self.theta[old.data.deviations[old.varying]] > 0):
            return self
        new = Likelihood.of(old.data, self.theta)
        return replace(self, likelihood=replace(new, freedom=old.freedom))

    def moved(self, theta: Array) -> Self:
        """Other variances, of the columns that vary here."""
        return replace(self, theta=theta)

    def project(self, rows: Array) -> Array:
        """P times rows (n, T)."""
        return self.likelihood.project(self.factor, rows)

    def result(self) -> Mixed:
        """The estimate, in units of the data."""
        likelihood, data = self.likelihood, self.likelihood.data
        common = data.origin @ self.solution.top[:, 0]
        common[0] += data.y_mean
        noise = self.noise_variance
        variance = np.full(len(common), np.inf)
        shrunken = data.fixed >= 0
        variance[shrunken] = noise * self.theta[data.fixed[shrunken]]
        effects = [
            part.reshape(-1, len(f))
            for f, part in zip(likelihood.families, self.solution.terms, strict=True)
        ]
        m, names = data.n_tasks, list(data.crossed)
        tasks = effects[0] if len(likelihood.varying) else np.zeros((m, 0))
        crossed = effects[len(effects) - len(names) :]
        sd = np.sqrt(noise * self.theta[data.first_crossed :])
        return Mixed(
            common=common,
            common_variance=variance,
            varying=likelihood.varying,
            task_variance=noise * self.theta[data.deviations[likelihood.varying]],
            task_effects=tasks,
            crossed_sd=dict(zip(names, sd.tolist(), strict=True)),
            crossed_effects={
                name: part[:, 0] for name, part in zip(names, crossed, strict=True)
            },
            noise_variance=noise * data.unit,
            criterion=self.value,
            n_evaluations=data.counter[0],
            is_stochastic=likelihood.arrow.is_stochastic,
            point=self,
        )


def _inner(a: Vectors, b: Vectors) -> Array:
    """Products of columns (T, T)."""
    parts = zip((a.top, *a.terms), (b.top, *b.terms), strict=True)
    return np.asarray(sum(x.T @ y for x, y in parts))


# Its maximum.


def _maximise(point: Point, tolerance: float = SETTLED) -> Point:
    """Newton's method on log θ with the average information, damped, in a box.

    Families whose θ falls below 1 / NEARLY_COMMON of the noise in the data of an effect
    are tried at zero.
    """
    unit = -np.log(point.likelihood.data.curvature)
    low, drop, high = (unit - np.log(x) for x in (TIGHTEST, NEARLY_COMMON, LOOSEST))
    stochastic = point.likelihood.arrow.is_stochastic
    if stochastic:
        tolerance = max(tolerance, SETTLED_STOCHASTIC)
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


# Which variances are above zero.


class Scores(NamedTuple):
    """Families without a variance: what one would gain."""

    families: Index
    slope: Array  # derivative of −2 log L in θ at zero
    best: Array  # θ of a Newton step of each family alone
    gain: Array  # in −2 log L, which its quadratic model promises


def score_varying(point: Point) -> Scores:
    """Score tests of all families that have variance zero, by passes over the rows."""
    data = point.likelihood.data
    families = np.flatnonzero(point.theta == 0)
    tested = Tested.of(data, families)
    rest = point.project(data.y[:, np.newaxis])
    pulls = tested.pulls(rest)
    noise = point.noise_variance
    squares = tested.squares(pulls)[:, 0] / noise
    traces, n_draws = np.zeros(len(families)), _n_draws(data)
    rng = np.random.default_rng(0)
    batch = max(1, BATCH_NUMBERS // len(data.y))
    for first in range(0, n_draws, batch):
        drawn = _draw(point, rng, min(batch, n_draws - first))
        drawn_pulls = tested.pulls(point.project(drawn))
        traces += tested.squares(drawn_pulls).sum(axis=1) / n_draws
    moves = tested.combine(pulls)
    curvature = np.einsum("nf,nf->f", moves, point.project(moves)) / noise
    if data.known_noise is None:
        curvature -= squares**2 / point.likelihood.freedom
    slope = traces - squares
    curvature = np.maximum(curvature, TINY * np.abs(slope) + TINY)
    best = np.maximum(-slope, 0.0) / curvature
    return Scores(families, slope, best, 0.5 * best * np.abs(slope))


def _n_draws(data: Data) -> int:
    """As many targets as give the trace to two per cent."""
    enough = min(DRAWN_TASKS // max(data.n_tasks, 1), DRAWN_ROWS // len(data.y))
    return int(np.clip(enough, FEWEST_DRAWS, MOST_DRAWS))


def _draw(point: Point, rng: np.random.Generator, n: int) -> Array:
    """Targets (n, T) of the model with noise of variance 1."""
    likelihood, scales = point.likelihood, point.scales
    data = likelihood.data
    rows = rng.standard_normal((len(data.y), n))
    shrunken = np.flatnonzero(data.fixed >= 0)
    common = scales.common[shrunken, np.newaxis]
    rows += data.X[:, shrunken] @ (common * rng.standard_normal((len(shrunken), n)))
    for scale, Z in zip(scales.terms, likelihood.matrices, strict=True):
        size = Z.shape[1]
        wide = np.tile(scale, size // len(scale))[:, np.newaxis]
        rows += Z @ (wide * rng.standard_normal((size, n)))
    return rows


@dataclass(frozen=True, eq=False)
class Tested:
    """Columns U of the families that are tested."""

    data: Data
    families: Index
    common: Index  # shrunken common columns
    columns: Index  # columns that may vary between tasks
    crossed: tuple[tuple[int, csr_array], ...]  # families and indicators of levels

    @classmethod
    def of(cls, data: Data, families: Index) -> Self:
        """Columns of the families."""
        crossed = tuple(
            (f, Term(*factor, data.root[:, np.newaxis]).matrix())
            for f, factor in enumerate(data.crossed.values(), data.first_crossed)
            if f in families
        )
        common = np.flatnonzero(np.isin(data.fixed, families))
        columns = np.flatnonzero(np.isin(data.deviations, families))
        return cls(data, families, common, columns, crossed)

    def pulls(self, rows: Array) -> tuple[Array, Array, list[Array]]:
        """Uᵀ times rows (n, T): of common columns, tasks (m, columns, T), levels."""
        data, columns = self.data, self.columns
        top = data.X[:, self.common].T @ rows
        tasks = np.zeros((data.n_tasks, len(columns), rows.shape[1]))
        if data.n_tasks > MANY_TASKS * len(columns):
            member = Term(data.task, data.n_tasks, np.ones((len(rows), 1))).matrix().T
            for j, column in enumerate(columns):
                tasks[:, j] = member @ (data.values([column]) * rows)
        else:
            mean = data.mean[columns, np.newaxis]
            for i in np.flatnonzero(np.diff(data.bounds)):
                here = slice(data.bounds[i], data.bounds[i + 1])
                centred = data.X[here].T @ rows[here]
                tasks[i] = centred[columns] + mean * centred[0]
        return top, tasks, [Z.T @ rows for _, Z in self.crossed]

    def squares(self, pulls: tuple[Array, Array, list[Array]]) -> Array:
        """Sums of squares by family (families, T)."""
        top, tasks, levels = pulls
        out = np.zeros((self.data.n_families, top.shape[1]))
        np.add.at(out, self.data.fixed[self.common], top**2)
        np.add.at(
            out,
            self.data.deviations[self.columns],
            np.einsum("mct,mct->ct", tasks, tasks),
        )
        for (f, _), part in zip(self.crossed, levels, strict=True):
            out[f] = np.sum(part**2, axis=0)
        return out[self.families]

    def combine(self, pulls: tuple[Array, Array, list[Array]]) -> Array:
        """U Uᵀ rows (n, families), from pulls of one column of rows."""
        top, tasks, levels = pulls
        data = self.data
        families = np.arange(data.n_families)
        own = data.fixed[self.common, np.newaxis] == families
        out = data.X[:, self.common] @ (top * own)
        known = slice(data.bounds[0], None)  # rows with a task
        for j, column in enumerate(self.columns):
            moved = tasks[data.task[known], j, 0] * data.values([column])[known, 0]
            out[known, data.deviations[column]] += moved
        for (f, Z), part in zip(self.crossed, levels, strict=True):
            out[:, f] = (Z @ part)[:, 0]
        return out[:, self.families]


def _enter(point: Point, least_gain: float) -> Point | None:
    """Free the variances whose score promises a gain: all, the best, or less of it."""
    if np.all(point.theta > 0):
        return None
    scores, data = score_varying(point), point.likelihood.data
    least = np.full(data.n_families, SETTLED)
    least[: data.n_fixed] = ROUGH
    least[data.slopes] = least_gain
    gain = np.where(scores.gain > least[scores.families], scores.gain, 0.0)
    if not gain.any():
        return None
    chosen = gain >= NEAR_BEST * gain.max()
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
