"""Minimise ½ Ω² + C/2 ‖residuals‖² by iteratively reweighted ridge regressions.

At given weights κ the squared norm is a quadratic, and the coefficients are those of a
ridge regression that kernels couple; at given coefficients the best weights have a
closed form. Both steps lower the objective. Anderson extrapolation of log κ accelerates
the fixed-point iteration; an extrapolated point is rejected if the objective rises.

The ridge regression minimises C/2 Σ ‖X_i w_i − y_i‖² + ½ Σ_j tr(W_j B_j⁻¹ W_jᵀ) over
blocks j of features by conjugate gradients. B_j may be singular and is not inverted:
the unknown is H with W_j = B_j H_j, which is Xᵀα of the dual problem. The penalty
depends on the norms of coefficient vectors only, so features may be rotated within each
block. ``TaskCurvature`` uses the eigenvectors of the mean over tasks of XᵀX: directions
without curvature are dropped, and the preconditioner is diagonal.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.baselines.mtfl.lattice import (
    MOST_GROUPS,
    LatticeNorm,
    TaskGroups,
    membership,
)
from priormtl.losses import SquaredFit

LARGEST_GRAM = 3 * 10**7  # numbers in all XᵀX, up to which they are computed
VANISHING = 1e-14  # relative to the largest, below which curvature counts as zero
ROUNDING = 1e-13  # relative to the objective at zero: gaps below are rounding
LOOSEST = 1e-2  # largest relative gap that sets the accuracy of ridge regressions
INNER_SHARE = 1e-2  # of the squared relative gap: their accuracy
FINEST = 1e-26  # of the objective at zero: squares of residuals at rounding
MOST_INNER = 1000
SMOOTHING = 0.1  # of the relative gap: what unused groups may cost together
LEAST, MOST = 1e-14, 1e-6  # bounds of what one of them may cost
FRESH = 0.1  # share of starting weights in those from another strength
MEMORY = 5  # differences of steps used by Anderson extrapolation
INDEPENDENT = 1e-8  # relative singular value below which differences are dependent
MOST_RISE, MOST_FALL = 1.0, 10.0  # bounds of extrapolation in log κ

Product = Callable[[Array], Array]


# Coupled ridge regression


@dataclass(frozen=True, eq=False)
class TaskCurvature:
    """½ Σ w_iᵀG_i w_i − linear_i w_i + constant/2 over rows w_i of W (m, r)."""

    product: Product  # (m, r) → row i times G_i
    linear: Array  # (m, r)
    constant: float  # twice the value at W = 0
    mean: Array  # (r,) diagonal of the mean of G_i over tasks
    blocks: tuple[slice, ...]  # columns of each block of features
    to_features: Callable[[Array], Array]  # (m, r) → (m, d)


def rotate_fit(fit: SquaredFit, blocks: Sequence[Index]) -> TaskCurvature:
    """The fit in the smallest of its forms, rotated unless that is too large."""
    d, m = fit.shape
    if fit.rows_per_task is not None:
        rows, target, starts, *_ = fit.sample_form()
        parts = [_span(rows[block]) for block in blocks]
    elif fit.normal_size <= LARGEST_GRAM:
        gram, linear, *_ = fit.normal_form()
        centre = gram.mean(axis=0)
        parts = [_principal(centre[np.ix_(block, block)]) for block in blocks]
    else:
        return _unrotated(fit, blocks)
    # The directions of all blocks as columns of one matrix (d, r).
    slices = _slices([part.shape[1] for part in parts])
    basis = np.zeros((d, slices[-1].stop))
    for part, block, columns in zip(parts, blocks, slices, strict=True):
        basis[block, columns] = part
    if fit.rows_per_task is None:
        rotated = np.stack([basis.T @ (matrix @ basis) for matrix in gram])
        linear, (product, mean) = linear.T @ basis, _gram_products(rotated, m)
    elif len(starts):
        rotated = basis.T @ rows
        sums = [rotated[:, a:b] @ target[a:b] for a, b in pairwise(starts)]
        linear, (product, mean) = np.stack(sums), _row_products(rotated, starts)
    else:
        rotated = basis.T @ rows
        linear = target @ rotated.T
        product, mean = _gram_products((rotated @ rotated.T)[np.newaxis], m)
    constant = 2.0 * fit.magnitude
    return TaskCurvature(product, linear, constant, mean, slices, lambda W: W @ basis.T)


def _unrotated(fit: SquaredFit, blocks: Sequence[Index]) -> TaskCurvature:
    """Features in the order of their blocks, not rotated."""
    order = np.concatenate(blocks)
    back = np.argsort(order)
    moments = fit.moments
    raw = moments.squared_deviations().mean(axis=0)
    if fit.intercepts.are_fixed:
        raw = raw + (moments.weight @ moments.x_mean**2) / len(moments.weight)
    start = fit.evaluate(np.zeros(fit.shape))

    def product(W: Array) -> Array:
        return fit.majorant(np.ascontiguousarray(W[:, back].T)).T[:, order]

    return TaskCurvature(
        product,
        -start.gradient.T[:, order],
        2.0 * start.value,
        raw[order],
        _slices([len(block) for block in blocks]),
        lambda W: W[:, back],
    )


def _row_products(rotated: Array, starts: Index) -> tuple[Product, Array]:
    """Products with rows padded to one length, or with XᵀX where that is cheaper."""
    r, m = len(rotated), len(starts) - 1
    counts = np.diff(starts)
    padded = np.zeros((m, counts.max(), r))
    for i, (a, b) in enumerate(pairwise(starts)):
        padded[i, : b - a] = rotated[:, a:b].T
    if 2 * counts.max() > r:
        return _gram_products(padded.transpose(0, 2, 1) @ padded, m)
    mean = np.einsum("inr,inr->r", padded, padded) / m

    def product(W: Array) -> Array:
        scores = padded @ W[:, :, np.newaxis]
        return (scores.transpose(0, 2, 1) @ padded)[:, 0]

    return product, mean


def _gram_products(gram: Array, m: int) -> tuple[Product, Array]:
    """Products with XᵀX of each task, or one for all, which is often diagonal."""
    mean = np.diagonal(gram.mean(axis=0)).copy()
    if len(gram) == m > 1:
        return (lambda W: (W[:, np.newaxis] @ gram)[:, 0]), mean
    matrix = gram[0]
    rest = matrix - np.diag(mean)
    if np.abs(rest).max(initial=0.0) <= VANISHING * len(mean) * mean.max(initial=0.0):
        return (lambda W: W * mean), mean
    return (lambda W: W @ matrix), mean


def _span(rows: Array) -> Array:
    """Orthonormal directions (k, r) in which rows (k, n) vary."""
    if rows.shape[0] <= rows.shape[1]:
        return _principal(rows @ rows.T)
    return np.linalg.qr(rows @ _principal(rows.T @ rows))[0]


def _principal(gram: Array) -> Array:
    """Eigenvectors of positive curvature, at least one."""
    values, vectors = np.linalg.eigh(0.5 * (gram + gram.T))
    kept = values > VANISHING * len(values) * max(values[-1], 0.0)
    kept[-1] = True
    return np.asarray(vectors[:, kept])


def _slices(sizes: Sequence[int]) -> tuple[slice, ...]:
    ends = np.cumsum([0, *sizes]).tolist()
    return tuple(slice(a, b) for a, b in pairwise(ends))


@dataclass(frozen=True, eq=False)
class RidgeSolution:
    """Solution of a coupled ridge regression, and its residuals α = C (y − X w)."""

    inner: Array  # H (m, r)
    coef: Array  # W (m, r), row blocks B_j H_j
    correlation: Array  # Xᵀα (m, r), equal to H at the optimum
    loss: float  # C/2 ‖X w − y‖²
    target_product: float  # ⟨y, α⟩
    n_products: int


def solve_ridge(
    curvature: TaskCurvature,
    C: float,
    kernels: Array,
    start: Array,
    *,
    accuracy: float,
    max_iter: int,
) -> RidgeSolution:
    """Solve until the dual objective is within about ``accuracy`` of its maximum.

    Preconditioned conjugate gradients for C G(B H) + H = C Xᵀy, in the eigenvectors of
    the kernels B (k, m, m), where these are diagonal.
    """
    blocks = curvature.blocks
    values, vectors = np.linalg.eigh(kernels)
    B = np.empty(curvature.linear.shape)
    for value, columns in zip(values, blocks, strict=True):
        B[:, columns] = np.maximum(value, 0.0)[:, np.newaxis]

    def rotate(X: Array, matrices: Array) -> Array:
        if len(blocks) == 1:
            return np.asarray(matrices[0] @ X)
        pairs = zip(matrices, blocks, strict=True)
        return np.hstack([matrix @ X[:, columns] for matrix, columns in pairs])

    def enter(X: Array) -> Array:
        return rotate(X, vectors.transpose(0, 2, 1))

    def leave(X: Array) -> Array:
        return rotate(X, vectors)

    linear = enter(curvature.linear)
    preconditioner = 1.0 / (1.0 + C * B * curvature.mean)
    H = enter(start)
    W = B * H
    residual = C * linear
    if start.any():
        residual = residual - C * enter(curvature.product(leave(W))) - H
    step = preconditioner * residual
    coef_step = B * step
    energy, n = float(np.vdot(residual, coef_step)), 1
    # Conjugate gradients in the inner product of B, in which C G B + I is symmetric.
    # Half the squared residual in the norm of B is what the dual value misses.
    while (
        0.5 * float(np.vdot(residual, B * residual)) > accuracy
        and energy > 0
        and n < max_iter
    ):
        product = C * enter(curvature.product(leave(coef_step))) + step
        length = energy / float(np.vdot(coef_step, product))
        H, W = H + length * step, W + length * coef_step
        residual = residual - length * product
        direction = preconditioner * residual
        coef_direction = B * direction
        last, energy = energy, float(np.vdot(residual, coef_direction))
        step = direction + energy / last * step
        coef_step = coef_direction + energy / last * coef_step
        n += 1
    # Residuals α = C (y − X w) give Xᵀα = C Xᵀy − C G W = H + residual.
    correlation = H + residual
    target_product = C * (curvature.constant - float(np.vdot(linear, W)))
    loss = 0.5 * (target_product - float(np.vdot(W, correlation)))
    return RidgeSolution(
        leave(H), leave(W), leave(correlation), max(loss, 0.0), target_product, n
    )


# Reweighting


@dataclass(frozen=True, eq=False)
class LatticePoint:
    """Coefficients at given weights, and how good they are."""

    weights: Array  # κ (k, g)
    ridge: RidgeSolution
    squares: Array  # D (k, g)
    lengths: Array  # Θ (k, g)
    objective: float
    dual: float  # best lower bound so far

    @property
    def gap(self) -> float:
        return max(0.0, self.objective - self.dual)

    @property
    def relative_gap(self) -> float:
        return self.gap / self.objective if self.objective > 0 else 0.0


@dataclass(frozen=True, eq=False)
class LatticeProblem:
    """Minimise ½ Ω² + C/2 Σ ‖X_i w_i − y_i‖²."""

    curvature: TaskCurvature
    norm: LatticeNorm
    C: float

    @property
    def unit(self) -> float:
        return 0.5 * self.C * self.curvature.constant

    def start(self, last: LatticePoint | None) -> LatticePoint:
        """Starting weights, mixed with those of a solution at another strength."""
        shape = len(self.curvature.blocks), len(self.norm.groups)
        weights, inner = self.norm.weights(np.zeros(shape)), None
        if last is not None:
            weights = (1.0 - FRESH) * last.weights + FRESH * weights
            inner = last.ridge.inner
        return self.at(weights, inner, self._accuracy(1.0))

    def at(self, weights: Array, inner: Array | None, accuracy: float) -> LatticePoint:
        """Solve the ridge regression of these weights and evaluate its solution."""
        curvature, norm = self.curvature, self.norm
        start = np.zeros_like(curvature.linear) if inner is None else inner
        ridge = solve_ridge(
            curvature,
            self.C,
            norm.kernels(weights),
            start,
            accuracy=accuracy,
            max_iter=MOST_INNER,
        )
        # U_jg = κ_jg M_g⁻¹ H_j at the optimum, so that Θ_jg = κ_jg √D_jg.
        squares = norm.dual_squares(ridge.inner, curvature.blocks)
        lengths = weights * np.sqrt(squares)
        objective = ridge.loss + 0.5 * norm.value(lengths) ** 2
        return LatticePoint(
            weights, ridge, squares, lengths, objective, self._dual(ridge, lengths)
        )

    def move_to(self, point: LatticePoint, weights: Array) -> LatticePoint:
        """Point at other weights, as accurate as the gap requires."""
        accuracy = self._accuracy(point.relative_gap)
        accuracy *= point.objective / (self.unit or 1.0)
        moved = self.at(weights, point.ridge.inner, max(accuracy, FINEST * self.unit))
        return replace(moved, dual=max(moved.dual, point.dual))

    def next_weights(self, point: LatticePoint) -> Array:
        """Best weights, bounded below so that unused groups can return."""
        share = SMOOTHING * point.relative_gap / len(self.norm.groups)
        least = float(np.clip(share, LEAST, MOST))
        return self.norm.weights(point.lengths, least)

    def is_solved(self, point: LatticePoint, tol: float) -> bool:
        """Whether the gap is at most ``tol`` times the objective, or rounding error."""
        return point.gap <= max(tol * point.objective, ROUNDING * self.unit)

    def _accuracy(self, relative: float) -> float:
        return INNER_SHARE * min(relative, LOOSEST) ** 2 * self.unit

    def _dual(self, ridge: RidgeSolution, lengths: Array) -> float:
        """Dual objective at the best multiple of the residuals."""
        # max over s of s ⟨y, α⟩ − s² (‖α‖²/(2C) + ½ Ω°(Xᵀα)²), in closed form.
        squares = self.norm.dual_squares(ridge.correlation, self.curvature.blocks)
        bound = self.norm.dual_bound(np.sqrt(squares), lengths)
        height = 2.0 * ridge.loss + bound**2
        return 0.5 * ridge.target_product**2 / height if height > 0 else 0.0


def reweight(
    problem: LatticeProblem, last: LatticePoint | None = None
) -> Iterator[LatticePoint]:
    """Iterates of decreasing objective, from a solution at another strength if any."""
    point = problem.start(last)
    points: deque[Array] = deque(maxlen=MEMORY + 1)
    steps: deque[Array] = deque(maxlen=MEMORY + 1)
    while True:
        yield point
        plain = problem.next_weights(point)
        # In logarithms weights stay positive, and the iteration is closer to linear.
        logs, next_logs = np.log(point.weights), np.log(plain)
        points.append(logs.ravel())
        steps.append((next_logs - logs).ravel())
        if len(points) > 1:
            importance = np.sqrt(point.weights * point.squares).ravel()
            found = extrapolate(points, steps, importance).reshape(plain.shape)
            change = np.clip(found - next_logs, -MOST_FALL, MOST_RISE)
            tried = problem.move_to(point, plain * np.exp(change))
            if tried.objective <= (1.0 + ROUNDING) * point.objective:
                point = tried
                continue
            points.clear()
            steps.clear()
            point = replace(point, dual=tried.dual)
        point = problem.move_to(point, plain)


def extrapolate(points: deque[Array], steps: deque[Array], importance: Array) -> Array:
    """Anderson extrapolation: the point whose step vanishes if steps are affine.

    Differences of steps may be dependent and weights differ by many orders of
    magnitude, so this is a weighted least squares problem solved by its SVD.
    """
    step_changes = np.diff(np.array(steps), axis=0).T
    point_changes = np.diff(np.array(points), axis=0).T
    step = steps[-1]
    amount = np.linalg.lstsq(
        step_changes * importance[:, np.newaxis], step * importance, rcond=INDEPENDENT
    )[0]
    return np.asarray(points[-1] + step - (point_changes + step_changes) @ amount)


# Active groups

# A solver: from a problem and a start or None to a solution and its iterations.
Solve = Callable[[LatticeProblem, LatticePoint | None], tuple[LatticePoint, int]]


def grow_groups(
    problem: LatticeProblem, solve: Solve
) -> tuple[LatticeProblem, LatticePoint, int]:
    """Active-set rule: solve, then add groups g with ‖(√D_jg)_j‖ > Ω d_g.

    Only groups all of whose proper subsets are present are candidates. Returns the
    problem with all groups that were added, its solution and the iterations.
    """
    point, n_iter = solve(problem, None)
    while True:
        norm = problem.norm
        candidates = norm.groups.candidates()
        room = MOST_GROUPS - len(norm.groups)
        if not candidates or room <= 0:
            break
        groups = TaskGroups(membership(candidates, len(point.ridge.coef)))
        found = norm.relative_dual_norms(
            groups, point.ridge.correlation, problem.curvature.blocks
        )
        excess = found - norm.value(point.lengths)
        strongest = np.argsort(-excess, kind="stable")[:room]
        added = [candidates[i] for i in strongest if excess[i] > 0.0]
        if not added:
            break
        grown = replace(norm, groups=norm.groups.add(added))
        # Starting weights for the new groups, the old weights for the others.
        weights = grown.weights(np.zeros((len(point.weights), len(grown.groups))))
        weights[:, grown.groups.find(norm.groups)] = point.weights
        problem = replace(problem, norm=grown)
        point, n = solve(problem, replace(point, weights=weights))
        n_iter += n
    return problem, point, n_iter
