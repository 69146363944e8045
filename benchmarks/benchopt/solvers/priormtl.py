"""priormtl: its default method, and FISTA with the same certificates."""

import warnings

from benchopt import BaseSolver

from priormtl import FeaturePrior, MultiTaskRegressor


class Solver(BaseSolver):
    """From arrays to coefficients; reading and statistics are timed."""

    name = "priormtl"
    requirements = ["pip::priormtl"]
    parameters = {"solver": ["auto", "fista"]}
    sampling_strategy = "tolerance"

    def set_objective(self, X, y, task, lam, theta, epsilon, pairs):
        """State the model."""
        prior = FeaturePrior.similar(pairs.tolist()) if theta > 0 else None
        self.model = MultiTaskRegressor(
            lam,
            theta,
            epsilon,
            feature_prior=prior,
            task_prior="chain" if epsilon > 0 else None,
            fit_intercept=False,
            solver=self.solver,
            max_iter=100_000,
        )
        self.rows = {"X": X, "y": y, "task": task}
        warnings.simplefilter("ignore")
        # Not timed. Loops differ between data sets, and warm_up comes once for all.
        self.run(1e-4)

    def run(self, tolerance):
        """Tolerance: of the duality gap, as a share of the objective at P = 0."""
        self.model.set_params(tol=max(min(tolerance, 0.1), 1e-15)).fit(**self.rows)

    def get_result(self):
        """Coefficients (d, m)."""
        return {"P": self.model.coef_.T}
