"""Numerical limits that mean the same everywhere, and two loops that all methods share.

`ConjugateGradients` is the recurrence of Hestenes and Stiefel (1952) with a
preconditioner, `line_search` the halving of steps.
"""

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from priormtl._arrays import Array

EPS = float(np.finfo(np.float64).eps)  # from 1 to the next double
# Relative error of sums: n terms are off by n · EPS / 2 at worst, and by about its root
# in practice (Higham, "Accuracy and Stability of Numerical Algorithms", section 4.2).
ROUNDING = 8.0 * EPS
CONSTANT = 1e-14  # deviation of equal numbers from their mean, over the mean
TINY = 1e-300  # keeps a divisor from zero: its inverse is still finite
LARGEST = 1e100  # squares of larger numbers, summed, leave the range of doubles
# Pivots and eigenvalues, relative to the largest, that count as zero: products of Gram
# matrices leave three digits below.
VANISHING = 1e-12
# Ridges of Newton systems: a few rounding errors of a row's curvature, times 10 + rows,
# and of the strength of its ties.
RIDGE, TIE_RIDGE = 50.0 * EPS, 16.0 * EPS
HIDDEN = 1e-10  # share of the objective that rounding errors of a solution may hide
# Share of the predicted decrease that a step must reach (Armijo's rule with the
# constant of Nocedal and Wright, "Numerical Optimization", section 3.1).
SUFFICIENT = 1e-4
NEWTON_STEPS = 50  # at most, on smooth convex functions; about ten are usual

Operator = Callable[[Array], Array]
T = TypeVar("T")


class ConjugateGradients:
    """Preconditioned conjugate gradients for H x = rhs, step by step.

    Callers multiply by H and decide when to stop.
    """

    def __init__(self, solve: Operator, rhs: Array) -> None:
        self.solve = solve  # the preconditioner M⁻¹
        self.x, self.rest = np.zeros_like(rhs), rhs
        self.direction = solve(rhs)
        self.image = rhs  # M times the direction, which needs no product
        self.size = float(np.vdot(rhs, self.direction))  # restᵀ M⁻¹ rest

    def step(self, product: Array, bend: float) -> None:
        """Go on, given H times the direction and the curvature along it."""
        length = self.size / bend
        self.x += length * self.direction
        self.rest = self.rest - length * product
        z = self.solve(self.rest)
        new = float(np.vdot(self.rest, z))
        share, self.size = new / self.size, new
        self.direction = z + share * self.direction
        self.image = self.rest + share * self.image


def conjugate_gradients(
    solve: Operator,
    multiply: Callable[[Array, Array], Array],
    rhs: Array,
    tol: float,
    most: int = 200,
) -> Array:
    """Solve H x = rhs to a relative error of ``tol``; ``solve`` inverts M.

    ``multiply`` makes H p of p and M p: where M is a part of H, it is never multiplied.
    """
    run = ConjugateGradients(solve, rhs)
    goal = tol * tol * run.size
    for _ in range(most):
        if run.size <= goal:
            break
        product = multiply(run.direction, run.image)
        bend = float(np.vdot(run.direction, product))
        if bend <= 0.0:
            break
        run.step(product, bend)
    return run.x


def line_search(attempt: Callable[[float], T | None], most: int = 30) -> T | None:
    """First result that is not None, of attempts with steps 1, ½, ¼ and so on."""
    size = 1.0
    for _ in range(most):
        result = attempt(size)
        if result is not None:
            return result
        size *= 0.5
    return None
