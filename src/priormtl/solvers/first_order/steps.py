"""Steps that the first-order methods share."""

from math import isfinite

from priormtl._arrays import Array
from priormtl.problem import Point, Problem

__all__ = ["fits_model", "initial_curvature", "proximal_step", "search_upwards"]

ROUNDING = 1e-12


def proximal_step(problem: Problem, base: Point, curvature: float) -> Point:
    """Minimise the quadratic model of this curvature around ``base``, plus penalty."""
    target: Array = base.coef - base.gradient / curvature
    return problem.at(problem.prox(target, 1.0 / curvature), near=base)


def fits_model(problem: Problem, point: Point, base: Point, curvature: float) -> bool:
    """Whether the model around ``base`` lies above the objective at ``point``.

    The penalty stands on both sides; what is left is compared in closed form.
    """
    move = point.coef - base.coef
    length = float((move * move).sum())
    return problem.excess(point, base) <= 0.5 * curvature * length * (1.0 + ROUNDING)


def search_upwards(
    problem: Problem, base: Point, curvature: float, growth: float
) -> tuple[Point, float]:
    """Grow the curvature until the model holds; one product for each trial."""
    while True:
        point = proximal_step(problem, base, curvature)
        if fits_model(problem, point, base, curvature) or not isfinite(point.value):
            return point, curvature
        curvature *= growth


def initial_curvature(problem: Problem, point: Point) -> float:
    """Curvature along the gradient: at most the largest, and of its scale."""
    gradient = point.gradient
    length = float((gradient * gradient).sum())
    if length == 0:
        return 1.0
    direction = gradient / length**0.5
    along = float((direction * problem.majorant(direction)).sum())
    return along if along > 0 else 1.0
