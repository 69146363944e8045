"""Tasks that were not seen in training: refuse them, or lend them a model.

What an unseen task gets is a mean of known tasks' coefficients and intercepts, so a
loan is a row of shares over the known tasks that sum to one.
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
class Loans:
    """Models lent to unseen tasks; those with the same lenders share one."""

    borrowers: tuple[Hashable, ...]  # (k,) the first unseen task of each loan
    shares: csr_array  # (k, m) of the known tasks, each row sums to one
    shared_part: bool  # whether what outlying tasks have of their own is left out

    def lenders(self, k: int) -> Index:
        """Known tasks that lend in loan ``k``."""
        start, end = self.shares.indptr[k : k + 2]
        return np.asarray(self.shares.indices[start:end], dtype=np.intp)

    def coef(self, model: Any) -> Array:
        """Coefficients of each loan (k, d)."""
        whole = model.coef_
        part = getattr(model, "shared_coef_", whole) if self.shared_part else whole
        return np.asarray(self.shares @ part)

    def intercept(self, model: Any) -> Array:
        """Intercept of each loan (k,)."""
        return np.asarray(self.shares @ model.intercept_)


@dataclass(frozen=True, eq=False)
class RowTasks:
    """Which model each row gets."""

    codes: Index  # (n,) position of a known task, or m + k for loan k
    loans: Loans | None

    def known(self, m: int) -> Index:
        """Known task of each row; for unseen ones the first that lends to them."""
        if self.loans is None:
            return self.codes
        first = self.loans.shares.indices[self.loans.shares.indptr[:-1]]
        return np.concatenate([np.arange(m), first])[self.codes]


def place_rows(model: Any, behaviour: str, labels: Any, n: int) -> RowTasks:
    """Find the task of each row, and lend models to unseen ones if that is wanted."""
    tasks = tuple(model.tasks_.tolist())
    codes, unseen = place_labels(labels, tasks, n)
    if not unseen:
        return RowTasks(codes, None)
    if behaviour == "error":
        raise unknown_names("task", unseen, tasks, _other_type(unseen, tasks) + CHOICES)
    prior = task_prior_of(model)
    nested = None if prior is None else prior.tree()
    if nested is not None:
        between = getattr(model, "between_", nested.between)
        loan_of, shares = replace(nested, between=between).lend(unseen, tasks)
        return _lend(unseen, loan_of, shares, codes, shared_part=True)
    if behaviour == "shared":
        # Tasks that are no outliers; all of them where all are.
        outliers = set(getattr(model, "outlier_tasks_", ()))
        kept = tuple(i for i, task in enumerate(tasks) if task not in outliers)
        lenders = [kept or tuple(range(len(tasks)))] * len(unseen)
    else:
        lenders = _nearest(prior, tasks, unseen, label_categories(labels))
    numbers = {found: k for k, found in enumerate(dict.fromkeys(lenders))}
    loan_of = [numbers[found] for found in lenders]
    shares = _even_shares(list(numbers), len(tasks))
    return _lend(unseen, loan_of, shares, codes, shared_part=behaviour == "shared")


def _lend(
    unseen: Sequence[Hashable],
    loan_of: list[int],
    shares: csr_array,
    codes: Index,
    *,
    shared_part: bool,
) -> RowTasks:
    """Loans (k, m), of which each unseen task has one."""
    k, m = shares.shape
    borrowers = tuple(unseen[loan_of.index(loan)] for loan in range(k))
    places = np.concatenate([np.arange(m), m + np.array(loan_of)])
    return RowTasks(places[codes], Loans(borrowers, shares, shared_part))


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


def _even_shares(lenders: Sequence[Places], m: int) -> csr_array:
    """One row per loan, in which its lenders share alike."""
    counts = np.array([len(found) for found in lenders])
    ends = np.concatenate([[0], np.cumsum(counts)])
    values = np.repeat(1.0 / counts, counts)
    columns = np.concatenate([np.asarray(found, dtype=np.intp) for found in lenders])
    return csr_array((values, columns, ends), shape=(len(lenders), m))
