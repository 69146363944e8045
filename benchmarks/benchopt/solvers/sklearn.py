"""scikit-learn: block coordinate descent, for tasks that share X."""

import warnings

import numpy as np
from benchopt import BaseSolver
from sklearn.linear_model import MultiTaskLasso


class Solver(BaseSolver):
    """Its loss is divided by the number of rows."""

    name = "scikit-learn"
    requirements = ["scikit-learn"]
    sampling_strategy = "tolerance"

    def skip(self, task, theta, epsilon, **_):
        """Refuse what it cannot solve."""
        return task is not None or theta > 0, "it needs shared rows and has no priors"

    def set_objective(self, X, y, lam, **_):
        """Arrays in the order that it wants."""
        self.X, self.Y = np.asfortranarray(X), np.asfortranarray(y)
        self.alpha = lam / len(X)
        warnings.simplefilter("ignore")

    def run(self, tolerance):
        """Tolerance: of the duality gap, as a share of the objective at P = 0."""
        model = MultiTaskLasso(
            self.alpha, fit_intercept=False, tol=tolerance, max_iter=100_000
        )
        self.P = model.fit(self.X, self.Y).coef_.T

    def get_result(self):
        """Coefficients (d, m)."""
        return {"P": self.P}
