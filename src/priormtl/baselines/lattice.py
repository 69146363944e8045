"""Groups of tasks, and the norm of MTFL on their lattice.

Lengths Θ_jg of blocks of features j and groups of tasks g have the norm

    Q_g = (Σ_j Θ_jg^p)^(1/p),   N_v = (Σ_g⊇v Q_g^q)^(1/q),   Ω = Σ_v a^(|v| − 1) N_v.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import linkage

from priormtl._arrays import Array
from priormtl._lazy import cached_property

LEAST_SHARE = 1e-14  # of Ω that weights leave to a group, so that it can return

Group = tuple[int, ...]


def check_groups(sets: Iterable[Iterable[int]]) -> list[Group]:
    """Each group once, small ones first."""
    unique = sorted({tuple(sorted(set(g))) for g in sets}, key=lambda g: (len(g), g))
    if len(unique) > (most := 1023):
        raise ValueError(
            f"groups must be at most {most}: got {len(unique)}. List fewer."
        )
    return unique


def tree_groups(coef: Array) -> list[Group]:
    """Nodes of the average-linkage tree of tasks (m, r): at most 2m − 1 groups."""
    nodes: list[Group] = [(i,) for i in range(len(coef))]
    if len(coef) > 1:
        # Squares of differences must stay within the range of doubles.
        size = np.abs(coef).max() or 1.0
        for left, right in linkage(coef / size, "average")[:, :2].astype(int):
            nodes.append(nodes[left] + nodes[right])
    return check_groups(nodes)


def named_groups(groups: object, tasks: Sequence[Hashable]) -> list[Group]:
    """Groups listed by task names; together they must hold every task."""
    position = {task: i for i, task in enumerate(tasks)}
    given = list(groups) if isinstance(groups, Iterable) else [()]
    listed = [list(group) if isinstance(group, list | tuple) else [] for group in given]
    wrong = [task for group in listed for task in group if task not in position]
    missing = set(tasks) - set(chain(*listed))
    if wrong or missing or not all(listed):
        raise ValueError(
            'groups must be "auto", "all", "tree", or a list of non-empty lists of '
            "task names that hold every task. Unknown names are "
            f"{wrong[:8]}, missing tasks {sorted(missing, key=str)[:8]}: got {groups}."
        )
    return check_groups([position[task] for task in group] for group in listed)


class Levels(NamedTuple):
    """The norm level by level."""

    group: Array  # Q (g,) of each group
    above: Array  # N (g,) of the groups that contain a group
    total: float  # Ω


@dataclass(frozen=True, eq=False)
class LatticeNorm:
    """Ω of lengths Θ (k, g), with its weights, kernels and dual norm."""

    groups: Sequence[Group]
    m: int
    mean_share: float  # μ
    growth: float  # a
    p: float
    q: float

    @cached_property
    def member(self) -> Array:
        """(g, m) 1 where a task belongs to a group, else 0."""
        member = np.zeros((len(self.groups), self.m))
        for row, group in zip(member, self.groups, strict=True):
            row[list(group)] = 1.0
        return member

    @cached_property
    def sizes(self) -> Array:
        return self.member.sum(axis=1)

    @cached_property
    def below(self) -> Array:
        """(v, g) 1 where group v is part of group g, or the same; else 0."""
        return (self.member @ self.member.T == self.sizes[:, np.newaxis]).astype(float)

    @cached_property
    def cost(self) -> Array:
        """a^(|v| − 1) of each group (g,), within the range of doubles."""
        return np.exp(np.minimum(np.log(self.growth) * (self.sizes - 1.0), 230.0))

    @cached_property
    def start(self) -> Array:
        """Lengths (g,) at which all groups have about the same norm."""
        return 1.0 / (self.below.T @ self.cost)

    @cached_property
    def _excess(self) -> Array:
        """(1/μ − 1) / |g|, what a group's mean adds to M_g⁻¹ (g,)."""
        return (1.0 / self.mean_share - 1.0) / self.sizes

    def levels(self, lengths: Array) -> Levels:
        """Q, N and Ω of lengths Θ (k, g)."""
        group = _norms(lengths.T, self.p)
        top = float(group.max(initial=0.0)) or 1.0
        above = top * (self.below @ (group / top) ** self.q) ** (1.0 / self.q)
        return Levels(group, above, float(self.cost @ above))

    def lift(self, lengths: Array, least: float = LEAST_SHARE) -> Array:
        """Lengths of which none falls below a least share of Ω."""
        total = self.levels(lengths).total
        return np.hypot(lengths, (least * total if total > 0 else 1.0) * self.start)

    def weights(self, lengths: Array, least: float = LEAST_SHARE) -> Array:
        """κ_jg = Θ_jg / (Ω ∂Ω/∂Θ_jg), at which ½ Σ Θ² / κ = ½ Ω² (k, g)."""
        lengths = self.lift(lengths, least)
        group, above, total = self.levels(lengths)
        slope = self.below.T @ (self.cost * above ** (1.0 - self.q))
        share = (lengths / group) ** (2.0 - self.p)
        return share * group ** (2.0 - self.q) / (total * slope)

    def kernels(self, weights: Array) -> Array:
        """B_j = Σ_g κ_jg M_g⁻¹ (k, m, m), kernels between tasks."""
        scaled = self.member.T * (weights * self._excess)[:, np.newaxis]
        return scaled @ self.member + np.stack(
            [np.diag(w) for w in weights @ self.member]
        )

    def dual_lengths(self, H: Array, blocks: Sequence[slice]) -> Array:
        """√(Σ_i∈g ‖h_i‖² + (1/μ − 1)/|g| ‖Σ_i∈g h_i‖²) of rows of H (m, r): (k, g)."""
        squares = [self.member @ np.sum(H[:, s] ** 2, axis=1) for s in blocks]
        sums = [np.sum((self.member @ H[:, s]) ** 2, axis=1) for s in blocks]
        return np.sqrt(np.array(squares) + self._excess * np.array(sums))

    def dual_bound(self, lengths: Array, near: Array) -> float:
        """Upper bound of the dual norm of lengths (k, g), exact at the optimum.

        The dual norm is the least t for which the lengths of groups are sums of parts
        z_v on the groups above v with ‖z_v‖_q* ≤ t d_v. All parts give bounds; those
        of the norm's gradient at ``near`` are the best ones where it is optimal.
        """
        group = _norms(lengths.T, self.p / (self.p - 1.0))
        force = self.cost * self.levels(self.lift(near)).above ** (1.0 - self.q)
        portion = group / (self.below.T @ force)
        # Conjugate norms over the groups above, or their sums where powers underflow.
        power, top = self.q / (self.q - 1.0), float(portion.max(initial=0.0)) or 1.0
        sums = self.below @ (portion / top) ** power
        safe = self.below @ (portion / top)
        joined = np.where(sums > 1e-280, sums ** (1.0 / power), safe)
        return float(np.max(force * top * joined / self.cost))


def _norms(values: Array, power: float) -> Array:
    """(Σ t^power)^(1/power) of each row (g,)."""
    top = float(values.max(initial=0.0)) or 1.0
    return np.asarray(top * np.sum((values / top) ** power, axis=1) ** (1.0 / power))
