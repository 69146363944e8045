"""adelie: screening and coordinate descent; its numpy must be older than 2.

Tasks that have rows of their own are one group lasso on a sparse block design, which
is made beforehand, with priors as further rows.
"""

import adelie
import numpy as np
from benchmark_utils import block_design
from benchopt import BaseSolver


class Solver(BaseSolver):
    """Its loss is divided by the number of rows, and of tasks where they share X."""

    name = "adelie"
    requirements = ["pip::adelie"]
    sampling_strategy = "tolerance"

    def skip(self, task, theta, **_):
        """Refuse what it cannot solve."""
        return task is None and theta > 0, "it has no priors where rows are shared"

    def set_objective(self, **problem):
        """Arrays in the order that it wants."""
        X, y, task = (problem[name] for name in ("X", "y", "task"))
        d = X.shape[1]
        self.arguments = {
            "penalty": np.ones(d),
            "intercept": False,
            "early_exit": False,  # by default it stops at 90 % of the deviance
            "progress_bar": False,
            "max_iters": 1_000_000,
        }
        if task is None:
            self.m, size = y.shape[1], y.size
            self.arguments["X"] = np.asfortranarray(X)
            glm = adelie.glm.multigaussian(np.ascontiguousarray(y))
        else:
            design, target = block_design(**problem)
            self.m, size = int(task.max()) + 1, len(target)
            self.arguments["X"] = adelie.matrix.sparse(design)
            self.arguments["groups"] = np.arange(d) * self.m
            glm = adelie.glm.gaussian(target)
        self.arguments |= {"glm": glm, "lmda_path": np.array([problem["lam"] / size])}

    def run(self, tolerance):
        """Tolerance: of squared changes, so it is squared."""
        tol = max(min(tolerance, 1e-3) ** 2, 1e-22)
        state = adelie.grpnet(tol=tol, **self.arguments)
        self.P = state.betas[-1].toarray().reshape(-1, self.m)

    def get_result(self):
        """Coefficients (d, m)."""
        return {"P": self.P}
