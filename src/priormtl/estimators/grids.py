"""Strengths that a search tries, as users list them."""

from numbers import Integral
from typing import Any

from priormtl._arrays import Array
from priormtl.checks import check_count, check_strengths
from priormtl.problem import Problem
from priormtl.selection import Grid
from priormtl.solvers import lam_grid

__all__ = ["EPSILONS", "THETAS", "read_grid", "read_lams"]

DEFAULT_LAMS = 10
THETAS = (0.1, 1.0, 10.0, 100.0)
EPSILONS = (0.1, 1.0, 10.0, 100.0, 1000.0)


def read_grid(lams: Any, thetas: Any, epsilons: Any, problem: Problem) -> Grid:
    """All values with all others."""
    return Grid(
        read_lams(lams, problem),
        check_strengths("thetas", thetas),
        check_strengths("epsilons", epsilons),
    )


def read_lams(lams: Any, problem: Problem) -> Array:
    """Values of lam as given, or a grid from the problem's lam_max."""
    if lams is None:
        return lam_grid(problem, DEFAULT_LAMS)
    if isinstance(lams, Integral):
        return lam_grid(problem, check_count("lams as a number", lams))
    return check_strengths("lams", lams)
