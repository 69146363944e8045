"""LinearMultiTask: what all our linear estimators share.

``fit`` reads the data, poses the model that the parameters describe, solves it and
publishes the result; see ``priormtl.model``. Both the estimators with given strengths
and those that search for them derive from this class.
"""

import warnings
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from priormtl._arrays import Array, Index, Matrix
from priormtl._numerics import CONSTANT
from priormtl.checks import check_choice, check_outlier_strength
from priormtl.conditional import Conditional
from priormtl.data import (
    Moments,
    StackedRows,
    Table,
    TaskData,
    Tasks,
    TaskStatistics,
    name_features,
    pooled_means,
    pooled_variance,
    refuse_crossed,
    score_by_task,
    task_errors,
)
from priormtl.design import Design, build_frame, find_frame_library
from priormtl.estimators import many_tasks
from priormtl.estimators.base import MultiTaskEstimator, Rows, unchanged_on_error
from priormtl.estimators.summary import (
    ModelSummary,
    plain_labels,
    summarize_fitted,
    summary_tables,
)
from priormtl.estimators.unseen import UNSEEN, Averages, RowTasks, place_rows
from priormtl.estimators.updating import update_fitted
from priormtl.fitted import (
    Certificate,
    CrossedFit,
    Fitted,
    Outliers,
    show_part,
    task_array,
)
from priormtl.losses import DelegateFit, Family, FamilyFit, find_family
from priormtl.model import Model, Posed, Solver, score_rows
from priormtl.partitioned import PartitionedFit
from priormtl.priors import given_prior
from priormtl.rendering import to_notebook
from priormtl.selection import check_coverage, fit_outlier_path, fit_outliers
from priormtl.solvers import Solution, StopReason
from priormtl.uncertainty import (
    MOST_NUMBERS,
    MOST_STEPS,
    Covariances,
    StandardErrors,
    covariances,
    errors_of,
    family_covariances,
)

__all__ = [
    "INTERCEPT",
    "FixedStrengths",
    "LinearMultiTask",
    "check_outlier_tasks",
    "check_own_strength",
    "own_strength",
    "warn_unless_converged",
]

INTERCEPT = "(intercept)"
FAR = 5.0  # deviations from zero of the mean of a feature


@dataclass(eq=False, repr=False, kw_only=True)
class LinearMultiTask(MultiTaskEstimator):
    """Linear models of many tasks: parameters, predictions and display.

    The fields are the parameters that all of them have; scikit-learn reads them from
    the constructor that ``dataclass`` writes.
    """

    feature_prior: object = None
    task_prior: object = "chain"
    penalty: str = "l21"
    fit_intercept: bool | str = True
    intercept_strength: float | str = 1.0
    feature_weights: Array | None = None
    ties: Array | str = "uniform"
    standardize: bool = False
    solver: str = "auto"
    tol: float = 1e-6
    max_iter: int = 10_000
    task: object = None
    unseen_tasks: str = "error"
    outlier_tasks: bool = False
    device: object = None
    crossed: Any = None

    _losses: ClassVar[tuple[str, ...]] = ("squared",)
    _weight_unit = 1.0  # mean weight of the rows; statistics count rows by weights

    def __getattr__(self, name: str) -> Any:
        """Fitted attributes are views of ``fitted_``; see ``priormtl.fitted.VIEWS``."""
        return show_part(self, self.__dict__.get("fitted_"), name)

    @property
    def _family(self) -> Family | None:
        """Family of the loss; None for squared loss."""
        given, n_classes = vars(self), self._n_classes
        loss = check_choice("loss", given.get("loss", "squared"), self._losses)
        return find_family(loss, given.get("dispersion"), n_classes)

    @property
    def _n_classes(self) -> int:
        """Number of classes, from three on; else 2."""
        return 2

    def _model(self, **settings: Any) -> Model:
        """What the parameters describe; ``settings`` replace some of them."""
        if self.device is not None and self.outlier_tasks:
            raise ValueError(
                f"device must be None with outlier_tasks=True: got {self.device!r}."
            )
        given = {"task_prior": given_prior(self), "weight_unit": self._weight_unit}
        given["crossed"] = None
        for one in fields(Model):  # parameters of the same name describe it
            if one.name in vars(self):
                given.setdefault(one.name, vars(self)[one.name])
        given["n_classes"] = self._n_classes
        model = Model(**given | settings)
        check_choice("unseen_tasks", self.unseen_tasks, UNSEEN)
        return model

    def _read_table(
        self, X: object, y: object, task: object, sample_weight: object, *, reset: bool
    ) -> Table:
        table = super()._read_table(X, y, task, sample_weight, reset=reset)
        family = self._family
        self._weight_unit = table.mean_weight()
        if family is not None and family.noise_is_known and table.has_trials():
            self._weight_unit = 1.0
        if isinstance(self, RegressorMixin) and family is not None:
            y = table.y[table.measured().reshape(table.y.shape)]
            family.check(y, weighted=table.weight is not None)
            if len(y):
                self._family.check_mean(float(np.mean(y)))
        if table.codes is not None and reset:
            refuse_crossed(table.tasks, np.bincount(table.codes), self.task)
        if table.crossed is not None and check_outlier_tasks(self.outlier_tasks):
            raise ValueError(
                "outlier_tasks must be False with crossed factors: got True. Use "
                "crossed=None, or crossed='none' in tabular_model."
            )
        return table

    def _need_rows(self, method: str) -> None:
        """Fail if there are crossed factors, whose levels statistics do not hold."""
        if self._crossed_columns():
            raise ValueError(
                f"crossed must be None in {method}, which does not read levels of "
                f"rows: got {self.crossed!r}. Use fit with a data frame."
            )

    def _crossed_columns(self) -> tuple[str, ...]:
        crossed = self.crossed
        if crossed is None:
            return ()
        names = (crossed,) if isinstance(crossed, str) else tuple(crossed)
        for name in names:
            if not isinstance(name, str):
                raise TypeError(
                    "crossed must name columns of X, such as 'teacher' or ['teacher', "
                    f"'item']: got {name!r}."
                )
            if name == self.task or (
                isinstance(self.task, list | tuple) and name in self.task
            ):
                raise ValueError(
                    f"crossed must name columns other than the task: got {name!r}."
                )
        return names

    def _scores(self, X: object, task: object) -> tuple[Array, Index | None]:
        check_is_fitted(self)
        rows = self._read_rows(X, task)
        span = self.fitted_.span
        if span is not None and rows.time is not None:
            far = np.count_nonzero(rows.time - span.ends.max() > 1.5 * span.reach)
            if far:
                warnings.warn(
                    f"{far:,} of {len(rows.time):,} rows lie further ahead in "
                    f"{span.column!r} than the {span.reach:.4g} that folds have held "
                    "out: their intervals extrapolate.",
                    UserWarning,
                    stacklevel=3,
                )
        scores, tasks = self._predict_rows(rows)
        return scores, None if tasks is None else tasks.known(len(self.tasks_))

    def _predict_rows(self, rows: Rows) -> tuple[Array, RowTasks | None]:
        """Scores of rows, and which model each has; None: (n, m), all of them."""
        fitted, n = self.fitted_, rows.X.shape[0]
        m, K = len(fitted.tasks), fitted.n_classes
        if rows.labels is None and self._targets_are_columns:
            known = 0.0 if rows.offset is None else rows.offset[:, np.newaxis]
            return rows.X @ fitted.coef.T + fitted.intercept + known, None
        if rows.labels is None:
            tasks = RowTasks(self._find_tasks(None, n), None)
        else:
            behaviour = check_choice("unseen_tasks", self.unseen_tasks, UNSEEN)
            tasks = place_rows(fitted, behaviour, rows.labels, n)
        coef, intercept = fitted.coef, fitted.intercept
        if tasks.averages is not None:
            self._check_averages(tasks.averages)
            coef = np.concatenate([coef, tasks.averages.coef(fitted)])
            intercept = np.concatenate([intercept, tasks.averages.intercept(fitted)])

        def score(part: Matrix, i: int) -> Array:
            return np.asarray(part @ coef[i].T + intercept[i])

        columns = None if K == 1 else K
        scores = score_by_task(rows.X, tasks.codes, score, columns)
        if rows.offset is not None:
            scores = scores + rows.offset
        if rows.crossed is not None and fitted.crossed is not None:
            scores = scores + rows.crossed.forward(fitted.crossed.effects)
        if rows.time is not None:
            # Nothing is known of levels and last rows of tasks that were not seen.
            seen = np.where(tasks.codes < m, tasks.codes, -1)
            if fitted.drift is not None:
                scores = scores + fitted.drift.at(seen, rows.time)[0]
            if fitted.history is not None:
                delta = fitted.history.growth(rows.X, seen, rows.time, fitted.coef)
                scores = fitted.history.add(scores, seen, rows.time, delta)
        return scores, tasks

    def _solver(self) -> Solver:
        return Solver(self.solver, self.tol, self.max_iter)

    def _publish(
        self,
        data: TaskData | TaskStatistics,
        posed: Posed,
        solution: Solution,
        has_outliers: bool,
    ) -> None:
        """Keep what was learned, in the user's units."""
        # The fit divided features by their scale: coefficients do the same.
        moments, problem, family = posed.moments, posed.problem, posed.model.family
        scale = posed.scale[:, np.newaxis]
        total = solution.point.total if has_outliers else solution.coef
        coef, intercept = np.ascontiguousarray((total / scale).T), solution.intercept
        effects = None
        if posed.model.n_classes > 2:
            coef, intercept = split_classes(posed, coef, intercept)
        else:
            # Predictions at the mean features of all rows, less their mean over tasks.
            levels = coef @ pooled_means(moments) + intercept
            effects = levels - levels.mean()
        strength = None
        if posed.model.fit_intercept == "tied":
            if not posed.model.standardize:
                warn_of_far_features(moments)
            strength = posed.intercept_strength
        # Statistics are kept for standard errors and updates; rows are not.
        kept = moments if isinstance(moments, TaskStatistics) else None
        if isinstance(data, TaskStatistics) and data.is_mapped:
            kept = data
        outliers = crossed = None
        design: Design | None = self.__dict__.get("design_")
        if design is not None and design.crossed:
            # Factors that the folds have not chosen are none.
            names = () if posed.crossed is None else posed.crossed.levels.names
            self._adopt_design(design.with_crossed(names))
        if posed.crossed is not None:
            known = posed.crossed.estimate
            sd = np.array(list(known.sd.values()))
            crossed = CrossedFit(
                posed.crossed.effects, known.errors, sd, known.is_stochastic
            )
        if has_outliers:
            shared = np.ascontiguousarray((solution.coef / scale).T)
            outliers = Outliers(shared, coef - shared, posed.outlier_strength)
        fitted = Fitted(
            type(self).__name__,
            replace(
                posed.model,
                lam=problem.lam,
                theta=problem.prior.theta,
                epsilon=problem.prior.epsilon,
                dispersion=None if family is None else fitted_dispersion(posed),
            ),
            task_array(data.tasks),
            coef,
            intercept,
            Certificate(
                float(solution.certificate.primal) + problem.fit.constant,
                float(solution.certificate.gap),
                solution.n_iter,
            ),
            design=self.__dict__.get("design_"),
            feature_prior=posed.feature_prior,
            tie_weights=posed.tie_weights,
            intercept_strength=strength,
            between=tuple(problem.prior.laplacian.between or ()),
            scale=np.where(np.isfinite(posed.scale), posed.scale, 1.0),
            task_weight=np.array(moments.weight),
            task_effect=effects,
            deviations=posed.deviations(),
            classes=self.__dict__.get("_classes"),
            outliers=outliers,
            crossed=crossed,
            drift=posed.drift and posed.drift.levels(coef, solution.intercept),
            conditional=None
            if has_outliers
            else Conditional.of(posed, coef, intercept, data),
            targets_are_columns=self._targets_are_columns,
            library=self._frame_library,
            statistics=kept,
        )
        if isinstance(self, RegressorMixin) and family is None:
            find_errors = None
            # Moments hold no levels of factors and no drift: then rows tell the errors.
            is_added = posed.crossed is not None or posed.drift is not None
            if isinstance(data, StackedRows) and is_added:
                misses = data.y - score_rows(data, coef.T, solution.intercept)
                if posed.crossed is not None:
                    misses -= posed.crossed.scores
                if fitted.drift is not None and data.time is not None:
                    task = np.repeat(np.arange(len(data.tasks)), np.diff(data.starts))
                    misses -= fitted.drift.at(task, data.time)[0]
                squares = data.task_sums(data.weight * misses**2)
                find_errors = partial(errors_of, posed, solution.coef)
            else:
                squares = task_errors(moments, coef, solution.intercept)
                if not has_outliers and kept is None:
                    find_errors = partial(quick_errors, fitted, posed, solution)
            fitted = replace(
                fitted,
                task_r2=training_r2(moments, squares),
                target_variance=pooled_target_variance(moments),
                within_variance=float(moments.yy.sum() / moments.weight.sum()),
                find_errors=find_errors,
            )
        elif family is not None and not has_outliers:
            find_errors = partial(quick_errors, fitted, posed, solution)
            fitted = replace(fitted, find_errors=find_errors)
        # Rows of small fits, up to 8 MB, are kept until standard errors are asked for.
        if problem.fit.size > 2**20:
            fitted = fitted.with_errors(fitted.errors)
        self.fitted_ = fitted

    def update(
        self, X: object, y: object, *, task: object = None, sample_weight: object = None
    ) -> Self:
        """Add new tasks, or new rows of known ones, without another fit.

        Parameters
        ----------
        X, y, task, sample_weight
            Rows as in ``fit``. Tasks that were not seen become known; rows of known
            tasks count beside those of the fit.

        Returns
        -------
        self

        Notes
        -----
        Coefficients of these tasks are their conditional means given the shared part,
        as in a mixed model with known variances: what tasks share (their mean, effects
        in common, effects of crossed levels, variances, trees) stays as it is. With
        other losses than the squared one they are conditional modes, and the rows of
        the fit count by their quadratic approximation. Tasks must be tied to their
        mean, with lam = 0 unless all effects are in common.

        Examples
        --------
        >>> from priormtl import MultiTaskRegressorCV
        >>> from priormtl.datasets import make_related_tasks
        >>> X, y, task = make_related_tasks(n_tasks=6, n_features=3, random_state=0)
        >>> model = MultiTaskRegressorCV(task_prior="mean", ties="adaptive")
        >>> model = model.fit(X[task < 5], y[task < 5], task=task[task < 5])
        >>> model.update(X[task == 5], y[task == 5], task=task[task == 5]).tasks_
        array([0, 1, 2, 3, 4, 5])
        """
        check_is_fitted(self)
        self._adopt(update_fitted(self, X, y, task, sample_weight))
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
        return build_coef_frame(self.fitted_.by_class(), wide=wide)

    def summary(self, level: float | None = None) -> ModelSummary:
        """Summarise the fitted model.

        Parameters
        ----------
        level : float, optional
            Confidence level, such as 0.95, of intervals of coefficients and of the
            effects of tasks and crossed levels. Needs at least one selected feature;
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
        the bias of shrinkage. With losses other than squared they are those of the
        quadratic model at the optimum, on the scale of scores. With more than two
        classes, those of ``class_effects`` are of what coefficients have beside their
        mean over classes, and with signs there are none. With crossed factors there
        are intervals of levels, and those of coefficients only at lam = 0 with
        ``ties="adaptive"`` and tied intercepts.
        """
        check_is_fitted(self)
        errors = None
        if level is not None:
            check_coverage(level, "level")
            fitted = self.fitted_
            has_levels = fitted.crossed is not None or fitted.drift is not None
            errors = self.fitted_.errors if has_levels else self._errors(level)
        return summarize_fitted(self.fitted_, errors, level)

    def _errors(self, level: float) -> StandardErrors:
        """Standard errors, from the statistics of the fit or as they were saved."""
        saved = self.fitted_.errors
        return saved or StandardErrors.of(self._covariances(level))

    def _known_model(self) -> Model:
        """The model of the fit, with all that was estimated."""
        fitted = self.fitted_
        assert fitted.model is not None
        assert fitted.tie_weights is not None
        strength = fitted.intercept_strength
        return replace(
            fitted.model,
            feature_prior=fitted.feature_prior,
            ties=fitted.tie_weights,
            intercept_strength=1.0 if strength is None else strength,
        )

    def _covariances(self, level: float, most: int = MOST_NUMBERS) -> Covariances:
        """Covariances of coefficients, from the statistics of the fit."""
        statistics = self.fitted_.statistics
        if statistics is None or not isinstance(self, RegressorMixin):
            raise ValueError(
                f"level={level:g} needs a model with selected features that is not too "
                "large, and with more than two classes no signs: got a model without "
                "standard errors; use level=None."
            )
        if self.fitted_.crossed is not None or self.fitted_.drift is not None:
            raise ValueError(
                f"level={level:g} needs a model without crossed factors and levels "
                "that drift, or lam=0, "
                'ties="adaptive" and tied intercepts.'
            )
        if self.penalty != "l21":
            raise ValueError(
                f'level={level:g} needs penalty="l21": got {self.penalty!r}, whose '
                "curvature is not known feature by feature."
            )
        posed = self._known_model().pose(statistics)
        scale = np.where(np.isfinite(posed.scale), posed.scale, 1.0)
        shared = self.fitted_.shared_coef
        errors = task_errors(statistics, self.coef_, self.intercept_)
        return covariances(posed, shared.T * scale[:, np.newaxis], errors, most=most)

    def _repr_html_inner(self) -> str:
        return str(super()._repr_html_inner()) + self._learned_html()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += self._learned_html()
        return bundle

    def _learned_html(self) -> str:
        """What stands beneath scikit-learn's diagram."""
        if "fitted_" not in self.__dict__:
            return ""
        tables = [*summary_tables(self.summary())]
        if self.feature_prior_ is not None:
            tables.append(self.feature_prior_.table(self.fitted_.names))
        shown = to_notebook(tables)
        return f"<details><summary>What was learned</summary>{shown}</details>"

    def _check_averages(self, averages: Averages) -> None:
        """Fail if models that are averaged do not mean the same."""

    def _adopt_features(self, statistics: TaskStatistics) -> None:
        """Expect the features of statistics from now on."""
        self._frame_library = None
        self.n_features_in_, design = statistics.shape[0], statistics.features
        means = pooled_means(statistics)
        self._adopt_design(None if design is None else design.with_means(means))


@dataclass(eq=False, repr=False)
class FixedStrengths(LinearMultiTask):
    """Linear models of many tasks whose strengths are given."""

    lam: float = 1.0
    theta: float = 1.0
    epsilon: float = 1.0
    _: KW_ONLY
    warm_start: bool = False
    outlier_strength: object = None

    def _fit_tasks(self, data: TaskData | TaskStatistics) -> None:
        family = self._family
        is_regressor = isinstance(self, RegressorMixin)
        if is_regressor and family is not None and self.fit_intercept is True:
            assert isinstance(data, TaskData)
            refuse_flat_tasks(data, family)
        model = self._model()
        by_sums = self.solver == "auto" and not (self.outlier_tasks or self.warm_start)
        if by_sums and len(data.tasks) >= many_tasks.MANY:
            tasks = many_tasks.held_tasks(data, model)
            if tasks is not None:
                found = many_tasks.fit_where(model, tasks, self._solver().tol)
                self.fitted_ = replace(
                    many_tasks.to_fitted(type(self).__name__, found, tasks),
                    design=self.__dict__.get("design_"),
                    classes=self.__dict__.get("_classes"),
                    library=self._frame_library,
                )
                return
        posed = model.pose(data)
        start = self._warm_coef(data, posed.scale) if self.warm_start else None
        posed, solution = self._solve(posed, data, start)
        self._publish(data, posed, solution, bool(self.outlier_tasks))

    def fit_blocks(
        self, tasks: Tasks, design: Design, *, collect: bool = True
    ) -> PartitionedFit:
        """Fit many tasks where their rows are; see ``priormtl.engines.dask.fit``.

        Parameters
        ----------
        tasks : priormtl.data.Tasks
            Blocks of tasks, in files or on the workers of a cluster.
        design : Design
            How columns became the features of their rows.
        collect : bool, default=True
            Whether the estimator gets the coefficients of all tasks, so that it can
            predict.

        Returns
        -------
        PartitionedFit
            What tasks share, how they deviate from it, objective and duality gap.
        """
        with unchanged_on_error(self):
            if self.outlier_tasks or self._crossed_columns():
                raise ValueError(
                    "outlier_tasks and crossed must not be set to fit tasks where they "
                    "are."
                )
            found = many_tasks.fit_where(self._model(), tasks, self._solver().tol)
            if collect:
                fitted = many_tasks.to_fitted(type(self).__name__, found, tasks)
                classes = None
                if found.model.loss == "logistic":
                    classes = np.tile([0, 1], (len(fitted.tasks), 1))
                design = design.with_means(found.mean[:-1])
                self._adopt(replace(fitted, design=design, classes=classes))
        return found

    def _solve_path(self, posed: Posed, lams: Array) -> list[Solution]:
        """Solve for each lam, in this order."""
        if not check_outlier_tasks(self.outlier_tasks):
            return self._solver().path(posed.problem, lams)
        strength = check_own_strength(self.outlier_strength, posed.problem.shape[1])
        return fit_outlier_path(posed, lams, self._solver(), strength)

    def _solve(
        self,
        posed: Posed,
        data: TaskData | TaskStatistics,
        start: Array | None = None,
    ) -> tuple[Posed, Solution]:
        """Solve a model, with task-specific components if wanted."""
        has_outliers, solver = check_outlier_tasks(self.outlier_tasks), self._solver()
        if has_outliers and self._n_classes > 2:
            raise ValueError(
                f"outlier_tasks must be False with {self._n_classes} classes: got "
                "True. Use two classes, such as one against all others."
            )
        posed, solution = posed.fit(solver, data, start)
        if has_outliers:
            strength = check_own_strength(self.outlier_strength, posed.problem.shape[1])
            posed, solution = fit_outliers(posed, solution, solver, strength)
        warn_unless_converged(solution, posed, solver)
        return posed, solution

    def _warm_coef(self, data: TaskData | TaskStatistics, scale: Array) -> Array | None:
        """Coefficients of the last fit, if it had the same tasks and features."""
        last: Fitted | None = self.__dict__.get("fitted_")
        if last is None or last.shape[::-1] != data.shape:
            return None
        if last.labels != list(data.tasks):
            return None
        if last.n_classes != (self._n_classes if self._n_classes > 2 else 1):
            return None
        # Columns are tasks, class after class.
        coef = np.moveaxis(last.shared_coef, -1, 0).reshape(len(scale), -1)
        if last.n_classes > 1:
            coef = last.coef.transpose(2, 1, 0).reshape(len(scale), -1)
        return np.ascontiguousarray(coef * scale[:, np.newaxis])

    def _fit_statistics(self, statistics: TaskStatistics) -> Self:
        """Fit statistics as if their rows had been read."""
        if self._family is not None:
            raise ValueError(
                f'loss must be "squared" for a fit to statistics: got '
                f"{self._family.name!r}, which needs rows. Use fit."
            )
        self._weight_unit = 1.0
        refuse_crossed(statistics.tasks, statistics.weight, statistics.task_columns)
        self._adopt_features(statistics)
        self._fit_tasks(statistics)
        return self


def split_classes(posed: Posed, coef: Array, intercept: Array) -> tuple[Array, Array]:
    """Coefficients (m, K, d) and intercepts (m, K) of columns, class after class.

    The loss does not see a number that is added to the scores of all classes. What no
    penalty determines of intercepts is such that they sum to zero.
    """
    K = posed.model.n_classes
    coef = coef.reshape(K, -1, coef.shape[1]).transpose(1, 0, 2)
    levels = intercept.reshape(K, -1).T
    if posed.model.fit_intercept is True:
        levels = levels - levels.mean(axis=1, keepdims=True)
    elif posed.model.fit_intercept == "tied":
        levels = levels - levels.mean()
    return np.ascontiguousarray(coef), np.ascontiguousarray(levels)


def fitted_dispersion(posed: Posed) -> float | None:
    """Dispersion of the fit, as given or estimated, where the family has one."""
    fit = posed.problem.fit
    while isinstance(fit, DelegateFit):
        fit = fit.fit
    if not isinstance(fit, FamilyFit) or not fit.family.has_dispersion:
        return None
    return float(vars(fit.family)["alpha"])


def refuse_flat_tasks(data: TaskData, family: Family, part: str = "") -> None:
    """Fail if free intercepts of some tasks have no finite best value."""
    mean = data.task_sums(data.weight * data.y) / data.task_weight
    flat = np.flatnonzero(~family.has_finite_score(mean))
    if len(flat):
        names = [data.tasks[i] for i in flat[:8]]
        raise ValueError(
            f'fit_intercept must be "tied" or False where all targets of a task are '
            f"{data.rows_of(int(flat[0]))[1][0]:g}, which has no finite intercept: "
            f"{names}{part}."
        )


def warn_of_far_features(moments: Moments) -> None:
    """Warn if intercepts are tied at features that no row is near to."""
    deviations = np.sqrt(pooled_variance(moments))
    means = np.abs(pooled_means(moments))
    far = np.flatnonzero((deviations > 1e-9 * means) & (means > FAR * deviations))
    if len(far):
        names = name_features(moments.features, len(means))
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


def quick_errors(
    fitted: Fitted, posed: Posed, solution: Solution
) -> StandardErrors | None:
    """Standard errors of a fit to rows, which are not kept, if quickly found."""
    known = errors_of(posed, solution.coef)
    if known is not None:
        return known
    m, K = fitted.shape[0], fitted.n_classes
    k = int(fitted.coef.any(axis=0).sum()) + K
    if posed.model.penalty != "l21" or m * k**3 > MOST_STEPS:
        return None
    if posed.crossed is not None:  # whose errors go with those of coefficients
        return None
    # Signs of all classes decide what is added to all of them, which errors leave out.
    prior = fitted.feature_prior
    if K > 1 and prior is not None and prior.signs(fitted.shape[1]) is not None:
        return None
    try:
        with np.errstate(all="ignore"):
            if posed.model.family is None:
                moments = posed.moments
                residuals = task_errors(moments, fitted.coef, fitted.intercept)
                found = covariances(posed, solution.coef, residuals)
            else:
                found = family_covariances(posed, solution)
            errors = StandardErrors.of(found)
    except (ValueError, np.linalg.LinAlgError):  # too large, or singular
        return None
    return errors if np.isfinite(errors.coef).all() else None


def check_outlier_tasks(value: object) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"outlier_tasks must be True or False: got {value!r}.")
    return bool(value)


def check_own_strength(value: object, m: int) -> float | Array | None:
    """One strength, one for each of m tasks, or None: tasks are tested."""
    if value is None:
        return None
    if not isinstance(value, np.ndarray):
        return check_outlier_strength("outlier_strength", value)
    if value.shape != (m,):
        raise ValueError(
            "outlier_strength must be one number or an array with one for each of "
            f"{m} tasks: got an array of shape {value.shape}."
        )
    name = "every one of outlier_strength"
    return np.array([check_outlier_strength(name, one) for one in value.tolist()])


def own_strength(model: LinearMultiTask) -> float | Array:
    """Strength of task-specific components in a fit: one, or one for each task.

    Where the data have named outliers, it is infinite for all other tasks.
    """
    outliers = model.fitted_.outliers
    assert outliers is not None
    given = check_own_strength(vars(model).get("outlier_strength"), len(model.tasks_))
    if given is not None:
        return given
    if vars(model).get("outlier_strengths") is not None:
        return float(outliers.strength)
    return np.where(outliers.own_coef.any(axis=1), outliers.strength, np.inf)


def build_coef_frame(fitted: Fitted, *, wide: bool) -> Any:
    """Coefficients and intercepts of a fitted model as a data frame."""
    tasks = plain_labels(fitted.labels)
    columns = dict(zip(fitted.names, fitted.coef.T, strict=True))
    if fitted.model is None or fitted.model.fit_intercept is not False:
        columns = {INTERCEPT: fitted.intercept, **columns}
    library = fitted.library or find_frame_library(None)
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


def training_r2(moments: Moments, errors: Array) -> Array:
    """R² of each task, from sums of squared errors (m,); NaN for constant targets."""
    noise = moments.weight * (CONSTANT * moments.y_mean) ** 2
    varies, unknown = moments.yy > noise, np.full(len(errors), np.nan)
    return np.asarray(1.0 - np.divide(errors, moments.yy, where=varies, out=unknown))


def pooled_target_variance(moments: Moments) -> float:
    """Variance of the targets of all tasks together."""
    weight = moments.weight
    total = weight.sum()
    mean = weight @ moments.y_mean / total
    between = weight @ (moments.y_mean - mean) ** 2
    variance = float((moments.yy.sum() + between) / total)
    # Targets that are all equal differ from their mean by rounding.
    return variance if variance > (CONSTANT * mean) ** 2 else 0.0
