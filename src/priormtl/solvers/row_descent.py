"""RowDescent: exact minimisation of one row after the other, with jumps ahead."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from priormtl._arrays import Array
from priormtl.penalties import Dirty
from priormtl.problem import Point, Problem
from priormtl.solvers.descent import descend_jumping

if TYPE_CHECKING:
    from priormtl.solvers.kernels.dirty import DirtyRows

__all__ = ["RowDescent"]

MOST_BATCHES = 4  # of sweeps, from one look at the gap to the next
MEMO = "layout of row descent"


class DirtySweeps:
    """Sweeps under way, which keep the gradient."""

    def __init__(self, rows: "DirtyRows", point: Point, linear: Array) -> None:
        from priormtl.solvers.kernels.dirty import sweep  # noqa: PLC0415

        self.trail = np.array(point.coef), np.array(point.gradient, order="C")
        self._rows, self._linear, self._sweep = rows, linear, sweep
        self._scratch = np.empty(point.coef.shape[1])

    def sweep(self) -> float:
        """Minimise over one row after the other; how far rows moved, squared."""
        return float(self._sweep(self._rows, *self.trail, self._scratch))

    def value(self) -> float:
        """½ ⟨Q, gradient − linear⟩ + penalty."""
        Q, gradient = self.trail
        smooth = 0.5 * float(np.vdot(Q, gradient) - np.vdot(Q, self._linear))
        return smooth + self._rows.lam * Dirty(self._rows.ratio).value(Q)


@dataclass(frozen=True, eq=False)
class RowDescentState:
    """Where the method stands."""

    point: Point
    rows: "DirtyRows"
    n_batches: int  # of the next step


@dataclass(frozen=True)
class RowDescent:
    """For squared loss with the dirty norm, written out as Gram matrices."""

    look_every: ClassVar[int] = 1

    @staticmethod
    def fits(problem: Problem) -> bool:
        """Whether rows are all there is: no prior, no tied intercepts."""
        prior, fit = problem.prior, problem.fit
        is_plain = prior.theta == 0 and prior.epsilon == 0 and problem.lam > 0
        is_dirty = isinstance(problem.penalty, Dirty)
        can_be_written = fit.normal_size is not None and fit.intercept_graph is None
        return is_plain and is_dirty and can_be_written

    def start(self, problem: Problem, point: Point) -> RowDescentState:
        """Write the problem out."""
        if not self.fits(problem):
            raise TypeError(
                "RowDescent needs squared loss, penalties.Dirty, lam > 0, no prior and "
                "no tied intercepts; use Fista for others."
            )
        return RowDescentState(point, _lay_out(problem), 1)

    def step(self, problem: Problem, state: RowDescentState) -> RowDescentState:
        """Sweep, more often from step to step, since sweeps cost less than looks."""
        linear = -problem.null_point.gradient
        sweeps = DirtySweeps(state.rows, state.point, linear)
        for _ in range(state.n_batches):
            if not descend_jumping(sweeps):
                break
        point = problem.at(sweeps.trail[0], near=state.point)
        n_batches = min(MOST_BATCHES, 2 * state.n_batches)
        return RowDescentState(point, state.rows, n_batches)


def _lay_out(problem: Problem) -> "DirtyRows":
    """Gram matrices with tasks last; known where only strengths have changed."""
    from priormtl.solvers.kernels.dirty import DirtyRows  # noqa: PLC0415

    fit, gram, own = problem.memo.get(MEMO, (None, None, None))
    if fit is not problem.fit:
        gram = _tasks_last(problem)
        own = np.ascontiguousarray(np.einsum("jji->ji", gram))
        problem.memo[MEMO] = problem.fit, gram, own
    ratio = problem.penalty.ratio  # type: ignore[attr-defined]
    strengths = float(problem.lam), float(ratio)
    return DirtyRows(gram, own, *strengths, np.zeros(problem.shape[0]))


def _tasks_last(problem: Problem) -> Array:
    """Gram matrices (d, d, m)."""
    d, m = problem.shape
    gram = problem.fit.normal_form().gram.transpose(1, 2, 0)
    return np.ascontiguousarray(np.broadcast_to(gram, (d, d, m)))
