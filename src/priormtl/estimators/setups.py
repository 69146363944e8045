"""LinearSettings: settings of the paper's model, and the problem they make of data."""

from typing import Any, NamedTuple

import numpy as np

from priormtl._arrays import Array
from priormtl.checks import (
    PENALTIES,
    check_choice,
    check_fit_intercept,
    check_row_weights,
    check_strength,
    check_tie_weights,
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
from priormtl.estimators.predictions import LinearPredictions
from priormtl.estimators.unseen import UNSEEN
from priormtl.graphs import Laplacian
from priormtl.losses import (
    DataFit,
    FreeIntercepts,
    Intercepts,
    Logistic,
    NoIntercepts,
    Squared,
    TiedIntercepts,
)
from priormtl.penalties import L21, Nuclear, Penalty
from priormtl.priors import (
    FeaturePrior,
    QuadraticPrior,
    TaskPrior,
    as_feature_prior,
    as_task_prior,
    difference_matrix,
    laplacian,
)
from priormtl.problem import Problem
from priormtl.selection import estimate_logistic_ties, estimate_ties

__all__ = ["LinearSettings", "Setup"]


class Setup(NamedTuple):
    """A problem as the settings and the data make it."""

    problem: Problem
    moments: Moments
    scale: Array  # (d,) what features were divided by
    centre: Array | None  # (d,) what was taken off them then, for tied intercepts
    feature_prior: FeaturePrior | None  # resolved
    strengths: "TieStrengths"
    outlier_strength: float = np.inf


class TieStrengths(NamedTuple):
    """How strongly tasks are tied, after all estimates."""

    weights: Array  # (d,) multiply epsilon
    intercept: float  # of tied intercepts


class LinearSettings(LinearPredictions):
    """What is known before the fit: strengths, priors, penalty, intercepts."""

    def __init__(
        self,
        lam: float = 1.0,
        theta: float = 1.0,
        epsilon: float = 1.0,
        *,
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
        warm_start: bool = False,
        task: Any = None,
        unseen_tasks: str = "error",
        outlier_tasks: bool = False,
        outlier_strength: float | None = None,
    ) -> None:
        self.lam = lam
        self.theta = theta
        self.epsilon = epsilon
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
        self.warm_start = warm_start
        self.task = task
        self.unseen_tasks = unseen_tasks
        self.outlier_tasks = outlier_tasks
        self.outlier_strength = outlier_strength

    @property
    def _uses_logistic(self) -> bool:
        """Whether samples, not moments, are fitted."""
        return False

    def _set_up(self, data: TaskData | TaskStatistics) -> Setup:
        """Problem that the settings describe for this data."""
        moments, source = self._sources(data)
        scale, centre = self._scale(moments), self._centre(moments)
        fit_data = self._standardized(source, scale, centre)
        ties = laplacian(self._tie_prior(data.tasks), data.tasks)
        prior = as_feature_prior(self.feature_prior)
        resolved = None if prior is None else prior.resolve(moments)
        strengths = self._tie_strengths(fit_data, ties)
        problem = Problem(
            self._loss.bind(
                fit_data, self._intercepts(ties, strengths.intercept), centre
            ),
            self._quadratic_prior(resolved, ties, moments, strengths.weights),
            self._penalty(data.shape[0]),
            check_strength("lam", self.lam),
        )
        return Setup(problem, moments, scale, centre, resolved, strengths)

    def _bind(self, data: TaskData | TaskStatistics, setup: Setup) -> DataFit[Any]:
        """Loss of other data of the same tasks, under a set-up that is known."""
        _, source = self._sources(data)
        kind = self._intercepts(
            setup.problem.prior.laplacian, setup.strengths.intercept
        )
        source = self._standardized(source, setup.scale, setup.centre)
        return self._loss.bind(source, kind, setup.centre)

    def _tie_prior(self, tasks: tuple[Any, ...]) -> TaskPrior | None:
        """Task prior; where tasks without rows are welcome, it may name some."""
        prior = as_task_prior(self.task_prior)
        behaviour = check_choice("unseen_tasks", self.unseen_tasks, UNSEEN)
        if prior is None or behaviour != "nearest":
            return prior
        return prior.restrict(tasks)

    @property
    def _loss(self) -> Logistic | Squared:
        return Logistic() if self._uses_logistic else Squared()

    def _sources(self, data: TaskData | TaskStatistics) -> tuple[Moments, Any]:
        """Moments, for priors and scales, and what the loss is counted on."""
        if self._uses_logistic and isinstance(data, TaskData):
            return centre_samples(data), data
        moments = condense(data)
        return moments, moments

    def _scale(self, moments: Moments) -> Array:
        return pooled_scale(moments) if self.standardize else np.ones(moments.shape[0])

    def _centre(self, moments: Moments) -> Array | None:
        """Pooled means of scaled features, about which intercepts are tied."""
        if not self.standardize or self.fit_intercept != "tied":
            return None
        return pooled_means(moments) / self._scale(moments)

    def _standardized(self, source: Any, scale: Array, centre: Array | None) -> Any:
        scaled = source.rescale(scale) if self.standardize else source
        return scaled if centre is None else scaled.shift(centre)

    def _tie_strengths(self, data: Any, ties: Laplacian) -> TieStrengths:
        """Weights as given or, on data as the loss sees them, estimated."""
        d = data.shape[0]
        weights = check_tie_weights(self.tie_weights, d)
        strength = check_strength("intercept_strength", self.intercept_strength)
        if weights is None:
            return TieStrengths(np.ones(d), strength)
        if not isinstance(weights, str):
            return TieStrengths(weights, strength)
        kind = self._intercepts(ties, 1.0)
        if self._uses_logistic:
            found = estimate_logistic_ties(Logistic().bind(data, kind), ties)
        else:
            found = estimate_ties(data, ties, kind)
        relative = 1.0 if found.intercept is None else found.intercept
        return TieStrengths(found.weights, strength * relative)

    def _quadratic_prior(
        self,
        prior: FeaturePrior | None,
        ties: Laplacian,
        moments: Moments,
        tie_weights: Array,
    ) -> QuadraticPrior:
        return QuadraticPrior(
            difference_matrix(prior or FeaturePrior(()), moments),
            ties,
            check_strength("theta", self.theta),
            check_strength("epsilon", self.epsilon),
            None if np.all(tie_weights == 1.0) else tie_weights,
        )

    def _penalty(self, d: int) -> Penalty:
        name = check_choice("penalty", self.penalty, PENALTIES)
        weights = check_row_weights(
            "feature_weights", self.feature_weights, d, zero=False
        )
        if name == "l21":
            return L21(weights)
        if weights is not None:
            raise ValueError(
                'feature_weights must be None with penalty="nuclear", which does not '
                'see single features; use penalty="l21".'
            )
        return Nuclear()

    def _intercepts(self, ties: Laplacian, strength: float) -> Intercepts:
        kind = check_fit_intercept(self.fit_intercept)
        if kind is False:
            return NoIntercepts()
        if kind is True:
            return FreeIntercepts()
        if self.task_prior is None:
            raise ValueError(
                'task_prior must not be None with fit_intercept="tied": it says which '
                'tasks are tied; use "mean" for unordered tasks, or fit_intercept=True '
                "for intercepts that are free."
            )
        return TiedIntercepts(ties, strength)
