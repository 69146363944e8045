"""Choose how moments are kept: one Gram matrix per task, one for all, or samples."""

from collections.abc import Iterable
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from scipy.sparse import issparse

from priormtl.data.frames import column_names, read_matrix, read_targets
from priormtl.data.merging import align_tasks
from priormtl.data.moments import Moments
from priormtl.data.samples import centre_samples
from priormtl.data.small_tasks import check_min_rows, large_tasks
from priormtl.data.statistics import TaskStatistics
from priormtl.data.streamed import StreamedMoments
from priormtl.data.summarizing import summarize_tasks
from priormtl.data.tasks import SharedRows, TaskData, from_columns, from_labels
from priormtl.data.tiny import refuse_tiny, refuse_tiny_weights

__all__ = ["accumulate", "condense", "statistics_pay", "summarize", "to_tasks"]


def condense(data: TaskData | TaskStatistics) -> Moments:
    """Moments of the data in the smallest of the three representations.

    Statistics that lie on disk stay there.
    """
    moments = _represent(data)
    refuse_tiny(moments)
    refuse_tiny_weights(moments)
    return moments


def _represent(data: TaskData | TaskStatistics) -> Moments:
    if isinstance(data, TaskStatistics):
        return StreamedMoments.of(data) if data.is_mapped else data
    return summarize_tasks(data) if statistics_pay(data) else centre_samples(data)


def statistics_pay(data: TaskData) -> bool:
    """Whether Gram matrices are no larger than the samples."""
    n = int(data.X.shape[0])
    d, m = data.shape
    least = d if isinstance(data, SharedRows) else m * d
    return n >= least and not issparse(data.X)


def to_tasks(X: Any, y: Any, task: Any = None, sample_weight: Any = None) -> TaskData:
    """Tables in any of the accepted forms as TaskData."""
    matrix, targets = read_matrix(X), read_targets(y)
    weights = None if sample_weight is None else read_targets(sample_weight, "weight")
    names = column_names(X)
    if matrix.shape[0] == 0:
        raise ValueError("X must have at least one row: got none.")
    if targets.ndim not in (1, 2) or 0 in targets.shape:
        raise ValueError(
            "y must be (n,), or (n, m) with one column per task: "
            f"got shape {targets.shape}."
        )
    if targets.ndim == 2:
        if task is not None:
            raise ValueError("task must be None where y has one column per task.")
        return from_columns(matrix, targets, weights, column_names(y), names)
    labels = [0] * len(targets) if task is None else task
    return from_labels(matrix, targets, labels, weights, names)


def summarize(
    X: Any,
    y: Any,
    task: Any = None,
    sample_weight: Any = None,
    *,
    min_rows: int = 1,
) -> TaskStatistics:
    """Read samples once into statistics that merge by ``+``.

    Parameters
    ----------
    X : (n, d) array, sparse matrix or data frame
        Features.
    y : (n,) or (n, m)
        Targets; with (n, m) one column per task, NaN where not measured.
    task : (n,) labels, optional
        Task of each row; one task where absent.
    sample_weight : (n,), or (n, m) with such targets, optional
        Weight of each row or cell.
    min_rows : int
        Tasks with fewer rows (of a weight above zero) are left out, as ``priormtl stats
        --min-rows`` does; it is an error if none is left. For statistics that others
        may see: those of few rows may show the rows.

    Returns
    -------
    TaskStatistics
        Sufficient for squared loss; see ``MultiTaskRegressor.fit_statistics``.

    Examples
    --------
    >>> statistics = summarize([[0.0], [2.0]], [1.0, 3.0])
    >>> statistics.xx[0], statistics.y_mean
    (array([[2.]]), array([2.]))
    """
    check_min_rows(min_rows)
    data = to_tasks(X, y, task, sample_weight)
    counts = data.task_sums((data.weight > 0).astype(np.float64))
    kept = large_tasks(data.tasks, counts, min_rows)
    statistics = align_tasks(summarize_tasks(data), kept)
    refuse_tiny(statistics)
    return statistics


def accumulate(chunks: Iterable[TaskData]) -> TaskStatistics:
    """Statistics of all chunks, held one at a time."""
    return reduce(add, map(summarize_tasks, chunks))
