"""Least squares with coefficients that vary between tasks: three mixed models.

Coefficients are fixed effects, one per feature and connected part of L, plus deviations
u_j that are Gaussian with covariance τ_j² L⁺. With θ_j = τ_j² / σ² the targets have
covariance σ² V, V = I + Σ θ_j Z_j L⁺ Z_jᵀ, where Z_j has feature j in a block per task.
With P = V⁻¹ − V⁻¹ X (Xᵀ V⁻¹ X)⁻¹ Xᵀ V⁻¹ and g_j = Z_jᵀ P y each model computes

    log |V| + log |Xᵀ V⁻¹ X|,  yᵀ P y,  tr(L⁺ Z_jᵀ P Z_j),  g_j L⁺ g_jᵀ,
    g_j L⁺ Z_jᵀ P Z_l L⁺ g_lᵀ,

from Gram matrices alone: `StarModel` where tasks are tied to the mean of their group,
which may be tied to that of a larger group (tasks come apart, in as many dimensions as
they have rows), `ModeModel` where tasks
share a Gram matrix (modes of L come apart), and `GraphModel` for any other graph (tasks
are eliminated one after the other). Rows with θ_j = 0 are fixed effects only, and have
no part in the blocks of tasks.

Fixed effects may be shrunken: Gaussian with variance κ_j² around zero. With the
precisions s_j = σ² / κ_j² (zero: unknown), Xᵀ V⁻¹ X + diag(s) takes the place of
Xᵀ V⁻¹ X, and yᵀ P y has the further summand Σ s_j β_j². The derivatives in κ_j² / σ²
have X_j in place of Z_j, with X_jᵀ P y = s_j β_j and
P X_j = V⁻¹ X (Xᵀ V⁻¹ X + diag s)⁻¹ e_j s_j.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from scipy.linalg import blas, lapack

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl.priors.graphs import Laplacian
from priormtl.problem.elimination import Elimination, Factor, GroundedGraph, TieGraph

Mask = np.ndarray[Any, np.dtype[np.bool_]]

NO_PIVOT = 1e-11  # pivots below this, of a Gram matrix with diagonal 1, are zero
BATCH = 2000  # Gram matrices that are factorised at once
SMALL_BLOCK = 16  # up to here NumPy solves stacks faster than LAPACK one by one
MANY_BLOCKS = 1000  # that are worth to load compiled loops


NONE: Index = np.zeros(0, dtype=np.intp)
ONE: Array = np.ones(1)


class Derivatives(NamedTuple):
    """Of the likelihood in θ, for some of the rows, with σ² left out."""

    squares: Array  # (r,) g_j L⁺ g_jᵀ
    traces: Array  # (r,) tr(L⁺ Z_jᵀ P Z_j)
    information: Array  # (r, r) g_j L⁺ Z_jᵀ P Z_l L⁺ g_lᵀ


class TiedFit(Protocol):
    """Least penalised sum of squares for given variances."""

    @property
    def log_determinant(self) -> float:
        """log |V| + log |Xᵀ V⁻¹ X|, but for a constant."""

    @property
    def misfit(self) -> float:
        """The sum of squares yᵀ P y."""

    @property
    def coef(self) -> Array:
        """Fitted rows (k, m)."""

    def derivatives(
        self, rows: Index, shrunken: Index = NONE, levels: Index = NONE
    ) -> Derivatives:
        """Derivatives for these rows, varying or not, then levels, then the κ².

        Only `StarFit` knows those of levels and of shrunken fixed effects.
        """


class RowModel(Protocol):
    """Least squares in k rows of coefficients, for any variances."""

    @property
    def n_free(self) -> int:
        """Fixed effects, the rank of X."""

    def fit(self, theta: Array, shrinkage: Array, spread: Array) -> TiedFit:
        """Fit under variances θ (k,) ≥ 0 and precisions of fixed effects (k,) ≥ 0.

        Groups have ``spread`` θ, level by level. LinAlgError where rounding defeats it.
        """


# Tasks tied to the mean of their group, and groups to that of a larger one.


class Stars(NamedTuple):
    """Tasks tied to the means of groups that do not overlap: leaves of trees."""

    weight: Array  # (m,) that ties a task to its mean; inf: it is its own mean
    parts: Index  # (m,) number of the group
    parent: Index  # (groups,) the group that a group is in, a later one; −1: none
    above: Array  # (groups,) weight that ties a group to its parent at a spread of 1
    level: Index  # (groups,) place of its spread among those of levels; −1: a root

    def shares(self, spread: Array) -> Array:
        """Variances of groups (groups,), in units of θ; zero for roots."""
        inner = self.level >= 0
        found = np.zeros(len(self.level))
        found[inner] = spread[self.level[inner]] / self.above[inner]
        return found

    @property
    def roots(self) -> Index:
        """Groups that are in no other."""
        return np.flatnonzero(self.parent < 0)

    def root_of(self) -> Index:
        """Place among the roots of the one that each group is in."""
        place = np.zeros(len(self.parent), dtype=np.intp)
        place[self.roots] = np.arange(len(self.roots))
        for g in range(len(self.parent) - 1, -1, -1):
            if self.parent[g] >= 0:
                place[g] = place[self.parent[g]]
        return place


class Chunk(NamedTuple):
    """Tasks of one group, and of about as many rows each."""

    tasks: Index  # (b,)
    part: int
    weight: float  # that ties each of them to the mean; inf: it is its own mean
    rows: Array  # (b, r, k + 1): F_i and f_i with G_i = F_iᵀ F_i and linear = F_iᵀ f_i


@dataclass(frozen=True, eq=False)
class StarModel:
    """Tasks that know of each other by the mean of their group.

    Given the means of groups tasks are independent, V_i = I + Σ θ_j / w · F_ij F_ijᵀ
    with the columns of a factor F_i of the Gram matrix. It has as many rows as its
    rank. With Y_i = V_i^(-1/2) F_i, what a group knows of its mean is S_g = Σ Y_iᵀ Y_i.
    Its own deviation from the mean of its parent, of variances Θ = θ / w, leaves
    A_g = S_g − S_g M_g S_g of it, M_g = (S_g + Θ⁻¹)⁻¹, and these add up to the S of the
    parent. At a root S is Xᵀ V⁻¹ X.
    """

    chunks: tuple[Chunk, ...]
    stars: Stars
    gauges: Array  # (roots, k, k) projectors on what data of a root do not see
    rest: float  # sum of squares that no coefficients explain
    shape: tuple[int, int]
    n_free: int

    @classmethod
    def of(
        cls, gram: Array, linear: Array, squares: float, stars: Stars, shrinks: Mask
    ) -> Self:
        """Gram matrices (m, k, k), products with targets (k, m), squared targets.

        ``shrinks`` (k,) says which fixed effects are shrunken.
        """
        k, m = linear.shape
        weight, parts, *_ = stars
        gram = np.broadcast_to(gram, (m, k, k))
        pooled = _sums(gram, stars.root_of()[parts], len(stars.roots))
        factors, ranks = _factor_tasks(gram, linear.T)
        chunks, used = [], 0.0
        order = np.lexsort((-ranks, parts))
        chunk_numbers = 2**18  # in the blocks of tasks that are whitened at once: 2 MB
        even_chunk = 0.7  # fewest rows of a task in a chunk, of the most rows
        while len(order):
            first = order[0]
            rank = int(ranks[first])  # 0: a single row, which its intercept explains
            most = max(rank, 1)
            fits = max(1, chunk_numbers // (most * (k + 1)))
            even = ranks[order[:fits]] >= even_chunk * rank
            same = even & (parts[order[:fits]] == parts[first])
            here = order[: len(same) if same.all() else int(np.argmin(same))]
            rows = np.ascontiguousarray(factors[here, :most])
            used += float(np.sum(rows[:, :, k] ** 2))
            chunks.append(Chunk(here, int(parts[first]), float(weight[first]), rows))
            order = order[len(here) :]
        gauges = np.array([_gauge(block, shrinks) for block in pooled])
        free = int(np.count_nonzero(~shrinks))
        n_free = len(gauges) * free - round(float(np.trace(gauges.sum(axis=0))))
        rest = max(0.0, squares - used)
        return cls(tuple(chunks), stars, gauges, rest, (k, m), n_free)

    def fit(self, theta: Array, shrinkage: Array, spread: Array = ONE) -> "StarFit":
        """Whiten the rows of each task, and add up."""
        k, varying = self.shape[0], np.flatnonzero(theta)
        parent, shares = self.stars.parent, self.stars.shares(spread)
        products = np.zeros((len(parent), k + 1, k + 1))
        log_determinant, white = 0.0, []
        for chunk in self.chunks:
            Y = chunk.rows
            if len(varying) and np.isfinite(chunk.weight):
                Y, log = _whiten(Y, theta / chunk.weight, varying)
                log_determinant += log
            flat = Y.reshape(-1, k + 1)
            products[chunk.part] += flat.T @ flat
            white.append(Y)
        gains, left = np.zeros((len(parent), k, k)), np.zeros((len(parent), k, k))
        for g in np.flatnonzero(parent >= 0):
            S, inner = products[g, :k, :k], np.ix_(varying, varying)
            scale = np.sqrt(theta[varying] * shares[g])
            inverse, log = _invert_shifted(scale[:, np.newaxis] * S[inner] * scale)
            log_determinant += log
            gains[g][inner] = scale[:, np.newaxis] * inverse * scale
            taken = products[g, :, :k] @ gains[g] @ products[g, :k]
            left[g] = S - taken[:k, :k]
            products[parent[g]] += products[g] - taken
        top = self.stars.roots
        pooled = products[top, :k, :k] + self.gauges + np.diag(shrinkage)
        roots = np.linalg.cholesky(pooled)
        diagonals = np.diagonal(roots, axis1=1, axis2=2)
        log_determinant += 2.0 * float(np.log(diagonals).sum())
        fixed = np.zeros((len(parent), k))
        fixed[top] = np.linalg.solve(pooled, products[top, :k, k:])[:, :, 0]
        for g in np.flatnonzero(parent >= 0)[::-1]:
            mean = fixed[parent[g]]
            rest = products[g, :k, k] - products[g, :k, :k] @ mean
            fixed[g] = mean + gains[g] @ rest
        inverses = _invert(np.asarray(roots, dtype=np.float64))
        levels = Levels(shares, gains, products[:, :k, :k], left)
        white_rows = tuple(white)
        return StarFit(
            self, theta, shrinkage, white_rows, levels, inverses, fixed, log_determinant
        )


class Levels(NamedTuple):
    """Means of groups in groups."""

    shares: Array  # (groups,) variances in units of θ; zero for roots
    gains: Array  # (groups, k, k) M_g; zero for roots
    sums: Array  # (groups, k, k) S_g
    left: Array  # (groups, k, k) A_g; zero for roots


@dataclass(frozen=True, eq=False)
class StarFit:
    """Fit of tasks that know of each other by means of groups."""

    model: StarModel
    theta: Array
    shrinkage: Array
    white: tuple[Array, ...]  # rows of each chunk, times V_i^(-1/2)
    levels: Levels
    inverses: Array  # (roots, k, k) of triangular factors of Xᵀ V⁻¹ X
    fixed: Array  # (groups, k) means of groups; of roots: fixed effects
    log_determinant: float

    @cached_property
    def residuals(self) -> list[Array]:
        """V_i^(-1/2) (y_i − X_i β) of each chunk (b, r), β the mean of its group."""
        k = self.model.shape[0]
        pairs = zip(self.white, self.model.chunks, strict=True)
        return [Y[:, :, k] - Y[:, :, :k] @ self.fixed[c.part] for Y, c in pairs]

    @cached_property
    def misfit(self) -> float:
        """The sum of squares yᵀ P y, as a sum of squares."""
        found = sum(float(np.vdot(e, e)) for e in self.residuals)
        stars = self.model.stars
        found += float(np.sum(self.fixed[stars.roots] ** 2 @ self.shrinkage))
        for g in np.flatnonzero(stars.parent >= 0):
            # The deviation of a group is Θ times the pulls on its members.
            found += self.levels.shares[g] * float(self.pulls[g] ** 2 @ self.theta)
        return self.model.rest + found

    @cached_property
    def pulls(self) -> Array:
        """Sums of g_i over the tasks in each group (groups, k)."""
        k, stars = self.model.shape[0], self.model.stars
        found = np.zeros((len(stars.parent), k))
        for chunk, Y, e in zip(
            self.model.chunks, self.white, self.residuals, strict=True
        ):
            found[chunk.part] += np.einsum("brk,br->k", Y[:, :, :k], e)
        for g in np.flatnonzero(stars.parent >= 0):
            found[stars.parent[g]] += found[g]
        return found

    @property
    def coef(self) -> Array:
        """Fixed effects and deviations u_ij = θ_j / w · g_ij."""
        k, m = self.model.shape
        coef = np.empty((k, m))
        parts = zip(self.model.chunks, self.white, self.residuals, strict=True)
        for chunk, Y, e in parts:
            pulls = np.einsum("brk,br->bk", Y[:, :, :k], e)
            found = self.fixed[chunk.part] + self.theta / chunk.weight * pulls
            coef[:, chunk.tasks] = found.T
        return coef

    def derivatives(
        self, rows: Index, shrunken: Index = NONE, levels: Index = NONE
    ) -> Derivatives:
        """Derivatives for rows, levels, and the κ² of shrunken fixed effects.

        For one group, with S = R Rᵀ, the block of Zᵀ P Z of tasks a and b is
        [a = b] Y_aᵀ Y_a − Y_aᵀ Y_a K Y_bᵀ Y_b with K = S⁻¹. For groups in groups, the
        blocks of tasks of one group have K_g = M_g + (I − M_g S_g) K (I − S_g M_g),
        with K of the parent, and deviations of groups have A_g in place of Y_aᵀ Y_a.
        """
        k, stars, known = self.model.shape[0], self.model.stars, self.levels
        parent, inner = stars.parent, np.flatnonzero(stars.parent >= 0)
        r, n = len(rows), len(rows) + len(levels)
        half = np.zeros((len(parent), k, k))  # H with K = Hᵀ H
        half[stars.roots] = self.inverses
        # ∂V/∂parameter P y is Z times these, for the tasks of each group.
        moves, steps = np.zeros((len(parent), r)), np.zeros((len(parent), n - r, k))
        squares, traces = np.zeros(n), np.zeros(n)
        for g in inner[::-1]:
            up, left, pulls = half[parent[g]], known.left[g], self.pulls[g]
            trace = left.diagonal() - np.sum((up @ left) ** 2, axis=0)
            traces[:r] += known.shares[g] * trace[rows]
            squares[:r] += known.shares[g] * pulls[rows] ** 2
            moves[g] = moves[parent[g]] + known.shares[g] * pulls[rows]
            steps[g] = steps[parent[g]]
            unit = self.theta / stars.above[g]
            for place in np.flatnonzero(levels == stars.level[g]):
                traces[r + place] += unit @ trace
                squares[r + place] += unit @ pulls**2
                steps[g, place] += unit * pulls
            kept = up - up @ known.sums[g] @ known.gains[g]
            half[g] = _root(known.gains[g] + kept.T @ kept)
        information = np.zeros((n, n))
        crossed = np.zeros((len(parent), n, k))
        parts = zip(self.model.chunks, self.white, self.residuals, strict=True)
        for chunk, white, e in parts:
            if not np.isfinite(chunk.weight):
                continue
            Y = white[:, :, :k]
            Y_rows = white[:, :, rows]
            flat = Y.reshape(-1, k)
            pulls = np.einsum("brj,br->bj", Y_rows, e)
            squares[:r] += np.sum(pulls**2, axis=0) / chunk.weight
            turned = (flat @ half[chunk.part].T).reshape(Y.shape)
            both = turned.swapaxes(1, 2) @ Y_rows
            own = np.einsum("brj,brj->j", Y_rows, Y_rows)
            traces[:r] += (own - np.einsum("bkj,bkj->j", both, both)) / chunk.weight
            shifts = moves[chunk.part] + pulls / chunk.weight
            moved = (Y_rows * shifts[:, np.newaxis, :]).reshape(len(flat), r)
            if n > r:
                moved = np.hstack([moved, flat @ steps[chunk.part].T])
            information += moved.T @ moved
            crossed[chunk.part] += moved.T @ flat
        for g in inner:
            gained = crossed[g] @ known.gains[g]
            information -= gained @ crossed[g].T
            crossed[parent[g]] += crossed[g] - gained @ known.sums[g]
        crossed = crossed[stars.roots]
        for inverse, cross in zip(self.inverses, crossed, strict=True):
            turned = cross @ inverse.T
            information -= turned @ turned.T
        if len(shrunken) == 0:
            return Derivatives(squares, traces, information)
        s = self.shrinkage[shrunken]
        more_squares, more_traces = np.zeros(len(s)), np.zeros(len(s))
        more, cross_information = np.zeros((len(s), len(s))), np.zeros((n, len(s)))
        for part, fixed in enumerate(self.fixed[stars.roots]):
            inverse, cross = self.inverses[part], crossed[part]
            columns = inverse.T @ inverse[:, shrunken] * s
            pulls = s * fixed[shrunken]
            own = np.diag(s) - s[:, np.newaxis] * columns[shrunken]
            more_squares += pulls**2
            more_traces += own.diagonal()
            more += pulls[:, np.newaxis] * own * pulls
            cross_information += cross @ columns * pulls
        return Derivatives(
            np.concatenate([squares, more_squares]),
            np.concatenate([traces, more_traces]),
            np.block([[information, cross_information], [cross_information.T, more]]),
        )


def _factor_tasks(gram: Array, linear: Array) -> tuple[Array, Index]:
    """Factors (m, k, k + 1) of Gram matrices with their targets, and ranks (m,).

    By Cholesky's method, with pivots where a task has fewer rows than coefficients.
    """
    m, k = linear.shape
    factors, ranks = np.zeros((m, k, k + 1)), np.full(m, k)
    if k <= SMALL_BLOCK and m >= MANY_BLOCKS:
        from priormtl.reml.kernel import factor  # noqa: PLC0415  (slow to import)

        data = np.ascontiguousarray(gram), np.ascontiguousarray(linear)
        factor(*data, NO_PIVOT, factors, ranks)
        return factors, ranks
    for start in range(0, m, BATCH):
        here = slice(start, start + BATCH)
        try:
            roots = np.linalg.cholesky(gram[here])
            tops = np.diagonal(gram[here], axis1=1, axis2=2).max(axis=1)
            least = np.diagonal(roots, axis1=1, axis2=2).min(axis=1) ** 2
            if np.all(least > NO_PIVOT * tops):
                factors[here, :, :k] = roots.swapaxes(1, 2)
                targets = np.linalg.solve(roots, linear[here, :, np.newaxis])
                factors[here, :, k] = targets[:, :, 0]
                continue
        except np.linalg.LinAlgError:
            pass
        for i in range(start, min(start + BATCH, m)):
            ranks[i] = _factor_task(gram[i], linear[i], factors[i])
    return factors, ranks


def _factor_task(gram: Array, linear: Array, out: Array) -> int:
    """Write a factor of one Gram matrix, as many rows as its rank."""
    top = float(gram.diagonal().max(initial=0.0))
    if not top > 0:
        return 0
    root, pivots, rank, _ = lapack.dpstrf(gram, tol=NO_PIVOT * top)
    columns = pivots - 1
    root = np.triu(root[:rank])
    out[:rank, columns] = root
    seen = linear[columns[:rank]]
    out[:rank, -1] = lapack.dtrtrs(root[:, :rank], seen, trans=1)[0]
    return int(rank)


# Tasks that share a Gram matrix.


@dataclass(frozen=True, eq=False)
class ModeModel:
    """Tasks with one Gram matrix, in the eigenvectors of L, where each is alone."""

    gram: Array  # (k, k)
    linear: Array  # (k, m), per eigenvector
    values: Array  # (m,) eigenvalues of L
    vectors: Array  # (m, m)
    gauge: Array  # (k, k)
    total: float  # squared targets
    least: float  # θ that stands for zero
    n_free: int

    @classmethod
    def of(
        cls,
        gram: Array,
        linear: Array,
        squares: float,
        modes: tuple[Array, Array],
        least: float,
        shrinks: Mask,
    ) -> Self:
        """Gram matrix (1, k, k), products with targets (k, m), squared targets."""
        values, vectors = modes
        values = np.where(values > 1e-10 * float(values.max()), values, 0.0)
        turned, gauge = linear @ vectors, _gauge(gram[0], shrinks)
        free = int(np.count_nonzero(~shrinks)) - round(float(np.trace(gauge)))
        n_free = int(np.count_nonzero(values == 0)) * free
        return cls(gram[0], turned, values, vectors, gauge, squares, least, n_free)

    @property
    def rank(self) -> int:
        """Rank of L."""
        return int(np.count_nonzero(self.values))

    def fit(self, theta: Array, shrinkage: Array, spread: Array = ONE) -> "ModeFit":
        """Best rows, mode by mode; equal eigenvalues share an inverse."""
        tie = 1.0 / np.maximum(theta, self.least)
        levels, level = np.unique(self.values, return_inverse=True)
        blocks = self.gram + levels[:, np.newaxis, np.newaxis] * np.diag(tie)
        # In such a mode coefficients are √m times the fixed effects.
        blocks[levels == 0] += self.gauge + np.diag(shrinkage) / len(self.values)
        diagonals = np.diagonal(np.linalg.cholesky(blocks), axis1=1, axis2=2)
        logs = 2.0 * np.log(diagonals).sum(axis=1)
        inverses = np.asarray(np.linalg.inv(blocks), dtype=np.float64)
        value = float(logs[level].sum()) - self.rank * float(np.log(tie).sum())
        return ModeFit(self, tie, inverses, level, value)


@dataclass(frozen=True, eq=False)
class ModeFit:
    """Best rows of tasks with one Gram matrix."""

    model: ModeModel
    tie: Array  # (k,)
    inverses: Array  # (u, k, k), one per distinct eigenvalue
    level: Index  # (m,) which of them a mode has
    log_determinant: float

    @cached_property
    def rows(self) -> Array:
        """Fitted rows (k, m), per eigenvector."""
        rows = np.empty_like(self.model.linear)
        for number, inverse in enumerate(self.inverses):
            here = self.level == number
            rows[:, here] = inverse @ self.model.linear[:, here]
        return rows

    @property
    def coef(self) -> Array:
        """Rows turned back into tasks."""
        return self.rows @ self.model.vectors.T

    @property
    def misfit(self) -> float:
        """Squared targets less what the fit takes off."""
        return self.model.total - float(np.vdot(self.model.linear, self.rows))

    def derivatives(
        self, rows: Index, shrunken: Index = NONE, levels: Index = NONE
    ) -> Derivatives:
        """By g_j = t_j q_j L and Z_jᵀ P Z_l = [j = l] t_j L − t_j L (A⁻¹)_jl L t_l."""
        tie, values = self.tie[rows], self.model.values
        pulls = tie[:, np.newaxis] * self.rows[rows] * values
        squares = tie * np.sum(self.rows[rows] * pulls, axis=1)
        diagonals = np.diagonal(self.inverses, axis1=1, axis2=2)[:, rows]
        traces = tie * (self.model.rank - tie * (values @ diagonals[self.level]))
        information = np.diag(tie * squares)
        for number, inverse in enumerate(self.inverses):
            here = tie[:, np.newaxis] * pulls[:, self.level == number]
            information -= inverse[np.ix_(rows, rows)] * (here @ here.T)
        return Derivatives(squares, traces, information)


# Any other graph.


@dataclass(frozen=True, eq=False)
class GraphModel:
    """Tasks with Gram matrices of their own, tied along the edges of a graph.

    One node of each connected part is its ground: coefficients are the part's fixed
    effects plus deviations u that are zero there, so that only rows that vary have
    blocks of their own. Fixed effects border the equations of these blocks.
    """

    laplacian: Laplacian
    order: Elimination  # of all nodes but the ground
    grounded: GroundedGraph
    parts: Index  # (m,) connected part of each task
    gram: Array  # (nodes, k, k): zero for means of groups
    linear: Array  # (nodes, k)
    pooled: Array  # (parts, k, k) sums over all tasks of a part, with gauges
    sums: Array  # (parts, k)
    n_free: int
    total: float  # squared targets
    least: float  # θ that stands for zero where derivatives there are asked for

    @classmethod
    def of(
        cls,
        gram: Array,
        linear: Array,
        squares: float,
        laplacian: Laplacian,
        order: Elimination,
        least: float,
        shrinks: Mask,
    ) -> Self:
        """Gram matrices (m, k, k), products with targets (k, m), squared targets."""
        graph = TieGraph.of(laplacian)
        grounded = graph.grounded()
        nodes, parts = grounded.nodes, graph.parts[: laplacian.m]
        k, m = linear.shape
        gram = np.broadcast_to(gram, (m, k, k))
        n_parts = int(graph.parts.max()) + 1
        pooled, sums = _sums(gram, parts, n_parts), _sums(linear.T, parts, n_parts)
        gauges = np.array([_gauge(block, shrinks) for block in pooled])
        free = int(np.count_nonzero(~shrinks))
        n_free = free * len(pooled) - round(float(np.trace(gauges.sum(axis=0))))
        tasks = nodes < m
        own, targets = np.zeros((len(nodes), k, k)), np.zeros((len(nodes), k))
        own[tasks], targets[tasks] = gram[nodes[tasks]], linear.T[nodes[tasks]]
        data = own, targets, pooled + gauges, sums
        return cls(laplacian, order, grounded, parts, *data, n_free, squares, least)

    @cached_property
    def spanning(self) -> float:
        """Log-determinant of L without the ground."""
        pivots = self.grounded.weight[:, np.newaxis, np.newaxis]
        return self.order.factorise(pivots, np.ones(1)).log_determinant

    def fit(self, theta: Array, shrinkage: Array, spread: Array = ONE) -> "GraphFit":
        """Best rows, by elimination of tasks and then of fixed effects."""
        varying = np.flatnonzero(theta)
        k, n = len(theta), len(varying)
        pooled, sums = self.pooled + np.diag(shrinkage), np.array(self.sums)
        factor, value = None, 0.0
        bordered = np.zeros((len(self.grounded.nodes), 0, k + 1))
        if n:
            tie = 1.0 / theta[varying]
            pivots = self.gram[:, varying[:, np.newaxis], varying]
            pivots[:, np.arange(n), np.arange(n)] += np.outer(self.grounded.weight, tie)
            factor = self.order.factorise(pivots, tie, overwrite=True)
            value = factor.log_determinant - n * self.spanning
            value -= len(self.grounded.nodes) * float(np.log(tie).sum())
            border = self.gram[:, varying]
            rhs = np.concatenate([border, self.linear[:, varying, np.newaxis]], axis=2)
            bordered = factor.solve(rhs)
            taken = _products(border, bordered, self.grounded.parts, len(pooled))
            pooled -= taken[:, :, :k]
            sums -= taken[:, :, k]
        roots = np.linalg.cholesky(pooled)
        value += 2.0 * float(np.log(np.diagonal(roots, axis1=1, axis2=2)).sum())
        fixed = np.asarray(np.linalg.solve(pooled, sums[:, :, np.newaxis])[:, :, 0])
        fitted = float(np.vdot(sums, fixed))
        fitted += float(np.vdot(self.linear[:, varying], bordered[:, :, k]))
        inverses = _invert(np.asarray(roots, dtype=np.float64))
        return GraphFit(
            self,
            theta,
            shrinkage,
            factor,
            bordered,
            inverses,
            fixed,
            value,
            self.total - fitted,
        )


@dataclass(frozen=True, eq=False)
class GraphFit:
    """Fit of tasks tied along the edges of a graph."""

    model: GraphModel
    theta: Array
    shrinkage: Array
    factor: Factor | None  # of the blocks of rows that vary
    bordered: Array  # (nodes, n, k + 1) its inverse, times fixed effects and targets
    inverses: Array  # (parts, k, k) of triangular factors of Xᵀ V⁻¹ X
    fixed: Array  # (parts, k) fixed effects
    log_determinant: float
    misfit: float

    @cached_property
    def coef(self) -> Array:
        """Fixed effects and deviations (k, m)."""
        model, k = self.model, len(self.theta)
        m = model.laplacian.m
        coef = self.fixed[model.parts].T
        beta = self.fixed[model.grounded.parts][:, :, np.newaxis]
        apart = self.bordered[:, :, k] - (self.bordered[:, :, :k] @ beta)[:, :, 0]
        tasks = model.grounded.nodes < m
        places = np.ix_(np.flatnonzero(self.theta), model.grounded.nodes[tasks])
        coef[places] += apart[tasks].T
        return coef

    def derivatives(
        self, rows: Index, shrunken: Index = NONE, levels: Index = NONE
    ) -> Derivatives:
        """By Z_jᵀ P Z_l = [j = l] t_j L − t_j L (A⁻¹)_jl L t_l and g_j = t_j q_j L."""
        if np.any(self.theta[rows] == 0):
            theta = np.array(self.theta)
            theta[rows] = np.maximum(theta[rows], self.model.least)
            return self.model.fit(theta, self.shrinkage).derivatives(rows)
        varying = np.flatnonzero(self.theta)
        chosen = np.searchsorted(varying, rows)
        model, k, n = self.model, len(self.theta), len(varying)
        if self.factor is None:
            return Derivatives(np.zeros(0), np.zeros(0), np.zeros((0, 0)))
        tie = 1.0 / self.theta[varying]
        deviations = self.coef[varying]
        pulls = tie[:, np.newaxis] * model.laplacian.times(deviations)
        squares = tie * np.sum(deviations * pulls, axis=1)
        # A⁻¹ is that of the blocks plus E S⁻¹ Eᵀ, with E in ``bordered``.
        blocks, links = self.factor.selected_inverse()
        graph = model.order.graph
        kept = np.diagonal(links[: len(graph.weight)], axis1=1, axis2=2)
        diagonals = np.diagonal(blocks, axis1=1, axis2=2)
        spreads = graph.spreads(diagonals, kept) + model.grounded.weight @ diagonals
        turned = self.inverses[model.grounded.parts].swapaxes(1, 2)
        E = self.bordered[:, :, :k] @ turned
        steps = E[graph.first] - E[graph.second]
        spreads += np.einsum("e,ejk,ejk->j", graph.weight, steps, steps)
        spreads += np.einsum("i,ijk,ijk->j", model.grounded.weight, E, E)
        traces = tie * (len(model.grounded.nodes) - tie * spreads)
        tasks = model.grounded.nodes < model.laplacian.m
        apart = np.zeros((len(model.grounded.nodes), n, n))
        steps_n = np.arange(n)
        moved = tie[:, np.newaxis] * pulls[:, model.grounded.nodes[tasks]]
        apart[np.flatnonzero(tasks)[:, np.newaxis], steps_n, steps_n] = moved.T
        own = np.diagonal(apart, axis1=1, axis2=2)
        response = np.einsum("ij,ijl->jl", own, self.factor.solve(apart))
        crossed = _sums(
            own[:, :, np.newaxis] * E, model.grounded.parts, len(self.fixed)
        )
        response += np.einsum("cjk,clk->jl", crossed, crossed)
        information = np.diag(tie * squares) - response
        return Derivatives(
            squares[chosen], traces[chosen], information[np.ix_(chosen, chosen)]
        )


def _gauge(gram: Array, shrinks: Mask) -> Array:
    """Projector on what neither a Gram matrix nor shrinkage sees."""
    top = float(np.diag(gram).max())
    values, vectors = np.linalg.eigh(gram + np.diag(np.where(shrinks, top, 0.0)))
    # eigenvalues below this, of a Gram matrix with diagonal 1, are zero
    singular = 1e-8
    blind = vectors[:, values <= singular * top]
    return np.asarray(blind @ blind.T)


def _sums(blocks: Array, parts: Index, n_parts: int) -> Array:
    """Sums of blocks over the parts that they belong to."""
    if n_parts == 1:
        return blocks.sum(axis=0, keepdims=True)
    sums = np.zeros((n_parts, *blocks.shape[1:]))
    np.add.at(sums, parts, blocks)
    return sums


def _products(left: Array, right: Array, parts: Index, n_parts: int) -> Array:
    """Sums of leftᵀ right over the parts that blocks belong to."""
    if n_parts == 1:
        return np.tensordot(left, right, axes=((0, 1), (0, 1)))[np.newaxis]
    return _sums(left.swapaxes(1, 2) @ right, parts, n_parts)


def _whiten(rows: Array, theta: Array, varying: Index) -> tuple[Array, float]:
    """Rows (b, r, k + 1) times V_i^(-1/2), and Σ log |V_i|."""
    b, r, _ = rows.shape
    if r <= SMALL_BLOCK and b >= MANY_BLOCKS:
        from priormtl.reml.kernel import whiten  # noqa: PLC0415  (slow to import)

        out = np.empty_like(rows)
        return out, float(whiten(rows, varying, theta[varying], out))
    F = rows[:, :, varying] * np.sqrt(theta[varying])
    V = F @ F.swapaxes(1, 2)
    V[:, np.arange(r), np.arange(r)] += 1.0
    roots = np.linalg.cholesky(V)
    log = 2.0 * float(np.log(np.diagonal(roots, axis1=1, axis2=2)).sum())
    if r <= SMALL_BLOCK:
        return np.asarray(np.linalg.solve(roots, rows)), log
    # NumPy knows no triangular systems. Transposed, blocks are in LAPACK's order.
    out = np.array(rows)
    for root, block in zip(roots, out, strict=True):
        blas.dtrsm(1.0, root.T, block.T, side=1, overwrite_b=1)
    return out, log


def _invert_shifted(S: Array) -> tuple[Array, float]:
    """(I + S)⁻¹, and log |I + S|."""
    root = np.linalg.cholesky(S + np.eye(len(S)))
    inverse = lapack.dtrtri(root.T)[0].T if len(S) else root
    log = 2.0 * float(np.log(root.diagonal()).sum())
    return np.asarray(inverse.T @ inverse), log


def _root(K: Array) -> Array:
    """H with K = Hᵀ H, of a matrix that may be singular."""
    values, vectors = np.linalg.eigh(K)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))).T)


def _invert(roots: Array) -> Array:
    """Inverses of lower triangular matrices."""
    return np.array([lapack.dtrtri(root.T)[0].T for root in roots])
