"""Groups of tasks, and the norm over their lattice in which a group needs its subsets.

Each pair of a block of features j and a group of tasks g has coefficients U_jg of its
own; the coefficients of a task are the sum over its groups. The norm has levels::

    Θ_jg² = μ |g| ‖mean of U_jg‖² + Σ_i∈g ‖u_i − mean‖²      length of U_jg
    Q_g = (Σ_j Θ_jg^p)^(1/p)                                 over blocks
    N_v = (Σ_g⊇v Q_g^q)^(1/q)                                over groups that contain v
    Ω = Σ_v a^(|v| − 1) N_v

½ Ω² is the minimum of ½ Σ Θ_jg² / κ_jg over weights κ in a convex set, which turns a
problem in Ω² into ridge regressions with kernels B_j = Σ_g κ_jg M_g⁻¹ between tasks,
M_g⁻¹ = I + (1/μ − 1) 11ᵀ/|g| on the tasks of g.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy.cluster.hierarchy import linkage

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property

MOST_TASKS_OF_ALL = 10  # 1023 groups
MOST_GROUPS = 1023
LEAST_SHARE = 1e-14  # of Ω that weights leave to a group, so that it can return
LARGEST_LEVEL = 1e100
TINY = 1e-280

Blocks = tuple[slice, ...]


@dataclass(frozen=True, eq=False)
class TaskGroups:
    """Different, non-empty groups of m tasks; small ones first."""

    member: Array  # (g, m) 1 where a task belongs to a group, else 0

    @classmethod
    def of(cls, sets: Iterable[Iterable[int]], m: int) -> "TaskGroups":
        """Each group once, small ones first."""
        unique = sorted(
            {tuple(sorted(set(g))) for g in sets}, key=lambda g: (len(g), g)
        )
        if len(unique) > MOST_GROUPS:
            raise ValueError(
                f"groups must be at most {MOST_GROUPS}: got {len(unique)}. List fewer "
                'groups, or use groups="tree" with fewer tasks.'
            )
        return cls(membership(unique, m))

    def __len__(self) -> int:
        return len(self.member)

    @cached_property
    def sizes(self) -> Array:
        return self.member.sum(axis=1)

    @cached_property
    def below(self) -> Array:
        """(v, g) 1 where group v is part of group g, or the same; else 0."""
        shared = self.member @ self.member.T
        return (shared == self.sizes[:, np.newaxis]).astype(np.float64)

    def named(self, tasks: Sequence[Hashable]) -> list[tuple[Hashable, ...]]:
        return [tuple(tasks[i] for i in group) for group in self.sets()]

    def sets(self) -> list[tuple[int, ...]]:
        return [tuple(np.flatnonzero(row).tolist()) for row in self.member]

    def add(self, groups: Iterable[tuple[int, ...]]) -> "TaskGroups":
        return TaskGroups.of([*self.sets(), *groups], self.member.shape[1])

    def find(self, others: "TaskGroups") -> Index:
        """Positions of other groups among these."""
        place = {group: k for k, group in enumerate(self.sets())}
        return np.array([place[group] for group in others.sets()], dtype=np.intp)

    def candidates(self) -> list[tuple[int, ...]]:
        """Groups that are not there, while all their largest proper subsets are."""
        known = set(self.sets())
        m = self.member.shape[1]
        grown = {
            (*group, i) for group in known for i in range(group[-1] + 1, m)
        } - known
        return sorted(
            group
            for group in grown
            if all(part in known for part in combinations(group, len(group) - 1))
        )


def single_groups(m: int) -> TaskGroups:
    return TaskGroups(np.eye(m))


def all_groups(m: int) -> TaskGroups:
    if m > MOST_TASKS_OF_ALL:
        raise ValueError(
            f'groups="all" needs at most {MOST_TASKS_OF_ALL} tasks: got {m}. Use '
            '"tree", "active" or a list of groups.'
        )
    sets = (g for size in range(1, m + 1) for g in combinations(range(m), size))
    return TaskGroups.of(sets, m)


def tree_groups(coef: Array) -> TaskGroups:
    """Nodes of the average-linkage tree of tasks (m, r): at most 2m − 1 groups."""
    m = len(coef)
    nodes: list[tuple[int, ...]] = [(i,) for i in range(m)]
    if m > 1:
        # Squares of differences must stay within the range of doubles.
        size = np.abs(coef).max() or 1.0
        for left, right in linkage(coef / size, "average")[:, :2].astype(int):
            nodes.append(tuple(sorted(nodes[left] + nodes[right])))
    return TaskGroups.of(nodes, m)


def named_groups(groups: Any, tasks: Sequence[Hashable]) -> TaskGroups:
    """Groups listed by task names; together they must hold every task."""
    if not isinstance(groups, Iterable):
        raise ValueError(
            'groups must be "auto", "all", "tree", "active" or a list of groups of '
            f"task names: got {groups!r}."
        )
    position = {task: i for i, task in enumerate(tasks)}
    sets = []
    for group in groups:
        listed = isinstance(group, Iterable) and not isinstance(group, str)
        if not listed or not list(group):
            raise ValueError(
                "groups must list non-empty groups of task names: got "
                f"{group!r} as a group."
            )
        for task in group:
            if task not in position:
                raise ValueError(
                    f"groups must hold known tasks only: got {task!r}. The tasks are "
                    f"{list(position)[:8]}."
                )
        sets.append(tuple(position[task] for task in group))
    missing = [task for task in tasks if position[task] not in set().union(*sets)]
    if missing:
        raise ValueError(
            f"groups must hold every task at least once: {missing[:8]} are missing. "
            "Add them as groups of one task."
        )
    return TaskGroups.of(sets, len(tasks))


def membership(sets: Sequence[tuple[int, ...]], m: int) -> Array:
    """(g, m) 1 where a task belongs to a group, else 0."""
    member = np.zeros((len(sets), m))
    for row, group in zip(member, sets, strict=True):
        row[list(group)] = 1.0
    return member


class Levels(NamedTuple):
    """The norm level by level."""

    group: Array  # Q (g,) of each group
    above: Array  # N (g,) of the groups that contain a group
    total: float  # Ω


@dataclass(frozen=True, eq=False)
class LatticeNorm:
    """Ω of lengths Θ (k, g), with its weights, kernels and dual norm."""

    groups: TaskGroups
    mean_share: float  # μ
    growth: float  # a
    p: float
    q: float

    @cached_property
    def level_weight(self) -> Array:
        """d_v (g,)."""
        most = np.log(LARGEST_LEVEL)
        return np.exp(np.minimum(np.log(self.growth) * (self.groups.sizes - 1.0), most))

    @cached_property
    def start(self) -> Array:
        """Lengths (g,) at which all groups have about the same norm."""
        return 1.0 / (self.groups.below.T @ self.level_weight)

    @cached_property
    def _mean_excess(self) -> Array:
        """(1/μ − 1) / |g|, what a group's mean adds to M_g⁻¹ (g,)."""
        return (1.0 / self.mean_share - 1.0) / self.groups.sizes

    def levels(self, lengths: Array) -> Levels:
        """Q, N and Ω of lengths Θ (k, g)."""
        top = float(lengths.max(initial=0.0))
        if top == 0.0:
            zeros = np.zeros(lengths.shape[1])
            return Levels(zeros, zeros, 0.0)
        group = np.sum((lengths / top) ** self.p, axis=0) ** (1.0 / self.p)
        above = (self.groups.below @ group**self.q) ** (1.0 / self.q)
        total = top * float(self.level_weight @ above)
        return Levels(top * group, top * above, total)

    def value(self, lengths: Array) -> float:
        return self.levels(lengths).total

    def weights(self, lengths: Array, least: float = LEAST_SHARE) -> Array:
        """κ (k, g) at which ½ Σ Θ² / κ = ½ Ω²; no group falls below a least share."""
        # κ_jg = Θ_jg / (Ω ∂Ω/∂Θ_jg): the weights at which the bound ½ Σ Θ²/κ is tight.
        lengths = self._lift(lengths, least)
        group, above, total = self.levels(lengths)
        slope = self.groups.below.T @ (self.level_weight * above ** (1.0 - self.q))
        share = (lengths / group) ** (2.0 - self.p)
        return share * group ** (2.0 - self.q) / (total * slope)

    def dual_bound(self, lengths: Array, near: Array) -> float:
        """Upper bound of the dual norm of lengths (k, g), exact at the optimum.

        The dual norm is the least t for which the lengths of groups are sums of parts
        z_v on the groups above v with ‖z_v‖_q* ≤ t d_v. Any parts give a bound; those
        of the norm's gradient at ``near`` are the best ones where it is optimal.
        """
        group = self._dual_lengths(lengths)
        _, above, _ = self.levels(self._lift(near, LEAST_SHARE))
        force = self.level_weight * above ** (1.0 - self.q)
        portion = group / (self.groups.below.T @ force)
        parts = force * self._conjugate_above(portion)
        return float(np.max(parts / self.level_weight))

    def relative_dual_norms(
        self, candidates: TaskGroups, H: Array, blocks: Blocks
    ) -> Array:
        """‖(√D_jg)_j‖_p* / d_g of candidates; above Ω they may enter the solution."""
        norm = replace(self, groups=candidates)
        squares = norm.dual_squares(H, blocks)
        return norm._dual_lengths(np.sqrt(squares)) / norm.level_weight

    def kernels(self, weights: Array) -> Array:
        """B_j = Σ_g κ_jg M_g⁻¹ (k, m, m), kernels between tasks."""
        member = self.groups.member
        means = (member.T * (weights * self._mean_excess)[:, np.newaxis]) @ member
        diagonal = np.arange(member.shape[1])
        means[:, diagonal, diagonal] += weights @ member
        return means

    def dual_squares(self, H: Array, blocks: Blocks) -> Array:
        """D_jg (k, g) = Σ_i∈g ‖h_i‖² + (1/μ − 1)/|g| ‖Σ_i∈g h_i‖² of rows of H."""
        member = self.groups.member
        sums = member @ H
        return np.stack(
            [
                member @ np.einsum("ij,ij->i", H[:, s], H[:, s])
                + self._mean_excess * np.einsum("ij,ij->i", sums[:, s], sums[:, s])
                for s in blocks
            ]
        )

    def _lift(self, lengths: Array, least: float) -> Array:
        total = self.value(lengths)
        return np.hypot(lengths, (least * total if total > 0 else 1.0) * self.start)

    def _dual_lengths(self, lengths: Array) -> Array:
        """Joined over blocks by the conjugate of p (g,)."""
        top = float(lengths.max(initial=0.0)) or 1.0
        power = self.p / (self.p - 1.0)
        return top * np.sum((lengths / top) ** power, axis=0) ** (1.0 / power)

    def _conjugate_above(self, values: Array) -> Array:
        """Norm of the conjugate of q over the groups that contain a group (g,)."""
        top = float(values.max(initial=0.0)) or 1.0
        power = self.q / (self.q - 1.0)
        sums = self.groups.below @ (values / top) ** power
        # A sum is never below this norm; powers may leave the range of doubles.
        safe = top * (self.groups.below @ (values / top))
        return np.where(sums > TINY, top * sums ** (1.0 / power), safe)
