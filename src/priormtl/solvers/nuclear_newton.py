"""NuclearNewton: proximal steps find the rank, Newton steps move along it."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from priormtl._arrays import Array
from priormtl.penalties import Nuclear
from priormtl.problem import Point, Problem
from priormtl.solvers.first_order.steps import fits_model, initial_curvature

if TYPE_CHECKING:
    from priormtl.solvers.tangent import Quadratic

__all__ = ["NuclearNewton"]

DESCENT = 0.1  # lam of one stage over that of the stage before
SETTLED = 0.3  # force, in units of the penalty's, at which a stage is left
FIRST_DAMPING, LEAST_DAMPING = 1e-3, 1e-12  # relative to the curvature
DAMPING_FACTOR = 10.0
MOST_HALVINGS = 8
SUFFICIENT = 1e-4  # share of the promised descent that a step must keep
ROUNDING = 1e-14
MOST_INNER_STEPS = 300
INNER_TOLERANCES = 0.01, 0.1


class Factors(NamedTuple):
    """Thin singular value decomposition, values above zero only."""

    U: Array  # (d, r)
    s: Array  # (r,)
    V: Array  # (m, r)


@dataclass(frozen=True, eq=False)
class NuclearNewtonState:
    """Where the method stands."""

    point: Point
    factors: Factors  # of the point's P
    quadratic: "Quadratic"
    lam: float  # of this stage; falls to the problem's
    curvature: float  # inverse length of proximal steps; never shrinks
    damping: float  # of Newton steps, relative to the curvature


@dataclass(frozen=True)
class NuclearNewton:
    """For squared loss with the nuclear norm, written out as Gram matrices.

    Where the rank stays the same the objective is smooth. A step solves Newton's
    equations along the matrices of the present rank, by preconditioned conjugate
    gradients, and takes a proximal gradient step from there, which may change the
    rank. From zero, small lam is approached in stages of larger ones.
    """

    look_every: ClassVar[int] = 1

    def start(self, problem: Problem, point: Point) -> NuclearNewtonState:
        """Write the problem out and decompose P."""
        # Compiled code loads slowly: only those who need it should wait.
        from priormtl.solvers.tangent import write_out  # noqa: PLC0415

        if not isinstance(problem.penalty, Nuclear):
            raise TypeError("NuclearNewton needs the nuclear norm as penalty.")
        lam = problem.lam
        if not point.coef.any():
            lam = max(lam, DESCENT * problem.lam_max)
        return NuclearNewtonState(
            point,
            _decompose(problem, point.coef, 0.0),
            write_out(problem),
            lam,
            initial_curvature(problem, point),
            FIRST_DAMPING,
        )

    def step(self, problem: Problem, state: NuclearNewtonState) -> NuclearNewtonState:
        """Newton step, if there is a rank to keep, and proximal step."""
        stage = problem
        if state.lam > problem.lam:
            stage = problem.with_strengths(lam=state.lam)
        if len(state.factors.s) == 0:
            return _lower(problem, _proximal_step(stage, state, state.point))
        return _newton_step(problem, stage, state)


def _decompose(problem: Problem, P: Array, step: float) -> Factors:
    """Proximal point of P, in factors."""
    left, values, right = problem.penalty.shrink(P, step)  # type: ignore[attr-defined]
    return Factors(
        np.ascontiguousarray(left), values, np.ascontiguousarray(right.T)
    )


def _proximal_step(
    stage: Problem, state: NuclearNewtonState, base: Point
) -> NuclearNewtonState:
    """Proximal gradient step from ``base``, as long as its model allows."""
    curvature = state.curvature
    while True:
        target = base.coef - base.gradient / curvature
        factors = _decompose(stage, target, stage.lam / curvature)
        P = (factors.U * factors.s) @ factors.V.T
        point = stage.at(P, near=base)
        if fits_model(stage, point, base, curvature) or not np.isfinite(point.value):
            return replace(state, point=point, factors=factors, curvature=curvature)
        curvature *= 2.0


def _lower(problem: Problem, state: NuclearNewtonState) -> NuclearNewtonState:
    """Next stage: a smaller lam, at last the problem's."""
    return replace(state, lam=max(problem.lam, DESCENT * state.lam))


def _newton_step(
    problem: Problem, stage: Problem, state: NuclearNewtonState
) -> NuclearNewtonState:
    """Halve the Newton step until the objective falls enough."""
    from priormtl.solvers.tangent import find_direction  # noqa: PLC0415

    damping = state.damping * state.curvature
    direction = find_direction(
        state.quadratic, state.factors, state.point.gradient, stage.lam, damping
    )
    for halvings in range(MOST_HALVINGS):
        size = 0.5**halvings
        moved = direction.move(state.factors, size)
        end = _proximal_step(stage, state, stage.at(moved, near=state.point))
        if _falls(stage, state, end, size * direction.promise):
            calm = halvings <= 1 and direction.force < SETTLED
            end = _adapt(end, halvings)
            return _lower(problem, end) if calm else end
    end = _proximal_step(stage, state, state.point)
    return _adapt(end, MOST_HALVINGS)


def _falls(
    stage: Problem, before: NuclearNewtonState, after: NuclearNewtonState, promise: float
) -> bool:
    """Whether the objective falls enough; differences keep their digits."""
    move = after.point.coef - before.point.coef
    linear = float(np.vdot(before.point.gradient, move))
    norms = stage.lam * float(after.factors.s.sum() - before.factors.s.sum())
    change = linear + stage.excess(after.point, before.point) + norms
    noise = ROUNDING * (before.point.value + stage.lam * float(before.factors.s.sum()))
    return change <= noise - SUFFICIENT * promise


def _adapt(state: NuclearNewtonState, halvings: int) -> NuclearNewtonState:
    """Damp less after whole steps, more after short ones."""
    if halvings == 0:
        damping = max(LEAST_DAMPING, state.damping / DAMPING_FACTOR)
    else:
        damping = state.damping * (DAMPING_FACTOR if halvings > 1 else 1.0)
    return replace(state, damping=min(1.0, damping))
