"""Normal equations with too many levels to factorise: Krylov methods, and probes.

Conjugate gradients solve them, scaled by a preconditioner C Cᵀ (a Cholesky factor for
common columns and small terms, the diagonal for other levels) to Ŝ = C⁻¹ S C⁻ᵀ. For
probes z of random signs each run is a Lanczos process too, with a tridiagonal matrix T,
so that

    log |Ŝ| ≈ mean |z|² e₁ᵀ log(T) e₁,    diagonal of Ŝ⁻¹ ≈ mean of z · Ŝ⁻¹ z

(Ubaru, Chen, Saad, "Fast estimation of tr(f(A)) via stochastic Lanczos quadrature",
SIAM J. Matrix Analysis 2017; for crossed effects Kündig, Sigrist 2025). Probes are the
same at all variances. Few iterations do where levels are well connected.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import eigh_tridiagonal, solve_triangular
from scipy.sparse import csr_array

from priormtl._arrays import Array
from priormtl._lazy import cached_property

PROBES = 16
SOLVED, PROBED = 1e-9, 1e-4  # residuals of solutions, of probes, in units of targets
SEED = 0


@dataclass(frozen=True, eq=False)
class Krylov:
    """What is left of M, as products; as `arrow.Dense`, but for estimated diagonals."""

    scale: Array  # (p + M,)
    ridge: Array  # (p + M,)
    n_common: int  # p
    top: Array  # (q, q) products of common columns, and of levels of small terms
    side: Array  # (p + M − q, q) of other levels with them
    gram: csr_array  # (p + M − q, p + M − q) of other levels
    taken: tuple[csr_array, ...]  # rows (·, p + M − q) to subtract the products of
    root: Array  # (q, q) Cholesky factor of the first block
    diagonal: Array  # (p + M − q,) root of the diagonal of the second

    @classmethod
    def of(
        cls,
        scale: Array,
        ridge: Array,
        products: tuple[Array, Array, csr_array],
        taken: Sequence[csr_array],
        small: int,
    ) -> Self:
        """Products of common columns (p, p), of levels with them, and of levels.

        ``taken`` are the rows (·, M) whose Gram matrices eliminations subtract. The
        first ``small`` levels stay beside common columns.
        """
        common, side, gram = products
        q = len(common) + small
        first = gram[:, :small].toarray()
        for rows in taken:
            first -= rows.T @ rows[:, :small].toarray()
        top = np.block([[common, side[:small].T], [side[:small], first[:small]]])
        side = np.hstack([side[small:], first[small:]])
        gram, taken = gram[small:, small:], tuple(rows[:, small:] for rows in taken)
        block = scale[:q, np.newaxis] * top * scale[:q] + np.diag(ridge[:q])
        root = np.asarray(np.linalg.cholesky(block), dtype=np.float64)
        squares = gram.diagonal() - sum(rows.power(2).sum(axis=0) for rows in taken)
        diagonal = np.sqrt(scale[q:] ** 2 * np.maximum(squares, 0.0) + ridge[q:])
        p = len(common)
        return cls(scale, ridge, p, top, side, gram, taken, root, diagonal)

    def solve(self, right: Array) -> Array:
        """The inverse, scaled from both sides, times columns (p + M, T)."""
        whitened = self._whiten(self.scale[:, np.newaxis] * right)
        run = conjugate_gradients(self._times, whitened, SOLVED)
        return self._effects(run.solution)

    @property
    def log_determinant(self) -> float:
        """Estimate of the logarithm of the determinant."""
        known = np.log(np.diagonal(self.root)).sum() + np.log(self.diagonal).sum()
        return 2.0 * float(known) + self._probed[2]

    @cached_property
    def _probed(self) -> tuple[Array, Array, float]:
        """Unscaled probes, their solutions, and log |Ŝ|."""
        rng = np.random.default_rng(SEED)
        probes = rng.choice([-1.0, 1.0], (len(self.scale), PROBES))
        run = conjugate_gradients(self._times, probes, PROBED)
        log = len(probes) * float(run.logarithms().mean())
        return self._effects(probes), self._effects(run.solution), log

    def diagonals(self) -> Array:
        """Estimate of the diagonal of the inverse; only sums of entries are precise."""
        probes, solutions, _ = self._probed
        return np.einsum("ij,ij->i", probes, solutions) / PROBES

    def quadratic_diagonal(self, top: Array, rest: csr_array, k: int) -> Array:
        """Estimate of the diagonal of gain · inverse · gainᵀ (L k,)."""
        probes, solutions, _ = self._probed
        p = self.n_common
        left, right = (top @ v[:p] + rest @ v[p:] for v in (probes, solutions))
        return np.einsum("ij,ij->i", left, right) / PROBES

    @cached_property
    def common(self) -> Array:
        """The first p columns of the inverse."""
        return self._first[:, : self.n_common]

    @cached_property
    def _first(self) -> Array:
        """The first q columns of the inverse."""
        return self.solve(np.eye(len(self.scale), len(self.top)))

    # Single entries: given these, other levels are as good as independent.

    @cached_property
    def _given_first(self) -> tuple[Array, Array, Array]:
        """Inverse of the first effects, how others follow them, and their variances."""
        q = len(self.top)
        inner, seen = self._first[:q], self.scale[:q] > 0
        follow = np.zeros(self.side.shape)
        others = self._first[q:, seen]
        follow[:, seen] = np.linalg.solve(inner[np.ix_(seen, seen)], others.T).T
        return inner, follow, (self.scale[q:] / self.diagonal) ** 2

    def blocks(self, place: slice, k: int) -> Array:
        """Diagonal blocks (·, k, k) of the inverse, about."""
        count, start = (place.stop - place.start) // k, place.start - self.n_common
        unit = np.arange(start, start + count * k)
        rows = csr_array(
            (np.ones(len(unit)), unit, np.arange(len(unit) + 1)),
            shape=(len(unit), len(self.scale) - self.n_common),
        )
        return self.quadratic(np.zeros((len(unit), self.n_common)), rows, k)

    def quadratic(self, top: Array, rest: csr_array, k: int) -> Array:
        """Diagonal blocks (L, k, k) of gain · inverse · gainᵀ, about."""
        inner, follow, variance = self._given_first
        small = len(inner) - self.n_common
        others = rest[:, small:]
        first = np.hstack([top, rest[:, :small].toarray()]) + others @ follow
        rows = first.reshape(-1, k, len(inner))
        blocks = rows @ inner @ rows.swapaxes(1, 2)
        parts = [others[a::k] for a in range(k)]
        for a in range(k):
            for b in range(k):
                blocks[:, a, b] += (parts[a] * parts[b]) @ variance
        return blocks

    # Products.

    def _times(self, columns: Array) -> Array:
        """Ŝ times columns."""
        p, scale = len(self.top), self.scale[:, np.newaxis]
        turned = self._turn(columns)
        inner = scale * turned
        top, rest = inner[:p], inner[p:]
        out = np.empty_like(columns)
        out[:p] = self.top @ top + self.side.T @ rest
        out[p:] = self.side @ top + self.gram @ rest
        for rows in self.taken:
            out[p:] -= rows.T @ (rows @ rest)
        return self._whiten(scale * out + self.ridge[:, np.newaxis] * turned)

    def _whiten(self, columns: Array) -> Array:
        """C⁻¹ times columns."""
        p = len(self.top)
        top = solve_triangular(self.root, columns[:p], lower=True)
        return np.concatenate([top, columns[p:] / self.diagonal[:, np.newaxis]])

    def _turn(self, columns: Array) -> Array:
        """C⁻ᵀ times columns."""
        p = len(self.top)
        top = solve_triangular(self.root, columns[:p], lower=True, trans="T")
        return np.concatenate([top, columns[p:] / self.diagonal[:, np.newaxis]])

    def _effects(self, columns: Array) -> Array:
        """C⁻ᵀ times columns, in units of effects."""
        return self.scale[:, np.newaxis] * self._turn(columns)


class Run(NamedTuple):
    """Conjugate gradients from zero, for many right-hand sides at once."""

    solution: Array  # (R, T)
    steps: Array  # (iterations, T); zero after the last of a column
    ratios: Array  # (iterations, T) of squared residuals, the next to the last

    def logarithms(self) -> Array:
        """e₁ᵀ log(T) e₁ of each column, T the tridiagonal matrix of Lanczos."""
        out = np.zeros(self.steps.shape[1])
        for t, (step, ratio) in enumerate(
            zip(self.steps.T, self.ratios.T, strict=True)
        ):
            k = np.count_nonzero(step)
            diagonal = 1.0 / step[:k]
            diagonal[1:] += ratio[: k - 1] / step[: k - 1]
            beside = np.sqrt(ratio[: k - 1]) / step[: k - 1]
            values, vectors = eigh_tridiagonal(diagonal, beside)
            out[t] = vectors[0] ** 2 @ np.log(values)
        return out


def conjugate_gradients(
    times: Callable[[Array], Array], right: Array, tolerance: float
) -> Run:
    """Solve for all columns (R, T), to residuals of ``tolerance`` times them."""
    solution, rest = np.zeros_like(right), right.copy()
    direction, squares = rest, np.einsum("ij,ij->j", rest, rest)
    goal = tolerance**2 * squares
    steps, ratios = [], []
    most_iterations = 500
    for _ in range(most_iterations):
        moving = squares > goal
        if not moving.any():
            break
        product = times(direction)
        curvature = np.einsum("ij,ij->j", direction, product)
        step = np.divide(squares, curvature, np.zeros_like(squares), where=moving)
        solution += step * direction
        rest -= step * product
        new = np.einsum("ij,ij->j", rest, rest)
        ratio = np.divide(new, squares, np.zeros_like(squares), where=moving)
        direction, squares = rest + ratio * direction, new
        steps.append(step)
        ratios.append(ratio)
    shape = (-1, right.shape[1])
    return Run(solution, np.reshape(steps, shape), np.reshape(ratios, shape))
