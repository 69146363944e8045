"""skglm: working sets with Anderson acceleration.

Tasks that have rows of their own are one group lasso on a sparse block design, which
is made beforehand, with priors as further rows.
"""

import warnings

import numpy as np
from benchmark_utils import block_design
from benchopt import BaseSolver
from skglm import GroupLasso
from skglm.estimators import MultiTaskLasso


class Solver(BaseSolver):
    """Its loss is divided by the number of rows."""

    name = "skglm"
    requirements = ["pip::skglm"]
    sampling_strategy = "tolerance"

    def skip(self, task, theta, **_):
        """Refuse what it cannot solve."""
        return task is None and theta > 0, "it has no priors where rows are shared"

    def set_objective(self, **problem):
        """Arrays in the order that it wants."""
        warnings.simplefilter("ignore")
        X, task = problem["X"], problem["task"]
        settings = {"fit_intercept": False, "max_iter": 1000}
        if task is None:
            self.X, self.y = np.asfortranarray(X), np.asfortranarray(problem["y"])
            self.m = problem["y"].shape[1]
            self.model = MultiTaskLasso(problem["lam"] / len(X), **settings)
        else:
            self.X, self.y = block_design(**problem)
            self.m = int(task.max()) + 1
            alpha = problem["lam"] / len(self.y)
            self.model = GroupLasso(self.m, alpha, **settings)
        # Not timed. Loops differ between data sets, and warm_up comes once for all.
        self.run(1e-4)

    def run(self, tolerance):
        """Tolerance: of the distance to the subdifferential, as a share of lam."""
        alpha = self.model.alpha
        coef = self.model.set_params(tol=tolerance * alpha).fit(self.X, self.y).coef_
        self.P = coef.T if coef.ndim == 2 else coef.reshape(-1, self.m)

    def get_result(self):
        """Coefficients (d, m)."""
        return {"P": self.P}
