"""Compared methods by name, and their settings chosen by cross-validation.

``BASELINES`` lists the methods in the order of the paper's columns, ``REFERENCES``
simpler ones. ``TunedRegressor`` and ``TunedClassifier`` fit every candidate setting on
every fold, as our own searches do, and refit the best one on all rows.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from time import perf_counter
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from priormtl import selection
from priormtl._arrays import Array, Index, Matrix
from priormtl.baselines import ridge
from priormtl.baselines.base import Baseline, Settings, TaskModel
from priormtl.baselines.clmt import CLMT, CLMTClassifier
from priormtl.baselines.fedem import FedEM, FedEMClassifier
from priormtl.baselines.mkmtl import MKMTL, MKMTLClassifier
from priormtl.baselines.mmtfl import MMTFL, MMTFLClassifier
from priormtl.baselines.mtfl import MTFL, MTFLClassifier
from priormtl.baselines.mtrl import MTRL, MTRLClassifier
from priormtl.baselines.two_parts import DMTL, RMTL, DMTLClassifier, RMTLClassifier
from priormtl.checks import check_count, check_jobs
from priormtl.data import SharedRows, Table, TaskData, TaskStatistics
from priormtl.estimators import (
    DEFAULT_FOLDS,
    ClassificationTasks,
    MultiTaskEstimator,
    RegressionTasks,
    make_splits,
    refuse_lone_classes,
    show_progress,
    unchanged_on_error,
)
from priormtl.exceptions import unknown_name

# In the order of the paper's columns; for numbers, and for two classes per task.
_METHODS: Mapping[str, tuple[type[Baseline], type[Baseline]]] = {
    "fedem": (FedEM, FedEMClassifier),
    "dmtl": (DMTL, DMTLClassifier),
    "mtfl": (MTFL, MTFLClassifier),
    "mmtfl": (MMTFL, MMTFLClassifier),
    "mtrl": (MTRL, MTRLClassifier),
    "rmtl": (RMTL, RMTLClassifier),
    "clmt": (CLMT, CLMTClassifier),
    "mkmtl": (MKMTL, MKMTLClassifier),
}
_RIDGES: Mapping[str, tuple[type[Baseline], type[Baseline]]] = {
    "ridge-single": (ridge.SingleTaskRidge, ridge.SingleTaskRidgeClassifier),
    "ridge-pooled": (ridge.PooledRidge, ridge.PooledRidgeClassifier),
}
BASELINES = {name: regressor for name, (regressor, _) in _METHODS.items()}
CLASSIFIERS = {name: classifier for name, (_, classifier) in _METHODS.items()}
REFERENCES = {name: regressor for name, (regressor, _) in _RIDGES.items()}

DEFAULT_SETTINGS = 20


def find_baseline(name: str, *, classify: bool = False) -> type[Baseline]:
    """Class of a method, for numbers or for two classes per task."""
    known = {**_METHODS, **_RIDGES}
    return known[match_method(name, known)][classify]


def match_method(name: str, known: Iterable[str]) -> str:
    """The known spelling of a name, whatever its case: RMTL is rmtl."""
    names = list(known)
    folded = name.casefold() if isinstance(name, str) else name
    if folded not in names:
        raise unknown_name("method", name, names)
    return folded


# The search: every setting on every fold.


class Fold(NamedTuple):
    """Training rows, and the score of a model on the held-out rows."""

    train: Callable[[], TaskData]  # called when needed: one training part in memory
    score: Callable[[TaskModel], float]  # larger is better


def group_paths(
    method: Baseline, settings: Sequence[Settings]
) -> list[tuple[Baseline, dict[int, float]]]:
    """Join neighbouring settings that differ only in the strength of a path.

    Returns the method and, by position in ``settings``, the strengths of each path.
    """
    name, own = method.followed, method.get_params(deep=False)[method.followed]
    paths: list[tuple[Baseline, dict[int, float]]] = []
    last: Settings | None = None
    for place, setting in enumerate(settings):
        others = {key: value for key, value in setting.items() if key != name}
        if others != last:
            paths.append((clone(method).set_params(**others), {}))
        paths[-1][1][place], last = setting.get(name, own), others
    return paths


def search_settings(
    method: Baseline,
    settings: Sequence[Settings],
    folds: Sequence[Fold],
    *,
    bind_once: bool = False,
    n_jobs: int = 1,
    advance: Callable[[], None] = lambda: None,
) -> selection.SearchResult:
    """Score every setting on every fold; ``advance`` is called after each path.

    With ``bind_once`` the data of a fold are bound once for all paths, which is valid
    for the settings that a method suggests: others may change how data are bound.
    """
    paths = group_paths(method, settings)

    def run(fold: Fold) -> tuple[Array, int]:
        data, prepared, bound = fold.train(), None, None
        columns, unsolved = np.empty((3, len(settings))), 0
        for tried, strengths in paths:
            begin = perf_counter()
            if prepared is None or not bind_once:
                prepared = tried._prepare(data)
                bound = tried._bind(prepared.data)
            outcomes = tried._follow(bound, list(strengths.values()))
            for place, outcome in zip(strengths, outcomes, strict=True):
                fitted = perf_counter()
                score = fold.score(outcome.model.in_user_units(prepared.scale))
                end = perf_counter()
                columns[:, place] = score, fitted - begin, end - fitted
                unsolved += outcome.shortfall is not None
                begin = end
            advance()
        return columns, unsolved

    # One job per fold, not per path: its paths share the bound data.
    done = selection.run_jobs([partial(run, fold) for fold in folds], n_jobs)
    scores, fit_seconds, score_seconds = np.stack([part for part, _ in done], axis=-1)
    unsolved = sum(count for _, count in done)
    return selection.SearchResult((), scores, fit_seconds, score_seconds, unsolved)


def score_samples(model: TaskModel, data: TaskData, places: Index) -> Array:
    """Scores of all samples; ``places`` are the model's tasks of the data's tasks."""
    if isinstance(data, SharedRows):
        return np.column_stack([model.scores(data.X, int(i)) for i in places])
    return np.concatenate(
        [model.scores(data.rows_of(k)[0], int(i)) for k, i in enumerate(places)]
    )


# Estimators.


@dataclass(eq=False, repr=False)
class _Tuned(MultiTaskEstimator):
    """A compared method whose settings are chosen on held-out rows."""

    _classifies: ClassVar[bool]

    method: object = "clmt"
    settings: Sequence[Settings] | None = None
    _: KW_ONLY
    n_settings: int = DEFAULT_SETTINGS
    cv: object = DEFAULT_FOLDS
    n_jobs: int | None = None
    task: object = None

    def fit(
        self,
        X: object,
        y: object,
        *,
        task: object = None,
        sample_weight: object = None,
        groups: object = None,
    ) -> Self:
        """Choose settings by cross-validation, then fit all rows with them.

        Arguments are those of :meth:`MultiTaskRegressor.fit`, and ``groups`` (n,) for a
        splitter given as ``cv``, such as ``LeaveOneGroupOut()``.
        """
        with unchanged_on_error(self):
            table = self._read_table(X, y, task, sample_weight, reset=True)
            data, by_class = table.to_tasks(), self._classifies
            splits = make_splits(self.cv, table, X, y, groups, by_class=by_class)
            self._choose_and_fit(table, data, splits)
        return self

    def _choose_and_fit(
        self, table: Table, data: TaskData, splits: list[selection.Split]
    ) -> None:
        plain = self._plain()
        if self.settings is None:
            count = check_count("n_settings", self.n_settings)
            settings = plain._suggest(plain._bind(plain._prepare(data).data), count)
        else:
            settings = [dict(part) for part in self.settings]
        if not settings:
            raise ValueError("settings must list at least one setting: got none.")
        found = self._search(plain, settings, table, splits)
        best = selection.choose_candidate(found, "best")
        if found.unsolved:
            warnings.warn(
                f"{found.unsolved} of {found.scores.size} fits on training folds did "
                "not reach their tolerance; their scores are approximate. Raise "
                "max_iter or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.best_index_, self.best_params_ = best, dict(settings[best])
        self.best_score_ = float(selection.mean_scores(found.scores)[best])
        self.n_splits_ = found.scores.shape[1]
        self.cv_results_ = selection.results_table(
            settings, found.scores, found.fit_seconds, found.score_seconds
        )
        model = plain.set_params(**self.best_params_)
        self._pass_on(model, table)
        model._fit_tasks(data)
        self.estimator_, self.tasks_ = model, model.tasks_
        for name in ("coef_", "intercept_", "dual_gap_", "residual_"):
            self.__dict__.pop(name, None)
            if name in vars(model):
                self.__dict__[name] = vars(model)[name]

    def _plain(self) -> Baseline:
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

    def _search(
        self,
        plain: Baseline,
        settings: Sequence[Settings],
        table: Table,
        splits: list[selection.Split],
    ) -> selection.SearchResult:
        def make_fold(split: selection.Split, number: int) -> Fold:
            def train() -> TaskData:
                data = selection.take_training(table, split, number)
                # Free intercepts of logistic loss have no optimum without a class.
                if plain.loss == "logistic" and plain.fit_intercept:
                    refuse_lone_classes(data, number)
                return data

            test = selection.take_test(table, split, number)
            places = selection.task_places(test.tasks, table.tasks)
            kind = selection.MeanAuc if self._classifies else selection.RowError
            data = test.to_tasks()
            score = kind(data, places).of
            return Fold(train, lambda model: score(score_samples(model, data, places)))

        jobs = check_jobs(self.n_jobs)
        folds = [make_fold(split, k) for k, split in enumerate(splits)]
        name = f"{type(plain).__name__}, {len(splits)} splits"
        total = len(folds) * len(group_paths(plain, settings))
        # One BLAS thread for any number of jobs: equal bits, and no threads of threads.
        with (
            threadpool_limits(1, user_api="blas"),
            show_progress(self, None, name, total) as advance,
        ):
            return search_settings(
                plain,
                settings,
                folds,
                bind_once=self.settings is None,
                n_jobs=jobs,
                advance=advance,
            )

    def _pass_on(self, model: Baseline, table: Table) -> None:
        """Set on a plain method what reading the table has set here."""
        model.n_features_in_ = self.n_features_in_
        if "feature_names_in_" in vars(self):
            model.feature_names_in_ = self.feature_names_in_
        model._targets_are_columns = table.codes is None
        if isinstance(self, ClassificationTasks):
            assert isinstance(model, ClassificationTasks)
            model._set_classes(self._classes)

    def _fit_tasks(self, data: TaskData | TaskStatistics) -> None:
        raise TypeError(f"{type(self).__name__} needs rows: call fit.")

    def _task_scores(self, X: Matrix, i: int) -> Array:
        return self.estimator_._task_scores(X, i)


class TunedRegressor(RegressionTasks, _Tuned):
    """A compared method for regression, its settings chosen by cross-validation.

    Folds and scores are those of :class:`MultiTaskRegressorCV`, so that results can be
    compared: the negative weighted mean squared error over all held-out rows.

    Parameters
    ----------
    method : name, or regressor of ``priormtl.baselines``, default="clmt"
        Method to tune. Parameters that are not tuned keep their values.
    settings : list of dicts, optional
        Settings to try; by default those that the method proposes for the data.
    n_settings : int, default=20
        Maximum number of settings that the method proposes.
    cv, n_jobs
        See :class:`MultiTaskRegressorCV`.
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
        See :class:`MultiTaskRegressor`.

    Examples
    --------
    >>> from priormtl.baselines import TunedRegressor
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> model = TunedRegressor("clmt", n_settings=5).fit(X, y, task=task)
    >>> len(model.cv_results_["params"]), sorted(model.best_params_)
    (5, ['lam'])
    """

    _classifies = False


class TunedClassifier(ClassificationTasks, _Tuned):
    """A compared method for two classes per task, tuned by cross-validation.

    Scores are areas under the ROC curve, averaged over the tasks with both classes in
    the held-out rows. Parameters and attributes are those of :class:`TunedRegressor`,
    and ``classes_`` as in :class:`MultiTaskClassifier`.
    """

    _classifies = True

    @property
    def loss(self) -> str:  # type: ignore[override]
        """Loss of the method."""
        return str(self._plain().loss)

    @property
    def fit_intercept(self) -> bool | str:  # type: ignore[override]
        """Whether the method fits intercepts."""
        return self._plain().fit_intercept


def tuned(
    name: str, *, classify: bool = False, task: object = None, **settings: Any
) -> TunedRegressor | TunedClassifier:
    """A compared method by name, its settings chosen by cross-validation.

    Parameters
    ----------
    name : str
        A name in ``BASELINES`` or ``REFERENCES``, in any case.
    classify : bool, default=False
        Whether targets are two classes per task instead of numbers.
    task : str or int, optional
        Column of X that holds the task.
    **settings
        ``settings``, ``n_settings``, ``cv`` and ``n_jobs`` of :class:`TunedRegressor`,
        and parameters of the method that are not tuned.

    Examples
    --------
    >>> from priormtl.baselines import tuned
    >>> tuned("clmt", standardize=True, n_settings=10)
    TunedRegressor(method=CLMT(standardize=True), n_settings=10)
    """
    kind = TunedClassifier if classify else TunedRegressor
    of_search = ("settings", "n_settings", "cv", "n_jobs")
    search = {key: settings.pop(key) for key in of_search if key in settings}
    method = find_baseline(name, classify=classify)(**settings)
    return kind(method, task=task, **search)
