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

With K classes S is the largest difference between changes of a sample's scores: the
third moment of these changes is at most that times their variance. Classes that a
sample almost certainly has not are left out of its log Σ e^η, which is less without
them.

All terms are rows of one least-squares problem, A'A = H, A'ρ = g, and λ is the length
of ρ in the range of A. Ties of any strength cost no digits: unknowns are what tied
tasks have in common, and how each differs from one of them.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular
from scipy.sparse import issparse

from priormtl._arrays import Array, Index
from priormtl._numerics import EPS, TINY
from priormtl.losses import Family, FamilyFit, SquaredFit
from priormtl.penalties import RowConstraints
from priormtl.problem.newton_system import FEW_UNKNOWNS, data_rows
from priormtl.problem.quadratic import QuadraticPrior

if TYPE_CHECKING:
    from priormtl.problem.objective import Point, Problem

LONG = np.longdouble  # more digits than double, where the platform has them
NEAR = 0.5  # C λ of a sample up to which its curvature is of use


class _Samples(NamedTuple):
    """Samples as rows of scores, one or K each."""

    family: Family
    rows: Array  # (n, K, unknowns) coefficients task by task, then intercepts
    eta: Array  # (n, K) scores
    y: Array  # (n, K)
    weight: Array  # (n, 1)
    noise: Array  # (n, K) rounding errors of scores
    centre: Array  # (d,) subtracted from the features of the first task
    offset: Array  # (unknowns,) sums of squares of what was, weighted by curvature

    def losses(self) -> Array:
        """Loss of each sample (n,)."""
        return np.sum(self.weight * self.family.loss(self.eta, self.y), axis=1)

    def slopes(self) -> Array:
        """Derivatives of the loss in the scores (n, K)."""
        return self.weight * self.family.slope(self.eta, self.y)

    def curvature_root(self) -> tuple[Array, Array]:
        """That of the family (n, K, K), with its units (n, K)."""
        root, unit = self.family.curvature_root(self.eta, self.y)
        by = np.sqrt(self.weight)
        return by[:, :, np.newaxis] * root, by * unit

    def on(self, left: NDArray[np.bool_]) -> Self:
        """Only these samples."""
        rows, eta, y = self.rows[left], self.eta[left], self.y[left]
        weight, noise = self.weight[left], self.noise[left]
        return self._replace(rows=rows, eta=eta, y=y, weight=weight, noise=noise)

    def without(self, classes: NDArray[np.bool_]) -> Self:
        """Samples that cannot be of these classes (n, K)."""
        # So far below the others that a class has no part in any sum.
        low = self.eta.max(axis=1, keepdims=True) - 1e4
        return self._replace(eta=np.where(classes, low, self.eta))


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

    def data_of(self, samples: _Samples | None) -> tuple[_Rows, Array]:
        """Rows of these samples, weighted by roots of curvatures, and their units."""
        if samples is None:
            assert self.data is not None
            return self.data, np.zeros((0, 1))
        root, unit = samples.curvature_root()
        rows = np.matmul(root, samples.rows @ self.basis)
        rho = samples.slopes() / np.where(unit > 0, unit, 1.0)
        noise = np.matmul(np.abs(root), samples.noise[:, :, np.newaxis])
        data = _Rows(rows.reshape(-1, rows.shape[2]), rho.ravel(), noise.ravel())
        return data, unit


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
    # What the penalty or the constraints add to the gradient, in the basis of unknowns.
    pulls = pull is not None
    if pull is None:
        pull = problem.free_gradient(point) - point.gradient
    slope = np.zeros(len(system.basis))
    slope[: pull.size] = pull.T.ravel()
    samples = system.samples
    if samples is None:
        # Squared loss is quadratic: the decrease of Newton's step, ½ λ² = ½ gᵀH⁻¹g.
        data, _ = system.data_of(None)
        decrement, _ = _decrement(data, system, slope @ system.basis, pulls)
        return 0.5 * decrement**2
    # Samples of which little curvature is left have long rows in H⁻¹, and would make
    # C too large for any bound. Each round takes more of them out of H, at the price of
    # all that their losses could still lose.
    K = samples.eta.shape[1]
    own = samples.y > 0 if K > 1 else np.ones_like(samples.y, dtype=bool)
    far = own & (samples.curvature_root()[1] <= 0.0)
    gain, lost = np.inf, 0.0
    rounds = 6  # each of which costs a decomposition
    for _ in range(rounds):
        losses, gone = samples.losses(), np.any(far & own, axis=1)
        # A loss below log 2 is that of a sample that is decided rightly, if at all.
        is_right = losses < np.log(2.0) * samples.weight[:, 0]
        lost += float(losses[gone & is_right].sum())
        straight = samples.on(gone & ~is_right)
        slope += np.einsum("nk,nku->u", straight.slopes(), straight.rows)
        fewer = samples.without(far & ~own)
        lost += float(np.sum((losses - fewer.losses())[~gone]))
        samples, own = fewer.on(~gone), own[~gone]
        data, unit = system.data_of(samples)
        decrement, length = _decrement(data, system, slope @ system.basis, pulls)
        length = length.reshape(unit.shape)
        reach = np.divide(length, unit, np.zeros_like(unit), where=unit > 0)
        # No two classes differ by more than the widest two do from the mean.
        most = np.sort(reach, axis=1)[:, -2:].sum(axis=1)
        gain = min(gain, lost + _most(decrement, float(most.max(initial=0.0))))
        far = reach > NEAR / (min(K, 2) * max(decrement, TINY))
        if not far.any():
            break
    return gain


def split_flat_part(
    problem: "Problem", point: "Point", pull: Array
) -> tuple[Array, Array]:
    """A slope (d, m) less what lies along directions without curvature, and what must.

    The second is least among those that cancel the slope of fit and prior there, which
    is next to nothing, but gains for ever. Such directions are known for small problems
    only; others keep theirs.
    """
    system, (d, m) = _pose(problem, point), problem.shape
    if system is None:
        return pull, np.zeros_like(pull)
    data, _ = system.data_of(system.samples)
    A = np.vstack([data.A, system.prior.A])
    found = _decompose(A, system.offset)
    flat = found.flat / found.length[:, np.newaxis]
    directions = flat.T @ system.basis[: d * m].T
    lengths = np.linalg.norm(directions, axis=1)
    lengths = np.where(lengths > 0, lengths, 1.0)
    directions /= lengths[:, np.newaxis]
    left = _slope_along(A, flat / lengths, np.concatenate([data.rho, system.prior.rho]))
    inverse, slope = np.linalg.pinv(directions), pull.T.ravel()
    parts = slope - inverse @ (directions @ slope), -inverse @ left
    first, second = (np.ascontiguousarray(p.reshape(m, d).T) for p in parts)
    return first, second


def _slope_along(A: Array, directions: Array, rho: Array) -> Array:
    """ρ'A times each direction, in which A all but cancels."""
    return np.asarray(rho @ (A.astype(LONG) @ directions), dtype=float)


def _pose(problem: "Problem", point: "Point") -> _System | None:
    """The problem at a point as rows; None where it is large, or has no such form."""
    fit: Any = problem.fit
    at: Any = point.fit
    d, m = problem.shape
    is_squared = isinstance(fit, SquaredFit)
    if not (is_squared or isinstance(fit, FamilyFit)):
        return None
    n_rows = m * (d + 2) if is_squared else fit.data.y.size
    # Samples · unknowns² of which a decomposition takes a few milliseconds.
    if d * m > FEW_UNKNOWNS or n_rows * float(d * m) ** 2 > 2e6:
        return None
    # Squared loss leaves out free intercepts.
    without = fit.intercept_graph is None if is_squared else fit.intercepts.are_fixed
    basis, level = _basis(problem, d * m + (0 if without else m))
    data = samples = None
    if is_squared:
        A, rest, noise = data_rows(fit, point)
        data, offset = _Rows(A @ basis, -rest, noise), np.zeros(len(basis))
        offset[: d * m] = fit.offsets().T.ravel()
        centre, b = fit.centre, fit.centred_intercept(point.coef)
    else:
        samples = _samples(fit, at, point.coef)
        centre, b, offset = samples.centre, at.b, samples.offset
    rows = _prior_rows(problem.prior, point.coef, problem.constraints)
    if fit.intercept_graph is not None:
        # Ties of intercepts, which are unknowns at the features' centre.
        B = np.sqrt(fit.intercepts.tie_strength) * fit.intercept_graph.factor()
        rho = B @ fit.intercept_graph.apart(b)
        A = np.hstack([np.kron(B, -centre), B])
        rows.append(_Term(A, rho, np.abs(rho), True))
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


def _decrement(
    data: _Rows, system: _System, slope: Array, pulls: bool
) -> tuple[float, Array]:
    """λ of all rows with an extra slope, and lengths of the samples' rows by H⁻¹.

    A slope along directions without curvature counts by the least one that shows, or
    not at all where it is but the rounding of a larger one. Where that ``pulls``, the
    slope of the rows themselves is added to it.
    """
    prior = system.prior
    A = np.vstack([data.A, prior.A])
    Q, R, flat, length, order, digits = _decompose(A, system.offset)
    slope, rho = slope / length, np.concatenate([data.rho, prior.rho])
    flat_slope = flat.T @ slope
    if pulls:
        flat_slope += _slope_along(A / length, flat, rho)
    along = float(np.linalg.norm(flat_slope))
    if along > 8.0 * EPS * float(np.linalg.norm(slope)):
        # Fewer rows than unknowns leave a null space, where any slope gains for ever.
        along = along / digits if digits > 0 and len(A) >= A.shape[1] else np.inf
    else:
        along = 0.0
    if flat.size and not pulls:
        along = float(np.hypot(along, _prior_part(prior, flat, length, Q, rho)))
    # λ² = g'H⁻¹g = 2 g'x − x'Hx + h'H⁻¹h, h = g − H x, with x near H⁻¹g. Near singular
    # systems leave half the digits of x, so that h is computed with more.
    kept = order[: len(R)]
    slope = slope[kept]
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
    return float(np.hypot(np.sqrt(square), along) + noise), reach


def _prior_part(
    prior: _Rows, flat: Array, length: Array, Q: Array, rho: Array
) -> float:
    """Length of the residuals along directions that only the prior can tell apart."""
    rows = prior.A / length
    rows, least = rows @ flat, 1e3 * EPS * float(np.linalg.norm(rows))
    rows = np.vstack([np.zeros((len(Q) - len(rows), rows.shape[1])), rows])
    rows -= Q @ (Q.T @ rows)
    left, sizes, _ = np.linalg.svd(rows, full_matrices=False)
    return float(np.linalg.norm(rho @ left[:, sizes > least]))


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
    offset, parts = np.zeros(n_unknowns), []
    known = np.zeros_like(fit.data.y)
    if fit.data.offset is not None:
        known = known + fit.data.offset
    offsets, K = replace(fit.data, y=known), fit.family.scores_per_row
    for i in range(m // K):
        columns = i + m // K * np.arange(K)  # of the classes, if there are any
        X, _, w = fit.data.rows_of(i)
        used = w > 0
        X, w = (X.toarray() if issparse(X) else X)[used], w[used, np.newaxis]
        y, known = (
            np.column_stack([data.rows_of(int(j))[1][used] for j in columns])
            for data in (fit.data, offsets)
        )
        rows = np.zeros((len(X), K, n_unknowns))
        for k, j in enumerate(columns):
            rows[:, k, j * d : (j + 1) * d] = X - centre[j]
            if not fixed:
                rows[:, k, d * m + j] = 1.0
        eta = X @ P[:, columns] + b[columns] + known
        noise = np.abs(X) @ np.abs(P[:, columns]) + np.abs(b[columns]) + np.abs(known)
        parts.append((rows, eta, y, w, 2.0 * EPS * noise))
        root, _ = fit.family.curvature_root(eta, y)
        total = np.einsum("n,nkl,nkl->l", w[:, 0], root, root)
        for j, sum_of_bends in zip(columns, total, strict=True):
            place = slice(j * d, (j + 1) * d)
            offset[place] = sum_of_bends * (centre[j] + fit.shift[j]) ** 2
    rows, eta, y, w, noise = map(np.concatenate, zip(*parts, strict=True))
    return _Samples(fit.family, rows, eta, y, w, noise, centre[0], offset)


def _basis(problem: "Problem", n_unknowns: int) -> tuple[Array, NDArray[np.bool_]]:
    """Unknowns as combinations of others, and which of these no tie changes.

    Tied tasks become the last of them, which moves all, and differences from it.
    """
    (d, m), prior = problem.shape, problem.prior
    common, classes = np.zeros(d, dtype=bool), 1
    if problem.constraints is not None:
        common, classes = problem.constraints.common, problem.constraints.classes
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
            for of_class in np.split(places, classes):
                T[of_class, of_class[-1]] = 1.0
                level[of_class[-1]], kept[of_class[:-1]] = True, False
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
        rho = ((B @ prior.laplacian.apart(P).T) * root).ravel()
        terms.append(_Term(np.kron(B, np.diag(root)), rho, np.abs(rho), True))
    return terms


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
