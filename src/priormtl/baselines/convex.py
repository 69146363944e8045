"""ConvexBaseline: data fit + ridge + lam · penalty, solved and certified as ours."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse

from priormtl._arrays import Array
from priormtl.baselines.base import Baseline, Outcome
from priormtl.baselines.models import LinearModel
from priormtl.data import TaskData, summarize_tasks
from priormtl.estimators import check_count, check_strength, check_tolerance
from priormtl.losses import DataFit, FreeIntercepts, Logistic, NoIntercepts, Squared
from priormtl.problem import Problem
from priormtl.solvers import (
    Fista,
    Method,
    Solution,
    StopReason,
    StopRule,
    diverged,
    gap_below,
    max_iter,
    solve_path,
    stalled,
)

__all__ = ["ConvexBaseline"]

FEW_GRAM_NUMBERS = 2**20  # 8 MB


class ConvexBaseline(Baseline):
    """A convex problem in the coefficients, with a duality gap."""

    followed: ClassVar[str] = "lam"
    fit_intercept: bool | str
    tol: float
    max_iter: int
    dual_gap_: float

    @abstractmethod
    def _problem(self, fit: DataFit[Any]) -> Problem:
        """What is minimised, at any lam."""

    def _strength(self, value: float) -> float:
        """The problem's lam for a value of the setting of that name."""
        return check_strength("lam", value)

    def _learned(self, problem: Problem, solution: Solution) -> Mapping[str, Any]:
        """Attributes of a fit beside its coefficients."""
        return {}

    def _parts(self, problem: Problem, solution: Solution) -> Mapping[str, Array]:
        """Coefficients (m, d) of the parts of a fit, by attribute."""
        return {}

    def _coef(self, problem: Problem, P: Array) -> Array:
        """Coefficients (d, m) of what the problem is solved for."""
        return P

    def _choose_method(self, problem: Problem) -> Method[Any]:
        return Fista(restart=True)

    def _bind(self, data: TaskData) -> Any:
        intercepts = FreeIntercepts() if self.fit_intercept else NoIntercepts()
        if self.loss == "logistic":
            return Logistic().bind(data, intercepts)
        rows = summarize_tasks(data) if self._prefers_grams(data) else data
        return Squared().bind(rows, intercepts)

    def _prefers_grams(self, data: TaskData) -> bool:
        """Whether Gram matrices are small: one product then serves all tasks."""
        d, m = data.shape
        return m * d * d <= FEW_GRAM_NUMBERS and not issparse(data.X)

    def _follow(
        self, bound: DataFit[Any], strengths: Sequence[float]
    ) -> Iterator[Outcome]:
        problem = self._problem(bound)
        lams = [self._strength(value) for value in strengths]
        solutions = solve_path(
            problem, lams, choose=self._choose_method, rules=self._rules
        )
        for lam, solution in zip(lams, solutions, strict=True):
            yield self._describe(problem.with_strengths(lam=lam), solution)

    def _rules(self, method: Method[Any]) -> list[StopRule]:
        """When to stop, anew for each run."""
        tol, steps = check_tolerance(self.tol), check_count("max_iter", self.max_iter)
        return [
            gap_below(tol, method.look_every),
            stalled(),
            diverged(every=method.look_every),
            max_iter(steps),
        ]

    def _describe(self, problem: Problem, solution: Solution) -> Outcome:
        certificate = solution.certificate
        coef = np.ascontiguousarray(self._coef(problem, solution.coef).T)
        learned = {"dual_gap_": certificate.gap, **self._learned(problem, solution)}
        return Outcome(
            LinearModel(coef, solution.intercept),
            certificate.primal,
            solution.n_iter,
            learned,
            self._shortfall(solution, problem.null_objective),
            self._parts(problem, solution),
        )

    def _shortfall(self, solution: Solution, unit: float) -> str | None:
        gap = solution.certificate.gap
        if gap <= self.tol * unit or solution.reason is StopReason.ROUNDING:
            return None
        return (
            f"{solution.reason.value}: the duality gap is {gap:.3g}, above "
            f"tol={self.tol:g} times {unit:.3g}, the objective at zero, after "
            f"{solution.n_iter} iterations; raise max_iter or tol."
        )
