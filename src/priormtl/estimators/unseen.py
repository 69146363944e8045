"""Tasks that were not seen in training: refuse them, or predict them by averages.

An unseen task gets a weighted mean of the coefficients and intercepts of known tasks:
all of them, the nearest in the task prior, or those of its group.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from numbers import Number
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl.data import label_categories, place_labels
from priormtl.exceptions import unknown_names
from priormtl.fitted import Fitted
from priormtl.priors import TaskPrior
from priormtl.priors.tasks import Chain, Groups, Nested

Labels = tuple[Hashable, ...]
Places = tuple[int, ...]

UNSEEN = ("error", "shared", "nearest")
CHOICES = (
    'This is unseen_tasks="error", the default; after set_params(unseen_tasks='
    '"shared") new tasks get the mean of all tasks, after "nearest" that of the '
    "nearest ones in the task prior (priormtl predict: --unseen shared or nearest)."
)
NOT_NEAR = (
    'With unseen_tasks="nearest" a new task must be in the graph of task_prior, or in '
    "a chain of labels with distances (numbers, dates, places in a categorical); "
    'unseen_tasks="shared" needs neither.'
)


@dataclass(frozen=True, eq=False)
class Averages:
    """Weighted means of known tasks, which stand for unseen ones."""

    unseen: tuple[Hashable, ...]  # (k,) the first unseen task of each mean
    weights: csr_array  # (k, m) of the known tasks, each row sums to one
    shared_part: bool  # whether task-specific components of outliers are left out

    def members(self, k: int) -> Index:
        """Known tasks that have a weight in mean ``k``."""
        start, end = self.weights.indptr[k : k + 2]
        return np.asarray(self.weights.indices[start:end], dtype=np.intp)

    def coef(self, fitted: Fitted) -> Array:
        """Coefficients of each mean (k, d)."""
        part = fitted.shared_coef if self.shared_part else fitted.coef
        means = np.asarray(self.weights @ part.reshape(len(part), -1))
        return means.reshape(-1, *part.shape[1:])

    def intercept(self, fitted: Fitted) -> Array:
        """Intercept of each mean (k,)."""
        return np.asarray(self.weights @ fitted.intercept)


@dataclass(frozen=True, eq=False)
class RowTasks:
    """Which model each row gets."""

    codes: Index  # (n,) position of a known task, or m + k for mean k
    averages: Averages | None

    def known(self, m: int) -> Index:
        """Known task of each row; for unseen ones the first of those averaged."""
        if self.averages is None:
            return self.codes
        weights = self.averages.weights
        first = weights.indices[weights.indptr[:-1]]
        return np.concatenate([np.arange(m), first])[self.codes]


def place_rows(fitted: Fitted, behaviour: str, labels: object, n: int) -> RowTasks:
    """Find the task of each row, and the averages for unseen ones if wanted."""
    tasks = tuple(fitted.labels)
    codes, unseen = place_labels(labels, tasks, n)
    if not unseen:
        return RowTasks(codes, None)
    if behaviour == "error":
        raise unknown_names("task", unseen, tasks, _other_type(unseen, tasks) + CHOICES)
    prior = fitted.task_prior
    nested = None if prior is None else prior.tree()
    m = len(tasks)
    if nested is not None:
        between = fitted.between or nested.between
        number, weights = replace(nested, between=between).average(unseen, tasks)
    else:
        if behaviour == "shared":
            # Tasks that are no outliers; all of them where all are.
            known = fitted.outlier_tasks
            outliers = set(() if known is None else known.tolist())
            kept = tuple(i for i, task in enumerate(tasks) if task not in outliers)
            members = [kept or tuple(range(m))] * len(unseen)
        else:
            members = _nearest(prior, tasks, unseen, label_categories(labels))
        numbers = {found: k for k, found in enumerate(dict.fromkeys(members))}
        number = [numbers[found] for found in members]
        counts = np.array([len(found) for found in numbers])
        equal = np.repeat(1.0 / counts, counts)
        ends = np.concatenate([[0], np.cumsum(counts)])
        columns = np.concatenate([np.array(found, np.intp) for found in numbers])
        weights = csr_array((equal, columns, ends), shape=(len(numbers), m))
    first = tuple(unseen[number.index(k)] for k in range(weights.shape[0]))
    places = np.concatenate([np.arange(m), m + np.array(number)])
    shared_part = nested is not None or behaviour == "shared"
    return RowTasks(places[codes], Averages(first, weights, shared_part))


def _other_type(unseen: Sequence[Hashable], tasks: Sequence[Hashable]) -> str:
    """Say so where labels are of another type, as 1 and "1" from two files may be."""
    # Numbers of all types are equal where their values are.
    given, known = (
        {"number" if isinstance(x, Number) else type(x).__name__ for x in labels}
        for labels in (unseen, tasks)
    )
    if given & known:
        return ""
    return (
        f"Labels given are of type {' or '.join(sorted(given))}, those known of type "
        f"{' or '.join(sorted(known))}: convert them. "
    )


def _nearest(
    prior: TaskPrior | None,
    tasks: tuple[Hashable, ...],
    unseen: Sequence[Hashable],
    categories: Sequence[Hashable] | None,
) -> list[Places]:
    """Known tasks nearest to each unseen one."""
    order = None if categories is None else tuple(categories)
    around = Neighbourhood(prior, tasks, order)
    place = {task: i for i, task in enumerate(tasks)}
    near = [tuple(place[task] for task in around.nearest(one)) for one in unseen]
    alone = [one for one, found in zip(unseen, near, strict=True) if not found]
    if alone:
        raise unknown_names("task", alone, tasks, NOT_NEAR)
    return near


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
        together = any(
            isinstance(tie, Nested) or (isinstance(tie, Groups) and tie.members is None)
            for tie in ties
        )
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
