"""MultiTaskRegressorCV, MultiTaskClassifierCV: strengths chosen on folds."""

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from threadpoolctl import threadpool_limits

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
from priormtl.estimators.linear import LinearMultiTask, LinearPredictions, Setup
from priormtl.estimators.progress import (
    CallbackSupport,
    show_progress,
    with_callbacks,
)
from priormtl.estimators.regressor import MultiTaskRegressor, RegressionTasks
from priormtl.estimators.scoring import ScorerOnRows, with_task_column
from priormtl.estimators.settings import (
    check_choice,
    check_count,
    check_jobs,
    check_strengths,
)
from priormtl.problem import Problem
from priormtl.selection import (
    RULES,
    Grid,
    MeanAuc,
    RowError,
    Score,
    SearchResult,
    Solver,
    Split,
    StatisticsError,
    Trial,
    as_splits,
    choose_candidate,
    count_paths,
    deal_rows,
    find_partition,
    leave_one_out,
    refuse_missing,
    search,
    split_by_fold,
    strata_of,
    summarize_parts,
    take_test,
    take_training,
    task_places,
)
from priormtl.solvers import lam_grid

__all__ = [
    "CrossValidated",
    "MultiTaskClassifierCV",
    "MultiTaskRegressorCV",
    "read_lams",
]

DEFAULT_LAMS = 10
DEFAULT_FOLDS = 5
THETAS = (0.1, 1.0, 10.0, 100.0)
EPSILONS = (0.1, 1.0, 10.0, 100.0, 1000.0)
SHARED_SETTINGS = (
    "feature_prior",
    "task_prior",
    "penalty",
    "fit_intercept",
    "intercept_strength",
    "feature_weights",
    "tie_weights",
    "standardize",
    "solver",
    "tol",
    "max_iter",
    "task",
)


class Parts(NamedTuple):
    """The data as a search needs them."""

    whole: TaskData | TaskStatistics
    trains: Sequence[TaskData | TaskStatistics]  # one per split
    tests: Sequence[TaskStatistics] | None  # None: rows must be looked at


class CrossValidated(CallbackSupport, LinearPredictions):
    """Linear models of many tasks whose strengths are chosen on held-out rows."""

    lam_: float
    theta_: float
    epsilon_: float
    best_score_: float
    best_index_: int
    n_splits_: int
    cv_results_: dict[str, Any]
    _result: SearchResult

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
    ) -> None:
        self.lams = lams
        self.thetas = thetas
        self.epsilons = epsilons
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.selection = selection
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
        self.task = task

    @with_callbacks
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        task: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
    ) -> Self:
        """Choose strengths on held-out rows, then learn from all rows with them.

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
        root = self._begin_callbacks(X, y)
        with unchanged_on_error(self):
            table = self._read_table(X, y, task, sample_weight, reset=True)
            data = table.to_tasks()
            splits = self._split(X, y, groups, table)
            self._choose_and_fit(table, data, splits, root)
        if root is not None:
            root.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    @abstractmethod
    def _plain(self, lam: float, theta: float, epsilon: float) -> LinearMultiTask:
        """Estimator with the same settings and fixed strengths."""

    @property
    @abstractmethod
    def _folds_by_class(self) -> bool:
        """Whether folds are even within classes too."""

    @abstractmethod
    def _score_rows(self, test: Table, tasks: Sequence[Any]) -> Score:
        """Default score on held-out rows."""

    @abstractmethod
    def _held_out_targets(self, test: Table, tasks: Sequence[Any]) -> np.ndarray:
        """Targets as scorers of scikit-learn want them."""

    def _check_training(self, train: TaskData, number: int) -> None:
        """Fail if nothing can be learned from a training part."""

    def _begin_callbacks(self, X: Any, y: Any) -> Any:
        """Context of scikit-learn's callbacks; None before version 1.9."""
        if not hasattr(self, "_init_callback_context"):
            return None
        root = self._init_callback_context(max_subtasks=1)
        return root.call_on_fit_task_begin(estimator=self, X=X, y=y)

    def _choose_and_fit(
        self, table: Table, data: TaskData, splits: list[Split], root: Any
    ) -> None:
        plain = self._plain(1.0, 1.0, 1.0)
        _, tol, _ = plain._solver_settings()
        rule = check_choice("selection", self.selection, RULES)
        jobs = check_jobs(self.n_jobs)
        parts = self._divide(table, data, splits)
        setup = plain._set_up(parts.whole)
        grid = self._grid(setup.problem)
        trials = self._trials(plain, table, splits, parts)
        name = f"{type(self).__name__}, {len(splits)} splits"
        # One BLAS thread for any number of jobs: equal bits, and no threads of threads.
        with (
            threadpool_limits(1, user_api="blas"),
            show_progress(self, root, name, count_paths(trials, grid)) as advance,
        ):
            method = Solver(plain._choose_method, plain._rules, tol)
            result = search(trials, grid, method, n_jobs=jobs, advance=advance)
        self._warn_of_unsolved(result)
        self._publish_search(result, choose_candidate(result, rule))
        self._refit(parts.whole, setup)

    def _split(self, X: Any, y: Any, groups: Any, table: Table) -> list[Split]:
        """Rows of each split: our folds for a number, else as the splitter says."""
        n_folds = DEFAULT_FOLDS if self.cv is None else self.cv
        if isinstance(n_folds, bool) or not isinstance(n_folds, Integral):
            return as_splits(check_cv(self.cv).split(X, y, groups), len(table))
        if n_folds < 2:
            raise ValueError(f"cv must be at least 2 folds: got {n_folds}.")
        if groups is not None:
            raise ValueError(
                f"groups need a splitter that heeds them: got cv={n_folds}; use "
                "cv=GroupKFold() or LeaveOneGroupOut()."
            )
        strata = strata_of(table, by_class=self._folds_by_class)
        return split_by_fold(deal_rows(strata, int(n_folds)))

    def _divide(self, table: Table, data: TaskData, splits: list[Split]) -> Parts:
        """Training parts: merged statistics of folds where these do, else rows."""
        folds = find_partition(splits, len(table))
        if folds is None or self._needs_rows or not statistics_pay(data):
            trains = [take_training(table, *pair) for pair in _numbered(splits)]
            for number, train in enumerate(trains):
                self._check_training(train, number)
            return Parts(data, trains, None)
        *tests, always = summarize_parts(table, folds)
        merged, whole = leave_one_out(tests, always)
        for number, rest in enumerate(merged):
            absent = np.flatnonzero(rest.weight == 0)
            refuse_missing(number, [table.tasks[i] for i in absent])
        return Parts(whole, merged, tests)

    @property
    def _needs_rows(self) -> bool:
        """Whether statistics do not suffice for the fit."""
        return self._plain(1.0, 1.0, 1.0)._uses_logistic

    def _grid(self, problem: Problem) -> Grid:
        return Grid(
            read_lams(self.lams, problem),
            check_strengths("thetas", self.thetas),
            check_strengths("epsilons", self.epsilons),
        )

    def _trials(
        self, plain: LinearMultiTask, table: Table, splits: list[Split], parts: Parts
    ) -> list[Trial]:
        """One problem for each split, with what judges its solutions."""
        trials = []
        for number, train in enumerate(parts.trains):
            setup = plain._set_up(train)
            score = self._score(table, splits[number], parts, number)
            trials.append(Trial(setup.problem, setup.scale, score))
        return trials

    def _score(self, table: Table, split: Split, parts: Parts, number: int) -> Score:
        test = take_test(table, split, number)
        if not self._scores_by_default:
            return self._score_by_scorer(test, table.tasks)
        if parts.tests is not None and self._statistics_score:
            return StatisticsError(parts.tests[number])
        return self._score_rows(test, table.tasks)

    @property
    def _scores_by_default(self) -> bool:
        return self.scoring is None

    @property
    def _statistics_score(self) -> bool:
        """Whether the default score needs statistics only."""
        return False

    def _score_by_scorer(self, test: Table, tasks: Sequence[Any]) -> Score:
        """Ask a scorer of scikit-learn."""
        shell = self._fitted_shell(test, len(tasks))
        scorer = check_scoring(shell, scoring=self.scoring)
        y = self._held_out_targets(test, tasks)
        if test.codes is not None:
            places = task_places(test.tasks, tasks)[test.codes]
            return ScorerOnRows(scorer, shell, with_task_column(test.X, places), y)
        if len(test.tasks) < len(tasks) or not test.measured().all():
            raise ValueError(
                f"scoring={self.scoring!r} needs every target of the held-out rows; "
                "where some were not measured, use scoring=None."
            )
        return ScorerOnRows(scorer, shell, test.X, y)

    def _fitted_shell(self, test: Table, m: int) -> LinearMultiTask:
        """Plain estimator, fitted but for numbers, with the task in a last column."""
        shell = self._plain(1.0, 1.0, 1.0)
        shell.n_features_in_ = int(test.X.shape[1])
        shell.tasks_ = np.arange(m)
        shell._targets_are_columns = test.codes is None
        shell.task = None if test.codes is None else shell.n_features_in_
        return shell

    def _warn_of_unsolved(self, result: SearchResult) -> None:
        if result.unsolved:
            warnings.warn(
                f"{result.unsolved} of {result.scores.size} fits on training parts did "
                f"not reach tol={self.tol:g}; their scores are approximate: raise "
                "max_iter, or centre and rescale the features.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _publish_search(self, result: SearchResult, best: int) -> None:
        chosen = result.grid.candidates()[best].tolist()
        self.epsilon_, self.lam_, self.theta_ = chosen
        self.best_index_ = best
        self.best_score_ = float(result.mean_scores[best])
        self.n_splits_ = result.scores.shape[1]
        self.cv_results_ = result.table()
        self._result = result

    def _refit(self, data: TaskData | TaskStatistics, setup: Setup) -> None:
        """Learn from all data at the chosen strengths."""
        strengths = {"lam": self.lam_, "theta": self.theta_, "epsilon": self.epsilon_}
        problem = setup.problem.with_strengths(**strengths)
        model = self._plain(**strengths)
        model._fit_setup(data, setup._replace(problem=problem))
        self.__dict__.pop("statistics_", None)
        for name, value in vars(model).items():
            if name.endswith("_"):
                setattr(self, name, value)

    def _fit_tasks(self, data: TaskData | TaskStatistics) -> None:
        """Learn from all data at the chosen strengths."""
        self._refit(data, self._plain(1.0, 1.0, 1.0)._set_up(data))


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
feature_weights, tie_weights, standardize, solver, tol, max_iter, task
        As in :class:`MultiTaskRegressor`; scales, correlations and other things that
        are learned from data are learned from each training part anew.

    Attributes
    ----------
    lam_, theta_, epsilon_ : float
        Strengths chosen.
    best_score_ : float
        Their mean score over the splits.
    best_index_ : int
        Their place in ``cv_results_``.
    cv_results_ : dict
        Scores and times of all candidates, under the names of GridSearchCV.
    n_splits_ : int
        Number of splits.
    coef_, intercept_, tasks_, objective_, dual_gap_, n_iter_, n_features_in_, \
feature_names_in_, feature_prior_, statistics_
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

    def _plain(self, lam: float, theta: float, epsilon: float) -> LinearMultiTask:
        return MultiTaskRegressor(lam, theta, epsilon, **_settings(self))

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
feature_weights, tie_weights, standardize, solver, tol, max_iter, task, loss
        As in :class:`MultiTaskClassifier`.

    Attributes
    ----------
    lam_, theta_, epsilon_, best_score_, best_index_, cv_results_, n_splits_
        As in :class:`MultiTaskRegressorCV`.
    classes_, coef_, intercept_, tasks_, objective_, dual_gap_, n_iter_, \
n_features_in_, feature_names_in_, feature_prior_
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
        )
        self.loss = loss

    def _plain(self, lam: float, theta: float, epsilon: float) -> LinearMultiTask:
        settings = _settings(self)
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
        for sign in (-1.0, 1.0):
            shown = train.task_sums(train.weight * (train.y == sign))
            lone = [train.tasks[i] for i in np.flatnonzero(shown == 0)]
            if lone:
                raise ValueError(
                    "cv must leave both classes of every task in every training part: "
                    f"split {number} trains on one class of {lone[:8]}; stratify the "
                    "splits by task and class."
                )


def read_lams(lams: Any, problem: Problem) -> Array:
    """Values of lam as given, or a grid from the problem's lam_max."""
    if lams is None:
        return lam_grid(problem, DEFAULT_LAMS)
    if isinstance(lams, Integral):
        return lam_grid(problem, check_count("lams as a number", lams))
    return check_strengths("lams", lams)


def _settings(model: CrossValidated) -> dict[str, Any]:
    """Settings that the estimators with fixed strengths have too."""
    return {name: getattr(model, name) for name in SHARED_SETTINGS}


def _numbered(splits: Sequence[Split]) -> list[tuple[Split, int]]:
    return [(split, number) for number, split in enumerate(splits)]
