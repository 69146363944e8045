"""TaskPrior: which tasks are known to be alike.

A prior is a sum of ties, each a graph over task labels: a chain in the order of the
tasks, groups whose members are alike, groups of groups (nested tasks), or any weighted
graph. Resolved against the tasks of a fit, they add up to the Laplacian L in
ε/2 tr(P L Pᵀ).
"""

import datetime
import os
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import chain, islice, pairwise, repeat
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array

from priormtl._arrays import Index
from priormtl._lazy import cached_property
from priormtl.archive import Settings
from priormtl.data import SEPARATOR, from_plain, to_plain
from priormtl.exceptions import DataFileError, suggest, unknown_name
from priormtl.priors.files import PriorFile, read_prior_file
from priormtl.priors.graphs import Laplacian
from priormtl.priors.relations import (
    MOST_SHOWN,
    MOST_TERMS,
    Line,
    check_weight,
    line_table,
    plain_label,
    read_edges,
)
from priormtl.rendering import Table, count_words, spell_number, to_notebook

TASK_WORDS = ("chain", "mean", "nested")

Labels = tuple[Hashable, ...]
Tasks = Sequence[Hashable]


class Tie(ABC):
    """One reason why tasks are alike; a TaskPrior is a sum of them."""

    kind: ClassVar[str]  # in saved models
    weight: float | tuple[float, ...]

    @property
    @abstractmethod
    def words(self) -> str:
        """What it is, in a few words."""

    @abstractmethod
    def laplacian(self, tasks: Tasks) -> Laplacian:
        """Its graph over these tasks."""

    @abstractmethod
    def circles(self) -> Sequence[Labels]:
        """Sets of labels that it names as alike."""

    def to_plain(self) -> Settings:
        own = {one.name: vars(self)[one.name] for one in fields(self)}  # type: ignore[arg-type]
        return {"tie": self.kind} | {k: _to_plain(value) for k, value in own.items()}


def _to_plain(value: object) -> object:
    """JSON value of a label or number, or of tuples of them."""
    if isinstance(value, tuple):
        return [_to_plain(one) for one in value]
    return None if value is None else to_plain([value])[0]


def _from_plain(plain: Any) -> Any:
    if isinstance(plain, list):
        return tuple(map(_from_plain, plain))
    return None if plain is None else from_plain([plain])[0]


@dataclass(frozen=True)
class Chain(Tie):
    """Each task is like the next one."""

    kind = "chain"
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


@dataclass(frozen=True)
class Groups(Tie):
    """Each task is like the mean of its group; without groups, of all tasks."""

    kind = "groups"
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


@dataclass(frozen=True)
class Graph(Tie):
    """Tasks joined by an edge are alike; positions where labels are not known."""

    kind = "graph"
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


@dataclass(frozen=True)
class Nested(Tie):
    """Each task is like its group, and each group like the group that it is in."""

    kind = "nested"
    parents: tuple[tuple[Hashable, Labels], ...] | None  # None: labels say "a / b"
    between: tuple[float, ...]  # of each level, from coarse to fine; one: of all
    weight: float

    @property
    def words(self) -> str:
        return "nested"

    @cached_property
    def _parents(self) -> dict[Hashable, Labels]:
        return dict(self.parents or ())

    def path(self, task: Hashable) -> Labels | None:
        """Groups that a task is in, from coarse to fine; None: unknown."""
        if self.parents is not None:
            return self._parents.get(task)
        return tuple(task.split(SEPARATOR)[:-1]) if isinstance(task, str) else None

    def nodes(self, tasks: Tasks) -> tuple[list[Labels], list[Labels]]:
        """Path of each task, and those of all groups, fine ones first, () the last."""
        paths = [self.path(task) or () for task in tasks]
        depth = len(paths[0]) if paths else 0
        for task, path in zip(tasks, paths, strict=True):
            if not path and self.parents is None:
                raise ValueError(
                    'task_prior="nested" needs labels such as "district / school" '
                    f"(task=[columns from coarse to fine]): got {task!r}. Use "
                    "TaskPrior.nested({task: group}) for other labels."
                )
            if len(path) != depth or not path:
                raise ValueError(
                    "task_prior must name a group for every task, at as many levels "
                    f"({max(depth, 1)}) as for {tasks[0]!r}: got {path or 'none'} for "
                    f"{task!r}."
                )
        groups = {path[:n] for path in paths for n in range(depth + 1)}
        return paths, sorted(
            groups, key=lambda group: (-len(group), list(map(str, group)))
        )

    def laplacian(self, tasks: Tasks, *, keeps_idle: bool = False) -> Laplacian:
        """Tree with a latent node for each group, and one for all tasks.

        Tasks without rows may have a group, for predictions of them.
        """
        if not tasks:
            return Laplacian.empty(0)
        paths, groups = self.nodes(tasks)
        m, depth = len(tasks), len(paths[0])
        between = self.between * depth if len(self.between) == 1 else self.between
        if len(between) != depth:
            raise ValueError(
                f"between must be one number, or one for each of {depth} levels of "
                f"groups: got {len(between)}."
            )
        place = {group: m + k for k, group in enumerate(groups)}
        parent = [place[path] for path in paths]
        parent += [place[group[:-1]] if group else -1 for group in groups]
        level = [0] * m + [len(group) for group in groups]
        names = [SEPARATOR.join(map(str, group)) or "all tasks" for group in groups]
        tree = np.array(parent, np.intp), names, np.array(level, np.intp)
        return Laplacian.from_tree(
            m, *tree, between, self.weight, keeps_idle=keeps_idle
        )

    def average(self, unseen: Tasks, tasks: Tasks) -> tuple[list[int], csr_array]:
        """Mean that each unseen task gets, and weights (k, m) of tasks in each mean.

        A task in a known group gets the latent mean of that group, and others that of
        the finest group that is known, at last of all tasks.
        """
        groups = self.nodes(tasks)[1]
        place = {group: k for k, group in enumerate(groups)}
        found = []
        for task in unseen:
            path = self.path(task) or ()
            while path not in place:
                path = path[:-1]
            found.append(place[path])
        used = sorted(set(found))
        shares = self.laplacian(tasks, keeps_idle=True).shares(used)
        return [used.index(k) for k in found], csr_array(shares)

    def circles(self) -> tuple[Labels, ...]:
        found: dict[Labels, list[Hashable]] = defaultdict(list)
        for task, path in self.parents or ():
            found[path].append(task)
        return tuple(map(tuple, found.values()))


TIES: dict[str, type[Tie]] = {one.kind: one for one in (Chain, Groups, Graph, Nested)}


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
    def nested(
        cls,
        parents: Mapping[Hashable, Any] | None = None,
        between: float | Sequence[float] = 1.0,
        weight: float = 1.0,
    ) -> Self:
        """Each task is similar to its group, and each group to the common mean.

        The penalty is weight · [Σ ‖p_i − q_g(i)‖² + between · Σ_g ‖q_g − q‖²] at the
        best values of the latent q, as in a mixed model with nested random effects
        (``(1 | district/school)`` in lme4).

        Parameters
        ----------
        parents : mapping from task labels to groups, optional
            Group of each task. Groups of groups are given as tuples from coarse to
            fine: ``{"class 3": ("district A", "school 1")}``. The default takes the
            groups from labels such as "district / school", which tasks have after
            ``task=["district", "school"]``.
        between : float or sequence of float, default=1.0
            Weight of the coupling between groups, relative to that within groups: one
            number, or one for each level from coarse to fine. Where adaptive ties are
            estimated, they are estimated, too, and this is where the search starts.
        weight : float, default=1.0
            Weight of the coupling. It multiplies ``epsilon``.

        Examples
        --------
        >>> schools = TaskPrior.nested({"a": "north", "b": "north", "c": "south"})
        >>> laplacian(schools, ["a", "b", "c"]).dense().round(2)
        array([[ 0.57, -0.43, -0.14],
               [-0.43,  0.57, -0.14],
               [-0.14, -0.14,  0.29]])
        """
        if parents is not None and not isinstance(parents, Mapping):
            raise TypeError(
                f"parents must map tasks to groups: got {type(parents).__name__}."
            )
        pairs = None
        if parents is not None:
            given = parents.values()
            paths = (p if isinstance(p, tuple | list) else (p,) for p in given)
            labels = (tuple(map(plain_label, path)) for path in paths)
            pairs = tuple(zip(map(plain_label, parents), labels, strict=True))
        several = between if isinstance(between, Sequence | np.ndarray) else [between]
        ratios = tuple(check_weight(ratio, "between") for ratio in several)
        if not ratios:
            raise ValueError(
                "between must be a number, or one for each level: got none."
            )
        return cls((Nested(pairs, ratios, check_weight(weight)),))

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
        """Read which tasks are similar from a TOML file.

        Parameters
        ----------
        file : path or PriorFile
            TOML file with tables ``[[task_similar]]``, ``[[task_group]]`` and
            ``[task_nested]``. Statements about features are left to
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

    def tree(self) -> Nested | None:
        """The tree, where tasks are nested and nothing else is known."""
        first = self.ties[0] if len(self.ties) == 1 else None
        return first if isinstance(first, Nested) else None

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

    def to_plain(self) -> list[Settings]:
        """JSON values that describe the prior."""
        return [tie.to_plain() for tie in self.ties]

    @classmethod
    def from_plain(cls, plain: Sequence[Settings]) -> Self:
        """Prior from what ``to_plain`` made."""
        ties = []
        for one in plain:
            settings = {name: _from_plain(value) for name, value in one.items()}
            ties.append(TIES[settings.pop("tie")](**settings))
        return cls(tuple(ties))


def laplacian(prior: TaskPrior | None, tasks: Tasks) -> Laplacian:
    """L (m, m), sparse, over these tasks."""
    if prior is None or not prior.ties:
        return Laplacian.empty(len(tasks))
    return _laplacian(prior, tuple(tasks))


@lru_cache(maxsize=8)  # folds and refits have the same tasks
def _laplacian(prior: TaskPrior, tasks: Labels) -> Laplacian:
    total = prior.ties[0].laplacian(tasks)
    for tie in prior.ties[1:]:
        total = total + tie.laplacian(tasks)
    return total


def has_order(tasks: Tasks) -> bool:
    """Whether tasks have an order that may mean something: numbers, dates, categories.

    Categories have one where it is not that of their names.
    """
    # Fewer than three tasks are in any order.
    if len(tasks) < 3:
        return False
    numbers = (int, float, np.number, np.datetime64, datetime.date)
    if all(isinstance(t, numbers) and not isinstance(t, bool) for t in tasks):
        return True
    try:
        return list(tasks) != sorted(tasks)  # type: ignore[type-var]
    except TypeError:
        return False


def has_nesting(tasks: Tasks) -> bool:
    """Whether labels are of nested tasks, "district / school", in fewer districts."""
    paths = [task.split(SEPARATOR) for task in tasks if isinstance(task, str)]
    depths = {len(path) for path in paths}
    coarse = {tuple(path[:-1]) for path in paths}
    is_even = len(depths) == 1 and depths != {1}
    return is_even and len(coarse) < len(paths) == len(tasks)


def as_task_prior(prior: object) -> TaskPrior | None:
    """Take a TaskPrior, "chain", "mean", "nested", or None."""
    if prior is None or isinstance(prior, TaskPrior):
        return prior
    if isinstance(prior, str) and prior in TASK_WORDS:
        if prior == "nested":
            return TaskPrior.nested()
        return TaskPrior.chain() if prior == "chain" else TaskPrior.mean()
    near = suggest([prior], TASK_WORDS) if isinstance(prior, str) else ""
    raise ValueError(
        'task_prior must be a TaskPrior, "chain", "mean", "nested" or None: got '
        f"{prior!r}.{near}"
    )


def given_prior(model: object) -> Any:
    """``task_prior`` of a model as it is meant.

    Tasks in several columns are nested: "chain", the default, means this for them.
    """
    prior, task = getattr(model, "task_prior", None), getattr(model, "task", None)
    several = isinstance(task, list | tuple) and len(task) > 1
    is_default = isinstance(prior, str) and prior == "chain"
    return "nested" if several and is_default else prior


def _positions(labels: Iterable[Hashable], tasks: Tasks) -> Index:
    place = {task: i for i, task in enumerate(tasks)}
    for label in labels:
        if label not in place:
            raise unknown_name("task in task_prior", label, tasks)
    return np.array([place[label] for label in labels], dtype=np.intp)


def _lines(tie: Tie) -> tuple[int, Iterator[Line]]:
    """Number of lines that describe a tie, and these lines."""
    kind = "alike"
    every = tie.weight
    weights = iter(every) if isinstance(every, tuple) else repeat(every)
    sets: Sequence[Labels] = tie.circles()
    everyone: Line = "none", "free", spell_number(None)
    if isinstance(tie, Chain) and tie.order is None:
        everyone = "each task and the next", kind, spell_number(tie.weight)
    elif isinstance(tie, Groups):
        kind = "like their mean"
        if tie.members is None:
            everyone = "all tasks", kind, spell_number(tie.weight)
    elif isinstance(tie, Nested):
        kind = "like their mean, nested"
        everyone = "all tasks in groups", kind, spell_number(tie.weight)
    elif isinstance(tie, Graph) and tie.by_position is not None:
        ends = zip(tie.first, tie.second, strict=True)
        sets = [(f"task {a}", f"task {b}") for a, b in ends]
    if not sets:
        return 1, iter([everyone])
    lines = []
    for labels, weight in zip(islice(sets, MOST_SHOWN), weights, strict=False):
        more = [f"… ({len(labels)} in all)"] if len(labels) > MOST_TERMS else []
        words = ", ".join([*map(str, labels[:MOST_TERMS]), *more])
        lines.append((words, kind, spell_number(weight)))
    return len(sets), iter(lines)
