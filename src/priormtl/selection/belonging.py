"""Which tasks do not belong: each is held against what the others have in common.

Tasks that are tied are fitted with common coefficients, and are named where these leave
more of them than noise and the usual variation between tasks explain. So that outliers
neither move what is common nor pass for variation, it is first that of the half that
agree most, then that of all but the tasks that were named.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl.losses import OutlierFit, SquaredFit
from priormtl.problem import Problem
from priormtl.selection.leftovers import Leftover
from priormtl.selection.search import Solver
from priormtl.solvers import solve

__all__ = ["Belonging", "find_outliers"]

FALSE_NAMES = 0.01  # chance of naming any task where all are alike, about
TO_DEVIATION = 1.4826  # median absolute to standard deviation of normal numbers
COMMON = 1e3  # ties, in units of curvature, under which tasks have all in common
FREE = 1e-4  # strength of own parts that leave nothing of a task to the others
MOST_HALVES, MOST_ROUNDS = 3, 8
LITTLE = 0.01  # of lam
ENOUGH_ROWS = 4.0  # of all tasks, for each feature
FEWEST = 3  # tied tasks, of which two can outvote one
TINY = 1e-9  # share of curvature that counts as none

Mask = NDArray[np.bool_]


class Belonging(NamedTuple):
    """Who does not belong, and how large noise is."""

    outliers: Mask  # (m,)
    noise: float  # standard deviation σ


def find_outliers(problem: Problem, solver: Solver) -> Belonging | None:
    """Tasks further from what the others have in common than chance explains.

    The strength of ties does not matter, as it may be too weak to show who does not
    belong. None where no tasks are tied.
    """
    if problem.prior.laplacian.is_zero:
        return None
    nobody = np.zeros(problem.shape[1], bool)
    largest = np.bincount(problem.prior.laplacian.components).max()
    if largest < FEWEST or not problem.null_point.fit.gradient.any():
        return Belonging(nobody, 0.0)
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


def _settle(common: "Common", out: Mask) -> Belonging:
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
    return Belonging(named, float(np.sqrt(left.noise_variance(judging))))


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
        coef = _solve(tied, solver, None)
        if tied.fit.is_quadratic:
            return cls(tied, solver, coef, None)
        model = tied.fit.quadratic_model(tied.fit.evaluate(coef))
        return cls(replace(tied, fit=model, memo={}), solver, coef, 1.0)

    @property
    def fit(self) -> SquaredFit:
        """Squared loss."""
        return self.problem.fit  # type: ignore[return-value]

    @property
    def label(self) -> Index:
        """Which tasks are tied at all, in however many steps (m,)."""
        return self.problem.prior.laplacian.components

    def without(self, out: Mask) -> Leftover:
        """What is left of all tasks where some have no say."""
        coef = self.coef
        if out.any():
            fit = OutlierFit(self.fit, np.where(out, self._free, np.inf))
            problem = replace(self.problem, fit=fit, memo={})
            coef = _solve(problem, self.solver, coef)
        shares = self.shares(out)
        usual = np.where(shares > 0, shares, np.inf)
        return Leftover.at(self.fit, coef, usual, self.noise)

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


def _solve(problem: Problem, solver: Solver, start: Array | None) -> Array:
    method = solver.choose(problem)
    return solve(problem, method, coef=start, stop=solver.rules(method)).coef
