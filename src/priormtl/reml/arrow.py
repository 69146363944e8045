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
of the other terms, is factorised as a dense matrix; `krylov` takes its place where it
is too large. From products of rows, computed once, a factorisation takes O(L k p²) for
L levels in links and p common columns, and the cube of p plus the levels that are left.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import lapack
from scipy.sparse import block_array, bsr_array, csr_array, hstack

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl.reml.krylov import SOLVED, Krylov

MOST_DENSE = 3000  # common columns and levels in a dense matrix: a second to factorise


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
    rest: tuple[int, ...]  # terms that are no links, the smallest first
    rest_side: Array  # (M, p)
    rest_gram: csr_array  # (M, M)
    widths: tuple[int, ...]  # effects per level of each term
    sizes: tuple[int, ...]  # effects of each term

    @classmethod
    def of(
        cls,
        gram: Array,
        X: Array,
        terms: Sequence[Term],
        matrices: Sequence[csr_array],
    ) -> Self:
        """Products of common columns (n, p), known among these, and of the terms."""
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
        rest = tuple(sorted(set(places) - set(chain), key=lambda g: sizes[g]))
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
        rest_side = np.concatenate(
            [np.zeros((0, X.shape[1])), *(sides[g] for g in rest)]
        )
        return cls(gram, links, rest, rest_side, rest_gram, widths, sizes)

    @property
    def is_stochastic(self) -> bool:
        """Whether what is left is too large to be factorised."""
        return len(self.top) + len(self.rest_side) > MOST_DENSE

    def factorise(
        self, common: Array, ridge: Array, scales: Sequence[Array]
    ) -> "Factor":
        """Factorise M with columns of X scaled by ``common`` (p,), of terms by Λ.

        ``ridge`` (p,) is 1 where a column is shrunken. LinAlgError where rounding
        leaves a matrix that is not positive definite.
        """
        # Products are scaled when their turn comes, so that Λ is never divided by.
        top, rest_side = np.array(self.top), np.array(self.rest_side)
        grams = [link.gram for link in self.links]
        sides = [link.side for link in self.links]
        rests = [link.rest for link in self.links]
        laters = [list(link.later) for link in self.links]
        log_determinant, links = 0.0, []
        for place, link in enumerate(self.links):
            scale = scales[link.term]
            block = scale[:, np.newaxis] * grams[place] * scale + np.eye(len(scale))
            root = np.linalg.cholesky(block)
            diagonal = np.diagonal(root, axis1=1, axis2=2)
            log_determinant += 2.0 * float(np.log(diagonal).sum())
            turn = np.linalg.inv(root) * scale
            side = _times(turn, sides[place])
            sparse = _block_diagonal(turn)
            rest = (sparse @ rests[place]).tocsr()
            later = [(sparse @ c).tocsr() for c in laters[place]]
            top -= side.T @ side
            rest_side -= rest.T @ side
            for i, here in enumerate(later):
                after = place + 1 + i
                # Levels of this link are in one level each of those that follow, whose
                # blocks therefore stay apart.
                grams[after] = grams[after] - _own_blocks(here, grams[after].shape[1])
                sides[after] = sides[after] - here.T @ side
                rests[after] = rests[after] - here.T @ rest
                for j in range(i + 1, len(later)):
                    between = laters[after][j - i - 1]
                    laters[after][j - i - 1] = between - here.T @ later[j]
            links.append(Eliminated(turn, side, tuple(later), rest))
        wide = [np.tile(scales[g], self.sizes[g] // self.widths[g]) for g in self.rest]
        left = (
            np.concatenate([common, *wide]),
            np.concatenate([ridge, np.ones(len(rest_side))]),
            (top, rest_side, self.rest_gram),
            [link.rest for link in links],
        )
        reduced: Dense | Krylov
        if self.is_stochastic:
            terms = [(self.sizes[g], self.widths[g]) for g in self.rest]
            reduced = Krylov.of(*left, terms)
        else:
            reduced = Dense.of(*left)
        log_determinant += reduced.log_determinant
        return Factor(self, tuple(links), reduced, log_determinant)


class Eliminated(NamedTuple):
    """A link after its elimination: R⁻ᵀ Λ times its products, for blocks Rᵀ R."""

    turn: Array  # (L, k, k) R⁻ᵀ Λ
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
    """Factorisation of M, which gives K = Λ M⁻¹ Λ: K Zᵀ y are effects."""

    arrow: Arrow
    links: tuple[Eliminated, ...]
    reduced: "Dense | Krylov"
    log_determinant: float

    def solve(self, right: Vectors, tolerance: float = SOLVED) -> Vectors:
        """K times right-hand sides, where Krylov methods are used to a tolerance."""
        p, rest_terms = len(right.top), self.arrow.rest
        places = [link.term for link in self.arrow.links]
        first = np.concatenate([right.top, *(right.terms[g] for g in rest_terms)])
        parts = [right.terms[g] for g in places]
        for place, link in enumerate(self.links):
            part = _times(link.turn, parts[place])
            parts[place] = part
            first[:p] -= link.side.T @ part
            first[p:] -= link.rest.T @ part
            for i, later in enumerate(link.later):
                parts[place + 1 + i] = parts[place + 1 + i] - later.T @ part
        solution = self.reduced.solve(first, tolerance)
        top, rest = solution[:p], solution[p:]
        for place in range(len(places) - 1, -1, -1):
            link = self.links[place]
            part = parts[place] - link.side @ top - link.rest @ rest
            for i, later in enumerate(link.later):
                part -= later @ parts[place + 1 + i]
            parts[place] = _times(link.turn.swapaxes(1, 2), part)
        terms = dict(zip(places, parts, strict=True))
        terms |= {g: solution[here] for g, here in self._places.items()}
        return Vectors(top, tuple(terms[g] for g in range(len(terms))))

    @property
    def _places(self) -> dict[int, slice]:
        """Places of terms that are no links, after common columns."""
        first, out = len(self.arrow.top), {}
        for g in self.arrow.rest:
            out[g] = slice(first, first + self.arrow.sizes[g])
            first += self.arrow.sizes[g]
        return out

    @cached_property
    def gains(self) -> dict[int, Gain]:
        """For each term that is a link: effects = constant − gain · later effects."""
        gains: list[Gain] = []
        for link in reversed(self.links):
            top, rest, later = link.side, link.rest, list(link.later)
            for i, gain in enumerate(reversed(gains)):
                top = top - link.later[i] @ gain.top
                rest = rest - link.later[i] @ gain.rest
                for j, further in enumerate(gain.later):
                    later[i + 1 + j] = later[i + 1 + j] - link.later[i] @ further
            turn = link.turn.swapaxes(1, 2)
            sparse = _block_diagonal(turn)
            further = tuple((sparse @ c).tocsr() for c in later)
            gains.append(Gain(_times(turn, top), (sparse @ rest).tocsr(), further))
        terms = [link.term for link in self.arrow.links]
        return dict(zip(terms, reversed(gains), strict=True))

    def blocks(self, term: int) -> Array:
        """Diagonal blocks of K (L, k, k) of a term."""
        k = self.arrow.widths[term]
        if term not in self.gains:
            return self.reduced.blocks(self._places[term], k)
        gain = self.gains[term]
        return self._given_rest(term) + self.reduced.quadratic(gain.top, gain.rest, k)

    def _given_rest(self, term: int) -> Array:
        """Blocks (L, k, k) of a link if all that is no link were known."""
        place, k = list(self.gains).index(term), self.arrow.widths[term]
        turn = self.links[place].turn
        blocks = turn.swapaxes(1, 2) @ turn
        later = zip(self.gains[term].later, self.links[place + 1 :], strict=True)
        for gain, link in later:
            spread = gain @ _block_diagonal(link.turn.swapaxes(1, 2))
            blocks = blocks + _row_products(spread.tocsr(), k)
        return blocks

    def diagonals(self) -> Vectors:
        """Diagonal of K (·, 1)."""
        rest = self.reduced.diagonals()[:, np.newaxis]
        terms = {g: rest[here] for g, here in self._places.items()}
        for term, gain in self.gains.items():
            k = self.arrow.widths[term]
            own = np.diagonal(self._given_rest(term), axis1=1, axis2=2).ravel()
            added = self.reduced.quadratic_diagonal(gain.top, gain.rest, k)
            terms[term] = (own + added)[:, np.newaxis]
        top = rest[: len(self.arrow.top)]
        return Vectors(top, tuple(terms[g] for g in range(len(terms))))

    def common(self) -> Array:
        """K of common effects (p, p)."""
        return self.reduced.common[: len(self.arrow.top)]

    def cross(self, term: int) -> Array:
        """K between effects of a term and common ones (size, p)."""
        p, common = len(self.arrow.top), self.reduced.common
        if term not in self.gains:
            return common[self._places[term]]
        gain = self.gains[term]
        return -(gain.top @ common[:p] + gain.rest @ common[p:])


@dataclass(frozen=True, eq=False)
class Dense:
    """What is left of M, as a dense matrix and its Cholesky factor."""

    root: Array  # (p + M, p + M), lower triangle
    scale: Array  # (p + M,)
    n_common: int

    @classmethod
    def of(
        cls,
        scale: Array,
        ridge: Array,
        products: tuple[Array, Array, csr_array],
        taken: Sequence[csr_array],
    ) -> Self:
        """Products of common columns (p, p), of levels with them, and of levels.

        ``taken`` are the rows (·, M) whose Gram matrices eliminations subtract.
        """
        top, side, gram = products
        p, size = len(top), len(scale)
        matrix = np.zeros((size, size), order="F")
        matrix[:p, :p] = top
        if size > p:
            from priormtl.reml.kernel import subtract_gram  # noqa: PLC0415  (slow)

            matrix[p:, :p] = side
            inner, entries = matrix[p:, p:], gram.tocoo()
            inner[entries.row, entries.col] = entries.data
            for rows in taken:
                subtract_gram(rows.indptr, rows.indices, rows.data, inner)
        matrix *= scale
        matrix *= scale[:, np.newaxis]
        matrix[np.diag_indices(size)] += ridge
        root, info = lapack.dpotrf(matrix, lower=1, clean=0, overwrite_a=1)
        if info:
            raise np.linalg.LinAlgError("matrix is not positive definite")
        return cls(root, scale, p)

    @property
    def log_determinant(self) -> float:
        """Logarithm of the determinant."""
        return 2.0 * float(np.log(np.diagonal(self.root)).sum())

    def solve(self, right: Array, tolerance: float = SOLVED) -> Array:
        """The inverse, scaled from both sides, times columns (p + M, T): exact."""
        scale = self.scale[:, np.newaxis]
        return np.asarray(scale * lapack.dpotrs(self.root, scale * right, lower=1)[0])

    @cached_property
    def inverse(self) -> Array:
        """The inverse, scaled from both sides."""
        matrix = np.asarray(lapack.dpotri(self.root, lower=1)[0])
        matrix *= self.scale
        matrix *= self.scale[:, np.newaxis]
        size = 128  # of blocks that are copied from below the diagonal: they fit caches
        for start in range(0, len(matrix), size):
            here, after = slice(start, start + size), slice(start + size, None)
            block = np.tril(matrix[here, here])
            matrix[here, here] = block + np.tril(block, -1).T
            matrix[here, after] = matrix[after, here].T
        return matrix

    @property
    def common(self) -> Array:
        """The first p columns of the inverse."""
        return self.inverse[:, : self.n_common]

    def diagonals(self) -> Array:
        """Diagonal of the inverse."""
        return self.inverse.diagonal()

    def blocks(self, place: slice, k: int) -> Array:
        """Diagonal blocks (·, k, k) of the inverse."""
        first = np.arange(place.start, place.stop, k)[:, np.newaxis] + np.arange(k)
        return self.inverse[first[:, :, np.newaxis], first[:, np.newaxis, :]]

    def quadratic(self, top: Array, rest: csr_array, k: int) -> Array:
        """Diagonal blocks (L, k, k) of gain · inverse · gainᵀ, gain = [top, rest]."""
        p, inverse = self.n_common, self.inverse
        half = top @ inverse[:p, :p]
        if rest.nnz:
            half += 2.0 * (rest @ inverse[p:, :p])
        blocks = half.reshape(-1, k, p) @ top.reshape(-1, k, p).swapaxes(1, 2)
        blocks = 0.5 * (blocks + blocks.swapaxes(1, 2))
        if rest.nnz:
            from priormtl.reml.kernel import add_quadratic  # noqa: PLC0415  (slow)

            inner = inverse[p:, p:]
            add_quadratic(rest.indptr, rest.indices, rest.data, inner, blocks)
        return blocks

    def quadratic_diagonal(self, top: Array, rest: csr_array, k: int) -> Array:
        """Diagonal of the same (L k,)."""
        if not rest.nnz:
            p = self.n_common
            return np.einsum("ij,ij->i", top @ self.inverse[:p, :p], top)
        return np.diagonal(self.quadratic(top, rest, k), axis1=1, axis2=2).ravel()


def _chain(
    sizes: Sequence[int],
    widths: Sequence[int],
    crossings: dict[tuple[int, int], csr_array],
) -> tuple[int, ...]:
    """Terms to eliminate, each nested in those that follow: most effects in all."""

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
    entries, (n_rows, n_columns) = matrix.tocoo(), matrix.shape
    level = entries.row // k
    # Columns that a level has, numbered from zero: there are few.
    keys, number = np.unique(
        level.astype(np.int64) * n_columns + entries.col, return_inverse=True
    )
    first = np.searchsorted(keys, np.arange(n_rows // k) * np.int64(n_columns))
    place = number - first[level]
    dense = np.zeros((n_rows // k, k, int(place.max(initial=0)) + 1))
    dense[level, entries.row % k, place] = entries.data
    return dense @ dense.swapaxes(1, 2)
