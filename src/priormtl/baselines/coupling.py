"""Ridge regression with tasks coupled by a kernel, and alternation with that kernel.

The published algorithms of MTRL and CLMT alternate: they solve

    min_W fit(W) + ½ tr(W A⁻¹ Wᵀ),   W of shape (d, m),

for a fixed kernel A between tasks, then update A for these coefficients. The first step
has two forms: one unknown per coefficient (``PrimalRidge``), or one per sample
(``KernelRidge``). MTFL has a kernel for each block of features and solves for W by
conjugate gradients (``solve_ridge``). None inverts A, which may be singular.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, NamedTuple, Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import issparse

from priormtl._arrays import Array, Index
from priormtl.baselines.base import Fit, principal_axes
from priormtl.data import TaskData
from priormtl.losses import FreeIntercepts, NoIntercepts, Squared, SquaredFit
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
    def of_fit(cls, fit: Fit) -> Self:
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
    def of_fit(cls, fit: Fit) -> Self:
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


# Squared loss of all tasks; solve(A) minimises fit(W) + ½ tr(W A⁻¹ Wᵀ), with rows of W
# in the range of A.
CoupledRidge = PrimalRidge | KernelRidge


def coupled_ridge(problem: Problem) -> CoupledRidge | None:
    """The form with the fewest unknowns, computed once for all strengths.

    None if every form has too many, or the loss is not quadratic.
    """
    if "ridge" not in problem.memo:
        problem.memo["ridge"] = _smallest_form(problem.fit)
    return problem.memo["ridge"]


def _smallest_form(fit: Fit) -> CoupledRidge | None:
    d, m = fit.shape
    if not fit.is_quadratic:
        return None
    n = float("inf") if fit.rows_per_task is None else fit.rows_per_task * m
    if fit.normal_size == d * d:  # rows that all tasks share are not listed by task
        n = float("inf")
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


# Blocks of features with a kernel each, by conjugate gradients


@dataclass(frozen=True, eq=False)
class Rotated:
    """The fit in coordinates of each block: the norm depends on lengths alone.

    In principal axes of the rows few coordinates are left, and the mean Hessian of the
    tasks, which preconditions, is almost diagonal.
    """

    fit: SquaredFit
    basis: Array | None  # (d, r); None: features in the order of their blocks
    order: Index
    blocks: tuple[slice, ...]  # coordinates of each block
    linear: Array  # (m, r) Xᵀy
    constant: float  # ‖y‖²
    mean: Array  # (r,) diagonal of the mean Hessian

    @classmethod
    def of(
        cls, data: TaskData, blocks: Sequence[Index], *, intercept: bool
    ) -> "Rotated":
        order, basis, X = np.concatenate(blocks), None, data.X
        sizes = [len(block) for block in blocks]
        if issparse(X):
            X = X[:, order]
        else:
            centred = X - intercept * X.mean(axis=0)
            parts = [principal_axes(centred[:, block]) for block in blocks]
            sizes = [part.shape[1] for part in parts]
            pairs = zip(blocks, parts, strict=True)
            X = np.hstack([X[:, block] @ part for block, part in pairs])
            basis = np.zeros((data.shape[0], sum(sizes)))
        ends = np.cumsum([0, *sizes]).tolist()
        slices = tuple(slice(a, b) for a, b in pairwise(ends))
        if basis is not None:
            for block, part, columns in zip(blocks, parts, slices, strict=True):
                basis[block, columns] = part
        intercepts = FreeIntercepts() if intercept else NoIntercepts()
        fit = Squared().bind(replace(data, X=X, features=None), intercepts)
        start = fit.evaluate(np.zeros(fit.shape))
        mean = fit.curvatures().mean(axis=1)
        return cls(
            fit, basis, order, slices, -start.gradient.T, 2.0 * start.value, mean
        )

    def to_features(self, W: Array) -> Array:
        """Coefficients (m, d) of the features."""
        return (
            W @ self.basis.T if self.basis is not None else W[:, np.argsort(self.order)]
        )


class Ridge(NamedTuple):
    """A coupled ridge regression, with residuals α = C (y − X w)."""

    inner: Array  # H (m, r)
    coef: Array  # W (m, r), blocks B_j H_j
    correlation: Array  # Xᵀα (m, r), equal to H at the optimum
    loss: float  # C/2 ‖X w − y‖²
    target_product: float  # ⟨y, α⟩


def solve_ridge(
    rotated: Rotated, C: float, kernels: Array, H: Array, accuracy: float
) -> Ridge:
    """Minimise C/2 ‖X w − y‖² + ½ Σ_j tr(W_j B_j⁻¹ W_jᵀ), to ``accuracy`` in the dual.

    B may be singular and is not inverted: W_j = B_j H_j. Conjugate gradients for
    C G(B H) + H = C Xᵀy in the inner product of B, in which the system is symmetric,
    and in the eigenvectors of B, where the preconditioner is diagonal.
    """
    values, vectors = np.linalg.eigh(kernels)
    widths = [s.stop - s.start for s in rotated.blocks]
    B = np.repeat(np.maximum(values.T, 0.0), widths, axis=1)

    def turn(X: Array, matrices: Array) -> Array:
        pairs = zip(matrices, rotated.blocks, strict=True)
        return np.hstack([matrix @ X[:, s] for matrix, s in pairs])

    def product(W: Array) -> Array:
        whole = np.ascontiguousarray(turn(W, vectors).T)
        return C * turn(rotated.fit.majorant(whole).T, inverse)

    inverse = vectors.transpose(0, 2, 1)
    H, linear = turn(H, inverse), turn(rotated.linear, inverse)
    residual = C * linear - H - (product(B * H) if H.any() else 0.0)
    preconditioner = 1.0 / (1.0 + C * B * rotated.mean)
    step = preconditioner * residual
    energy = float(np.vdot(residual, B * step))
    for _ in range(1000):
        # Half the squared residual in the norm of B is what the dual value misses.
        if energy <= 0 or 0.5 * float(np.vdot(residual, B * residual)) <= accuracy:
            break
        change = product(B * step) + step
        length = energy / float(np.vdot(B * step, change))
        H, residual = H + length * step, residual - length * change
        direction = preconditioner * residual
        last, energy = energy, float(np.vdot(residual, B * direction))
        step = direction + energy / last * step
    # Residuals α = C (y − X w) give Xᵀα = C Xᵀy − C G W = H + residual.
    W, correlation = B * H, H + residual
    total = C * (rotated.constant - float(np.vdot(linear, W)))
    loss = max(0.5 * (total - float(np.vdot(W, correlation))), 0.0)
    return Ridge(
        turn(H, vectors), turn(W, vectors), turn(correlation, vectors), loss, total
    )
