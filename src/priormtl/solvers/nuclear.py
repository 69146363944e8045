"""Nuclear norm: Newton's method along matrices of fixed rank, started by ADMM.

Minimises f(P) + lam ‖P‖_* for a quadratic f: squared loss with its prior, or the model
of another loss. Among matrices of one rank r the objective is smooth. Proximal gradient
steps find the rank of the optimum, and Newton steps along that rank converge fast
(Bareilles, Iutzeler and Malick, "Newton acceleration on manifolds identified by
proximal gradient methods", Mathematical Programming 200, 2023).

At P = U diag(s) Vᵀ the tangent space is {Zᵀ Vᵀ + U Yᵀ : VᵀY = 0}, and the gradient of
the nuclear norm in it is U Vᵀ (Vandereycken, "Low-rank matrix completion by Riemannian
optimization", SIAM Journal on Optimization 23, 2013). Newton's equations in (Z, Y) are
solved by preconditioned conjugate gradients (`kernels.nuclear`).
"""

from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from priormtl._arrays import Array
from priormtl._lazy import cached_property
from priormtl._numerics import ROUNDING, SUFFICIENT, VANISHING, line_search
from priormtl.penalties import Factors, Nuclear
from priormtl.priors.graphs import Laplacian
from priormtl.problem import Point, Problem
from priormtl.solvers.first_order import initial_curvature
from priormtl.solvers.splitting import Iterate, Splitting, adapt_rho

if TYPE_CHECKING:
    from priormtl.solvers.kernels import nuclear as kernels

# The method.
DECREASE = 0.1  # lam of one stage over that of the stage before
# Newton's equations.
FINEST, COARSEST = 0.01, 0.1  # relative errors of conjugate gradients
MOST_CLIPPED = 0.5  # of the normal part, far from the optimum
DAMPING = 0.1  # of the penalty's curvature, per unit of relative slope
SMALL = 64  # features up to which blocks of every rank are inverted
FLOOR = 1e-10  # relative to the diagonal; keeps inverses positive


def _load() -> ModuleType:
    """Compiled loops, imported at first use: Numba takes long to load."""
    from priormtl.solvers.kernels import nuclear  # noqa: PLC0415

    return nuclear


@dataclass(frozen=True, eq=False)
class NuclearNewtonState:
    """State of Newton's method."""

    point: Point
    factors: Factors  # of the point's P
    quadratic: "Quadratic"
    lam: float  # of this stage; falls to the problem's
    curvature: float  # inverse length of proximal steps; never decreases
    settled: bool  # whether the slope was small relative to lam


@dataclass(frozen=True)
class NuclearNewton:
    """Newton's method for squared loss with the nuclear norm, on Gram matrices.

    A step solves Newton's equations in the tangent space of the present rank, and takes
    a proximal gradient step from there, which may change the rank. From zero, a small
    lam is approached in stages of larger ones.
    """

    check_every: ClassVar[int] = 1

    @staticmethod
    def fits(problem: Problem) -> bool:
        """Whether ties of intercepts, a dense matrix here, are of not too many tasks.

        Other losses fit if their quadratic models do.
        """
        graph = problem.fit.intercept_graph
        return graph is None or graph.m <= 2000

    def start(self, problem: Problem, point: Point) -> NuclearNewtonState:
        if not isinstance(problem.penalty, Nuclear):
            raise TypeError(
                "NuclearNewton needs penalties.Nuclear as penalty: got "
                f"{type(problem.penalty).__name__}; use BlockNewton for rows."
            )
        if not problem.lam > 0:
            raise ValueError(
                f"NuclearNewton needs lam > 0: got {problem.lam}; use Newton."
            )
        d, m = problem.shape
        factors, lam = Factors(np.zeros((d, 0)), np.zeros(0), np.zeros((m, 0))), 0.0
        curvature = 0.0  # the first step from zero finds it
        if point.coef.any():
            factors = _decompose(problem, point.coef, 0.0)
            curvature = initial_curvature(problem, point)
        else:
            lam = DECREASE * problem.lam_max
        quadratic, lam = lay_out(problem), max(problem.lam, lam)
        return NuclearNewtonState(point, factors, quadratic, lam, curvature, False)

    def step(self, problem: Problem, state: NuclearNewtonState) -> NuclearNewtonState:
        """Step until checking the gap is worthwhile: once, near the optimum."""
        for _ in range(10):
            stage = problem
            if state.lam > problem.lam:
                stage = problem.with_strengths(lam=state.lam)
            if len(state.factors.s):
                state, finished = _newton_step(stage, state)
            else:
                state = _leave_zero(stage, state)
                finished = len(state.factors.s) == 0
                state = replace(state, settled=True) if finished else state
            if finished:
                lam = max(problem.lam, DECREASE * state.lam)
                state = replace(state, lam=lam)
            if state.settled and state.lam <= problem.lam:
                break
        return state


def _decompose(problem: Problem, P: Array, step: float) -> Factors:
    """Proximal point of P in factors; the penalty is the nuclear norm."""
    U, s, V = problem.penalty.shrink(P, step)  # type: ignore[attr-defined]
    # Smaller singular values count as zero.
    kept = s > 8.0 * ROUNDING * s.max(initial=0.0)
    return Factors(
        np.ascontiguousarray(U[:, kept]), s[kept], np.ascontiguousarray(V[:, kept])
    )


def _leave_zero(stage: Problem, state: NuclearNewtonState) -> NuclearNewtonState:
    """Proximal gradient step from P = 0 with the best step length.

    From zero all steps lead the same way, D = U diag(σ − lam) Vᵀ of the gradient's
    singular values σ above lam; along it the objective falls by t ‖D‖² − ½ t² ⟨D, HD⟩.
    """
    U, s, V = _decompose(stage, -state.point.gradient, stage.lam)
    if not len(s):
        return replace(state, factors=Factors(U, s, V))
    along = (U * s) @ V.T
    curvature = float(np.vdot(along, state.quadratic.multiply(along)) / (s @ s))
    curvature = curvature if curvature > 0 else state.quadratic.curvature_bound
    if not curvature > 0:  # nothing depends on P: the gradient is rounding
        return replace(state, factors=Factors(U[:, :0], s[:0], V[:, :0]))
    factors = Factors(U, s / curvature, V)
    norm = float(factors.s.sum())
    point = stage.at(along / curvature, near=state.point, norm=norm)
    curvature = max(curvature, state.curvature)
    return replace(state, point=point, factors=factors, curvature=curvature)


def _proximal_step(
    stage: Problem,
    state: NuclearNewtonState,
    coef: Array | None = None,
    gradient: Array | None = None,
) -> NuclearNewtonState:
    """Proximal gradient step from ``coef``, or from where the method is."""
    coef = state.point.coef if coef is None else coef
    gradient = state.point.gradient if gradient is None else gradient
    curvature = state.curvature
    while True:
        target = coef - gradient / curvature
        factors = _decompose(stage, target, stage.lam / curvature)
        norm = float(factors.s.sum())
        point = stage.at(factors.product, near=state.point, norm=norm)
        # The step is admissible if f curves less along it: ⟨ΔP, Δ∇f⟩ ≤ η ‖ΔP‖².
        move, change = point.coef - coef, point.gradient - gradient
        along, length = float(np.vdot(move, change)), float(np.vdot(move, move))
        admissible = not along > curvature * length * (1.0 + 1e-12)
        # Rounding must not let the curvature grow for ever.
        if admissible or curvature > state.quadratic.curvature_bound:
            return replace(state, point=point, factors=factors, curvature=curvature)
        curvature *= 2.0


def _newton_step(
    stage: Problem, state: NuclearNewtonState
) -> tuple[NuclearNewtonState, bool]:
    """Newton step followed by a proximal step; and whether the stage is finished.

    The Newton step is halved until the objective falls enough after the proximal one.
    """
    point, factors, quadratic = state.point, state.factors, state.quadratic
    direction = find_direction(quadratic, factors, point.gradient, stage.lam)
    state = replace(state, settled=direction.slope < 1.0)
    norm = float(factors.s.sum())
    noise = 8.0 * ROUNDING * (point.value + stage.lam * norm)

    def attempt(size: float) -> tuple[NuclearNewtonState, bool] | None:
        moved = direction.move(factors, size)
        gradient = point.gradient + quadratic.multiply(moved - point.coef)
        end = _proximal_step(stage, state, moved, gradient)
        # The change of the objective, as a sum of differences that keep their digits.
        move = end.point.coef - point.coef
        bend = stage.excess(end.point, point)
        stretch = stage.lam * (float(end.factors.s.sum()) - norm)
        change = float(np.vdot(point.gradient, move)) + bend + stretch
        falls = change <= noise - SUFFICIENT * (size * direction.decrease)
        return (end, end.settled and size >= 0.5) if falls else None

    found = line_search(attempt, most=8) if direction.decrease > 0 else None
    if found is not None:
        return found
    # At the very optimum of a stage no direction leads down.
    finished = state.settled and not direction.decrease > 0
    return _proximal_step(stage, state), finished


class Direction(NamedTuple):
    """A tangent vector Zᵀ Vᵀ + U Yᵀ."""

    Z: Array  # (r, d)
    Y: Array  # (m, r), orthogonal to V
    decrease: float  # predicted to first order, per unit of the way
    slope: float  # length of the gradient in the tangent space, relative to lam's

    def move(self, factors: Factors, size: float) -> Array:
        """Go so far; singular values that would turn negative are left out."""
        U, s, V = factors
        core = np.diag(s) + size * (U.T @ self.Z.T)
        left, Y = U * s + size * self.Z.T, size * self.Y
        values, vectors = np.linalg.eigh(0.5 * (core + core.T))
        if values[0] <= VANISHING * values[-1]:
            kept = vectors[:, values > VANISHING * max(values[-1], 0.0)]
            mixer = kept @ kept.T
            left = U @ (mixer @ core @ mixer) + (left - U @ core) @ mixer
            Y = Y @ mixer
        return np.asarray(left @ V.T + U @ Y.T)


def find_direction(
    quadratic: "Quadratic", factors: Factors, gradient: Array, lam: float
) -> Direction:
    """Newton direction of quadratic + lam · nuclear norm at U diag(s) Vᵀ."""
    kernels = _load()
    U, s, V = factors
    gradient = np.ascontiguousarray(gradient.T)
    # Gradient of the objective in the tangent space: lam U Vᵀ is the penalty's.
    slope_Z, slope_Y = V.T @ gradient + lam * U.T, gradient @ U + lam * V
    slope_Y -= V @ (V.T @ slope_Y)
    length = float(np.hypot(np.linalg.norm(slope_Z), np.linalg.norm(slope_Y)))
    slope = length / (lam * len(s) ** 0.5)
    normal = _normal_part(factors, gradient, lam * (1.0 - min(MOST_CLIPPED, slope)))
    base = kernels.BasePoint(U, s, V, normal, lam, min(1.0, DAMPING * slope))
    blocks = _precondition(quadratic, base)
    # Inexact Newton: the nearer the optimum, the smaller the error.
    tol = max(FINEST, min(COARSEST, slope))
    downhill = (-slope_Z, -slope_Y)
    Z, Y, _ = kernels.conjugate_gradients(quadratic.layout, base, blocks, downhill, tol)
    decrease = -float(np.vdot(slope_Z, Z) + np.vdot(slope_Y, Y))
    return Direction(Z, Y, decrease, slope)


def _normal_part(factors: Factors, gradient: Array, limit: float) -> Array:
    """Part of −gradient (m, d) normal to the tangent space, within a limit.

    Beyond lam the rank is going to grow: a model that kept it would have no minimum.
    """
    U, V = factors.U, factors.V
    across = gradient - (gradient @ U) @ U.T
    normal = V @ (V.T @ across) - across
    short = normal @ normal.T if len(normal) < len(U) else normal.T @ normal
    length = max(0.0, float(np.linalg.eigvalsh(short)[-1])) ** 0.5
    return np.asarray(normal * (limit / length) if length > limit else normal)


@dataclass(frozen=True, eq=False)
class Quadratic:
    """Hessian of a squared fit with its prior, laid out for compiled products."""

    layout: "kernels.Quadratic"
    laplacian: Laplacian

    @property
    def has_ties(self) -> bool:
        return bool(self.layout.tie.any())

    @cached_property
    def feature_modes(self) -> tuple[Array, Array] | None:
        """Eigenvalues (d,) and vectors (d, d) of the mean task's Hessian.

        They replace inverses for every rank, which are better for several Gram matrices
        of few features: None.
        """
        layout = self.layout
        if len(layout.gram) > 1 and len(layout.tie) <= SMALL:
            return None
        mean = layout.gram.mean(axis=0)
        if len(layout.coupling):
            weighted = layout.coupling.diagonal()[:, np.newaxis] * layout.means
            mean = mean + weighted.T @ layout.means / len(weighted)
        values, vectors = np.linalg.eigh(mean)
        return np.maximum(values, 0.0), np.ascontiguousarray(vectors)

    @cached_property
    def task_modes(self) -> tuple[Array, Array] | None:
        """Eigenvalues (m,) and vectors (m, m) of L, where ties outweigh the data."""
        gram = self.layout.gram
        ties = self.layout.tie.mean() * self.laplacian.degree.mean()
        weak = ties <= np.einsum("ijj->ij", gram).mean()
        if not self.has_ties or (weak and len(gram) > 1):
            return None
        modes = self.laplacian.modes
        # A copy: compiled code would take read-only arrays for another type.
        return None if modes is None else (modes[0], modes[1].copy())

    @cached_property
    def curvature_bound(self) -> float:
        layout, degree = self.layout, self.laplacian.degree
        squares = np.einsum("ijk,ijk->i", layout.gram, layout.gram)
        ties = 2.0 * float(layout.tie.max(initial=0.0) * degree.max(initial=0.0))
        lengths = np.einsum("ij,ij->i", layout.means, layout.means)
        means = float(np.trace(layout.coupling) * lengths.max(initial=0.0))
        return float(np.sqrt(squares.max())) + ties + means

    def multiply(self, V: Array) -> Array:
        return np.asarray(_load().multiply(self.layout, np.ascontiguousarray(V.T)).T)


def _precondition(
    quadratic: Quadratic, base: "kernels.BasePoint"
) -> "kernels.Preconditioner":
    """Inverse diagonal blocks of the Hessian in the tangent space."""
    layout, U, V = quadratic.layout, base.U, base.V
    (d, r), bend = U.shape, base.lam / base.s
    no_modes = np.zeros((0, 0))
    # Ties along each column of V: vᵀLv (r,).
    along = np.zeros(r)
    if quadratic.has_ties:
        along = np.einsum("ir,ri->r", V, quadratic.laplacian.times(V.T))

    # Rows of Y (m, r, r): tasks, eigenvectors of L, or one block for all.
    half = (layout.gram.reshape(-1, d) @ U).reshape(-1, d, r)
    by_task = np.asarray(U.T @ half)
    if len(layout.coupling):
        means = layout.means @ U
        weighted = layout.coupling.diagonal()[:, np.newaxis] * means
        by_task = by_task + np.einsum("ij,ik->ijk", weighted, means)
    task_modes = quadratic.task_modes
    if quadratic.has_ties:
        tied = U.T @ (layout.tie[:, np.newaxis] * U)
        if task_modes is None:
            degree = quadratic.laplacian.degree
            by_task = by_task + degree[:, np.newaxis, np.newaxis] * tied
        else:
            strengths = task_modes[0][:, np.newaxis, np.newaxis]
            by_task = by_task.mean(axis=0) + strengths * tied
    by_task = _invert_positive(by_task + np.diag(bend))

    # Rows of Z: eigenvectors of the mean task, or a block (d, d) for each rank.
    if quadratic.feature_modes is not None:
        values, vectors = quadratic.feature_modes
        ties = along * layout.tie.mean()
        stiffness = values + (bend + ties)[:, np.newaxis]
        inverse_values = 1.0 / np.maximum(stiffness, FLOOR * values[-1])
        by_rank = vectors[np.newaxis]
    else:
        by_rank = ((V**2).T @ layout.gram.reshape(-1, d * d)).reshape(r, d, d)
        np.einsum("ijj->ij", by_rank)[...] += along[:, np.newaxis] * layout.tie
        if len(layout.coupling):
            spread = V.T[:, :, np.newaxis] * layout.means
            by_rank += np.matmul(spread.transpose(0, 2, 1), layout.coupling @ spread)
        np.einsum("ijj->ij", by_rank)[...] += bend[:, np.newaxis]
        by_rank, inverse_values = _invert_positive(by_rank), no_modes
    task_vectors = no_modes if task_modes is None else task_modes[1]
    return _load().Preconditioner(by_task, task_vectors, by_rank, inverse_values)


def _invert_positive(blocks: Array) -> Array:
    """Inverses of positive matrices, where nearly singular ones stay positive."""
    np.einsum("ijj->ij", blocks)[...] *= 1.0 + FLOOR
    if blocks.shape[1] > SMALL:
        return np.asarray(np.linalg.inv(blocks), dtype=np.float64)
    return np.asarray(_load().invert_positive(blocks))


def lay_out(problem: Problem) -> Quadratic:
    """Hessian of a squared fit with its prior; tied intercepts are minimised out."""
    from priormtl.solvers.kernels.rows import lay_out_graph  # noqa: PLC0415

    prior, form = problem.prior, problem.fit.normal_form()
    d, m = problem.shape
    gram, means, coupling = form.gram, np.zeros((0, d)), np.zeros((0, 0))
    if len(form.intercept_ties):
        # The intercept is the first row. Gram matrices about task means remain, and a
        # curvature in these means: W − W (W + T)⁻¹ W for weights W and ties T of the
        # intercepts, written without cancellation.
        weight, sums = gram[:, 0, 0], gram[:, 0, 1:]
        own_means = sums / weight[:, np.newaxis]
        gram = gram[:, 1:, 1:] - np.einsum("ij,ik->ijk", sums, own_means)
        # Loops would be compiled once more for arrays that cannot be written.
        means = np.require(np.broadcast_to(own_means, (m, d)), requirements=["C", "W"])
        weight, graph = np.broadcast_to(weight, m), problem.fit.intercept_graph
        dense = np.zeros((m, m)) if graph is None else graph.dense()
        ties = form.intercept_ties[0] * dense
        solved = np.linalg.solve(np.diag(weight) + ties, ties)
        coupling = np.asarray(weight[:, np.newaxis] * solved)
    if prior.relation.nnz:
        gram = gram + prior.relation.toarray()
    weights = np.ones(d) if prior.tie_weights is None else prior.tie_weights
    tie = np.zeros(d) if prior.laplacian.is_zero else prior.epsilon * weights
    gram = np.require(gram, requirements=["C", "W"])
    graph_arrays = lay_out_graph(prior.laplacian, sparse=True)
    layout = _load().Quadratic(gram, tie, graph_arrays, means, coupling)
    return Quadratic(layout, prior.laplacian)


@dataclass(frozen=True, eq=False)
class AdmmRounds:
    """ADMM between two checks of the gap."""

    admm: "kernels.Admm"
    gram: Array  # (m, d, d) or (1, d, d)
    now: Iterate  # tasks are rows
    n_rounds: int

    def with_rho(self, rho: float) -> "AdmmRounds":
        """Same with another rho, for which the Hessian is inverted."""
        if rho == self.admm.rho:
            return self
        inverse = _load().invert_positive(self.gram + rho * np.eye(self.gram.shape[1]))
        return replace(self, admm=self.admm._replace(inverse=inverse, rho=rho))


@dataclass(frozen=True, eq=False)
class NuclearSplittingState:
    """State of ADMM, or of the Newton method that follows it."""

    point: Point
    rounds: AdmmRounds | None  # None: Newton's method has taken over
    newton: NuclearNewtonState | None = None


@dataclass(frozen=True)
class NuclearSplitting:
    """ADMM followed by Newton's method, for squared loss with the nuclear norm.

    For small Gram matrices without prior, where ADMM iterations cost little. From zero
    they come near the optimum; ``NuclearNewton`` takes over where they are slow, and
    from any other start.
    """

    check_every: ClassVar[int] = 1

    @staticmethod
    def fits(problem: Problem) -> bool:
        """Whether the penalty is the nuclear norm, and ADMM fits."""
        return isinstance(problem.penalty, Nuclear) and Splitting.fits(problem)

    def start(self, problem: Problem, point: Point) -> NuclearSplittingState:
        """Lay the problem out for ADMM, unless the start is known to be good."""
        if point.coef.any():
            return NuclearSplittingState(point, None)
        start, form = Splitting().start(problem, point), problem.fit.normal_form()
        linear, dual = (np.array(a.T, order="C") for a in (form.linear, start.dual))
        admm = _load().Admm(form.gram, linear, 0.0, float(problem.lam))
        rounds = AdmmRounds(admm, form.gram, Iterate(np.zeros_like(linear), dual), 0)
        # Few singular values have all of lam: hence three times the rho of Splitting.
        return NuclearSplittingState(point, rounds.with_rho(3.0 * start.rho))

    def step(
        self, problem: Problem, state: NuclearSplittingState
    ) -> NuclearSplittingState:
        """A round of ADMM iterations; a Newton step where they do not suffice."""
        after = None
        if state.rounds is not None:
            after = _admm_round(problem, state.point, state.rounds)
        if after is not None:
            return after
        newton = state.newton or NuclearNewton().start(problem, state.point)
        newton = NuclearNewton().step(problem, newton)
        return NuclearSplittingState(newton.point, None, newton)


def _admm_round(
    problem: Problem, point: Point, rounds: AdmmRounds
) -> NuclearSplittingState | None:
    """Iterate a few times, then adapt rho; None where digits do not suffice."""
    iterate, admm = _load().iterate_admm, rounds.admm
    coef, dual = (np.array(a) for a in rounds.now)
    norm = iterate(admm, coef, dual, 4)
    before = Iterate(coef.copy(), dual.copy())
    norm = iterate(admm, coef, dual, 1) if norm >= 0 else norm
    if norm < 0:
        return None
    point, n_rounds = problem.at(coef.T, near=point, norm=norm), rounds.n_rounds + 1
    # Then Newton's method takes over.
    if n_rounds == 30:
        return NuclearSplittingState(point, None)
    rounds = replace(rounds, now=Iterate(coef, dual), n_rounds=n_rounds)
    rho = adapt_rho(problem, rounds.now, before, admm.rho)
    return NuclearSplittingState(point, rounds.with_rho(rho))
