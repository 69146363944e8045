"""SearchSettings: what a search over strengths is told before it sees data."""

from typing import Any

from priormtl.estimators.grids import EPSILONS, THETAS
from priormtl.estimators.predictions import LinearPredictions
from priormtl.estimators.splits import DEFAULT_FOLDS

__all__ = ["SearchSettings", "shared_settings"]

SHARED_SETTINGS = (
    "feature_prior",
    "task_prior",
    "penalty",
    "fit_intercept",
    "intercept_strength",
    "feature_weights",
    "tie_weights",
    "standardize",
    "solver",
    "tol",
    "max_iter",
    "task",
    "unseen_tasks",
)


class SearchSettings(LinearPredictions):
    """Strengths to try, how they are judged, and the model that they belong to."""

    def __init__(
        self,
        lams: Any = None,
        thetas: Any = THETAS,
        epsilons: Any = EPSILONS,
        *,
        cv: Any = DEFAULT_FOLDS,
        scoring: Any = None,
        n_jobs: int | None = None,
        selection: str = "best",
        feature_prior: Any = None,
        task_prior: Any = "chain",
        penalty: str = "l21",
        fit_intercept: bool | str = True,
        intercept_strength: float = 1.0,
        feature_weights: Any = None,
        tie_weights: Any = None,
        standardize: bool = False,
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int = 10_000,
        task: Any = None,
        unseen_tasks: str = "error",
        outlier_tasks: bool = False,
        outlier_strengths: Any = None,
    ) -> None:
        self.lams = lams
        self.thetas = thetas
        self.epsilons = epsilons
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.selection = selection
        self.feature_prior = feature_prior
        self.task_prior = task_prior
        self.penalty = penalty
        self.fit_intercept = fit_intercept
        self.intercept_strength = intercept_strength
        self.feature_weights = feature_weights
        self.tie_weights = tie_weights
        self.standardize = standardize
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.task = task
        self.unseen_tasks = unseen_tasks
        self.outlier_tasks = outlier_tasks
        self.outlier_strengths = outlier_strengths


def shared_settings(model: SearchSettings) -> dict[str, Any]:
    """Settings that the estimators with fixed strengths have too."""
    return {name: getattr(model, name) for name in SHARED_SETTINGS}
