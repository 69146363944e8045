"""LinearMultiTask: the paper's model, solved and certified."""

import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning

from priormtl._arrays import Array
from priormtl.checks import (
    SOLVERS,
    check_choice,
    check_count,
    check_tolerance,
)
from priormtl.data import TaskData, TaskStatistics, centre_samples
from priormtl.estimators.outliers import (
    check_outlier_tasks,
    check_own_strength,
    publish_parts,
)
from priormtl.estimators.setups import LinearSettings, Setup
from priormtl.losses import SquaredFit
from priormtl.problem import Certificate, Problem
from priormtl.selection import (
    Solver,
    find_outliers,
    pose_outliers,
    solve_outliers,
    suggest_own,
)
from priormtl.solvers import (
    Method,
    Newton,
    Solution,
    StopReason,
    StopRule,
    diverged,
    gap_below,
    max_iter,
    method_by_name,
    no_progress,
    settle,
    solve,
    solve_path,
    stalled,
)

__all__ = ["LinearMultiTask", "task_array"]

ACCEPTED = {StopReason.GAP, StopReason.ROUNDING}
MOST_IDLE_STEPS = 30  # of a method that should close the gap in a few


class LinearMultiTask(LinearSettings):
    """Linear models of many tasks with one common set of features and priors."""

    def _fit_tasks(self, data: TaskData | TaskStatistics) -> None:
        self._solver_settings()
        self._fit_setup(data, self._set_up(data))

    def _fit_setup(self, data: TaskData | TaskStatistics, setup: Setup) -> None:
        """Solve the problem that was set up for this data."""
        coef = self._warm_coef(data, setup.scale)
        posed, solution = self._solve_setup(setup, coef)
        closer = self._look_closer(data, posed, solution)
        if closer is not None:
            posed, solution = self._solve_closer(closer, solution)
        self._warn_unless_converged(solution, posed.problem.null_objective)
        self._publish(data, posed, solution)

    def _solve_setup(
        self, setup: Setup, coef: Array | None = None
    ) -> tuple[Setup, Solution]:
        """Solve from some coefficients; own parts of tasks, if wanted, come last."""
        method = self._choose_method(setup.problem)
        plain = solve(setup.problem, method, coef=coef, stop=self._rules(method))
        if check_outlier_tasks(self.outlier_tasks):
            return self._let_out(setup, plain)
        return setup, plain

    def _solve_closer(self, setup: Setup, known: Solution) -> tuple[Setup, Solution]:
        """Solve anew, and combine what certificates of both runs say.

        Without a penalty from zero; with one that is tiny from the optimum without.
        """
        problem, coef = setup.problem, None
        if problem.lam > 0:
            smooth, method = problem.with_strengths(lam=0.0), Newton()
            coef = solve(smooth, method, stop=self._rules(method)).coef
        _, found = self._solve_setup(setup, coef)
        before = settle(problem, problem.at(known.coef), [max_iter(0)])
        assert before is not None
        dual = max(before.certificate.dual, found.certificate.dual)
        # Better coefficients that are so large that rounding hides how much are none.
        limit = self.tol * problem.null_objective
        best = min(before, found, key=lambda solution: solution.certificate.primal)
        if found.certificate.rounding > max(limit, problem.fit.noise):
            best = before
        certificate = best.certificate._replace(dual=dual)
        reason = StopReason.GAP if self._accepts(problem, certificate) else found.reason
        return setup, replace(best, certificate=certificate, reason=reason)

    def _accepts(self, problem: Problem, certificate: Certificate) -> bool:
        """Whether a gap is within the tolerance, or made of rounding errors."""
        limit = max(self.tol * problem.null_objective, problem.fit.noise)
        return certificate.gap <= limit

    def _look_closer(
        self, data: TaskData | TaskStatistics, setup: Setup, solution: Solution
    ) -> Setup | None:
        """Same problem on samples, where moments do not tell how far the optimum is."""
        problem = setup.problem
        accepted = self._accepts(problem, solution.certificate)
        if accepted and not problem.is_uncertain:
            return None
        if solution.reason is StopReason.MAX_ITER:
            return None
        if not isinstance(problem.fit, SquaredFit) or self.penalty != "l21":
            return None
        if problem.fit.rows_per_task or not isinstance(data, TaskData):
            # Nothing to be had beyond a better start, if the penalty is tiny.
            return setup if problem.lam > 0 and not accepted else None
        if issparse(data.X):
            return None
        samples = self._standardized(centre_samples(data), setup.scale, setup.centre)
        fit = replace(problem.fit, moments=samples)
        return setup._replace(problem=replace(problem, fit=fit, memo={}))

    def _solve_path(self, setup: Setup, lams: Array) -> list[Solution]:
        """Solve for each lam, in this order, with own parts of tasks if wanted."""
        problem = setup.problem
        found = solve_path(problem, lams, choose=self._choose_method, rules=self._rules)
        if not check_outlier_tasks(self.outlier_tasks):
            return found
        setups = [setup._replace(problem=problem.with_strengths(lam=x)) for x in lams]
        return [self._let_out(*pair)[1] for pair in zip(setups, found, strict=True)]

    def _let_out(self, setup: Setup, plain: Solution) -> tuple[Setup, Solution]:
        """Same problem where tasks may have own parts, from a fit where none has."""
        solver = Solver(self._choose_method, self._rules, self.tol)
        own = self._own_strength(setup.problem, plain, solver)
        problem = pose_outliers(setup.problem, own)
        gamma = float(np.min(own))
        solution = solve_outliers(problem, plain, solver)
        return setup._replace(problem=problem, outlier_strength=gamma), solution

    def _own_strength(
        self, problem: Problem, plain: Solution, solver: Solver
    ) -> float | Array:
        """Strength of own parts, as set or suggested: one, or one for each task."""
        if self.outlier_strength is None:
            found = find_outliers(problem, solver)
            return suggest_own(problem, plain, found).spread()
        return check_own_strength(self.outlier_strength, problem.shape[1])

    def _solver_settings(self) -> tuple[str, float, int]:
        """Solver, tolerance and most steps, as set."""
        return (
            check_choice("solver", self.solver, SOLVERS),
            check_tolerance(self.tol),
            check_count("max_iter", self.max_iter),
        )

    def _choose_method(self, problem: Problem) -> Method[Any]:
        return method_by_name(self._solver_settings()[0], problem)

    def _rules(self, method: Method[Any]) -> list[StopRule]:
        """When to stop, anew for each run: some rules remember."""
        _, tol, steps = self._solver_settings()
        rules = [gap_below(tol, method.look_every), stalled(), diverged()]
        if method.look_every == 1:
            rules.append(no_progress(MOST_IDLE_STEPS))
        return [*rules, max_iter(steps)]

    def _warm_coef(self, data: TaskData | TaskStatistics, scale: Array) -> Array | None:
        """Coefficients of the last fit, where they fit the same tasks and features."""
        known = getattr(self, "shared_coef_", getattr(self, "coef_", None))
        if not self.warm_start or known is None:
            return None
        if known.shape[::-1] != data.shape or self.tasks_.tolist() != list(data.tasks):
            return None
        return np.ascontiguousarray(known.T * scale[:, np.newaxis])

    def _warn_unless_converged(self, solution: Solution, unit: float) -> None:
        gap = solution.certificate.gap
        if gap <= self.tol * unit or solution.reason in ACCEPTED:
            return
        share = gap / unit if unit else gap
        by_steps = solution.reason is StopReason.MAX_ITER
        advice = "raise max_iter" if by_steps else "centre and rescale the features"
        warnings.warn(
            f"not converged, {solution.reason.value}: the duality gap is {gap:.3g}, "
            f"that is {share:.3g} of the objective at P = 0, above tol={self.tol:g}, "
            f"after {solution.n_iter} iterations; {advice}.",
            ConvergenceWarning,
            stacklevel=4,
        )

    def _publish(
        self, data: TaskData | TaskStatistics, setup: Setup, solution: Solution
    ) -> None:
        total, shared = (
            np.ascontiguousarray((P / setup.scale[:, None]).T)
            for P in (solution.point.total, solution.coef)
        )
        self.coef_ = total
        self.intercept_ = solution.intercept
        self.tasks_ = task_array(data.tasks)
        self.objective_ = solution.certificate.primal
        self.dual_gap_ = solution.certificate.gap
        self.n_iter_ = solution.n_iter
        self.feature_prior_ = setup.feature_prior
        self.task_weight_ = np.array(setup.moments.weight)
        self.feature_scale_ = setup.scale
        self.tie_weights_ = setup.strengths.weights
        self.__dict__.pop("intercept_strength_", None)
        if self.fit_intercept == "tied":
            self.intercept_strength_ = setup.strengths.intercept
        self.__dict__.pop("statistics_", None)
        for learned in (data, setup.moments):
            if isinstance(learned, TaskStatistics):
                self.statistics_ = learned
        parts = (shared, total - shared) if self.outlier_tasks else None
        publish_parts(self, parts, setup.outlier_strength)

    def _adopt_statistics(self, statistics: TaskStatistics) -> Self:
        """Fit statistics as if their rows had been read."""
        self._adopt_features(statistics)
        self._fit_tasks(statistics)
        return self


def task_array(tasks: tuple[Any, ...]) -> np.ndarray:
    """Task labels as a 1-D array, also where they are tuples."""
    if any(isinstance(task, tuple) for task in tasks):
        array = np.empty(len(tasks), dtype=object)
        array[:] = tasks
        return array
    return np.array(tasks)
