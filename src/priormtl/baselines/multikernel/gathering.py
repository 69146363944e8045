"""gather_tasks: equal rows counted once, targets centred, kernels fitted to them."""

from typing import Any

import numpy as np

from priormtl.baselines.equal_rows import find_distinct
from priormtl.baselines.multikernel.base_kernels import KernelSet, check_kernels
from priormtl.baselines.multikernel.kernel_features import KernelTasks
from priormtl.baselines.multikernel.task_rows import TaskRows, merge_rows
from priormtl.data import TaskData

__all__ = ["gather_tasks"]


def gather_tasks(
    data: TaskData, kernels: Any, *, normalize: bool, centred: bool
) -> KernelTasks:
    """Samples as kernels see them."""
    distinct = find_distinct(data.X)
    tasks = merge_rows(data, distinct.kind)
    rows = data.X[distinct.first]
    weight = np.zeros(len(distinct.first))
    for task in tasks:
        weight[task.kind] += task.weight
    fitted = KernelSet.fit(check_kernels(kernels), rows, weight, normalize=normalize)
    means = [_mean_target(task) if centred else 0.0 for task in tasks]
    # Squares of targets of any size stay in the range of doubles.
    unit = max(
        float(np.abs(task.y - mean).max())
        for task, mean in zip(tasks, means, strict=True)
    )
    return KernelTasks(rows, tasks, fitted, np.array(means), unit or 1.0)


def _mean_target(task: TaskRows) -> float:
    """Weighted mean, exact where all targets are equal."""
    start = task.y[0]
    return float(start + task.weight @ (task.y - start) / task.weight.sum())
