"""Normal equations of a mixed model: an arrow of blocks, and its factorisation.

With rows already multiplied by the roots of their weights, the model is

    y = X b + Σ_g Z_g u_g + e,    u_g = Λ_g v_g,    v ~ N(0, σ² I),  e ~ N(0, σ² I),

one term g for tasks and one for each crossed factor. A term has k effects per level,
so that Z_gᵀ Z_g is block diagonal. Some columns of X may be shrunken in the same way.
As in lme4 (Bates, Mächler, Bolker, Walker, "Fitting linear mixed-effects models using
lme4", Journal of Statistical Software 2015), the matrix M of the normal equations in
b and v needs no inverse of Λ, so that variances may be zero, and

    log |V| + log |Xᵀ V⁻¹ X| = log |M|.

The largest term is eliminated block by block, then each term that it is nested in
(these stay block diagonal): the links of a chain. What is left, over X and the levels
of the other terms, is factorised as a dense matrix. From products of rows, computed
once, a factorisation takes O(L k p²) for L levels in links and p common columns, and
the cube of p plus the levels that are left.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import lapack
from scipy.sparse import block_array, bsr_array, csr_array, hstack

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property


class Term(NamedTuple):
    """Random effects: one for each level and column."""

    levels: Index  # (n,) level of each row; −1: none
    n_levels: int
    values: Array  # (n, k)

    @property
    def size(self) -> int:
        """Number of effects."""
        return self.n_levels * self.values.shape[1]

    def matrix(self) -> csr_array:
        """Z (n, levels · k), effects of one level side by side."""
        n, k = self.values.shape
        inside = self.levels >= 0
        indptr = np.concatenate([[0], np.cumsum(inside * k)])
        first = self.levels[inside, np.newaxis] * k
        indices = (first + np.arange(k)).ravel()
        data = self.values[inside].ravel()
        return csr_array((data, indices, indptr), shape=(n, self.size))


class Link(NamedTuple):
    """Products of a term that is eliminated block by block."""

    term: int
    gram: Array  # (L, k, k) blocks of Zᵀ Z
    side: Array  # (L k, p) Zᵀ X
    later: tuple[csr_array, ...]  # Zᵀ Z of the links that follow
    rest: csr_array  # (L k, M) Zᵀ Z of all terms that are no links


class Vectors(NamedTuple):
    """Right-hand sides or solutions: common effects, and those of each term."""

    top: Array  # (p, T)
    terms: tuple[Array, ...]  # (size of the term, T) each


@dataclass(frozen=True, eq=False)
class Arrow:
    """Products of the columns of a mixed model."""

    top: Array  # (p, p) Xᵀ X
    links: tuple[Link, ...]
    rest: tuple[int, ...]  # terms that are no links
    rest_side: Array  # (M, p)
    rest_gram: csr_array  # (M, M)
    widths: tuple[int, ...]  # effects per level of each term
    sizes: tuple[int, ...]  # effects of each term

    @classmethod
    def of(cls, X: Array, terms: Sequence[Term], matrices: Sequence[csr_array]) -> Self:
        """Products of common columns (n, p) and of the matrices of terms."""
        places = range(len(terms))
        crossings = {
            (g, h): (matrices[g].T @ matrices[h]).tocsr()
            for g in places
            for h in places
            if g < h
        }
        crossings |= {(h, g): c.T.tocsr() for (g, h), c in crossings.items()}
        widths = tuple(term.values.shape[1] for term in terms)
        sizes = tuple(term.size for term in terms)
        chain = _chain(sizes, widths, crossings)
        rest = tuple(g for g in places if g not in chain)
        n_rest = sum(sizes[g] for g in rest)
        sides = [Z.T @ X for Z in matrices]
        grams = [
            (Z.T @ term.values).reshape(term.n_levels, w, w)
            for Z, term, w in zip(matrices, terms, widths, strict=True)
        ]
        links = tuple(
            Link(
                g,
                grams[g],
                sides[g],
                tuple(crossings[g, h] for h in chain[place + 1 :]),
                _beside([crossings[g, h] for h in rest], (sizes[g], n_rest)),
            )
            for place, g in enumerate(chain)
        )
        blocks = [
            [_block_diagonal(grams[g]) if g == h else crossings[g, h] for h in rest]
            for g in rest
        ]
        rest_gram = block_array(blocks, format="csr") if rest else csr_array((0, 0))
        rest_side = np.concatenate([np.zeros((0, X.shape[1])), *(sides[g] for g in rest)])
        return cls(X.T @ X, links, rest, rest_side, rest_gram, widths, sizes)

    def factorise(self, common: Array, ridge: Array, scales: Sequence[Array]) -> "Factor":
        """Factorise M with columns of X scaled by ``common`` (p,), of terms by Λ.

        ``ridge`` (p,) is 1 where a column is shrunken. LinAlgError where rounding
        leaves a matrix that is not positive definite.
        """
        wide = [_tiled(s, n) for s, n in zip(scales, self.sizes, strict=True)]
        rest_scale = np.concatenate([np.zeros(0), *(wide[g] for g in self.rest)])
        top = common[:, np.newaxis] * self.top * common + np.diag(ridge)
        rest_side = rest_scale[:, np.newaxis] * self.rest_side * common
        grams = [_scaled_blocks(link.gram, scales[link.term]) for link in self.links]
        sides = [
            wide[link.term][:, np.newaxis] * link.side * common for link in self.links
        ]
        rests = [_scaled(link.rest, wide[link.term], rest_scale) for link in self.links]
        laters = [
            [
                _scaled(c, wide[link.term], wide[after.term])
                for c, after in zip(link.later, self.links[place + 1 :], strict=True)
            ]
            for place, link in enumerate(self.links)
        ]
        log_determinant, links = 0.0, []
        for place in range(len(self.links)):
            root = np.linalg.cholesky(grams[place])
            diagonal = np.diagonal(root, axis1=1, axis2=2)
            log_determinant += 2.0 * float(np.log(diagonal).sum())
            inverse = np.linalg.inv(root)
            side = _times(inverse, sides[place])
            whiten = _block_diagonal(inverse)
            rest = whiten @ rests[place]
            later = [whiten @ c for c in laters[place]]
            top -= side.T @ side
            rest_side -= rest.T @ side
            for i, here in enumerate(later):
                after = place + 1 + i
                # Levels of this link are in one level each of those that follow, whose
                # blocks therefore stay apart.
                grams[after] = grams[after] - _own_blocks(here, self.widths[self.links[after].term])
                sides[after] -= here.T @ side
                rests[after] = (rests[after] - here.T @ rest).tocsr()
                for j in range(i + 1, len(later)):
                    laters[after][j - i - 1] = (
                        laters[after][j - i - 1] - here.T @ later[j]
                    ).tocsr()
            links.append(Eliminated(inverse, side, tuple(later), rest))
        gram = _scaled(self.rest_gram, rest_scale, rest_scale)
        reduced = Dense.of(top, rest_side, gram, [link.rest for link in links])
        return Factor(self, tuple(links), reduced, log_determinant + reduced.log_determinant)


class Eliminated(NamedTuple):
    """A link after its elimination: its products times the inverse root of its blocks."""

    inverse: Array  # (L, k, k) of triangular roots of blocks
    side: Array  # (L k, p)
    later: tuple[csr_array, ...]
    rest: csr_array  # (L k, M)


class Gain(NamedTuple):
    """How effects of a link follow from those that are eliminated after it."""

    top: Array  # (L k, p)
    rest: csr_array  # (L k, M)
    later: tuple[csr_array, ...]


@dataclass(frozen=True, eq=False)
class Factor:
    """Factorisation of M."""

    arrow: Arrow
    links: tuple[Eliminated, ...]
    reduced: "Dense"
    log_determinant: float

    def solve(self, right: Vectors) -> Vectors:
        """Solve M x = right."""
        p = len(right.top)
        places = [link.term for link in self.arrow.links]
        top = np.array(right.top)
        rest = np.concatenate(
            [np.zeros((0, top.shape[1])), *(right.terms[g] for g in self.arrow.rest)]
        )
        parts = [np.array(right.terms[g]) for g in places]
        for place, link in enumerate(self.links):
            part = _times(link.inverse, parts[place])
            parts[place] = part
            top -= link.side.T @ part
            rest -= link.rest.T @ part
            for i, later in enumerate(link.later):
                parts[place + 1 + i] -= later.T @ part
        solution = self.reduced.solve(np.concatenate([top, rest]))
        top, rest = solution[:p], solution[p:]
        for place in range(len(places) - 1, -1, -1):
            link = self.links[place]
            part = parts[place] - link.side @ top - link.rest @ rest
            for i, later in enumerate(link.later):
                part -= later @ parts[place + 1 + i]
            parts[place] = _times(link.inverse.swapaxes(1, 2), part)
        terms = dict(zip(places, parts, strict=True))
        terms |= self._split(rest)
        return Vectors(top, tuple(terms[g] for g in range(len(terms))))

    def _split(self, rest: Array) -> dict[int, Array]:
        """Parts of the terms that are no links."""
        sizes = [self.arrow.sizes[g] for g in self.arrow.rest]
        parts = np.split(rest, np.cumsum(sizes)[:-1]) if sizes else []
        return dict(zip(self.arrow.rest, parts, strict=True))

    @cached_property
    def gains(self) -> tuple[Gain, ...]:
        """x = constant − gain · (what is eliminated later), for each link."""
        gains: list[Gain] = []
        for link in reversed(self.links):
            turn = _block_diagonal(link.inverse.swapaxes(1, 2))
            top, rest, later = link.side, link.rest, list(link.later)
            for i, gain in enumerate(reversed(gains)):
                top = top - link.later[i] @ gain.top
                rest = rest - link.later[i] @ gain.rest
                for j, further in enumerate(gain.later):
                    later[i + 1 + j] = later[i + 1 + j] - link.later[i] @ further
            whole = _times(link.inverse.swapaxes(1, 2), top)
            gains.append(
                Gain(whole, (turn @ rest).tocsr(), tuple((turn @ c).tocsr() for c in later))
            )
        return tuple(reversed(gains))

    def blocks(self, term: int) -> Array:
        """Diagonal blocks of M⁻¹ (L, k, k) of a term."""
        k = self.arrow.widths[term]
        places = [link.term for link in self.arrow.links]
        if term not in places:
            whole = dict(self._rest_slices())[term]
            return self.reduced.blocks(whole, k)
        place = places.index(term)
        inverse = self.links[place].inverse
        blocks = inverse.swapaxes(1, 2) @ inverse
        for i, gain in enumerate(self.gains[place].later):
            after = self.links[place + 1 + i].inverse
            spread = (gain @ _block_diagonal(after.swapaxes(1, 2))).tocsr()
            blocks = blocks + _row_products(spread, k)
        return blocks + self.reduced.quadratic(self.gains[place], k)

    def diagonals(self) -> tuple[Array, list[Array]]:
        """Diagonal of M⁻¹: of common effects (p,), and of each term."""
        k = self.arrow.widths
        terms = [self.blocks(g) for g in range(len(k))]
        diagonals = [np.diagonal(b, axis1=1, axis2=2).ravel() for b in terms]
        return self.reduced.inverse.diagonal()[: len(self.arrow.top)], diagonals

    def common(self) -> Array:
        """M⁻¹ of common effects (p, p)."""
        p = len(self.arrow.top)
        return self.reduced.inverse[:p, :p]

    def _rest_slices(self) -> list[tuple[int, slice]]:
        first, found = len(self.arrow.top), []
        for g in self.arrow.rest:
            found.append((g, slice(first, first + self.arrow.sizes[g])))
            first += self.arrow.sizes[g]
        return found

    def cross(self, term: int) -> Array:
        """M⁻¹ between effects of a term and common ones (size, p)."""
        p = len(self.arrow.top)
        places = [link.term for link in self.arrow.links]
        if term not in places:
            return self.reduced.inverse[dict(self._rest_slices())[term], :p]
        gain = self.gains[places.index(term)]
        inverse = self.reduced.inverse
        return -(gain.top @ inverse[:p, :p] + gain.rest @ inverse[p:, :p])


@dataclass(frozen=True, eq=False)
class Dense:
    """What is left of M, as a dense matrix and its Cholesky factor."""

    root: Array  # (p + M, p + M), lower triangle
    n_common: int

    @classmethod
    def of(
        cls, top: Array, side: Array, gram: csr_array, taken: Sequence[csr_array]
    ) -> Self:
        """Common columns (p, p), their products with levels, and those of levels.

        ``taken`` are the rows (·, M) whose Gram matrices eliminations subtract.
        """
        p, size = len(top), len(top) + len(side)
        matrix = np.zeros((size, size), order="F")
        matrix[:p, :p] = top
        if size > p:
            from priormtl.reml.kernel import subtract_gram  # noqa: PLC0415  (slow)

            matrix[p:, :p] = side
            inner = matrix[p:, p:]
            entries = gram.tocoo()
            inner[entries.row, entries.col] = entries.data
            inner[np.diag_indices(size - p)] += 1.0
            for rows in taken:
                subtract_gram(rows.indptr, rows.indices, rows.data, inner)
        root, info = lapack.dpotrf(matrix, lower=1, clean=0, overwrite_a=1)
        if info:
            raise np.linalg.LinAlgError("matrix is not positive definite")
        return cls(root, p)

    @property
    def log_determinant(self) -> float:
        """Logarithm of the determinant."""
        return 2.0 * float(np.log(np.diagonal(self.root)).sum())

    def solve(self, right: Array) -> Array:
        """Solve for columns (p + M, T)."""
        return np.asarray(lapack.dpotrs(self.root, right, lower=1)[0])

    @cached_property
    def inverse(self) -> Array:
        """The inverse, both triangles."""
        inverse = lapack.dpotri(self.root, lower=1)[0]
        lower = np.tril(inverse)
        return np.asarray(lower + np.tril(lower, -1).T)

    def blocks(self, whole: slice, k: int) -> Array:
        """Diagonal blocks (·, k, k) of the inverse."""
        first = np.arange(whole.start, whole.stop, k)[:, np.newaxis] + np.arange(k)
        return self.inverse[first[:, :, np.newaxis], first[:, np.newaxis, :]]

    def quadratic(self, gain: Gain, k: int) -> Array:
        """Diagonal blocks (L, k, k) of gain · inverse · gainᵀ."""
        p, inverse = self.n_common, self.inverse
        top = gain.top.reshape(-1, k, p)
        half = gain.top @ inverse[:p, :p]
        if gain.rest.shape[1]:
            half += 2.0 * (gain.rest @ inverse[p:, :p])
        blocks = half.reshape(-1, k, p) @ top.swapaxes(1, 2)
        blocks = 0.5 * (blocks + blocks.swapaxes(1, 2))
        if gain.rest.nnz:
            from priormtl.reml.kernel import add_quadratic  # noqa: PLC0415  (slow)

            rows = gain.rest
            add_quadratic(rows.indptr, rows.indices, rows.data, inverse[p:, p:], blocks)
        return blocks


def _chain(
    sizes: Sequence[int],
    widths: Sequence[int],
    crossings: dict[tuple[int, int], csr_array],
) -> tuple[int, ...]:
    """Terms to eliminate, each nested in those that follow: as many effects as can be."""

    def nested(g: int, h: int) -> bool:
        return int(np.diff(crossings[g, h].indptr).max(initial=0)) <= widths[h]

    best: tuple[int, ...] = ()
    for first in range(len(sizes)):
        chain, open_terms = [first], [h for h in range(len(sizes)) if h != first]
        while True:
            open_terms = [h for h in open_terms if nested(chain[-1], h)]
            if not open_terms:
                break
            # The finest first: others may contain it.
            chain.append(max(open_terms, key=lambda h: sizes[h] // max(widths[h], 1)))
            open_terms.remove(chain[-1])
        if sum(sizes[g] for g in chain) > sum(sizes[g] for g in best):
            best = tuple(chain)
    return best


def _tiled(scale: Array, size: int) -> Array:
    """Scales of the columns of a term, for all its effects."""
    return np.tile(scale, size // len(scale)) if len(scale) else np.zeros(0)


def _scaled(matrix: csr_array, rows: Array, columns: Array) -> csr_array:
    """diag(rows) · matrix · diag(columns)."""
    data = matrix.data * np.repeat(rows, np.diff(matrix.indptr))
    data *= columns[matrix.indices]
    return csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)


def _scaled_blocks(gram: Array, scale: Array) -> Array:
    """Blocks of Λ Zᵀ Z Λ + I."""
    return scale[:, np.newaxis] * gram * scale + np.eye(len(scale))


def _block_diagonal(blocks: Array) -> csr_array:
    """Sparse matrix of blocks (L, k, k)."""
    n, k, _ = blocks.shape
    if n * k == 0:
        return csr_array((n * k, n * k))
    places = np.arange(n + 1)
    return bsr_array((blocks, places[:-1], places), shape=(n * k, n * k)).tocsr()


def _beside(matrices: Sequence[csr_array], shape: tuple[int, int]) -> csr_array:
    """Sparse matrices side by side."""
    return hstack(matrices, format="csr") if matrices else csr_array(shape)


def _times(blocks: Array, rows: Array) -> Array:
    """Block-diagonal matrix (L, k, k) times rows (L k, T)."""
    n, k, _ = blocks.shape
    return (blocks @ rows.reshape(n, k, rows.shape[1])).reshape(rows.shape)


def _own_blocks(matrix: csr_array, k: int) -> Array:
    """Blocks (L, k, k) on the diagonal of matrixᵀ matrix, which has no others."""
    n = matrix.shape[1] // k
    entries = (matrix.T @ matrix).tocoo()
    blocks = np.zeros((n, k, k))
    blocks[entries.row // k, entries.row % k, entries.col % k] = entries.data
    return blocks


def _row_products(matrix: csr_array, k: int) -> Array:
    """Blocks (L, k, k) of products of the k rows of each level."""
    parts = [matrix[a::k] for a in range(k)]
    sums = [[(a * b).sum(axis=1) for b in parts] for a in parts]
    return np.moveaxis(np.array(sums), 2, 0)
