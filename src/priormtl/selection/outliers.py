"""Outlier tasks: which tasks differ from the others beyond chance, and by how much.

A task is tested by what common coefficients leave of it. In the axes of its
curvature, of values λ, its gradient has squares of about
σ²λ + τ²λ² where rows have noise σ and the task's coefficients differ by τ.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl.losses import OutlierFit, SquaredFit
from priormtl.model import Posed, Solver
from priormtl.problem import Point, Problem
from priormtl.solvers import Solution

LOST_AXES = 6.0  # variation may live in a sixth of the axes, noise is in all
FEWEST_FREE = 10.0  # rows beyond coefficients from which noise can be told
WIDEST = 30.0  # of log τ²λ/σ², to both sides
FLAT = 1e-9  # relative, below which an axis has no curvature

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class TaskResiduals:
    """Squared pulls of tasks in the axes of their curvature."""

    values: Array  # λ (m, r), 1 where an axis is flat
    squares: Array  # (m, r), 0 there
    axes: Index  # (m,) that are not flat; none: the task cannot be judged
    noise: float | None  # σ²; None where rows are too few to tell

    @classmethod
    def at(
        cls, fit: SquaredFit, coef: Array, share: Array, noise: float | None
    ) -> Self:
        """Look at common coefficients.

        ``share`` is the variance of each task's pull, relative: below 1 where the task
        had a say in them, infinite where nothing can be said. ``noise`` is σ², if the
        loss knows it.
        """
        modes, m = fit.modes, fit.shape[1]
        values = np.broadcast_to(modes.values, (m, modes.values.shape[1]))
        seen = values > FLAT * values.max(axis=1, initial=0.0, keepdims=True)
        seen &= np.isfinite(share)[:, np.newaxis]
        values = np.where(seen, values, 1.0)
        squares = np.where(seen, modes.turn(fit.evaluate(coef).gradient) ** 2, 0.0)
        axes = seen.sum(axis=1)
        if noise is None:
            rest = _misfits(fit, coef) - np.sum(squares / values, axis=1)
            noise = _noise_variance(rest, fit.moments.weight - axes - 1.0, axes > 0)
        usual = np.where(np.isfinite(share), share, 1.0)
        return cls(values, squares / usual[:, np.newaxis], axes, noise)

    def scores(self, judging: Mask) -> Array:
        """About standard normal where tasks differ as those do that judge (m,).

        −∞ for tasks that cannot be judged.
        """
        if not np.any(judging & (self.axes > 0)):
            return np.full(len(self.axes), -np.inf)
        noise, spread = self.noise_variance(judging), self._spread(judging)
        width = 1.0 + (LOST_AXES - 1.0) * self._share_varied(noise, spread)
        return self._normal(noise, spread) / np.sqrt(width)

    def noise_variance(self, judging: Mask) -> float:
        """σ², or where rows are too few for it, what explains the median task."""
        if self.noise is not None:
            return self.noise
        judges = judging & (self.axes > 0)
        axes = self.axes[judges]
        if not len(axes):
            return 1.0
        usual = axes * (1.0 - 2.0 / (9.0 * axes)) ** 3  # median of χ²
        found = float(np.median(self._sums(1.0, 0.0)[judges] / usual))
        return found if found > 0 else 1.0

    def _share_varied(self, noise: float, spread: float) -> Array:
        """Share of squares that are variation; all where noise cannot be told."""
        if self.noise is None:
            return np.ones(len(self.axes))
        varied = spread * self.values / (noise + spread * self.values)
        inside = np.where(self.squares > 0, varied, 0.0).sum(axis=1)
        return np.asarray(inside / np.maximum(self.axes, 1))

    def _spread(self, judging: Mask) -> float:
        """τ² at which the median task is where it should be."""
        if self.noise is None:
            return 0.0
        noise, judges = self.noise, judging & (self.axes > 0)

        def middle(log: float) -> float:
            return float(np.median(self._normal(noise, float(np.exp(log)))[judges]))

        usual = float(np.log(noise / np.median(self.values[judges])))
        low, high = usual - WIDEST, usual + WIDEST
        if middle(low) <= 0:
            return 0.0
        return float(np.exp(high if middle(high) > 0 else brentq(middle, low, high)))

    def _normal(self, noise: float, spread: float) -> Array:
        """Sums of squares as normal numbers, by cube roots (Wilson and Hilferty)."""
        axes = np.maximum(self.axes, 1)
        width = 2.0 / (9.0 * axes)
        roots = np.cbrt(self._sums(noise, spread) / axes)
        return np.where(self.axes > 0, (roots - (1 - width)) / np.sqrt(width), -np.inf)

    def _sums(self, noise: float, spread: float) -> Array:
        usual = noise * self.values + spread * self.values**2
        return np.asarray(np.sum(self.squares / usual, axis=1))


def _noise_variance(rest: Array, free: Array, seen: Mask) -> float | None:
    """σ² of what no coefficients explain; None where rows are too few."""
    usable = (free > 0) & seen
    if free[usable].sum() < FEWEST_FREE:
        return None
    variance = float(rest[usable].sum() / free[usable].sum())
    return variance if variance > 0 else None


def _misfits(fit: SquaredFit, coef: Array) -> Array:
    """Sums of squared residuals (m,)."""
    data = fit.moments
    curved = np.sum(coef * (data.gram_product(coef) - 2.0 * data.xy.T), axis=0)
    mean = data.y_mean - np.sum(data.x_mean.T * coef, axis=0) - fit.intercept(coef)
    return np.asarray(data.yy + curved + data.weight * mean**2)


# Which tasks do not belong: each is held against what the others have in common.

FALSE_NAMES = 0.01  # chance of naming any task where all are alike, about
TO_DEVIATION = 1.4826  # median absolute to standard deviation of normal numbers
COMMON = 1e3  # ties, in units of curvature, under which tasks have all in common
FREE = 1e-4  # strength of own parts that leave nothing of a task to the others
MOST_HALVES, MOST_ROUNDS = 3, 8
LITTLE = 0.01  # of lam
ENOUGH_ROWS = 4.0  # of all tasks, for each feature
FEWEST = 3  # tied tasks, of which two can outvote one
TINY = 1e-9  # share of curvature that counts as none


class OutlierTest(NamedTuple):
    """Who does not belong, and how large noise is."""

    outliers: Mask  # (m,)
    noise: float  # standard deviation σ


def find_outliers(problem: Problem, solver: Solver) -> OutlierTest | None:
    """Tasks further from what the others have in common than chance explains.

    The strength of ties does not matter, as it may be too weak to show who does not
    belong. None where no tasks are tied.
    """
    if problem.prior.laplacian.is_zero:
        return None
    nobody = np.zeros(problem.shape[1], bool)
    largest = np.bincount(problem.prior.laplacian.components).max()
    if largest < FEWEST or not problem.null_point.fit.gradient.any():
        return OutlierTest(nobody, 0.0)
    common = Common.of(problem, solver)
    return _settle(common, _trim(common, nobody))


def _trim(common: "Common", nobody: Mask) -> Mask:
    """Tasks that differ most from the other half."""
    out = nobody
    for _ in range(MOST_HALVES):
        last, out = out, _minority(common.without(out).scores(~nobody), common.label)
        if np.array_equal(last, out):
            break
    return out


def _settle(common: "Common", out: Mask) -> OutlierTest:
    """Hold tasks against all but those that were named, until these are the same."""
    judging, seen = np.ones_like(out), set[bytes]()
    for _ in range(MOST_ROUNDS):
        left = common.without(out)
        scores = left.scores(judging)
        far = scores > _limit(scores, judging)
        named = far & _minority(scores, common.label)
        if np.array_equal(named, out) or named.tobytes() in seen:
            break
        seen.add(named.tobytes())
        out, judging = named, ~named
    return OutlierTest(named, float(np.sqrt(left.noise_variance(judging))))


def _minority(scores: Array, label: Index) -> Mask:
    """Mark the largest scores among tasks of each label, fewer than half of them."""
    order = np.lexsort((-scores, label))
    size = np.bincount(label)
    place = np.arange(len(label)) - (np.cumsum(size) - size)[label[order]]
    marked = np.zeros(len(label), bool)
    marked[order] = place < (size[label[order]] - 1) // 2
    return marked


def _limit(scores: Array, judging: Mask) -> float:
    """Score that hardly any task exceeds, by those of the tasks that judge."""
    known = scores[judging & np.isfinite(scores)]
    if not len(known):
        return np.inf
    middle = float(np.median(known))
    spread = TO_DEVIATION * float(np.median(np.abs(known - middle)))
    tail = float(norm.isf(FALSE_NAMES / len(scores)))
    return max(middle, 0.0) + tail * max(spread, 1.0)


@dataclass(frozen=True, eq=False)
class Common:
    """A problem whose tasks have their coefficients in common."""

    problem: Problem  # with squared loss, or a model of another
    solver: Solver
    coef: Array  # (d, m) common coefficients of all tasks
    noise: float | None  # σ², where the loss knows it

    @classmethod
    def of(cls, problem: Problem, solver: Solver) -> Self:
        """Tie the tasks of a problem, and model its loss where they then are."""
        tied = _tie_all(problem)
        coef = solver.solve(tied).coef
        if tied.fit.is_quadratic:
            return cls(tied, solver, coef, None)
        model = tied.fit.quadratic_model(tied.fit.evaluate(coef))
        return cls(replace(tied, fit=model, memo={}), solver, coef, 1.0)

    @property
    def fit(self) -> SquaredFit:
        return self.problem.fit  # type: ignore[return-value]

    @property
    def label(self) -> Index:
        """Which tasks are tied at all, in however many steps (m,)."""
        return self.problem.prior.laplacian.components

    def without(self, out: Mask) -> TaskResiduals:
        """What is left of all tasks where some have no say."""
        coef = self.coef
        if out.any():
            fit = OutlierFit(self.fit, np.where(out, self._free, np.inf))
            problem = replace(self.problem, fit=fit, memo={})
            coef = self.solver.solve(problem, coef).coef
        shares = self.shares(out)
        usual = np.where(shares > 0, shares, np.inf)
        return TaskResiduals.at(self.fit, coef, usual, self.noise)

    @cached_property
    def _free(self) -> Array:
        """Strengths at which own parts take all of a task (m,)."""
        pulls = np.linalg.norm(self.fit.evaluate(0.0 * self.coef).gradient, axis=0)
        usual = float(np.linalg.norm(pulls) / np.sqrt(self.fit.task_curvature.sum()))
        return FREE * usual * np.sqrt(self.fit.task_curvature)

    def shares(self, out: Mask) -> Array:
        """Variance of pulls against what tied tasks have in common (m,), relative.

        Below 1 for a task that has a say in it, above for others, and 0 where no other
        task has.
        """
        label, curvature = self.label, self.fit.task_curvature
        heard = np.where(out, 0.0, curvature)
        total = np.bincount(label, heard)[label]
        others = total - heard > TINY * curvature
        part = np.divide(curvature, total, out=np.zeros_like(total), where=others)
        return np.where(others, np.where(out, 1.0 + part, 1.0 - part), 0.0)


def _tie_all(problem: Problem) -> Problem:
    """Same problem under ties that leave tasks nothing but what they share.

    Shrinkage would leave something of every task, in which an outlier can hide: there
    is hardly any where rows are enough to do without. (None at all is slower.)
    """
    fit = problem.fit
    curvature = fit.task_curvature  # type: ignore[attr-defined]
    degree = problem.prior.laplacian.degree
    unit = float(np.mean(curvature) / problem.shape[0] / np.mean(degree))
    enough = isinstance(fit, SquaredFit) and (
        fit.moments.weight.sum() >= ENOUGH_ROWS * problem.shape[0]
    )
    lam = LITTLE * problem.lam if enough else problem.lam
    return problem.with_strengths(lam=lam, epsilon=COMMON * unit)


# Outlier tasks: how much a part of their own costs, and which tasks need one.

# Of roots of pulls, relative: few tasks can look too much alike by chance.
LEAST_SPREAD = 0.125
LEFT_TO_TIES = 0.1  # of the pull that they bear, where own parts are cheaper than noise
DIGITS = 3  # of suggested strengths


def suggest_own(
    problem: Problem, plain: Solution, found: OutlierTest | None
) -> "OwnChoice":
    """What the parts of tasks that do not belong should cost.

    As much as noise pays, or where ties cannot bear that, a tenth of what they bear in
    the ``plain`` solution, so that little of these tasks is left in what is shared.
    Where nobody is known to belong or not, pulls say who has a part.
    """
    pulls = column_pulls(problem, plain.point)
    if found is None:
        return OwnChoice(suggest_strength(pulls), np.ones(len(pulls), bool))
    borne = LEFT_TO_TIES * float(np.min(pulls[found.outliers], initial=np.inf))
    if not 0 < borne < np.inf:
        return OwnChoice(np.inf, found.outliers)
    return OwnChoice(float(f"{min(found.noise, borne):.{DIGITS}g}"), found.outliers)


class OwnChoice(NamedTuple):
    """Which tasks may have a part of their own, and at which strength."""

    strength: float
    tasks: NDArray[np.bool_]  # (m,)

    def spread(self) -> Array:
        """Strength of each task (m,)."""
        return np.where(self.tasks, self.strength, np.inf)


def pose_outliers(problem: Problem, strength: float | Array) -> Problem:
    """Same problem for shared parts, with own parts of tasks at ``strength``.

    The length of task i's part counts strength · √(trace of its curvature): noise of
    one standard deviation pulls as hard as that, however many rows a task has.
    """
    if np.all(np.isinf(strength)):
        return problem
    unit = _noise_pulls(problem)
    own = np.where(np.isinf(strength), np.inf, strength * unit)
    fit = OutlierFit(problem.fit, own)
    return replace(problem, fit=fit, memo={})


def column_pulls(problem: Problem, point: Point) -> Array:
    """How hard each task pulls at what it shares, in units of noise (m,).

    The largest is the smallest strength at which no task has a part of its own.
    """
    lengths = np.linalg.norm(point.fit.gradient, axis=0)
    unit = _noise_pulls(problem)
    return np.divide(lengths, unit, out=np.zeros_like(lengths), where=unit > 0)


def suggest_strength(pulls: Array) -> float:
    """Pull that hardly any task exceeds where all are alike: median plus spreads.

    Both are those of square roots, since pulls above the median lie further from it
    than those below. Infinite where no task exceeds it.
    """
    known = pulls[pulls > 0]
    if not len(known):
        return np.inf
    roots = np.sqrt(known)
    middle = float(np.median(roots))
    spread = TO_DEVIATION * float(np.median(np.abs(roots - middle)))
    tail = float(norm.isf(FALSE_NAMES / len(known)))
    limit = (middle + tail * max(spread, LEAST_SPREAD * middle)) ** 2
    return limit if known.max() > limit else np.inf


def fit_outliers(
    posed: Posed, plain: Solution, solver: Solver, strength: float | Array | None
) -> tuple[Posed, Solution]:
    """Fit again with task-specific components, from a fit in which no task has one.

    ``strength`` is one number, one for each task, or None: then tasks are tested
    against what the others have in common, and only those that fail get a component.
    """
    constraints = posed.problem.constraints
    if constraints is not None and constraints.signs.any():
        raise ValueError(
            "outlier_tasks must be False where feature_prior states signs: components "
            "of single tasks would not keep them."
        )
    if strength is None:
        found = find_outliers(posed.problem, solver)
        strength = suggest_own(posed.problem, plain, found).spread()
    problem = pose_outliers(posed.problem, strength)
    solution = solve_outliers(problem, plain, solver)
    gamma = float(np.min(strength))
    return posed._replace(problem=problem, outlier_strength=gamma), solution


def fit_outlier_path(
    posed: Posed, lams: Array, solver: Solver, strength: float | Array | None
) -> list[Solution]:
    """Solutions with task-specific components for each lam, in this order."""
    found = []
    for lam, plain in zip(lams, solver.path(posed.problem, lams), strict=True):
        here = posed._replace(problem=posed.problem.with_strengths(lam=float(lam)))
        found.append(fit_outliers(here, plain, solver, strength)[1])
    return found


def solve_outliers(problem: Problem, plain: Solution, solver: Solver) -> Solution:
    """Solve a problem with own parts from where the one without has ended."""
    if not isinstance(problem.fit, OutlierFit):
        return plain
    # Far from there most tasks look like outliers, and steps are many.
    found = solver.solve(problem, plain.coef)
    steps, seconds = plain.n_iter + found.n_iter, plain.seconds + found.seconds
    return replace(found, n_iter=steps, seconds=seconds)


def _noise_pulls(problem: Problem) -> Array:
    """Root of the trace of each task's curvature (m,)."""
    curvature = problem.fit.task_curvature  # type: ignore[attr-defined]
    return np.asarray(np.sqrt(curvature))
