"""CLMT: convex learning of tasks and their structure.

C. Ciliberto, Y. Mroueh, T. Poggio, L. Rosasco: Convex Learning of Multiple Tasks and
their Structure. ICML 2015.
"""

from typing import Any

import numpy as np

from priormtl.baselines.base import Settings, crossed
from priormtl.baselines.convex import ConvexBaseline
from priormtl.estimators import ClassificationTasks, RegressionTasks
from priormtl.losses import DataFit
from priormtl.penalties import Nuclear
from priormtl.priors import QuadraticPrior
from priormtl.problem import Problem

__all__ = ["CLMT", "CLMTClassifier"]


class _CLMT(ConvexBaseline):
    def __init__(
        self,
        lam: float = 1.0,
        *,
        fit_intercept: bool = True,
        task_weight: str = "sum",
        standardize: bool = False,
        tol: float = 1e-6,
        max_iter: int = 10_000,
        task: Any = None,
    ) -> None:
        self.lam = lam
        self.fit_intercept = fit_intercept
        self.task_weight = task_weight
        self.standardize = standardize
        self.tol = tol
        self.max_iter = max_iter
        self.task = task

    def _problem(self, fit: DataFit[Any]) -> Problem:
        return Problem(fit, QuadraticPrior.none(*fit.shape), Nuclear(), 1.0)

    def _suggest(self, bound: DataFit[Any], n: int) -> list[Settings]:
        largest = self._problem(bound).lam_max or 1.0
        return list(crossed([{}], "lam", largest * np.geomspace(1.0, 1e-3, n)))


class CLMT(RegressionTasks, _CLMT):
    """Regression."""

    loss = "squared"


class CLMTClassifier(ClassificationTasks, _CLMT):
    """Classification."""

    def __init__(
        self,
        lam: float = 1.0,
        *,
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
            fit_intercept=fit_intercept,
            task_weight=task_weight,
            standardize=standardize,
            tol=tol,
            max_iter=max_iter,
            task=task,
        )
        self.loss = loss
