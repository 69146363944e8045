"""Outlier tasks: which tasks differ from what the others predict, beyond chance.

Task i has rows y = X p_i + noise of variance σ_i², and coefficients that follow the
task graph: p_i = q_i + u_i, where u_i is Gaussian with variances τ² and q is smooth
over the graph (constant within a group, or a random walk along edges, of variance
τ²/κ). The other tasks predict p_i with mean m and covariance P. In the eigenbasis of
the task's Gram matrix, G = Uᵀ U and z = U p + noise, the test statistic is

    Q = (z − U m)ᵀ (σ² I + U P Uᵀ)⁻¹ (z − U m),    about χ² with rank(G) degrees.

Nothing in it is known, and each estimate counts with its degrees of freedom:

- σ_i² is that of the task's own residuals, shrunken towards the others' as far as
  these are alike: s_i² ~ s₀² F(f_i, d₀) (Smyth 2004). Few tasks cannot tell d₀, so
  that p-values are averages over its posterior, and over σ_i² given d₀.
- τ² and κ are estimated by REML (Fellner 1986) without the task in question. Features
  may vary differently: their τ² are moderated like the noise of tasks. On each axis of
  Q the residual over its deviation is then Student's t, whose degrees of freedom are
  those of τ² where it is all that varies, and more where noise does (Satterthwaite
  1946). It enters Q as the normal variable with the same p-value (Wallace 1959).
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
from priormtl.losses import FreeIntercepts, SquaredFit
from priormtl.model import Solver
from priormtl.priors.graphs import Laplacian
from priormtl.problem import Problem
from priormtl.problem.elimination import Elimination, TieGraph

FALSE_NAMES = 0.01  # chance of naming any task where none is an outlier
MOST_FEATURES = 200
MOST_BLOCK_STEPS = 10**6  # of eliminations over a graph
COMMON = 1e3  # ties, in units of curvature, under which tasks have all in common

# d₀: degrees of freedom of what tasks know about each other's noise.
KNOWN = 1e6  # degrees of freedom of a noise that is known

FIRST_STEPS, MORE_STEPS = 12, 8
STRETCH = 1.5  # of steps in log τ², which are too short
RIDGE = 1e-10  # of curvature, for what no task determines
NODES = np.linspace(-1.0, 1.0, 17)  # of integrals over σ²

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
    fewest = 3  # tied tasks, of which two can outvote one
    if sizes.max() < fewest or not problem.null_point.fit.gradient.any():
        return OutlierTest(np.zeros(m, bool), 0.0, np.ones(m))
    fit, noise = _squared_fit(problem, solver)
    tasks = Tasks.of(fit, noise)
    prediction = Prediction.of(tasks, laplacian)
    label = laplacian.components
    judged = (tasks.rank > 0) & (sizes[label] >= fewest)
    limit = FALSE_NAMES / max(1, int(judged.sum()))

    def test(out: Mask, steps: int) -> Array:
        return np.where(judged, prediction.p_values(out, steps), 1.0)

    out = np.zeros(m, bool)
    p = test(out, FIRST_STEPS)
    most_halves = 3
    for _ in range(most_halves):
        last, out = out, _minority(p, label)
        if np.array_equal(last, out):
            break
        p = test(out, MORE_STEPS)
    loose = 0.1  # p-value below which a task of the outer half is looked at again
    out = out & (p < loose)
    while True:
        p = test(out, MORE_STEPS)
        back = np.flatnonzero(out & (p >= limit))
        if not len(back):
            break
        # Half of them at once, else many tasks would take many rounds.
        out[back[np.argsort(-p[back])][: (len(back) + 1) // 2]] = False
    return OutlierTest(out, float(np.sqrt(prediction.tasks.noise.usual)), p)


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
    rows_per_feature = 4.0
    most = int(min(MOST_FEATURES, max(1.0, rows / rows_per_feature)))
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
    """Least squares of each task: z = U p + noise, and what is known of its noise."""

    root: Array  # U (m, r, d), zero where an axis is flat
    target: Array  # z (m, r)
    rank: Index  # (m,)
    unit: Array  # (d,) reciprocal variances of features
    noise: "Noise"
    # Whether rows determine the noise; else residuals of tasks are taken for it.
    knows_noise: bool = True

    @classmethod
    def of(
        cls, fit: SquaredFit, noise: float | None, *, judged: Mask | None = None
    ) -> Self:
        """Tied intercepts are taken as free: tasks are judged by coefficients.

        ``judged`` are the tasks whose noise counts for the others, by default all.
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
        flat = 1e-9  # relative, below which an axis has no curvature
        seen = values > flat * values.max(axis=1, initial=0.0, keepdims=True)
        sizes = np.sqrt(np.where(seen, values, 1.0))
        linear = -fit.evaluate(np.zeros((d, m))).gradient
        turned = np.einsum("mdr,dm->mr", vectors, scale[:, np.newaxis] * linear)
        target = np.where(seen, turned / sizes, 0.0)
        root = np.where(seen, sizes, 0.0)[:, :, np.newaxis] * vectors.swapaxes(1, 2)
        rank = seen.sum(axis=1)
        known = Noise.known(1.0 if noise is None else noise, m)
        tasks = cls(root / scale, target, rank, unit, known)
        if noise is not None:
            return tasks
        weight, squares = moments.weight, moments.yy
        if not fit.means_are_free:
            squares = squares + weight * moments.y_mean**2
        rest = np.maximum(squares - np.sum(target**2, axis=1), 0.0)
        free = np.maximum(weight - rank - float(fit.means_are_free), 0.0)
        usable = (free > 0) & (np.trace(gram, axis1=1, axis2=2) > 0)
        if judged is not None:
            usable &= judged
        fewest_free = 10.0  # rows beyond coefficients from which noise is estimated
        if free[usable].sum() < fewest_free or not rest[usable].any():
            return replace(tasks, knows_noise=False)
        return replace(tasks, noise=Noise.of(rest, free, usable))


class Noise(NamedTuple):
    """Variances of tasks' noise: a mixture of k scaled inverse χ² distributions."""

    weights: Array  # (k,)
    variances: Array  # (k, m)
    degrees: Array  # (k, m)
    usual: float  # variance of a usual task
    shared_degrees: float  # of what all tasks' variances have in common, s₀²

    @property
    def variance(self) -> Array:
        """One number per task: reciprocal mean precision (m,)."""
        return np.asarray(1.0 / (self.weights @ (1.0 / self.variances)))

    @classmethod
    def known(cls, variance: float, m: int) -> Self:
        """The same for all tasks."""
        one = np.ones((1, m))
        return cls(np.ones(1), variance * one, KNOWN * one, variance, KNOWN)

    @classmethod
    def of(cls, rest: Array, free: Array, usable: Mask) -> Self:
        """From residual sums of squares and their degrees of freedom."""
        if usable.sum() == 1:  # there is no other task to learn from
            degrees = np.maximum(free, 1.0)[np.newaxis]
            own = np.where(usable, rest / degrees, 1.0)
            return cls(np.ones(1), own, degrees, float(own[0, usable][0]), KNOWN)
        weights, usual, d0 = variance_prior(rest[usable], free[usable])
        degrees = d0[:, np.newaxis] + free
        shrunk = ((d0 * usual)[:, np.newaxis] + rest) / degrees
        part = float(weights @ np.mean(d0[:, np.newaxis] / degrees[:, usable], axis=1))
        shared = float(free[usable].sum()) / part**2
        return cls(weights, shrunk, degrees, float(weights @ usual), shared)


def variance_prior(squares: Array, free: Array) -> tuple[Array, Array, Array]:
    """Fit s² ~ s₀² F(f, d₀) to variances s² = squares / free: weights, s₀² and d₀.

    Large d₀ say that all have the same variance, and small ones that a variance of its
    own is all that is known about each. The weights are the posterior of d₀ on a grid,
    with a prior that is flat in 1/d₀, half the variance of log σ². Those that hardly
    count are left out.
    """
    least = 1e-12 * max(float(squares.sum() / free.sum()), np.finfo(float).tiny)
    logs = np.log(np.maximum(squares / free, least))
    prior_degrees = 2.0 ** np.arange(0.0, 9.0)  # the last one: all alike
    d0 = prior_degrees[:, np.newaxis]
    mean = digamma(free / 2) - np.log(free / 2) - digamma(d0 / 2) + np.log(d0 / 2)
    precision = 1.0 / (polygamma(1, free / 2) + polygamma(1, d0 / 2))
    centre = np.sum((logs - mean) * precision, axis=1) / precision.sum(axis=1)
    x = logs - centre[:, np.newaxis]
    density = gammaln((free + d0) / 2) - gammaln(free / 2) - gammaln(d0 / 2)
    density += 0.5 * free * (np.log(free / d0) + x)
    density -= 0.5 * (free + d0) * np.log1p(free / d0 * np.exp(x))
    posterior = density.sum(axis=1) - np.log(prior_degrees)
    weights = np.exp(posterior - posterior.max())
    negligible = 1e-4  # weight in the posterior of d₀
    counts = weights > negligible * weights.sum()
    weights = weights[counts] / weights[counts].sum()
    return weights, np.exp(centre[counts]), prior_degrees[counts]


def usual_variance(squares: Array, free: Array, quantile: float) -> tuple[float, float]:
    """s₀² and d₀ of ``variance_prior`` at a quantile of d₀."""
    weights, usual, d0 = variance_prior(squares, free)
    place = min(int(np.searchsorted(np.cumsum(weights), quantile)), len(d0) - 1)
    return float(usual[place]), float(d0[place])


# What the other tasks predict.


class Spread(NamedTuple):
    """What is known about the variation between tasks."""

    coef: Array  # (m, d) means of coefficients given the rows that count
    covariance: Array  # (m, d, d) of these
    variance: Array  # τ² (d,)
    share: Array  # (d,) of τ² in the variance of a usual task's own estimates
    degrees: Array  # (d,) of freedom of that variance
    shared_degrees: float  # of what they have in common


class System(NamedTuple):
    """Normal equations of coefficients of tasks and of what is smooth over them."""

    pivots: Array  # (nodes, d, d)
    right: Array  # (nodes, d, 1)


class Eliminated(NamedTuple):
    """Solution of the normal equations at given variances."""

    coef: Array  # (m, d)
    covariance: Array  # (m, d, d)
    energy: Array  # (edges, d) over τ²
    unknown: Array  # (edges, d) part of the variance that is not known, over τ²


@dataclass(eq=False)
class Prediction:
    """Coefficients over the task graph. Variances stay as the last call left them."""

    tasks: Tasks
    order: Elimination  # of tasks, then what is smooth over them
    own: Mask  # edges with variance τ²; the others are those of a walk
    walk_rank: int  # of the Laplacian of the others
    scale: float = 0.0  # τ² of features of variance 1
    stiffness: float = 1.0  # κ

    @classmethod
    def of(cls, tasks: Tasks, laplacian: Laplacian) -> Self:
        """Start from a variation as large as noise."""
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
                return cls(tasks, order, own, graph.rank)
            # Too dense a graph to follow: all its tasks are alike.
            label = laplacian.components
            members = [np.flatnonzero(label == k) for k in range(label.max() + 1)]
            graph = TieGraph.of(Laplacian.from_groups(m, members, 1.0))
        order = Elimination.plan(graph, MOST_BLOCK_STEPS)
        if order is None:
            raise RuntimeError("a star of tasks could not be eliminated")
        return cls(tasks, order, np.ones(len(graph.weight), bool), 0)

    def p_values(self, out: Mask, steps: int) -> Array:
        """P-value of each task against all others that are not ``out``."""
        if not self.tasks.knows_noise:
            self._estimate_noise_from_tasks(out)
            steps = 0
        if not self.scale:
            self.scale = self._noise_scale()
        spread, noise = self._solve(out, steps), self.tasks.noise
        residuals = self._residuals(out, spread)
        p = np.zeros(len(out))
        outside = 1e-8  # probability beyond them
        for weight, variance, degrees in zip(*noise[:3], strict=True):
            ratio = np.log(variance / noise.variance)[:, np.newaxis]
            nu = 1.0 / (1.0 / degrees[:, np.newaxis] + 1.0 / noise.shared_degrees)
            # Average over σ² / s² ~ ν / χ²_ν, on a grid of its logarithm.
            low, high = (np.log(nu / chdtri(nu, q)) for q in (outside, 1.0 - outside))
            log = 0.5 * (low + high) + 0.5 * (high - low) * NODES
            density = -0.5 * nu * (log + np.exp(-log))
            density = np.exp(density - density.max(axis=1, keepdims=True))
            tails = self._tails(np.exp(log + ratio), residuals, spread)
            p += weight * np.sum(density * tails, axis=1) / density.sum(axis=1)
        return p

    def _tails(
        self, noise: Array, residuals: tuple[Array, ...], spread: "Spread"
    ) -> Array:
        """P-values for each of k variances of noise, over those of ``tasks`` (m, k)."""
        squares, predicted, ways = residuals
        total = noise[:, :, np.newaxis] + predicted[:, np.newaxis, :]
        # A usual task's estimate would differ from its prediction by `usual`, which
        # is known with `degrees` (Satterthwaite 1946 where features mix).
        parts = ways * (spread.variance / spread.share)
        usual = predicted + parts.sum(axis=2) - ways @ spread.variance
        parts /= np.maximum(parts.sum(axis=2, keepdims=True), np.finfo(float).tiny)
        error = usual**2 * np.sum(parts**2 / spread.degrees, axis=2)
        nu = 1.0 / np.maximum(error[:, np.newaxis, :] / total**2, 1.0 / KNOWN)
        # Squares of Student's t as those of normal variables (Wallace 1959).
        t2 = squares[:, np.newaxis, :] / total
        z2 = ((8.0 * nu + 1.0) / (8.0 * nu + 3.0)) ** 2 * nu * np.log1p(t2 / nu)
        # What all variances have in common is wrong by the same factor for all axes.
        rank = np.maximum(self.tasks.rank, 1)[:, np.newaxis]
        share = np.sum(usual[:, np.newaxis, :] / total, axis=2) / rank
        shared = spread.shared_degrees / np.maximum(share, 1e-3) ** 2
        return np.asarray(fdtrc(rank, shared, z2.sum(axis=2) / rank))

    def _estimate_noise_from_tasks(self, out: Mask) -> None:
        """Take residuals of common coefficients as noise.

        For tasks with too few rows to distinguish variation and noise.
        """
        m, rank = len(out), self.tasks.rank
        self.tasks = replace(self.tasks, noise=Noise.known(1.0, m))
        self.scale = 1e-6 * self._noise_scale()
        squares = self._residuals(out, self._solve(out, 0))[0].sum(axis=1)
        seen = ~out & (rank > 0)
        prior = variance_prior(squares[seen], rank[seen].astype(np.float64))
        weights, usual, d0 = (np.asarray(part) for part in prior)
        every = np.ones(m)
        noise = Noise(
            weights,
            np.outer(usual, every),
            np.outer(d0, every),
            float(weights @ usual),
            KNOWN,
        )
        self.tasks = replace(self.tasks, noise=noise)

    def _noise_scale(self) -> float:
        """τ² as large as variances of estimates from a usual task's rows."""
        tasks = self.tasks
        curvature = np.einsum("mrd,d->m", tasks.root**2, tasks.unit)
        curvature = curvature / tasks.noise.variance
        usual = curvature[curvature > 0] / len(tasks.unit)
        return 1.0 / float(np.median(usual)) if len(usual) else 1.0

    def _solve(self, out: Mask, steps: int) -> Spread:
        """Coefficients and how they vary, rows of ``out`` unused.

        First τ² is the same for all features, in units of their variances. Then
        features whose estimates vary more or less than that get one of their own,
        moderated like the noise of tasks.
        """
        tasks, system = self.tasks, self._system(out)
        self._estimate_scale(system, steps)
        d, rank = len(tasks.unit), self.order.graph.rank
        variance = self.scale * tasks.unit
        found = self._eliminate(system, variance)
        # What estimates of τ² are worth: the information about log τ² is half of
        # known − d known / d log τ², and known² / information are its degrees.
        most = max(1.0, float(np.sum(~out & (tasks.rank > 0)) - 1.0))
        known = np.clip(rank - found.unknown.sum(axis=0), 1e-6, most)
        nudge = 0.1  # of log τ², for a derivative
        nudged = self._eliminate(system, np.exp(nudge) * variance)
        later = rank - nudged.unknown.sum(axis=0)
        information = known - (later - known) / nudge
        information = np.clip(information, known**2 / most, known)
        degrees, share, prior_degrees = known**2 / information, information / known, 0.0
        caution = 0.1  # quantile of d₀ of features
        least = 0.01  # of a feature's τ², over that of all
        if steps:
            ratio = found.energy.sum(axis=0) / known
            if d > 1:
                prior_degrees = usual_variance(degrees * ratio, degrees, caution)[1]
            usual = float(degrees @ ratio / degrees.sum())
            total = prior_degrees + degrees
            ratio = (prior_degrees * usual + degrees * ratio) / total
            # Usual estimates vary by τ² and noise, which stays what it was.
            grown = np.maximum(1.0 + (ratio - 1.0) / share, least)
            ratio = 1.0 + share * (grown - 1.0)
            variance, share = grown * variance, grown * share / ratio
            found = self._eliminate(system, variance)
        part = float(np.mean(prior_degrees / (prior_degrees + degrees)))
        shared = float(degrees.sum()) / max(part, 1e-3) ** 2
        worth = prior_degrees + degrees
        return Spread(found.coef, found.covariance, variance, share, worth, shared)

    def _system(self, out: Mask) -> "System":
        """Normal equations of tasks over their noise; rows of ``out`` are not used."""
        tasks, n_nodes = self.tasks, self.order.graph.n_nodes
        m, d = len(tasks.rank), len(tasks.unit)
        deviation = np.sqrt(tasks.noise.variance)[:, np.newaxis]
        root = tasks.root / deviation[:, :, np.newaxis]
        root[out] = 0.0
        pivots = np.zeros((n_nodes, d, d))
        pivots[:m] = root.swapaxes(1, 2) @ root
        ridge = np.einsum("mdd->d", pivots) / max(1, m)
        pivots += RIDGE * np.diag(np.where(ridge > 0, ridge, 1.0))
        right = np.zeros((n_nodes, d, 1))
        right[:m, :, 0] = np.einsum("mrd,mr->md", root, tasks.target / deviation)
        return System(pivots, right)

    def _eliminate(self, system: "System", variance: Array) -> "Eliminated":
        """Solve the normal equations at these τ² (d,)."""
        m, graph = len(self.tasks.rank), self.order.graph
        weight = np.where(self.own, 1.0, self.stiffness) * graph.weight
        order = replace(self.order, graph=replace(graph, weight=weight))
        # Strong ties are rounded: no data may be as weak as that.
        least = 1e-13 * float(weight.max()) / variance  # rounding of sums over tasks
        factor = order.factorise(system.pivots + np.diag(least), 1.0 / variance)
        coef = factor.solve(system.right)[:, :, 0]
        nodes, edges = factor.selected_inverse()
        kept = np.diagonal(edges[: len(weight)], axis1=1, axis2=2)
        sides = (nodes[graph.first], nodes[graph.second])
        ends = sum(np.diagonal(side, axis1=1, axis2=2) for side in sides)
        over = weight[:, np.newaxis] / variance
        energy = over * (coef[graph.first] - coef[graph.second]) ** 2
        unknown = over * (ends - 2.0 * kept)
        return Eliminated(coef[:m], nodes[:m], energy, unknown)

    def _estimate_scale(self, system: "System", steps: int) -> None:
        """Estimate the common τ², and κ along edges.

        Steps of Fellner and Schall: a variance is its energy over its degrees of
        freedom, those of its edges less what is not known about them.
        """
        own, d, rank = self.own, len(self.tasks.unit), self.order.graph.rank
        start = self._noise_scale()
        away_from_zero = 1.0  # degrees of freedom taken from τ²: a prior density ∝ τ
        settled = 0.02  # change of log τ²
        for _ in range(steps):
            found = self._eliminate(system, self.scale * self.tasks.unit)
            energy, unknown = found.energy, found.unknown
            known = d * (rank - self.walk_rank) - float(unknown[own].sum())
            stretch = STRETCH
            if self.walk_rank:
                known = max(known - away_from_zero, 0.3 * known)
            else:  # exact where tasks have rows alike
                stretch = d * max(1, rank - 1) / max(known, 1e-6)
            grown = (float(energy[own].sum()) / max(known, 1e-6)) ** min(stretch, 10.0)
            scale = self.scale * float(np.clip(grown, 0.1, 10.0))
            scale = float(np.clip(scale, 1e-3 * start, 1e8 * start))
            change = abs(np.log(scale / self.scale))
            if self.walk_rank:
                # All features walk by the same share of their τ².
                steady = max(d * self.walk_rank - float(unknown[~own].sum()), 1e-6)
                walk = float(energy[~own].sum()) / steady
                self.stiffness *= scale / self.scale / max(walk, 1e-6) ** STRETCH
                self.stiffness = float(np.clip(self.stiffness, 1e-4, 1e6))
                change = max(change, abs(np.log(walk)))
            self.scale = scale
            if change < settled:
                break

    def _residuals(self, out: Mask, spread: Spread) -> tuple[Array, Array, Array]:
        """Squared residuals of predictions, and variances of these, over noise (m, r).

        A task that is in has taken part in ``coef``. With M = U C Uᵀ / σ², what the
        others predict leaves (I − M)⁻¹ of its residual, of covariance σ² (I − M)⁻¹.
        """
        tasks = self.tasks
        scale = np.sqrt(tasks.noise.variance)[:, np.newaxis]
        root = tasks.root / scale[:, :, np.newaxis]
        left = tasks.target / scale - np.einsum("mrd,md->mr", root, spread.coef)
        values, vectors = np.linalg.eigh(root @ spread.covariance @ root.swapaxes(1, 2))
        values = np.maximum(values, 0.0)
        part = np.where(out[:, np.newaxis], 1.0, np.maximum(1.0 - values, 1e-8))
        left = np.einsum("mrs,mr->ms", vectors, left)
        ways = np.einsum("mrs,mrd->msd", vectors, root) ** 2
        return (left / part) ** 2, values / part, ways
