"""The restricted likelihood of a mixed model, at any variances.

Rows become products of columns (`arrow`) once; then each value of the likelihood, with
its derivatives, takes a factorisation. `mixed` has the formulas.

Quadratic models of other losses have two terms more (see `laplace`). The weights of
rows, hence log |M|, change with scores η, to first order by ``pull`` · η. Without
restriction, free common effects β are maximised over instead of integrated out: with
U the columns of M⁻¹ that belong to β and C their block, log |M| + log |C| is the
determinant over all other effects, M⁻¹ − U C⁻¹ Uᵀ their inverse.
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
from priormtl.reml.krylov import PROBED
from priormtl.reml.ties import COMMON, LEAST_MISFIT, SATURATED, STILL, Families

LARGEST = 20.0  # deviation of scores of losses that are not squared
NO_PIVOT = 1e-10  # pivots below this, of columns of norm 1, are zero


class Factor(NamedTuple):
    """A crossed factor."""

    levels: Index  # (n,) level of each row; −1: missing
    n_levels: int


class Laplace(NamedTuple):
    """What quadratic models of other losses have more."""

    pull: Array  # (n,) derivatives of the log-determinant in scores
    is_restricted: bool  # whether free common effects are integrated out


class Rows(NamedTuple):
    """Data of a mixed model."""

    X: Array  # (n, d) features, without intercept
    y: Array  # (n,)
    task: Index  # (n,) task of each row; −1: missing
    n_tasks: int
    weight: Array | None = None  # (n,) ≥ 0, precisions of rows up to a factor
    crossed: Mapping[str, Factor] = {}
    laplace: Laplace | None = None


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
    order: Index  # (n,) places of these rows among those given
    pull: Array | None  # (n,) over the root of the weight
    is_restricted: bool
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
        in_order = len(order) == n and bool(np.all(order[1:] > order[:-1]))
        X[:, 1:] = rows.X if in_order else rows.X[order]
        mean = np.concatenate([[0.0], share @ X[:, 1:]])
        X -= mean
        if np.any(root != 1.0):
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
        pull = None if rows.laplace is None else rows.laplace.pull[order] / root
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
            order=order,
            pull=pull,
            is_restricted=rows.laplace is None or rows.laplace.is_restricted,
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

    @cached_property
    def free_origin(self) -> Array:
        """Matrix of `origin_of` for free effects only (f, p)."""
        return origin_of(self.mean)[np.flatnonzero(self.free)]

    def values(self, columns: Index | list[int]) -> Array:
        """Columns as they were given, times the roots of weights."""
        return self.X[:, columns] + self.root[:, np.newaxis] * self.mean[columns]

    @cached_property
    def gram(self) -> Array:
        """Xᵀ X (p, p)."""
        return np.asarray(self.X.T @ self.X)

    @cached_property
    def bounds(self) -> Index:
        """Bounds (m + 1,) of the rows of tasks; those without a task come before."""
        return np.searchsorted(self.task, np.arange(self.n_tasks + 1))

    @cached_property
    def n_placeholders(self) -> int:
        """Number of tasks that a fold lacks: one row of next to no weight each."""
        first, counts = self.bounds[:-1], np.diff(self.bounds)
        weight = self.root[first[counts == 1]] ** 2
        return int(np.count_nonzero(weight < 1e-6 * float(self.root.max()) ** 2))

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

    @property
    def largest_variances(self) -> Array:
        """θ of scores with a deviation of LARGEST, beyond which all is decided."""
        squares, out = self.norm**2 / len(self.y), np.ones(self.n_families)
        for f in range(self.n_fixed):
            out[f] = squares[self.fixed == f].mean()
        for f in range(self.n_fixed, self.first_crossed):
            out[f] = (squares + self.mean**2)[self.deviations == f].mean()
        return LARGEST**2 / (out * (self.known_noise or 1.0))

    def first_variances(self) -> Array:
        """θ as large as noise in the data of an effect; slopes do not vary yet."""
        theta = 1.0 / self.curvature
        for f in range(self.n_fixed):
            # All effects of the family explain as much as is left.
            theta[f] *= len(self.y) / np.count_nonzero(self.fixed == f)
        theta[self.slopes] = 0.0
        return theta


def origin_of(mean: Array) -> Array:
    """Matrix that takes effects about means of columns to those about zero."""
    matrix = np.eye(len(mean))
    matrix[0] -= mean
    return matrix


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
    root = X[:, :1]
    sums = np.add.reduceat(root * X if np.any(root != 1.0) else X, starts, axis=0)
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
    pull: Vectors | None  # products with ``pull``
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
        right = _products(data.X, matrices, data.y)
        pull = None
        if data.pull is not None:
            pull = _products(data.X, matrices, data.pull)
        arrow = Arrow.of(data.gram, data.X, terms, matrices)
        n_free = np.count_nonzero(data.free)
        n_rows = len(data.y) - data.n_placeholders
        freedom = float(n_rows - (n_free if data.is_restricted else 0))
        if freedom <= 0 and data.known_noise is None:
            raise ValueError(
                f"REML needs more rows than free common effects: got {n_rows} "
                f"rows and {n_free} effects. Shrink some of them, or choose features."
            )
        parts = tuple(terms), matrices, arrow, right, pull
        return cls(data, varying, *parts, freedom)

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
        return rows - self.scores(effects)

    def scores(self, effects: Vectors) -> Array:
        """Columns times effects (n, T)."""
        found = self.data.X @ effects.top
        for Z, part in zip(self.matrices, effects.terms, strict=True):
            found += Z @ part
        return np.asarray(found)


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
    def mode(self) -> Vectors:
        """Effects that fit best."""
        return self.factor.solve(self.likelihood.right)

    @cached_property
    def solution(self) -> Vectors:
        """Effects; without restriction at the free ones that are most likely."""
        if self._shift is None:
            return self.mode
        U, _ = self._free
        step = -0.5 * self.noise_variance * self._shift[1]
        return _add(self.mode, Vectors(U.top @ step, tuple(u @ step for u in U.terms)))

    @cached_property
    def _free(self) -> tuple[Vectors, Array]:
        """Columns U of free common effects in K, and the inverse of their block C."""
        free = self.likelihood.data.free_origin
        sizes = self.likelihood.arrow.sizes
        terms = tuple(np.zeros((size, len(free))) for size in sizes)
        U = self.factor.solve(Vectors(free.T, terms))
        return U, np.asarray(np.linalg.inv(free @ U.top))

    @cached_property
    def _shift(self) -> tuple[Array, Array] | None:
        """What the pull moves free effects by, a (f, 1), and C⁻¹ a."""
        likelihood = self.likelihood
        if likelihood.pull is None or likelihood.data.is_restricted:
            return None
        a = likelihood.data.free_origin @ self.factor.solve(likelihood.pull).top
        return a, self._free[1] @ a

    def _solve(self, right: Vectors) -> Vectors:
        """K times right-hand sides, or its part at known free effects."""
        found = self.factor.solve(right, PROBED)
        if self.likelihood.data.is_restricted:
            return found
        U, inverse = self._free
        taken = -inverse @ _inner(U, right)
        return _add(found, Vectors(U.top @ taken, tuple(u @ taken for u in U.terms)))

    @cached_property
    def misfit(self) -> float:
        """yᵀ P y."""
        data = self.likelihood.data
        squares = float(data.y @ data.y)
        explained = float(_inner(self.likelihood.right, self.mode)[0, 0])
        no_squares = 1e-150  # least sum of squares: targets that are all equal
        return max(squares - explained, LEAST_MISFIT * squares, no_squares)

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
        if self.likelihood.pull is not None:
            log += float(_inner(self.likelihood.pull, self.mode)[0, 0])
        if not data.is_restricted:
            log -= float(np.linalg.slogdet(self._free[1])[1])
        if self._shift is not None:
            a, turned = self._shift
            log -= 0.25 * noise * float(a[:, 0] @ turned[:, 0])
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
        diagonals = self.factor.diagonals()
        if not self.likelihood.data.is_restricted:
            U, inverse = self._free
            top, *terms = (
                -np.einsum("ij,jk,ik->i", part, inverse, part)[:, np.newaxis]
                for part in (U.top, *U.terms)
            )
            diagonals = _add(diagonals, Vectors(top, tuple(terms)))
        sums = self.likelihood.sums(diagonals)[self.active, 0]
        return self.likelihood.counts[self.active] - sums / self.theta[self.active]

    @property
    def gradient(self) -> Array:
        """Derivative of the value in log θ of active families."""
        if self.likelihood.pull is None:
            return self.used - self.squares
        pulled = _inner(self.likelihood.pull, self._responses[1])[0]
        return self.used - self.squares + pulled

    @cached_property
    def _responses(self) -> tuple[Vectors, Vectors]:
        """Precisions times effects of active families, and how effects follow log θ."""
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
        return vectors, self._solve(vectors)

    @cached_property
    def information(self) -> Array:
        """Average information about log θ of active families."""
        inner, likelihood = _inner(*self._responses), self.likelihood
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

    def without_unseen(self) -> Self:
        """No variances that cannot be told."""
        theta = np.array(self.theta)
        unseen = 1e-9  # degrees of freedom of effects that the data do not see
        theta[self.active[self.used <= unseen]] = 0.0
        return self.moved(theta) if np.any(theta != self.theta) else self

    def trimmed(self) -> Self:
        """Effects of tasks only where they vary."""
        old = self.likelihood
        if np.all(self.theta[old.data.deviations[old.varying]] > 0):
            return self
        new = replace(Likelihood.of(old.data, self.theta), freedom=old.freedom)
        return replace(self, likelihood=new)

    def moved(self, theta: Array) -> Self:
        """Other variances, of the columns that vary here."""
        return replace(self, theta=theta)

    def leverages(self) -> Array:
        """Diagonal of the matrix that takes targets to fitted ones (n,)."""
        data, likelihood = self.likelihood.data, self.likelihood
        terms = likelihood.terms
        if data.crossed:
            own = self._probed_leverages()
        else:
            own = np.einsum("np,np->n", data.X @ self.factor.common(), data.X)
        if terms and not data.crossed:
            level, z = terms[0].levels, terms[0].values
            shape = terms[0].n_levels, z.shape[1], data.X.shape[1]
            cross, blocks = self.factor.cross(0).reshape(shape), self.factor.blocks(0)
            for j in range(z.shape[1]):
                with_common = np.einsum("np,np->n", cross[level, j], data.X)
                with_own = np.einsum("nk,nk->n", blocks[level, j], z)
                own += np.where(level >= 0, z[:, j] * (2 * with_common + with_own), 0.0)
        if not data.is_restricted:
            U, inverse = self._free
            free = likelihood.scores(U)
            own -= np.einsum("nf,nf->n", free @ inverse, free)
        return np.asarray(own)

    def _probed_leverages(self) -> Array:
        """The same with crossed factors: row by row, or from probes if rows are many.

        A probe of random signs s has s · (fitted s) of that mean, row by row.
        """
        n, size = len(self.likelihood.data.y), len(self.likelihood.arrow.rest_side)
        most_steps = 3 * 10**8  # a tenth of a second
        exact = n**2 * (size + len(self.theta)) <= most_steps
        rng, n_probes, found = (
            np.random.default_rng(0),
            n if exact else 200,
            np.zeros(n),
        )
        for first in range(0, n_probes, 100):
            some = np.arange(first, min(first + 100, n_probes))
            probes = np.zeros((n, len(some)))
            if exact:
                probes[some, some - first] = 1.0
            else:
                probes = rng.choice([-1.0, 1.0], probes.shape)
            fitted = probes - self.project(probes)
            found += np.einsum("nt,nt->n", probes, fitted)
        return found if exact else found / n_probes

    def project(self, rows: Array) -> Array:
        """P times rows (n, T)."""
        return self.likelihood.project(self.factor, rows)


def _products(X: Array, matrices: tuple[csr_array, ...], row: Array) -> Vectors:
    """Products of all columns with numbers of rows (n,)."""
    parts = tuple((Z.T @ row)[:, np.newaxis] for Z in matrices)
    return Vectors((X.T @ row)[:, np.newaxis], parts)


def _add(a: Vectors, b: Vectors) -> Vectors:
    """Sums of effects."""
    terms = zip(a.terms, b.terms, strict=True)
    return Vectors(a.top + b.top, tuple(x + y for x, y in terms))


def _inner(a: Vectors, b: Vectors) -> Array:
    """Products of columns (T, T)."""
    parts = zip((a.top, *a.terms), (b.top, *b.terms), strict=True)
    return np.asarray(sum(x.T @ y for x, y in parts))
