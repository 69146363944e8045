"""LinearMultiTask: what all our linear estimators share.

``fit`` reads the data, poses the model that the parameters describe, solves it and
publishes the result; see ``priormtl.model``. Both the estimators with given strengths
and those that search for them derive from this class.
"""

import warnings
from contextlib import suppress
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from priormtl._arrays import Array, Index, Matrix
from priormtl.checks import check_choice, check_outlier_strength
from priormtl.data import (
    Moments,
    Table,
    TaskData,
    TaskStatistics,
    build_frame,
    find_frame_library,
    pooled_means,
    pooled_variance,
    refuse_crossed,
    unnamed_feature,
)
from priormtl.estimators.base import (
    MultiTaskEstimator,
    chosen,
    score_by_task,
)
from priormtl.estimators.summary import (
    ModelSummary,
    feature_names,
    plain_labels,
    pooled_target_variance,
    summarize_model,
    summary_tables,
)
from priormtl.estimators.uncertainty import (
    MOST_STEPS,
    Covariances,
    StandardErrors,
    covariances,
    task_errors,
)
from priormtl.estimators.unseen import UNSEEN, Averages, RowTasks, place_rows
from priormtl.model import Model, Posed, Solver
from priormtl.priors import FeaturePrior, given_prior
from priormtl.selection import fit_outlier_path, fit_outliers
from priormtl.solvers import Solution, StopReason
from priormtl.tables import to_notebook

__all__ = [
    "DEVIATIONS",
    "INTERCEPT",
    "LinearMultiTask",
    "check_outlier_tasks",
    "check_own_strength",
    "own_strength",
    "task_array",
    "warn_unless_converged",
]

INTERCEPT = "(intercept)"
FAR = 5.0  # deviations from zero of the mean of a feature
ROUNDING = 1e-14  # of a mean: smaller deviations are those of a constant
# Parameters that describe a model.
DESCRIBED = (
    "lam",
    "theta",
    "epsilon",
    "loss",
    "penalty",
    "feature_prior",
    "task_prior",
    "fit_intercept",
    "intercept_strength",
    "feature_weights",
    "ties",
    "standardize",
    "device",
)
# Standard deviations that REML estimates.
DEVIATIONS = ("task_sd_", "intercept_sd_", "noise_sd_")
# Attributes that not every fit has.
SOMETIMES = (
    "intercept_strength_",
    "statistics_",
    "shared_coef_",
    "own_coef_",
    "outlier_tasks_",
    "outlier_strength_",
    "between_",
    "calibration_",
    "_saved_errors",
    "reliability_",
    "data_name_",
    "_target_variance",
    *DEVIATIONS,
)


class LinearMultiTask(MultiTaskEstimator):
    """Linear models of many tasks: parameters, fit, predictions and display."""

    coef_: Array
    intercept_: Array
    tie_weights_: Array
    intercept_strength: float | str
    intercept_strength_: float
    between_: tuple[float, ...]
    structure_: dict[str, Any]
    objective_: float
    dual_gap_: float
    n_iter_: int
    feature_prior_: FeaturePrior | None
    task_weight_: Array
    task_effect_: Array
    feature_scale_: Array
    task_sd_: Array
    intercept_sd_: float
    noise_sd_: float
    _weight_unit = 1.0  # mean weight of the rows; statistics count rows by weights

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
        ties: Any = "uniform",
        standardize: bool = False,
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int = 10_000,
        warm_start: bool = False,
        task: Any = None,
        unseen_tasks: str = "error",
        outlier_tasks: bool = False,
        outlier_strength: float | None = None,
        device: Any = None,
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
        self.ties = ties
        self.standardize = standardize
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.task = task
        self.unseen_tasks = unseen_tasks
        self.outlier_tasks = outlier_tasks
        self.outlier_strength = outlier_strength
        self.device = device

    @property
    def _uses_logistic(self) -> bool:
        return False

    def _model(self, **settings: Any) -> Model:
        """What the parameters describe; ``settings`` replace some of them."""
        given = {name: getattr(self, name) for name in DESCRIBED if hasattr(self, name)}
        given["task_prior"] = given_prior(self)
        absent = self.unseen_tasks == "nearest"
        if self.device is not None and self.outlier_tasks:
            raise ValueError(
                f"device must be None with outlier_tasks=True: got {self.device!r}."
            )
        given |= {"allows_absent_tasks": absent, "weight_unit": self._weight_unit}
        model = Model(**{**given, **settings})
        if self.unseen_tasks not in UNSEEN:
            check_choice("unseen_tasks", self.unseen_tasks, UNSEEN)
        return model

    def _read_table(
        self, X: Any, y: Any, task: Any, sample_weight: Any, *, reset: bool
    ) -> Table:
        table = super()._read_table(X, y, task, sample_weight, reset=reset)
        self._weight_unit = table.mean_weight()
        if table.codes is not None and reset:
            refuse_crossed(table.tasks, np.bincount(table.codes), self.task)
        return table

    def _solver(self) -> Solver:
        return Solver(self.solver, self.tol, self.max_iter)

    def _fit_tasks(self, data: TaskData | TaskStatistics) -> None:
        posed, solution = self._solve(None, data)
        self._publish(data, posed, solution, bool(self.outlier_tasks))

    def _solve_path(self, posed: Posed, lams: Array) -> list[Solution]:
        """Solve for each lam, in this order."""
        if not check_outlier_tasks(self.outlier_tasks):
            return self._solver().path(posed.problem, lams)
        strength = self._checked_strength(posed.problem.shape[1])
        return fit_outlier_path(posed, lams, self._solver(), strength)

    def _solve(
        self,
        posed: Posed | None,
        data: TaskData | TaskStatistics,
        start: Array | None = None,
    ) -> tuple[Posed, Solution]:
        """Solve a model, with task-specific components if wanted; pose it if needed."""
        has_outliers = check_outlier_tasks(self.outlier_tasks)
        if posed is None:
            model, solver = self._model(), self._solver()  # all parameters are checked
            posed = model.pose(data)
            start = self._warm_coef(data, posed.scale) if self.warm_start else None
        else:
            solver = self._solver()
        posed, solution = posed.fit(solver, data, start)
        if has_outliers:
            strength = self._checked_strength(posed.problem.shape[1])
            posed, solution = fit_outliers(posed, solution, solver, strength)
        warn_unless_converged(solution, posed, solver)
        return posed, solution

    def _checked_strength(self, m: int) -> float | Array | None:
        given = self.outlier_strength
        return None if given is None else check_own_strength(given, m)

    def _warm_coef(self, data: TaskData | TaskStatistics, scale: Array) -> Array | None:
        """Coefficients of the last fit, if it had the same tasks and features."""
        known = getattr(self, "shared_coef_", getattr(self, "coef_", None))
        if (
            known is None
            or known.shape[::-1] != data.shape
            or self.tasks_.tolist() != list(data.tasks)
        ):
            return None
        return np.ascontiguousarray(known.T * scale[:, np.newaxis])

    def _publish(
        self,
        data: TaskData | TaskStatistics,
        posed: Posed,
        solution: Solution,
        has_outliers: bool,
    ) -> None:
        for name in SOMETIMES:
            self.__dict__.pop(name, None)
        scale = posed.scale[:, np.newaxis]
        total = solution.point.total if has_outliers else solution.coef
        self.coef_ = np.ascontiguousarray((total / scale).T)
        self.intercept_ = solution.intercept
        self.tasks_ = task_array(data.tasks)
        self.objective_ = solution.certificate.primal
        self.dual_gap_ = solution.certificate.gap
        self.n_iter_ = solution.n_iter
        self.feature_prior_ = posed.feature_prior
        self.task_weight_ = np.array(posed.moments.weight)
        levels = self.coef_ @ pooled_means(posed.moments) + self.intercept_
        self.task_effect_ = levels - levels.mean()
        used = np.isfinite(posed.scale)
        self.feature_scale_ = np.where(used, posed.scale, 1.0)
        self.tie_weights_ = posed.tie_weights
        if posed.model.fit_intercept == "tied":
            if not posed.model.standardize:
                warn_of_far_features(posed.moments)
            self.intercept_strength_ = posed.intercept_strength
        if posed.problem.prior.laplacian.between:
            self._adopt_between(posed.problem.prior.laplacian.between)
        self.__dict__.update(posed.deviations())
        for learned in (data, posed.moments):
            if isinstance(learned, TaskStatistics):
                self.statistics_ = learned
        if isinstance(self, RegressorMixin):
            self.task_r2_ = training_r2(posed.moments, self.coef_, self.intercept_)
            if not (has_outliers or hasattr(self, "statistics_")):
                self._keep_errors(posed, solution)
        if has_outliers:
            self.shared_coef_ = np.ascontiguousarray((solution.coef / scale).T)
            self.own_coef_ = self.coef_ - self.shared_coef_
            self.outlier_tasks_ = self.tasks_[self.own_coef_.any(axis=1)]
            self.outlier_strength_ = posed.outlier_strength

    def _keep_errors(self, posed: Posed, solution: Solution) -> None:
        """Standard errors of a fit to rows, which are not kept, if quickly found."""
        self._target_variance = pooled_target_variance(posed.moments)
        m, k = len(self.tasks_), int(self.coef_.any(axis=0).sum()) + 1
        if self.penalty != "l21" or m * k**3 > MOST_STEPS:
            return
        errors = task_errors(posed.moments, self.coef_, self.intercept_)
        with (
            suppress(ValueError, np.linalg.LinAlgError),  # too large, or singular
            np.errstate(all="ignore"),
        ):
            found = StandardErrors.of(covariances(posed, solution.coef, errors))
            if np.isfinite(found.coef).all():
                self._saved_errors = found

    def _adopt_between(self, between: tuple[float, ...]) -> None:
        """Publish how strongly groups of nested tasks are coupled, against tasks."""
        self.between_ = between
        if hasattr(self, "structure_"):
            self.structure_["between"] = between

    def _fit_statistics(self, statistics: TaskStatistics) -> Self:
        """Fit statistics as if their rows had been read."""
        self._weight_unit = 1.0
        refuse_crossed(statistics.tasks, statistics.weight, statistics.task_columns)
        self._adopt_features(statistics)
        self._fit_tasks(statistics)
        return self

    def coef_frame(self, *, wide: bool = False) -> Any:
        """Return coefficients and intercepts as a data frame.

        Parameters
        ----------
        wide : bool, default=False
            If False, one row per task and feature, with columns task, feature and
            coefficient; the intercept is listed as feature "(intercept)". If True, one
            row per task and one column per feature.

        Returns
        -------
        data frame
            A frame of the library used in ``fit``, if X was a data frame. Otherwise of
            pandas, polars or pyarrow, whichever is installed. Features without names
            are called x0, x1, and so on.

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

    def summary(self, level: float | None = None) -> ModelSummary:
        """Summarise the fitted model.

        Parameters
        ----------
        level : float, optional
            Confidence level, such as 0.95, of intervals of coefficients and of the
            effects of tasks. Needs a regressor with at least one selected feature;
            see Notes.

        Returns
        -------
        ModelSummary
            Summary that can be exported as data, text, HTML, LaTeX, Markdown or data
            frames.

        Notes
        -----
        At lam = 0, standard errors are those of a mixed model with the ties of the fit
        (conditional variances given the variance components). Otherwise they are those
        of a parametric bootstrap on the statistics, with 200 replicates: how much
        estimates vary with the noise, at the selected features. They do not include
        the bias of shrinkage.
        """
        check_is_fitted(self)
        found = None if level is None else self._errors(check_level(level))
        return summarize_model(self, found, level)

    def _errors(self, level: float, **limits: int) -> StandardErrors:
        """Standard errors, from the statistics of the fit or as they were saved."""
        saved: StandardErrors | None = getattr(self, "_saved_errors", None)
        return saved or StandardErrors.of(self._covariances(level, **limits))

    def _known_model(self) -> Model:
        """The model of the fit, with all that was estimated."""
        known = {
            "feature_prior": self.feature_prior_,
            "ties": self.tie_weights_,
            "intercept_strength": getattr(self, "intercept_strength_", 1.0),
        }
        return self._model(**known)

    def _covariances(self, level: float, **limits: int) -> Covariances:
        """Covariances of coefficients, from the statistics of the fit."""
        statistics = getattr(self, "statistics_", None)
        if statistics is None or not isinstance(self, RegressorMixin):
            raise ValueError(
                f"level={level:g} needs a regressor with selected features that is "
                "not too large: got a classifier, or a model without standard errors; "
                "use level=None."
            )
        if self.penalty != "l21":
            raise ValueError(
                f'level={level:g} needs penalty="l21": got {self.penalty!r}, whose '
                "curvature is not known feature by feature."
            )
        posed = self._known_model().pose(statistics)
        scale = np.where(np.isfinite(posed.scale), posed.scale, 1.0)
        shared = getattr(self, "shared_coef_", self.coef_)
        errors = task_errors(statistics, self.coef_, self.intercept_)
        return covariances(posed, shared.T * scale[:, np.newaxis], errors, **limits)

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
        """Scores of rows, and known tasks; see :meth:`RowTasks.known`."""
        rows = self._place_rows(X, labels)
        return self._score_placed(X, rows), rows.known(len(self.tasks_))

    def _place_rows(self, X: Matrix, labels: Any) -> RowTasks:
        """Task of each row, or the mean of tasks that stands for it."""
        if labels is None:
            return RowTasks(self._find_tasks(labels, X.shape[0]), None)
        behaviour = check_choice("unseen_tasks", self.unseen_tasks, UNSEEN)
        return place_rows(self, behaviour, labels, X.shape[0])

    def _score_placed(self, X: Matrix, rows: RowTasks) -> Array:
        m, averages = len(self.tasks_), rows.averages
        if averages is None:
            return score_by_task(X, rows.codes, self._task_scores)
        self._check_averages(averages)
        coef, intercept = averages.coef(self), averages.intercept(self)

        def score(part: Matrix, i: int) -> Array:
            if i < m:
                return self._task_scores(part, i)
            return np.asarray(part @ coef[i - m] + intercept[i - m])

        return score_by_task(X, rows.codes, score)

    def _check_averages(self, averages: Averages) -> None:
        """Fail if models that are averaged do not mean the same."""

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


def warn_of_far_features(moments: Moments) -> None:
    """Warn if intercepts are tied at features that no row is near to."""
    deviations = np.sqrt(pooled_variance(moments))
    means = np.abs(pooled_means(moments))
    far = np.flatnonzero((deviations > 1e-9 * means) & (means > FAR * deviations))
    if len(far):
        names = moments.features or tuple(map(unnamed_feature, range(len(means))))
        shown = ", ".join(repr(names[j]) for j in far[:4])
        warnings.warn(
            f'fit_intercept="tied" couples intercepts where all features are zero, and '
            f"{shown}{' and others' if len(far) > 4 else ''} are far from zero. Use "
            "standardize=True, which couples them at the mean.",
            UserWarning,
            stacklevel=6,
        )


def warn_unless_converged(solution: Solution, posed: Posed, solver: Solver) -> None:
    """Name the gap of a solution that did not reach the tolerance."""
    problem, by_gap = posed.problem, solution.reason is StopReason.GAP
    if by_gap or solver.accepts(problem, solution.certificate):
        return
    gap, unit = solution.certificate.gap, problem.null_objective
    share = gap / unit if unit else gap
    advice = "Raise max_iter"
    if solution.reason is not StopReason.MAX_ITER:
        advice = "Use standardize=True, or remove features that are near copies"
    warnings.warn(
        f"not converged, {solution.reason.value}: the duality gap is {gap:.3g}, "
        f"{share:.3g} of the objective at P = 0, above tol={solver.tol:g}, after "
        f"{solution.n_iter} iterations. {advice}.",
        ConvergenceWarning,
        stacklevel=5,
    )


def check_level(level: Any) -> float:
    """A confidence level between 0 and 1."""
    if not isinstance(level, float | np.floating) or not 0.0 < level < 1.0:
        raise ValueError(
            f"level must be a number between 0 and 1, such as 0.95: got {level!r}."
        )
    return float(level)


def task_array(tasks: tuple[Any, ...]) -> np.ndarray:
    """Task labels as a 1-D array, also where they are tuples."""
    for task in tasks:
        if isinstance(task, tuple):
            array = np.empty(len(tasks), dtype=object)
            array[:] = tasks
            return array
    return np.array(tasks)


def check_outlier_tasks(value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"outlier_tasks must be True or False: got {value!r}.")
    return bool(value)


def check_own_strength(value: Any, m: int) -> float | Array:
    """One strength, or one for each of m tasks."""
    if not isinstance(value, np.ndarray):
        return check_outlier_strength("outlier_strength", value)
    if value.shape != (m,):
        raise ValueError(
            "outlier_strength must be one number or an array with one for each of "
            f"{m} tasks: got an array of shape {value.shape}."
        )
    name = "every one of outlier_strength"
    return np.array([check_outlier_strength(name, one) for one in value.tolist()])


def own_strength(model: Any) -> float | Array:
    """Strength of task-specific components in a fit: one, or one for each task.

    Where the data have named outliers, it is infinite for all other tasks.
    """
    given = getattr(model, "outlier_strength", None)
    if given is not None:
        return check_own_strength(given, len(model.tasks_))
    if getattr(model, "outlier_strengths", None) is not None:
        return float(model.outlier_strength_)
    return np.where(model.own_coef_.any(axis=1), model.outlier_strength_, np.inf)


def build_coef_frame(model: Any, *, wide: bool) -> Any:
    """Coefficients and intercepts of a fitted model as a data frame."""
    names, tasks = feature_names(model), plain_labels(model.tasks_.tolist())
    columns = dict(zip(names, model.coef_.T, strict=True))
    if chosen(model, "fit_intercept") is not False:
        columns = {INTERCEPT: model.intercept_, **columns}
    library = getattr(model, "_frame_library", None) or find_frame_library(None)
    if not wide:  # one row per task and feature, task by task
        tidy = {
            "task": [task for task in tasks for _ in columns],
            "feature": list(columns) * len(tasks),
            "coefficient": np.column_stack(list(columns.values())).ravel(),
        }
        return build_frame(tidy, library)
    if "task" in columns:
        raise ValueError(
            "wide must be False where a feature is called 'task', which is the column "
            "of the tasks: got wide=True; rename the feature, or use the tidy layout."
        )
    return build_frame({"task": tasks} | columns, library)


def training_r2(moments: Moments, coef: Array, intercept: Array) -> Array:
    """R² of each task on the rows that it was trained on; NaN for constant targets."""
    errors = task_errors(moments, coef, intercept)
    noise = moments.weight * (ROUNDING * moments.y_mean) ** 2
    varies = moments.yy > noise
    shares = np.divide(errors, moments.yy, where=varies, out=np.full(len(coef), np.nan))
    return np.asarray(1.0 - shares)
