"""Ridge regression with tasks coupled by a kernel, and alternation with that kernel.

The published algorithms of MTRL and CLMT alternate: they solve

    min_W fit(W) + ½ tr(W A⁻¹ Wᵀ),   W of shape (d, m),

for a fixed kernel A between tasks, then update A for these coefficients. The first step
has three forms: one unknown per coefficient (``PrimalRidge``), one per sample
(``KernelRidge``), or a diagonal system where all tasks have the same rows
(``SharedRidge``). None inverts A, which may be singular.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from priormtl._arrays import Array, Index
from priormtl.losses import DataFit
from priormtl.problem import Point, Problem
from priormtl.solvers import Progress, StopReason, StopRule

SOLVERS = ("fista", "alternating")
MOST_UNKNOWNS = 6000  # of a linear system that is written out
MOST_ALTERNATIONS = 200
MOST_IDLE_STEPS = 30  # of a method that should close the gap in a few


@dataclass(frozen=True, eq=False)
class PrimalRidge:
    """One unknown per coefficient: W = V √A turns the coupling into a plain ridge."""

    gram: Array  # (m, d, d)
    linear: Array  # (d, m)

    @classmethod
    def of_fit(cls, fit: DataFit[Any]) -> Self:
        form, (d, m) = fit.normal_form(), fit.shape
        return cls(np.broadcast_to(form.gram, (m, d, d)), form.linear)

    def solve(self, A: Array) -> Array:
        """(√A ⊗ I) G (√A ⊗ I) + I, of order d m."""
        root = map_eigenvalues(A, np.sqrt)
        d, m = self.linear.shape
        pairs = (root[:, np.newaxis, :] * root).reshape(m * m, m)
        blocks = (pairs @ self.gram.reshape(m, d * d)).reshape(m, m, d, d)
        system = blocks.transpose(0, 2, 1, 3).reshape(m * d, m * d)
        right = root @ self.linear.T
        V = _solve_shifted(system, right.ravel()).reshape(m, d)
        return np.ascontiguousarray((root @ V).T)


@dataclass(frozen=True, eq=False)
class KernelRidge:
    """One unknown per sample: K[(i, a), (k, b)] = A_ik x_iaᵀ x_kb."""

    rows: Array  # (d, n) times the root of their weight
    target: Array  # (n,) the same
    starts: Index  # (m + 1,)

    @classmethod
    def of_fit(cls, fit: DataFit[Any]) -> Self:
        form = fit.sample_form()
        return cls(form.rows, form.target, form.starts)

    def solve(self, A: Array) -> Array:
        """(K + I) α = y, w_i = Σ_k A_ik Σ_b α_kb x_kb."""
        task = np.repeat(np.arange(len(A)), np.diff(self.starts))
        inner = np.asarray(self.rows.T @ self.rows)
        system = inner * A[np.ix_(task, task)]
        alpha = _solve_shifted(system, self.target)
        sums = np.add.reduceat(self.rows * alpha, self.starts[:-1], axis=1)
        return np.asarray(sums @ A)


@dataclass(frozen=True, eq=False)
class SharedRidge:
    """Tasks with the same rows: both eigenbases make the system diagonal."""

    values: Array  # (d,) of the common XᵀX
    vectors: Array  # (d, d)
    linear: Array  # (d, m)

    @classmethod
    def of_fit(cls, fit: DataFit[Any]) -> Self:
        form = fit.normal_form()
        values, vectors = np.linalg.eigh(form.gram[0])
        return cls(np.maximum(values, 0.0), vectors, form.linear)

    def solve(self, A: Array) -> Array:
        """V [(Vᵀ Xᵀ Y U) ∘ a_k / (e_j a_k + 1)] Uᵀ."""
        a, U = np.linalg.eigh(A)
        a = np.maximum(a, 0.0)
        share = a / (self.values[:, np.newaxis] * a + 1.0)
        inside = self.vectors.T @ self.linear @ U
        return np.asarray(self.vectors @ (inside * share) @ U.T)


# Squared loss of all tasks; solve(A) minimises fit(W) + ½ tr(W A⁻¹ Wᵀ), with rows of W
# in the range of A.
CoupledRidge = PrimalRidge | KernelRidge | SharedRidge


def coupled_ridge(problem: Problem) -> CoupledRidge | None:
    """The form with the fewest unknowns, computed once for all strengths.

    None if every form has too many, or the loss is not quadratic.
    """
    if "ridge" not in problem.memo:
        problem.memo["ridge"] = _smallest_form(problem.fit)
    return problem.memo["ridge"]


def _smallest_form(fit: DataFit[Any]) -> CoupledRidge | None:
    d, m = fit.shape
    if not fit.is_quadratic:
        return None
    if fit.normal_size == d * d:
        return SharedRidge.of_fit(fit)
    n = float("inf") if fit.rows_per_task is None else fit.rows_per_task * m
    if min(n, d * m) > MOST_UNKNOWNS:
        return None
    return KernelRidge.of_fit(fit) if n < d * m else PrimalRidge.of_fit(fit)


@dataclass(frozen=True, eq=False)
class AlternationState:
    """State of the alternation."""

    point: Point
    kernel: Array  # A of the next step


@dataclass(frozen=True, eq=False)
class Alternation:
    """Coefficients for a kernel, then the kernel for these coefficients.

    It need not reach the optimum: once A vanishes in a direction, it stays zero there.
    """

    ridge: CoupledRidge
    first: Array  # A to begin with
    update: Callable[[Array], Array]  # A for coefficients (d, m)

    check_every: ClassVar[int] = 1

    def start(self, problem: Problem, point: Point) -> AlternationState:
        return AlternationState(point, self.first)

    def step(self, problem: Problem, state: AlternationState) -> AlternationState:
        W = self.ridge.solve(state.kernel)
        return AlternationState(problem.at(W), self.update(W))


def check_alternation(problem: Problem) -> CoupledRidge:
    """Linear systems of the alternation; ValueError where they are not available."""
    ridge = coupled_ridge(problem)
    if ridge is None:
        d, m = problem.shape
        raise ValueError(
            'solver="alternating" needs squared loss and at most '
            f"{MOST_UNKNOWNS} rows or coefficients, got {d} x {m} coefficients. "
            'Use solver="fista".'
        )
    return ridge


def settled(tol: float) -> StopRule:
    """Stop when a step changes the objective by less than ``tol`` times itself."""

    def rule(progress: Progress) -> StopReason | None:
        small = abs(progress.rise) < tol * progress.objective
        return StopReason.SMALL_CHANGE if small else None

    return rule


def map_eigenvalues(A: Array, change: Callable[[Array], Array]) -> Array:
    """Apply a function to the eigenvalues of a symmetric matrix, negative ones as 0."""
    values, vectors = np.linalg.eigh(A)
    return np.asarray((vectors * change(np.maximum(values, 0.0))) @ vectors.T)


def kernel_from(W: Array, change: Callable[[Array], Array]) -> Array:
    """V diag(change(σ)) Vᵀ for W = U diag(σ) Vᵀ."""
    # By singular values: eigenvalues of WᵀW would lose those below √eps of the largest.
    _, values, right = np.linalg.svd(W, full_matrices=False)
    return np.asarray((right.T * change(values)) @ right)


def decades(top: float, depth: float, n: int) -> Array:
    """Geometric grid of ``n`` values from ``top`` down; without its ends if n < 4."""
    if n >= 4:
        return top * np.geomspace(1.0, 10.0**-depth, n)
    return top * np.geomspace(1.0, 10.0**-depth, n + 2)[1:-1]


def _solve_shifted(system: Array, right: Array) -> Array:
    """(system + I)⁻¹ right, for a positive semidefinite system that is overwritten."""
    system.flat[:: len(system) + 1] += 1.0
    factor = cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
    return np.asarray(cho_solve(factor, right, check_finite=False))
