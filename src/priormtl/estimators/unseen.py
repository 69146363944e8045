"""Tasks that were not seen in training: refuse them, or predict them by averages.

An unseen task gets a weighted mean of the coefficients and intercepts of known tasks:
all of them, the nearest in the task prior, or those of its group.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from numbers import Number
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from priormtl._arrays import Array, Index
from priormtl.data import label_categories, place_labels
from priormtl.exceptions import unknown_names
from priormtl.priors import Neighbourhood, TaskPrior, task_prior_of

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

    def coef(self, model: Any) -> Array:
        """Coefficients of each mean (k, d)."""
        whole = model.coef_
        part = getattr(model, "shared_coef_", whole) if self.shared_part else whole
        return np.asarray(self.weights @ part)

    def intercept(self, model: Any) -> Array:
        """Intercept of each mean (k,)."""
        return np.asarray(self.weights @ model.intercept_)


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


def place_rows(model: Any, behaviour: str, labels: Any, n: int) -> RowTasks:
    """Find the task of each row, and the averages for unseen ones if wanted."""
    tasks = tuple(model.tasks_.tolist())
    codes, unseen = place_labels(labels, tasks, n)
    if not unseen:
        return RowTasks(codes, None)
    if behaviour == "error":
        raise unknown_names("task", unseen, tasks, _other_type(unseen, tasks) + CHOICES)
    prior = task_prior_of(model)
    nested = None if prior is None else prior.tree()
    m = len(tasks)
    if nested is not None:
        between = getattr(model, "between_", nested.between)
        number, weights = replace(nested, between=between).average(unseen, tasks)
    else:
        if behaviour == "shared":
            # Tasks that are no outliers; all of them where all are.
            outliers = set(getattr(model, "outlier_tasks_", ()))
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
