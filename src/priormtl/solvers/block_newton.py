"""BlockNewton: sweeps over rows find which are zero, Newton steps do the rest."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from priormtl._arrays import Array, Index
from priormtl.problem import BlockQuadratic, Point, Problem
from priormtl.solvers.descent import descend, descend_jumping

if TYPE_CHECKING:
    from priormtl.solvers.engines import ActiveRows, Engine

__all__ = ["BlockNewton"]

MOST_DAMPING, LEAST_DAMPING = 0.1, 1e-8
LOOSEST, TIGHTEST = 0.1, 1e-6  # relative errors of Newton directions
WORTH_LEAVING_OUT = 0.7  # share of features in play, up to which others are left out
NEARLY = 0.7  # of lam: a zero row with such a gradient is in play from the start
FEW_ROWS = 64  # a Newton step costs less than a few sweeps
SLOW, VERY_SLOW = 0.3, 0.98  # shrinkage of moves beyond which it pays: few, many rows
TINY = 1e-300


@dataclass(frozen=True, eq=False)
class BlockNewtonState:
    """Where the method stands."""

    point: Point
    whole: BlockQuadratic
    features: Index  # those in play; all others are zero
    blocks: BlockQuadratic  # with these features
    engine: "Engine"
    Q: Array  # (k, m) rows, those of tied intercepts first
    mu: Array  # (k,) lam/‖row‖ of the last sweep, where the next one starts
    n_steps: int


@dataclass(frozen=True)
class BlockNewton:
    """For squared loss with row penalties, written out as Gram matrices.

    A step is a few sweeps of exact row updates, which end with the right rows at
    zero, and one Newton step on the others, by preconditioned conjugate gradients.
    Features come into play when the gradient calls them.
    """

    sweeps: int = 2
    first_sweeps: int = 6

    look_every: ClassVar[int] = 1

    def start(self, problem: Problem, point: Point) -> BlockNewtonState:
        """Write the problem out, tied intercepts at their best."""
        whole = BlockQuadratic.from_problem(problem)
        called = _row_norms(point.gradient) > NEARLY * whole.lam[whole.n_intercepts :]
        return _begin(problem, point, whole, called | point.coef.any(axis=1))

    def step(self, problem: Problem, state: BlockNewtonState) -> BlockNewtonState:
        """Sweep, then go to the minimum of the model on the rows that are not zero."""
        state = _call_in(problem, state)
        engine, Q, mu = state.engine, state.Q.copy(), state.mu.copy()
        descent = engine.descend(Q, _gradient(state), mu)
        if len(Q) <= FEW_ROWS:
            least = self.sweeps if state.n_steps else self.first_sweeps
            is_slow = descend(descent, least, SLOW) > SLOW
        else:
            is_slow = descend_jumping(descent) > VERY_SLOW
        if is_slow:
            _newton_step(state, Q, descent.gradient())
        coef = np.zeros(problem.shape)
        coef[state.features] = Q[state.blocks.n_intercepts :]
        point = problem.at(coef, near=state.point)
        return BlockNewtonState(
            point,
            state.whole,
            state.features,
            state.blocks,
            engine,
            Q,
            mu,
            state.n_steps + 1,
        )


def _begin(
    problem: Problem, point: Point, whole: BlockQuadratic, in_play: NDArray[np.bool_]
) -> BlockNewtonState:
    """Lay out the features in play, or all where few or none would be left."""
    # Compiled code loads slowly: only those who need it should wait.
    from priormtl.solvers.engines import choose_engine  # noqa: PLC0415

    d = len(in_play)
    few = 0 < np.count_nonzero(in_play) <= WORTH_LEAVING_OUT * d
    features = np.flatnonzero(in_play) if few else np.arange(d)
    blocks = whole.restrict(features)
    Q = np.zeros((len(blocks.lam), problem.shape[1]))
    Q[blocks.n_intercepts :] = point.coef[features]
    if blocks.n_intercepts:
        Q[0] = problem.fit.intercept(point.coef)
    mu = np.full(len(Q), -1.0)
    return BlockNewtonState(
        point, whole, features, blocks, choose_engine(blocks), Q, mu, 0
    )


def _call_in(problem: Problem, state: BlockNewtonState) -> BlockNewtonState:
    """Add features whose gradient is too long for a row of zeros."""
    whole = state.whole
    if len(state.features) == len(state.point.coef):
        return state
    called = _row_norms(state.point.gradient) > whole.lam[whole.n_intercepts :]
    known = np.zeros(len(called), bool)
    known[state.features] = True
    if not np.any(called & ~known):
        return state
    return _begin(problem, state.point, whole, called | known)


def _gradient(state: BlockNewtonState) -> Array:
    """Gradient of the quadratic part; known, but for rows of intercepts."""
    if state.blocks.n_intercepts:
        return state.engine.gradient(state.Q)
    return np.array(state.point.gradient[state.features], order="C")


def _active_rows(blocks: BlockQuadratic, Q: Array) -> "ActiveRows":
    from priormtl.solvers.engines import ActiveRows  # noqa: PLC0415

    norms = _row_norms(Q)
    place = np.flatnonzero((norms > 0) | (blocks.lam == 0))
    length = np.where(norms[place] > 0, norms[place], 1.0)
    unit = Q[place] / length[:, np.newaxis]
    return ActiveRows(place, blocks.lam[place] / length, unit, blocks.tie[place])


def _newton_step(state: BlockNewtonState, Q: Array, gradient: Array) -> None:
    """Move the rows of Q that are not zero towards the minimum of their model."""
    from priormtl.solvers.kernels.newton import search  # noqa: PLC0415

    rows = _active_rows(state.blocks, Q)
    if not len(rows.place):
        return
    engine, lam, slope = (
        state.engine,
        state.blocks.lam[rows.place],
        gradient[rows.place],
    )
    downhill = -(slope + lam[:, np.newaxis] * rows.unit)
    force = float(np.linalg.norm(downhill)) / max(float(np.linalg.norm(lam)), TINY)
    tol = min(LOOSEST, max(TIGHTEST, 0.3 * np.sqrt(force)))
    direction = engine.direction(_damped(rows, force), downhill, tol)
    bowl = float(np.vdot(direction, engine.multiply(rows, direction)))
    along = float(np.vdot(slope, direction))
    P = Q[rows.place]
    Q[rows.place] = P + search(lam, P, direction, along, bowl) * direction


def _damped(rows: "ActiveRows", force: float) -> "ActiveRows":
    """Rows that resist also along themselves, less and less towards the optimum.

    The penalty has no curvature there; with more rows than the data can tell apart
    (one task above all) the model would have no minimum.
    """
    keep = np.sqrt(1.0 - min(MOST_DAMPING, max(LEAST_DAMPING, force)))
    return rows._replace(unit=keep * rows.unit)


def _row_norms(P: Array) -> Array:
    return np.sqrt(np.einsum("ij,ij->i", P, P))
