"""Which tasks are tied: the Laplacian L of a weighted graph over tasks.

p L pᵀ = Σ w_ab (p_a − p_b)² over edges. A complete group is kept as a diagonal minus a
matrix of rank one, since its m² edges would not fit for many tasks. Neither L nor its
eigenvectors are formed for many tasks: those of a chain in order are the cosines of the
discrete cosine transform (Strang 1999), which is applied by FFT.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Self, cast

import numpy as np
from scipy.linalg import lu_factor, lu_solve
from scipy.sparse import (
    block_array,
    coo_array,
    csc_array,
    csr_array,
    diags_array,
    eye_array,
    triu,
)
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, eigsh, splu

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property

DENSE_SIZE = 500  # tasks up to which matrices (m, m) are formed
FEW_TASKS = 64  # up to here dense solves beat sparse ones


@dataclass(frozen=True, eq=False)
class Laplacian:
    """L = edges − U Uᵀ over m tasks, positive semidefinite, with L 1 = 0.

    ``edges`` (m, m) is sparse; the columns of ``U`` (m, k) hold complete groups,
    whose m² edges would not fit for many tasks.
    """

    edges: csr_array
    groups: csr_array
    m: int = field(init=False, repr=False)
    is_zero: bool = field(init=False, repr=False)
    # Weights of a chain of all tasks in order, and of one group of all tasks; zero
    # for any other graph.
    chain: float = field(init=False, repr=False)
    one_group: float = field(init=False, repr=False)
    degree: Array = field(init=False, repr=False)  # (m,) diagonal of L

    def __post_init__(self) -> None:
        edges, groups, m = self.edges, self.groups, int(self.edges.shape[0])
        chain = one_group = 0.0
        if m > 1 and not groups.nnz and edges.nnz == 3 * m - 2:
            weight = -edges[np.arange(m - 1), np.arange(1, m)]
            if np.all(weight == weight[0]) and weight[0] > 0:
                chain = float(weight[0])
        elif m > 1 and groups.shape[1] == 1 and groups.nnz == m == edges.nnz:
            diagonal, column = edges.diagonal(), groups.data
            if np.all(diagonal == diagonal[0]) and np.all(column == column[0]):
                one_group = float(diagonal[0])
        degree = edges.diagonal()
        if groups.nnz:
            degree = degree - np.asarray(groups.multiply(groups).sum(axis=1)).ravel()
        known = {"m": m, "is_zero": edges.nnz == 0 and groups.nnz == 0}
        self.__dict__.update(known, chain=chain, one_group=one_group, degree=degree)

    @classmethod
    def empty(cls, m: int) -> Self:
        return cls(csr_array((m, m)), csr_array((m, 0)))

    @classmethod
    def from_edges(cls, m: int, first: Index, second: Index, weight: Array) -> Self:
        """½ Σ weight ‖p_first − p_second‖² as a quadratic form."""
        rows = np.concatenate([first, second, first, second])
        columns = np.concatenate([first, second, second, first])
        values = np.concatenate([weight, weight, -weight, -weight])
        edges = csr_array((values, (rows, columns)), shape=(m, m))
        return cls(edges, csr_array((m, 0)))

    @classmethod
    def from_groups(cls, m: int, members: list[Index], weight: float) -> Self:
        """½ Σ weight ‖p_i − mean of i's group‖² as a quadratic form."""
        members = [np.unique(group) for group in members if len(group)]
        count = np.zeros(m)
        for group in members:
            count[group] += weight
        columns = [np.full(len(group), k) for k, group in enumerate(members)]
        values = [np.full(len(g), np.sqrt(weight / len(g))) for g in members]
        indices = (_joined(members, np.intp), _joined(columns, np.intp))
        groups = csr_array(
            (_joined(values, np.float64), indices), shape=(m, len(members))
        )
        return cls(csr_array(diags_array(count)), groups)

    def __add__(self, other: Self) -> Self:
        sides = [[csr_array(self.groups), csr_array(other.groups)]]
        edges = csr_array(self.edges + other.edges)
        return type(self)(edges, csr_array(block_array(sides)))

    def pairs(self) -> list[tuple[int, int, float]]:
        """Edges of weight above zero: both tasks, and the weight."""
        edges = triu(self.edges, k=1, format="coo")
        listed = zip(*edges.coords, edges.data, strict=True)
        return [(int(a), int(b), -float(w)) for a, b, w in listed if w < 0]

    def circles(self) -> list[tuple[Index, float]]:
        """Complete groups: members, and the weight that ties each to their mean."""
        columns = self.groups.tocsc()
        bounds = zip(columns.indptr[:-1], columns.indptr[1:], strict=True)
        return [
            (columns.indices[a:b], float(np.sum(columns.data[a:b] ** 2)))
            for a, b in bounds
        ]

    def times(self, P: Array) -> Array:
        """P L, or L p for a vector p.

        By differences between tasks, so that tasks that agree cancel: strong ties
        would multiply the rounding errors of anything else.
        """
        if self.one_group:
            apart = P - P.mean(axis=-1, keepdims=True)
            apart -= apart.mean(axis=-1, keepdims=True)
            return self.one_group * apart
        if self.chain:
            steps = self.chain * np.diff(P, axis=-1)
            out = np.zeros_like(P)
            out[..., 1:] = steps
            out[..., :-1] -= steps
            return out
        incidence, weight = self._incidence
        return np.asarray((incidence.T @ ((incidence @ P.T).T * weight).T).T)

    def energies(self, P: Array) -> Array:
        """Diagonal of P L Pᵀ (d,), as sums of squares."""
        if self.one_group:
            apart = P - P.mean(axis=1, keepdims=True)
            return self.one_group * np.einsum("ij,ij->i", apart, apart)
        if self.chain:
            apart = np.diff(P, axis=1)
            return self.chain * np.einsum("ij,ij->i", apart, apart)
        incidence, weight = self._incidence
        apart = (incidence @ P.T).T
        return np.asarray(np.einsum("ij,ij,j->i", apart, apart, weight))

    def factor(self) -> Array:
        """B (q, m) with L = BᵀB, written out, for small m."""
        incidence, weight = self._incidence
        return np.sqrt(weight)[:, np.newaxis] * incidence.toarray()

    @cached_property
    def _circle_weight(self) -> Array:
        return np.asarray(self.groups.multiply(self.groups).sum(axis=0)).ravel()

    def dense(self) -> Array:
        """L (m, m) as an array, for small m."""
        return np.asarray((self.edges - self.groups @ self.groups.T).todense())

    @cached_property
    def components(self) -> Index:
        """Number of the set of connected tasks that each task is in (m,)."""
        sides = [[self.edges, self.groups], [self.groups.T, None]]
        _, label = connected_components(csr_array(block_array(sides)), directed=False)
        return np.asarray(label[: self.m], dtype=np.intp)

    @cached_property
    def _dense_parts(self) -> tuple[Array, Array]:
        return self.edges.toarray(), self.groups.toarray()

    @cached_property
    def largest_eigenvalue(self) -> float:
        if self.is_zero:
            return 0.0
        if self.m <= DENSE_SIZE:
            return float(np.linalg.eigvalsh(self.dense())[-1])
        operator = LinearOperator((self.m, self.m), matvec=self.times, dtype=np.float64)
        start = np.cos(np.arange(self.m) * 2.5)
        return float(eigsh(operator, k=1, v0=start, return_eigenvectors=False)[0])

    @cached_property
    def modes(self) -> tuple[Array, Array] | None:
        """Eigenvalues (m,) and eigenvectors V (m, m) of L; None for too many tasks.

        A chain in order and one group of all tasks have cosines as eigenvectors, which
        for many tasks are a :class:`Cosines`: use V only as ``X @ V`` and ``X @ V.T``,
        or ask for ``V.copy()``. Other graphs are decomposed.
        """
        angles = np.pi * np.arange(self.m) / max(1, self.m)
        if self.chain:
            waves: Array = 2.0 - 2.0 * np.cos(angles)
            return self.chain * waves, self._cosines()
        if self.one_group:
            return self.one_group * (angles > 0).astype(np.float64), self._cosines()
        if self.m > DENSE_SIZE:
            return None
        values, vectors = np.linalg.eigh(self.dense())
        return np.maximum(values, 0.0), np.ascontiguousarray(vectors)

    def _cosines(self) -> Array:
        if self.m <= DENSE_SIZE:
            return _cosine_table(self.m)
        # Typed as an array, since it is multiplied and transposed as one.
        return cast(Array, Cosines(self.m))

    @cached_property
    def _incidence(self) -> tuple[csr_array, Array]:
        """B (q, m) and weights with L = Bᵀ diag(weights) B, groups by deviations."""
        pairs = coo_array(triu(self.edges, k=1))
        task, group = (ends.astype(np.intp) for ends in self.groups.nonzero())
        # One row per edge, +1 and −1 at its ends.
        k, ends = len(pairs.data), np.concatenate([pairs.row, pairs.col])
        signs, rows = np.repeat([1.0, -1.0], k), np.tile(np.arange(k), 2)
        weight, edges = -pairs.data, csr_array((signs, (rows, ends)), shape=(k, self.m))
        if not len(task):
            return edges, weight
        members = csr_array(self.groups > 0, dtype=np.float64)
        size = np.asarray(members.sum(axis=0)).ravel()
        means = csr_array(members @ diags_array(1.0 / np.maximum(size, 1.0))).T
        apart = eye_array(self.m, format="csr")[task] - csr_array(means)[group]
        both = csr_array(block_array([[edges], [apart]]))
        return both, np.concatenate([weight, self._circle_weight[group]])

    def shifted_solver(
        self, diagonal: Array, strength: float
    ) -> Callable[[Array], Array]:
        """Factorise diag(diagonal) + strength · L once; solve it for vectors.

        The groups enter as extra unknowns rather than by Woodbury's formula, which
        cancels when the strength is large against the diagonal.
        """
        padding = np.zeros(self.groups.shape[1])
        if self.m <= FEW_TASKS:
            edges, groups = self._dense_parts
            root = np.sqrt(strength) * groups
            main = strength * edges + np.diag(diagonal)
            dense = np.block([[main, root], [root.T, np.eye(len(padding))]])
            lu, pivots = lu_factor(dense, check_finite=False)
            solve = partial(_solve_lu, lu, pivots)
        else:
            root = np.sqrt(strength) * self.groups
            main = diags_array(diagonal) + strength * self.edges
            parts = [[main, root], [root.T, eye_array(len(padding))]]
            solve = splu(csc_array(block_array(parts))).solve
        return lambda rhs: solve(np.concatenate([rhs, padding]))[: self.m]


def _solve_lu(lu: Array, pivots: Array, rhs: Array) -> Any:
    # LAPACK's wrapper shifts the pivots while it works, so threads must not share them.
    return lu_solve((lu, pivots.copy()), rhs, check_finite=False)


class Cosines:
    """Orthonormal cosines V (m, m), constant first, for ``X @ V`` and ``X @ V.T``.

    Products are discrete cosine transforms of the rows of X, in O(m log m) each; the
    table itself is only formed by ``copy`` and ``np.asarray``.
    """

    __array_ufunc__ = None  # makes NumPy leave ``X @ V`` to __rmatmul__

    def __init__(self, m: int, *, transposed: bool = False) -> None:
        self.shape = (m, m)
        self._transposed = transposed

    @property
    def T(self) -> "Cosines":  # noqa: N802
        """Transpose, which is the inverse."""
        return Cosines(self.shape[0], transposed=not self._transposed)

    def __rmatmul__(self, X: Array) -> Array:
        from scipy.fft import dct  # noqa: PLC0415  (slow to import, rarely needed)

        return np.asarray(dct(X, type=3 if self._transposed else 2, norm="ortho"))

    def copy(self) -> Array:
        table = _cosine_table.__wrapped__(self.shape[0])
        return np.array(table.T if self._transposed else table)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.copy().astype(dtype or np.float64, copy=False)


@lru_cache(maxsize=8)
def _cosine_table(m: int) -> Array:
    """Orthonormal cosines (m, m): eigenvectors of a chain, constant first."""
    k = np.arange(m)
    table = np.cos(np.pi * np.outer(k + 0.5, k) / m) * np.sqrt(2.0 / m)
    table[:, 0] = np.sqrt(1.0 / m)
    table.flags.writeable = False
    return table


def _joined(parts: list[Any], dtype: type) -> np.ndarray:
    return np.concatenate([np.zeros(0, dtype), *parts]).astype(dtype)
