"""MultiTaskRegressor: squared loss."""

import os
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_array

from priormtl._arrays import Array, Index
from priormtl.data import (
    TaskData,
    TaskStatistics,
    as_frame,
    read_targets,
    summarize_tasks,
)
from priormtl.estimators.base import MultiTaskEstimator, unchanged_on_error
from priormtl.estimators.goodness import training_r2
from priormtl.estimators.linear import LinearMultiTask
from priormtl.estimators.setups import Setup
from priormtl.estimators.sources import read_source
from priormtl.solvers import Solution

if TYPE_CHECKING:
    from priormtl.engines import Schema

__all__ = ["MultiTaskRegressor", "RegressionTasks"]


class RegressionTasks(RegressorMixin, MultiTaskEstimator):
    """What regressors share: numbers as targets, predictions and R²."""

    def predict(self, X: Any, *, task: Any = None) -> Array:
        """Predict one value per row, or (n, m) for a model of (n, m) targets.

        Parameters
        ----------
        X : (n, d) array, sparse matrix or data frame
            Features, with the task's column if the model was fitted with one; after
            ``fit_source`` also a table with the columns of its files.
        task : (n,) labels, or one label, optional
            Task of each row; a single text, number or date is that of all rows. See
            ``unseen_tasks`` for unknown ones.
        """
        return self._scores(X, task)[0]

    def score(
        self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None
    ) -> float:
        """R² of the predictions, averaged over columns for (n, m) targets."""
        prediction = self.predict(X, task=task)
        target = self._check_targets(y)
        weight = None if sample_weight is None else read_targets(sample_weight)
        if prediction.ndim == 1:
            return float(r2_score(np.ravel(target), prediction, sample_weight=weight))
        scores = [
            _measured_r2(target[:, i], prediction[:, i], weight)
            for i in range(prediction.shape[1])
        ]
        return float(np.mean(scores))

    def _check_targets(self, y: Any) -> np.ndarray:
        if as_frame(y) is not None or hasattr(y, "to_numpy"):
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

    def _code_targets(
        self, y: np.ndarray, codes: Index | None, tasks: tuple[Hashable, ...]
    ) -> Array:
        return y


class MultiTaskRegressor(RegressionTasks, LinearMultiTask):
    """Linear regression for many related tasks, with prior information.

    Minimises over coefficients P (features × tasks) and intercepts b::

        1/2 Σ w (x p_i + b_i − y)² + lam ‖P‖₂,₁ + theta/2 ‖D P‖² + epsilon/2 tr(P L Pᵀ)

    where ``lam`` picks one set of features for all tasks, D holds known relations
    between features, and L ties related tasks. Strengths are as in the paper: sums,
    not means, over rows.

    Parameters
    ----------
    lam, theta, epsilon : float
        Strengths of the row penalty, the feature prior and the task prior.
    feature_prior : FeaturePrior, matrix D or None
        Which features act alike, or oppositely.
    task_prior : TaskPrior, "chain", "mean" or None
        Which tasks are alike: neighbours in order, or all like their mean.
    penalty : {"l21", "nuclear"}
        Whole features enter or leave, or tasks share a subspace.
    fit_intercept : True, False or "tied"
        Free intercepts, none, or intercepts tied as the tasks are:
        plus intercept_strength/2 bᵀ L b.
    intercept_strength : float
        Strength of that tie; with ``tie_weights="adaptive"`` relative to the estimate.
    feature_weights : (d,) array, optional
        Positive; multiply ``lam`` feature by feature.
    tie_weights : (d,) array, "adaptive" or None
        Not negative; multiply ``epsilon`` feature by feature. "adaptive" estimates
        them, and the strength of tied intercepts, as a mixed model does (REML): noise
        variance over the variance of a coefficient between tasks, so that
        ``epsilon=1`` is the mixed model's answer. ``lam``, ``theta`` and the feature
        prior play no part in the estimate; weights of rows count as repetitions. A
        coefficient that does not vary gets 100,000 times the mean curvature of a
        task, a feature that is constant or zero gets 1.
    standardize : bool
        Divide features by their pooled standard deviation inside the fit;
        ``coef_`` stays in the units of X.
    solver : {"auto", "gd", "ista", "ista-reverse", "fista", "linear"}
        "auto" or one of the paper's five methods.
    tol : float
        Stop at a duality gap of ``tol`` times the objective at P = 0.
    max_iter : int
        Most steps; reached before ``tol``, a ConvergenceWarning names the gap.
    warm_start : bool
        Start from the last fit's coefficients.
    task : str or int, optional
        Column of X that holds the task: a name in a data frame, a position in an
        array. Then ``fit`` and ``predict`` need no ``task`` argument.
    unseen_tasks : {"error", "shared", "nearest"}
        What tasks get that come up in prediction only; read then, so that
        ``set_params(unseen_tasks="shared")`` works after the fit, too. "error": a
        ValueError with the names that are known. "shared": what tasks have in common,
        the mean of coefficients and intercepts over all tasks (with
        ``task_prior="mean"`` the fixed effects of a mixed model). "nearest": the mean
        over the nearest known tasks: those at the fewest steps where ``task_prior``
        is a graph, groups or a chain in a given order, those with the least
        difference where it is a chain of numbers or dates, or by places in a
        categorical that holds all tasks; with ``task_prior="mean"`` all are equally
        near. No model is fitted anew, and known tasks keep theirs. With "nearest" in
        ``fit``, ``task_prior`` may name tasks without rows.
    outlier_tasks : bool
        Let tasks that do not belong have a part of their own: P = S + O, with
        outlier_strength Σ_i √t_i ‖o_i‖ added to the objective, and lam, theta and
        epsilon for the shared part S alone. t_i is the trace of task i's curvature,
        so that many rows alone make no outlier.
    outlier_strength : float, (m,) array, optional
        Pull, in units of the target (for logistic loss in those of noise), up to
        which a task, or each task, has no part of its own; inf: none ever. None:
        tasks are tested against what the others have in common, under strong ties
        whatever ``epsilon`` is; those beyond noise and the usual variation between
        tasks have a part, and no others. Where none is, the fit is that without.

    Attributes
    ----------
    coef_ : (m, d) array
        Coefficients, one row per task (P transposed).
    intercept_ : (m,) array
        Intercepts.
    tasks_ : (m,) array
        Task labels.
    objective_, dual_gap_ : float
        Objective reached, and how far the optimum can be below it, at most.
    n_iter_ : int
        Steps taken.
    tie_weights_ : (d,) array
        What multiplied ``epsilon``, for standardised features if ``standardize``.
    intercept_strength_ : float
        Strength of the tie between intercepts; only with tied intercepts.
    shared_coef_, own_coef_ : (m, d) arrays
        S and O, whose sum is ``coef_``; only with ``outlier_tasks``.
    outlier_tasks_ : array
        Labels of the tasks with a part of their own.
    outlier_strength_ : float
        As set (the least), or what tasks pay that were found; inf where none was.
    n_features_in_, feature_names_in_ : int, array
        Features (the task's column not among them), and their names where X has any.
    encoding_, task_column_ : Encoding, str
        Where tables were learned from (``fit_source``): which columns became which
        features, and which held the tasks. Tables with these columns, or with those
        of the features, can be predicted as they are; others in them are ignored.
    feature_prior_ : FeaturePrior or None
        Prior with names resolved and rules carried out.
    task_weight_ : (m,) array
        Rows of each task: the sum of their weights.
    task_r2_ : (m,) array
        R² of each task on the rows that it was trained on; NaN for constant targets.
    feature_scale_ : (d,) array
        What features were divided by: ones unless ``standardize``.
    statistics_ : TaskStatistics
        What the model has learned from; absent where X is sparse or has fewer rows
        than features. ``partial_fit`` adds to it.

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

    def _publish(
        self, data: TaskData | TaskStatistics, setup: Setup, solution: Solution
    ) -> None:
        super()._publish(data, setup, solution)
        self.task_r2_ = training_r2(setup.moments, self.coef_, self.intercept_)

    def fit_statistics(self, statistics: TaskStatistics) -> Self:
        """Learn from statistics instead of rows; see ``summarize``."""
        if not isinstance(statistics, TaskStatistics):
            raise TypeError(
                f"statistics must be TaskStatistics: got {type(statistics).__name__}; "
                "make them with summarize(X, y, task)."
            )
        with unchanged_on_error(self):
            self._targets_are_columns = False
            return self._adopt_statistics(statistics)

    def fit_source(
        self,
        source: Any,
        schema: "Schema | None" = None,
        *,
        where: Any = None,
        shards: str | os.PathLike[str] | None = None,
        **columns: Any,
    ) -> Self:
        """Learn from tables in files, however large, in one pass.

        Parameters
        ----------
        source : path, list of paths, or pyarrow.dataset.Dataset
            CSV, Parquet or Arrow file, or a folder of such files.
        schema : engines.Schema, optional
            What the columns mean; or give its fields as keywords.
        where : str or pyarrow expression, optional
            Which rows to read, such as ``"year >= 2010"``.
        shards : path, optional
            New folder for the statistics, if their 8·m·d² bytes exceed memory: they are
            written there, and the model is fitted from there.
        target, task, weight : str
            Columns of targets, task labels and (optionally) sample weights; ``task``
            may have been given to the constructor.
        features : sequence of str, optional
            Feature columns; by default all others. Each value of a text column becomes
            a feature named like ``colour=red``.
        categories : mapping from columns to values, optional
            Values of text columns, if they are not to be taken from the rows.
        missing : {"error", "drop", "mean"}
            How to treat missing values: raise an error, drop the row, or fill in the
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
        summary = read_source(
            source, schema, where=where, shards=shards, model=self, **columns
        )
        return self.fit_statistics(summary.whole)

    def partial_fit(
        self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None
    ) -> Self:
        """Learn from these rows and all that earlier calls have seen.

        Parameters are those of ``fit``. Calls add up statistics, so that the order of
        the rows and their grouping do not matter.
        """
        first = not hasattr(self, "statistics_")
        if first and hasattr(self, "coef_"):
            raise ValueError(
                "partial_fit cannot continue this fit, which kept no statistics since "
                "X is sparse or has fewer rows than features; begin with partial_fit "
                "on a new estimator."
            )
        with unchanged_on_error(self):
            data = self._read_samples(X, y, task, sample_weight, reset=first)
            statistics = summarize_tasks(data)
            if not first:
                statistics = self.statistics_ + statistics
            return self._adopt_statistics(statistics)


def _measured_r2(target: Array, prediction: Array, weight: Array | None) -> float:
    rows = ~np.isnan(target)
    weights = None if weight is None else weight[rows]
    return float(r2_score(target[rows], prediction[rows], sample_weight=weights))
