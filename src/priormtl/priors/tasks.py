"""TaskPrior: which tasks are known to be alike."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from priormtl._arrays import Index
from priormtl.data import from_plain, to_plain
from priormtl.exceptions import unknown_name
from priormtl.graphs import Laplacian
from priormtl.priors.edges import check_weight, plain_label, read_edges

__all__ = ["TaskPrior", "laplacian"]

Tasks = Sequence[Hashable]


class Tie(Protocol):
    """One source of ties between tasks."""

    def laplacian(self, tasks: Tasks) -> Laplacian:
        """Graph over these tasks."""

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

    def to_plain(self) -> dict[str, Any]:
        """JSON values that describe the tie."""
        return {
            "tie": "graph",
            "first": to_plain(self.first),
            "second": to_plain(self.second),
            "weight": list(self.weight),
            "by_position": self.by_position,
        }


@dataclass(frozen=True)
class TaskPrior:
    """Known ties between tasks: the Laplacian L in ε/2 tr(P L Pᵀ).

    Tasks are named by their labels, which are resolved when a model is fitted.
    ``a + b`` holds the ties of both.

    Examples
    --------
    >>> months = TaskPrior.chain(order=["jan", "feb", "mar"])
    >>> laplacian(months, ["feb", "jan", "mar"]).dense()
    array([[ 2., -1., -1.],
           [-1.,  1.,  0.],
           [-1.,  0.,  1.]])
    """

    ties: tuple[Tie, ...]

    @classmethod
    def chain(
        cls, order: Iterable[Hashable] | None = None, weight: float = 1.0
    ) -> Self:
        """Each task is like the next: Σ ‖p_i − p_{i+1}‖².

        ``order`` lists the task labels; by default they stand as in ``tasks_``.
        """
        labels = None if order is None else tuple(plain_label(task) for task in order)
        return cls((Chain(labels, check_weight(weight)),))

    @classmethod
    def mean(cls, weight: float = 1.0) -> Self:
        """Each task is like the mean of all: Σ ‖p_i − p̄‖², for unordered tasks."""
        return cls((Groups(None, check_weight(weight)),))

    @classmethod
    def groups(
        cls, groups: Mapping[str, Iterable[Hashable]], weight: float = 1.0
    ) -> Self:
        """Each task is like the mean of its group; tasks in no group are free."""
        if not isinstance(groups, Mapping):
            raise TypeError(
                f"groups must map names to lists of tasks: got {type(groups).__name__}."
            )
        members = tuple(
            tuple(plain_label(task) for task in group) for group in groups.values()
        )
        return cls((Groups(members, check_weight(weight)),))

    @classmethod
    def from_graph(cls, graph: Any) -> Self:
        """Edges of a graph, with weights: Σ weight ‖p_a − p_b‖².

        ``graph`` is an edge list or a networkx graph over task labels, or a
        symmetric adjacency matrix over the tasks in the order of ``tasks_``.
        """
        edges = read_edges(graph)
        if any(weight < 0 for _, _, weight in edges):
            raise ValueError("task_prior must have no negative weights.")
        first, second, weight = zip(*edges, strict=True) if edges else ((), (), ())
        is_matrix = hasattr(graph, "shape")
        size = int(graph.shape[0]) if is_matrix else None
        return cls((Graph(first, second, weight, size),))

    def __add__(self, other: Self) -> Self:
        """Ties of both priors."""
        if not isinstance(other, TaskPrior):
            return NotImplemented
        return type(self)(self.ties + other.ties)

    def to_plain(self) -> list[dict[str, Any]]:
        """JSON values that describe the prior."""
        return [tie.to_plain() for tie in self.ties]

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """Prior from what ``to_plain`` made."""
        return cls(tuple(_tie_from_plain(tie) for tie in plain))


def laplacian(prior: TaskPrior | None, tasks: Tasks) -> Laplacian:
    """L (m, m), sparse, over these tasks."""
    total = Laplacian.empty(len(tasks))
    for tie in prior.ties if prior is not None else ():
        total = total + tie.laplacian(tasks)
    return total


def _tie_from_plain(plain: Any) -> Tie:
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
