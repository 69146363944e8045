"""grow_groups: begin with few groups; add those whose pull exceeds their cost."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from priormtl.baselines.lattice.reweighting import LatticePoint, LatticeProblem
from priormtl.baselines.lattice.task_groups import MOST_GROUPS, TaskGroups, membership

__all__ = ["Grown", "grow_groups"]

# A point that is good enough, from another one or from none, and how many steps it took
Solve = Callable[[LatticeProblem, LatticePoint | None], tuple[LatticePoint, int]]


class Grown(NamedTuple):
    """The problem with all groups that were added, and its solution."""

    problem: LatticeProblem
    point: LatticePoint
    n_iter: int


def grow_groups(problem: LatticeProblem, solve: Solve) -> Grown:
    """Solve and add groups by turns, until none is pulled at by more than it costs."""
    point, n_iter = solve(problem, None)
    while added := _pulled_groups(problem, point):
        norm = replace(problem.norm, groups=problem.norm.groups.add(added))
        grown = replace(problem, norm=norm)
        point, n = solve(grown, _carry_over(problem, point, grown))
        problem, n_iter = grown, n_iter + n
    return Grown(problem, point, n_iter)


def _pulled_groups(
    problem: LatticeProblem, point: LatticePoint
) -> list[tuple[int, ...]]:
    """Candidates with ‖(√D_jg)_j‖ above Ω d_g, the strongest ones, as many as fit."""
    norm = problem.norm
    found = norm.groups.candidates()
    room = MOST_GROUPS - len(norm.groups)
    if not found or room == 0:
        return []
    candidates = TaskGroups(membership(found, len(point.ridge.coef)))
    pull = norm.relative_pull(candidates, point.ridge.pull, problem.curvature.blocks)
    excess = pull - norm.value(point.lengths)
    strongest = np.argsort(-excess, kind="stable")[:room]
    return [found[i] for i in strongest if excess[i] > 0.0]


def _carry_over(
    problem: LatticeProblem, point: LatticePoint, grown: LatticeProblem
) -> LatticePoint:
    """The point with starting weights for the groups that are new."""
    groups = grown.norm.groups
    weights = grown.norm.weights(np.zeros((len(point.weights), len(groups))))
    weights[:, groups.find(problem.norm.groups)] = point.weights
    return replace(point, weights=weights)
