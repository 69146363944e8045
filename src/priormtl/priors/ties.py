"""Ties: each says which tasks are alike, as a graph over their labels."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol, Self

import numpy as np

from priormtl._arrays import Index
from priormtl.data import from_plain, to_plain
from priormtl.exceptions import unknown_name
from priormtl.graphs import Laplacian

__all__ = ["Chain", "Graph", "Groups", "Tie", "tie_from_plain"]

Tasks = Sequence[Hashable]
Circle = tuple[Hashable, ...]


class Tie(Protocol):
    """One source of ties between tasks."""

    def laplacian(self, tasks: Tasks) -> Laplacian:
        """Graph over these tasks."""

    def circles(self) -> tuple[Circle, ...]:
        """Sets of labels that are one step from each other, where any are named."""

    def restrict(self, tasks: frozenset[Hashable]) -> Self:
        """Only these of the tasks that are named."""

    def to_plain(self) -> dict[str, Any]:
        """JSON values that describe the tie."""


@dataclass(frozen=True)
class Chain:
    """Each task is like the next one."""

    order: tuple[Hashable, ...] | None
    weight: float

    def laplacian(self, tasks: Tasks) -> Laplacian:
        """Path graph in the given order."""
        walk = np.arange(len(tasks))
        if self.order is not None:
            walk = _positions(self.order, tasks)
            missing = [task for task in tasks if task not in self.order]
            if missing or len(walk) > len(tasks):
                fault = f"{missing[:8]} are missing" if missing else "some come twice"
                raise ValueError(f"order must hold every task once: {fault}.")
        weights = np.full(len(walk) - 1, self.weight)
        return Laplacian.from_edges(len(tasks), walk[:-1], walk[1:], weights)

    def circles(self) -> tuple[Circle, ...]:
        """Neighbours in a given order."""
        return tuple(pairwise(self.order or ()))

    def restrict(self, tasks: frozenset[Hashable]) -> Self:
        """Others leave the order; their neighbours become neighbours."""
        return replace(self, order=self.order and _only(self.order, tasks))

    def to_plain(self) -> dict[str, Any]:
        """JSON values that describe the tie."""
        order = None if self.order is None else to_plain(self.order)
        return {"tie": "chain", "order": order, "weight": self.weight}


@dataclass(frozen=True)
class Groups:
    """Each task is like the mean of its group; without groups, of all tasks."""

    members: tuple[tuple[Hashable, ...], ...] | None
    weight: float

    def laplacian(self, tasks: Tasks) -> Laplacian:
        """Complete graph in each group, scaled so that it measures spread."""
        groups = [np.arange(len(tasks))]
        if self.members is not None:
            groups = [_positions(group, tasks) for group in self.members]
        return Laplacian.from_groups(len(tasks), groups, self.weight)

    def circles(self) -> tuple[Circle, ...]:
        """Groups that were named."""
        return self.members or ()

    def restrict(self, tasks: frozenset[Hashable]) -> Self:
        """Others leave their groups."""
        groups = self.members
        members = None if groups is None else tuple(_only(g, tasks) for g in groups)
        return replace(self, members=members)

    def to_plain(self) -> dict[str, Any]:
        """JSON values that describe the tie."""
        members = None
        if self.members is not None:
            members = [to_plain(group) for group in self.members]
        return {"tie": "groups", "members": members, "weight": self.weight}


@dataclass(frozen=True)
class Graph:
    """Tasks joined by an edge are alike; positions where labels are not known."""

    first: tuple[Hashable, ...]
    second: tuple[Hashable, ...]
    weight: tuple[float, ...]
    by_position: int | None  # number of tasks of an adjacency matrix

    def laplacian(self, tasks: Tasks) -> Laplacian:
        """Weighted graph over the tasks."""
        m = len(tasks)
        if self.by_position not in (None, m):
            raise ValueError(
                "task_prior must have one row per task: the adjacency matrix has "
                f"{self.by_position} for {m} tasks."
            )
        known = tasks if self.by_position is None else range(m)
        first, second = _positions(self.first, known), _positions(self.second, known)
        return Laplacian.from_edges(m, first, second, np.array(self.weight))

    def circles(self) -> tuple[Circle, ...]:
        """Edges between labels."""
        named = self.by_position is None
        return tuple(zip(self.first, self.second, strict=True)) if named else ()

    def restrict(self, tasks: frozenset[Hashable]) -> Self:
        """Edges between others go."""
        if self.by_position is not None:
            return self
        edges = zip(self.first, self.second, self.weight, strict=True)
        kept = [edge for edge in edges if tasks.issuperset(edge[:2])]
        first, second, weight = zip(*kept, strict=True) if kept else ((), (), ())
        return replace(self, first=first, second=second, weight=weight)

    def to_plain(self) -> dict[str, Any]:
        """JSON values that describe the tie."""
        return {
            "tie": "graph",
            "first": to_plain(self.first),
            "second": to_plain(self.second),
            "weight": list(self.weight),
            "by_position": self.by_position,
        }


def tie_from_plain(plain: Any) -> Tie:
    """Tie from what ``to_plain`` made."""
    settings = dict(plain)
    kind = settings.pop("tie")
    if kind == "chain":
        order = settings["order"]
        labels = None if order is None else from_plain(order)
        return Chain(labels, settings["weight"])
    if kind == "groups":
        members = settings["members"]
        groups = None if members is None else tuple(from_plain(g) for g in members)
        return Groups(groups, settings["weight"])
    if kind != "graph":
        raise ValueError(f"unknown tie {kind!r}")
    ends = from_plain(settings["first"]), from_plain(settings["second"])
    return Graph(*ends, tuple(settings["weight"]), settings["by_position"])


def _positions(labels: Iterable[Hashable], tasks: Tasks) -> Index:
    place = {task: i for i, task in enumerate(tasks)}
    for label in labels:
        if label not in place:
            raise unknown_name("task in task_prior", label, tasks)
    return np.array([place[label] for label in labels], dtype=np.intp)


def _only(labels: Circle, tasks: frozenset[Hashable]) -> Circle:
    return tuple(label for label in labels if label in tasks)
