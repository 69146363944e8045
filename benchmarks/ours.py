"""Our side of a comparison: from arrays to certified coefficients."""

from typing import NamedTuple

import numpy as np

from benchmarks.instance import Instance, difference_rows
from priormtl.data import TaskData, from_codes, from_columns
from priormtl.losses import NoIntercepts, Squared, find_family
from priormtl.penalties import L21
from priormtl.priors import TaskPrior, laplacian
from priormtl.problem import Problem, QuadraticPrior
from priormtl.solvers import (
    Solution,
    Solver,
    gap_below,
    max_iter,
    max_seconds,
    solve,
    stalled,
)

MOST_STEPS = 100_000


class Outcome(NamedTuple):
    """How fast, and how near to the optimum."""

    seconds: float
    gap: float  # share of the objective at P = 0


def task_data(instance: Instance) -> TaskData:
    """Arrays as the library reads them."""
    if instance.is_shared:
        return from_columns(instance.X, instance.y)
    names = tuple(range(int(instance.codes[-1]) + 1))
    return from_codes(instance.X, instance.y, instance.codes, names)


def build_problem(instance: Instance) -> Problem:
    """Read, summarise and pose."""
    data = task_data(instance)
    family = find_family(instance.family, None, max(2, instance.classes))
    fit = (family or Squared()).bind(data, NoIntercepts())
    d, m = instance.shape
    prior = QuadraticPrior.none(d, m)
    if instance.has_priors:
        graph = laplacian(TaskPrior.chain(), data.tasks)
        D = difference_rows(instance)
        prior = QuadraticPrior(D, graph, instance.theta, instance.epsilon)
    return Problem(fit, prior, L21(), instance.lam)


def minimise(
    problem: Problem, gap: float, name: str = "auto", seconds: float = 60.0
) -> Solution:
    """Solve to a relative gap by a method, which remembers nothing."""
    problem.memo.clear()
    method = Solver(name).choose(problem)
    rules = [gap_below(gap, method.check_every), stalled(), max_iter(MOST_STEPS)]
    return solve(problem, method, stop=[*rules, max_seconds(seconds)])


def relative_gap(problem: Problem, coef: np.ndarray) -> float:
    """What the certificate says of any coefficients, as a share."""
    point = problem.at(np.ascontiguousarray(coef, dtype=float))
    return problem.certify(point).gap / problem.null_objective


def solution_gap(problem: Problem, solution: Solution) -> float:
    """Gap of a solution, as a share."""
    return solution.certificate.gap / problem.null_objective
