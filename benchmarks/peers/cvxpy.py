"""cvxpy: a modelling language in front of the cone solvers SCS and Clarabel."""

import warnings
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np

from benchmarks.instance import Instance, block_design
from benchmarks.peers.protocol import Timed, serve


def prepare(instance: Instance) -> dict[str, Callable[[float], Timed]]:
    """One model; only the time inside the cone solver counts."""
    warnings.simplefilter("ignore")
    design, target = block_design(instance)
    d, m = instance.shape
    P = cp.Variable((d, m))
    residual = design @ cp.vec(P, order="C") - target
    penalty = cp.sum(cp.norm(P, 2, axis=1))
    problem = cp.Problem(
        cp.Minimize(0.5 * cp.sum_squares(residual) + instance.lam * penalty)
    )

    def run(**settings: Any) -> Timed:
        problem.solve(**settings)
        spent = problem.solver_stats
        return Timed(np.array(P.value), spent.solve_time + (spent.setup_time or 0.0))

    def clarabel(tol: float) -> Timed:
        names = ("tol_gap_abs", "tol_gap_rel", "tol_feas")
        return run(solver="CLARABEL", **dict.fromkeys(names, tol))

    def scs(tol: float) -> Timed:
        return run(solver="SCS", eps_abs=tol, eps_rel=tol, max_iters=1_000_000)

    return {"SCS": scs, "Clarabel": clarabel}


if __name__ == "__main__":
    serve(prepare)
