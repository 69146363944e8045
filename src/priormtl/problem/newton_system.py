"""Newton systems of the smooth part: (H + ρ D) V = −g, also where H is singular.

H = blockdiag(X_iᵀX_i) + θ DᵀD + ε L over all tasks, intercepts minimised out; ρ D is a
ridge of a few rounding errors of each feature's curvature. With collinear, constant or
one-hot columns H is singular; along its null space the gradient holds rounding errors
only, and the ridge keeps them from becoming large coefficients. The system is solved by
conjugate gradients, preconditioned by an exact block elimination over the task graph.

Tied intercepts are unknowns of the elimination, counted from the features' common
centre c: with b_i = a_i − cᵀp_i the tie s · L of the b_i becomes s t tᵀ ⊗ L on the rows
(a, P), t = (1, −c). So offsets of the features cost no digits in any block.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from scipy.sparse import issparse

from priormtl._arrays import Array
from priormtl._numerics import (
    EPS,
    HIDDEN,
    RIDGE,
    ROUNDING,
    TIE_RIDGE,
    ConjugateGradients,
    conjugate_gradients,
)
from priormtl.data import CentredSamples
from priormtl.losses import MultinomialFit, SquaredFit
from priormtl.problem.elimination import Elimination, plan_elimination
from priormtl.problem.quadratic import QuadraticPrior

if TYPE_CHECKING:
    from priormtl.problem.objective import Point, Problem

STRONGEST_TIE = 1e8  # in the preconditioner, relative to the data's curvature
MOST_NUMBERS = 2**25  # in the blocks of an elimination: 256 MB
SINGULAR = 1e-9  # pivots relative to a feature's curvature: half of all digits
FEW_UNKNOWNS = 250  # for which a decomposition takes a few milliseconds

Preconditioner = Callable[[Array], Array]
MEMO = "preconditioner of Newton systems"


class NewtonStep(NamedTuple):
    """Solution of a Newton system, and what it says about the quadratic model."""

    direction: Array  # V (d, m)
    decrease: float  # by which V lowers the model
    left: float  # by which any other direction could lower it further, at most
    is_flat: bool = False  # whether the optimum may be far from where V ends


def solve_newton_system(
    problem: "Problem", point: "Point", pull: Array | None = None
) -> NewtonStep:
    """Solve Hessian · V = −gradient of fit + prior at a point.

    With ``pull`` (d, m), the same for fit(P) + prior(P) + ⟨pull, P⟩.

    Of the gradient, the part along which the point may move counts, and rows of common
    effects of V are the same in all tasks. Directions whose curvature is below the
    ridge, and which have a slope beyond rounding errors all the same, could gain
    anything: ``left`` is then infinite, unless samples are at hand to tell.
    """
    system, constraints = _system(problem, point), problem.constraints
    is_held = False
    if pull is None:
        gradient = problem.free_gradient(point)
        is_held = constraints is not None and bool(constraints.signs.any())
    else:
        gradient = point.gradient + pull
        gradient = gradient if constraints is None else constraints.level(gradient)
    small = point.coef.size <= FEW_UNKNOWNS and not is_held
    by_samples = problem.fit.rows_per_task is not None
    if system.is_singular and by_samples and small:
        exact = _solve_orthogonally(problem, point, system, pull)
        if exact is not None:
            return exact
    ridge = system.ridge[:, np.newaxis]
    run = ConjugateGradients(system.precondition, -gradient)
    first, decrease = run.size, 0.0
    for _ in range(system.most_steps):
        if run.size <= 1e-20 * first:
            break
        p = run.direction
        product = problem.hessian(point, p)
        if constraints is not None:
            product = constraints.level(product)
        bend = max(0.0, float(np.vdot(p, product))) + float(np.vdot(p, ridge * p))
        gain = 0.5 * run.size * run.size / bend if bend > 0.0 else np.inf
        # No sum of squares falls below zero: what promises more is rounding. (Models
        # of other losses may.)
        bounded = problem.fit.is_quadratic
        if gain == np.inf or (bounded and decrease + gain > 1.001 * point.value):
            run.size = np.inf
            break
        run.step(product + ridge * p, bend)
        decrease += gain
    x = run.x
    # A direction of curvature c gains (1 + ρ/c) times as much without the ridge.
    held = 0.5 * float(np.vdot(x, ridge * x))
    left = 2.0 * held + 0.5 * max(run.size, 0.0)
    if problem.fit.is_quadratic:
        # The bound on rounding errors is generous where offsets are large: what would
        # show in the value is none.
        noise = system.slope_noise(problem, point, np.abs(x))
        if 2.0 * held > min(noise, HIDDEN * point.value + problem.fit.noise):
            left = np.inf
    else:
        # What the model still promises where the ridge has held the step back.
        back = run.rest + ridge * x
        promise = float(np.vdot(back, system.precondition(back)))
        # A Newton step may miss a small share; slopes of less are rounding errors.
        if promise > max(1e-4 * first, 1e-17 * point.value):
            left = np.inf
    if left == np.inf and not is_held and (point.coef.any() or not x.any()):
        orthogonal = _solve_orthogonally(problem, point, system, pull)
        return orthogonal or NewtonStep(x, decrease, left)
    return NewtonStep(x, decrease, left)


def solve_along(
    problem: "Problem",
    point: "Point",
    free: NDArray[np.bool_],
    *,
    near: "Point | None" = None,
    less: Callable[[Array], Array] | None = None,
    tol: float = 1e-2,
) -> Array:
    """Newton direction along some entries of P, about; the others stay as they are.

    ``near`` is a point whose system is at hand, and close enough to precondition with.
    ``less`` is what the Hessian is to lack of the problem's.
    """
    at = near or point
    system, constraints = at.__dict__.get(MEMO), problem.constraints
    if system is None:
        system = at.__dict__[MEMO] = _system(problem, at, is_rough=True)
    ridge = system.ridge[:, np.newaxis]

    def project(V: Array) -> Array:
        kept = problem.balance(np.where(free, V, 0.0))
        return kept if constraints is None else constraints.level(kept)

    def multiply(p: Array, _: Array) -> Array:
        product = problem.hessian(point, p)
        if less is not None:
            product = product - less(p)
        return project(product) + ridge * p

    return conjugate_gradients(
        lambda r: project(system.precondition(project(r))),
        multiply,
        -project(point.gradient),
        tol,  # the next point has another Hessian
        system.most_steps,
    )


def is_near_singular(problem: "Problem", point: "Point") -> bool:
    """Whether some direction has hardly any curvature, or may have."""
    return _system(problem, point).is_singular


class _System(NamedTuple):
    """What does not depend on the gradient."""

    precondition: Preconditioner
    ridge: Array  # (d,)
    root: Array  # (d, m) roots of the diagonal of H
    raw: Array  # (d, m) roots of sums of squares about zero
    most_steps: int
    noise: Array  # (m,) relative rounding errors of gradients
    is_singular: bool  # whether some direction has hardly any curvature, or may have

    def slope_noise(self, problem: "Problem", point: "Point", step: Array) -> float:
        """Rounding errors of the slope along a step, from what it is made of.

        Entries of X are themselves rounded: differences of columns that are smaller
        than that say nothing, however large the offsets that they share.
        """
        terms = np.sum(self.root * (np.abs(point.coef) + step), axis=0)
        terms = terms + np.sqrt(2.0 * problem.fit.magnitude)
        sums = np.sum(self.root * step, axis=0) @ (self.noise * terms)
        raw = np.sqrt(np.sum(np.sum(self.raw * step, axis=0) ** 2))
        return float(sums + ROUNDING * raw * np.sqrt(2.0 * point.fit.value))


def _solve_orthogonally(
    problem: "Problem",
    point: "Point",
    system: "_System",
    pull: Array | None = None,
) -> NewtonStep | None:
    """The same by a singular value decomposition of all rows, for small problems.

    Products are never squared: columns that differ in their tenth digit are told apart
    where samples are at hand. Columns count as equal where they differ by rounding
    errors of what they are made of. None where the problem is too large.
    """
    fit, prior = problem.fit, problem.prior
    d, m = problem.shape
    # Larger decompositions take seconds, and classes may have common effects each.
    rows = problem.constraints
    by_class = rows is not None and rows.classes > 1 and bool(rows.common.any())
    if d * m > 800 or by_class:
        return None
    model = fit.least_squares(point.fit)
    if not isinstance(model, SquaredFit):
        return None
    if model.intercept_graph not in (None, prior.laplacian):
        return None
    fit = model
    A, rest = _all_rows(fit, prior, point)
    raw = np.zeros(A.shape[1])
    raw[: d * m] = fit.offsets().T.ravel()
    # Common effects have one column; those of the other tasks stay empty.
    common = np.zeros(d, dtype=bool)
    if problem.constraints is not None:
        common = problem.constraints.common
    for all_tasks in (np.arange(m) * d + j for j in np.flatnonzero(common)):
        A[:, all_tasks[0]] = A[:, all_tasks].sum(axis=1)
        raw[all_tasks[0]] = raw[all_tasks].sum()
        A[:, all_tasks[1:]], raw[all_tasks[1:]] = 0.0, 0.0
    length = np.sqrt(np.einsum("ij,ij->j", A, A) + raw)
    length = np.where(length > 0, length, 1.0)
    U, sizes, Vt = np.linalg.svd(A / length, full_matrices=False)
    by_samples = fit.rows_per_task is not None
    digits = 2.0 * EPS * sum(A.shape)
    kept = sizes > (digits if by_samples else np.sqrt(digits)) * sizes[0]
    parts = U[:, kept].T @ rest
    gradient = point.gradient
    if pull is not None:
        gradient = gradient + pull
        own = np.zeros(A.shape[1])
        own[: d * m] = np.where(
            common, pull.sum(axis=1, keepdims=True).T, pull.T
        ).ravel()
        parts = parts - (Vt[kept] @ (own / length)) / sizes[kept]
    V = ((parts / sizes[kept]) @ Vt[kept] / length)[: d * m].reshape(m, d).T
    V[common] = V[common, :1]
    left = 0.0
    if not by_samples or pull is not None:
        # Squared products do not tell whether what was left out could gain anything,
        # and nothing but the data says that a pull has no part there.
        floor = digits**2 if by_samples else digits
        least = np.maximum(sizes[~kept] ** 2, floor * sizes[0] ** 2)
        for step, curvature in zip(Vt[~kept] / length, least, strict=True):
            direction = step[: d * m].reshape(m, d).T
            direction[common] = direction[common, :1]
            slope = abs(float(np.vdot(direction, gradient)))
            noise = system.slope_noise(problem, point, np.abs(direction))
            gain = 0.5 * slope * slope / curvature
            if slope > noise or gain > HIDDEN * point.value + problem.fit.noise:
                left = np.inf
    decrease, is_flat = 0.5 * float(parts @ parts), fit is not problem.fit
    return NewtonStep(np.ascontiguousarray(V), decrease, left, is_flat)


def _all_rows(
    fit: SquaredFit, prior: QuadraticPrior, point: "Point"
) -> tuple[Array, Array]:
    """Fit and prior as least squares in all unknowns, and their residuals at a point.

    Unknowns are the coefficients, task by task, then tied intercepts about the centre.
    """
    d, m = fit.shape
    P = point.coef
    tied = fit.intercept_graph is not None
    data, rest, _ = data_rows(fit, point)
    blocks, residuals = [data], [rest]

    def add(rows: Array, rest: Array) -> None:
        missing = (d + tied) * m - rows.shape[1]
        blocks.append(np.pad(rows, ((0, 0), (0, missing))))
        residuals.append(rest)

    B = prior.laplacian.factor()
    weights = np.ones(d) if prior.tie_weights is None else prior.tie_weights
    roots = np.sqrt(prior.epsilon * weights)
    if prior.epsilon > 0 and len(B):
        # Row (edge, feature): √ε_j (p_a − p_b)_j.
        add(np.kron(B, np.diag(roots)), -((B @ P.T) * roots).ravel())
    if tied and len(B):
        root = np.sqrt(fit.intercepts.tie_strength)
        b = fit.centred_intercept(P)
        add(root * np.hstack([np.kron(B, -fit.centre), B]), -root * (B @ b))
    if prior.theta > 0 and prior.D.nnz:
        D = np.sqrt(prior.theta) * prior.D.toarray()
        target = 0.0 if prior.target is None else np.sqrt(prior.theta) * prior.target
        add(np.kron(np.eye(m), D), (target - D @ P).T.ravel())
    if prior.ridge is not None:
        R = np.diag(np.sqrt(prior.ridge))
        add(np.kron(np.eye(m), R), -(R @ P).T.ravel())
    return np.vstack(blocks), np.concatenate(residuals)


def data_rows(fit: SquaredFit, point: "Point") -> tuple[Array, Array, Array]:
    """The same for the fit alone, without ties of intercepts; rounding of residuals."""
    (d, m), P = fit.shape, point.coef
    n_unknowns = d * m + (0 if fit.intercept_graph is None else m)
    blocks, residuals, noises = [], [], []
    for i, (X, rest, noise) in enumerate(fit.task_rows(P)):
        rows = np.zeros((len(X), n_unknowns))
        rows[:, i * d : (i + 1) * d] = X
        blocks.append(rows)
        residuals.append(rest)
        noises.append(noise)
    if not fit.means_are_free:
        means, rest = fit.mean_rows(P)
        rows = np.zeros((m, n_unknowns))
        rows[:, : d * m] = np.einsum("ij,ik->ijk", np.eye(m), means).reshape(m, -1)
        if n_unknowns > d * m:
            rows[:, d * m :] = np.diag(np.sqrt(fit.moments.weight))
        blocks.append(rows)
        residuals.append(rest)
        size = np.sum(np.abs(means.T * P), axis=0)
        noises.append(2.0 * EPS * (2.0 * size + np.abs(rest)))
    return np.vstack(blocks), np.concatenate(residuals), np.concatenate(noises)


def _system(problem: "Problem", point: "Point", *, is_rough: bool = False) -> _System:
    """Preconditioner and scales, kept where the Hessian is the same everywhere.

    Rough ones are for a few digits: classes are not coupled where that takes longer.
    """
    fit = problem.fit
    known = problem.memo.get(MEMO)
    if known is not None and known[0] is fit and known[1] is problem.prior:
        return known[2]
    common = np.zeros(problem.shape[0], dtype=bool)
    if problem.constraints is not None:
        common = problem.constraints.common
    if isinstance(fit, MultinomialFit):
        found = _class_system(problem, fit, point, common, is_rough=is_rough)
    else:
        model = fit.quadratic_model(point.fit)
        found = _make_system(model, problem.prior, problem.shape, common)
    if fit.is_quadratic:
        problem.memo[MEMO] = fit, problem.prior, found
    return found


def _class_system(
    problem: "Problem",
    fit: MultinomialFit,
    point: "Point",
    common: NDArray[np.bool_],
    *,
    is_rough: bool,
) -> _System:
    """System of classes: all at once by elimination, or where that is large one by one.

    What tasks have of their own, in all classes, is a block of the elimination; common
    effects are its border. Nothing else is ever formed task by task.
    """
    prior = problem.prior
    if prior.laplacian.part is not None:
        prior = replace(prior, laplacian=prior.laplacian.part, target=None)
    K, graph = fit.data.classes, prior.laplacian
    m, own, order = graph.m, np.flatnonzero(~common), plan_elimination(graph)
    k = K * (len(own) + (not fit.intercepts.are_fixed))
    chance = point.fit.slopes + fit.data.y  # type: ignore[attr-defined]
    bends = fit.data.weight * chance * (1.0 - chance)
    data = fit.square_sums(bends) + prior.relation.diagonal()[:, np.newaxis]
    scale = data.mean(axis=1)
    least = RIDGE * (10 + len(scale)) * np.where(scale > 0, scale, 1.0)
    exact = None
    size = 0 if order is None else order.n_blocks * k * (k + K * int(common.sum()))
    # For a few digits classes need no coupling where their mean is left out: along it
    # samples have no curvature. Common effects leave few unknowns of a task, in all
    # classes, which are eliminated in less time than those of each class.
    most_coupled = 128 if common.any() or not problem.is_balanced else 0
    pays = size <= MOST_NUMBERS and not (is_rough and k > most_coupled)
    if order is not None and pays:
        exact = _eliminate_classes(prior, fit, point, order, least, common)
    root, noise = np.sqrt(data), np.full(K * m, ROUNDING)
    if exact is not None:
        solve, is_singular = exact
        return _System(solve, least, root, root, 200, noise, is_singular)
    if common.any():
        models = fit.class_models(point.fit)  # type: ignore[arg-type]
    else:  # all at once, which takes fewer calls
        models, prior = [fit.quadratic_model(point.fit)], problem.prior  # type: ignore[arg-type]
    parts = [_make_system(model, prior, model.shape, common) for model in models]

    def precondition(rest: Array) -> Array:
        pairs = zip(parts, np.split(rest, len(parts), axis=1), strict=True)
        return np.hstack([part.precondition(rows) for part, rows in pairs])

    steps = max(part.most_steps for part in parts)
    singular = any(part.is_singular for part in parts)
    return _System(precondition, least, root, root, steps, noise, singular)


def _eliminate_classes(
    prior: QuadraticPrior,
    fit: MultinomialFit,
    point: "Point",
    order: Elimination,
    least: Array,
    common: NDArray[np.bool_],
) -> tuple[Preconditioner, bool] | None:
    """Inverse of the Hessian of K classes plus a ridge; None where it fails.

    The second of two is whether H is near singular.
    """
    own, shared = np.flatnonzero(~common), np.flatnonzero(common)
    inner, border, corner = fit.hessian_blocks(point.fit, own, shared)  # type: ignore[arg-type]
    (m, k, q), K, nodes = border.shape, fit.data.classes, order.graph.n_nodes
    extra = k // K - len(own)  # whether there are intercepts
    ones, relation = np.eye(K), prior.relation.toarray()
    beside = np.zeros((k // K, k // K))
    beside[extra:, extra:] = relation[np.ix_(own, own)]
    inner += np.kron(ones, beside)
    across = np.vstack([np.zeros((extra, len(shared))), relation[np.ix_(own, shared)]])
    border += np.kron(ones, across)
    corner += m * np.kron(ones, relation[np.ix_(shared, shared)])
    weights = np.ones(len(common)) if prior.tie_weights is None else prior.tie_weights
    level = np.full(extra, RIDGE * float(fit.data.weight.mean()))
    ridge = np.tile(np.concatenate([level, least[own]]), K)
    scale = np.maximum(np.einsum("ijj->j", inner) / m, ridge)
    tie = np.concatenate(
        [np.full(extra, fit.intercepts.tie_strength), prior.epsilon * weights[own]]
    )
    # As in `_eliminate`.
    tie = np.minimum(np.tile(tie, K), STRONGEST_TIE * scale)
    steps, least_shared = np.arange(k), m * np.tile(least[shared], K)
    pivots, sides = np.zeros((nodes, k, k)), np.zeros((nodes, k, q))
    pivots[:m], sides[:m] = inner, border
    while True:
        trial = pivots.copy()
        trial[:, steps, steps] += ridge
        try:
            factor = order.factorise(trial, tie, overwrite=True)
            left = corner - factor.form(sides)
            root = np.linalg.cholesky(left + np.diag(least_shared))
            break
        except np.linalg.LinAlgError:  # rounding: a larger ridge factorises
            ridge, least_shared = 100.0 * ridge, 100.0 * least_shared
            if np.all(ridge > 1e-2 * scale):
                return None
    d = len(common)

    def solve(rest: Array) -> Array:
        # From (d, class, task) to blocks of tasks, and back.
        by_class = rest.reshape(d, K, m)
        padded = np.zeros((nodes, k, 1))
        parts = padded[:m, :, 0].reshape(m, K, -1)
        parts[:, :, extra:] = by_class[own].transpose(2, 1, 0)
        padded[:m, :, 0] = parts.reshape(m, k)
        found = factor.solve(padded)
        out = np.empty_like(by_class)
        if q:
            total = by_class[shared].sum(axis=2).T.ravel()
            total -= np.tensordot(sides, found[:, :, 0], axes=([0, 1], [0, 1]))
            effects = cho_solve((root, True), total, check_finite=False)
            found = factor.solve(padded - sides @ effects[:, np.newaxis])
            out[shared] = effects.reshape(K, -1).T[:, :, np.newaxis]
        parts = found[:m, :, 0].reshape(m, K, -1)
        out[own] = parts[:, :, extra:].transpose(2, 1, 0)
        return out.reshape(rest.shape)

    floor = SINGULAR * scale + 100.0 * EPS * m * tie
    seen = np.tile(np.arange(k // K) >= extra, K)  # levels of classes are always flat
    is_singular = bool(np.any((factor.least_pivots < floor)[seen]))
    flat = SINGULAR * np.maximum(corner.diagonal(), least_shared)
    is_singular |= bool(np.any(root.diagonal() ** 2 < flat))
    return solve, is_singular


def _make_system(
    model: Any,
    prior: QuadraticPrior,
    shape: tuple[int, int],
    common: NDArray[np.bool_],
) -> _System:
    d, m = shape
    most_plain_steps = 5000  # without an elimination
    if not isinstance(model, SquaredFit):
        ones = np.ones(shape)
        noise = np.full(m, ROUNDING)
        return _System(
            lambda r: r, np.full(d, RIDGE), ones, ones, most_plain_steps, noise, True
        )
    weights = np.ones(d) if prior.tie_weights is None else prior.tie_weights
    ties = np.where(common, 0.0, prior.epsilon * weights)
    data = model.curvatures() + prior.relation.diagonal()[:, np.newaxis]
    root = np.sqrt(data)
    moments = model.moments
    raw = np.sqrt(data + model.offsets())
    # Offsets bring rounding errors of their own into slopes, which must not become
    # large coefficients either.
    scale, offset = data.mean(axis=1), (raw**2).mean(axis=1)
    seen = scale > (64.0 * EPS) ** 2 * offset
    scale = scale + 0.01 * np.sqrt(scale * offset)
    scale = np.where(seen, scale, np.where(offset > 0, offset, 1.0))
    noise = ROUNDING + 0.5 * EPS * np.sqrt(moments.weight)
    order = plan_elimination(prior.laplacian)
    extra = int(model.intercept_graph is not None)
    alone = not extra or model.intercept_graph is prior.laplacian
    # Strong ties are known to rounding errors, too, also where they cancel.
    stiff = ties.copy()
    if extra:
        stiff += model.intercepts.tie_strength * model.centre**2
    stiff *= TIE_RIDGE * float(prior.laplacian.degree.mean())
    share = RIDGE * (10 + d + extra)
    # Tasks may agree along directions that only the data bend, however little.
    ridge = share * scale + np.minimum(stiff, 1e-6 * scale)
    found, steps, k = None, 200, d + extra
    n_own = k - int(common.sum())  # rows of blocks; the others are a border
    n_blocks = 0 if order is None else order.n_blocks
    size = max(n_blocks * n_own * k, m * k**2)
    if order is not None and size <= MOST_NUMBERS and alone:
        found = _eliminate(model, prior, order, ties, share * scale, common)
    if found is None:
        tied = np.outer(ties, prior.laplacian.degree)
        stiffness = data + tied + ridge[:, np.newaxis]
        stiffness[common] = stiffness[common].mean(axis=1, keepdims=True)
        inverse = 1.0 / stiffness
        found, steps = ((lambda r: inverse * r), True), most_plain_steps
    solve, is_singular = found
    if isinstance(moments, CentredSamples) and issparse(moments.data.X):
        # Products of sparse rows are centred afterwards, and lose as many digits.
        spread = moments.squared_deviations().T
        is_singular |= bool(np.any(EPS * model.offsets() > SINGULAR * spread))
    return _System(solve, ridge, root, raw, steps, noise, is_singular)


def _eliminate(
    model: SquaredFit,
    prior: QuadraticPrior,
    order: Elimination,
    ties: Array,
    least: Array,
    common: NDArray[np.bool_],
) -> tuple[Preconditioner, bool] | None:
    """Inverse of H plus a ridge, by elimination of tasks; None where it fails.

    Common effects are a border of the system of all others: what is left of them after
    these is a matrix over common effects alone. The second of two is whether a pivot,
    hence H, is near singular.
    """
    d, m = model.shape
    n_nodes = order.graph.n_nodes

    def build() -> tuple[Array, Array]:
        gram, centre = model.centred_blocks()
        if prior.relation.nnz:
            gram, extra = np.array(gram), gram.shape[1] - d
            gram[:, extra:, extra:] += prior.relation.toarray()
        return gram, centre

    gram, centre = build()
    extra = gram.shape[1] - d
    ridge = least
    if extra:
        ridge = np.concatenate([[RIDGE * model.moments.weight.mean()], least])
    scale = np.maximum(np.einsum("ijj->j", gram) / len(gram), ridge)
    # Ties beyond all proportion would leave no digits for what they tie; weaker ones
    # in the preconditioner cost a few steps of conjugate gradients.
    tie = np.minimum(ties, STRONGEST_TIE * scale[extra:])
    if extra:
        t = np.concatenate([[1.0], -centre])
        near = t != 0
        most = STRONGEST_TIE * float(
            np.min(scale[near] / np.maximum(t[near] ** 2, 1e-200))
        )
        strength = min(model.intercepts.tie_strength, most)
        tie = strength * np.outer(t, t) + np.diag(np.concatenate([[0.0], tie]))
    shared, own = extra + np.flatnonzero(common), np.arange(d + extra)
    if len(shared):
        own = np.setdiff1d(own, shared)
        tie = tie[own] if tie.ndim == 1 else tie[np.ix_(own, own)]
    border = np.zeros((n_nodes, len(own), len(shared)))
    border[:m] = gram[:, own[:, np.newaxis], shared]
    block = gram[:, shared[:, np.newaxis], shared]
    corner = block.sum(axis=0) * (m / len(block))
    steps = np.arange(len(own))
    while True:
        pivots = np.zeros((n_nodes, len(own), len(own)))
        pivots[:m] = gram[:, own[:, np.newaxis], own] if len(shared) else gram
        pivots[:, steps, steps] += ridge[own]
        del gram  # as large as the data; blocks of pivots become those of the factor
        try:
            factor = order.factorise(pivots, tie, overwrite=True)
            left = corner + m * np.diag(ridge[shared])
            if len(shared):
                left -= factor.form(border)
            root = np.linalg.cholesky(left)
            break
        except np.linalg.LinAlgError:  # rounding: a larger ridge factorises
            ridge = 100.0 * ridge
            if np.all(ridge > 1e-2 * scale):
                return None
            gram, _ = build()
    del pivots
    inner = own[extra:] - extra

    def solve(rest: Array) -> Array:
        padded = np.zeros((n_nodes, len(own), 1))
        padded[:m, extra:, 0] = rest[inner].T
        found = factor.solve(padded)
        out = np.empty_like(rest)
        if len(shared):
            total = rest[common].sum(axis=1)
            total -= np.tensordot(border, found[:, :, 0], axes=([0, 1], [0, 1]))
            effects = cho_solve((root, True), total, check_finite=False)
            found = factor.solve(padded - border @ effects[:, np.newaxis])
            out[common] = effects[:, np.newaxis]
        out[inner] = found[:m, extra:, 0].T
        return out

    stiff = np.diag(tie) if tie.ndim == 2 else tie
    floor = SINGULAR * scale[own] + 100.0 * EPS * m * stiff
    is_singular = bool(np.any(factor.least_pivots < floor))
    # Shared pivots are what is left after all tasks have had their say.
    is_singular |= bool(np.any(root.diagonal() ** 2 < SINGULAR * m * scale[shared]))
    return solve, is_singular
