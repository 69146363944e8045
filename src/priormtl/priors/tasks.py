"""TaskPrior: which tasks are known to be alike.

A prior is a sum of ties, each a graph over task labels: a chain in the order of the
tasks, groups whose members are alike, or any weighted graph. Resolved against the tasks
of a fit they add up to the Laplacian L in ε/2 tr(P L Pᵀ). A :class:`Neighbourhood` asks
the same graph for the tasks that are nearest to one without rows.
"""

import datetime
import os
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise, repeat
from typing import Any, Self

import numpy as np

from priormtl._arrays import Index
from priormtl._lazy import cached_property
from priormtl.data import from_plain, to_plain
from priormtl.exceptions import DataFileError, suggest, unknown_name
from priormtl.graphs import Laplacian
from priormtl.priors.edges import (
    MOST_TERMS,
    Line,
    check_weight,
    line_table,
    plain_label,
    read_edges,
)
from priormtl.priors.files import PriorFile, read_prior_file
from priormtl.tables import Table, count_words, spell_number, to_notebook

TASK_WORDS = ("chain", "mean")
FEWEST_IN_ORDER = 3  # fewer tasks are in any order

Labels = tuple[Hashable, ...]
Tasks = Sequence[Hashable]


# A tie gives its Laplacian over tasks (``laplacian``), the sets of labels that it names
# as one step from each other (``circles``), and itself without other labels
# (``restrict``).


@dataclass(frozen=True)
class Chain:
    """Each task is like the next one."""

    order: tuple[Hashable, ...] | None
    weight: float

    @property
    def words(self) -> str:
        return "chain" if self.order is None else f"chain of {len(self.order)} tasks"

    def laplacian(self, tasks: Tasks) -> Laplacian:
        walk = np.arange(len(tasks))
        if self.order is not None:
            walk = _positions(self.order, tasks)
            missing = [task for task in tasks if task not in self.order]
            if missing or len(walk) > len(tasks):
                fault = f"{missing[:8]} are missing" if missing else "some come twice"
                raise ValueError(f"order must hold every task once: {fault}.")
        weights = np.full(len(walk) - 1, self.weight)
        return Laplacian.from_edges(len(tasks), walk[:-1], walk[1:], weights)

    def circles(self) -> tuple[Labels, ...]:
        return tuple(pairwise(self.order or ()))

    def restrict(self, tasks: frozenset[Hashable]) -> Self:
        """Others leave the order; their neighbours become neighbours."""
        return replace(self, order=self.order and _only(self.order, tasks))

    def to_plain(self) -> dict[str, Any]:
        order = None if self.order is None else to_plain(self.order)
        return {"tie": "chain", "order": order, "weight": self.weight}


@dataclass(frozen=True)
class Groups:
    """Each task is like the mean of its group; without groups, of all tasks."""

    members: tuple[tuple[Hashable, ...], ...] | None
    weight: float

    @property
    def words(self) -> str:
        return (
            "mean" if self.members is None else count_words(len(self.members), "group")
        )

    def laplacian(self, tasks: Tasks) -> Laplacian:
        """Complete graph in each group, scaled so that it measures spread."""
        groups = [np.arange(len(tasks))]
        if self.members is not None:
            groups = [_positions(group, tasks) for group in self.members]
        return Laplacian.from_groups(len(tasks), groups, self.weight)

    def circles(self) -> tuple[Labels, ...]:
        return self.members or ()

    def restrict(self, tasks: frozenset[Hashable]) -> Self:
        groups = self.members
        members = None if groups is None else tuple(_only(g, tasks) for g in groups)
        return replace(self, members=members)

    def to_plain(self) -> dict[str, Any]:
        members = None
        if self.members is not None:
            members = [to_plain(group) for group in self.members]
        return {"tie": "groups", "members": members, "weight": self.weight}


@dataclass(frozen=True)
class Graph:
    """Tasks joined by an edge are alike; positions where labels are not known."""

    first: Labels
    second: Labels
    weight: tuple[float, ...]
    by_position: int | None  # number of tasks of an adjacency matrix

    @property
    def words(self) -> str:
        return count_words(len(self.first), "edge")

    def laplacian(self, tasks: Tasks) -> Laplacian:
        m = len(tasks)
        if self.by_position not in (None, m):
            raise ValueError(
                "task_prior must have one row per task: the adjacency matrix has "
                f"{self.by_position} for {m} tasks."
            )
        known = tasks if self.by_position is None else range(m)
        first, second = _positions(self.first, known), _positions(self.second, known)
        return Laplacian.from_edges(m, first, second, np.array(self.weight))

    def circles(self) -> tuple[Labels, ...]:
        named = self.by_position is None
        return tuple(zip(self.first, self.second, strict=True)) if named else ()

    def restrict(self, tasks: frozenset[Hashable]) -> Self:
        if self.by_position is not None:
            return self
        edges = zip(self.first, self.second, self.weight, strict=True)
        kept = [edge for edge in edges if tasks.issuperset(edge[:2])]
        first, second, weight = zip(*kept, strict=True) if kept else ((), (), ())
        return replace(self, first=first, second=second, weight=weight)

    def to_plain(self) -> dict[str, Any]:
        return {
            "tie": "graph",
            "first": to_plain(self.first),
            "second": to_plain(self.second),
            "weight": list(self.weight),
            "by_position": self.by_position,
        }


Tie = Chain | Groups | Graph


@dataclass(frozen=True, repr=False)
class TaskPrior:
    """Known similarities between tasks.

    A task prior is a graph of tasks. Its Laplacian is L in the penalty
    epsilon/2 tr(P L Pᵀ), which couples tasks that are joined by an edge. Tasks are
    given by their labels, which are resolved during fit. Priors can be added: ``a + b``
    contains the edges of both.

    See Also
    --------
    FeaturePrior : Known relations between features.

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
        """Each task is similar to the next one, for ordered tasks.

        The penalty is weight · Σ ‖p_i − p_(i+1)‖².

        Parameters
        ----------
        order : iterable of labels, optional
            Task labels in their order. The default is the order of ``tasks_``.
        weight : float, default=1.0
            Weight of the coupling. It multiplies ``epsilon``.
        """
        labels = None if order is None else tuple(plain_label(task) for task in order)
        return cls((Chain(labels, check_weight(weight)),))

    @classmethod
    def mean(cls, weight: float = 1.0) -> Self:
        """Each task is similar to the mean of all tasks, for tasks without an order.

        The penalty is weight · Σ ‖p_i − p̄‖².

        Parameters
        ----------
        weight : float, default=1.0
            Weight of the coupling. It multiplies ``epsilon``.
        """
        return cls((Groups(None, check_weight(weight)),))

    @classmethod
    def groups(
        cls, groups: Mapping[str, Iterable[Hashable]], weight: float = 1.0
    ) -> Self:
        """Each task is similar to the mean of its group.

        Parameters
        ----------
        groups : mapping from names to task labels
            Tasks of each group. Tasks that are in no group are not coupled.
        weight : float, default=1.0
            Weight of the coupling. It multiplies ``epsilon``.
        """
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
        """Tasks that are joined by an edge are similar.

        The penalty is Σ weight · ‖p_a − p_b‖² over all edges.

        Parameters
        ----------
        graph : edge list, symmetric matrix or networkx graph
            Graph of task labels with nonnegative weights. A matrix is the adjacency
            matrix of the tasks, in the order of ``tasks_``.
        """
        edges = read_edges(graph)
        if any(weight < 0 for _, _, weight in edges):
            raise ValueError("task_prior must have no negative weights.")
        first, second, weight = zip(*edges, strict=True) if edges else ((), (), ())
        is_matrix = hasattr(graph, "shape")
        size = int(graph.shape[0]) if is_matrix else None
        return cls((Graph(first, second, weight, size),))

    @classmethod
    def from_file(cls, file: str | os.PathLike[str] | PriorFile) -> Self:
        """Read which tasks are similar from a TOML or CSV file.

        Parameters
        ----------
        file : path or PriorFile
            TOML file with tables ``[[task_similar]]``, ``[[task_group]]`` and
            ``[task_nested]``, or CSV file with the columns relation, first, second and
            (optionally) weight. Statements about features are left to
            :meth:`FeaturePrior.from_file`.
        """
        read = file if isinstance(file, PriorFile) else read_prior_file(file)
        if not read.task_relations:
            raise DataFileError(
                f"{read.path} does not relate tasks: read it with "
                "FeaturePrior.from_file."
            )
        found = cls(())
        pairs = [one for one in read.task_relations if one.kind == "task_similar"]
        if pairs:
            found += cls.from_graph([(*one.names, one.weight) for one in pairs])
        for number, one in enumerate(read.task_relations):
            if one.kind == "task_group":
                found += cls.groups({str(number): one.names}, one.weight)
            elif one.kind == "task_nested":
                found += cls.nested(dict(zip(one.names, one.values, strict=True)))
        return found

    def __add__(self, other: Self) -> Self:
        """Ties of both priors."""
        if not isinstance(other, TaskPrior):
            return NotImplemented
        return type(self)(self.ties + other.ties)

    def restrict(self, tasks: Tasks) -> Self:
        """Same prior, without labels of tasks that are not among these."""
        kept = frozenset(tasks)
        return type(self)(tuple(tie.restrict(kept) for tie in self.ties))

    @property
    def words(self) -> str:
        """Names of the ties; edges and groups are counted."""
        return " + ".join(tie.words for tie in self.ties) or "no ties"

    def __repr__(self) -> str:
        return f"TaskPrior({self.words})"

    def _repr_html_(self) -> str:
        return to_notebook([self.table()])

    def table(self) -> Table:
        """Table of the first ties."""
        found = [_lines(tie) for tie in self.ties]
        lines = chain.from_iterable(lines for _, lines in found)
        return line_table(repr(self), lines, sum(count for count, _ in found), "ties")

    def to_plain(self) -> list[dict[str, Any]]:
        """JSON values that describe the prior."""
        return [tie.to_plain() for tie in self.ties]

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """Prior from what ``to_plain`` made."""
        ties = list[Tie]()
        for one in plain:
            kind = one["tie"]
            if kind == "chain":
                order = one["order"]
                labels = None if order is None else from_plain(order)
                ties.append(Chain(labels, one["weight"]))
            elif kind == "groups":
                groups = one["members"]
                members = None if groups is None else tuple(map(from_plain, groups))
                ties.append(Groups(members, one["weight"]))
            elif kind == "graph":
                ends = from_plain(one["first"]), from_plain(one["second"])
                ties.append(Graph(*ends, tuple(one["weight"]), one["by_position"]))
            else:
                raise ValueError(f"unknown tie {kind!r}")
        return cls(tuple(ties))


def laplacian(prior: TaskPrior | None, tasks: Tasks) -> Laplacian:
    """L (m, m), sparse, over these tasks."""
    if prior is None or not prior.ties:
        return Laplacian.empty(len(tasks))
    total = prior.ties[0].laplacian(tasks)
    for tie in prior.ties[1:]:
        total = total + tie.laplacian(tasks)
    return total


def has_order(tasks: Tasks) -> bool:
    """Whether tasks have an order that may mean something: numbers, dates, categories.

    Categories have one where it is not that of their names.
    """
    if len(tasks) < FEWEST_IN_ORDER:
        return False
    numbers = (int, float, np.number, np.datetime64, datetime.date)
    if all(isinstance(t, numbers) and not isinstance(t, bool) for t in tasks):
        return True
    try:
        return list(tasks) != sorted(tasks)  # type: ignore[type-var]
    except TypeError:
        return False


def as_task_prior(prior: Any) -> TaskPrior | None:
    """Take a TaskPrior, "chain", "mean", or None."""
    if prior is None or isinstance(prior, TaskPrior):
        return prior
    if isinstance(prior, str) and prior in TASK_WORDS:
        return TaskPrior((Chain(None, 1.0),)) if prior == "chain" else TaskPrior.mean()
    near = suggest([prior], TASK_WORDS) if isinstance(prior, str) else ""
    raise ValueError(
        f'task_prior must be a TaskPrior, "chain", "mean" or None: got {prior!r}.{near}'
    )


def name_mean(number: int, n_groups: int) -> str:
    """Name of what the tasks of a group are tied to."""
    return f"mean of group {number + 1}" if n_groups > 1 else "mean of all tasks"


@dataclass(frozen=True)
class Neighbourhood:
    """A task prior and the tasks that have rows, to find the nearest of others."""

    prior: TaskPrior | None
    tasks: Labels
    order: Labels | None = None  # of labels without distances, such as categories

    def nearest(self, label: Hashable) -> Labels:
        """Tasks at the smallest distance from ``label``: none, one or several.

        Steps in a graph over labels count first, then differences of labels in a
        chain; with ``TaskPrior.mean`` all tasks are equally near.
        """
        found = self._least_steps(label)
        if found or self.prior is None:
            return found
        ties = self.prior.ties
        if any(isinstance(tie, Chain) and tie.order is None for tie in ties):
            return self._least_difference(label)
        together = any(isinstance(tie, Groups) and tie.members is None for tie in ties)
        return self.tasks if together else ()

    @cached_property
    def _circles(self) -> list[Labels]:
        ties = () if self.prior is None else self.prior.ties
        return [circle for tie in ties for circle in tie.circles()]

    @cached_property
    def _circles_of(self) -> dict[Hashable, list[int]]:
        around: dict[Hashable, list[int]] = defaultdict(list)
        for k, circle in enumerate(self._circles):
            for member in circle:
                around[member].append(k)
        return dict(around)

    def _least_steps(self, label: Hashable) -> Labels:
        """Breadth-first search until some label has rows."""
        known, used = set(self.tasks), set[int]()
        seen = frontier = {label}
        while frontier:
            around = {k for one in frontier for k in self._circles_of.get(one, ())}
            reached = {one for k in around - used for one in self._circles[k]}
            used, frontier, seen = used | around, reached - seen, seen | reached
            if frontier & known:
                return tuple(task for task in self.tasks if task in frontier)
        return ()

    @cached_property
    def _places(self) -> dict[Hashable, int] | None:
        """Places among categories, where these hold all tasks."""
        if self.order is None or not set(self.tasks) <= set(self.order):
            return None
        return {label: i for i, label in enumerate(self.order)}

    @cached_property
    def _ranked(self) -> list[tuple[Any, Hashable]]:
        """Tasks by what their distance is counted in; none without an order."""
        place = self._places
        keys: Sequence[Any] = [t if place is None else place[t] for t in self.tasks]
        try:
            order = sorted(range(len(keys)), key=keys.__getitem__)
        except TypeError:
            return []
        return [(keys[i], self.tasks[i]) for i in order]

    def _least_difference(self, label: Hashable) -> Labels:
        key: Any = label if self._places is None else self._places.get(label, label)
        try:
            place = bisect_left(self._ranked, key, key=lambda pair: pair[0])
            beside = self._ranked[max(0, place - 1) : place + 1]
            gaps = [abs(other - key) for other, _ in beside]
        except TypeError:  # labels such as text have an order but no distances
            return ()
        pairs = zip(beside, gaps, strict=True)
        return tuple(task for (_, task), gap in pairs if gap == min(gaps))


def _positions(labels: Iterable[Hashable], tasks: Tasks) -> Index:
    place = {task: i for i, task in enumerate(tasks)}
    for label in labels:
        if label not in place:
            raise unknown_name("task in task_prior", label, tasks)
    return np.array([place[label] for label in labels], dtype=np.intp)


def _lines(tie: Tie) -> tuple[int, Iterator[Line]]:
    """Number of lines that describe a tie, and these lines."""
    kind = "alike"
    weights = iter(tie.weight) if isinstance(tie, Graph) else repeat(tie.weight)
    sets: Sequence[Labels] = tie.circles()
    everyone: Line = "none", "free", spell_number(None)
    if isinstance(tie, Chain) and tie.order is None:
        everyone = "each task and the next", kind, spell_number(tie.weight)
    elif isinstance(tie, Groups):
        kind = "like their mean"
        if tie.members is None:
            everyone = "all tasks", kind, spell_number(tie.weight)
    elif isinstance(tie, Graph) and tie.by_position is not None:
        ends = zip(tie.first, tie.second, strict=True)
        sets = [(f"task {a}", f"task {b}") for a, b in ends]
    if not sets:
        return 1, iter([everyone])
    return len(sets), (
        (_shorten(labels), kind, spell_number(weight))
        for labels, weight in zip(sets, weights, strict=False)
    )


def _shorten(labels: Labels) -> str:
    more = [f"… ({len(labels)} in all)"] if len(labels) > MOST_TERMS else []
    return ", ".join([*map(str, labels[:MOST_TERMS]), *more])


def _only(labels: Labels, tasks: frozenset[Hashable]) -> Labels:
    return tuple(label for label in labels if label in tasks)
