"""suggest_settings: strengths worth trying, in units that the data give."""

import numpy as np

from priormtl._arrays import Array
from priormtl.baselines.base import Settings, crossed
from priormtl.baselines.lattice.lattice_norm import LatticeNorm
from priormtl.baselines.lattice.task_curvature import TaskCurvature
from priormtl.baselines.lattice.task_groups import TaskGroups

__all__ = ["natural_strength", "suggest_settings"]

STRENGTHS = (1e-2, 1e3)  # relative to C0, as the specification has them
# Of mean_share and growth: groups that cost little first, single tasks last.
PAIRS = (
    (0.1, 1.0),
    (0.01, 1.0),
    (0.1, 1.5),
    (0.01, 1.5),
    (0.1, 2.0),
    (0.01, 2.0),
    (1.0, 1.0),
    (1.0, 1.5),
    (1.0, 2.0),
)


def suggest_settings(
    curvature: TaskCurvature, groups: TaskGroups, p: float, q: float, n: int
) -> list[Settings]:
    """At most ``n`` of C, for some pairs of mean_share and growth."""
    n_pairs = int(np.clip(n // 5, 1, len(PAIRS)))
    settings: list[Settings] = []
    for mean_share, growth in PAIRS[:n_pairs]:
        norm = LatticeNorm(groups, mean_share, growth, p, q)
        unit = natural_strength(curvature, norm)
        strengths = unit * _cell_centres(*STRENGTHS, n // n_pairs)
        outer = {"mean_share": mean_share, "growth": growth}
        settings += crossed([outer], "C", strengths)
    return settings


def _cell_centres(low: float, high: float, n: int) -> Array:
    """The middles of n equal parts of a range, in logarithms."""
    return low * (high / low) ** ((np.arange(n) + 0.5) / n)


def natural_strength(curvature: TaskCurvature, norm: LatticeNorm) -> float:
    """C at which the best multiple of the targets as a dual point is a half.

    That is ‖y‖² / Ω°(Xᵀy)²: it knows the scales of X and the number of tasks, and
    what groups cost.
    """
    shape = len(curvature.blocks), len(norm.groups)
    squares = norm.dual_squares(curvature.linear, curvature.blocks)
    bound = norm.dual_bound(np.sqrt(squares), np.zeros(shape))
    return curvature.constant / bound**2 if bound > 0 else 1.0
