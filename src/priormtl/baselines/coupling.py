"""Ridge regression with tasks coupled by kernels, and alternation with such a kernel.

Coefficients W (features × tasks) of blocks j of features minimise

    C/2 ‖X W − y‖² + ½ Σ_j tr(W_j B_j⁻¹ W_jᵀ)

for kernels B_j between tasks, by conjugate gradients that invert no kernel, since
kernels may be singular. It is a step of MTFL, and of the published algorithms of MTRL
and CLMT, which have one block: they alternate between W for a fixed kernel and the best
kernel for W.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.linalg import block_diag
from scipy.sparse import eye_array, issparse

from priormtl._arrays import Array, Index, Matrix
from priormtl.baselines import base
from priormtl.data import TaskData
from priormtl.losses import FreeIntercepts, NoIntercepts, Squared, SquaredFit
from priormtl.problem import Point, Problem
from priormtl.solvers import (
    Method,
    Progress,
    StopReason,
    StopRule,
    max_iter,
    no_progress,
)


@dataclass(frozen=True, eq=False)
class Rotated:
    """The fit in coordinates of each block: the norm depends on lengths alone.

    In principal axes of the rows few coordinates are left, and the mean Hessian of the
    tasks, which preconditions, is almost diagonal.
    """

    fit: SquaredFit
    basis: Matrix | None  # (d, r) of the coordinates; None: they are the features
    blocks: tuple[slice, ...]  # coordinates of each block
    linear: Array  # (m, r) Xᵀy
    constant: float  # ‖y‖²
    mean: Array  # (r,) diagonal of the mean Hessian

    @classmethod
    def of_fit(
        cls,
        fit: SquaredFit,
        basis: Matrix | None = None,
        blocks: tuple[slice, ...] = (slice(None),),
    ) -> "Rotated":
        """A fit as it is; by default its features are one block."""
        start, mean = fit.evaluate(np.zeros(fit.shape)), fit.curvatures().mean(axis=1)
        return cls(fit, basis, blocks, -start.gradient.T, 2.0 * start.value, mean)

    @classmethod
    def of(
        cls, data: TaskData, blocks: Sequence[Index], *, intercept: bool
    ) -> "Rotated":
        X, order = data.X, np.concatenate(blocks)
        sizes = [len(block) for block in blocks]
        if issparse(X):
            basis = eye_array(len(order), format="csr")[:, order]
        else:
            centred = X - intercept * X.mean(axis=0)
            parts = [base.principal_axes(centred[:, block]) for block in blocks]
            sizes = [part.shape[1] for part in parts]
            basis = block_diag(*parts)[np.argsort(order)]
        ends = np.cumsum([0, *sizes]).tolist()
        intercepts = FreeIntercepts() if intercept else NoIntercepts()
        rotated = replace(data, X=X @ basis, features=None)
        slices = tuple(slice(a, b) for a, b in pairwise(ends))
        return cls.of_fit(Squared().bind(rotated, intercepts), basis, slices)

    def to_features(self, W: Array) -> Array:
        """Coefficients (m, d) of the features."""
        return W if self.basis is None else np.asarray(W @ self.basis.T)


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
    widths = [len(rotated.mean[s]) for s in rotated.blocks]
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


# Alternation


SOLVERS = ("fista", "alternating")


@dataclass(frozen=True, eq=False)
class AlternationState:
    """State of the alternation."""

    point: Point
    kernel: Array  # A of the next step
    rotated: Rotated  # the fit


@dataclass(frozen=True, eq=False)
class Alternation:
    """Minimise fit(W) + ½ tr(W A⁻¹ Wᵀ) for a kernel A, then update A for this W.

    It need not reach the optimum: once A vanishes in a direction, it stays zero there.
    """

    first: Array  # A to begin with
    update: Callable[[Array], Array]  # A for coefficients (d, m)

    check_every: ClassVar[int] = 1

    def start(self, problem: Problem, point: Point) -> AlternationState:
        if not isinstance(problem.fit, SquaredFit):
            raise ValueError(
                'solver="alternating" needs squared loss: got another loss. Use '
                'solver="fista".'
            )
        return AlternationState(point, self.first, Rotated.of_fit(problem.fit))

    def step(self, problem: Problem, state: AlternationState) -> AlternationState:
        rotated, kernels = state.rotated, state.kernel[np.newaxis]
        accuracy = 1e-26 * problem.null_objective  # as exact as rounding allows
        zero = np.zeros_like(rotated.linear)
        ridge = solve_ridge(rotated, 1.0, kernels, zero, accuracy)
        W = np.ascontiguousarray(ridge.coef.T)
        return replace(state, point=problem.at(W), kernel=self.update(W))


def stop_rules(
    method: Method, tol: float, most: int, change: float | None = None
) -> list[StopRule]:
    """When to stop; ``change``: at a relative change of the objective below it."""
    rules = base.stop_rules(method, tol, most)
    if isinstance(method, Alternation):
        rules.append(max_iter(200))
    elif method.check_every == 1:
        # Newton steps close the gap in a few; those that do not reduce it are rounding.
        rules.append(no_progress(30))

    def settled(progress: Progress) -> StopReason | None:
        small = abs(progress.rise) < (change or 0.0) * progress.objective
        return StopReason.SMALL_CHANGE if small else None

    return rules if change is None else [*rules, settled]


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
