"""CLMT: convex learning of tasks and their structure.

C. Ciliberto, Y. Mroueh, T. Poggio, L. Rosasco: Convex Learning of Multiple Tasks and
their Structure. ICML 2015.

Minimising over the output kernel A leaves κ Σ σ_k(W)^q of the singular values of W,
q = 2p/(p + 1), for the penalty gamma Σ a_k^p of the eigenvalues of A. So the problem is
solved in W alone, and A follows.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from priormtl._arrays import Array
from priormtl.baselines.base import Settings, crossed
from priormtl.baselines.coupling import (
    MOST_ALTERNATIONS,
    Alternation,
    CoupledBaseline,
    check_alternation,
    coupled_ridge,
    decades,
    kernel_from,
    map_eigenvalues,
    settled,
)
from priormtl.baselines.output_kernels import (
    EigenvaluePenalty,
    check_output_kernel,
)
from priormtl.estimators import (
    ClassificationTasks,
    RegressionTasks,
    check_choice,
    check_positive,
    check_strength,
)
from priormtl.losses import DataFit
from priormtl.penalties import Nuclear, Penalty, Schatten, TaskKernel
from priormtl.priors import QuadraticPrior
from priormtl.problem import Problem
from priormtl.solvers import Method, Solution, StopRule, default_method, max_iter

__all__ = ["CLMT", "CLMTClassifier"]

PENALTIES = ("frobenius", "trace", "schatten", "fixed")
BLUR = 1e-8  # added to each eigenvalue of WᵀW, as the authors do
SMALL_CHANGE = 1e-4  # of the objective, at which the authors' alternation ends
DEPTH = 3.5  # decades of a grid


class _CLMT(CoupledBaseline):
    output_kernel_: Array

    def __init__(
        self,
        lam: float = 1.0,
        gamma: float | None = None,
        *,
        penalty: str = "frobenius",
        power: float = 2.0,
        output_kernel: Any = None,
        solver: str = "fista",
        fit_intercept: bool = True,
        task_weight: str = "sum",
        standardize: bool = False,
        tol: float = 1e-6,
        max_iter: int = 10_000,
        task: Any = None,
    ) -> None:
        self.lam = lam
        self.gamma = gamma
        self.penalty = penalty
        self.power = power
        self.output_kernel = output_kernel
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.task_weight = task_weight
        self.standardize = standardize
        self.tol = tol
        self.max_iter = max_iter
        self.task = task

    @property
    def _is_fixed(self) -> bool:
        return check_choice("penalty", self.penalty, PENALTIES) == "fixed"

    @property
    def _power(self) -> float:
        """Power p of the eigenvalues of A."""
        if self.penalty != "schatten":
            return 1.0 if self.penalty == "trace" else 2.0
        power = check_strength("power", self.power)
        if power < 1:
            raise ValueError(f"power must be at least 1: got {self.power!r}.")
        return power

    @property
    def _size(self) -> EigenvaluePenalty:
        """Penalty of A."""
        power, gamma = self._power, self.gamma
        return EigenvaluePenalty(
            power, None if gamma is None else check_positive("gamma", gamma)
        )

    @property
    def _solves_systems(self) -> bool:
        return self._alternates or self._is_fixed

    def _problem(self, fit: DataFit[Any]) -> Problem:
        prior = QuadraticPrior.none(*fit.shape)
        return Problem(fit, prior, self._make_penalty(fit.shape[1]), 1.0)

    def _make_penalty(self, m: int) -> Penalty:
        if self._is_fixed:
            return TaskKernel.of_matrix(check_output_kernel(self.output_kernel, m))
        exponent = self._size.exponent
        return Nuclear() if exponent == 1 else Schatten(exponent)

    def _strength(self, value: float) -> float:
        """That of singular values, or lam for a fixed A."""
        lam = super()._strength(value)
        return lam if self._is_fixed else self._size.strength(lam)

    def _lam_of(self, strength: float) -> float:
        """What _strength makes this strength of."""
        return strength if self._is_fixed else self._size.lam_of(strength)

    def _choose_method(self, problem: Problem) -> Method[Any]:
        if self._is_fixed:
            return self._kernel_method(problem)
        if self._alternates:
            return self._alternation(problem)
        if problem.lam == 0 or isinstance(problem.penalty, Nuclear):
            return default_method(problem)
        return super()._choose_method(problem)

    def _kernel_method(self, problem: Problem) -> Method[Any]:
        """One linear system where that is possible: an alternation that stays."""
        if coupled_ridge(problem) is None and not self._alternates:
            return super()._choose_method(problem)
        A = check_output_kernel(self.output_kernel, problem.shape[1]) / (
            2.0 * problem.lam
        )
        return Alternation(check_alternation(problem), A, lambda W: A)

    def _alternation(self, problem: Problem) -> Alternation:
        """From the identity, as the authors do."""
        size, ridge = self._size, check_alternation(problem)
        lam = size.lam_of(problem.lam)

        def update(W: Array) -> Array:
            square = W.T @ W
            return map_eigenvalues(
                square, lambda s: size.eigenvalues(s + BLUR, lam) / (2.0 * lam)
            )

        return Alternation(ridge, np.eye(problem.shape[1]) / (2.0 * lam), update)

    def _rules(self, method: Method[Any]) -> list[StopRule]:
        rules = super()._rules(method)
        if not self._alternates or self._is_fixed:
            return rules
        return [*rules, settled(SMALL_CHANGE), max_iter(MOST_ALTERNATIONS)]

    def _learned(self, problem: Problem, solution: Solution) -> Mapping[str, Any]:
        if self._is_fixed:
            kernel = check_output_kernel(self.output_kernel, problem.shape[1])
        else:
            size = self._size
            lam = size.lam_of(problem.lam)
            kernel = kernel_from(
                solution.coef, lambda values: size.eigenvalues(values**2, lam)
            )
        return {"output_kernel_": kernel}

    def _suggest(self, bound: DataFit[Any], n: int) -> list[Settings]:
        strengths = decades(self._problem(bound).lam_max or 1.0, DEPTH, n)
        return list(crossed([{}], "lam", map(self._lam_of, strengths)))


class CLMT(RegressionTasks, _CLMT):
    """Convex learning of tasks and their structure: coefficients and an output kernel.

    Minimises over coefficients W (features × tasks), intercepts b and a kernel A ⪰ 0
    between tasks::

        1/2 Σ w (x w_i + b_i − y)² + lam tr(W A⁻¹ Wᵀ) + gamma Φ(A)

    where Φ is the squared Frobenius norm, the trace or Σ a_k^power of the eigenvalues
    of A; or A is given. With "trace" the model is that of the nuclear norm. The loss of
    the authors' package is a mean without the half: ``task_weight="mean"`` and m/2 of
    its strengths give the same model.

    Parameters
    ----------
    lam : float
        Strength of the coupling by A.
    gamma : float, optional
        Strength of Φ, by default ``lam``. Both act on W through one number only, so
        that there is no need to tune both.
    penalty : {"frobenius", "trace", "schatten", "fixed"}
        Φ, or "fixed" for a given A.
    power : float
        Power of the eigenvalues with "schatten", at least 1.
    output_kernel : (m, m) array, optional
        A with "fixed", in the order of the tasks; it may be singular.
    solver : {"fista", "alternating"}
        On the coefficients alone, to the optimum: FISTA, Newton's method with "trace",
        one linear system with "fixed" where it is not too large. Or the published
        alternation of both, at most 200 times, which can end above the optimum. The
        alternation needs squared loss and few rows or coefficients.
    fit_intercept, task_weight, standardize, tol, max_iter, task
        As in :class:`DMTL`.

    Attributes
    ----------
    coef_ : (m, d) array
        Coefficients, one row per task.
    intercept_ : (m,) array
        Intercepts.
    output_kernel_ : (m, m) array
        A.
    tasks_ : (m,) array
        Task labels.
    objective_, dual_gap_ : float
        Objective reached, and how far the optimum can be below it, at most. With
        "fixed" the objective has no Φ.
    n_iter_ : int
        Steps taken.

    Examples
    --------
    >>> from priormtl.baselines import CLMT
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> model = CLMT(lam=2.0).fit(X, y, task=task)
    >>> model.output_kernel_.shape, model.predict(X, task=task).shape
    ((4, 4), (120,))
    """

    loss = "squared"


class CLMTClassifier(ClassificationTasks, _CLMT):
    """Convex learning of binary tasks and their structure.

    As :class:`CLMT`, with Σ w log(1 + exp(−y (x w_i + b_i))) for classes −1 and +1 in
    place of the squared loss, or with the squared loss of these numbers.

    Parameters
    ----------
    lam, gamma, penalty, power, output_kernel, solver, fit_intercept, task_weight
        As in :class:`CLMT`.
    standardize, tol, max_iter, task
        As in :class:`CLMT`.
    loss : {"logistic", "squared"}
        How misfit is counted.

    Examples
    --------
    >>> from priormtl.baselines import CLMTClassifier
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> model = CLMTClassifier(lam=2.0).fit(X, y > 0, task=task)
    >>> model.predict_proba(X, task=task).shape
    (120, 2)
    """

    def __init__(
        self,
        lam: float = 1.0,
        gamma: float | None = None,
        *,
        loss: str = "logistic",
        penalty: str = "frobenius",
        power: float = 2.0,
        output_kernel: Any = None,
        solver: str = "fista",
        fit_intercept: bool = True,
        task_weight: str = "sum",
        standardize: bool = False,
        tol: float = 1e-6,
        max_iter: int = 10_000,
        task: Any = None,
    ) -> None:
        super().__init__(
            lam,
            gamma,
            penalty=penalty,
            power=power,
            output_kernel=output_kernel,
            solver=solver,
            fit_intercept=fit_intercept,
            task_weight=task_weight,
            standardize=standardize,
            tol=tol,
            max_iter=max_iter,
            task=task,
        )
        self.loss = loss
