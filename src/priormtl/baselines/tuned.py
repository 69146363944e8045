"""TunedRegressor, TunedClassifier: a compared method, its settings chosen on folds."""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from threadpoolctl import threadpool_limits

from priormtl._arrays import Array, Matrix
from priormtl.baselines.base import Baseline, Settings
from priormtl.baselines.catalogue import find_baseline
from priormtl.baselines.models import TaskModel
from priormtl.baselines.trials import (
    Judge,
    Trial,
    TrialScores,
    count_paths,
    run_trials,
    score_samples,
)
from priormtl.data import Table, TaskData, TaskStatistics
from priormtl.estimators import (
    DEFAULT_FOLDS,
    ClassificationTasks,
    MultiTaskEstimator,
    RegressionTasks,
    check_count,
    check_jobs,
    make_splits,
    refuse_lone_classes,
    show_progress,
    unchanged_on_error,
    with_task_column,
)
from priormtl.selection import (
    Split,
    mean_auc,
    mean_scores,
    results_table,
    row_error,
    take_test,
    take_training,
    task_places,
)

__all__ = ["DEFAULT_SETTINGS", "TunedClassifier", "TunedRegressor", "tuned"]

DEFAULT_SETTINGS = 20


class _Tuned(MultiTaskEstimator):
    """A compared method whose settings are chosen on held-out rows."""

    estimator_: Baseline
    best_params_: dict[str, Any]
    best_score_: float
    best_index_: int
    n_splits_: int
    cv_results_: dict[str, Any]

    def __init__(
        self,
        method: Any = "clmt",
        settings: Any = None,
        *,
        n_settings: int = DEFAULT_SETTINGS,
        cv: Any = DEFAULT_FOLDS,
        scoring: Any = None,
        n_jobs: int | None = None,
        task: Any = None,
    ) -> None:
        self.method = method
        self.settings = settings
        self.n_settings = n_settings
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.task = task

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        task: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
    ) -> Self:
        """Choose settings on held-out rows, then learn from all rows with them.

        Parameters
        ----------
        X, y, task, sample_weight
            As in :meth:`MultiTaskRegressor.fit`.
        groups : (n,) labels, optional
            Groups for a splitter given as ``cv``, such as ``LeaveOneGroupOut()``.

        Returns
        -------
        self
        """
        with unchanged_on_error(self):
            table = self._read_table(X, y, task, sample_weight, reset=True)
            data = table.to_tasks()
            by_class = self._classifies
            splits = make_splits(self.cv, table, X, y, groups, by_class=by_class)
            self._choose_and_fit(table, data, splits)
        return self

    @property
    @abstractmethod
    def _classifies(self) -> bool:
        """Whether targets are two classes per task."""

    @abstractmethod
    def _judge_samples(self, test: TaskData, scores: Array) -> float:
        """Default score of held-out rows."""

    @abstractmethod
    def _held_out_targets(self, test: Table, tasks: Sequence[Any]) -> np.ndarray:
        """Targets as scorers of scikit-learn want them."""

    def _adopt(self, model: Baseline, table: Table) -> None:
        """Let a plain method know what was read, as if it had read it."""
        model.n_features_in_ = self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            model.feature_names_in_ = self.feature_names_in_
        model._targets_are_columns = table.codes is None

    def _plain(self) -> Baseline:
        """The method with fixed settings."""
        method = self.method
        if isinstance(method, str):
            return find_baseline(method, classify=self._classifies)()
        wanted = ClassificationTasks if self._classifies else RegressionTasks
        if not isinstance(method, Baseline) or not isinstance(method, wanted):
            kind = "classifier" if self._classifies else "regressor"
            raise TypeError(
                f"method must be a name or a {kind} of priormtl.baselines: got "
                f"{method!r}."
            )
        return clone(method).set_params(task=None)

    def _choose_and_fit(
        self, table: Table, data: TaskData, splits: list[Split]
    ) -> None:
        plain = self._plain()
        prepared = plain._prepare(data)
        bound = plain._bind(prepared.data)
        settings = self._list_settings(plain, bound)
        self._publish_search(settings, self._search(plain, settings, table, splits))
        model = plain.set_params(**self.best_params_)
        self._adopt(model, table)
        model._fit_bound(bound, prepared)
        self.estimator_, self.tasks_ = model, model.tasks_
        for name in ("coef_", "intercept_", "dual_gap_", "residual_"):
            self.__dict__.pop(name, None)
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))

    def _list_settings(self, plain: Baseline, bound: Any) -> list[Settings]:
        if self.settings is None:
            return plain._suggest(bound, check_count("n_settings", self.n_settings))
        listed: list[Settings] = [dict(part) for part in self.settings]
        if not listed:
            raise ValueError("settings must list at least one setting: got none.")
        return listed

    def _search(
        self,
        plain: Baseline,
        settings: Sequence[Settings],
        table: Table,
        splits: list[Split],
    ) -> TrialScores:
        jobs = check_jobs(self.n_jobs)
        trials = [
            Trial(self._training(table, split, k), self._judge(table, split, k))
            for k, split in enumerate(splits)
        ]
        name = f"{type(plain).__name__}, {len(splits)} splits"
        total = len(trials) * count_paths(plain, settings)
        # One BLAS thread for any number of jobs: equal bits, and no threads of threads.
        with (
            threadpool_limits(1, user_api="blas"),
            show_progress(self, None, name, total) as advance,
        ):
            return run_trials(plain, settings, trials, n_jobs=jobs, advance=advance)

    def _training(
        self, table: Table, split: Split, number: int
    ) -> Callable[[], TaskData]:
        def take() -> TaskData:
            train = take_training(table, split, number)
            self._check_training(train, number)
            return train

        return take

    def _check_training(self, train: TaskData, number: int) -> None:
        """Fail if nothing can be learned from a training part."""

    def _judge(self, table: Table, split: Split, number: int) -> Judge:
        """What judges models on the held-out rows of a split."""
        test = take_test(table, split, number)
        if self.scoring is not None:
            return self._judge_by_scorer(test, table.tasks)
        data, places = test.to_tasks(), task_places(test.tasks, table.tasks)
        return lambda model: self._judge_samples(
            data, score_samples(model, data, places)
        )

    def _judge_by_scorer(self, test: Table, tasks: Sequence[Any]) -> Judge:
        """Ask a scorer of scikit-learn, with the task's position as last column."""
        y = self._held_out_targets(test, tasks)
        X = test.X
        if test.codes is not None:
            X = with_task_column(X, task_places(test.tasks, tasks)[test.codes])
        elif len(test.tasks) < len(tasks) or not test.measured().all():
            raise ValueError(
                f"scoring={self.scoring!r} needs every target of the held-out rows; "
                "where some were not measured, use scoring=None."
            )

        def judge(model: TaskModel) -> float:
            shell = self._shell(model, test, len(tasks))
            return float(check_scoring(shell, scoring=self.scoring)(shell, X, y))

        return judge

    def _shell(self, model: TaskModel, test: Table, m: int) -> Baseline:
        """Plain method around a model, with the task in a last column."""
        shell = self._plain()
        self._adopt(shell, test)
        shell.__dict__.pop("feature_names_in_", None)
        shell._model, shell.tasks_ = model, np.arange(m)
        shell.task = None if test.codes is None else self.n_features_in_
        return shell

    def _publish_search(self, settings: Sequence[Settings], found: TrialScores) -> None:
        mean = mean_scores(found.scores)
        if np.all(np.isnan(mean)):
            raise ValueError(
                "no setting has a score on any split: with AUC every held-out part "
                "shows one class only; use fewer folds, or another scoring."
            )
        if found.short:
            warnings.warn(
                f"{found.short} of {found.scores.size} fits on training parts did not "
                "reach their tolerance; their scores are approximate: raise max_iter "
                "or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
        self.best_index_ = int(np.nanargmax(mean))
        self.best_params_ = dict(settings[self.best_index_])
        self.best_score_ = float(mean[self.best_index_])
        self.n_splits_ = found.scores.shape[1]
        self.cv_results_ = results_table(settings, *found[:3])

    def _fit_tasks(self, data: TaskData | TaskStatistics) -> None:
        raise TypeError("a search needs rows: call fit.")

    def _task_scores(self, X: Matrix, i: int) -> Array:
        return self.estimator_._task_scores(X, i)


class TunedRegressor(RegressionTasks, _Tuned):
    """A compared method for numbers, its settings chosen by cross-validation.

    Folds and scores are those of :class:`MultiTaskRegressorCV`, so that methods differ
    in nothing but themselves.

    Parameters
    ----------
    method : name, or regressor of ``priormtl.baselines``
        What is tuned; settings that are not tried stay as they are in it.
    settings : list of dicts, optional
        Settings to try; by default those that the method suggests for the data.
    n_settings : int
        How many it may suggest.
    cv, n_jobs
        As in :class:`MultiTaskRegressorCV`.
    scoring : None, name or callable
        None: negative mean squared error over all held-out rows, weighted.
    task : str or int, optional
        Column of X that holds the task.

    Attributes
    ----------
    estimator_ : regressor
        The method, fitted to all rows with the best settings.
    best_params_, best_score_, best_index_, cv_results_, n_splits_
        As in GridSearchCV.
    coef_, intercept_, dual_gap_, residual_
        Those of ``estimator_``, where it has them.
    tasks_, n_features_in_, feature_names_in_
        As in :class:`MultiTaskRegressor`.

    Examples
    --------
    >>> from priormtl.baselines import TunedRegressor
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> model = TunedRegressor("clmt", n_settings=5).fit(X, y, task=task)
    >>> len(model.cv_results_["params"]), sorted(model.best_params_)
    (5, ['lam'])
    """

    @property
    def _classifies(self) -> bool:
        return False

    def _judge_samples(self, test: TaskData, scores: Array) -> float:
        return row_error(test, scores)

    def _held_out_targets(self, test: Table, tasks: Sequence[Any]) -> np.ndarray:
        return test.y


class TunedClassifier(ClassificationTasks, _Tuned):
    """A compared method for two classes per task, tuned by cross-validation.

    Parameters
    ----------
    method : name, or classifier of ``priormtl.baselines``
        What is tuned; settings that are not tried stay as they are in it.
    scoring : None, name or callable
        None: area under the ROC curve, averaged over the tasks that show both classes
        in the held-out rows.
    settings, n_settings, cv, n_jobs, task
        As in :class:`TunedRegressor`.

    Attributes
    ----------
    classes_
        As in :class:`MultiTaskClassifier`.
    estimator_, best_params_, best_score_, best_index_, cv_results_, n_splits_, coef_, \
intercept_, dual_gap_, residual_, tasks_, n_features_in_, feature_names_in_
        As in :class:`TunedRegressor`.
    """

    @property
    def loss(self) -> str:  # type: ignore[override]
        """How the method counts misfit."""
        return str(self._plain().loss)

    @property
    def fit_intercept(self) -> bool | str:  # type: ignore[override]
        """Whether the method has intercepts."""
        return getattr(self._plain(), "fit_intercept", True)

    @property
    def _classifies(self) -> bool:
        return True

    def _adopt(self, model: Baseline, table: Table) -> None:
        super()._adopt(model, table)
        assert isinstance(model, ClassificationTasks)
        model._set_classes(self._classes)

    def _judge_samples(self, test: TaskData, scores: Array) -> float:
        return mean_auc(test, scores)

    def _held_out_targets(self, test: Table, tasks: Sequence[Any]) -> np.ndarray:
        places = task_places(test.tasks, tasks)
        codes = places if test.codes is None else places[test.codes]
        return self._classes[codes, (test.y > 0).astype(np.intp)]

    def _check_training(self, train: TaskData, number: int) -> None:
        """Fail if free intercepts of logistic loss have no finite best value."""
        if self._uses_logistic and self.fit_intercept:
            refuse_lone_classes(train, number)


def tuned(
    name: str,
    *,
    classify: bool = False,
    settings: Any = None,
    n_settings: int = DEFAULT_SETTINGS,
    cv: Any = DEFAULT_FOLDS,
    scoring: Any = None,
    n_jobs: int | None = None,
    task: Any = None,
    **fixed: Any,
) -> TunedRegressor | TunedClassifier:
    """A compared method by name, its settings chosen by cross-validation.

    Parameters
    ----------
    name : str
        One of ``BASELINES`` or ``REFERENCES``, in capitals or not.
    classify : bool
        For two classes per task, instead of numbers.
    settings, n_settings, cv, scoring, n_jobs, task
        As in :class:`TunedRegressor`.
    **fixed
        Settings of the method that are not tried.

    Examples
    --------
    >>> from priormtl.baselines import tuned
    >>> tuned("clmt", standardize=True, n_settings=10)
    TunedRegressor(method=CLMT(standardize=True), n_settings=10)
    """
    kind = TunedClassifier if classify else TunedRegressor
    return kind(
        find_baseline(name, classify=classify)(**fixed),
        settings,
        n_settings=n_settings,
        cv=cv,
        scoring=scoring,
        n_jobs=n_jobs,
        task=task,
    )
