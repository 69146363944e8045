"""How it is minimised: methods as start and step, run by one loop."""

from priormtl.solvers.choose import METHODS, default_method, method_by_name
from priormtl.solvers.first_order import Fista, Gd, Ista, IstaReverse, Linear
from priormtl.solvers.history import History
from priormtl.solvers.loop import (
    Callback,
    Method,
    Progress,
    Solution,
    StopReason,
    StopRule,
    iterate,
    solve,
)
from priormtl.solvers.newton import Newton
from priormtl.solvers.stopping import (
    diverged,
    gap_below,
    max_iter,
    max_seconds,
    small_change,
    stalled,
)

__all__ = [
    "METHODS",
    "Callback",
    "Fista",
    "Gd",
    "History",
    "Ista",
    "IstaReverse",
    "Linear",
    "Method",
    "Newton",
    "Progress",
    "Solution",
    "StopReason",
    "StopRule",
    "default_method",
    "diverged",
    "gap_below",
    "iterate",
    "max_iter",
    "max_seconds",
    "method_by_name",
    "small_change",
    "solve",
    "stalled",
]
