"""NuclearNewton: proximal steps find the rank, Newton steps move along it."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from priormtl._arrays import Array
from priormtl.penalties import Factors, Nuclear
from priormtl.problem import Point, Problem
from priormtl.solvers.first_order import initial_curvature

if TYPE_CHECKING:
    from priormtl.solvers.tangent import Quadratic

__all__ = ["NuclearNewton"]

DESCENT = 0.1  # lam of one stage over that of the stage before
SETTLED = 1.0  # force, in units of the penalty's own, at which a stage is left
MOST_STEPS_UNSEEN = 10
MOST_HALVINGS = 8
MOST_TIED_TASKS = 2000
SUFFICIENT = 1e-4  # share of the promised descent that a step must keep
ROUNDING = 1e-14
SLACK = 1e-12  # relative, in comparing curvatures
VANISHING = 1e-14  # singular values, relative to the largest, that count as zero


class Spot(NamedTuple):
    """A place P with the gradient of the smooth part there."""

    coef: Array
    gradient: Array


@dataclass(frozen=True, eq=False)
class NuclearNewtonState:
    """Where the method stands."""

    point: Point
    factors: Factors  # of the point's P
    quadratic: "Quadratic"
    lam: float  # of this stage; falls to the problem's
    curvature: float  # inverse length of proximal steps; never shrinks
    settled: bool  # whether the slope was small against the penalty's own


@dataclass(frozen=True)
class NuclearNewton:
    """For squared loss with the nuclear norm, written out as Gram matrices.

    Among matrices of one rank the objective is smooth. A step solves Newton's
    equations along those of the present rank, by preconditioned conjugate gradients,
    and takes a proximal gradient step from there, which may change the rank. From
    zero, a small lam is approached in stages of larger ones.
    """

    look_every: ClassVar[int] = 1

    @staticmethod
    def fits(problem: Problem) -> bool:
        """Whether ties of intercepts, a dense matrix here, are of not too many tasks.

        Other losses fit if their quadratic models do.
        """
        graph = problem.fit.intercept_graph
        return graph is None or graph.m <= MOST_TIED_TASKS

    def start(self, problem: Problem, point: Point) -> NuclearNewtonState:
        """Write the problem out and decompose P."""
        # Compiled code loads slowly: only those who need it should wait.
        from priormtl.solvers.tangent import write_out  # noqa: PLC0415

        _check(problem)
        cold = not point.coef.any()
        return NuclearNewtonState(
            point,
            _no_factors(problem) if cold else _decompose(problem, point.coef, 0.0),
            write_out(problem),
            max(problem.lam, DESCENT * problem.lam_max) if cold else problem.lam,
            initial_curvature(problem, point),
            settled=False,
        )

    def step(self, problem: Problem, state: NuclearNewtonState) -> NuclearNewtonState:
        """Step until a look at the gap can tell something: once, near the optimum."""
        for _ in range(MOST_STEPS_UNSEEN):
            state = _step(problem, state)
            if state.settled and state.lam <= problem.lam:
                break
        return state


def _step(problem: Problem, state: NuclearNewtonState) -> NuclearNewtonState:
    """Newton step, if there is a rank to keep, and proximal step."""
    stage = problem
    if state.lam > problem.lam:
        stage = problem.with_strengths(lam=state.lam)
    if len(state.factors.s):
        return _newton_step(problem, stage, state)
    end = _plain_step(stage, state)
    at_zero = len(end.factors.s) == 0
    return _lower(problem, replace(end, settled=True)) if at_zero else end


def _check(problem: Problem) -> None:
    if not isinstance(problem.penalty, Nuclear):
        raise TypeError(
            "NuclearNewton needs penalties.Nuclear as penalty: got "
            f"{type(problem.penalty).__name__}; use BlockNewton for rows."
        )
    if not problem.lam > 0:
        raise ValueError(f"NuclearNewton needs lam > 0: got {problem.lam}; use Newton.")


def _no_factors(problem: Problem) -> Factors:
    d, m = problem.shape
    return Factors(np.zeros((d, 0)), np.zeros(0), np.zeros((m, 0)))


def _decompose(problem: Problem, P: Array, step: float) -> Factors:
    """Proximal point of P in factors; the penalty is the nuclear norm."""
    U, s, V = problem.penalty.shrink(P, step)  # type: ignore[attr-defined]
    kept = s > VANISHING * s.max(initial=0.0)
    return Factors(
        np.ascontiguousarray(U[:, kept]), s[kept], np.ascontiguousarray(V[:, kept])
    )


def _plain_step(stage: Problem, state: NuclearNewtonState) -> NuclearNewtonState:
    """Proximal gradient step from where the method stands."""
    here = Spot(state.point.coef, state.point.gradient)
    return _proximal_step(stage, state, here)


def _proximal_step(
    stage: Problem, state: NuclearNewtonState, base: Spot
) -> NuclearNewtonState:
    """Proximal gradient step from ``base``, as long as its model allows."""
    curvature = state.curvature
    while True:
        target = base.coef - base.gradient / curvature
        factors = _decompose(stage, target, stage.lam / curvature)
        norm = float(factors.s.sum())
        point = stage.at(factors.product, near=state.point, norm=norm)
        # Rounding must not let the curvature grow for ever.
        if _bends_less(point, base, curvature) or curvature > state.quadratic.steepest:
            return replace(state, point=point, factors=factors, curvature=curvature)
        curvature *= 2.0


def _bends_less(point: Point, base: Spot, curvature: float) -> bool:
    """Whether the smooth part between two places bends less than this curvature."""
    move, turn = point.coef - base.coef, point.gradient - base.gradient
    bowl, length = float(np.vdot(move, turn)), float(np.vdot(move, move))
    return not bowl > curvature * length * (1.0 + SLACK)


def _newton_step(
    problem: Problem, stage: Problem, state: NuclearNewtonState
) -> NuclearNewtonState:
    """Halve the Newton step until the objective falls enough after a proximal step."""
    from priormtl.solvers.tangent import find_direction  # noqa: PLC0415

    point, factors, quadratic = state.point, state.factors, state.quadratic
    direction = find_direction(quadratic, factors, point.gradient, stage.lam)
    state = replace(state, settled=direction.force < SETTLED)
    halvings = range(MOST_HALVINGS if direction.promise > 0 else 0)
    for size in (0.5**k for k in halvings):
        moved = direction.move(factors, size)
        turn = quadratic.multiply(moved - point.coef)
        end = _proximal_step(stage, state, Spot(moved, point.gradient + turn))
        if _falls(stage, state, end, size * direction.promise):
            return _lower(problem, end) if end.settled and size >= 0.5 else end
    return _plain_step(stage, state)


def _falls(
    stage: Problem, old: NuclearNewtonState, new: NuclearNewtonState, promise: float
) -> bool:
    """Whether the objective falls enough; written so that differences keep digits."""
    move = new.point.coef - old.point.coef
    bend = stage.excess(new.point, old.point)
    norm = float(old.factors.s.sum())
    stretch = stage.lam * (float(new.factors.s.sum()) - norm)
    change = float(np.vdot(old.point.gradient, move)) + bend + stretch
    noise = ROUNDING * (old.point.value + stage.lam * norm)
    return change <= noise - SUFFICIENT * promise


def _lower(problem: Problem, state: NuclearNewtonState) -> NuclearNewtonState:
    """Next stage: a smaller lam, at last the problem's."""
    return replace(state, lam=max(problem.lam, DESCENT * state.lam))
