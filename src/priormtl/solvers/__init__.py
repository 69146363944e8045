"""Solvers: methods as ``start`` and ``step``, run by one loop."""

from priormtl.solvers.block_newton import BlockNewton
from priormtl.solvers.choose import METHODS, default_method, method_by_name
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
from priormtl.solvers.path import lam_grid, solve_path
from priormtl.solvers.solver import Solver
from priormtl.solvers.splitting import Splitting
from priormtl.solvers.working_set import WorkingSet
