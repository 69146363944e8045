"""BlockNewton: sweeps over rows find which are zero, Newton steps do the rest."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from priormtl._arrays import Array
from priormtl.problem import BlockQuadratic, Point, Problem

if TYPE_CHECKING:
    from priormtl.solvers.engines import ActiveRows, Engine

__all__ = ["BlockNewton"]

MOST_HALVINGS = 30
ROUNDING = 1e-15
MOST_DAMPING, LEAST_DAMPING = 0.1, 1e-8
TINY = 1e-300


@dataclass(frozen=True, eq=False)
class BlockNewtonState:
    """Where the method stands."""

    point: Point
    blocks: BlockQuadratic
    engine: "Engine"
    Q: Array  # (k, m) rows, those of tied intercepts first
    mu: Array  # (k,) lam/‖row‖ of the last sweep, where the next one starts
    n_steps: int


@dataclass(frozen=True)
class BlockNewton:
    """For squared loss with row penalties, written out as Gram matrices.

    A step is a few sweeps of exact row updates, which end with the right rows at
    zero, and one Newton step on the others, by preconditioned conjugate gradients.
    """

    sweeps: int = 2
    look_every: ClassVar[int] = 1

    def start(self, problem: Problem, point: Point) -> BlockNewtonState:
        """Write the problem out, tied intercepts at their best."""
        # Compiled code loads slowly: only those who need it should wait.
        from priormtl.solvers.engines import choose_engine  # noqa: PLC0415

        blocks = BlockQuadratic.from_problem(problem)
        Q = np.zeros(blocks.linear.shape)
        Q[blocks.n_intercepts :] = point.coef
        if blocks.n_intercepts:
            Q[0] = problem.fit.intercept(point.coef)
        mu = np.full(len(Q), -1.0)
        return BlockNewtonState(point, blocks, choose_engine(blocks), Q, mu, 0)

    def step(self, problem: Problem, state: BlockNewtonState) -> BlockNewtonState:
        """Sweep, then go to the minimum of the model on the rows that are not zero."""
        engine, Q, mu = state.engine, state.Q.copy(), state.mu.copy()
        gradient = engine.gradient(Q)
        for _ in range(self.sweeps):
            engine.sweep(Q, gradient, mu)
        rows = _active_rows(state.blocks, Q)
        if len(rows.place):
            tol = 1e-2 if state.n_steps < 2 else 1e-3
            _newton_step(state, rows, Q, gradient, tol)
        point = problem.at(Q[state.blocks.n_intercepts :], near=state.point)
        return BlockNewtonState(point, state.blocks, engine, Q, mu, state.n_steps + 1)


def _active_rows(blocks: BlockQuadratic, Q: Array) -> "ActiveRows":
    from priormtl.solvers.engines import ActiveRows  # noqa: PLC0415

    norms = _row_norms(Q)
    place = np.flatnonzero((norms > 0) | (blocks.lam == 0))
    length = np.where(norms[place] > 0, norms[place], 1.0)
    unit = Q[place] / length[:, np.newaxis]
    return ActiveRows(place, blocks.lam[place] / length, unit, blocks.tie[place])


def _newton_step(
    state: BlockNewtonState, rows: "ActiveRows", Q: Array, gradient: Array, tol: float
) -> None:
    """Move the rows of Q towards the minimum of their quadratic model."""
    engine, lam, slope = (
        state.engine,
        state.blocks.lam[rows.place],
        gradient[rows.place],
    )
    downhill = -(slope + lam[:, np.newaxis] * rows.unit)
    direction = engine.direction(_damped(rows, lam, downhill), downhill, tol)
    bowl = float(np.vdot(direction, engine.multiply(rows, direction)))
    along = float(np.vdot(slope, direction))
    P = Q[rows.place]
    before = _row_norms(P)
    for halvings in range(MOST_HALVINGS):
        size = 0.5**halvings
        moved = P + size * direction
        penalty = lam @ (_row_norms(moved) - before)
        change = size * along + 0.5 * size**2 * bowl + penalty
        if change < -ROUNDING * (abs(size * along) + size**2 * bowl):
            Q[rows.place] = moved
            return


def _damped(rows: "ActiveRows", lam: Array, downhill: Array) -> "ActiveRows":
    """Rows that resist also along themselves, less and less towards the optimum.

    The penalty has no curvature there; with more rows than the data can tell apart
    (one task above all) the model would have no minimum.
    """
    force = float(np.linalg.norm(downhill)) / max(float(np.linalg.norm(lam)), TINY)
    keep = np.sqrt(1.0 - min(MOST_DAMPING, max(LEAST_DAMPING, force)))
    return rows._replace(unit=keep * rows.unit)


def _row_norms(P: Array) -> Array:
    return np.sqrt(np.einsum("ij,ij->i", P, P))
