"""The multi-task lasso with prior information, as a benchmark of benchopt."""

import numpy as np
from benchopt import BaseObjective
from benchopt.stopping_criterion import StoppingCriterion

GOAL = 1e-9  # of the relative gap
LEAST = 1e-15  # tolerance that is tried
STRENGTH = 20.0  # of both priors


class GapBelow(StoppingCriterion):
    """Lower the tolerance tenfold each time, until the gap is small."""

    def check_convergence(self, objective_list):
        """Whether to stop, and how far a solver is."""
        gap = max(objective_list[-1]["objective_gap"], GOAL)
        return gap == GOAL, min(1.0, np.log(gap) / np.log(GOAL))

    def get_next_stop_val(self, stop_val):
        """Next tolerance."""
        return min(1.0, max(stop_val / 10.0, LEAST))


class Objective(BaseObjective):
    """½ Σ (x p_i − y)² + lam ‖P‖₂,₁ + theta/2 ‖D P‖² + epsilon/2 Σ ‖p_i − p_{i+1}‖².

    No intercepts, sums over rows. Tasks share the rows of X (``task`` is None and y has
    a column for each), or have rows of their own.
    """

    name = "Multi-task lasso with priors"
    min_benchopt_version = "1.6"
    requirements = ["numpy"]
    test_config = {"prior": False, "dataset": {"name": "shared"}}  # all solve it
    stopping_criterion = GapBelow(strategy="tolerance")
    parameters = {"reg": [0.1, 0.01], "prior": [False, True]}

    def set_data(self, X, y, task=None):
        """Set lam to a share of the least value at which P = 0 is optimal."""
        self.X, self.y, self.task = X, y, task
        d = X.shape[1]
        self.m = y.shape[1] if task is None else int(task.max()) + 1
        self.lam = self.reg * np.linalg.norm(self._transpose(y), axis=1).max()
        self.theta = self.epsilon = STRENGTH if self.prior else 0.0
        # Pairs of neighbours, among a quarter of the features, have similar effects.
        first = np.arange(0, d // 4 - 1, 2)
        self.pairs = np.column_stack([first, first + 1])

    def _transpose(self, R):
        """Xᵀ R of each task (d, m)."""
        if self.task is None:
            return self.X.T @ R
        return np.column_stack(
            [self.X[self.task == i].T @ R[self.task == i] for i in range(self.m)]
        )

    def _predict(self, P):
        if self.task is None:
            return self.X @ P
        return np.einsum("nd,dn->n", self.X, P[:, self.task])

    def evaluate_result(self, P):
        """Objective, and the duality gap as a share of the objective at P = 0.

        The priors are additional least-squares rows with target zero, so the scaled
        residual of all rows is a dual point.
        """
        R = self.y - self._predict(P)
        DP = P[self.pairs[:, 0]] - P[self.pairs[:, 1]]
        steps = np.diff(P, axis=1)
        slope = self._transpose(R)
        np.subtract.at(slope, self.pairs[:, 0], self.theta * DP)
        np.add.at(slope, self.pairs[:, 1], self.theta * DP)
        slope[:, 1:] -= self.epsilon * steps
        slope[:, :-1] += self.epsilon * steps
        rr = np.sum(R**2) + self.theta * np.sum(DP**2) + self.epsilon * np.sum(steps**2)
        yr = np.sum(self.y * R)
        primal = 0.5 * rr + self.lam * np.linalg.norm(P, axis=1).sum()
        limit = self.lam / np.linalg.norm(slope, axis=1).max()
        scale = np.clip(yr / rr, -limit, limit)
        gap = primal - scale * yr + 0.5 * scale**2 * rr
        return {"value": primal, "gap": gap / (0.5 * np.sum(self.y**2))}

    def get_one_result(self):
        """A point of the right shape."""
        return {"P": np.zeros((self.X.shape[1], self.m))}

    def get_objective(self):
        """What solvers see."""
        return {
            "X": self.X,
            "y": self.y,
            "task": self.task,
            "lam": self.lam,
            "theta": self.theta,
            "epsilon": self.epsilon,
            "pairs": self.pairs,
        }
