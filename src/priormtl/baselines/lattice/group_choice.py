"""choose_groups: which groups of tasks there are, as users name or leave them."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from priormtl._arrays import Array
from priormtl.baselines.lattice.task_curvature import TaskCurvature
from priormtl.baselines.lattice.task_groups import (
    MOST_TASKS_OF_ALL,
    TaskGroups,
    all_groups,
    named_groups,
    single_groups,
    tree_groups,
)
from priormtl.baselines.lattice.task_ridge import solve_ridge
from priormtl.estimators import check_choice

__all__ = ["choose_groups"]

CHOICES = ("auto", "all", "tree", "active")


def choose_groups(
    groups: Any, tasks: tuple[Hashable, ...], curvature: TaskCurvature
) -> tuple[str, TaskGroups]:
    """How groups are chosen, and those to begin with."""
    m, choice = len(tasks), _read_choice(groups, len(tasks))
    if choice == "given":
        return choice, named_groups(groups, tasks)
    if choice == "all":
        return choice, all_groups(m)
    if choice == "tree":
        return choice, tree_groups(_single_task_coef(curvature))
    return choice, single_groups(m)


def _read_choice(groups: Any, m: int) -> str:
    if not isinstance(groups, str):
        return "given"
    choice = check_choice("groups", groups, CHOICES)
    if choice == "auto":
        return "all" if m <= MOST_TASKS_OF_ALL else "tree"
    return choice


def _single_task_coef(curvature: TaskCurvature) -> Array:
    """Ridge regression of each task, at the mean curvature."""
    m = len(curvature.linear)
    strength = float(curvature.mean.mean())
    if strength == 0.0:
        return np.zeros_like(curvature.linear)
    C = 1.0 / strength
    return solve_ridge(
        curvature,
        C,
        np.tile(np.eye(m), (len(curvature.blocks), 1, 1)),
        np.zeros_like(curvature.linear),
        accuracy=1e-12 * C * curvature.constant,
        max_iter=200,
    ).coef
