"""BlockNewton: sweeps over rows find which are zero, Newton steps do the rest."""

from dataclasses import dataclass, replace
from operator import is_
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from priormtl._arrays import Array, Index
from priormtl.problem import BlockQuadratic, Point, Problem
from priormtl.solvers.descent import descend_jumping

if TYPE_CHECKING:
    from priormtl.solvers.engines import Engine

__all__ = ["BlockNewton"]

WORTH_LEAVING_OUT = 0.7  # share of features in play, up to which others are left out
NEARLY = 0.7  # of lam: a zero row with such a gradient is in play from the start
FEW_ROWS = 64  # a Newton step costs less than a few sweeps
SLOW = 0.4  # shrinkage of moves beyond which it pays with few rows
STUCK = 0.8  # share of the gap that sweeps leave, beyond which it pays with many
MEMO = "layout of block Newton"


@dataclass(frozen=True, eq=False)
class Layout:
    """Features in play, laid out for compiled loops."""

    # Not the problem, whose memo holds the layout: in a circle, matrices of many
    # megabytes would stay until the garbage collector finds them.
    source: tuple[object, ...]
    whole: BlockQuadratic  # of all features
    features: Index  # those in play; all others are zero
    blocks: BlockQuadratic  # of these
    engine: "Engine"

    def newton_step(self, Q: Array, gradient: Array) -> None:
        """Newton step on the rows that are not zero."""
        from priormtl.solvers.engines import newton_step  # noqa: PLC0415

        newton_step(self.engine, Q, gradient)

    def holds(self, in_play: NDArray[np.bool_]) -> bool:
        """Whether no other features are in play."""
        return int(in_play[self.features].sum()) == int(in_play.sum())


@dataclass(frozen=True, eq=False)
class BlockNewtonState:
    """Where the method stands."""

    point: Point
    layout: Layout
    Q: Array  # (k, m) rows, those of tied intercepts first
    mu: Array  # (k,) lam/‖row‖ of the last sweep, where the next one starts
    n_steps: int
    gap: float = np.inf  # looked at with many rows only
    is_stuck: bool = False  # whether the last step has hardly closed it


@dataclass(frozen=True)
class BlockNewton:
    """For squared loss with row penalties, on Gram matrices or samples.

    A step is a few sweeps of exact row updates, which end with the right rows at
    zero. With few rows a Newton step on the others follows, by preconditioned
    conjugate gradients; with many, sweeps are extrapolated, and Newton helps only
    where they are stuck. Features come into play when the gradient calls them.
    """

    sweeps: int = 2
    first_sweeps: int = 6

    look_every: ClassVar[int] = 1

    def start(self, problem: Problem, point: Point) -> BlockNewtonState:
        """Write the problem out, tied intercepts at their best."""
        layout = _recall(problem)
        whole = BlockQuadratic.from_problem(problem) if layout is None else layout.whole
        called = _row_norms(point.gradient) > NEARLY * whole.lam[whole.n_intercepts :]
        in_play = called | point.coef.any(axis=1)
        if layout is None or not layout.holds(in_play):
            layout = _lay_out(problem, whole, in_play)
        return _stand(problem, point, layout)

    def step(self, problem: Problem, state: BlockNewtonState) -> BlockNewtonState:
        """Sweep, then go to the minimum of the model on the rows that are not zero."""
        state = _call_in(problem, state)
        layout, Q, mu = state.layout, state.Q.copy(), state.mu.copy()
        descent = layout.engine.descend(Q, _gradient(state), mu)
        few = len(Q) <= FEW_ROWS
        if few:
            least = self.sweeps if state.n_steps else self.first_sweeps
            is_slow = descent.run(least, SLOW) > SLOW
        else:
            is_slow = not descend_jumping(descent) or state.is_stuck
        if is_slow:
            layout.newton_step(Q, descent.gradient())
        coef = np.zeros(problem.shape)
        coef[layout.features] = Q[layout.blocks.n_intercepts :]
        point = problem.at(coef, near=state.point)
        gap = np.inf if few else problem.certify(point).gap
        stuck = gap > STUCK * state.gap
        return BlockNewtonState(point, layout, Q, mu, state.n_steps + 1, gap, stuck)


def _lay_out(
    problem: Problem, whole: BlockQuadratic, in_play: NDArray[np.bool_]
) -> Layout:
    """Lay out the features in play, or all where few or none would be left."""
    # Compiled code loads slowly: only those who need it should wait.
    from priormtl.solvers.engines import choose_engine  # noqa: PLC0415

    few = 0 < np.count_nonzero(in_play) <= WORTH_LEAVING_OUT * len(in_play)
    features = np.flatnonzero(in_play) if few else np.arange(len(in_play))
    blocks = whole.restrict(features)
    engine = choose_engine(blocks)
    layout = Layout(_source(problem), whole, features, blocks, engine)
    problem.memo[MEMO] = layout
    return layout


def _recall(problem: Problem) -> Layout | None:
    """Layout of the same problem at another lam, if there was one."""
    known = problem.memo.get(MEMO)
    if known is None or not _same(known.source, _source(problem)):
        return None
    from priormtl.solvers.engines import at_other_lam  # noqa: PLC0415

    whole = known.whole.at_lam(problem)
    first = whole.n_intercepts
    rows = np.concatenate([np.arange(first), first + known.features])
    blocks = replace(known.blocks, lam=whole.lam[rows])
    engine = at_other_lam(known.engine, blocks)
    return Layout(known.source, whole, known.features, blocks, engine)


def _source(problem: Problem) -> tuple[object, ...]:
    """What layouts are made of, beside lam."""
    return problem.fit, problem.prior, problem.penalty


def _same(a: tuple[object, ...], b: tuple[object, ...]) -> bool:
    return all(map(is_, a, b))


def _stand(problem: Problem, point: Point, layout: Layout) -> BlockNewtonState:
    """Rows at a point, in a layout."""
    blocks = layout.blocks
    Q = np.zeros((len(blocks.lam), problem.shape[1]))
    Q[blocks.n_intercepts :] = point.coef[layout.features]
    if blocks.n_intercepts:
        Q[0] = problem.fit.intercept(point.coef)
    return BlockNewtonState(point, layout, Q, np.full(len(Q), -1.0), 0)


def _call_in(problem: Problem, state: BlockNewtonState) -> BlockNewtonState:
    """Add features whose gradient is too long for a row of zeros."""
    layout, whole = state.layout, state.layout.whole
    if len(layout.features) == problem.shape[0]:
        return state
    called = _row_norms(state.point.gradient) > whole.lam[whole.n_intercepts :]
    if layout.holds(called):
        return state
    called[layout.features] = True
    return _stand(problem, state.point, _lay_out(problem, whole, called))


def _gradient(state: BlockNewtonState) -> Array:
    """Gradient of the quadratic part; known, but for rows of intercepts."""
    if state.layout.blocks.n_intercepts:
        return state.layout.engine.gradient(state.Q)
    return np.array(state.point.gradient[state.layout.features], order="C")


def _row_norms(P: Array) -> Array:
    return np.sqrt(np.einsum("ij,ij->i", P, P))
