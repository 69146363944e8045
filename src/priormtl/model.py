"""Model: what is fitted, as a value; Solver: how it is solved.

A model is described and checked once, before any data::

    ½ Σ w (x p_i + b_i − y)² + lam Σ_j w_j ‖p^j‖ + theta/2 ‖D P‖² + epsilon/2 tr(P L Pᵀ)

(or logistic loss, or the nuclear norm). ``pose`` turns it into a problem about data:
features are standardised, names in priors resolved, and ties between tasks estimated
where they are to be. Estimators, searches, paths, traces and audits all pose models and
hand the problems to a solver.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.sparse import issparse

from priormtl._arrays import Array
from priormtl.checks import (
    check_choice,
    check_count,
    check_fit_intercept,
    check_row_weights,
    check_strength,
    check_ties,
    check_tolerance,
)
from priormtl.data import (
    Moments,
    TaskData,
    TaskStatistics,
    centre_samples,
    condense,
    pooled_means,
    pooled_scale,
)
from priormtl.losses import (
    DataFit,
    FreeIntercepts,
    Intercepts,
    Logistic,
    NoIntercepts,
    Squared,
    SquaredFit,
    TiedIntercepts,
)
from priormtl.penalties import L21, Nuclear
from priormtl.priors import (
    FeaturePrior,
    TaskPrior,
    as_feature_prior,
    as_task_prior,
    difference_matrix,
    laplacian,
)
from priormtl.problem import Certificate, Problem, QuadraticPrior
from priormtl.reml import estimate_logistic_ties, estimate_ties
from priormtl.solvers import (
    METHODS,
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

__all__ = ["Model", "Posed", "Solver"]

LOSSES = ("logistic", "squared")
PENALTIES = ("l21", "nuclear")
SOLVERS = ("auto", *METHODS)
HIDDEN = 1e-10  # share of the null objective that rounding errors may hide
MOST_IDLE_STEPS = 30  # of a method that should close the gap in a few


@dataclass(frozen=True, eq=False)
class Model:
    """Loss, penalty, priors, intercepts and strengths, before any data."""

    lam: float = 1.0
    theta: float = 1.0
    epsilon: float = 1.0
    loss: str = "squared"
    penalty: str = "l21"
    feature_prior: FeaturePrior | None = None
    task_prior: TaskPrior | None = None
    fit_intercept: bool | str = True
    intercept_strength: float = 1.0
    feature_weights: Any = None  # (d,) multiply lam; None: all one
    ties: Any = "uniform"  # or (d,) weights that multiply epsilon, or "adaptive"
    standardize: bool = False
    allows_absent_tasks: bool = False  # whether the task prior may name tasks not seen

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {
            name: check_strength(name, getattr(self, name))
            for name in ("lam", "theta", "epsilon", "intercept_strength")
        }
        check_choice("loss", self.loss, LOSSES)
        check_choice("penalty", self.penalty, PENALTIES)
        checked["fit_intercept"] = check_fit_intercept(self.fit_intercept)
        if self.fit_intercept == "tied" and self.task_prior is None:
            raise ValueError(
                'task_prior must not be None with fit_intercept="tied": it says which '
                'tasks are tied. Use "mean" for unordered tasks, or fit_intercept=True '
                "for free intercepts."
            )
        if self.penalty == "nuclear" and self.feature_weights is not None:
            raise ValueError(
                'feature_weights must be None with penalty="nuclear", which does not '
                'see single features. Use penalty="l21".'
            )
        checked["feature_prior"] = as_feature_prior(self.feature_prior)
        checked["task_prior"] = as_task_prior(self.task_prior)
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def pose(self, data: TaskData | TaskStatistics) -> "Posed":
        """Problem about these data in scaled units, with the way back to the user's."""
        d = data.shape[0]
        weights = check_row_weights(
            "feature_weights", self.feature_weights, d, zero=False
        )
        moments, source = self._sources(data)
        scale, centre = np.ones(d), None
        if self.standardize:
            scale = pooled_scale(moments)
            # Ties of intercepts must not depend on where features have their zero.
            if self.fit_intercept == "tied":
                centre = pooled_means(moments) / scale
        source = _standardise(source, self.standardize, scale, centre)
        prior = self.task_prior
        if prior is not None and self.allows_absent_tasks:
            prior = prior.restrict(data.tasks)
        graph = laplacian(prior, data.tasks)
        ties, intercept_strength = self._tie_strengths(source, graph, d)
        resolved = self.feature_prior and self.feature_prior.resolve(moments)
        quadratic = QuadraticPrior(
            difference_matrix(resolved or FeaturePrior(()), moments),
            graph,
            self.theta,
            self.epsilon,
            None if np.all(ties == 1.0) else ties,
        )
        intercepts = self._intercepts(graph, intercept_strength)
        fit = self._loss.bind(source, intercepts, centre)
        penalty = Nuclear() if self.penalty == "nuclear" else L21(weights)
        problem = Problem(fit, quadratic, penalty, self.lam)
        return Posed(
            self, problem, moments, scale, centre, resolved, ties, intercept_strength
        )

    @property
    def _loss(self) -> Logistic | Squared:
        return Logistic() if self.loss == "logistic" else Squared()

    def _sources(self, data: TaskData | TaskStatistics) -> tuple[Moments, Any]:
        """Moments, for priors and scales, and what the loss is evaluated on."""
        if self.loss == "logistic" and isinstance(data, TaskData):
            return centre_samples(data), data
        moments = condense(data)
        return moments, moments

    def _intercepts(self, graph: Any, strength: float) -> Intercepts:
        if self.fit_intercept == "tied":
            return TiedIntercepts(graph, strength)
        return FreeIntercepts() if self.fit_intercept else NoIntercepts()

    def _tie_strengths(self, source: Any, graph: Any, d: int) -> tuple[Array, float]:
        """Weights of ties (d,) and the strength of tied intercepts."""
        weights = check_ties(self.ties, d)
        if not isinstance(weights, str):
            ones = np.ones(d) if weights is None else weights
            return ones, self.intercept_strength
        kind = self._intercepts(graph, 1.0)
        if self.loss == "logistic":
            found = estimate_logistic_ties(Logistic().bind(source, kind), graph)
        else:
            found = estimate_ties(source, graph, kind)
        relative = 1.0 if found.intercept is None else found.intercept
        return found.weights, self.intercept_strength * relative


class Posed(NamedTuple):
    """A model about data: the problem, and what is needed to go back from it."""

    model: Model
    problem: Problem
    moments: Moments
    scale: Array  # (d,) what features were divided by
    centre: Array | None  # (d,) what was subtracted then
    feature_prior: FeaturePrior | None  # with names resolved
    tie_weights: Array  # (d,) multiply epsilon
    intercept_strength: float
    outlier_strength: float = np.inf

    def at(self, lam: float, theta: float, epsilon: float) -> Self:
        """Same data and structure at other strengths."""
        problem = self.problem.with_strengths(lam=lam, theta=theta, epsilon=epsilon)
        return self._replace(problem=problem)

    def user_coef(self, P: Array) -> Array:
        """Coefficients (m, d) in the units of the user's features."""
        return np.ascontiguousarray((P / self.scale[:, np.newaxis]).T)

    def bind(self, data: TaskData | TaskStatistics) -> DataFit[Any]:
        """Loss of other data of the same tasks, in the same units."""
        model = self.model
        _, source = model._sources(data)
        source = _standardise(source, model.standardize, self.scale, self.centre)
        graph = self.problem.prior.laplacian
        intercepts = model._intercepts(graph, self.intercept_strength)
        return model._loss.bind(source, intercepts, self.centre)

    def on_samples(self, data: TaskData | TaskStatistics) -> Self | None:
        """The same on samples instead of Gram matrices; None if that is no change."""
        fit = self.problem.fit
        if not isinstance(data, TaskData) or issparse(data.X) or fit.rows_per_task:
            return None
        samples = centre_samples(data)
        samples = _standardise(samples, self.model.standardize, self.scale, self.centre)
        fit = replace(fit, moments=samples)  # type: ignore[type-var]
        return self._replace(problem=replace(self.problem, fit=fit, memo={}))


def _standardise(source: Any, scales: bool, scale: Array, centre: Array | None) -> Any:
    scaled = source.rescale(scale) if scales else source
    return scaled if centre is None else scaled.shift(centre)


@dataclass(frozen=True)
class Solver:
    """Method, tolerance and limit of iterations."""

    method: str = "auto"
    tol: float = 1e-6
    max_iter: int = 10_000

    def __post_init__(self) -> None:
        check_choice("solver", self.method, SOLVERS)
        check_tolerance(self.tol)
        check_count("max_iter", self.max_iter)

    def choose(self, problem: Problem) -> Method[Any]:
        """Method for a problem."""
        return method_by_name(self.method, problem)

    def rules(self, method: Method[Any]) -> list[StopRule]:
        """When to stop; new for each run, because some rules have a memory."""
        rules = [gap_below(self.tol, method.check_every), stalled(), diverged()]
        if method.check_every == 1:
            rules.append(no_progress(MOST_IDLE_STEPS))
        return [*rules, max_iter(self.max_iter)]

    def solve(self, problem: Problem, coef: Array | None = None) -> Solution:
        """Solve a problem, from ``coef`` or zero."""
        method = self.choose(problem)
        return solve(problem, method, coef=coef, stop=self.rules(method))

    def path(self, problem: Problem, lams: Array) -> list[Solution]:
        """Solve for each lam, in this order, each from the last solution."""
        return solve_path(problem, lams, choose=self.choose, rules=self.rules)

    def accepts(self, problem: Problem, certificate: Certificate) -> bool:
        """Whether a gap is within the tolerance, or as small as rounding allows.

        Tolerances that rounding errors put out of reach count as met once these hide
        what is left, as long as that is next to nothing.
        """
        unit = problem.null_objective
        hidden = certificate.gap <= 2.0 * certificate.rounding <= 2.0 * HIDDEN * unit
        return hidden or certificate.gap <= max(self.tol * unit, problem.fit.noise)

    def fit(
        self,
        posed: Posed,
        data: TaskData | TaskStatistics,
        coef: Array | None = None,
    ) -> tuple[Posed, Solution]:
        """Solve a posed model; where moments do not tell how well, on the samples."""
        found = self.solve(posed.problem, coef)
        problem = posed.problem
        accepted = self.accepts(problem, found.certificate)
        if (accepted and not problem.is_uncertain) or (
            found.reason is StopReason.MAX_ITER
        ):
            return posed, found
        if not isinstance(problem.fit, SquaredFit) or posed.model.penalty != "l21":
            return posed, found
        closer = posed.on_samples(data)
        if closer is None and (accepted or problem.lam == 0):
            return posed, found
        return self._solve_closer(closer or posed, found)

    def _solve_closer(self, posed: Posed, known: Solution) -> tuple[Posed, Solution]:
        """Solve again, and combine what the certificates of both runs say.

        Without a penalty from zero; with one that is tiny from the optimum without.
        """
        problem, coef = posed.problem, None
        if problem.lam > 0:
            smooth, method = problem.with_strengths(lam=0.0), Newton()
            coef = solve(smooth, method, stop=self.rules(method)).coef
        found = self.solve(problem, coef)
        before = settle(problem, problem.at(known.coef), [max_iter(0)])
        assert before is not None
        best = min(before, found, key=lambda solution: solution.certificate.primal)
        # Better coefficients that are so large that rounding hides how much are none.
        limit = max(self.tol * problem.null_objective, problem.fit.noise)
        if found.certificate.rounding > limit:
            best = before
        dual = max(before.certificate.dual, found.certificate.dual)
        certificate = best.certificate._replace(dual=dual)
        accepted = self.accepts(problem, certificate)
        reason = StopReason.GAP if accepted else found.reason
        if not accepted and best is before and reason is StopReason.ROUNDING:
            reason = StopReason.STALLED  # its gap is far above rounding errors
        return posed, replace(best, certificate=certificate, reason=reason)
