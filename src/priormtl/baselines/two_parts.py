"""TwoParts: methods whose coefficients are a sum of two parts, each with a penalty."""

from typing import Any

from priormtl.baselines.convex import ConvexBaseline
from priormtl.estimators import ClassificationTasks
from priormtl.problem import Problem
from priormtl.solvers import Method, default_method

__all__ = ["TwoParts", "TwoPartsClassifier"]


class TwoParts(ConvexBaseline):
    """One strength for one part, and the other's as a ratio to it."""

    def __init__(
        self,
        lam: float = 1.0,
        *,
        ratio: float | None = None,
        fit_intercept: bool = True,
        task_weight: str = "sum",
        standardize: bool = False,
        tol: float = 1e-6,
        max_iter: int = 10_000,
        task: Any = None,
    ) -> None:
        self.lam = lam
        self.ratio = ratio
        self.fit_intercept = fit_intercept
        self.task_weight = task_weight
        self.standardize = standardize
        self.tol = tol
        self.max_iter = max_iter
        self.task = task

    def _choose_method(self, problem: Problem) -> Method[Any]:
        return default_method(problem)


class TwoPartsClassifier(ClassificationTasks, TwoParts):
    """The same for two classes in every task, by either loss."""

    def __init__(
        self,
        lam: float = 1.0,
        *,
        ratio: float | None = None,
        loss: str = "logistic",
        fit_intercept: bool = True,
        task_weight: str = "sum",
        standardize: bool = False,
        tol: float = 1e-6,
        max_iter: int = 10_000,
        task: Any = None,
    ) -> None:
        super().__init__(
            lam,
            ratio=ratio,
            fit_intercept=fit_intercept,
            task_weight=task_weight,
            standardize=standardize,
            tol=tol,
            max_iter=max_iter,
            task=task,
        )
        self.loss = loss
