"""Linear regression for several related tasks: ``MultiTaskRegressor``."""

import os
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_array, check_is_fitted

from priormtl._arrays import Array
from priormtl.data import (
    TaskStatistics,
    check_statistics,
    host_array,
    read_targets,
    statistics_pay,
    summarize,
    summarize_tasks,
    task_errors,
)
from priormtl.design import as_frame
from priormtl.estimators.base import MultiTaskEstimator, unchanged_on_error
from priormtl.estimators.intervals import predict_interval
from priormtl.estimators.linear import FixedStrengths
from priormtl.estimators.sources import fit_rows, read_source, read_source_rows
from priormtl.estimators.splitting import DEFAULT_FOLDS, make_splits
from priormtl.fitted import Fitted
from priormtl.losses import Family
from priormtl.selection import Calibration, FoldModels, HeldOut, divide, from_errors
from priormtl.uncertainty import prediction_variances

if TYPE_CHECKING:
    from priormtl.engines import Schema


REGRESSION_LOSSES = ("squared", "poisson", "gamma", "negative_binomial")
MOST_NUMBERS = 2**22  # in a factorisation that a fit pays for, for intervals only


class RegressionTasks(RegressorMixin, MultiTaskEstimator):
    """Common behaviour of regressors: numeric targets, predictions and R²."""

    def predict(self, X: object, *, task: object = None) -> Array:
        """Predict the targets of the rows of X.

        Parameters
        ----------
        X : (n, d) array, sparse matrix or data frame
            Features. If the model was fitted with a task column, X must contain it.
            After ``fit_source``, X may also be a table with the columns of the source.
        task : (n,) labels, or a single label, optional
            Task of each row. A single string, number or date applies to all rows.
            ``unseen_tasks`` determines how unknown labels are handled.

        Returns
        -------
        (n,) or (n, m) array
            One prediction per row. If the model was fitted on (n, m) targets and
            ``task`` is None, one column per task.
        """
        scores, family = self._scores(X, task)[0], self._family
        return scores if family is None else family.mean(scores)

    def score(
        self, X: object, y: object, *, task: object = None, sample_weight: object = None
    ) -> float:
        """Return R² of the predictions: the share of the deviance that is explained.

        Parameters
        ----------
        X : (n, d) array, sparse matrix or data frame
            Features, as in ``predict``.
        y : (n,) or (n, m) array
            True targets. Missing values in (n, m) targets are ignored.
        task : (n,) labels, or a single label, optional
            Task of each row, as in ``predict``.
        sample_weight : (n,) array, optional
            Weight of each row.

        Returns
        -------
        float
            R², or D² with losses other than squared: 1 − deviance / deviance of the
            mean. For (n, m) targets, the mean over the columns.
        """
        prediction = self.predict(X, task=task)
        target = self._check_targets(y)
        weight = None if sample_weight is None else read_targets(sample_weight)
        score: Callable[..., float] = r2_score
        if self._family is not None:
            family = self._fitted_family
            assert family is not None
            score = partial(deviance_explained, family)
        if prediction.ndim == 1:
            return float(score(np.ravel(target), prediction, sample_weight=weight))
        scores = []
        for i, rows in enumerate(~np.isnan(target.T)):
            own = None if weight is None else weight[rows]
            pair = target[rows, i], prediction[rows, i]
            scores.append(score(*pair, sample_weight=own))
        return float(np.mean(scores))

    @property
    def _fitted_family(self) -> Family | None:
        """The family with the dispersion of the fit."""
        known = self.fitted_.model
        return None if known is None else known.family

    def _check_targets(self, y: object) -> np.ndarray:
        is_array = isinstance(y, np.ndarray)
        if not is_array and (as_frame(y) is not None or hasattr(y, "to_numpy")):
            return read_targets(y)
        targets = np.asarray(y)
        if targets.dtype.kind in "SU":
            raise ValueError(
                f"y must hold numbers: got text such as {targets.item(0)!r}."
            )
        return check_array(
            targets,
            ensure_2d=False,
            dtype=np.float64,
            ensure_all_finite="allow-nan" if targets.ndim == 2 else True,
            input_name="y",
        )


def deviance_explained(
    family: Family, y: Array, mean: Array, *, sample_weight: Array | None = None
) -> float:
    """D²: one minus the deviance of predicted means, relative to that of one mean."""
    weight = np.ones(len(y)) if sample_weight is None else sample_weight
    level = np.full(len(y), np.average(y, weights=weight))
    losses = [float(weight @ family.loss(family.link(one), y)) for one in (mean, level)]
    return 1.0 - losses[0] / losses[1] if losses[1] > 0 else float(losses[0] == 0)


@dataclass(eq=False, repr=False)
class MultiTaskRegressor(RegressionTasks, FixedStrengths):
    """Linear regression for several related tasks, with prior information.

    Minimises the following objective over the coefficients P (features × tasks) and
    the intercepts b::

        1/2 Σ w (x p_i + b_i − y)² + lam ‖P‖₂,₁ + theta/2 ‖D P‖² + epsilon/2 tr(P L Pᵀ)

    The first penalty selects one set of features for all tasks. D contains known
    relations between features. L is the Laplacian of a graph that couples related
    tasks. The loss is a sum over rows, not a mean.

    Parameters
    ----------
    lam : float, default=1.0
        Strength of the sparsity penalty. Larger values select fewer features.
    theta : float, default=1.0
        Strength of the feature prior. It has no effect if ``feature_prior`` is None.
    epsilon : float, default=1.0
        Strength of the task coupling. Larger values make tasks more similar.
    feature_prior : FeaturePrior, (k, d) matrix or None, default=None
        Known relations between features. A matrix is used as D.
    task_prior : TaskPrior, "chain", "mean", "nested" or None, default="chain"
        Which tasks are similar. "chain" couples neighbouring tasks in sorted order,
        "mean" couples each task to the mean of all tasks, "nested" couples tasks to
        their group and groups to each other, and None couples no tasks. If ``task``
        names several columns, the default is "nested".
    penalty : {"l21", "nuclear"}, default="l21"
        "l21" selects features for all tasks together. "nuclear" uses the nuclear norm,
        so that the coefficients of all tasks lie in a common subspace.
    fit_intercept : bool or "tied", default=True
        Whether to fit one intercept per task. "tied" couples the intercepts of
        related tasks by adding intercept_strength/2 bᵀ L b to the objective. They are
        coupled at zero features or, with ``standardize``, at the pooled mean.
    intercept_strength : float, default=1.0
        Strength of the coupling of tied intercepts. With ``ties="adaptive"``,
        it multiplies the estimated strength.
    feature_weights : (d,) array, optional
        Positive factors that multiply ``lam``, one per feature.
    ties : {"uniform", "adaptive"} or (d,) array, default="uniform"
        How strongly each feature is coupled: "uniform" by ``epsilon`` throughout,
        an array by nonnegative factors that multiply it, infinite for features that
        have the same coefficient in all tasks. "adaptive" estimates the factors from
        the data; see Notes.
    standardize : bool, default=False
        Whether to divide features by their pooled standard deviation during the fit.
        With ``fit_intercept="tied"``, features are also centred at their pooled mean.
        ``coef_`` and ``intercept_`` are always in the units of X.
    solver : {"auto", "gd", "ista", "ista-reverse", "fista", "linear"}, default="auto"
        Optimisation method. "auto" selects a method for the problem at hand. The
        others are the five methods of the paper.
    tol : float, default=1e-6
        Relative tolerance. The solver stops when the duality gap is at most ``tol``
        times the objective at P = 0.
    max_iter : int, default=10_000
        Maximum number of iterations. If it is reached before ``tol``, a
        ConvergenceWarning is issued.
    warm_start : bool, default=False
        Whether to start from the coefficients of the previous fit.
    task : str, int, or list of these, optional
        Column of X that contains the task: a name in a data frame, or a position in an
        array. If given, ``fit`` and ``predict`` need no ``task`` argument. Several
        columns from coarse to fine, ``["district", "school"]``, are nested tasks with
        labels such as "north / 12".
    unseen_tasks : {"error", "shared"}, default="error"
        How to predict tasks that were not seen during fit, and rows whose label is
        missing. "error" raises a ValueError. "shared" uses the mean coefficients and
        intercept of all tasks, or with nested tasks the latent mean of the task's group
        if the group is known.
        The setting is read during prediction, so it can be changed on a fitted model.
    outlier_tasks : bool, default=False
        Whether outlier tasks get a task-specific component in addition to the
        coefficients that are coupled with other tasks; see Notes.
    outlier_strength : float or (m,) array, optional
        Threshold below which a task gets no task-specific component, in units of the
        target; inf disables it. An array holds one threshold per task. If None,
        outlier tasks are identified by a statistical test.
    device : {None, "cpu", "cuda", "cuda:1", ...}, default=None
        Where PyTorch (``pip install 'priormtl[gpu]'``) holds the statistics and solves
        the problem, in double precision. By default, on the processor without PyTorch.
        The nuclear norm and outlier tasks are not available on a device.
    loss : {"squared", "poisson", "gamma", "negative_binomial"}, default="squared"
        Loss function. "poisson" and "negative_binomial" are for counts, "gamma" is for
        positive amounts. Their mean is exp(x p_i + b_i); see Notes. With "poisson",
        :class:`MultiTaskRegressorCV` lets rows scatter by more than their mean where
        REML says so.
    dispersion : float, optional
        Dispersion alpha of the negative binomial: the variance of a count of mean μ is
        μ + alpha μ². If None, it is estimated.
    exposure : str or int, optional
        Column of X with the exposure of each row, such as a population or a duration:
        predicted counts are proportional to it. It must be positive, and it is no
        feature. Its logarithm is an offset. A name in a data frame, or a position in
        an array without its task column.
    offset : str or int, optional
        Column of X that is added to x p_i + b_i. It is no feature.
    crossed : str or list of str, optional
        Columns of X, a data frame, whose levels have effects of their own in all
        tasks, shrunk to zero, such as the teacher of pupils in many schools. Their
        variances are estimated by REML. Levels that are new or missing in prediction
        have no effect.

    Attributes
    ----------
    coef_ : (m, d) array
        Coefficients, one row per task. This is P transposed.
    intercept_ : (m,) array
        Intercept of each task.
    tasks_ : (m,) array
        Task labels.
    objective_ : float
        Value of the objective at the solution. With squared loss it is never negative.
    dual_gap_ : float
        Duality gap: an upper bound on the distance of ``objective_`` from the optimum.
        It includes a bound on rounding errors.
    n_iter_ : int
        Number of iterations.
    tie_weights_ : (d,) array
        Factors that multiplied ``epsilon``; infinite for common effects. With
        ``standardize``, they refer to the
        standardised features.
    intercept_strength_ : float
        Strength of the coupling of intercepts. Only with ``fit_intercept="tied"``.
    between_ : tuple of float
        Weight of the coupling between groups, relative to that within groups, from
        coarse to fine: as given, or as estimated with adaptive ties. Only with nested
        tasks.
    task_sd_ : (d,) array
        Estimated standard deviation of the coefficients of each feature between tasks,
        in the units of ``coef_``; with ``task_prior="chain"``, of the difference
        between neighbours; with nested tasks, within groups (between groups it is
        ``task_sd_ / sqrt(between)``). Only with ``ties="adaptive"``.
    intercept_sd_ : float
        The same for tied intercepts: at zero features or, with ``standardize``, at
        their pooled mean. Only with ``ties="adaptive"`` and ``fit_intercept="tied"``.
    noise_sd_ : float
        Estimated standard deviation of the noise. Only with ``ties="adaptive"``.
    crossed_effects_ : dict
        Effect of each level of each crossed factor: ``{column: {level: effect}}``.
        Only with crossed factors.
    crossed_sd_ : dict
        Estimated standard deviation of the effects of each crossed factor.
    shared_coef_ : (m, d) array
        Coefficients without task-specific components. Only with ``outlier_tasks``.
    own_coef_ : (m, d) array
        Task-specific components, zero for tasks that are no outliers. Only with
        ``outlier_tasks``. ``coef_`` is ``shared_coef_ + own_coef_``.
    outlier_tasks_ : array
        Labels of tasks with a task-specific component. Only with ``outlier_tasks``.
    outlier_strength_ : float
        Threshold that was used (the smallest, if there are several). It is inf if no
        outlier task was found. Only with ``outlier_tasks``.
    n_features_in_ : int
        Number of features, without the task column.
    feature_names_in_ : (d,) array
        Names of the features. Only if X has column names.
    design_ : Design
        How columns became features. Only if X has column names.
    task_column_ : str
        Name of the task column. Only after ``fit_source``.
    feature_prior_ : FeaturePrior or None
        Feature prior with all names and data-dependent relations resolved.
    task_weight_ : (m,) array
        Sum of the sample weights of each task.
    task_effect_ : (m,) array
        Score of each task at the pooled means of all features, minus the mean of all
        tasks.
    task_r2_ : (m,) array
        R² of each task on the training data. NaN if the targets are constant.
    feature_scale_ : (d,) array
        Divisors of the features. Ones unless ``standardize`` is True.
    dispersion_ : float
        Dispersion of the negative binomial, as given or estimated.
    statistics_ : TaskStatistics
        Sufficient statistics of the training data, to which ``partial_fit`` adds.
        Absent if X is sparse or has fewer rows than features.

    See Also
    --------
    MultiTaskRegressorCV : Selects lam, theta and epsilon by cross-validation.
    MultiTaskClassifier : Binary classification with the same priors.

    Notes
    -----
    **Adaptive coupling.** ``ties="adaptive"`` estimates the noise variance and,
    for each feature, the variance of its coefficients between tasks by restricted
    maximum likelihood (REML), as in a mixed model. The weight of a feature is the
    ratio of the two, so ``epsilon=1`` and ``lam=0`` give the predictions of the mixed
    model. The strength of tied intercepts is estimated in the same way, and so is the
    variance between groups of nested tasks: its ratio to the variance between tasks is
    estimated for each level, the same for all features and intercepts. The estimates
    do not depend on ``lam``, ``theta`` and the feature prior. Coefficients that do not
    vary between tasks get a weight of 100,000 times the mean curvature of a task;
    constant features get a weight of 1. Where tasks have fewer rows than there are
    features and are tied to their mean, such a weight is infinite. In large models of
    this kind, coefficients vary only where a score test says so (two standard errors),
    the most significant ones first.

    With losses other than "squared", variances maximise Laplace's approximation of the
    restricted likelihood where tasks are tied to their mean, also with crossed factors
    (as glmmTMB with ``REML=TRUE``), or, where only intercepts vary and tasks say little
    about them, the likelihood by adaptive quadrature. Other graphs have penalised
    quasi-likelihood, whose variances are too small for tasks with few events.
    Coefficients are the optimum of the objective at these variances.

    **Sample weights.** They multiply the squared errors in the objective, so with given
    strengths they count as repetitions. Everything that is estimated (adaptive
    coupling, standard errors, prediction intervals) uses relative weights, as lme4
    does: multiplying all of them by a number changes no prediction. Statistics hold
    sums of weights and no numbers of rows; there, and in ``partial_fit``, weights
    should have a mean of about 1. Counts and classes have a variance that follows from
    their mean: with these losses, whole numbers are numbers of trials, and count as
    repetitions throughout.

    **Outlier tasks.** With ``outlier_tasks=True``, P = S + O, and
    outlier_strength Σ_i √t_i ‖o_i‖ is added to the objective, where t_i is the trace
    of the Hessian of task i. The penalty and the priors apply to the shared part S
    only. If ``outlier_strength`` is None, each task is compared with what the others
    predict for it. Tasks whose deviation exceeds noise and the usual variation between
    tasks, at a level of 1 % for the whole fit, get a task-specific component. If there
    are none, the fit is the same as with ``outlier_tasks=False``.

    **Singular designs.** Collinear, duplicate and constant features are allowed for
    every ``lam``, including 0, and give bounded coefficients. One-hot encoded columns
    need no dropped level. If sufficient statistics in double precision are not
    accurate enough, the model is fitted to the rows instead. If the rows are not
    available, as in ``fit_statistics``, a ConvergenceWarning is issued.

    References
    ----------
    Zhang and Liu, "Multi-Task Learning with Prior Information", SIAM International
    Conference on Data Mining (SDM), 2023.

    Examples
    --------
    >>> from priormtl import FeaturePrior, MultiTaskRegressor
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> prior = FeaturePrior.similar([(0, 1)])
    >>> model = MultiTaskRegressor(lam=5.0, feature_prior=prior).fit(X, y, task=task)
    >>> model.coef_.shape, model.predict(X, task=task).shape
    ((4, 6), (120,))
    """

    _: KW_ONLY
    loss: str = "squared"
    dispersion: float | None = None
    exposure: Any = None
    offset: Any = None

    _losses: ClassVar[tuple[str, ...]] = REGRESSION_LOSSES
    predict_interval = predict_interval

    def calibrate(
        self,
        X: object,
        y: object,
        *,
        task: object = None,
        sample_weight: object = None,
        cv: object = DEFAULT_FOLDS,
    ) -> Self:
        """Learn how far predictions are off, for ``predict_interval``.

        The model is fitted once without each fold; the fitted model stays as it is.

        Parameters
        ----------
        X, y, task, sample_weight
            Rows of the fit; see ``fit``.
        cv : int, splitter or iterable of (train, test), default=5
            Folds, as in :class:`MultiTaskRegressorCV`.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        with unchanged_on_error(self):
            table = self._read_table(X, y, task, sample_weight, reset=False)
            tasks = self.tasks_.tolist()
            if set(table.tasks) != set(tasks):
                raise ValueError(
                    f"calibrate needs rows of the {len(tasks)} tasks of the fit: got "
                    f"{len(table.tasks)} tasks; pass the rows that the model was "
                    "fitted to."
                )
            splits = make_splits(cv, table, X, y, by_class=False)
            data, coefs, intercepts, variances = table.to_tasks(), [], [], []
            effects = []
            by_rows = table.crossed is not None or not statistics_pay(data)
            by_rows |= self._family is not None
            for fold in divide(table, data, splits, by_rows=by_rows)[1]:
                posed = self._model().pose(fold.train)
                posed, solution = self._solve(posed, fold.train)
                total = solution.coef
                if self.outlier_tasks:
                    total = solution.point.total
                coefs.append(total.T / posed.scale)
                intercepts.append(solution.intercept)
                effects.append(posed.effects)
                variances.append(prediction_variances(posed, solution.coef))
            models = FoldModels(*map(np.stack, (coefs, intercepts, effects)))
            folds = HeldOut(models, np.stack(variances))
            _, residuals = folds.on_rows(table, splits, tasks, self.fitted_.row_loss)
            assert residuals is not None
            posed = self._known_model().pose(data)
            coef = self.fitted_.shared_coef.T
            final = prediction_variances(posed, coef * posed.scale[:, np.newaxis])
            sizes = len(tasks), len(splits)
            calibration = Calibration.of(residuals, models, *sizes, final)
            self.fitted_ = replace(self.fitted_, calibration=calibration)
        return self

    def _summarize_tensor(
        self, X: Any, y: Any, task: Any, sample_weight: object
    ) -> TaskStatistics | None:
        if self.task is not None or np.ndim(y) != 1:
            return None
        self._need_rows("fit to rows on a device")
        known = self.exposure, self.offset
        if self._family is not None or known != (None, None):
            return None
        found = summarize(X, y, task, sample_weight, device=self.device)
        weight = np.ones(1) if sample_weight is None else host_array(sample_weight)
        self._weight_unit = float(np.mean(weight[weight > 0]))
        self._targets_are_columns = False
        self.n_features_in_ = found.shape[0]
        return found

    def fit_statistics(self, statistics: TaskStatistics) -> Self:
        """Fit the model to sufficient statistics instead of rows.

        Parameters
        ----------
        statistics : TaskStatistics
            Statistics of all tasks, as returned by ``summarize``.

        Returns
        -------
        self
        """
        self._need_rows("fit_statistics")
        if not isinstance(statistics, TaskStatistics):
            raise TypeError(
                f"statistics must be TaskStatistics: got {type(statistics).__name__}; "
                "make them with summarize(X, y, task)."
            )
        # All but what lies on disk was checked as it was made.
        check_statistics(statistics, matrices=statistics.is_mapped)
        with unchanged_on_error(self):
            self._targets_are_columns = False
            self._fit_statistics(statistics)
            self._calibrate_normal()
        return self

    def _calibrate_normal(self) -> None:
        """Variances from training errors and effective degrees of freedom, if known."""
        statistics = self.statistics_
        if self.penalty != "l21" or statistics.is_mapped or not self.coef_.any():
            return
        count, m = np.asarray(statistics.weight), len(self.tasks_)
        errors = task_errors(statistics, self.coef_, self.intercept_)
        try:
            with np.errstate(all="ignore"):
                found = self._covariances(0.5, most=MOST_NUMBERS)
        except (ValueError, np.linalg.LinAlgError):  # too large, or singular
            return
        if not np.isfinite(found.degrees).all():
            return
        # Rows that are left, and the error of estimated coefficients on new rows.
        left = np.maximum(count - found.degrees, 0.1 * count)
        sums = errors / np.where(count > 0, left, 1.0) * (count + found.degrees)
        others = max(m - 1, 1)
        coef = self.coef_ + (self.coef_.mean(axis=0) - self.coef_) * m / others
        level = self.intercept_
        level = level + (level.mean() - level) * m / others
        unseen = np.maximum(task_errors(statistics, coef, level), sums)
        calibration = from_errors(count, sums, unseen, self.n_features_in_)
        self.fitted_ = replace(self.fitted_, calibration=calibration)

    def fit_source(
        self,
        source: object,
        schema: "Schema | None" = None,
        *,
        where: object = None,
        shards: str | os.PathLike[str] | None = None,
        **columns: Any,
    ) -> Self:
        """Fit the model to tables in files of any size, in one pass.

        Parameters
        ----------
        source : path, list of paths, or pyarrow.dataset.Dataset
            CSV, Parquet or Arrow file, or a folder of such files.
        schema : engines.Schema, optional
            Roles of the columns. Alternatively, pass its fields as keyword arguments.
        where : str or pyarrow expression, optional
            Condition that selects the rows to read, such as ``"year >= 2010"``.
        shards : path, optional
            New folder on disk for the statistics. Use it if the statistics (8·m·d²
            bytes) do not fit into memory.
        target : str
            Column that contains the targets.
        task : str
            Column that contains the task labels. Not needed if ``task`` was given to
            the constructor.
        weight : str, optional
            Column that contains the sample weights.
        features : sequence of str, optional
            Feature columns. By default, all remaining columns. Text columns are one-hot
            encoded, with feature names such as ``colour=red``.
        categories : mapping from columns to values, optional
            Values of text columns. By default, they are read from the data.
        missing : {"error", "drop", "mean"}, default="error"
            How to treat missing values: raise an error, drop the row, or impute the
            mean of the column.

        Returns
        -------
        self

        Examples
        --------
        >>> import pyarrow as pa, pyarrow.dataset as ds
        >>> rows = pa.table({"x": [1.0, 2.0, 4.0], "y": [0.0, 1.0, 3.0], "t": [1] * 3})
        >>> model = MultiTaskRegressor(0.0, task_prior=None)
        >>> model.fit_source(ds.dataset(rows), task="t", target="y").coef_.round(6)
        array([[1.]])
        """
        if self.exposure is not None or self.offset is not None:
            raise ValueError(
                "exposure and offset must be None for fit_source, which reads features "
                "only. Use fit with a data frame."
            )
        if self._family is not None:
            rows = read_source_rows(source, schema, where=where, model=self, **columns)
            fitted: Self = fit_rows(self, rows)
            return fitted
        self._need_rows("fit_source")
        summary = read_source(
            source, schema, where=where, shards=shards, model=self, **columns
        )
        return self.fit_statistics(summary.whole)

    def partial_fit(
        self, X: object, y: object, *, task: object = None, sample_weight: object = None
    ) -> Self:
        """Update the model with additional rows.

        The statistics of the rows are added to those of earlier calls. Then the model
        is fitted to all of them. The result does not depend on how rows are divided
        into calls or on their order.

        Parameters
        ----------
        X, y, task, sample_weight
            See ``fit``.

        Returns
        -------
        self
        """
        if self._family is not None:
            raise ValueError(
                f'partial_fit needs loss="squared": got {self.loss!r}, which needs all '
                "rows. Use fit."
            )
        self._need_rows("partial_fit")
        last: Fitted | None = self.__dict__.get("fitted_")
        first = last is None or last.statistics is None
        if first and last is not None:
            raise ValueError(
                "partial_fit cannot continue this fit, which kept no statistics since "
                "X is sparse or has fewer rows than features; begin with partial_fit "
                "on a new estimator."
            )
        with unchanged_on_error(self):
            table = self._read_table(X, y, task, sample_weight, reset=first)
            data = table.to_tasks()
            statistics = summarize_tasks(data)
            if not first:
                statistics = self.statistics_ + statistics
            return self._fit_statistics(statistics)
