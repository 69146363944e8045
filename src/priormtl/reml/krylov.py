"""Normal equations with too many levels to factorise: Krylov methods, and probes.

Conjugate gradients solve them, scaled by a preconditioner C Cᵀ (Cholesky factors of the
block of common columns and small terms, and of the block of each other level) to
Ŝ = C⁻¹ S C⁻ᵀ. For probes z of random signs each run is a Lanczos process too, with a
tridiagonal matrix T, so that

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
from scipy.sparse import block_diag, bsr_array, csr_array

from priormtl._arrays import Array
from priormtl._lazy import cached_property

PROBES = 16
# Residuals in units of targets: of solutions, and of probes and all that is used with
# their estimates (directions of steps, variances).
SOLVED, PROBED = 1e-9, 1e-4
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
    # Rows (·, p + M − q) whose products are subtracted, and these transposed.
    taken: tuple[tuple[csr_array, csr_array], ...]
    first: Array  # (q, q) C⁻¹ of the first block
    others: csr_array  # (p + M − q, p + M − q) C⁻¹ of other levels, block diagonal
    turned: csr_array  # its transpose

    @classmethod
    def of(
        cls,
        scale: Array,
        ridge: Array,
        products: tuple[Array, Array, csr_array],
        taken: Sequence[csr_array],
        terms: Sequence[tuple[int, int]],
    ) -> Self:
        """Products of common columns (p, p), of levels with them, and of levels.

        ``taken`` are the rows (·, M) whose Gram matrices eliminations subtract.
        ``terms`` have numbers of effects, the smallest first, and of those of a level.
        The first ones, which are few in all, stay beside common columns.
        """
        common, side, gram = products
        sums = np.cumsum([size for size, _ in terms])
        # Few levels are kept beside the common columns.
        kept = int(np.count_nonzero(sums <= 64))
        small = int(sums[kept - 1]) if kept else 0
        q = len(common) + small
        first = gram[:, :small].toarray()
        for rows in taken:
            first -= rows.T @ rows[:, :small].toarray()
        top = np.block([[common, side[:small].T], [side[:small], first[:small]]])
        side = np.hstack([side[small:], first[small:]])
        gram, taken = gram[small:, small:], [rows[:, small:] for rows in taken]
        block = scale[:q, np.newaxis] * top * scale[:q] + np.diag(ridge[:q])
        root = np.asarray(np.linalg.cholesky(block), dtype=np.float64)
        inverse = solve_triangular(root, np.eye(q), lower=True)
        blocks, start = list[csr_array](), 0
        for size, k in terms[kept:]:
            here = slice(start, start + size)
            inner = _level_blocks(gram[here, here], [r[:, here] for r in taken], k)
            own = scale[q:][here].reshape(-1, k)
            inner *= own[:, :, np.newaxis] * own[:, np.newaxis]
            inner += ridge[q:][here].reshape(-1, 1, k) * np.eye(k)
            places = np.arange(size // k + 1)
            inverses = np.linalg.inv(np.linalg.cholesky(inner))
            blocks.append(bsr_array((inverses, places[:-1], places), (size, size)))
            start += size
        others = block_diag(blocks, format="csr")
        pairs = tuple((rows, rows.T.tocsr()) for rows in taken)
        parts = top, side, gram, pairs, inverse, others, others.T.tocsr()
        return cls(scale, ridge, len(common), *parts)

    def solve(self, right: Array, tolerance: float = SOLVED) -> Array:
        """The inverse, scaled from both sides, times columns (p + M, T)."""
        whitened = self._whiten(self.scale[:, np.newaxis] * right)
        run = conjugate_gradients(self._times, whitened, tolerance)
        return self._effects(run.solution)

    @property
    def log_determinant(self) -> float:
        """Estimate of the logarithm of the determinant."""
        known = np.log(self.first.diagonal()).sum()
        known += np.log(self.others.diagonal()).sum()
        return self._probed[2] - 2.0 * float(known)

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
        return self.solve(np.eye(len(self.scale), len(self.top)), PROBED)

    # Blocks of levels: given these, other levels are as good as independent.

    @cached_property
    def _given_first(self) -> tuple[Array, Array, csr_array]:
        """Inverse of the first effects, how others follow them, and their variances.

        These are blocks of levels.
        """
        q = len(self.top)
        inner, seen = self._first[:q], self.scale[:q] > 0
        follow = np.zeros(self.side.shape)
        others = self._first[q:, seen]
        follow[:, seen] = np.linalg.solve(inner[np.ix_(seen, seen)], others.T).T
        scaled = self.others * self.scale[q:]  # by columns
        return inner, follow, (scaled.T @ scaled).tocsr()

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
        inner, follow, variances = self._given_first
        small = len(inner) - self.n_common
        others = rest[:, small:]
        first = np.hstack([top, rest[:, :small].toarray()]) + others @ follow
        rows = first.reshape(-1, k, len(inner))
        blocks = rows @ inner @ rows.swapaxes(1, 2)
        for a in range(k):
            spread = others[a::k] @ variances
            for b in range(k):
                blocks[:, a, b] += (spread * others[b::k]).sum(axis=1)
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
        for rows, turned_rows in self.taken:
            out[p:] -= turned_rows @ (rows @ rest)
        return self._whiten(scale * out + self.ridge[:, np.newaxis] * turned)

    def _whiten(self, columns: Array) -> Array:
        """C⁻¹ times columns."""
        p = len(self.top)
        return np.concatenate([self.first @ columns[:p], self.others @ columns[p:]])

    def _turn(self, columns: Array) -> Array:
        """C⁻ᵀ times columns."""
        p = len(self.top)
        return np.concatenate([self.first.T @ columns[:p], self.turned @ columns[p:]])

    def _effects(self, columns: Array) -> Array:
        """C⁻ᵀ times columns, in units of effects."""
        return self.scale[:, np.newaxis] * self._turn(columns)


def _level_blocks(gram: csr_array, taken: Sequence[csr_array], k: int) -> Array:
    """Blocks (L, k, k) on the diagonal of gram − Σ takenᵀ taken."""
    size = gram.shape[0]
    if k == 1:
        squares = sum(rows.power(2).sum(axis=0) for rows in taken)
        # Rounding may leave less than nothing.
        return np.maximum(gram.diagonal() - squares, 0.0).reshape(-1, 1, 1)
    from priormtl.reml.kernel import subtract_blocks  # noqa: PLC0415  (slow)

    entries = gram.tocoo()
    row, column = entries.row, entries.col
    own = row // k == column // k
    blocks = np.zeros((size // k, k, k))
    blocks[row[own] // k, row[own] % k, column[own] % k] = entries.data[own]
    for rows in taken:
        rows.sort_indices()
        subtract_blocks(rows.indptr, rows.indices, rows.data, blocks)
    return blocks


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
