"""MultiTaskRegressorCV, MultiTaskClassifierCV: strengths chosen on folds."""

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
    """MultiTaskRegressor whose strengths are chosen by cross-validation.

    For each fold, theta and epsilon a path over decreasing lam is solved, each start
    from the last solution. With squared loss statistics of each fold are made once,
    training parts are merges of them, and every validation error comes from the
    held-out statistics: rows are read once for the whole grid. (Where samples are
    smaller than Gram matrices, and for other scorings, rows are used instead.)

    Parameters
    ----------
    lams : array, int or None
        Values of lam to try; or how many (None: 10) on a geometric grid from lam_max,
        at which all coefficients vanish, down to a thousandth of it.
    thetas, epsilons : sequences of float
        Values of theta and epsilon to try; all are tried with all.
    cv : int, splitter of scikit-learn, or iterable of (train, test)
        A number of folds, even within each task (and class), dealt out in an order
        that is shuffled but always the same; a task's only row stays in training. In
        other splits every training part must hold every task.
    scoring : None, name or callable
        None: negative mean squared error over all held-out rows, weighted. Others as
        in scikit-learn: they see the held-out rows without weights, with the task's
        position as the last column of X.
    n_jobs : int, optional
        Threads; None is one, −1 all processors. Results do not depend on it.
    selection : {"best", "1se"}
        Best mean score, or the largest lam whose mean score is within one standard
        error of it.
    feature_prior, task_prior, penalty, fit_intercept, intercept_strength, \
feature_weights, tie_weights, standardize, solver, tol, max_iter, task, \
unseen_tasks
        As in :class:`MultiTaskRegressor`; scales, correlations and other things that
        are learned from data are learned from each training part anew.
    outlier_tasks : bool
        Try tasks with parts of their own too, around the strengths chosen without
        (lam and its neighbours, and no weaker ties). They are taken where their mean
        score is better, with ``outlier_strengths`` by more than one standard error of
        the difference; else the fit is that without.
    outlier_strengths : sequence of float, optional
        Values of ``outlier_strength`` to try beside inf; None: tasks are tested as by
        the estimator with fixed strengths, and are let out where held-out rows gain.

    Attributes
    ----------
    lam_, theta_, epsilon_ : float
        Strengths chosen.
    outlier_strength_ : float
        That chosen for outlier tasks, inf: none; only with ``outlier_tasks``.
    best_score_ : float
        Their mean score over the splits.
    best_index_ : int
        Their place in ``cv_results_``.
    cv_results_ : dict
        Scores and times of all candidates, under the names of GridSearchCV.
    n_splits_ : int
        Number of splits.
    coef_, intercept_, tasks_, objective_, dual_gap_, n_iter_, n_features_in_, \
feature_names_in_, feature_prior_, statistics_, task_weight_, task_r2_, \
feature_scale_, shared_coef_, own_coef_, outlier_tasks_
        Of the fit to all rows, as in :class:`MultiTaskRegressor`.

    Notes
    -----
    Searches of more than two seconds show a bar on terminals, where rich is installed,
    and write log lines of level INFO to the logger "priormtl" elsewhere. Callbacks of
    scikit-learn, set by ``set_callbacks`` from version 1.9 on, take their place.

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
        """Choose strengths on statistics held out in turn, then learn from all.

        Parameters
        ----------
        parts : two or more TaskStatistics
            Of disjoint rows, such as chunks or sites; see ``summarize``. They take the
            place of ``cv``. Tasks that one part alone holds stay in training.

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
        """Choose strengths and learn from tables in files, however large, in one pass.

        Parameters
        ----------
        source, schema, where, target, task, weight, features, categories, missing
            As in :meth:`MultiTaskRegressor.fit_source`. Means that replace missing
            values are those of all rows, held out or not.
        key : str, optional
            Column whose values decide in which of ``cv`` folds (an integer) a row is;
            by default all columns in use. Tasks whose rows are all in one fold are
            always trained on.
        shards : path, optional
            New folder for the statistics, if their 8·m·d² bytes per fold exceed memory:
            they are written there, and read from there.

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
    """MultiTaskClassifier whose strengths are chosen by cross-validation.

    Parameters
    ----------
    lams, thetas, epsilons, cv, n_jobs, selection
        As in :class:`MultiTaskRegressorCV`.
    scoring : None, name or callable
        None: area under the ROC curve, averaged over the tasks that show both classes
        in the held-out rows. Others as in :class:`MultiTaskRegressorCV`.
    feature_prior, task_prior, penalty, fit_intercept, intercept_strength, \
feature_weights, tie_weights, standardize, solver, tol, max_iter, task, loss, \
unseen_tasks
        As in :class:`MultiTaskClassifier`.
    outlier_tasks, outlier_strengths
        As in :class:`MultiTaskRegressorCV`.

    Attributes
    ----------
    lam_, theta_, epsilon_, outlier_strength_, best_score_, best_index_, cv_results_, \
n_splits_
        As in :class:`MultiTaskRegressorCV`.
    classes_, coef_, intercept_, tasks_, objective_, dual_gap_, n_iter_, \
n_features_in_, feature_names_in_, feature_prior_, task_weight_, feature_scale_, \
shared_coef_, own_coef_, outlier_tasks_
        Of the fit to all rows, as in :class:`MultiTaskClassifier`.

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
