"""celer: working sets with dual extrapolation, for tasks that share X."""

import warnings

import numpy as np
from benchopt import BaseSolver
from celer.homotopy import mtl_path


class Solver(BaseSolver):
    """Its loss is divided by the number of rows."""

    name = "celer"
    requirements = ["pip::celer"]
    sampling_strategy = "tolerance"

    def skip(self, task, theta, epsilon, **_):
        """Refuse what it cannot solve."""
        return task is not None or theta > 0, "it needs shared rows and has no priors"

    def set_objective(self, X, y, lam, **_):
        """Arrays in the order that it wants."""
        self.X, self.Y = np.asfortranarray(X), np.asfortranarray(y)
        self.alphas = np.array([lam / len(X)])
        warnings.simplefilter("ignore")

    def run(self, tolerance):
        """Tolerance: of the duality gap, as a share of the objective at P = 0."""
        found = mtl_path(
            self.X, self.Y, alphas=self.alphas, tol=tolerance, max_iter=1000
        )
        self.P = found[1][:, :, -1].T

    def get_result(self):
        """Coefficients (d, m)."""
        return {"P": self.P}
