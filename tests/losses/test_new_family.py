"""The family that CONTRIBUTING shows works as it stands there."""

from pathlib import Path

import numpy as np
from scipy.special import xlogy

from priormtl import MultiTaskRegressor
from priormtl.data import from_labels
from priormtl.losses import Family, FreeIntercepts
from priormtl.penalties import L21
from priormtl.problem import Problem, QuadraticPrior
from priormtl.solvers import Solver


def test_the_example_is_solved_and_certified():
    page = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
    start = page.index("class Exponential(Family):")
    names = {"Family": Family, "np": np, "xlogy": xlogy}
    exec(page[start : page.index("```", start)], names)
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(60, 3)), np.arange(60) % 3
    y = rng.exponential(np.exp(0.5 * X[:, 0]))
    fit = names["Exponential"]().bind(from_labels(X, y, task), FreeIntercepts())
    problem = Problem(fit, QuadraticPrior.none(3, 3), L21(), 1.0)
    solution = Solver(tol=1e-9).solve(problem)
    assert solution.certificate.gap <= 1e-9 * problem.null_objective
    # It is the gamma loss, which the library has.
    known = MultiTaskRegressor(1.0, task_prior=None, loss="gamma", tol=1e-9)
    np.testing.assert_allclose(
        solution.coef.T, known.fit(X, y, task=task).coef_, atol=1e-4
    )
