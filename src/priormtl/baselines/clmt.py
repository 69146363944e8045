"""CLMT: convex learning of tasks and their structure.

C. Ciliberto, Y. Mroueh, T. Poggio, L. Rosasco: Convex Learning of Multiple Tasks and
their Structure. ICML 2015.

Coefficients W and an output kernel A ⪰ 0 between tasks minimise loss(W) + lam tr(W A⁻¹
Wᵀ) + gamma Σ a_k^p, a_k the eigenvalues of A. Minimising over A leaves the penalty
κ Σ σ_k(W)^q of the singular values of W with q = 2p/(p + 1). So the problem is solved
in W alone, and A follows. The authors' alternation of W and A is offered too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np

from priormtl import solvers
from priormtl._arrays import Array
from priormtl.baselines import base, coupling
from priormtl.checks import check_choice, check_positive, check_strength
from priormtl.estimators import ClassificationTasks, RegressionTasks
from priormtl.penalties import Nuclear, Penalty, Schatten, TaskKernel
from priormtl.problem import Problem, QuadraticPrior


@dataclass(frozen=True)
class EigenvaluePenalty:
    """gamma Σ a_k^p of the eigenvalues of A, and what it leaves for W."""

    power: float  # p
    gamma: float | None  # None: as lam

    @property
    def exponent(self) -> float:
        """Power q of singular values of W."""
        return 2.0 * self.power / (self.power + 1.0)

    def strength(self, lam: float) -> float:
        """κ = (1 + 1/p) lam^(p/(p+1)) (p gamma)^(1/(p+1))."""
        p = self.power
        gamma = lam if self.gamma is None else self.gamma
        kappa = (1.0 + 1.0 / p) * lam ** (p / (p + 1.0))
        return float(kappa * (p * gamma) ** (1.0 / (p + 1.0)))

    def lam_of(self, strength: float) -> float:
        # κ is proportional to lam if gamma = lam, else to lam^(p/(p + 1)).
        share = strength / self.strength(1.0)
        if self.gamma is None:
            return share
        return float(share ** (1.0 + 1.0 / self.power))

    def eigenvalues(self, squares: Array, lam: float) -> Array:
        """Best eigenvalues of A, given those of WᵀW."""
        p = self.power
        ratio = 1.0 if self.gamma is None else lam / self.gamma
        return np.asarray((ratio * squares / p) ** (1.0 / (p + 1.0)))

    def kernel(self, W: Array, strength: float) -> Array:
        """Best A for coefficients W (d, m) at this strength κ."""
        lam = self.lam_of(strength)
        return coupling.kernel_from(W, lambda values: self.eigenvalues(values**2, lam))


def check_output_kernel(value: object, m: int) -> Array:
    wanted = f"output_kernel must be a finite symmetric matrix of {m} x {m} tasks"
    if value is None:
        raise ValueError(f'{wanted} with penalty="fixed": got None.')
    A = np.array(value, dtype=np.float64)
    if A.shape != (m, m) or not np.all(np.isfinite(A)):
        raise ValueError(f"{wanted}: got shape {A.shape}, or NaN.")
    size = float(np.abs(A).max())
    if np.abs(A - A.T).max() > 1e-8 * size:
        raise ValueError(f"{wanted}: pass (A + A.T) / 2.")
    A = 0.5 * (A + A.T)
    least = float(np.linalg.eigvalsh(A)[0])
    if least < -1e-8 * size:
        raise ValueError(
            "output_kernel must be positive semidefinite: its smallest eigenvalue is "
            f"{least:.3g}."
        )
    return A


@dataclass(eq=False, repr=False)
class _CLMT(base.Baseline):
    followed = "lam"

    lam: float = 1.0
    gamma: float | None = None
    _: KW_ONLY
    penalty: str = "frobenius"
    power: float = 2.0
    output_kernel: object = None
    solver: str = "fista"
    tol: float = 1e-6
    max_iter: int = 10_000

    @property
    def _alternates(self) -> bool:
        return check_choice("solver", self.solver, coupling.SOLVERS) == "alternating"

    @property
    def _is_fixed(self) -> bool:
        choices = ("frobenius", "trace", "schatten", "fixed")
        return check_choice("penalty", self.penalty, choices) == "fixed"

    @property
    def _kernel_penalty(self) -> EigenvaluePenalty:
        power = 1.0 if self.penalty == "trace" else 2.0
        if self.penalty == "schatten":
            power = check_strength("power", self.power)
            if power < 1:
                raise ValueError(f"power must be at least 1: got {self.power!r}.")
        gamma = None if self.gamma is None else check_positive("gamma", self.gamma)
        return EigenvaluePenalty(power, gamma)

    def _problem(self, fit: base.Fit) -> Problem:
        penalty: Penalty
        if self._is_fixed:
            A = check_output_kernel(self.output_kernel, fit.shape[1])
            penalty = TaskKernel.of_matrix(A)
        else:
            # Minimised over A: κ Σ σ_k(W)^q with q = 2p/(p + 1), see the module.
            exponent = self._kernel_penalty.exponent
            penalty = Nuclear() if exponent == 1 else Schatten(exponent)
        return Problem(fit, QuadraticPrior.none(*fit.shape), penalty, 1.0)

    def _strength(self, value: float) -> float:
        """κ, or lam for a fixed A."""
        if self._is_fixed:
            return check_positive("lam", value)
        # The alternation divides by lam.
        check = check_positive if self._alternates else check_strength
        return self._kernel_penalty.strength(check("lam", value))

    def _follow(
        self, bound: base.Fit, strengths: Sequence[float]
    ) -> Iterator[base.Outcome]:
        problem = self._problem(bound)
        lams = [self._strength(value) for value in strengths]
        for posed, solution in base.solve_strengths(
            problem, lams, self._rules, self._choose_method
        ):
            if self._is_fixed:
                kernel = check_output_kernel(self.output_kernel, posed.shape[1])
            else:
                kernel = self._kernel_penalty.kernel(solution.coef, posed.lam)
            learned = {"output_kernel_": kernel}
            yield base.describe(posed, solution, self.tol, learned=learned)

    def _choose_method(self, problem: Problem) -> solvers.Method:
        m, lam = problem.shape[1], problem.lam
        if self._is_fixed and (self._alternates or problem.fit.is_quadratic):
            # One linear system: an alternation with constant A.
            A = check_output_kernel(self.output_kernel, m) / (2.0 * lam)
            return coupling.Alternation(A, lambda W: A)
        if self._alternates:
            # The authors' alternation, from the identity.
            penalty = self._kernel_penalty
            lam = penalty.lam_of(lam)

            def change(values: Array) -> Array:
                # Perturbed as in the authors' code.
                return penalty.eigenvalues(values + 1e-8, lam) / (2.0 * lam)

            return coupling.Alternation(
                np.eye(m) / (2.0 * lam),
                lambda W: coupling.map_eigenvalues(W.T @ W, change),
            )
        if lam == 0 or isinstance(problem.penalty, Nuclear):
            return solvers.default_method(problem)
        return solvers.Fista(restart=True)

    def _rules(self, method: solvers.Method) -> list[solvers.StopRule]:
        # The authors stop at this change.
        change = 1e-4 if self._alternates and not self._is_fixed else None
        return coupling.stop_rules(method, self.tol, self.max_iter, change)

    def _suggest(self, bound: base.Fit, n: int) -> list[base.Settings]:
        strengths = coupling.decades(self._problem(bound).lam_max or 1.0, 3.5, n)
        if not self._is_fixed:
            strengths = np.array([self._kernel_penalty.lam_of(x) for x in strengths])
        return list(base.crossed([{}], "lam", strengths))


class CLMT(RegressionTasks, _CLMT):
    """Convex learning of tasks and their structure: coefficients and an output kernel.

    The method minimises over coefficients W (features × tasks), intercepts b and a
    kernel A ⪰ 0 between tasks::

        1/2 Σ w (x w_i + b_i − y)² + lam tr(W A⁻¹ Wᵀ) + gamma Φ(A)

    where Φ is the squared Frobenius norm, the trace or Σ a_k^power of the eigenvalues
    of A; or A is given. With "trace" the model is nuclear-norm regularisation. The
    authors' package uses the mean squared error without the factor 1/2:
    ``task_weight="mean"`` and m/2 times its strengths give the same model.

    Parameters
    ----------
    lam : float, default=1.0
        Strength of the coupling by A.
    gamma : float, optional
        Strength of Φ, by default ``lam``. Both strengths act on W through one number
        only, so it is enough to tune ``lam``.
    penalty : {"frobenius", "trace", "schatten", "fixed"}, default="frobenius"
        The penalty Φ, or "fixed" for a given A.
    power : float, default=2.0
        Power of the eigenvalues with "schatten", at least 1.
    output_kernel : (m, m) array, optional
        The kernel A with "fixed", in the order of the tasks; it may be singular.
    solver : {"fista", "alternating"}, default="fista"
        "fista" solves for the coefficients alone, to a duality gap: by FISTA, by
        Newton's method with "trace", or by one linear system with "fixed" and squared
        loss. "alternating" is the published alternation of W and A, at most 200
        iterations, which can end above the optimum. It needs squared loss.
    fit_intercept, task_weight, standardize, tol, max_iter, task
        See :class:`DMTL`.

    Attributes
    ----------
    output_kernel_ : (m, m) array
        The kernel A.
    coef_, intercept_, tasks_, objective_, dual_gap_, n_iter_
        See :class:`DMTL`. With "fixed" the objective does not contain Φ.

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


@dataclass(eq=False, repr=False)
class CLMTClassifier(ClassificationTasks, _CLMT):
    """Convex learning of tasks and their structure, for two classes per task.

    ``loss`` on classes coded −1 and +1 is "logistic", the default, or "squared"; other
    parameters and attributes are those of :class:`CLMT`.
    """

    _: KW_ONLY
    loss: str = "logistic"
