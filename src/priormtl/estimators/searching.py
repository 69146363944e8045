"""CrossValidated: what both searching estimators share, from rows to the refit."""

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from priormtl.checks import check_choice, check_jobs
from priormtl.data import Table, TaskData, TaskStatistics, statistics_pay
from priormtl.estimators.base import unchanged_on_error
from priormtl.estimators.choosing import Attempt
from priormtl.estimators.grids import read_grid
from priormtl.estimators.linear import LinearMultiTask
from priormtl.estimators.outliers import (
    LEARNED,
    check_outlier_strengths,
    check_outlier_tasks,
)
from priormtl.estimators.parts import Parts, part_rows, part_statistics
from priormtl.estimators.progress import (
    CallbackSupport,
    show_progress,
    with_callbacks,
)
from priormtl.estimators.scoring import bind_scorer, empty_shell
from priormtl.estimators.search_settings import SearchSettings
from priormtl.estimators.setups import Setup
from priormtl.estimators.splits import make_splits
from priormtl.selection import (
    RULES,
    OutlierResult,
    Score,
    SearchResult,
    Solver,
    Split,
    StatisticsError,
    Trial,
    find_partition,
    take_test,
)

__all__ = ["CrossValidated"]

SOMETIMES_LEARNED = ("intercept_strength_", "statistics_", *LEARNED)  # not by every fit


class CrossValidated(CallbackSupport, SearchSettings):
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
        strengths = check_outlier_strengths(self.outlier_strengths)
        jobs = check_jobs(self.n_jobs)
        setup = plain._set_up(parts.whole)
        grid = read_grid(self.lams, self.thetas, self.epsilons, setup.problem)
        trials = [_trial(plain._set_up(train), score) for train, score in parts.folds]
        solver = Solver(plain._choose_method, plain._rules, tol)
        attempt = Attempt(trials, solver, jobs, partial(self._show_progress, root))
        # One BLAS thread for any number of jobs: equal bits, and no threads of threads.
        with threadpool_limits(1, user_api="blas"):
            chosen: tuple[Any, int] = attempt.choose(grid, rule)
            if lets_out:
                chosen = attempt.choose_outliers(setup.problem, *chosen, strengths)
        self._warn_of_unsolved(chosen[0])
        self._publish_search(*chosen)
        self._refit(parts.whole, setup)

    def _show_progress(self, root: Any, what: str, total: int) -> Any:
        return show_progress(self, root, f"{type(self).__name__}, {what}", total)

    def _divide(self, table: Table, data: TaskData, splits: list[Split]) -> Parts:
        """Training parts: merged statistics of folds where these do, else rows."""
        folds, judge = find_partition(splits, len(table)), partial(self._score, table)
        if folds is None or self._needs_rows or not statistics_pay(data):
            return part_rows(table, data, splits, judge, self._check_training)
        return part_statistics(table, folds, splits, judge)

    @property
    def _needs_rows(self) -> bool:
        """Whether statistics do not suffice for the fit."""
        return self._plain(1.0, 1.0, 1.0)._uses_logistic

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
        targets = self._held_out_targets(test, tasks)
        return bind_scorer(self.scoring, shell, test, tasks, targets)

    def _fitted_shell(self, test: Table, m: int) -> LinearMultiTask:
        """Plain estimator, fitted but for numbers, with the task in a last column."""
        return empty_shell(self._plain(1.0, 1.0, 1.0), test, m)

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
