"""MTRL: multi-task relationship learning.

Y. Zhang, D.-Y. Yeung: A Convex Formulation for Learning Task Relationships in
Multi-Task Learning. UAI 2010.

The minimum of tr(W Ω⁻¹ Wᵀ) over covariances Ω of trace one is ‖W‖_*², attained at
Ω = (WᵀW)^½ / tr (WᵀW)^½. So the problem is solved for W alone, by FISTA, and Ω follows.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
from scipy.sparse import csr_array, eye_array

from priormtl import solvers
from priormtl._arrays import Array
from priormtl.baselines import base, coupling
from priormtl.checks import check_choice, check_positive, check_strength
from priormtl.estimators import ClassificationTasks, RegressionTasks
from priormtl.penalties import SquaredNuclear
from priormtl.priors.graphs import Laplacian
from priormtl.problem import Problem, QuadraticPrior


@dataclass(eq=False, repr=False)
class _MTRL(base.Baseline):
    followed = "lam"

    lam: float = 1.0
    ridge: float = 1.0
    _: KW_ONLY
    solver: str = "fista"
    tol: float = 1e-6
    max_iter: int = 10_000

    @property
    def _alternates(self) -> bool:
        return check_choice("solver", self.solver, coupling.SOLVERS) == "alternating"

    def _problem(self, fit: base.Fit) -> Problem:
        d, m = fit.shape
        ridge = check_strength("ridge", self.ridge)
        # D = I makes the feature prior theta/2 ‖D W‖² the ridge of the paper.
        identity = csr_array(eye_array(d))
        prior = QuadraticPrior(identity, Laplacian.empty(m), ridge, 0.0)
        return Problem(fit, prior, SquaredNuclear(), 1.0)

    def _follow(
        self, bound: base.Fit, strengths: Sequence[float]
    ) -> Iterator[base.Outcome]:
        problem = self._problem(bound)
        check = check_positive if self._alternates else check_strength
        lams = [check("lam", value) for value in strengths]
        for posed, solution in base.solve_strengths(
            problem, lams, self._rules, self._choose_method
        ):
            learned = {"task_covariance_": task_covariance(solution.coef)}
            yield base.describe(posed, solution, self.tol, learned=learned)

    def _choose_method(self, problem: Problem) -> solvers.Method:
        if self._alternates:
            # As published, from tasks of equal variance that are not correlated.
            m, ridge, lam = problem.shape[1], problem.prior.theta, problem.lam

            def couple(covariance: Array) -> Array:
                # A = Ω (ridge Ω + lam I)⁻¹: both penalties are ½ tr(W A⁻¹ Wᵀ).
                return coupling.map_eigenvalues(
                    covariance, lambda values: values / (ridge * values + lam)
                )

            return coupling.Alternation(
                couple(np.eye(m) / m), lambda W: couple(relationship_step(W))
            )
        if problem.lam == 0:
            return solvers.default_method(problem)
        return solvers.Fista(restart=True)

    def _rules(self, method: solvers.Method) -> list[solvers.StopRule]:
        return coupling.stop_rules(method, self.tol, self.max_iter)

    def _suggest(self, bound: base.Fit, n: int) -> list[base.Settings]:
        largest = 10.0 * (self._problem(bound).lam_max or 1.0)
        # A square grid of five decades; lam is followed along paths, ridge is not.
        ridges = coupling.decades(largest, 5.0, max(1, math.isqrt(n)))
        lams = coupling.decades(largest, 5.0, n // len(ridges))
        return list(base.crossed([{"ridge": ridge} for ridge in ridges], "lam", lams))


def task_covariance(W: Array) -> Array:
    """(WᵀW)^½ over its trace, by singular values; I/m where W is zero."""
    total = float(np.linalg.svd(W, compute_uv=False).sum())
    if total == 0:
        return np.eye(W.shape[1]) / W.shape[1]
    return coupling.kernel_from(W, lambda values: values / total)


def relationship_step(W: Array) -> Array:
    """Ω of the alternation, slightly blurred towards the identity."""
    # Where Ω vanishes, W would stay zero in all later steps.
    m = W.shape[1]
    square = W.T @ W
    scale = float(np.trace(square)) / m
    if scale == 0:
        return np.eye(m) / m
    root = coupling.map_eigenvalues(
        square, lambda values: np.sqrt(values + 1e-6 * scale)
    )
    return root / np.trace(root)


class MTRL(RegressionTasks, _MTRL):
    """Task relationship learning: coefficients and the covariance of the tasks.

    Minimises over coefficients W (features × tasks), intercepts b and a covariance Ω
    of the tasks, with Ω ⪰ 0 and tr Ω = 1::

        1/2 Σ w (x w_i + b_i − y)² + ridge/2 ‖W‖² + lam/2 tr(W Ω⁻¹ Wᵀ)

    Whether tasks are related positively, negatively or not at all is learned. The
    published loss is a mean without the factor 1/2: use ``task_weight="mean"`` and half
    of the published strengths to get the same model.

    Parameters
    ----------
    lam : float, default=1.0
        Strength of the task covariance, λ2 in the paper.
    ridge : float, default=1.0
        Strength of the squared coefficients, λ1 in the paper.
    solver : {"fista", "alternating"}, default="fista"
        "fista" solves for the coefficients alone and reaches the optimum.
        "alternating" is the published algorithm, with at most 200 iterations; it can
        stop above the optimum where Ω becomes singular, and needs squared loss.
    fit_intercept, task_weight, standardize, tol, max_iter, task
        See :class:`DMTL`.

    Attributes
    ----------
    task_covariance_ : (m, m) array
        Ω, of trace one.
    coef_, intercept_, tasks_, objective_, dual_gap_, n_iter_
        See :class:`DMTL`.

    Examples
    --------
    >>> from priormtl.baselines import MTRL
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> model = MTRL(lam=2.0, ridge=0.1).fit(X, y, task=task)
    >>> model.task_covariance_.shape, round(float(model.task_covariance_.trace()), 6)
    ((4, 4), 1.0)
    """

    loss = "squared"


@dataclass(eq=False, repr=False)
class MTRLClassifier(ClassificationTasks, _MTRL):
    """Task relationship learning, for two classes per task.

    ``loss`` on classes coded −1 and +1 is "logistic", the default, or "squared"; other
    parameters and attributes are those of :class:`MTRL`.
    """

    _: KW_ONLY
    loss: str = "logistic"
