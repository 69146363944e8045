"""merge_statistics, align_tasks: statistics of the rows of both, task by task."""

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from priormtl._arrays import Array, Index
from priormtl.data.encoding import merge_encodings
from priormtl.data.grams import MappedGrams
from priormtl.data.orders import merge_tasks

if TYPE_CHECKING:
    from priormtl.data.statistics import TaskStatistics

__all__ = ["align_tasks", "merge_statistics"]


def merge_statistics(a: "TaskStatistics", b: "TaskStatistics") -> "TaskStatistics":
    """Statistics of both sets of samples; tasks are matched by name."""
    _refuse_other_features(a, b)
    encoding = merge_encodings(a.encoding, b.encoding)
    alike = (a.is_shared and b.is_shared) or (a.is_mapped and b.is_mapped)
    if not (alike and a.tasks == b.tasks):
        tasks = merge_tasks(a.tasks, b.tasks)
        a, b = _align(a, tasks), _align(b, tasks)
    return replace(_merge_aligned(a, b), encoding=encoding)


def _refuse_other_features(a: "TaskStatistics", b: "TaskStatistics") -> None:
    if a.shape[0] != b.shape[0] or a.features != b.features:
        raise ValueError(
            "statistics can only be added over the same features: got "
            f"{a.shape[0]} {a.features or ''} and {b.shape[0]} {b.features or ''}."
        )


def _merge_aligned(a: "TaskStatistics", b: "TaskStatistics") -> "TaskStatistics":
    """Chan's formula, all tasks at once; a weight of zero leaves the other side."""
    weight = a.weight + b.weight
    # A task may have no rows on either side yet.
    unit = np.where(weight > 0, weight, 1.0)
    share_a, share_b = a.weight / unit, b.weight / unit
    # share · weight in both orders, so that a + b and b + a agree to the bit.
    between = np.minimum(a.weight, b.weight) * np.maximum(share_a, share_b)
    x_gap, y_gap = a.x_mean - b.x_mean, a.y_mean - b.y_mean
    one = slice(None, len(a.xx))
    spread = x_gap[one] * between[one, np.newaxis]
    return replace(
        a,
        weight=weight,
        x_mean=share_a[:, np.newaxis] * a.x_mean + share_b[:, np.newaxis] * b.x_mean,
        y_mean=share_a * a.y_mean + share_b * b.y_mean,
        xx=_merge_grams(a, b, spread, x_gap[one]),
        xy=a.xy + b.xy + (between * y_gap)[:, np.newaxis] * x_gap,
        yy=a.yy + b.yy + between * y_gap**2,
    )


def _merge_grams(
    a: "TaskStatistics", b: "TaskStatistics", spread: Array, gap: Array
) -> Array | MappedGrams:
    """Sum of Gram matrices, and of what lies between the means."""
    if a.is_mapped and b.is_mapped:
        return a.mapped_gram() + b.mapped_gram()
    merged = a.gram() + b.gram()
    # Task by task: the outer products of all would be as large as the sum.
    for total, left, right in zip(merged, spread, gap, strict=True):
        np.add(total, np.outer(left, right), out=total)
    return merged


def align_tasks(
    part: "TaskStatistics", tasks: tuple[Hashable, ...]
) -> "TaskStatistics":
    """Same statistics over ``tasks``, in this order: absent tasks get weight zero."""
    if part.tasks == tasks:
        return replace(part, tasks=tasks)  # which may declare an order
    return _align(part, tasks)


def _align(part: "TaskStatistics", tasks: tuple[Hashable, ...]) -> "TaskStatistics":
    """Same statistics over ``tasks``, with a Gram matrix for each."""
    d, m = part.shape
    xx = np.broadcast_to(part.gram(), (m, d, d))
    if part.tasks == tasks:
        return replace(part, xx=xx)
    position = {task: i for i, task in enumerate(part.tasks)}
    source = np.array([position.get(task, -1) for task in tasks])
    present = source >= 0
    take = _taker(source[present], present)
    return replace(
        part,
        weight=take(part.weight),
        x_mean=take(part.x_mean),
        y_mean=take(part.y_mean),
        xx=take(xx),
        xy=take(part.xy),
        yy=take(part.yy),
        tasks=tasks,
    )


def _taker(source: Index, present: NDArray[np.bool_]) -> Callable[[Array], Array]:
    """Copy rows ``source`` to the places ``present``, zeros elsewhere."""

    def take(values: Array) -> Array:
        taken = np.zeros((len(present), *values.shape[1:]))
        taken[present] = values[source]
        return taken

    return take
