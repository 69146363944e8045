"""TaskGroups: groups of tasks, which of them contain which, and how they are chosen."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import linkage

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property

__all__ = [
    "TaskGroups",
    "all_groups",
    "membership",
    "named_groups",
    "single_groups",
    "tree_groups",
]

MOST_TASKS_OF_ALL = 10  # 1023 groups
MOST_GROUPS = 1023


@dataclass(frozen=True, eq=False)
class TaskGroups:
    """Different, non-empty groups of m tasks; small ones first."""

    member: Array  # (g, m) 1 where a task belongs to a group, else 0

    def __len__(self) -> int:
        return len(self.member)

    @cached_property
    def sizes(self) -> Array:
        """Number of tasks in each group (g,)."""
        return self.member.sum(axis=1)

    @cached_property
    def below(self) -> Array:
        """(v, g) 1 where group v is part of group g, or the same; else 0."""
        shared = self.member @ self.member.T
        return (shared == self.sizes[:, np.newaxis]).astype(np.float64)

    def named(self, tasks: Sequence[Hashable]) -> list[tuple[Hashable, ...]]:
        """Groups as tuples of task names."""
        return [tuple(tasks[i] for i in group) for group in self.sets()]

    def sets(self) -> list[tuple[int, ...]]:
        """Positions of the tasks of each group."""
        return [tuple(np.flatnonzero(row).tolist()) for row in self.member]

    def add(self, groups: Iterable[tuple[int, ...]]) -> "TaskGroups":
        """These groups too."""
        return _from_sets([*self.sets(), *groups], self.member.shape[1])

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
    """Each task alone."""
    return TaskGroups(np.eye(m))


def all_groups(m: int) -> TaskGroups:
    """Every non-empty subset of few tasks."""
    if m > MOST_TASKS_OF_ALL:
        raise ValueError(
            f"groups='all' needs at most {MOST_TASKS_OF_ALL} tasks, whose subsets can "
            f'be listed: got {m}; use "tree", "active" or a list of groups.'
        )
    sets = (g for size in range(1, m + 1) for g in combinations(range(m), size))
    return _from_sets(sets, m)


def tree_groups(coef: Array) -> TaskGroups:
    """Nodes of the average-linkage tree of tasks (m, r): at most 2m − 1 groups."""
    m = len(coef)
    nodes: list[tuple[int, ...]] = [(i,) for i in range(m)]
    if m > 1:
        # Squares of differences must stay within the range of doubles.
        size = np.abs(coef).max() or 1.0
        for left, right in linkage(coef / size, "average")[:, :2].astype(int):
            nodes.append(tuple(sorted(nodes[left] + nodes[right])))
    return _from_sets(nodes, m)


def named_groups(groups: Any, tasks: Sequence[Hashable]) -> TaskGroups:
    """Groups listed by task names; together they must hold every task."""
    if not isinstance(groups, Iterable):
        raise ValueError(
            'groups must be "auto", "all", "tree", "active" or a list of groups of '
            f"task names: got {groups!r}."
        )
    position = {task: i for i, task in enumerate(tasks)}
    sets = [tuple(_find(task, position) for task in _listed(group)) for group in groups]
    missing = [task for task in tasks if position[task] not in set().union(*sets)]
    if missing:
        raise ValueError(
            f"groups must hold every task at least once: {missing[:8]} are in none; "
            "add them, alone if need be."
        )
    return _from_sets(sets, len(tasks))


def _listed(group: Any) -> Iterable[Hashable]:
    if isinstance(group, str) or not isinstance(group, Iterable) or not list(group):
        raise ValueError(
            f"groups must list groups of task names, none of them empty: got {group!r}."
        )
    return group


def _find(task: Hashable, position: dict[Hashable, int]) -> int:
    if task not in position:
        raise ValueError(
            f"groups must be made of known tasks: got {task!r}; the tasks are "
            f"{list(position)[:8]}."
        )
    return position[task]


def _from_sets(sets: Iterable[Iterable[int]], m: int) -> TaskGroups:
    """Each group once, small ones first."""
    unique = sorted({tuple(sorted(set(g))) for g in sets}, key=lambda g: (len(g), g))
    if len(unique) > MOST_GROUPS:
        raise ValueError(
            f"groups must be at most {MOST_GROUPS}: got {len(unique)}; use "
            'groups="tree", or list fewer.'
        )
    return TaskGroups(membership(unique, m))


def membership(sets: Sequence[tuple[int, ...]], m: int) -> Array:
    """(g, m) 1 where a task belongs to a group, else 0."""
    member = np.zeros((len(sets), m))
    for row, group in zip(member, sets, strict=True):
        row[list(group)] = 1.0
    return member
