"""Estimators whose strengths are selected by cross-validation."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from priormtl._arrays import Array
from priormtl.data import (
    Table,
    TaskData,
    TaskStatistics,
    align_tasks,
    condense,
    statistics_pay,
)
from priormtl.estimators.base import unchanged_on_error
from priormtl.estimators.classifier import ClassificationTasks, MultiTaskClassifier
from priormtl.estimators.grids import EPSILONS, THETAS
from priormtl.estimators.labels import refuse_lone_classes
from priormtl.estimators.linear import LinearMultiTask
from priormtl.estimators.parts import check_parts, merge_folds
from priormtl.estimators.progress import with_callbacks
from priormtl.estimators.regressor import MultiTaskRegressor, RegressionTasks
from priormtl.estimators.search_settings import shared_settings
from priormtl.estimators.searching import CrossValidated
from priormtl.estimators.sources import count_folds, hold_back, read_source
from priormtl.estimators.splits import DEFAULT_FOLDS
from priormtl.selection import (
    MeanAuc,
    RowError,
    Score,
    StatisticsError,
    task_places,
)

if TYPE_CHECKING:
    from priormtl.engines import Schema

__all__ = ["MultiTaskClassifierCV", "MultiTaskRegressorCV"]


class MultiTaskRegressorCV(CrossValidated, RegressionTasks):
    """MultiTaskRegressor with strengths selected by cross-validation.

    Parameters
    ----------
    lams : array, int or None, default=None
        Values of lam to try, or their number (None: 10). A number gives a geometric
        grid from lam_max, the smallest value for which all coefficients are zero, down
        to lam_max / 1000.
    thetas : sequence of float, default=(0.1, 1, 10, 100)
        Values of theta to try.
    epsilons : sequence of float, default=(0.1, 1, 10, 100, 1000)
        Values of epsilon to try. The grid contains all combinations of lams, thetas
        and epsilons.
    cv : int, splitter or iterable of (train, test), default=5
        Number of folds, a scikit-learn splitter, or splits. A number gives shuffled,
        reproducible folds that are stratified by task (and class); the row of a task
        with a single row is always used for training. With other splits, every
        training part must contain every task.
    scoring : None, str or callable, default=None
        Score to maximise. None is the negative weighted mean squared error over all
        held-out rows. Other scorers are used as in scikit-learn: they are called
        without sample weights, and the last column of X is the position of the task.
    n_jobs : int, optional
        Number of threads. None means 1, and -1 means all processors. Results are
        bit-identical for any ``n_jobs``.
    selection : {"best", "1se"}, default="best"
        "best" selects the candidate with the best mean score. "1se" selects the
        largest lam whose mean score is within one standard error of the best.
    feature_prior, task_prior, penalty, fit_intercept, intercept_strength, \
feature_weights, tie_weights, standardize, solver, tol, max_iter, task, \
unseen_tasks
        See :class:`MultiTaskRegressor`. Everything that is estimated from data, such
        as scales and correlations, is estimated on each training part separately.
    outlier_tasks : bool, default=False
        Whether to also try models with outlier tasks. They are fitted with strengths
        close to those selected without outlier tasks: neighbouring values of lam, and
        the same or larger values of epsilon. They are selected if their mean score is
        better; with ``outlier_strengths``, it must be better by more than one standard
        error of the difference.
    outlier_strengths : sequence of float, optional
        Values of ``outlier_strength`` to try in addition to inf. If None, outlier
        tasks are identified by a test, as in :class:`MultiTaskRegressor`.

    Attributes
    ----------
    lam_, theta_, epsilon_ : float
        Selected strengths.
    outlier_strength_ : float
        Selected threshold for outlier tasks; inf means that there are none. Only with
        ``outlier_tasks``.
    best_score_ : float
        Mean score of the selected candidate over the splits.
    best_index_ : int
        Index of the selected candidate in ``cv_results_``.
    cv_results_ : dict
        Scores and times of all candidates, with the same keys as in GridSearchCV.
    n_splits_ : int
        Number of splits.
    coef_, intercept_, tasks_, objective_, dual_gap_, n_iter_, n_features_in_, \
feature_names_in_, feature_prior_, statistics_, task_weight_, task_r2_, \
feature_scale_, shared_coef_, own_coef_, outlier_tasks_
        Results of the final fit to all rows; see :class:`MultiTaskRegressor`.

    Notes
    -----
    For each fold, theta and epsilon, a path over decreasing lam is computed with warm
    starts. With the default scoring, each row is read only once: statistics are
    computed for each fold, statistics of training parts are sums of them, and
    validation errors are computed from the statistics of the held-out fold. Rows are
    used instead if there are fewer of them than features, or with other scorers.

    Searches that take more than two seconds display a progress bar in terminals if
    rich is installed. Otherwise they log to the logger "priormtl" at level INFO. With
    scikit-learn 1.9 or later, callbacks set by ``set_callbacks`` replace both.

    Examples
    --------
    >>> from priormtl import MultiTaskRegressorCV
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> model = MultiTaskRegressorCV(epsilons=[0.1, 10.0]).fit(X, y, task=task)
    >>> model.epsilon_, len(model.cv_results_["params"])
    (10.0, 80)
    """

    @with_callbacks
    def fit_statistics(self, parts: Sequence[TaskStatistics]) -> Self:
        """Select strengths and fit the model, given statistics of disjoint rows.

        Parameters
        ----------
        parts : sequence of TaskStatistics
            Two or more statistics of disjoint rows, for example of chunks or sites, as
            returned by ``summarize``. Each is held out once, so ``cv`` is not used.
            Tasks that are present in only one part are always used for training.

        Returns
        -------
        self
        """
        check_parts(parts)
        self._refuse_scorings()
        return self._fit_parts(*hold_back(parts))

    @with_callbacks
    def fit_source(
        self,
        source: Any,
        schema: "Schema | None" = None,
        *,
        where: Any = None,
        shards: str | os.PathLike[str] | None = None,
        **columns: Any,
    ) -> Self:
        """Select strengths and fit the model to files of any size, in one pass.

        Parameters
        ----------
        source, schema, where, target, task, weight, features, categories, missing
            See :meth:`MultiTaskRegressor.fit_source`. Imputed means are computed from
            all rows, including held-out rows.
        key : str, optional
            Column whose values determine the fold of each row. By default, all columns
            in use determine it. ``cv`` must be an integer. Tasks with all rows in one
            fold are always used for training.
        shards : path, optional
            New folder on disk for the statistics. Use it if the statistics (8·m·d²
            bytes per fold) do not fit into memory.

        Returns
        -------
        self
        """
        self._refuse_scorings()
        columns["folds"] = count_folds(self.cv)
        summary = read_source(
            source, schema, where=where, shards=shards, model=self, **columns
        )
        return self._fit_parts(*hold_back(summary.parts))

    def _refuse_scorings(self) -> None:
        if not self._scores_by_default:
            raise ValueError(
                f"scoring={self.scoring!r} needs rows: statistics suffice for "
                "scoring=None only."
            )

    def _fit_parts(self, *parts: TaskStatistics) -> Self:
        """Hold out all parts in turn but the last, which always trains."""
        root = self._begin_callbacks(None, None)
        with unchanged_on_error(self):
            *tests, always = parts
            self._targets_are_columns = False
            scores = [StatisticsError(test) for test in tests]
            folds = merge_folds(tests, always, scores)
            assert isinstance(folds.whole, TaskStatistics)
            self._adopt_features(folds.whole)
            self._choose_and_fit(folds, root)
        if root is not None:
            root.call_on_fit_task_end(estimator=self)
        return self

    def _plain(self, lam: float, theta: float, epsilon: float) -> LinearMultiTask:
        return MultiTaskRegressor(lam, theta, epsilon, **shared_settings(self))

    @property
    def _folds_by_class(self) -> bool:
        return False

    @property
    def _scores_by_default(self) -> bool:
        return self.scoring is None or self.scoring == "neg_mean_squared_error"

    @property
    def _statistics_score(self) -> bool:
        return True

    def _score_rows(self, test: Table, tasks: Sequence[Any]) -> Score:
        data = test.to_tasks()
        if statistics_pay(data):
            held_out = condense(data)
            assert isinstance(held_out, TaskStatistics)
            return StatisticsError(align_tasks(held_out, tuple(tasks)))
        return RowError(data, task_places(test.tasks, tasks))

    def _held_out_targets(self, test: Table, tasks: Sequence[Any]) -> Array:
        return test.y


class MultiTaskClassifierCV(CrossValidated, ClassificationTasks):
    """MultiTaskClassifier with strengths selected by cross-validation.

    Parameters
    ----------
    lams, thetas, epsilons, cv, n_jobs, selection
        See :class:`MultiTaskRegressorCV`.
    scoring : None, str or callable, default=None
        Score to maximise. None is the area under the ROC curve, averaged over the
        tasks that have both classes in the held-out rows. For other scorers, see
        :class:`MultiTaskRegressorCV`.
    feature_prior, task_prior, penalty, fit_intercept, intercept_strength, \
feature_weights, tie_weights, standardize, solver, tol, max_iter, task, loss, \
unseen_tasks
        See :class:`MultiTaskClassifier`.
    outlier_tasks, outlier_strengths
        See :class:`MultiTaskRegressorCV`.

    Attributes
    ----------
    lam_, theta_, epsilon_, outlier_strength_, best_score_, best_index_, cv_results_, \
n_splits_
        See :class:`MultiTaskRegressorCV`.
    classes_, coef_, intercept_, tasks_, objective_, dual_gap_, n_iter_, \
n_features_in_, feature_names_in_, feature_prior_, task_weight_, feature_scale_, \
shared_coef_, own_coef_, outlier_tasks_
        Results of the final fit to all rows; see :class:`MultiTaskClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from priormtl import MultiTaskClassifierCV, one_vs_one
    >>> X, y, task = one_vs_one(*load_iris(return_X_y=True))
    >>> model = MultiTaskClassifierCV(lams=4, epsilons=[1.0]).fit(X, y, task=task)
    >>> bool(model.best_score_ > 0.95)
    True
    """

    def __init__(
        self,
        lams: Any = None,
        thetas: Any = THETAS,
        epsilons: Any = EPSILONS,
        *,
        cv: Any = DEFAULT_FOLDS,
        scoring: Any = None,
        n_jobs: int | None = None,
        selection: str = "best",
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
        task: Any = None,
        loss: str = "logistic",
        unseen_tasks: str = "error",
        outlier_tasks: bool = False,
        outlier_strengths: Any = None,
    ) -> None:
        super().__init__(
            lams,
            thetas,
            epsilons,
            cv=cv,
            scoring=scoring,
            n_jobs=n_jobs,
            selection=selection,
            feature_prior=feature_prior,
            task_prior=task_prior,
            penalty=penalty,
            fit_intercept=fit_intercept,
            intercept_strength=intercept_strength,
            feature_weights=feature_weights,
            tie_weights=tie_weights,
            standardize=standardize,
            solver=solver,
            tol=tol,
            max_iter=max_iter,
            task=task,
            unseen_tasks=unseen_tasks,
            outlier_tasks=outlier_tasks,
            outlier_strengths=outlier_strengths,
        )
        self.loss = loss

    def _plain(self, lam: float, theta: float, epsilon: float) -> LinearMultiTask:
        settings = shared_settings(self)
        return MultiTaskClassifier(lam, theta, epsilon, loss=self.loss, **settings)

    @property
    def _folds_by_class(self) -> bool:
        return True

    def _score_rows(self, test: Table, tasks: Sequence[Any]) -> Score:
        return MeanAuc(test.to_tasks(), task_places(test.tasks, tasks))

    def _held_out_targets(self, test: Table, tasks: Sequence[Any]) -> np.ndarray:
        places = task_places(test.tasks, tasks)
        codes = places if test.codes is None else places[test.codes]
        return self._classes[codes, (test.y > 0).astype(np.intp)]

    def _fitted_shell(self, test: Table, m: int) -> LinearMultiTask:
        shell = super()._fitted_shell(test, m)
        assert isinstance(shell, MultiTaskClassifier)
        shell._set_classes(self._classes)
        return shell

    def _check_training(self, train: TaskData, number: int) -> None:
        """Fail if free intercepts of logistic loss have no finite best value."""
        if not self._uses_logistic or self.fit_intercept is not True:
            return
        refuse_lone_classes(train, number)
