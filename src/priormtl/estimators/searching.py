"""CrossValidated: what both searching estimators share, from rows to the refit."""

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from threadpoolctl import threadpool_limits

from priormtl._arrays import Array
from priormtl.data import (
    Table,
    TaskData,
    TaskStatistics,
    statistics_pay,
)
from priormtl.estimators.base import unchanged_on_error
from priormtl.estimators.linear import LinearMultiTask
from priormtl.estimators.outliers import (
    LEARNED,
    check_outlier_strengths,
    check_outlier_tasks,
)
from priormtl.estimators.predictions import LinearPredictions
from priormtl.estimators.progress import (
    CallbackSupport,
    show_progress,
    with_callbacks,
)
from priormtl.estimators.scoring import ScorerOnRows, with_task_column
from priormtl.estimators.settings import (
    check_choice,
    check_count,
    check_jobs,
    check_strengths,
)
from priormtl.estimators.setups import Setup
from priormtl.estimators.splits import DEFAULT_FOLDS, make_splits
from priormtl.problem import Problem
from priormtl.selection import (
    RULES,
    Grid,
    OutlierCandidate,
    OutlierResult,
    Score,
    SearchResult,
    Solver,
    Split,
    StatisticsError,
    Trial,
    choose_candidate,
    choose_outliers,
    count_outlier_paths,
    count_paths,
    find_partition,
    leave_one_out,
    propose_outliers,
    refuse_missing,
    run_jobs,
    search,
    search_outliers,
    summarize_parts,
    take_test,
    take_training,
    task_places,
)
from priormtl.solvers import lam_grid

__all__ = [
    "DEFAULT_FOLDS",
    "EPSILONS",
    "THETAS",
    "CrossValidated",
    "check_parts",
    "merge_folds",
    "read_lams",
    "shared_settings",
]

DEFAULT_LAMS = 10
THETAS = (0.1, 1.0, 10.0, 100.0)
EPSILONS = (0.1, 1.0, 10.0, 100.0, 1000.0)
SOMETIMES_LEARNED = ("intercept_strength_", "statistics_", *LEARNED)  # not by every fit
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
    "unseen_tasks",
)


class Parts(NamedTuple):
    """The data as a search needs them."""

    whole: TaskData | TaskStatistics
    folds: Sequence[tuple[TaskData | TaskStatistics, Score]]  # what trains, what judges


class CrossValidated(CallbackSupport, LinearPredictions):
    """Linear models of many tasks whose strengths are chosen on held-out rows."""

    lam_: float
    theta_: float
    outlier_strength_: float
    epsilon_: float
    best_score_: float
    best_index_: int
    n_splits_: int
    cv_results_: dict[str, Any]
    _result: SearchResult | OutlierResult

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
        unseen_tasks: str = "error",
        outlier_tasks: bool = False,
        outlier_strengths: Any = None,
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
        self.unseen_tasks = unseen_tasks
        self.outlier_tasks = outlier_tasks
        self.outlier_strengths = outlier_strengths

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
            by_class = self._folds_by_class
            splits = make_splits(self.cv, table, X, y, groups, by_class=by_class)
            self._choose_and_fit(self._divide(table, data, splits), root)
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
        searches = 2 if self.outlier_tasks else 1
        root = self._init_callback_context(max_subtasks=searches)
        return root.call_on_fit_task_begin(estimator=self, X=X, y=y)

    def _choose_and_fit(self, parts: Parts, root: Any) -> None:
        """Search, then learn from all data with what was found."""
        plain = self._plain(1.0, 1.0, 1.0)
        _, tol, _ = plain._solver_settings()
        rule = check_choice("selection", self.selection, RULES)
        lets_out = check_outlier_tasks(self.outlier_tasks)
        check_outlier_strengths(self.outlier_strengths)
        jobs = check_jobs(self.n_jobs)
        setup = plain._set_up(parts.whole)
        grid = self._grid(setup.problem)
        trials = [_trial(plain._set_up(train), score) for train, score in parts.folds]
        name = f"{type(self).__name__}, {len(trials)} splits"
        # One BLAS thread for any number of jobs: equal bits, and no threads of threads.
        with threadpool_limits(1, user_api="blas"):
            method = Solver(plain._choose_method, plain._rules, tol)
            with show_progress(self, root, name, count_paths(trials, grid)) as advance:
                result = search(trials, grid, method, n_jobs=jobs, advance=advance)
            chosen: tuple[Any, int] = result, choose_candidate(result, rule)
            if lets_out:
                problem = setup.problem
                chosen = self._try_outliers(problem, chosen, trials, method, root)
        self._warn_of_unsolved(chosen[0])
        self._publish_search(*chosen)
        self._refit(parts.whole, setup)

    def _try_outliers(
        self,
        problem: Problem,
        chosen: tuple[SearchResult, int],
        trials: Sequence[Trial],
        solver: Solver,
        root: Any,
    ) -> tuple[OutlierResult, int]:
        """Score candidates with outlier tasks, and choose with them."""
        strengths = check_outlier_strengths(self.outlier_strengths)
        plain, best = chosen
        epsilon, lam, theta = plain.grid.candidates()[best].tolist()
        start = OutlierCandidate(epsilon, lam, np.inf, theta)
        extra = propose_outliers(problem, plain.grid, start, strengths, solver)
        jobs = check_jobs(self.n_jobs)
        name = f"{type(self).__name__}, outlier tasks"
        total = count_outlier_paths(extra, trials)
        with show_progress(self, root, name, total) as advance:
            run = partial(run_jobs, n_jobs=jobs, advance=advance)
            result = search_outliers(plain, extra, trials, solver, run)
        errors = 0.0 if strengths is None else 1.0
        return result, choose_outliers(result, best, errors)

    def _divide(self, table: Table, data: TaskData, splits: list[Split]) -> Parts:
        """Training parts: merged statistics of folds where these do, else rows."""
        folds = find_partition(splits, len(table))
        if folds is None or self._needs_rows or not statistics_pay(data):
            trains = [take_training(table, *pair) for pair in _numbered(splits)]
            for number, train in enumerate(trains):
                self._check_training(train, number)
            scores = [self._score(table, *pair) for pair in _numbered(splits)]
            return Parts(data, list(zip(trains, scores, strict=True)))
        *parts, always = summarize_parts(table, folds)
        scores = [
            self._score(table, *pair, part)
            for pair, part in zip(_numbered(splits), parts, strict=True)
        ]
        return merge_folds(parts, always, scores)

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

    def _score(
        self,
        table: Table,
        split: Split,
        number: int,
        part: TaskStatistics | None = None,
    ) -> Score:
        """What judges models on held-out rows; ``part``: their statistics, if known."""
        by_default = self._scores_by_default
        by_statistics = by_default and self._statistics_score
        if by_statistics and part is not None and part.weight.any():
            return StatisticsError(part)
        test = take_test(table, split, number)
        score = self._score_rows if by_default else self._score_by_scorer
        return score(test, table.tasks)

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

    def _warn_of_unsolved(self, result: SearchResult | OutlierResult) -> None:
        if result.unsolved:
            warnings.warn(
                f"{result.unsolved} of {result.scores.size} fits on training parts did "
                f"not reach tol={self.tol:g}; their scores are approximate: raise "
                "max_iter, or centre and rescale the features.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _publish_search(self, result: SearchResult | OutlierResult, best: int) -> None:
        self.__dict__.pop("outlier_strength_", None)
        if isinstance(result, OutlierResult):
            chosen = result.candidates()[best]
            self.epsilon_, self.lam_, self.outlier_strength_, self.theta_ = chosen
        else:
            plain = result.grid.candidates()[best].tolist()
            self.epsilon_, self.lam_, self.theta_ = plain
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
        if self.outlier_tasks:
            # As in the search, where it was not told, the data say who may differ.
            told = self.outlier_strengths is not None
            strength = self.outlier_strength_
            own = strength if told or np.isinf(strength) else None
            model.set_params(outlier_tasks=True, outlier_strength=own)
        model._fit_setup(data, setup._replace(problem=problem))
        for name in SOMETIMES_LEARNED:
            self.__dict__.pop(name, None)
        for name, value in vars(model).items():
            if name.endswith("_"):
                setattr(self, name, value)

    def _fit_tasks(self, data: TaskData | TaskStatistics) -> None:
        """Learn from all data at the chosen strengths."""
        self._refit(data, self._plain(1.0, 1.0, 1.0)._set_up(data))


def _trial(setup: Setup, score: Score) -> Trial:
    return Trial(setup.problem, setup.scale, score)


def merge_folds(
    parts: Sequence[TaskStatistics], always: TaskStatistics, scores: Sequence[Score]
) -> Parts:
    """Train on all parts but one, and judge on that one."""
    merged, whole = leave_one_out(parts, always)
    for number, train in enumerate(merged):
        absent = np.flatnonzero(train.weight == 0)
        refuse_missing(number, [train.tasks[i] for i in absent])
    return Parts(whole, list(zip(merged, scores, strict=True)))


def check_parts(parts: Any) -> None:
    """Fail unless there are several statistics, to be held out in turn."""
    known = [isinstance(part, TaskStatistics) for part in parts]
    if len(known) < 2 or not all(known):
        raise TypeError(
            "parts must be two or more TaskStatistics, each held out once: got "
            f"{[type(part).__name__ for part in parts][:8]}; make them with "
            "summarize(X, y, task)."
        )


def read_lams(lams: Any, problem: Problem) -> Array:
    """Values of lam as given, or a grid from the problem's lam_max."""
    if lams is None:
        return lam_grid(problem, DEFAULT_LAMS)
    if isinstance(lams, Integral):
        return lam_grid(problem, check_count("lams as a number", lams))
    return check_strengths("lams", lams)


def shared_settings(model: CrossValidated) -> dict[str, Any]:
    """Settings that the estimators with fixed strengths have too."""
    return {name: getattr(model, name) for name in SHARED_SETTINGS}


def _numbered(splits: Sequence[Split]) -> list[tuple[Split, int]]:
    return [(split, number) for number, split in enumerate(splits)]
