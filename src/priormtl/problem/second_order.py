"""Bound what any point could gain, by the curvature at one point, for small problems.

Without a penalty, or with a subgradient Y of it in its place, the objective is smooth:
F(P) = fit(P) + prior(P) + ⟨Y, P⟩, with gradient g and Hessian H. Losses whose third
derivative is at most the second, as those of families, curve over a way V at least like
this (Bach, "Self-concordant analysis for logistic regression", Electronic Journal of
Statistics 4, 2010, Proposition 1)::

    F(P + V) ≥ F(P) + ⟨g, V⟩ + V'HV (e^{−S} + S − 1) / S²,   S = max |change of a score|

With λ² = g'H⁻¹g and C² = max x'H⁻¹x over the samples, S ≤ C √(V'HV), so that no point
is lower than F(P) by more than ::

    (u + (1 − u) log(1 − u)) / C²,   u = C λ < 1,

which is λ²/2 where C is small. Samples for which C λ is too large are almost decided.
Those decided rightly are left out and their loss is counted in full, since none is
below zero; of those decided wrongly the tangent is kept, since losses are convex.

All terms are rows of one least-squares problem, A'A = H, A'ρ = g, and λ is the length
of ρ in the range of A. Ties of any strength cost no digits: unknowns are what tied
tasks have in common, and how each differs from one of them.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular
from scipy.sparse import issparse

from priormtl._arrays import Array, Index
from priormtl._numerics import EPS, TINY
from priormtl.losses import FamilyFit, SquaredFit
from priormtl.penalties import RowConstraints
from priormtl.problem.newton_system import data_rows
from priormtl.problem.quadratic import QuadraticPrior

if TYPE_CHECKING:
    from priormtl.problem.objective import Point, Problem

MOST_UNKNOWNS = 250
MOST_WORK = 2e6  # samples · unknowns²: a decomposition takes a few milliseconds
ROUNDS = 6  # in which samples are left out
LONG = np.longdouble  # more digits than double, where the platform has them
NEAR = 0.5  # C λ of a sample up to which its curvature is of use


class _Samples(NamedTuple):
    """Samples as rows of scores, and the terms of the loss at theirs."""

    rows: Array  # (n, unknowns) coefficients task by task, then intercepts
    loss: Array  # (n,)
    slope: Array  # (n,) derivatives of the loss in the score
    bend: Array  # (n,)
    is_right: NDArray[np.bool_]
    noise: Array  # (n,) rounding errors of scores
    centre: Array  # (m, d) subtracted from the features of each task
    offset: Array  # (unknowns,) sums of squares of what was, weighted by bend


class _Rows(NamedTuple):
    """Least-squares rows: A (n, unknowns), residuals and their rounding errors (n,)."""

    A: Array
    rho: Array
    noise: Array


class _System(NamedTuple):
    """A small problem at a point as least squares, in a basis of its unknowns."""

    basis: Array  # (unknowns, columns)
    prior: _Rows
    offset: Array  # (columns,) sums of squares of what features were shifted by
    data: _Rows | None  # squared loss
    samples: _Samples | None  # other losses

    def data_on(self, left: NDArray[np.bool_] | slice) -> _Rows:
        """Rows of these samples, weighted by the roots of their curvatures."""
        if self.samples is None:
            assert self.data is not None
            return self.data
        samples = self.samples
        root = np.sqrt(samples.bend[left])
        return _Rows(
            root[:, np.newaxis] * (samples.rows[left] @ self.basis),
            samples.slope[left] / np.where(root > 0, root, 1.0),
            root * samples.noise[left],
        )


def largest_gain(
    problem: "Problem", point: "Point", pull: Array | None = None
) -> float | None:
    """Most by which any P lowers fit(P) + prior(P) + ⟨pull, P⟩; inf where unknown.

    Without ``pull`` (d, m), constraints at the point hold back what they do. None where
    the problem is too large, or its loss has no such bound.
    """
    system = _pose(problem, point)
    if system is None:
        return None
    if pull is None:
        pull = problem.free_gradient(point) - point.gradient
    slope = np.zeros(len(system.basis))
    slope[: pull.size] = pull.T.ravel()
    samples = system.samples
    if samples is None:
        data = system.data_on(slice(None))
        decrement, _ = _decrement(data, system, slope @ system.basis)
        return 0.5 * decrement**2
    gain, lost = np.inf, 0.0
    left, far = np.ones(len(samples.loss), dtype=bool), samples.bend <= 0.0
    for _ in range(ROUNDS):
        lost += float(samples.loss[far & samples.is_right].sum())
        straight = far & ~samples.is_right
        slope += samples.slope[straight] @ samples.rows[straight]
        left &= ~far
        data = system.data_on(left)
        decrement, reach = _decrement(data, system, slope @ system.basis)
        reach = reach / np.sqrt(samples.bend[left])  # C of each sample
        gain = min(gain, lost + _most(decrement, float(reach.max(initial=0.0))))
        far = np.zeros_like(left)
        far[left] = reach > NEAR / max(decrement, TINY)
        if not far.any():
            break
    return gain


def without_flat_part(problem: "Problem", point: "Point", pull: Array) -> Array:
    """A slope (d, m) less what lies along directions without curvature.

    Such directions are known for small problems only; others keep theirs.
    """
    system, (d, m) = _pose(problem, point), problem.shape
    if system is None:
        return pull
    A = np.vstack([system.data_on(slice(None)).A, system.prior.A])
    found = _decompose(A, system.offset)
    if not found.flat.shape[1]:
        return pull
    flat = (found.flat / found.length[:, np.newaxis]).T
    directions = flat @ system.basis[: d * m].T
    lengths = np.linalg.norm(directions, axis=1, keepdims=True)
    Q, _ = np.linalg.qr((directions / np.where(lengths > 0, lengths, 1.0)).T)
    slope = pull.T.ravel()
    slope = slope - Q @ (Q.T @ slope)
    return np.ascontiguousarray(slope.reshape(m, d).T)


def _pose(problem: "Problem", point: "Point") -> _System | None:
    """The problem at a point as rows; None where it is large, or has no such form."""
    fit: Any = problem.fit
    at: Any = point.fit
    d, m = problem.shape
    is_squared = isinstance(fit, SquaredFit) and fit.rows_per_task is not None
    if not (is_squared or type(fit) is FamilyFit):
        return None
    n_rows = m * (d + 2) if is_squared else fit.data.X.shape[0]
    if d * m > MOST_UNKNOWNS or n_rows * float(d * m) ** 2 > MOST_WORK:
        return None
    # Squared loss leaves out free intercepts.
    without = fit.intercept_graph is None if is_squared else fit.intercepts.are_fixed
    basis, level = _basis(problem, d * m + (0 if without else m))
    data = samples = None
    if is_squared:
        data, offset = _squared_rows(fit, point, basis)
        centre, b = fit.centre, fit.centred_intercept(point.coef)
    else:
        samples = _samples(fit, at, point.coef)
        centre, b, offset = samples.centre[0], at.b, samples.offset
    rows = _prior_rows(problem.prior, point.coef, problem.constraints)
    if fit.intercept_graph is not None:
        rows.append(_intercept_rows(fit.intercepts, centre, b))
    prior = _in_basis(rows, basis, level)
    return _System(basis, prior, offset @ basis, data, samples)


def _most(decrement: float, reach: float) -> float:
    """The bound for λ and C, as in the head of this page."""
    if not decrement < np.inf or reach * decrement >= 1.0:
        return np.inf
    u = reach * decrement
    if u < 1e-3:  # the series: closed form would lose digits
        return 0.5 * decrement**2 * (1.0 + u / 3.0 + u * u)
    return float((u + (1.0 - u) * np.log1p(-u)) / reach**2)


class _Decomposition(NamedTuple):
    """A = Q R, columns scaled and in order of what those before leave of them."""

    Q: Array  # (n, rank)
    R: Array  # (rank, rank)
    flat: Array  # (columns, columns − rank) orthonormal: directions without curvature
    length: Array  # of columns
    order: Index  # of columns
    digits: float  # up to which what is left of a column is rounding


def _decompose(A: Array, offset: Array) -> _Decomposition:
    """Columns count as zero, or as equal, where only rounding tells them apart."""
    length = np.sqrt(np.einsum("ij,ij->j", A, A) + offset)
    # Powers of two: divisions by them are exact.
    length = np.exp2(np.round(np.log2(np.where(length > 0, length, 1.0))))
    A = A / length
    Q, R, order = qr(A, mode="economic", pivoting=True, check_finite=False)
    left = np.abs(R.diagonal())
    digits = 2.0 * EPS * sum(A.shape) * float(left.max(initial=0.0))
    rank = int(np.sum(left > digits))
    square, beyond = R[:rank, :rank], R[:rank, rank:]
    turned = -solve_triangular(square, beyond, check_finite=False)
    flat = np.linalg.qr(np.vstack([turned, np.eye(beyond.shape[1])]))[0]
    flat[order] = flat.copy()
    return _Decomposition(Q[:, :rank], square, flat, length, order, digits)


def _decrement(data: _Rows, system: _System, slope: Array) -> tuple[float, Array]:
    """λ of all rows with an extra slope, and lengths of the samples' rows by H⁻¹.

    A slope along directions without curvature counts by the least one that shows, or
    not at all where it is but the rounding of a larger one.
    """
    prior = system.prior
    A = np.vstack([data.A, prior.A])
    Q, R, flat, length, order, digits = _decompose(A, system.offset)
    slope = slope / length
    along = float(np.linalg.norm(flat.T @ slope))
    if along > 8.0 * EPS * float(np.linalg.norm(slope)):
        # Fewer rows than unknowns leave a null space, where any slope gains for ever.
        along = along / digits if digits > 0 and len(A) >= A.shape[1] else np.inf
    else:
        along = 0.0
    # λ² = g'H⁻¹g = 2 g'x − x'Hx + h'H⁻¹h, h = g − H x, with x near H⁻¹g. Near singular
    # systems leave half the digits of x, so that h is computed with more.
    kept = order[: len(R)]
    rho, slope = np.concatenate([data.rho, prior.rho]), slope[kept]
    inverse = solve_triangular(R, np.eye(len(R)), check_finite=False)
    x = inverse @ (Q.T @ rho + inverse.T @ slope)
    rows = (A[:, kept] / length[kept]).astype(LONG)
    scores = rows @ x.astype(LONG)
    rest = rho - scores
    parts = inverse.T @ (rows.T @ rest + slope).astype(float)
    square = 2.0 * (rho @ scores + slope @ x.astype(LONG)) - scores @ scores
    square = max(0.0, float(square)) + float(parts @ parts)
    noise = np.hypot(np.linalg.norm(data.noise), np.linalg.norm(prior.noise))
    hidden = np.finfo(LONG).eps * sum(A.shape) * float(np.linalg.norm(rest))
    noise += hidden * np.linalg.norm(inverse)
    reach = np.linalg.norm(Q[: len(data.A)], axis=1)
    return float(np.sqrt(square + along**2) + noise), reach


def _squared_rows(fit: SquaredFit, point: "Point", basis: Array) -> tuple[_Rows, Array]:
    """Data of a squared fit as rows in the basis, and offsets of its columns."""
    (d, m), P = fit.shape, point.coef
    A, rest = data_rows(fit, point)
    size = np.abs(A[:, : d * m]) @ np.abs(P.T.ravel())
    noise = 2.0 * EPS * (2.0 * size + np.abs(rest))
    offset = np.zeros(len(basis))
    offset[: d * m] = fit.offsets().T.ravel()
    return _Rows(A @ basis, -rest, noise), offset


def _samples(fit: FamilyFit, at: Any, P: Array) -> _Samples:
    """Rows and terms of all samples; features about a centre where intercepts move."""
    (d, m), b = fit.shape, at.b
    fixed, tied = fit.intercepts.are_fixed, fit.intercept_graph is not None
    centre = np.zeros((m, d))
    if not fixed:
        centre = fit.means.T
        if tied:  # the same for all, since ties compare tasks
            weight = fit.data.task_weight
            centre = np.tile(weight @ centre / weight.sum(), (m, 1))
    n_unknowns = d * m + (0 if fixed else m)
    blocks, offset = [], np.zeros(n_unknowns)
    terms, family = [], fit.family
    zeros = np.zeros_like(fit.data.y)
    known = zeros if fit.data.offset is None else zeros + fit.data.offset
    offsets = replace(fit.data, y=known)
    for i in range(m):
        X, y, w = fit.data.rows_of(i)
        known = offsets.rows_of(i)[1]
        X = X.toarray() if issparse(X) else X
        X, y, w, known = X[w > 0], y[w > 0], w[w > 0], known[w > 0]
        rows = np.zeros((len(X), n_unknowns))
        rows[:, i * d : (i + 1) * d] = X - centre[i]
        if not fixed:
            rows[:, d * m + i] = 1.0
        eta = X @ P[:, i] + b[i] + known
        bend = w * family.bend(eta, y)
        noise = np.abs(X) @ np.abs(P[:, i]) + abs(b[i]) + np.abs(known)
        loss = family.loss(eta, y)
        # A loss below log 2 is that of a sample that is decided rightly, if at all.
        is_right = loss < np.log(2.0)
        slope = w * family.slope(eta, y)
        terms.append((w * loss, slope, bend, is_right, 2.0 * EPS * noise))
        blocks.append(rows)
        place = slice(i * d, (i + 1) * d)
        offset[place] = bend.sum() * (centre[i] + fit.shift[i]) ** 2
    loss, slope, bend, is_right, noise = map(np.concatenate, zip(*terms, strict=True))
    rows = np.vstack(blocks)
    return _Samples(rows, loss, slope, bend, is_right, noise, centre, offset)


def _basis(problem: "Problem", n_unknowns: int) -> tuple[Array, NDArray[np.bool_]]:
    """Unknowns as combinations of others, and which of these no tie changes.

    Tied tasks become the last of them, which moves all, and differences from it.
    """
    (d, m), prior = problem.shape, problem.prior
    common = np.zeros(d, dtype=bool)
    if problem.constraints is not None:
        common = problem.constraints.common
    ties = np.full(d, prior.epsilon)
    if prior.tie_weights is not None:
        ties = ties * np.where(common, 1.0, prior.tie_weights)
    graphs = [prior.laplacian if tie > 0 else None for tie in ties]
    if n_unknowns > d * m:
        graphs.append(problem.fit.intercept_graph)
    T, level = np.eye(n_unknowns), np.zeros(n_unknowns, dtype=bool)
    kept = np.ones(n_unknowns, dtype=bool)
    for j, graph in enumerate(graphs):
        places = np.arange(m) * d + j if j < d else d * m + np.arange(m)
        if j < d and common[j]:
            T[places, places[-1]] = 1.0
            level[places[-1]], kept[places[:-1]] = True, False
        elif graph is not None:
            for label in np.unique(graph.components):
                group = places[graph.components == label]
                T[group, group[-1]] = 1.0
                level[group[-1]] = True
    return T[:, kept], level[kept]


class _Term(NamedTuple):
    """Rows in all unknowns, residuals, and sizes of what these are made of."""

    A: Array
    rho: Array
    size: Array
    is_tie: bool = False  # whether only differences between tasks count


def _prior_rows(
    prior: QuadraticPrior, P: Array, constraints: RowConstraints | None
) -> list[_Term]:
    """The prior as least squares."""
    (d, m), terms = P.shape, []
    if prior.theta > 0 and (prior.D.nnz or prior.target is not None):
        D = np.sqrt(prior.theta) * prior.D.toarray()
        target = np.zeros((len(D), m))
        if prior.target is not None:
            target = np.sqrt(prior.theta) * prior.target
        rho, size = D @ P - target, np.abs(D) @ np.abs(P) + np.abs(target)
        terms.append(_Term(np.kron(np.eye(m), D), rho.T.ravel(), size.T.ravel()))
    if prior.ridge is not None:
        R = np.diag(np.sqrt(prior.ridge))
        rho = (R @ P).T.ravel()
        terms.append(_Term(np.kron(np.eye(m), R), rho, np.abs(rho)))
    B = prior.laplacian.factor()
    if prior.epsilon > 0 and len(B):
        weights = np.ones(d) if prior.tie_weights is None else prior.tie_weights
        if constraints is not None:
            weights = np.where(constraints.common, 0.0, weights)
        root = np.sqrt(prior.epsilon * weights)
        rho = ((B @ (P - P[:, :1]).T) * root).ravel()
        terms.append(_Term(np.kron(B, np.diag(root)), rho, np.abs(rho), True))
    return terms


def _intercept_rows(intercepts: Any, centre: Array, b: Array) -> _Term:
    """Ties of intercepts, which are unknowns at the features' centre."""
    B = np.sqrt(intercepts.tie_strength) * intercepts.graph.factor()
    rho = B @ (b - b[0])
    return _Term(np.hstack([np.kron(B, -centre), B]), rho, np.abs(rho), True)


def _in_basis(terms: list[_Term], basis: Array, level: NDArray[np.bool_]) -> _Rows:
    """All rows one below the other; ties have no part in what tasks share, exactly."""
    rows, columns = [np.zeros((0, basis.shape[1]))], len(basis)
    for term in terms:
        A = np.pad(term.A, ((0, 0), (0, columns - term.A.shape[1]))) @ basis
        if term.is_tie:
            A[:, level] = 0.0
        rows.append(A)
    rho = np.concatenate([np.zeros(0), *(term.rho for term in terms)])
    size = np.concatenate([np.zeros(0), *(term.size for term in terms)])
    return _Rows(np.vstack(rows), rho, 2.0 * EPS * size)
