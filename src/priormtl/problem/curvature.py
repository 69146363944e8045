"""Smoothness and strong convexity of the smooth part: exact, bounds, and the paper's.

The Hessian over all tasks jointly is H = blockdiag(XᵢᵀXᵢ) + θ DᵀD + ε L. Step sizes
need its largest eigenvalue, linear rates its smallest. The paper's formulas count 2ε
for the chain, whose largest eigenvalue is near 4, and ε for its smallest, which is 0.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from priormtl._arrays import Array
from priormtl._numerics import VANISHING
from priormtl.problem.objective import Problem

DENSE_SIZE = 800  # unknowns up to which the Hessian is written out


class Curvature(NamedTuple):
    """Bounds of the Hessian's eigenvalues."""

    strong_convexity: float
    smoothness: float


Constants = Callable[[Problem], Curvature]


def exact_constants(problem: Problem) -> Curvature:
    """True smallest and largest eigenvalue of the joint Hessian.

    Logistic loss has no constant Hessian: its quarter bound serves as the largest,
    the prior alone as the smallest. Small problems are solved directly, large ones
    by Lanczos; there the smallest is found from above, to 1e-6 of the largest.
    """
    if problem.shape[0] * problem.shape[1] <= DENSE_SIZE:
        return _dense_constants(problem)
    largest = largest_curvature(problem)
    multiply = problem.majorant if problem.fit.is_quadratic else problem.prior.curve
    # Zero is recognised on columns that are all equal.
    if _consensus_curvature(multiply, problem.shape) <= VANISHING * largest:
        return Curvature(0.0, largest)
    # The top of largest · I − H converges far better than the bottom of H.
    gap = _lanczos(lambda V: largest * V - multiply(V), problem.shape, "LA", 1e-6)
    smallest = 0.0 if gap is None else largest - gap
    return Curvature(smallest if smallest > 1e-6 * largest else 0.0, largest)


def largest_curvature(problem: Problem) -> float:
    """Largest eigenvalue of the joint Hessian, from above."""
    if problem.shape[0] * problem.shape[1] <= DENSE_SIZE:
        return _dense_constants(problem).smoothness
    value = _lanczos(problem.majorant, problem.shape, "LA", 1e-8)
    if value is None:
        return bound_constants(problem).smoothness
    # Lanczos approaches the largest eigenvalue from below.
    return value * (1.0 + 1e-6)


def bound_constants(problem: Problem) -> Curvature:
    """Closed-form bounds that hold always: sums of the parts' extreme eigenvalues."""
    lowest, highest = problem.fit.task_spectra()
    d_min, d_max = problem.prior.relation_spectrum()
    prior = problem.prior
    ties = prior.epsilon * prior.largest_tie()
    ridge = np.zeros(1) if prior.ridge is None else prior.ridge
    return Curvature(
        float(lowest.min() + prior.theta * d_min + ridge.min()),
        float(highest.max() + prior.theta * d_max + ties + ridge.max()),
    )


def paper_constants(problem: Problem) -> Curvature:
    """The paper's formulas, wrong in general; for comparison only.

    Its step 1/L can exceed the longest that accelerated methods bear, so that
    ``Fista`` with a fixed step and ``Linear`` diverge where ε is large.
    """
    lowest, highest = problem.fit.task_spectra()
    d_min, d_max = problem.prior.relation_spectrum()
    prior = problem.prior
    return Curvature(
        float(lowest.min()) + prior.theta * d_min + prior.epsilon,
        float(highest.max()) + prior.theta * d_max + 2.0 * prior.epsilon,
    )


def _dense_constants(problem: Problem) -> Curvature:
    values = np.linalg.eigvalsh(_dense(problem.majorant, problem.shape))
    largest = max(0.0, float(values[-1]))
    if not problem.fit.is_quadratic:
        values = np.linalg.eigvalsh(_dense(problem.prior.curve, problem.shape))
    smallest = float(values[0])
    return Curvature(smallest if smallest > VANISHING * largest else 0.0, largest)


def _dense(multiply: Callable[[Array], Array], shape: tuple[int, int]) -> Array:
    """Write a product out as a symmetric matrix."""
    eye = np.eye(shape[0] * shape[1])
    columns = [multiply(column.reshape(shape)).ravel() for column in eye]
    matrix = np.array(columns)
    return 0.5 * (matrix + matrix.T)


def _consensus_curvature(
    multiply: Callable[[Array], Array], shape: tuple[int, int]
) -> float:
    """Smallest eigenvalue among P with equal columns, which bounds that of all P."""
    d, m = shape

    def mean_product(v: Array) -> Array:
        columns = np.repeat(v.reshape(d, 1), m, axis=1)
        return multiply(columns).mean(axis=1).reshape(d, 1)

    if d <= DENSE_SIZE:
        return float(np.linalg.eigvalsh(_dense(mean_product, (d, 1)))[0])
    return _lanczos(mean_product, (d, 1), "SA", 1e-6) or 0.0


def _lanczos(
    multiply: Callable[[Array], Array], shape: tuple[int, int], which: str, tol: float
) -> float | None:
    """Extreme eigenvalue of a symmetric product; None if it is not found in time."""
    size = shape[0] * shape[1]
    operator = LinearOperator(
        (size, size),
        matvec=lambda v: multiply(v.reshape(shape)).ravel(),
        dtype=np.float64,
    )
    start = np.cos(np.arange(size) * 2.5) + 1.5  # fixed: same input, same bits
    try:
        values = eigsh(
            operator,
            k=1,
            which=which,
            v0=start,
            tol=tol,
            maxiter=2000,
            return_eigenvectors=False,
        )
    except ArpackError:  # not found in time, or all is zero
        return None
    return float(values[0])
