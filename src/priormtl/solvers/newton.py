"""Newton's method for smooth problems, and proximal Newton for those with a penalty.

Without a penalty (lam = 0) each step solves the Newton system of fit and prior. With
one, and a loss that is not squared, each step minimises a quadratic model of the fit at
the present point plus prior and penalty, inexactly, and searches along the way there
(Lee, Sun and Saunders, "Proximal Newton-type methods for minimizing composite
functions", SIAM Journal on Optimization 24, 2014).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from priormtl._arrays import Array
from priormtl._numerics import EPS, ROUNDING, SUFFICIENT, line_search
from priormtl.penalties import L21
from priormtl.problem import Point, Problem, solve_along
from priormtl.solvers.loop import AtPoint, Method, solve_inexactly

MEMO = "point whose factors precondition the rows that are not zero"


@dataclass(frozen=True)
class Newton:
    """Preconditioned conjugate gradients for the direction, halving for the step.

    Squared loss is solved in one step. The penalty must be absent.
    """

    check_every: ClassVar[int] = 1

    def start(self, problem: Problem, point: Point) -> AtPoint:
        if problem.lam != 0:
            raise ValueError(f"Newton needs lam = 0: got {problem.lam}.")
        return AtPoint(point)

    def step(self, problem: Problem, state: AtPoint) -> AtPoint:
        direction = problem.newton_step(state.point).direction
        return AtPoint(_descend(problem, state.point, direction))


def _descend(problem: Problem, point: Point, direction: Array) -> Point:
    """Halve a step of a smooth problem until the objective falls enough."""
    slope = float(np.vdot(point.gradient, direction))
    if abs(slope) <= 0.5 * EPS * abs(point.value):
        return point

    def attempt(size: float) -> Point | None:
        trial = problem.at(point.coef + size * direction, near=point)
        # f(trial) − f(point), from the tangent: it keeps its digits.
        change = size * slope + problem.excess(trial, point)
        return trial if change <= SUFFICIENT * size * slope else None

    return line_search(attempt) or point


def approach(problem: Problem, coef: Array) -> Point:
    """Newton's method without certificates, for what is there to be scored.

    Systems are solved roughly, with the factors of an earlier step as long as steps
    promise a tenth of the one before. The last step promises less than 1e-5 of the
    objective without effects, and leaves a few hundredths of that.
    """
    rows, free = problem.constraints, np.ones(problem.shape, bool)
    coef = problem.balance(coef if rows is None else rows.project(coef))
    point = near = problem.at(coef)
    last, limit = np.inf, 1e-5 * problem.null_objective
    for _ in range(30):
        direction = solve_along(problem, point, free, near=near, tol=0.1)
        promise = -0.5 * float(np.vdot(point.gradient, direction))
        before, point = point, _descend(problem, point, direction)
        if promise <= limit or point is before:
            break
        if promise > 0.1 * last:
            near = point
        last = promise
    return point


@dataclass(frozen=True)
class ProximalNewton:
    """Iteratively reweighted least squares with the penalty left as it is.

    Each step binds squared loss to the same samples with other weights and targets,
    solves that with ``inner``'s choice, and searches along the way there.
    """

    inner: Callable[[Problem], Method]

    check_every: ClassVar[int] = 1

    def start(self, problem: Problem, point: Point) -> AtPoint:
        return AtPoint(point)

    def step(self, problem: Problem, state: AtPoint) -> AtPoint:
        """Minimise the model, then take as much of the way as lowers the objective."""
        point = state.point
        is_first = not point.coef.any()
        bind = problem.fit.far_model if is_first else problem.fit.quadratic_model
        model = replace(problem, fit=bind(point.fit))
        solution = solve_inexactly(model, self.inner(model), point.coef)
        point = _search(problem, point, problem.balance(solution.coef))
        if problem.fit.has_exact_models or not isinstance(problem.penalty, L21):
            return AtPoint(point)
        return AtPoint(_refine(problem, problem.penalty, point))


def _refine(problem: Problem, penalty: L21, point: Point) -> Point:
    """Newton step along the rows that are not zero, where their norms are smooth.

    A norm is majorised by a ridge, ‖p‖ ≤ ‖p‖²/(2 ‖p₀‖) + ‖p₀‖/2, which has the same
    gradient at p₀, and the same curvature but along p₀. This catches up where quadratic
    models are majorants, too.
    """
    norms = np.sqrt(np.einsum("ij,ij->i", point.coef, point.coef))
    rows = np.flatnonzero(norms)
    if not len(rows):
        return point
    small = problem.restrict(rows)
    bend = problem.lam * penalty.row_weights(len(norms))[rows] / norms[rows]
    given = small.prior.ridge
    prior = replace(small.prior, ridge=bend if given is None else bend + given)
    smooth = replace(small, prior=prior, lam=0.0, memo={})
    if small is problem:
        gradient = prior.gradient(point.coef)
        start = replace(point, prior=prior, prior_gradient=gradient)
    else:
        start = smooth.at(point.coef[rows], near=point)
    # Coefficients at a bound that the gradient pushes against it stay there.
    held = (start.coef == 0) & (smooth.free_gradient(start) == 0)
    # Factors of a point with the same rows serve as long as the objective hardly falls.
    known, near = problem.memo.get(MEMO), start
    if known is not None and np.array_equal(known[0], rows):
        near = known[1] if known[1].value - start.value < 0.1 * start.value else start
    problem.memo[MEMO] = rows, near
    coef = np.array(point.coef)
    unit = start.coef / norms[rows, np.newaxis]

    def along(V: Array) -> Array:
        """Along a row its norm has no curvature: that of the ridge there."""
        return (bend * np.einsum("ij,ij->i", unit, V))[:, np.newaxis] * unit

    coef[rows] += solve_along(smooth, start, ~held, near=near, less=along)
    if not np.all(np.isfinite(coef)):
        return point  # features so far from zero that their curvature has no digits
    if problem.constraints is not None:
        coef = problem.constraints.project(coef)
    return _search(problem, point, coef)


def _search(problem: Problem, point: Point, coef: np.ndarray) -> Point:
    """Halve the step until the objective falls enough."""
    end = problem.at(coef, near=point)
    before = problem.objective(point)
    move = coef - point.coef
    # Armijo's rule for a sum with a penalty: the decrease that is asked for is a share
    # of ⟨∇f, move⟩ + lam (penalty after − before), which is negative unless P is at its
    # optimum (Tseng and Yun, "A coordinate gradient descent method", 2009).
    penalties = problem.lam * (
        problem.penalty.value(coef) - problem.penalty.value(point.coef)
    )
    # A model that promises a rise is at its optimum, or has no digits left.
    predicted = min(0.0, float(np.vdot(point.gradient, move)) + penalties)
    # Near the optimum objectives have no digits left, but the model's step has.
    most = before + 8.0 * ROUNDING * abs(before)

    def attempt(size: float) -> Point | None:
        trial = end if size == 1.0 else problem.extrapolate(end, point, size - 1.0)
        falls = problem.objective(trial) <= most + SUFFICIENT * size * predicted
        return trial if falls else None

    return line_search(attempt) or point
