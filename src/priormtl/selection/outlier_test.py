"""Outlier tasks: which tasks differ from what the others predict, beyond chance.

Task i has rows y = X p_i + noise of variance σ_i², and coefficients that follow the
task graph: p_i = q_i + u_i, where u_i is Gaussian with variances τ² and q is smooth
over the graph (constant within a group, or a random walk along edges, of variance
τ²/κ). The other tasks predict p_i with mean m and covariance P. In the eigenbasis of
the task's Gram matrix, G = Uᵀ U and z = U p + noise, the test statistic is

    Q = (z − U m)ᵀ (σ² I + U P Uᵀ)⁻¹ (z − U m),    about χ² with rank(G) degrees.

Nothing in it is known, and each estimate counts with its degrees of freedom:

- σ_i² is that of the task's own residuals, shrunken towards the others' as far as
  these are alike: s_i² ~ s₀² F(f_i, d₀) (Smyth 2004). A cautious d₀ keeps tasks of
  noisy rows, or of rows with heavy tails, from being named. p-values are averages
  over σ_i².
- τ² and κ are estimated by REML (Fellner 1986), τ² of features partly pooled and kept
  from zero (Chung et al. 2013); their error turns χ² into F.
- Outliers hide each other. So tasks are first held against the closer half of tasks;
  those that then look apart go back one after the other, the closest first, until all
  that are left out differ from those that are in (outward testing: Rosner 1983).
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, digamma, fdtrc, gammaln, polygamma

from priormtl._arrays import Array, Index
from priormtl.graphs import Laplacian
from priormtl.losses import FreeIntercepts, SquaredFit
from priormtl.model import Solver
from priormtl.problem import Problem
from priormtl.problem.elimination import Elimination, TieGraph

FALSE_NAMES = 0.01  # chance of naming any task where none is an outlier
FEWEST = 3  # tied tasks, of which two can outvote one
FEWEST_FREE = 10.0  # rows beyond coefficients from which noise can be told
FLAT = 1e-9  # relative, below which an axis has no curvature
MOST_FEATURES = 200
ROWS_PER_FEATURE = 4.0
MOST_BLOCK_STEPS = 10**6  # of eliminations over a graph
COMMON = 1e3  # ties, in units of curvature, under which tasks have all in common

# d₀: degrees of freedom of what tasks know about each other's noise.
PRIOR_DEGREES = 2.0 ** np.arange(0.0, 8.5, 0.5)  # the last one: all alike
CAUTION = 0.1  # quantile of d₀ that is used
KNOWN = 1e6  # degrees of freedom of a noise that is known

POOLING = 5.0  # tasks that the mean variation of all features counts for
AWAY_FROM_ZERO = 1.0  # degrees of freedom taken from τ²: a prior density ∝ τ
FIRST_STEPS, MORE_STEPS = 12, 6
SETTLED = 0.02  # change of log τ²
STRETCH = 1.5  # of steps in log τ², which are too short
RIDGE = 1e-10  # of curvature, for what no task determines
NODES = np.linspace(-1.0, 1.0, 33)  # of integrals over σ²
OUTSIDE = 1e-8  # probability beyond them
MOST_HALVES = 3
ROUNDING = 1e-13  # of ties, in sums over tasks

Mask = NDArray[np.bool_]


class OutlierTest(NamedTuple):
    """Outlier tasks, p-values of all tasks, and the size of the noise."""

    outliers: Mask  # (m,)
    noise: float  # standard deviation of a usual task
    p_values: Array  # (m,) each against all others that are no outliers


def find_outliers(problem: Problem, solver: Solver) -> OutlierTest | None:
    """Tasks further from what the others predict than chance explains.

    The strength of ties does not matter, as it may be too weak to show who does not
    belong. None where no tasks are tied.
    """
    laplacian, m = problem.prior.laplacian, problem.shape[1]
    if laplacian.is_zero:
        return None
    sizes = np.bincount(laplacian.components)
    if sizes.max() < FEWEST or not problem.null_point.fit.gradient.any():
        return OutlierTest(np.zeros(m, bool), 0.0, np.ones(m))
    fit, noise = _squared_fit(problem, solver)
    tasks = Tasks.of(fit, noise)
    prediction = Prediction.of(tasks, laplacian)
    label = laplacian.components
    judged = (tasks.rank > 0) & (sizes[label] >= FEWEST)
    limit = FALSE_NAMES / max(1, int(judged.sum()))

    def test(out: Mask, steps: int) -> Array:
        return np.where(judged, prediction.p_values(out, steps), 1.0)

    out = np.zeros(m, bool)
    p = test(out, FIRST_STEPS)
    for _ in range(MOST_HALVES):
        last, out = out, _minority(p, label)
        if np.array_equal(last, out):
            break
        p = test(out, MORE_STEPS)
    out = out & (p < limit)
    while True:
        p = test(out, MORE_STEPS)
        back = np.flatnonzero(out & (p >= limit))
        if not len(back):
            break
        # Half of them at once, else many tasks would take many rounds.
        out[back[np.argsort(-p[back])][: (len(back) + 1) // 2]] = False
    return OutlierTest(out, float(np.sqrt(prediction.tasks.usual_noise)), p)


def _minority(p: Array, label: Index) -> Mask:
    """Mark the smallest p-values of tasks of each label, fewer than half of them."""
    order = np.lexsort((p, label))
    size = np.bincount(label)
    place = np.arange(len(label)) - (np.cumsum(size) - size)[label[order]]
    marked = np.zeros(len(label), bool)
    marked[order] = place < (size[label[order]] - 1) // 2
    return marked


def _squared_fit(problem: Problem, solver: Solver) -> tuple[SquaredFit, float | None]:
    """Squared loss, or a model of another one at common coefficients; known noise.

    Where rows are too few for all features, those are taken that matter most to the
    tasks in common.
    """
    fit: Any = problem.fit
    d = problem.shape[0]
    rows = float((fit.moments if fit.is_quadratic else fit.data).weight.sum())
    most = int(min(MOST_FEATURES, max(1.0, rows / ROWS_PER_FEATURE)))
    noise = None
    if not fit.is_quadratic or d > most:
        unit = float(np.mean(fit.task_curvature) / d)
        degree = float(np.mean(problem.prior.laplacian.degree))
        tied = problem.with_strengths(lam=problem.lam, epsilon=COMMON * unit / degree)
        coef = solver.solve(tied).coef
        if not fit.is_quadratic:
            fit, noise = fit.quadratic_model(fit.evaluate(coef)), 1.0
        if d > most:
            sizes = np.linalg.norm(coef, axis=1)
            fit = fit.restrict(np.sort(np.argsort(-sizes, kind="stable")[:most]))
    return fit, noise


# What the rows of each task say.


@dataclass(frozen=True, eq=False)
class Tasks:
    """Least squares of each task: z = U p + noise, and an estimate of its noise."""

    root: Array  # U (m, r, d), zero where an axis is flat
    target: Array  # z (m, r)
    rank: Index  # (m,)
    unit: Array  # (d,) reciprocal variances of features
    noise: Array  # (m,) variances σ²
    degrees: Array  # (m,) degrees of freedom of these
    usual_noise: float  # variance of a usual task
    told: bool  # whether rows tell the noise; if not, what tasks leave stands for it
    # Degrees of freedom of what all tasks' estimates of noise have in common, s₀².
    shared_degrees: float = KNOWN

    @classmethod
    def of(
        cls,
        fit: SquaredFit,
        noise: float | None,
        *,
        judged: Mask | None = None,
        caution: float = CAUTION,
    ) -> Self:
        """Tied intercepts are taken as free: tasks are judged by coefficients.

        ``judged`` are the tasks whose noise counts for the others, by default all;
        ``caution`` is the quantile of d₀.
        """
        if fit.ties_means:
            fit = replace(fit, intercepts=FreeIntercepts())
        d, m = fit.shape
        moments = fit.moments
        gram = np.broadcast_to(fit.normal_form().gram, (m, d, d))
        variance = np.einsum("mdd->d", gram) / max(float(moments.weight.sum()), 1.0)
        unit = 1.0 / np.where(variance > 0, variance, 1.0)
        # Axes of features in units of their deviation: else some would look flat.
        scale = np.sqrt(unit)
        values, vectors = np.linalg.eigh(gram * np.outer(scale, scale))
        seen = values > FLAT * values.max(axis=1, initial=0.0, keepdims=True)
        sizes = np.sqrt(np.where(seen, values, 1.0))
        linear = -fit.evaluate(np.zeros((d, m))).gradient
        turned = np.einsum("mdr,dm->mr", vectors, scale[:, np.newaxis] * linear)
        target = np.where(seen, turned / sizes, 0.0)
        root = np.where(seen, sizes, 0.0)[:, :, np.newaxis] * vectors.swapaxes(1, 2)
        root = root / scale
        rank = seen.sum(axis=1)
        weight, squares = moments.weight, moments.yy
        if not fit.means_are_free:
            squares = squares + weight * moments.y_mean**2
        rest = np.maximum(squares - np.sum(target**2, axis=1), 0.0)
        free = np.maximum(weight - rank - float(fit.means_are_free), 0.0)
        spread = np.trace(gram, axis1=1, axis2=2)
        known = np.ones(m)
        tasks = cls(root, target, rank, unit, known, KNOWN * known, 1.0, told=True)
        if noise is not None:
            return replace(tasks, noise=noise * known, usual_noise=noise)
        usable = (free > 0) & (spread > 0) & (True if judged is None else judged)
        if free[usable].sum() < FEWEST_FREE or not rest[usable].any():
            return replace(tasks, told=False)
        if usable.sum() == 1:  # there is no other task to learn from
            own = np.where(usable, rest / np.maximum(free, 1.0), 1.0)
            usual = float(own[usable][0])
            return replace(
                tasks, noise=own, degrees=np.maximum(free, 1.0), usual_noise=usual
            )
        usual, degrees = usual_variance(rest[usable], free[usable], caution)
        shrunk = (degrees * usual + rest) / (degrees + free)
        part = float(np.mean(degrees / (degrees + free[usable])))
        return replace(
            tasks,
            noise=shrunk,
            degrees=degrees + free,
            usual_noise=usual,
            shared_degrees=float(free[usable].sum()) / part**2,
        )

    def with_leftover_noise(self, squares: Array, kept: Mask) -> Self:
        """Noise by what common coefficients leave of tasks: squares (m,)."""
        seen = kept & (self.rank > 0)
        usual, degrees = usual_variance(
            squares[seen], self.rank[seen].astype(np.float64)
        )
        m = len(self.rank)
        noise, free = np.full(m, usual), np.full(m, degrees)
        return replace(self, noise=noise, degrees=free, usual_noise=usual)


def usual_variance(
    squares: Array, free: Array, caution: float = CAUTION
) -> tuple[float, float]:
    """Fit s² ~ s₀² F(f, d₀) to variances s² = squares / free of tasks: s₀² and d₀.

    d₀ is a low quantile of its posterior, with a prior that is flat in its logarithm:
    infinity says that all have the same variance, and small numbers that a task's own
    variance is all that is known about it.
    """
    usual = max(float(squares.sum() / free.sum()), np.finfo(float).tiny)
    logs = np.log(np.maximum(squares / free, 1e-12 * usual))
    d0 = PRIOR_DEGREES[:, np.newaxis]
    mean = digamma(free / 2) - np.log(free / 2) - digamma(d0 / 2) + np.log(d0 / 2)
    precision = 1.0 / (polygamma(1, free / 2) + polygamma(1, d0 / 2))
    centre = np.sum((logs - mean) * precision, axis=1) / precision.sum(axis=1)
    x = logs - centre[:, np.newaxis]
    density = gammaln((free + d0) / 2) - gammaln(free / 2) - gammaln(d0 / 2)
    density += 0.5 * free * (np.log(free / d0) + x)
    density -= 0.5 * (free + d0) * np.log1p(free / d0 * np.exp(x))
    likelihood = density.sum(axis=1)
    posterior = np.exp(likelihood - likelihood.max())
    place = int(np.searchsorted(np.cumsum(posterior) / posterior.sum(), caution))
    return float(np.exp(centre[place])), float(PRIOR_DEGREES[place])


# What the other tasks predict.


@dataclass(eq=False)
class Prediction:
    """Coefficients over the task graph. Variances stay as the last call left them."""

    tasks: Tasks
    order: Elimination  # of tasks, then what is smooth over them
    own: Mask  # edges with variance τ²; the others are those of a walk
    walk_rank: int  # of the Laplacian of the others
    spread: Array  # τ² (d,)
    stiffness: float = 1.0  # κ
    freedom: float = 1.0  # degrees of freedom of τ² and κ

    @classmethod
    def of(cls, tasks: Tasks, laplacian: Laplacian) -> Self:
        """Start from a variation as large as noise."""
        start = np.zeros(len(tasks.unit))
        graph = TieGraph.of(laplacian)
        m = laplacian.m
        if laplacian.pairs():
            # Along edges: each task hangs on a node of its own, which walks.
            ends = np.arange(m), m + np.arange(m)
            first = np.concatenate([ends[0], m + graph.first])
            second = np.concatenate([ends[1], m + graph.second])
            weight = np.concatenate([np.ones(m), graph.weight])
            walks = TieGraph(m + graph.n_nodes, first, second, weight)
            order = Elimination.plan(walks, MOST_BLOCK_STEPS)
            if order is not None:
                own = np.arange(len(weight)) < m
                return cls(tasks, order, own, graph.rank, start)
            # Too dense a graph to follow: all its tasks are alike.
            label = laplacian.components
            members = [np.flatnonzero(label == k) for k in range(label.max() + 1)]
            graph = TieGraph.of(Laplacian.from_groups(m, members, 1.0))
        order = Elimination.plan(graph, MOST_BLOCK_STEPS)
        if order is None:
            raise RuntimeError("a star of tasks could not be eliminated")
        return cls(tasks, order, np.ones(len(graph.weight), bool), 0, start)

    def p_values(self, out: Mask, steps: int) -> Array:
        """P-value of each task against all others that are not ``out``."""
        if not self.tasks.told:
            # Variation and noise cannot be told apart: common coefficients.
            even = np.ones(len(out))
            self.tasks = replace(self.tasks, noise=even)
            self.spread = 1e-6 * self._noise_spread()
            squares = self._residuals(out, *self._solve(out, 0))[0].sum(axis=1)
            self.tasks = self.tasks.with_leftover_noise(squares, ~out)
            steps = 0
        if not self.spread.any():
            self.spread = self._noise_spread()
        squares, predicted = self._residuals(out, *self._solve(out, steps))
        # Average over σ² / s² ~ ν / χ²_ν, on a grid of its logarithm.
        tasks, nu = self.tasks, self.tasks.degrees[:, np.newaxis]
        low, high = (np.log(nu / chdtri(nu, q)) for q in (OUTSIDE, 1.0 - OUTSIDE))
        log = 0.5 * (low + high) + 0.5 * (high - low) * NODES
        density = -0.5 * nu * (log + np.exp(-log))
        weights = np.exp(density - density.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        total = np.exp(log)[:, :, np.newaxis] + predicted[:, np.newaxis, :]
        statistic = np.sum(squares[:, np.newaxis, :] / total, axis=2)
        # τ² has `freedom` degrees where it is all that varies, 1/share as many else.
        rank = np.maximum(tasks.rank, 1)[:, np.newaxis]
        varied = np.sum(tasks.root**2 @ self.spread, axis=1)[:, np.newaxis]
        varied /= rank * tasks.noise[:, np.newaxis]
        share = np.minimum(rank * varied / total.sum(axis=2), 1.0)
        usual = float(np.median(varied / (1.0 + varied)))
        error = np.maximum(share, 1e-3) ** 2 / (self.freedom * max(usual, 1e-3))
        tails = fdtrc(rank, 1.0 / error, statistic / rank)
        return np.asarray(np.sum(weights * tails, axis=1))

    def _noise_spread(self) -> Array:
        """Variances of coefficients, as those of estimates from a task's rows (d,)."""
        tasks = self.tasks
        curvature = np.einsum("mrd,d->m", tasks.root**2, tasks.unit) / tasks.noise
        usual = curvature[curvature > 0] / len(tasks.unit)
        return tasks.unit / (float(np.median(usual)) if len(usual) else 1.0)

    def _solve(self, out: Mask, steps: int) -> tuple[Array, Array]:
        """Coefficients (m, d) and their covariances (m, d, d), rows of ``out`` unused.

        Steps of Fellner and Schall: a variance is its energy over its degrees of
        freedom, those of its edges less what is not known about them.
        """
        tasks, graph = self.tasks, self.order.graph
        m, d = len(tasks.rank), len(tasks.unit)
        root = tasks.root / np.sqrt(tasks.noise)[:, np.newaxis, np.newaxis]
        root[out] = 0.0
        pivots = np.zeros((graph.n_nodes, d, d))
        pivots[:m] = root.swapaxes(1, 2) @ root
        ridge = np.einsum("mdd->d", pivots) / max(1, m)
        pivots += RIDGE * np.diag(np.where(ridge > 0, ridge, 1.0))
        right = np.zeros((graph.n_nodes, d, 1))
        scaled = tasks.target / np.sqrt(tasks.noise)[:, np.newaxis]
        right[:m, :, 0] = np.einsum("mrd,mr->md", root, scaled)
        own, start = self.own, self._noise_spread()
        for step in range(steps + 1):
            weight = np.where(own, 1.0, self.stiffness) * graph.weight
            order = replace(self.order, graph=replace(graph, weight=weight))
            # Strong ties are rounded: no data may be as weak as that.
            held = ROUNDING * float(weight.max()) / self.spread
            factor = order.factorise(pivots + np.diag(held), 1.0 / self.spread)
            coef = factor.solve(right)[:, :, 0]
            nodes, edges = factor.selected_inverse()
            if step == steps:
                break
            kept = np.diagonal(edges[: len(weight)], axis1=1, axis2=2)
            ends = [
                np.diagonal(nodes[e], axis1=1, axis2=2)
                for e in (graph.first, graph.second)
            ]
            unknown = weight[:, np.newaxis] * (ends[0] + ends[1] - 2.0 * kept)
            energy = (
                weight[:, np.newaxis] * (coef[graph.first] - coef[graph.second]) ** 2
            )
            known = graph.rank - self.walk_rank - unknown[own].sum(axis=0) / self.spread
            known = np.maximum(known, 1e-6)
            total = energy[own].sum(axis=0) / tasks.unit
            left = max(known.sum() - AWAY_FROM_ZERO, 0.3 * known.sum())
            pooled = total.sum() / left
            ratio = (POOLING * pooled + total) / (POOLING + known)
            ratio = ratio * tasks.unit / self.spread
            # Degrees of freedom of Σ τ²: fewer where few features vary (Satterthwaite).
            parts = ratio * self.spread / tasks.unit
            freedom = float(parts.sum() ** 2 / np.sum(parts**2 / known))
            change = float(np.abs(np.log(ratio)).max())
            spread = np.clip(self.spread * ratio**STRETCH, 1e-5 * start, 1e8 * start)
            if self.walk_rank:
                # All features walk by the same share of their τ².
                unsure = float(np.sum(unknown[~own] / self.spread))
                steady = max(d * self.walk_rank - unsure, 1e-6)
                walk = float(np.sum(energy[~own] / self.spread)) / steady
                grown = float(np.mean(spread) / np.mean(self.spread))
                self.stiffness *= grown / max(walk, 1e-6) ** STRETCH
                self.stiffness = float(np.clip(self.stiffness, 1e-4, 1e6))
                freedom, change = freedom + steady, max(change, abs(np.log(walk)))
            self.spread, self.freedom = spread, max(freedom, 1.0)
            if change < SETTLED:
                steps = step + 1
        return coef[:m], nodes[:m]

    def _residuals(
        self, out: Mask, coef: Array, covariance: Array
    ) -> tuple[Array, Array]:
        """Squared residuals of predictions, and variances of these, over noise (m, r).

        A task that is in has taken part in ``coef``. With M = U C Uᵀ / σ², what the
        others predict leaves (I − M)⁻¹ of its residual, of covariance σ² (I − M)⁻¹.
        """
        tasks = self.tasks
        scale = np.sqrt(tasks.noise)[:, np.newaxis]
        root = tasks.root / scale[:, :, np.newaxis]
        left = tasks.target / scale - np.einsum("mrd,md->mr", root, coef)
        values, vectors = np.linalg.eigh(root @ covariance @ root.swapaxes(1, 2))
        values = np.maximum(values, 0.0)
        part = np.where(out[:, np.newaxis], 1.0, np.maximum(1.0 - values, 1e-8))
        left = np.einsum("mrs,mr->ms", vectors, left)
        return (left / part) ** 2, values / part
