"""Tasks that were not seen in training: refuse them, or predict them by averages.

An unseen task gets a weighted mean of the coefficients and intercepts of known tasks:
all of them, or those of its group. So does a row whose label is missing.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from numbers import Number

import numpy as np
from scipy.sparse import csr_array

from priormtl._arrays import Array, Index
from priormtl.data import place_labels, refuse_unnamed
from priormtl.exceptions import unknown_names
from priormtl.fitted import Fitted

UNSEEN = ("error", "shared")


@dataclass(frozen=True, eq=False)
class Averages:
    """Weighted means of known tasks, which stand for unseen ones."""

    unseen: tuple[Hashable, ...]  # (k,) the first unseen task of each; None: no label
    weights: csr_array  # (k, m) of the known tasks, each row sums to one

    def members(self, k: int) -> Index:
        """Known tasks that have a weight in mean ``k``."""
        start, end = self.weights.indptr[k : k + 2]
        return np.asarray(self.weights.indices[start:end], dtype=np.intp)

    def coef(self, fitted: Fitted) -> Array:
        """Coefficients of each mean (k, d)."""
        part = fitted.shared_coef  # without task-specific components of outliers
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
        refuse_unnamed(codes, unseen, len(tasks))
        choices = (
            'This is unseen_tasks="error", the default; after set_params(unseen_tasks='
            '"shared") new tasks get the mean of all tasks (priormtl predict: --unseen '
            "shared)."
        )
        raise unknown_names("task", unseen, tasks, _other_type(unseen, tasks) + choices)
    prior = fitted.task_prior
    nested = None if prior is None else prior.tree()
    m = len(tasks)
    if nested is not None:
        between = fitted.between or nested.between
        number, weights = replace(nested, between=between).average(unseen, tasks)
    else:
        # Tasks that are no outliers; all of them where all are.
        known = fitted.outlier_tasks
        outliers = set(() if known is None else known.tolist())
        kept = [i for i, task in enumerate(tasks) if task not in outliers]
        kept = kept or list(range(m))
        number = [0] * len(unseen)
        shares = np.full(len(kept), 1.0 / len(kept))
        weights = csr_array((shares, kept, [0, len(kept)]), shape=(1, m))
    first = tuple(unseen[number.index(k)] for k in range(weights.shape[0]))
    places = np.concatenate([np.arange(m), m + np.array(number)])
    return RowTasks(places[codes], Averages(first, weights))


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
