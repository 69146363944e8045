"""Dirty norm: block coordinate descent over rows, with Anderson extrapolation.

Each row of P is minimised exactly while all others stay (`kernels.dirty`). Every few
sweeps the iterates are extrapolated, and the result is kept if it lowers the objective.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from priormtl._arrays import Array
from priormtl.penalties import Dirty
from priormtl.problem import Point, Problem
from priormtl.solvers.block_newton import descend_extrapolated

if TYPE_CHECKING:
    from priormtl.solvers.kernels.dirty import DirtyRows

MEMO = "layout of row descent"


@dataclass(frozen=True, eq=False)
class RowDescentState:
    """State of block coordinate descent."""

    point: Point
    rows: "DirtyRows"
    n_batches: int  # of the next step


@dataclass(frozen=True)
class RowDescent:
    """Block coordinate descent for squared loss with the dirty norm.

    Works on Gram matrices, without prior and tied intercepts.
    """

    check_every: ClassVar[int] = 1

    @staticmethod
    def fits(problem: Problem) -> bool:
        """Whether there is only squared loss and dirty norm: no prior, no ties."""
        prior, fit = problem.prior, problem.fit
        is_plain = not prior.relation.nnz and prior.epsilon == 0 and problem.lam > 0
        is_dirty = isinstance(problem.penalty, Dirty)
        has_gram = fit.normal_size is not None and fit.intercept_graph is None
        return is_plain and is_dirty and has_gram

    def start(self, problem: Problem, point: Point) -> RowDescentState:
        """Lay out Gram matrices with tasks last, once for all strengths."""
        # Numba takes long to load: import it only where it is needed.
        from priormtl.solvers.kernels.dirty import DirtyRows  # noqa: PLC0415

        if not self.fits(problem):
            raise TypeError(
                "RowDescent needs squared loss, penalties.Dirty, lam > 0, no prior and "
                "no tied intercepts; use Fista for others."
            )
        d, m = problem.shape
        fit, gram, diagonal = problem.memo.get(MEMO, (None, None, None))
        if fit is not problem.fit:
            gram = problem.fit.normal_form().gram.transpose(1, 2, 0)
            # Loops would be compiled once more for arrays that cannot be written.
            gram = np.broadcast_to(gram, (d, d, m))
            gram = np.require(gram, requirements=["C", "W"])
            diagonal = np.einsum("jji->ji", gram)
            diagonal = np.require(diagonal, requirements=["C", "W"])
            problem.memo[MEMO] = problem.fit, gram, diagonal
        ratio = problem.penalty.ratio  # type: ignore[attr-defined]
        strengths = float(problem.lam), float(ratio)
        rows = DirtyRows(gram, diagonal, *strengths, np.zeros(d))
        return RowDescentState(point, rows, 1)

    def step(self, problem: Problem, state: RowDescentState) -> RowDescentState:
        """Sweep, more often from step to step: sweeps cost less than checks."""
        linear = -problem.null_point.gradient
        sweeps = DirtySweeps(state.rows, state.point, linear)
        for _ in range(state.n_batches):
            if not descend_extrapolated(sweeps):
                break
        point = problem.at(sweeps.trail[0], near=state.point)
        n_batches = min(4, 2 * state.n_batches)
        return RowDescentState(point, state.rows, n_batches)


class DirtySweeps:
    """Sweeps from a point on, which keep the gradient, for extrapolation."""

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
