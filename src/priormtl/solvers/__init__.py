"""Solvers: methods as ``start`` and ``step``, run by one loop."""

from priormtl.solvers.block_newton import BlockNewton
from priormtl.solvers.first_order import Fista, Gd, Ista, IstaReverse, Linear
from priormtl.solvers.loop import (
    History,
    Method,
    Progress,
    Solution,
    StopReason,
    StopRule,
    diverged,
    gap_below,
    iterate,
    max_iter,
    max_seconds,
    no_progress,
    settle,
    solve,
    stalled,
)
from priormtl.solvers.newton import Newton, ProximalNewton, approach
from priormtl.solvers.nuclear import NuclearNewton, NuclearSplitting
from priormtl.solvers.solver import (
    METHODS,
    Solver,
    default_method,
    lam_grid,
    solve_path,
)
from priormtl.solvers.splitting import Splitting
from priormtl.solvers.working_set import WorkingSet
