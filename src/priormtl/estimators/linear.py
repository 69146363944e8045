"""LinearMultiTask: the paper's model, built from settings, solved, certified."""

import warnings
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from priormtl._arrays import Array, Index, Matrix
from priormtl.data import (
    Moments,
    TaskData,
    TaskStatistics,
    centre_samples,
    condense,
    pooled_scale,
)
from priormtl.estimators.base import MultiTaskEstimator, score_by_task
from priormtl.estimators.coefficients import build_coef_frame, feature_names
from priormtl.estimators.outliers import (
    check_outlier_strength,
    check_outlier_tasks,
    publish_parts,
)
from priormtl.estimators.settings import (
    PENALTIES,
    SOLVERS,
    check_choice,
    check_count,
    check_fit_intercept,
    check_row_weights,
    check_strength,
    check_tie_weights,
    check_tolerance,
)
from priormtl.estimators.summarizing import summarize_model
from priormtl.estimators.summary import ModelSummary
from priormtl.estimators.summary_tables import summary_tables
from priormtl.estimators.unseen import UNSEEN, Loans, place_rows
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
from priormtl.selection import (
    Solver,
    column_pulls,
    estimate_logistic_ties,
    estimate_ties,
    pose_outliers,
    solve_outliers,
    suggest_strength,
)
from priormtl.solvers import (
    Method,
    Solution,
    StopReason,
    StopRule,
    diverged,
    gap_below,
    max_iter,
    method_by_name,
    no_progress,
    solve,
    solve_path,
    stalled,
)
from priormtl.tables import to_notebook

__all__ = ["LinearMultiTask", "LinearPredictions", "Setup", "task_array"]

MOST_IDLE_STEPS = 30  # of a method that should close the gap in a few


class Setup(NamedTuple):
    """A problem as the settings and the data make it."""

    problem: Problem
    moments: Moments
    scale: Array  # (d,) what features were divided by
    feature_prior: FeaturePrior | None  # resolved
    strengths: "TieStrengths"
    outlier_strength: float = np.inf


class TieStrengths(NamedTuple):
    """How strongly tasks are tied, after all estimates."""

    weights: Array  # (d,) multiply epsilon
    intercept: float  # of tied intercepts


class LinearPredictions(MultiTaskEstimator):
    """What fitted linear models of many tasks share: how they score rows."""

    coef_: Array
    intercept_: Array
    tie_weights_: Array
    intercept_strength_: float
    objective_: float
    dual_gap_: float
    n_iter_: int
    feature_prior_: FeaturePrior | None
    task_weight_: Array
    feature_scale_: Array
    fit_intercept: bool | str
    unseen_tasks: str

    def coef_frame(self, *, wide: bool = False) -> Any:
        """Coefficients and intercepts with their names, as a data frame.

        Parameters
        ----------
        wide : bool
            False: one row per task and feature, with columns task, feature and
            coefficient, where intercepts are those of the feature "(intercept)".
            True: one row per task, with one column per feature.

        Returns
        -------
        data frame
            Of the library of the frame that was fitted, else of pandas, polars or
            pyarrow, whichever is installed. Features without names are x0, x1, …

        Examples
        --------
        >>> from priormtl import MultiTaskRegressor
        >>> model = MultiTaskRegressor(0.0).fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
        >>> model.coef_frame().round(3)
           task      feature  coefficient
        0     0  (intercept)          1.0
        1     0           x0          2.0
        """
        check_is_fitted(self)
        return build_coef_frame(self, wide=wide)

    def summary(self) -> ModelSummary:
        """What was learned, as data, text, HTML, LaTeX, Markdown and data frames."""
        check_is_fitted(self)
        return summarize_model(self)

    def _repr_html_inner(self) -> str:
        return str(super()._repr_html_inner()) + self._learned_html()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += self._learned_html()
        return bundle

    def _learned_html(self) -> str:
        """What stands beneath scikit-learn's diagram."""
        if not hasattr(self, "objective_"):
            return ""
        tables = summary_tables(self.summary())
        if self.feature_prior_ is not None:
            tables.append(self.feature_prior_.table(feature_names(self)))
        shown = to_notebook(tables)
        return f"<details><summary>What was learned</summary>{shown}</details>"

    def _row_scores(self, X: Matrix, labels: Any) -> tuple[Array, Index]:
        """Scores of rows; the task of each is that of a lender where it is unseen."""
        if labels is None:
            return super()._row_scores(X, labels)
        behaviour = check_choice("unseen_tasks", self.unseen_tasks, UNSEEN)
        rows = place_rows(self, behaviour, labels, X.shape[0])
        m, loans = len(self.tasks_), rows.loans
        if loans is None:
            return score_by_task(X, rows.codes, self._task_scores), rows.codes
        self._check_loans(loans)
        coef, intercept = loans.coef(self), loans.intercept(self)

        def score(part: Matrix, i: int) -> Array:
            if i < m:
                return self._task_scores(part, i)
            return np.asarray(part @ coef[i - m] + intercept[i - m])

        return score_by_task(X, rows.codes, score), rows.known(m)

    def _check_loans(self, loans: Loans) -> None:
        """Fail if models that are lent together do not mean the same."""

    def _task_scores(self, X: Matrix, i: int) -> Array:
        return np.asarray(X @ self.coef_[i] + self.intercept_[i])

    def _adopt_features(self, statistics: TaskStatistics) -> None:
        """Expect the features of statistics from now on."""
        self._frame_library = None
        self.n_features_in_ = statistics.shape[0]
        if statistics.features is None:
            self.__dict__.pop("feature_names_in_", None)
        else:
            self.feature_names_in_ = np.array(statistics.features, dtype=object)
        encoding = statistics.encoding
        self._adopt_encoding(
            None if encoding is None else encoding.with_means(statistics.pooled_means())
        )


class LinearMultiTask(LinearPredictions):
    """Linear models of many tasks with one common set of features and priors."""

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

    def _fit_tasks(self, data: TaskData | TaskStatistics) -> None:
        self._solver_settings()
        self._fit_setup(data, self._set_up(data))

    def _fit_setup(self, data: TaskData | TaskStatistics, setup: Setup) -> None:
        """Solve the problem that was set up for this data."""
        posed, solution = self._solve_setup(setup, self._warm_coef(data, setup.scale))
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
        gamma = self.outlier_strength
        if gamma is None:
            gamma = suggest_strength(column_pulls(setup.problem, plain.point))
        gamma = check_outlier_strength("outlier_strength", gamma)
        problem = pose_outliers(setup.problem, gamma)
        solver = Solver(self._choose_method, self._rules, self.tol)
        solution = solve_outliers(problem, plain, solver)
        return setup._replace(problem=problem, outlier_strength=gamma), solution

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

    def _set_up(self, data: TaskData | TaskStatistics) -> Setup:
        """Problem that the settings describe for this data."""
        moments, source = self._sources(data)
        scale = self._scale(moments)
        fit_data = source.rescale(scale) if self.standardize else source
        ties = laplacian(self._tie_prior(data.tasks), data.tasks)
        prior = as_feature_prior(self.feature_prior)
        resolved = None if prior is None else prior.resolve(moments)
        strengths = self._tie_strengths(fit_data, ties)
        problem = Problem(
            self._loss.bind(fit_data, self._intercepts(ties, strengths.intercept)),
            self._quadratic_prior(resolved, ties, moments, strengths.weights),
            self._penalty(data.shape[0]),
            check_strength("lam", self.lam),
        )
        return Setup(problem, moments, scale, resolved, strengths)

    def _bind(self, data: TaskData | TaskStatistics, setup: Setup) -> DataFit[Any]:
        """Loss of other data of the same tasks, under a set-up that is known."""
        _, source = self._sources(data)
        kind = self._intercepts(
            setup.problem.prior.laplacian, setup.strengths.intercept
        )
        return self._loss.bind(
            source.rescale(setup.scale) if self.standardize else source, kind
        )

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
                'tasks are tied; use "mean" for unordered tasks.'
            )
        return TiedIntercepts(ties, strength)

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
        if gap <= self.tol * unit or solution.reason is StopReason.ROUNDING:
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
