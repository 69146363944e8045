"""Block elimination over a graph of tasks: solves, determinant, selected inverse.

The matrix has one k × k block per node and per edge. Nodes that are not joined go
at once: the leaves of a star in one sweep, a chain by halves.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple, Self

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl.priors.graphs import Laplacian

PART = 256  # nodes whose blocks are worked on at once


@dataclass(frozen=True, eq=False)
class TieGraph:
    """Weighted edges between tasks, with further nodes for means of groups.

    Σ weight (p_first − p_second)², minimised over these nodes, is p L pᵀ.
    """

    n_nodes: int  # tasks first
    first: Index
    second: Index
    weight: Array

    @classmethod
    def of(cls, laplacian: Laplacian) -> Self:
        """Edges of L, with its latent nodes."""
        ends = laplacian.first, laplacian.second
        return cls(laplacian.n_nodes, *ends, laplacian.weight)

    @cached_property
    def parts(self) -> Index:
        """Number of the connected part that each node belongs to."""
        ends = (self.first, self.second)
        shape = (self.n_nodes, self.n_nodes)
        _, parts = connected_components(coo_array((self.weight, ends), shape=shape))
        return parts.astype(np.intp)

    @property
    def rank(self) -> int:
        """Rank of the Laplacian over all nodes."""
        return self.n_nodes - int(self.parts.max()) - 1

    def spreads(self, nodes: Array, edges: Array) -> Array:
        """Σ weight (a + b − 2 c): a, b from the ends of each edge, c from itself."""
        ends = nodes[self.first] + nodes[self.second]
        return np.tensordot(self.weight, ends - 2.0 * edges, axes=1)

    def grounded(self) -> "GroundedGraph":
        """Take out the node of each connected part that most edges meet."""
        ends = np.concatenate([self.first, self.second])
        degree = np.bincount(ends, minlength=self.n_nodes)
        order = np.lexsort((-degree, self.parts))
        roots = order[np.flatnonzero(np.diff(self.parts[order], prepend=-1))]
        stays = np.ones(self.n_nodes, dtype=bool)
        stays[roots] = False
        weight = np.zeros(self.n_nodes)
        sides = ((self.first, self.second), (self.second, self.first))
        for own, other in sides:
            np.add.at(weight, own, self.weight * ~stays[other])
        inner = stays[self.first] & stays[self.second]
        place = np.cumsum(stays) - 1
        pairs = place[self.first[inner]], place[self.second[inner]]
        nodes = np.flatnonzero(stays)
        graph = TieGraph(len(nodes), *pairs, self.weight[inner])
        return GroundedGraph(graph, nodes, self.parts[nodes], weight[nodes])


class GroundedGraph(NamedTuple):
    """A graph in which one node of each connected part is held at zero."""

    graph: TieGraph  # of the other nodes
    nodes: Index  # (n,) their numbers before
    parts: Index  # (n,) numbers of the connected parts that they belonged to
    weight: Array  # (n,) of their edges to the node that is held


@dataclass(frozen=True, eq=False)
class Places:
    """Where blocks belong; several may belong to one place."""

    index: Index

    @cached_property
    def _order(self) -> Index:
        return np.argsort(self.index, kind="stable")

    @cached_property
    def _starts(self) -> Index:
        return np.flatnonzero(np.diff(self.index[self._order], prepend=-1))

    @cached_property
    def _rounds(self) -> list[Index] | None:
        """Blocks in turns that meet no place twice; None where it takes many turns."""
        sizes = np.diff(self._starts, append=len(self.index))
        # Sums over few blocks per place are slower than turns.
        if sizes.max(initial=0) > 4:
            return None
        turn = np.arange(len(self.index)) - np.repeat(self._starts, sizes)
        return [self._order[turn == k] for k in range(sizes.max(initial=0))]

    @cached_property
    def is_one(self) -> bool:
        """Whether all blocks belong to one place."""
        return len(self._starts) == 1

    def only(self, part: slice) -> "Places":
        """Places of some of the blocks."""
        return (
            self
            if len(self.index[part]) == len(self.index)
            else Places(self.index[part])
        )

    def subtract(self, target: Array, blocks: Array) -> None:
        if self._rounds is not None:
            for chosen in self._rounds:
                target[self.index[chosen]] -= blocks[chosen]
            return
        if self.is_one:  # no copy of all blocks
            target[self.index[0]] -= blocks.sum(axis=0)
            return
        sums = np.add.reduceat(blocks[self._order], self._starts, axis=0)
        target[self.index[self._order][self._starts]] -= sums


@dataclass(frozen=True, eq=False)
class Level:
    """Nodes that go at once, with their edges to the nodes that stay."""

    nodes: Index
    edges: Index
    own: Places  # node of each edge that goes
    other: Places  # node of each edge that stays
    left: Places  # two edges of one node, and the edge that joins their other ends,
    right: Places  # from the end of ``left`` to that of ``right``
    across: Places

    @cached_property
    def pairs(self) -> tuple[Index, Index]:
        """Positions of ``left`` and ``right`` among the edges of the level."""
        order = np.argsort(self.edges)
        left = np.searchsorted(self.edges, self.left.index, sorter=order)
        right = np.searchsorted(self.edges, self.right.index, sorter=order)
        return order[left], order[right]


class _Slots(NamedTuple):
    """Where links are held while they are eliminated."""

    slot: Index  # (edges,)
    across: list[Places]  # where fill-in goes, by level
    given: Index  # edges of the graph that have a slot
    number: int


@dataclass(frozen=True, eq=False)
class Elimination:
    """Order of elimination, and all edges that it meets.

    The edges of the graph come first, in their order; then those that fill in.
    """

    graph: TieGraph
    levels: tuple[Level, ...]
    n_edges: int

    @classmethod
    def plan(cls, graph: TieGraph, most_steps: int) -> Self | None:
        """Find an order by small degree; None where it takes too many steps."""
        stages = _order(graph, most_steps)
        if stages is None:
            return None
        place = {a: k for k, a in enumerate(a for stage in stages for a in stage)}
        pairs = (sorted(pair, key=place.__getitem__) for pair in _pairs(graph))
        number = {(a, b): e for e, (a, b) in enumerate(pairs)}
        neighbours = _neighbours(graph)
        levels = [_level(stage, neighbours, place, number) for stage in stages]
        return cls(graph, tuple(levels), len(number))

    @cached_property
    def roots(self) -> Index:
        """Last node of each connected part."""
        last: dict[int, int] = {}
        for level in self.levels:
            last.update(zip(self.graph.parts[level.nodes], level.nodes, strict=True))
        return _index([last[part] for part in sorted(last)])

    @property
    def n_blocks(self) -> int:
        """Blocks of nodes and edges."""
        return self.graph.n_nodes + self.n_edges

    @cached_property
    def _all(self) -> "_Slots":
        across = [level.across for level in self.levels]
        given = np.arange(len(self.graph.weight))
        return _Slots(np.arange(self.n_edges), across, given, self.n_edges)

    @cached_property
    def _inner(self) -> "_Slots":
        """Slots of links that are not of nodes that go first.

        Links of nodes that go first stay diagonal where ties are: blocks of them would
        take as much as the data of some thousand tasks.
        """
        stays = np.ones(self.n_edges, dtype=bool)
        stays[self.levels[0].edges] = False
        slot = np.cumsum(stays) - 1
        across = [Places(slot[level.across.index]) for level in self.levels]
        given = np.flatnonzero(stays[: len(self.graph.weight)])
        return _Slots(slot, across, given, int(np.count_nonzero(stays)))

    @cached_property
    def _degree(self) -> Array:
        """Weight of the edges of each node (nodes,)."""
        ends = np.concatenate([self.graph.first, self.graph.second])
        weight = np.tile(self.graph.weight, 2)
        return np.asarray(np.bincount(ends, weight, self.graph.n_nodes), np.float64)

    def factorise(
        self, pivots: Array, tie: Array, *, overwrite: bool = False
    ) -> "Factor":
        """Factorise blockdiag(pivots) plus the Laplacian times diag(tie).

        ``pivots`` is (nodes, k, k), ``tie`` (k,), or (k, k) where rows are tied
        together. Raises LinAlgError where the sum is not positive definite.
        """
        graph, k, is_diagonal = self.graph, len(tie), tie.ndim == 1
        pivots = pivots if overwrite else np.array(pivots)
        slot, across, given, count = self._inner if is_diagonal else self._all
        links, weight = np.zeros((count, k, k)), graph.weight[given]
        degree = self._degree
        if is_diagonal:
            steps = np.arange(k)
            pivots[:, steps, steps] += np.outer(degree, tie)
            links[slot[given][:, np.newaxis], steps, steps] = -np.outer(weight, tie)
        else:
            pivots += degree[:, np.newaxis, np.newaxis] * tie
            links[slot[given]] = -weight[:, np.newaxis, np.newaxis] * tie
        gains = np.empty((self.n_edges, k, k))
        inverses, halves = np.empty_like(pivots), np.empty_like(pivots)
        least, log_determinant = np.full(k, np.inf), 0.0
        for number, level in enumerate(self.levels):
            for begin in range(0, len(level.nodes), PART):
                nodes = level.nodes[begin : begin + PART]
                # Nodes of a level are not joined: all their pivots are final.
                roots = np.linalg.cholesky(pivots[nodes])
                diagonals = np.diagonal(roots, axis1=1, axis2=2)
                log_determinant += 2.0 * float(np.log(diagonals).sum())
                least = np.minimum(least, np.min(diagonals, axis=0) ** 2)
                # By triangular factors: explicit inverses lose what strong ties hold.
                factors = np.linalg.inv(roots)
                inverses[nodes] = factors.swapaxes(1, 2) @ factors
                halves[nodes] = factors
            # A node a that goes leaves P_b − L_abᵀ P_a⁻¹ L_ab at each neighbour b, and
            # fills in L_bc − L_abᵀ P_a⁻¹ L_ac between two of them. With P_a⁻¹ = FᵀF
            # both are products of F L, which is what ``half`` holds.
            own, edges = level.own.index, level.edges
            if number == 0 and is_diagonal:
                ties, half = -graph.weight[edges, np.newaxis] * tie, None
                if len(level.left.index):
                    half = halves[own] * ties[:, np.newaxis]
                # A star needs no sums by node: blocks go to its middle in parts.
                step = PART if level.other.is_one else max(len(edges), 1)
                for begin in range(0, len(edges), step):
                    part = slice(begin, begin + step)
                    here = inverses[own[part]] * ties[part, np.newaxis]
                    gains[edges[part]] = here
                    here *= ties[part, :, np.newaxis]
                    level.other.only(part).subtract(pivots, here)
            else:
                half = halves[own] @ links[slot[edges]]
                gains[edges] = halves[own].swapaxes(1, 2) @ half
                level.other.subtract(pivots, half.swapaxes(1, 2) @ half)
            if half is not None and len(level.left.index):
                one, other = level.pairs
                left = half[one].swapaxes(1, 2)
                across[number].subtract(links, left @ half[other])
        return Factor(self, inverses, halves, gains, log_determinant, least)


@lru_cache(maxsize=8)  # fits of the same tasks share it
def plan_elimination(laplacian: Laplacian) -> Elimination | None:
    """Order of elimination of the tasks; None where too much would fill in."""
    return Elimination.plan(TieGraph.of(laplacian), most_steps=10**6)


@dataclass(frozen=True, eq=False)
class Factor:
    """Factorised matrix."""

    order: Elimination
    inverses: Array  # (nodes, k, k) of the pivots
    halves: Array  # (nodes, k, k) F with FᵀF = inverse, lower triangular
    gains: Array  # (edges, k, k)
    log_determinant: float
    least_pivots: Array  # (k,) smallest pivot of each row over all nodes

    def solve(self, rhs: Array) -> Array:
        """Solution (nodes, k, r) for right-hand sides of that shape."""
        # Forward: r_b −= L_abᵀ P_a⁻¹ r_a. Backward: x_a = P_a⁻¹ (r_a − Σ L_ab x_b). The
        # gains are P_a⁻¹ L_ab.
        found = np.array(rhs)
        for level in self.order.levels:
            turned = self.gains[level.edges].swapaxes(1, 2)
            level.other.subtract(found, turned @ found[level.own.index])
        for level in reversed(self.order.levels):
            found[level.nodes] = self.inverses[level.nodes] @ found[level.nodes]
            later = found[level.other.index]
            level.own.subtract(found, self.gains[level.edges] @ later)
        return found

    def form(self, sides: Array) -> Array:
        """Quadratic form Bᵀ A⁻¹ B (r, r) of right-hand sides B (nodes, k, r)."""
        left, r = np.array(sides), sides.shape[2]
        for level in self.order.levels:
            turned = self.gains[level.edges].swapaxes(1, 2)
            level.other.subtract(left, turned @ left[level.own.index])
        roots = (self.halves @ left).reshape(left.shape[0] * left.shape[1], r)
        return np.asarray(roots.T @ roots)

    def selected_inverse(self) -> tuple[Array, Array]:
        """Blocks of the inverse at the nodes, and at the edges of the plan."""
        # The recurrences of Erisman and Tinney ("On computing certain elements of the
        # inverse of a sparse matrix", Communications of the ACM 18, 1975), last nodes
        # first: Z_ab = −Σ_c G_ac Z_cb and Z_aa = P_a⁻¹ − Σ_b Z_ab G_abᵀ, with c and b
        # among the neighbours that stay. They need no other block of Z.
        nodes, edges = np.array(self.inverses), np.zeros_like(self.gains)
        for level in reversed(self.order.levels):
            gains = self.gains[level.edges]
            edges[level.edges] = -gains @ nodes[level.other.index]
            left, right = self.gains[level.left.index], self.gains[level.right.index]
            across = edges[level.across.index]
            level.left.subtract(edges, right @ across.swapaxes(1, 2))
            level.right.subtract(edges, left @ across)
            level.own.subtract(nodes, edges[level.edges] @ gains.swapaxes(1, 2))
        return nodes, edges

    def spreads(self) -> Array:
        """Trace of L times the inverse's block of tasks, row by row (k,)."""
        nodes, edges = self.selected_inverse()
        kept = edges[: len(self.order.graph.weight)]
        diagonals = (np.diagonal(part, axis1=1, axis2=2) for part in (nodes, kept))
        return self.order.graph.spreads(*diagonals)


def _neighbours(graph: TieGraph) -> dict[int, set[int]]:
    neighbours: dict[int, set[int]] = {a: set() for a in range(graph.n_nodes)}
    for a, b in _pairs(graph):
        neighbours[a].add(b)
        neighbours[b].add(a)
    return neighbours


def _pairs(graph: TieGraph) -> Iterable[tuple[int, int]]:
    return zip(graph.first.tolist(), graph.second.tolist(), strict=True)


def _order(graph: TieGraph, most_steps: int) -> list[list[int]] | None:
    """Nodes that go at once, time after time."""
    neighbours = _neighbours(graph)
    stages, steps = [], 0
    while neighbours:
        stages.append(_independent(neighbours))
        steps += sum(1 + len(neighbours[a]) ** 2 for a in stages[-1])
        if steps > most_steps:
            return None
        for a in stages[-1]:
            _take_out(a, neighbours)
    return stages


def _independent(neighbours: dict[int, set[int]]) -> list[int]:
    """Nodes of small degree, no two of them joined."""
    least = min(len(around) for around in neighbours.values())
    chosen: list[int] = []
    barred: set[int] = set()
    for node, around in neighbours.items():
        if len(around) <= least + 1 and node not in barred:
            chosen.append(node)
            barred |= around
    return chosen


def _take_out(a: int, neighbours: dict[int, set[int]]) -> set[int]:
    """Join the neighbours of a node in its place."""
    around = neighbours.pop(a)
    for b in around:
        neighbours[b] |= around
        neighbours[b] -= {a, b}
    return around


def _level(
    nodes: list[int],
    neighbours: dict[int, set[int]],
    place: dict[int, int],
    number: dict[tuple[int, int], int],
) -> Level:
    """Take nodes out and write down which blocks meet; edges point forward."""
    edges: list[tuple[int, ...]] = []
    triangles: list[tuple[int, ...]] = []
    for a in nodes:
        around = sorted(_take_out(a, neighbours), key=place.__getitem__)
        edges += [(number[a, b], a, b) for b in around]
        for b, c in combinations(around, 2):
            across = number.setdefault((b, c), len(number))
            triangles.append((number[a, b], number[a, c], across))
    numbers, own, other = _columns(edges)
    corners = (Places(column) for column in _columns(triangles))
    return Level(_index(nodes), numbers, Places(own), Places(other), *corners)


def _columns(rows: list[tuple[int, ...]]) -> Index:
    return np.ascontiguousarray(np.array(rows, dtype=np.intp).reshape(-1, 3).T)


def _index(numbers: list[int]) -> Index:
    return np.array(numbers, dtype=np.intp)
