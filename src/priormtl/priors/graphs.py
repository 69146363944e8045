"""Which tasks are tied: the Laplacian L of a weighted graph over tasks.

p L pᵀ = Σ w_ab (p_a − p_b)² over edges. Ties to a mean have a latent node q, for which
the sum is least: with an edge to each member of a group, q is their mean, and
min Σ w (p_i − q)² = w Σ (p_i − p̄)². Nested tasks have a tree of such nodes. So a group
of m tasks takes m edges instead of m². Neither L nor its eigenvectors are formed for
many tasks: those of a chain in order are the cosines of the discrete cosine transform
(Strang 1999), which is applied by FFT.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple, Self, cast

import numpy as np
from scipy.linalg import lu_factor, lu_solve
from scipy.linalg.lapack import dtrtrs
from scipy.sparse import block_array, coo_array, csc_array, csr_array, diags_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, eigsh, splu

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property

DENSE_SIZE = 500  # tasks up to which matrices (m, m) are formed
FEW_TASKS = 64  # up to here dense solves beat sparse ones
HIDDEN = 1e-4  # of couplings: diagonals below lose digits beside them


class Forest(NamedTuple):
    """Latent nodes as trees, children before parents, factorised for elimination.

    The Laplacian's block of latent nodes is (I − N) diag(pivot) (I − N)ᵀ.
    """

    parent: Index  # (k,) −1: a root
    weight: Array  # (k,) of the edge to the parent; 0: a root
    pivot: Array  # (k,)
    N: csr_array  # (k, k) weight / pivot of each node, in the row of its parent
    depth: int  # edges from a leaf to its root, at most
    inverse: Array | None = None  # (k, k) of the block, for few latent nodes

    def gather(self, x: Array) -> Array:
        """(I − N)⁻¹ x: sums over descendants; x is (k,) or (k, r)."""
        out = x
        for _ in range(self.depth):
            out = x + self.N @ out
        return out

    def spread(self, x: Array) -> Array:
        """(I − N)⁻ᵀ x: sums over ancestors."""
        out = x
        for _ in range(self.depth):
            out = x + self.N.T @ out
        return out

    def solve(self, x: Array) -> Array:
        """Inverse of the block of latent nodes, times x."""
        if self.inverse is not None:
            return np.asarray(self.inverse @ x)
        return self.spread((self.gather(x).T / self.pivot).T)


@dataclass(frozen=True, eq=False)
class Laplacian:
    """L over m tasks, positive semidefinite, with L 1 = 0.

    p L pᵀ = min Σ weight (p_first − p_second)² over the values of latent nodes, which
    have numbers from m on. Edges of ``level`` l > 0 join latent nodes of nested tasks;
    their weight has the factor ``between[l − 1]``.
    """

    m: int
    first: Index  # (e,) below ``second``; every pair once
    second: Index
    weight: Array  # above zero
    names: tuple[str, ...] = ()  # of latent nodes
    level: Index = field(default_factory=lambda: np.zeros(0, np.intp), repr=False)
    between: tuple[float, ...] = ()
    part: "Laplacian | None" = None  # of which this is several copies, one by one
    is_zero: bool = field(init=False, repr=False)
    # Weights of a chain of all tasks in order, and of one group of all tasks; zero
    # for any other graph.
    chain: float = field(init=False, repr=False)
    one_group: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        first, second, weight, m = self.first, self.second, self.weight, self.m
        chain = one_group = 0.0
        if len(weight) and np.all(weight == weight[0]):
            if m > 1 and not self.names and len(weight) == m - 1:
                if np.all(second - first == 1):
                    chain = float(weight[0])
            elif len(self.names) == 1 and len(weight) == m and np.all(second == m):
                one_group = float(weight[0])
        known = {"is_zero": len(weight) == 0, "chain": chain, "one_group": one_group}
        self.__dict__.update(known)

    @classmethod
    def empty(cls, m: int) -> Self:
        none = np.zeros(0, np.intp)
        return cls(m, none, none, np.zeros(0))

    @classmethod
    def of(
        cls,
        m: int,
        first: Index,
        second: Index,
        weight: Array,
        names: Sequence[str] = (),
        level: Index | None = None,
        between: tuple[float, ...] = (),
        *,
        keeps_idle: bool = False,
    ) -> Self:
        """Edges without loops, each once, without latent nodes that tie nothing.

        Latent nodes must form trees, with children before parents.
        """
        nodes = m + len(names)
        level = np.zeros(len(first), np.intp) if level is None else level
        low, high = np.minimum(first, second), np.maximum(first, second)
        kept = (low < high) & (weight > 0)
        while not keeps_idle:
            # A latent node with one edge takes the value at its other end.
            ends = np.concatenate([low[kept], high[kept]])
            idle = np.bincount(ends, minlength=nodes) == 1
            idle[:m] = False
            fewer = kept & ~idle[low] & ~idle[high]
            if np.array_equal(fewer, kept):
                break
            kept = fewer
        used = np.zeros(nodes, bool)
        used[:m] = True
        used[low[kept]] = used[high[kept]] = True
        used |= keeps_idle
        place = np.cumsum(used) - 1
        key = place[low[kept]] * np.intp(nodes) + place[high[kept]]
        pairs, index, inverse = np.unique(key, return_index=True, return_inverse=True)
        sums = np.bincount(inverse, weight[kept], len(pairs)).astype(np.float64)
        left = tuple(name for name, stays in zip(names, used[m:], strict=True) if stays)
        first, second = pairs // nodes, pairs % nodes
        return cls(m, first, second, sums, left, level[kept][index], between)

    @classmethod
    def from_edges(cls, m: int, first: Index, second: Index, weight: Array) -> Self:
        """½ Σ weight ‖p_first − p_second‖² as a quadratic form."""
        return cls.of(m, first.astype(np.intp), second.astype(np.intp), weight)

    @classmethod
    def from_groups(cls, m: int, members: list[Index], weight: float) -> Self:
        """½ Σ weight ‖p_i − mean of i's group‖² as a quadratic form."""
        members = [np.unique(group).astype(np.intp) for group in members]
        groups = [np.full(len(group), m + k) for k, group in enumerate(members)]
        first, second = (
            np.concatenate([np.zeros(0, np.intp), *x]) for x in (members, groups)
        )
        return cls.of(
            m, first, second, np.full(len(first), weight), [""] * len(members)
        )

    @classmethod
    def from_tree(
        cls,
        m: int,
        parent: Index,
        names: Sequence[str],
        level: Index,
        between: tuple[float, ...],
        weight: float,
        *,
        keeps_idle: bool = False,
    ) -> Self:
        """½ weight Σ_i ‖p_i − p_parent(i)‖² over tasks, then latent nodes, of a tree.

        Edges of level l > 0 have the factor ``between[l − 1]``. The parent of a root is
        −1.
        """
        nodes = np.flatnonzero(parent >= 0)
        factor = np.array([1.0, *between])[level[nodes]]
        edges = nodes, parent[nodes], weight * factor
        return cls.of(m, *edges, names, level[nodes], between, keeps_idle=keeps_idle)

    def with_between(self, between: Sequence[float]) -> Self:
        """Same tree with other weights between latent nodes."""
        if tuple(between) == self.between:
            return self
        ratio = np.array([1.0, *between]) / np.array([1.0, *self.between])
        weight = self.weight * ratio[self.level]
        return replace(self, weight=weight, between=tuple(map(float, between)))

    def __add__(self, other: Self) -> Self:
        m, k = self.m, len(self.names)
        ends = [np.where(x < m, x, x + k) for x in (other.first, other.second)]
        level = np.where(other.level > 0, other.level + len(self.between), 0)
        return self.of(
            m,
            np.concatenate([self.first, ends[0]]),
            np.concatenate([self.second, ends[1]]),
            np.concatenate([self.weight, other.weight]),
            self.names + other.names,
            np.concatenate([self.level, level]),
            self.between + other.between,
        )

    @cached_property
    def is_tree(self) -> bool:
        """Whether every task is tied to at most one latent node, and to no task."""
        ties = np.all(self.second >= self.m) and len(self.second) > 0
        return bool(ties) and len(np.unique(self.first)) == len(self.first)

    def contracted(self) -> Self:
        """Same L without latent nodes that have one child: edges in series are one."""
        if not self.is_tree:
            return self
        parent, weight = np.full(self.n_nodes, -1), np.zeros(self.n_nodes)
        parent[self.first], weight[self.first] = self.second, self.weight
        children = np.bincount(self.second, minlength=self.n_nodes)
        passes = (children == 1) & (parent >= 0)
        if not passes.any():
            return self
        for node in self.first.tolist():
            while not passes[node] and (up := parent[node]) >= 0 and passes[up]:
                parent[node] = parent[up]
                weight[node] *= weight[up] / (weight[node] + weight[up])
        kept = np.flatnonzero((parent >= 0) & ~passes)
        return self.of(self.m, kept, parent[kept], weight[kept], self.names)

    @property
    def n_nodes(self) -> int:
        """Tasks and latent nodes."""
        return self.m + len(self.names)

    def pairs(self) -> list[tuple[int, int, float]]:
        """Edges between tasks: both, and the weight."""
        ends = self.first.tolist(), self.second.tolist(), self.weight.tolist()
        return [edge for edge in zip(*ends, strict=True) if edge[1] < self.m]

    def times(self, P: Array) -> Array:
        """P L, or L p for a vector p.

        By differences between tasks, so that tasks that agree cancel: strong ties
        would multiply the rounding errors of anything else.
        """
        if self.part is not None:
            return self.part.times(P.reshape(-1, self.part.m)).reshape(P.shape)
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
        return self._pulls(self._differences(P), tasks=True).T

    def energies(self, P: Array) -> Array:
        """Diagonal of P L Pᵀ (d,), as sums of squares."""
        if self.part is not None:
            parts = self.part.energies(P.reshape(-1, self.part.m))
            return np.asarray(parts.reshape(len(P), -1).sum(axis=1))
        if self.one_group:
            apart = P - P.mean(axis=1, keepdims=True)
            # The mean of nearly equal numbers is rounded by as much as these differ.
            apart -= apart.mean(axis=1, keepdims=True)
            return self.one_group * np.einsum("ij,ij->i", apart, apart)
        if self.chain:
            apart = np.diff(P, axis=1)
            return self.chain * np.einsum("ij,ij->i", apart, apart)
        apart = self._differences(P)
        return np.asarray(np.einsum("ij,ij,j->i", apart, apart, self.weight))

    def factor(self) -> Array:
        """B (e, m) with L = BᵀB, written out, for small m."""
        return np.sqrt(self.weight)[:, np.newaxis] * self._differences(np.eye(self.m)).T

    def shares(self, latent: Sequence[int] | None = None) -> Array:
        """Latent nodes as means of tasks: their shares (k, m), which sum to one."""
        unit = np.eye(len(self.names))
        chosen = unit if latent is None else unit[:, latent]
        return np.asarray(self.forest.solve(chosen).T @ self._links)

    def dense(self) -> Array:
        """L (m, m) as an array, for small m."""
        tasks, U = self._blocks[0], self.latent.toarray()
        tasks = tasks if isinstance(tasks, np.ndarray) else tasks.toarray()
        return np.asarray(tasks - U @ U.T)

    @cached_property
    def components(self) -> Index:
        """Number of the set of connected tasks that each task is in (m,)."""
        size = (self.n_nodes, self.n_nodes)
        edges = coo_array((self.weight, (self.first, self.second)), shape=size)
        _, label = connected_components(edges, directed=False)
        return np.asarray(label[: self.m], dtype=np.intp)

    def apart(self, values: Array) -> Array:
        """Differences (..., m) from the first task that each task is connected to."""
        _, first, label = np.unique(
            self.components, return_index=True, return_inverse=True
        )
        return np.asarray(values - values[..., first[label]])

    def component_means(self, weight: Array, values: Array) -> Array:
        """Weighted mean of ``values`` (m,) over the tasks connected to each (m,)."""
        total = np.bincount(self.components, weight)
        sums = np.bincount(self.components, weight * values)
        means = np.divide(sums, total, np.zeros_like(sums), where=total > 0)
        return np.asarray(means[self.components])

    @cached_property
    def _incidence(self) -> csr_array:
        """B (e, nodes): one row per edge, +1 and −1 at its ends."""
        e = len(self.weight)
        ends = np.column_stack([self.first, self.second]).ravel()
        signs, starts = np.tile([1.0, -1.0], e), np.arange(0, 2 * e + 1, 2)
        return csr_array((signs, ends, starts), shape=(e, self.n_nodes))

    @cached_property
    def _links(self) -> csr_array:
        """Weights of edges between latent nodes and tasks (k, m)."""
        linked = (self.first < self.m) & (self.second >= self.m)
        ends = self.second[linked] - self.m, self.first[linked]
        return csr_array((self.weight[linked], ends), shape=(len(self.names), self.m))

    @cached_property
    def forest(self) -> Forest:
        """Latent nodes, eliminated from the leaves to the roots.

        What a node hands to its parent is w a / (a + w): the weight w of their edge in
        series with all that lies below. Nothing cancels.
        """
        k, inner = len(self.names), self.first >= self.m
        parent, weight = np.full(k, -1), np.zeros(k)
        child = self.first[inner] - self.m
        parent[child] = self.second[inner] - self.m
        weight[child] = self.weight[inner]
        below, height = self._links.sum(axis=1), np.zeros(k, np.intp)
        for g in range(k):
            if (up := parent[g]) >= 0:
                below[up] += weight[g] * below[g] / (below[g] + weight[g])
                height[up] = max(height[up], height[g] + 1)
        pivot = below + weight
        inside = np.flatnonzero(parent >= 0)
        values = weight[inside] / pivot[inside]
        N = csr_array((values, (parent[inside], inside)), shape=(k, k))
        forest = Forest(parent, weight, pivot, N, int(height.max(initial=0)))
        few = k <= FEW_TASKS
        return forest._replace(inverse=forest.solve(np.eye(k)) if few else None)

    @cached_property
    def diagonal(self) -> Array:
        """Sums of the weights at each task (m,); L = diagonal + edges − U Uᵀ."""
        ends = np.concatenate([self.first, self.second])
        sums = np.bincount(ends, np.tile(self.weight, 2), self.n_nodes)
        return sums[: self.m].astype(np.float64)

    @cached_property
    def latent(self) -> csr_array:
        """U (m, k): what latent nodes take off, as a sum of squares."""
        if not self.names:
            return csr_array((self.m, 0))
        forest, links = self.forest, self._links
        gathered = links
        for _ in range(forest.depth):
            gathered = csr_array(links + forest.N @ gathered)
        return csr_array(gathered.T @ diags_array(1.0 / np.sqrt(forest.pivot)))

    @cached_property
    def degree(self) -> Array:
        """Diagonal of L (m,)."""
        U = self.latent
        return self.diagonal - np.asarray(U.multiply(U).sum(axis=1)).ravel()

    def _differences(self, P: Array) -> Array:
        """Differences along edges (…, e), with latent nodes at their best."""
        if not self.names:
            return P.take(self.first, -1) - P.take(self.second, -1)
        q = self.forest.solve(self._links @ P.T)
        nodes = np.concatenate([P, q.T], axis=-1)
        apart = nodes.take(self.first, -1) - nodes.take(self.second, -1)
        # Once more, with what rounding has left.
        rest = self.forest.solve(self._pulls(apart, tasks=False))
        return np.asarray(apart - (self._turned[1].T @ rest).T)

    def _pulls(self, apart: Array, *, tasks: bool) -> Array:
        """Weighted differences (…, e) summed at tasks, or at latent nodes (…, e)."""
        return np.asarray(self._turned[0 if tasks else 1] @ (apart * self.weight).T)

    @cached_property
    def _turned(self) -> tuple[csr_array, csr_array]:
        """Transposed incidence, at tasks (m, e) and at latent nodes (k, e)."""
        turned = csr_array(self._incidence.T)
        return turned[: self.m], turned[self.m :]

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

    def shifted_solver(
        self, diagonal: Array, strength: float
    ) -> Callable[[Array], Array]:
        """Factorise diag(diagonal) + strength · L once; solve it for vectors.

        Latent nodes enter as extra unknowns, times √strength, rather than by Woodbury's
        formula, which cancels when the strength is large against the diagonal.
        """
        tasks, links, latent = self._blocks
        root = np.sqrt(strength)
        padding = np.zeros(len(self.names))
        if self.m <= FEW_TASKS and max(diagonal) < HIDDEN * strength * tasks.max():
            whole = np.block([[tasks, -links.T], [-links, latent]])
            solve = _solver_by_sums(-strength * whole, np.append(diagonal, padding))
        elif self.m <= FEW_TASKS:
            main = strength * tasks + np.diag(diagonal)
            dense = np.block([[main, -root * links.T], [-root * links, latent]])
            lu, pivots = lu_factor(dense, check_finite=False)

            def solve(rhs: Array) -> Array:
                # LAPACK's wrapper shifts the pivots while it works, so threads must
                # not share them.
                return lu_solve((lu, pivots.copy()), rhs, check_finite=False)

        else:
            main = diags_array(diagonal) + strength * tasks
            parts = [[main, -root * links.T], [-root * links, latent]]
            solve = splu(csc_array(block_array(parts))).solve
        return lambda rhs: solve(np.concatenate([rhs, padding]))[: self.m]

    @cached_property
    def _blocks(self) -> tuple[Any, Any, Any]:
        """Blocks of the Laplacian of all nodes: dense ones for few tasks."""
        B, m = self._incidence, self.m
        whole = csr_array(B.T @ diags_array(self.weight) @ B)
        blocks = whole[:m, :m], self._links, whole[m:, m:]
        return blocks if m > FEW_TASKS else tuple(x.toarray() for x in blocks)


def _solver_by_sums(between: Array, excess: Array) -> Callable[[Array], Array]:
    """Factorise a matrix with these off-diagonal entries, negated, and row sums.

    Pivots are sums of what couples a node to later ones, never differences: a diagonal
    that rounding would lose beside the couplings counts in full (Grassmann, Taksar and
    Heyman, "Regenerative analysis and steady state distributions", 1985).
    """
    rows, excess, n = between.copy(), excess.copy(), len(excess)
    for k in range(n):
        pivot = excess[k] + rows[k, k + 1 :].sum()
        share = rows[k + 1 :, k] / pivot if pivot > 0 else np.zeros(n - k - 1)
        rows[k + 1 :, k], rows[k, k] = share, pivot
        rows[k + 1 :, k + 1 :] += np.outer(share, rows[k, k + 1 :])
        excess[k + 1 :] += share * excess[k]

    # Nodes that nothing holds stay at zero.
    held = rows.diagonal() > 0
    lower = np.asfortranarray(np.tril(-rows, -1))
    upper = np.triu(-rows, 1) * held[:, np.newaxis]
    upper = np.asfortranarray(upper + np.diag(np.where(held, rows.diagonal(), 1.0)))

    def solve(rhs: Array) -> Array:
        x = dtrtrs(lower, rhs, lower=1, unitdiag=1)[0]
        return np.asarray(dtrtrs(upper, x * held)[0])

    return solve


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
