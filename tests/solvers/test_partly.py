"""solve_partly: as far as an outer method profits."""

import numpy as np

from instances import sine_problem
from priormtl.solvers import Fista
from priormtl.solvers.partly import SHARE, solve_partly


def test_most_of_the_gap_is_closed():
    problem = sine_problem()
    start = problem.certify(problem.null_point).gap
    solution = solve_partly(problem, Fista(restart=True), np.zeros(problem.shape))
    assert 0 < solution.certificate.gap <= SHARE * start
    assert solution.n_iter < 60


def test_nothing_happens_at_the_optimum():
    problem = sine_problem()
    problem = problem.with_strengths(lam=2.0 * problem.lam_max)
    solution = solve_partly(problem, Fista(restart=True), np.zeros(problem.shape))
    assert solution.n_iter == 0
