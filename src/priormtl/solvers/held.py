"""Newton steps of block Newton where rows have a sign or are the same in all tasks.

Entries at the bound of their sign are held there, and rows of common effects move as
one number: Newton's equations are solved by conjugate gradients in what is left. The
end of a step is projected on the signs, and the step is halved until that lowers the
objective (Bertsekas, "Projected Newton methods for optimization problems with simple
constraints", SIAM Journal on Control and Optimization 20, 1982).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from priormtl._arrays import Array, Index
from priormtl._numerics import (
    EPS,
    ROUNDING,
    TINY,
    VANISHING,
    conjugate_gradients,
    line_search,
)
from priormtl.solvers.blocks import BlockQuadratic

if TYPE_CHECKING:
    from priormtl.solvers.layouts import ActiveRows, Layout


class Held(NamedTuple):
    """Which entries of the rows that are not zero may move, and how."""

    free: NDArray[np.bool_]  # (a, m)
    common: NDArray[np.bool_]  # (a,)
    sign: Array  # (a,)

    @classmethod
    def at(cls, blocks: BlockQuadratic, place: Index, Q: Array) -> Self:
        """Entries at their bound stay there: sweeps have just decided about them."""
        sign = blocks.sign[place]
        free = (sign == 0)[:, np.newaxis] | (Q[place] != 0)
        return cls(free, blocks.common[place], sign)

    def project(self, x: Array) -> Array:
        """Part of a direction along which rows may move."""
        out = np.where(self.free, x, 0.0)
        if self.common.any():
            out[self.common] = out[self.common].mean(axis=1, keepdims=True)
        return out

    def clip(self, x: Array) -> Array:
        """Entries of the wrong sign become zero."""
        return np.where(self.sign[:, np.newaxis] * x < 0, 0.0, x)

    def descent(self, lam: Array, downhill: Array) -> tuple[Array, float]:
        """Negative gradient along which rows may move, and its size against lam.

        Where nothing is penalised the step should be exact: its size is zero then.
        """
        free, force = self.project(downhill), float(np.linalg.norm(lam))
        return free, float(np.linalg.norm(free)) / force if force > 0 else 0.0

    def direction(
        self, layout: "Layout", rows: "ActiveRows", downhill: Array, tol: float
    ) -> Array:
        """Newton direction, written out if small, else by conjugate gradients."""
        rest = self.project(downhill)
        if np.count_nonzero(self.free) <= 64:
            return self._solve_dense(layout, rows, rest)
        solve = self._preconditioner(layout, rows)
        return conjugate_gradients(
            solve, lambda p, _: self._multiply(layout, rows, p), rest, tol
        )

    def _multiply(self, layout: "Layout", rows: "ActiveRows", p: Array) -> Array:
        product = layout.multiply(rows, p) + rows.bend[:, np.newaxis] * p
        return self.project(product - rows.straighten(p))

    def _solve_dense(
        self, layout: "Layout", rows: "ActiveRows", downhill: Array
    ) -> Array:
        """Solve in the free entries and common effects, by eigenvectors.

        Strong ties beside common effects, which have none, are too much for conjugate
        gradients: their preconditioner does not see both at once.
        """
        shape = self.free.shape
        own = np.argwhere(self.free & ~self.common[:, np.newaxis])
        shared = np.flatnonzero(self.common & self.free.all(axis=1))
        units = np.zeros((len(own) + len(shared), *shape))
        units[np.arange(len(own)), own[:, 0], own[:, 1]] = 1.0
        units[np.arange(len(own), len(units)), shared] = 1.0 / np.sqrt(shape[1])
        flat = units.reshape(len(units), -1)
        products = [self._multiply(layout, rows, unit).ravel() for unit in units]
        matrix = flat @ np.array(products).T
        scale = np.sqrt(np.maximum(matrix.diagonal(), TINY))
        values, vectors = np.linalg.eigh(
            0.5 * (matrix + matrix.T) / np.outer(scale, scale)
        )
        parts = vectors.T @ (flat @ downhill.ravel() / scale)
        kept = values > EPS * len(values) * values[-1]
        x = vectors[:, kept] @ (parts[kept] / values[kept]) / scale
        return np.asarray((x @ flat).reshape(shape))

    def _preconditioner(
        self, layout: "Layout", rows: "ActiveRows"
    ) -> Callable[[Array], Array]:
        """That of the layout for rows that vary; for common effects their own block."""
        common = self.common
        varies = self.free & ~common[:, np.newaxis]
        inverse = layout.inverse(rows, varies)
        if not common.any():
            return lambda r: self.project(inverse(r))
        # Columns of the Hessian over common effects, each the same in all tasks.
        k, m = int(common.sum()), rows.unit.shape[1]
        block = np.empty((k, k))
        for c, j in enumerate(np.flatnonzero(common)):
            unit = np.zeros(rows.unit.shape)
            unit[j] = 1.0
            block[:, c] = layout.multiply(rows, unit)[common].sum(axis=1)
        values, vectors = np.linalg.eigh(block + np.diag(m * rows.bend[common]))
        # Collinear effects hardly curve in some direction.
        values = np.maximum(values, max(VANISHING * values[-1], TINY))
        scaled = vectors / values

        def solve(r: Array) -> Array:
            z = np.where(varies, inverse(np.where(varies, r, 0.0)), 0.0)
            z[common] = (scaled @ (vectors.T @ r[common].sum(axis=1)))[:, np.newaxis]
            return z

        return solve


def move_held(
    layout: "Layout",
    rows: "ActiveRows",
    held: Held,
    Q: Array,
    gradient: Array,
    step: Array,
) -> None:
    """Take as much of a step as lowers the objective, projected on the signs."""
    before, slope = Q[rows.place], gradient[rows.place]
    lam = layout.system.lam[rows.place]
    norms = lam @ np.sqrt(np.einsum("ij,ij->i", before, before))

    def attempt(size: float) -> Array | None:
        after = held.clip(before + size * step)
        move = after - before
        along = float(np.vdot(slope, move))
        bowl = float(np.vdot(move, layout.multiply(rows, move)))
        penalties = lam @ np.sqrt(np.einsum("ij,ij->i", after, after)) - norms
        falls = along + 0.5 * bowl + penalties < -ROUNDING * (abs(along) + bowl)
        return after if falls else None

    after = line_search(attempt)
    if after is not None:
        Q[rows.place] = after
