"""MultiTaskRegressorCV, MultiTaskClassifierCV: models chosen by cross-validation.

The rows are divided once, the model is posed on every training part, and the search
scores all strengths on the held-out parts; see ``priormtl.selection``. With squared
loss training parts are merged statistics: rows are read once for the whole grid.
Parameters that are "auto" make several structures, which are searched one after the
other. The models of the folds then predict the rows that they have not seen, for
intervals and calibration curves.
"""

import os
import warnings
from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache, partial
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from priormtl._arrays import Array
from priormtl.checks import (
    check_choice,
    check_jobs,
    check_outlier_strengths,
    is_word,
)
from priormtl.data import (
    StackedRows,
    Table,
    TaskData,
    TaskStatistics,
    align_tasks,
    condense,
    statistics_pay,
)
from priormtl.estimators.base import unchanged_on_error
from priormtl.estimators.classifier import ClassificationTasks, MultiTaskClassifier
from priormtl.estimators.intervals import predict_interval
from priormtl.estimators.labels import refuse_lone_classes
from priormtl.estimators.linear import (
    FixedStrengths,
    LinearMultiTask,
    check_outlier_tasks,
    fitted_dispersion,
    refuse_flat_tasks,
    warn_unless_converged,
)
from priormtl.estimators.progress import (
    CallbackSupport,
    show_progress,
    show_stages,
    with_callbacks,
)
from priormtl.estimators.regressor import (
    REGRESSION_LOSSES,
    MultiTaskRegressor,
    RegressionTasks,
)
from priormtl.estimators.sources import count_folds, hold_back, read_source
from priormtl.estimators.splitting import (
    DEFAULT_FOLDS,
    bind_scorer,
    check_parts,
    make_splits,
)
from priormtl.estimators.summary import spell_choice
from priormtl.exceptions import FoldsError
from priormtl.fitted import Fitted, Sample, Search, TimeSpan
from priormtl.losses import ClassRows, Family, find_family
from priormtl.model import Model, Posed, Solver
from priormtl.priors import TaskPrior, given_prior
from priormtl.selection import (
    QUESTIONS,
    RULES,
    Calibration,
    Candidate,
    FamilyLoss,
    History,
    MeanAuc,
    RowError,
    Score,
    SearchData,
    SearchFold,
    SearchResult,
    Setup,
    Split,
    StatisticsError,
    Strengths,
    Structure,
    choose_outliers,
    choose_structure,
    deal_groups,
    deal_rows,
    divide,
    fit_outliers,
    leave_one_out,
    missing_tasks,
    normal_calibration,
    open_choices,
    propose_outliers,
    refit_folds,
    search,
    search_outliers,
    search_structures,
    split_by_fold,
    strata_of,
    take_test,
    take_training,
    task_places,
)
from priormtl.uncertainty import prediction_variances

if TYPE_CHECKING:
    from priormtl.engines import Schema

__all__ = ["CrossValidated", "MultiTaskClassifierCV", "MultiTaskRegressorCV"]


@dataclass(eq=False, repr=False)
class CrossValidated(CallbackSupport, LinearMultiTask):
    """Linear models of many tasks whose strengths are chosen on held-out rows."""

    lams: Any = None
    thetas: Any = None
    epsilons: Any = None
    _: KW_ONLY
    cv: Any = DEFAULT_FOLDS
    scoring: Any = None
    n_jobs: int | None = None
    selection: str = "best"
    task_prior: Any = "auto"
    fit_intercept: bool | str = "auto"
    intercept_strength: float | str = "adaptive"
    ties: Any = "auto"
    standardize: bool = True
    outlier_strengths: Any = None
    time: Any = None
    calibrate: str = "auto"

    _dispersion: float | None = None  # of the search
    _scores_from_statistics = False  # whether the default score needs statistics only

    @with_callbacks
    def fit(
        self,
        X: object,
        y: object,
        *,
        task: object = None,
        sample_weight: object = None,
        groups: object = None,
    ) -> Self:
        """Select strengths by cross-validation and fit the model to all rows.

        Parameters
        ----------
        X, y, task, sample_weight
            See :meth:`MultiTaskRegressor.fit`.
        groups : (n,) labels, optional
            Group of each row. ``cv`` must be a group-aware splitter such as
            ``GroupKFold()``.

        Returns
        -------
        self
        """
        root = self._begin_callbacks(X, y)
        with unchanged_on_error(self):
            table = self._read_table(X, y, task, sample_weight, reset=True)
            rows = table.to_tasks()
            question = self._question(table)
            # Who asks about new tasks is answered by folds of these. Times say that
            # forecasts matter, and outlier tasks need rows of all tasks.
            is_plain = table.time is None and table.codes is not None
            by_task = question == "tasks" and is_plain and not self.outlier_tasks
            whole_tasks = self._holds_out_tasks(table)
            # Even shares of classes within tasks would tell the held-out rows of small
            # tasks; free intercepts need them, and so may other scores.
            by_class = isinstance(self, ClassificationTasks) and (
                self.fit_intercept is True or not self._scores_by_default
            )
            try:
                splits = make_splits(
                    self.cv,
                    table,
                    X,
                    y,
                    groups,
                    by_class=by_class,
                    by_task=by_task,
                    whole_tasks=whole_tasks,
                    n_classes=self._n_classes,
                )
            except FoldsError:
                if self.cv is not None and self.cv != DEFAULT_FOLDS:
                    raise
                return self._fit_by_default(table, root)
            time = table.time
            if time is not None:  # the latest ones last
                splits.sort(key=lambda split: float(time[split.test].mean()))
            for split in [] if self.outlier_tasks else splits:
                whole_tasks |= len(missing_tasks(table, split)) > 0
            divide_rows = partial(self._divide, splits=splits, whole_tasks=whole_tasks)
            factors = () if table.features is None else table.features.crossed
            if table.crossed is not None and all(term.is_extra for term in factors):
                # Folds decide about these factors: until then statistics may do.
                plain = replace(table, crossed=None)
                data = divide_rows(plain, plain.to_tasks())
                with_levels = cache(partial(divide_rows, table, rows))
                data = data._replace(with_levels=with_levels)
            else:
                data = divide_rows(table, rows)
            posed, candidate = self._search_and_fit(data, root)
            self._hold_out(table, splits)
            held_out = self.fitted_.held_out
            if held_out is not None and held_out.history.any():
                self._remember(table, self._scores(X, task)[0])
            known = self.fitted_.calibration
            if question and known is not None and question != known.question:
                self._calibrate_for(question, table, posed, candidate)
        if root is not None:
            root.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    def _fit_by_default(self, table: Table, root: Any) -> Self:
        """Learn from rows of which none can be held out, without a search."""
        warnings.warn(
            f"no rows can be held out (n_samples={len(table)}): nothing is tuned, lam, "
            "theta and epsilon are 1, and there are no intervals.",
            UserWarning,
            stacklevel=4,
        )
        data = replace(table, crossed=None).to_tasks()
        self._prepare_family(data)
        given: dict[str, Any] = {}
        if not is_word(self.task_prior, "auto"):
            given["task_prior"] = given_prior(self)
        if self.fit_intercept != "auto":
            given["fit_intercept"] = self.fit_intercept
        elif self.task_prior is None:
            given["fit_intercept"] = True
        model = self._simple_model(lam=self._weight_unit, **given)
        posed, solution = model.pose(data).fit(self._solver(), data)
        warn_unless_converged(solution, posed, self._solver())
        self._publish(data, posed, solution, has_outliers=False)
        if root is not None:
            root.call_on_fit_task_end(estimator=self)
        return self

    def _simple_model(self, *, lam: float, **settings: Any) -> Model:
        """Model of which nothing is estimated but coefficients: ties are uniform."""
        tied = {"task_prior": "mean", "ties": "uniform", "fit_intercept": "tied"}
        unit = self._weight_unit
        model = self._model(lam=lam, theta=1.0, epsilon=unit, **tied | settings)
        return replace(model, intercept_strength=unit)

    def _begin_callbacks(self, X: object, y: object) -> Any:
        """Context of scikit-learn's callbacks; None before version 1.9."""
        if not hasattr(self, "_init_callback_context"):
            return None
        # How many structures there are to search is known only with the data.
        searches: int | None = 2 if self.outlier_tasks else 1
        for value in (self.task_prior, self.ties, self.fit_intercept):
            if is_word(value, "auto"):
                searches = None
        root = self._init_callback_context(max_subtasks=searches)
        return root.call_on_fit_task_begin(estimator=self, X=X, y=y)

    # Folds: what trains, and what scores.

    def _holds_out_tasks(self, table: Table) -> bool:
        """Whether folds hold out the only row of a task.

        What the other tasks say about it is part of the model where all is tied. Else
        such rows always train, which leaves few to judge by where they are many.
        """
        is_number = isinstance(self.cv, Integral) and not isinstance(self.cv, bool)
        is_tied = isinstance(self.task_prior, str) and self.fit_intercept in (
            "tied",
            "auto",
        )
        if not (is_number or self.cv is None) or not is_tied or self.outlier_tasks:
            return False
        if table.codes is None or issparse(table.X):
            return False
        counts = np.bincount(table.codes[table.measured()[:, 0]])
        alone = int(np.count_nonzero(counts == 1))
        if alone <= 0.1 * int(counts.sum()):  # few: let them train
            return False
        if self._family is not None:  # ties outweigh faint rows, but not all others
            return is_word(self.ties, "adaptive")
        # Gram matrices of up to 32 MB may stand for rows.
        return len(counts) * table.X.shape[1] ** 2 <= 2**22

    def _divide(
        self,
        table: Table,
        data: TaskData,
        *,
        splits: Sequence[Split],
        whole_tasks: bool,
    ) -> SearchData:
        """All data, and what trains and scores in each split.

        Training parts are merged statistics of folds where these do, else rows. Scores
        are those of held-out statistics where these do. Crossed factors need rows.
        """
        family = self._prepare_family(data)
        pays = whole_tasks or self.device or statistics_pay(data)
        has_parts = table.crossed is not None or table.time is not None
        by_rows = family is not None or has_parts or not pays
        whole, folds = divide(
            table,
            data,
            splits,
            by_rows=by_rows,
            whole_tasks=whole_tasks,
            device=self.device,
        )
        by_default = self._scores_by_default
        by_statistics = by_default and self._scores_from_statistics and family is None
        scored = list[SearchFold]()
        for k, (train, split, missing, test) in enumerate(folds):
            if isinstance(train, TaskData):
                self._check_training(train, k)
            if by_statistics and test is not None and test.weight.any():
                score: Score = StatisticsError(test)
            else:
                score_by = self._score_rows if by_default else self._scorer
                score = score_by(take_test(table, split, k), table.tasks)
            is_later = table.time is not None and table.offset is None
            if (
                is_later
                and isinstance(score, RowError)
                and isinstance(self, RegressorMixin)
            ):
                assert isinstance(train, StackedRows)
                score = replace(score, train=train)
            scored.append(SearchFold(train, score, missing))
        return SearchData(whole, scored)

    def _prepare_family(self, data: TaskData) -> Family | None:
        """Family of all fits; an unknown dispersion is estimated on all rows first.

        So models of all folds have the same one, and their deviances can be compared.
        """
        self._dispersion = vars(self).get("dispersion")
        family = self._family
        if family is None or not family.has_dispersion or self._dispersion is not None:
            return family
        first = self._simple_model(lam=0.0).pose(data)
        posed, _ = first.fit(self._solver(), data)
        self._dispersion = fitted_dispersion(posed)
        return find_family(family.name, self._dispersion)

    def _check_training(self, train: TaskData, number: int) -> None:
        """Fail if a training part lacks a class, or has no finite free intercepts."""
        if self._n_classes > 2:
            assert isinstance(self, ClassificationTasks)
            seen = np.unique(train.y[train.weight > 0])
            if len(seen) < self._n_classes:
                absent = np.setdiff1d(np.arange(self._n_classes), seen)[:5]
                raise FoldsError(
                    "cv must leave rows of every class in every training part: split "
                    f"{number} trains without {self._classes[0, absent].tolist()}."
                )
        unties = self.fit_intercept == "auto" and self.task_prior is None
        if self._family is not None and (self.fit_intercept is True or unties):
            self._refuse_free(train, number)

    def _refuse_free(self, train: TaskData, number: int) -> None:
        """Fail if free intercepts of some tasks have no finite best value."""
        if isinstance(self, ClassificationTasks):
            refuse_lone_classes(train, number, self._n_classes)
        elif (family := self._family) is not None:
            refuse_flat_tasks(train, family, f" in the training part of split {number}")

    @property
    def _scores_by_default(self) -> bool:
        return self.scoring is None

    def _score_rows(self, test: Table, tasks: Sequence[Hashable]) -> Score:
        """Default score on held-out rows."""
        data, places = test.to_tasks(), task_places(test.tasks, tasks)
        family, K = self._family, self._n_classes
        if K > 2:
            assert isinstance(data, StackedRows)
            places = (len(tasks) * np.arange(K)[:, np.newaxis] + places).ravel()
            data = ClassRows.of(data, K)  # class after class
        if family is not None:
            if self._dispersion is not None:
                family = find_family(family.name, self._dispersion) or family
            return FamilyLoss(data, places, family)
        by_statistics = self._scores_from_statistics and statistics_pay(data)
        if by_statistics and test.crossed is None and test.time is None:
            held_out = condense(data)
            assert isinstance(held_out, TaskStatistics)
            return StatisticsError(align_tasks(held_out, tuple(tasks)))
        return RowError(data, places)

    @abstractmethod
    def _scorer(self, test: Table, tasks: Sequence[Hashable]) -> Score:
        """Scorer of scikit-learn on held-out rows."""

    # The search, and the fit of what it has chosen.

    def _search_and_fit(
        self, data: SearchData, root: object
    ) -> tuple[Posed, Candidate]:
        """Search, then learn from all data with the chosen candidate."""
        has_outliers = check_outlier_tasks(self.outlier_tasks)
        solver, told = self._solver(), self.outlier_strengths is not None
        # One BLAS thread for any number of jobs: equal bits, and no threads of threads.
        with (
            threadpool_limits(1, user_api="blas"),
            show_stages(self, type(self).__name__) as announce,
        ):
            result, best = self._search(data, solver, root, announce)
        for text in result.notes:
            warnings.warn(text, UserWarning, stacklevel=5)
        if result.unsolved:
            warnings.warn(
                f"{result.unsolved} of {result.scores.size} fits on training parts did "
                f"not reach tol={self.tol:g}, so their scores are approximate. Raise "
                "max_iter, or use standardize=True.",
                ConvergenceWarning,
                stacklevel=4,
            )
        candidate = result.candidates()[best]
        setup = result.setups[candidate.structure]
        family = self._family
        regresses = isinstance(self, RegressorMixin)
        held_out = refit_folds(
            setup.trials, candidate, solver, told=told, variances=regresses
        )
        chosen, whole = setup.posed, data.of(setup.structure).whole
        assert chosen is not None
        known = chosen.estimate
        if candidate.structure > 0 and known is not None and known.find_precision:
            # It began at the estimate of another structure, and ended early.
            chosen = chosen.model.pose(whole, known, chosen.known_drift)
        chosen = candidate.at(chosen)
        if family is not None and family.has_dispersion:
            # Estimated once more, unless given.
            given = replace(chosen.model, dispersion=vars(self)["dispersion"])
            chosen = chosen._replace(model=given)
        posed, solution = chosen.fit(solver, whole)
        if has_outliers:
            # As in the search, the data say which tasks may differ, unless told.
            own = candidate.outlier_strength
            strength = own if told or np.isinf(own) else None
            posed, solution = fit_outliers(posed, solution, solver, strength)
        warn_unless_converged(solution, posed, solver)
        self._publish(whole, posed, solution, has_outliers)
        if regresses:
            final = prediction_variances(posed, solution.coef)
            held_out = held_out._replace(final_variances=final)
        scoring = self.scoring if isinstance(self.scoring, str) else "score"
        if self.scoring is None:
            scoring = "neg_mean_squared_error" if family is None else family.scoring[0]
        found = Search(result.without_data(), best, scoring, self.selection)
        self.fitted_ = replace(self.fitted_, search=found, held_out=held_out)
        return chosen, candidate

    def _extend(self, whole: TaskStatistics, sample: Sample) -> None:
        """Fit what a sample of the rows has chosen to the statistics of all rows.

        Variances are estimated from all rows. Folds, the scale of residuals, and
        effects of crossed levels stay those of the sample, whose tasks come first.
        """
        known = self.fitted_
        assert known.model is not None
        assert known.calibration is not None
        model, labels = known.model, known.labels
        if not is_word(model.ties, "adaptive") or model.lam > 0:
            raise ValueError(
                "fit_source of tables that memory does not hold needs effects whose "
                'ties are estimated, ties="adaptive" and lams=(0,): other strengths '
                "that suit a sample do not suit all rows."
            )
        seen, tie = set(labels), model.task_prior.ties if model.task_prior else ()
        new = [task for task in whole.tasks if task not in seen]
        if new and tie == TaskPrior.chain().ties:  # in the order of the statistics
            model = replace(model, task_prior=TaskPrior.chain(order=whole.tasks))
        whole = align_tasks(whole, tuple(labels + new))
        posed, solution = model.pose(whole).fit(self._solver(), whole)
        warn_unless_converged(solution, posed, self._solver())
        self._publish(whole, posed, solution, False)
        # Levels have no columns in the statistics.
        self._adopt_design(known.design)
        variances = prediction_variances(posed, solution.coef)[len(labels) :]
        self.fitted_ = replace(
            self.fitted_,
            design=known.design,
            crossed=known.crossed,
            search=known.search,
            held_out=known.held_out,
            reliability=known.reliability,
            calibration=known.calibration.with_tasks(variances),
            added=len(new),
            sample=sample,
        )

    def _search(
        self,
        data: SearchData,
        solver: Solver,
        root: object,
        announce: Callable[[str], None],
    ) -> tuple[SearchResult, int]:
        """Scores of all candidates, and the position of the chosen one."""
        allows_free, name = self._allows_free(data), type(self).__name__
        # Structures and strengths are filled in by the search.
        blank: dict[str, Any] = {"task_prior": None, "ties": "uniform"}
        # Variances of tasks would take up what counts scatter beyond their loss.
        blank |= {"fit_intercept": True, "may_scatter": True}
        if self._dispersion is not None:
            blank["dispersion"] = self._dispersion
        model = self._model(lam=1.0, theta=1.0, epsilon=1.0, **blank)
        given = Structure(given_prior(self), self.ties, self.fit_intercept)
        jobs = check_jobs(self.n_jobs)
        rule = check_choice("selection", self.selection, RULES)
        own = self.outlier_strengths
        if own is not None:
            own = check_outlier_strengths(own)
        lams = self.lams
        choices = open_choices(
            given,
            model,
            data.whole,
            allows_free=allows_free,
            lam_is_zero=lams is None or (np.iterable(lams) and not any(lams)),
        )
        if not self._scores_by_default or self.outlier_tasks:
            choices.pop("drift", None)
        strengths = Strengths(lams, self.thetas, self.epsilons, self._weight_unit)

        def run(setup: Setup) -> SearchResult:
            title, total = f"{name}, {len(data.folds)} splits", len(setup.paths())
            with show_progress(self, root, title, total) as advance:
                return search(setup, solver, n_jobs=jobs, advance=advance)

        count, total = 0, 1 + sum(len(values) - 1 for values in choices.values())

        def estimating(choice: str, value: object) -> None:
            nonlocal count
            count += 1
            words = spell_choice(choice, value) if choice else "which effects vary"
            announce(f"estimating {words} ({count} of at most {total})")

        wanted = given, model, choices, strengths, data
        result = search_structures(*wanted, run, estimating)
        best = choose_structure(result, rule)
        if not self.outlier_tasks:
            return result, best
        chosen = result.candidates()[best]
        setup = result.setups[chosen.structure]
        extra = propose_outliers(setup, chosen, own, solver)
        trials, epsilons = setup.trials, {one.candidate.epsilon for one in extra}
        total, title = len(epsilons) * len(trials), f"{name}, outlier tasks"
        with show_progress(self, root, title, total) as advance:
            result = search_outliers(
                result, extra, trials, solver, n_jobs=jobs, advance=advance
            )
        # Where tests have named the tasks, any gain will do.
        return result, choose_outliers(result, best, 0.0 if own is None else 1.0)

    def _allows_free(self, data: SearchData) -> bool:
        """Whether every task has a finite intercept of its own in every part."""
        if self._family is not None:
            try:
                for train, _, missing in data.folds:
                    if len(missing):
                        return False
                    assert isinstance(train, TaskData)
                    self._refuse_free(train, 0)
            except ValueError:
                return False
            return True
        return all(
            not len(missing)
            and (not isinstance(train, TaskStatistics) or bool(np.all(train.weight)))
            for train, _, missing in data.folds
        )

    def _hold_out(self, table: Table, splits: Sequence[Split]) -> None:
        """Predict rows by the models that were not fitted to them, and calibrate."""
        fitted = self.fitted_
        assert fitted.held_out is not None
        if table.crossed is not None:
            names = tuple(term.source for term in self.design_.crossed)
            table = replace(table, crossed=table.crossed.only(names))
        held_out, residuals = fitted.held_out.on_rows(
            table, splits, fitted.labels, fitted.row_loss
        )
        reliability = calibration = None
        if residuals is not None:
            models, final = held_out.models, held_out.final_variances
            sizes = fitted.shape[0], len(splits)
            calibration = Calibration.of(residuals, models, *sizes, final)
        # Scores of squared loss are no log-odds of classes.
        is_told = isinstance(self, RegressorMixin) or self._family is not None
        if table.codes is not None and held_out.prediction is not None and is_told:
            reliability = fitted.reliability_at(held_out.prediction, table.y)
        span = None
        if table.time is not None and table.codes is not None:
            rows = np.flatnonzero(table.measured()[:, 0])
            known = table.time[rows], table.codes[rows], len(table.tasks)
            span = TimeSpan.of(self.time, *known, held_out.horizon)
        self.fitted_ = replace(
            fitted,
            held_out=held_out,
            reliability=reliability,
            calibration=calibration,
            span=span,
        )

    def _remember(self, table: Table, scores: Array) -> None:
        """Keep the last rows of tasks, where forecasts need them."""
        held_out = self.fitted_.held_out
        assert held_out is not None
        assert table.codes is not None
        assert table.time is not None
        weight = np.ones(len(table)) if table.weight is None else table.weight
        used, m = np.flatnonzero(weight > 0), len(table.tasks)
        codes, time = table.codes[used], table.time[used]
        known = History.of(table.y[used], scores[used], codes, time, weight[used], m)
        known = known.with_trend(table.X[used], time, table.trend())
        history = known._replace(weights=held_out.history)
        self.fitted_ = replace(self.fitted_, history=history)

    def _question(self, table: Table) -> str | None:
        """For which rows intervals are to hold; None: the folds decide."""
        asked = check_choice("calibrate", self.calibrate, ("auto", *QUESTIONS))
        if asked == "later" and table.time is None:
            raise ValueError(
                'calibrate="later" needs the column of time: got time=None.'
            )
        if asked == "tasks" and len(table.tasks) < 2:
            raise ValueError('calibrate="tasks" needs two tasks or more: got one.')
        return None if asked == "auto" else asked

    def _calibrate_for(
        self, question: str, table: Table, posed: Posed, candidate: Candidate
    ) -> None:
        """Learn intervals for another question than that of the folds of the search.

        The chosen model is fitted once more without rows at random, or whole tasks.
        """
        fitted, solver = self.fitted_, self._solver()
        if table.codes is None:
            return
        assert fitted.calibration is not None
        assert fitted.held_out is not None
        if question == "rows":
            folds = deal_rows(strata_of(table, by_class=False), DEFAULT_FOLDS)
        else:
            groups = deal_groups(table.codes, min(DEFAULT_FOLDS, len(table.tasks)))
            folds = np.where(table.measured()[:, 0], groups, -1)
        names = () if posed.crossed is None else posed.crossed.levels.names
        crossed = None if table.crossed is None else table.crossed.only(names)
        table = replace(table, crossed=crossed, time=None)
        splits, parts = split_by_fold(folds), list[SearchFold]()
        for k, split in enumerate(splits):
            train = take_training(table, split, k, whole_tasks=True)
            score = self._score_rows(take_test(table, split, k), table.tasks)
            parts.append(SearchFold(train, score, missing_tasks(table, split)))
        assert fitted.search is not None
        setup = Setup.of(
            fitted.search.structure, fitted.search.setup.grid, posed, parts
        )
        told = self.outlier_strengths is not None
        models = refit_folds(setup.trials, candidate, solver, told=told, variances=True)
        others, residuals = models.on_rows(
            table, splits, fitted.labels, fitted.row_loss, fitted.calibration.noise
        )
        assert residuals is not None
        if question == "rows":
            sizes = fitted.shape[0], len(splits)
            final = fitted.held_out.final_variances
            calibration = Calibration.of(residuals, others.models, *sizes, final)
        else:
            size, weight = np.abs(residuals.residual), residuals.weight
            calibration = fitted.calibration.with_new_tasks(size, weight)
        held_out = fitted.held_out._replace(others=others)
        self.fitted_ = replace(fitted, calibration=calibration, held_out=held_out)

    def _fixed(self, lam: float, theta: float, epsilon: float) -> FixedStrengths:
        """Unfitted estimator of the same model at given strengths."""
        kind: type[FixedStrengths] = MultiTaskRegressor
        if isinstance(self, ClassificationTasks):
            kind = MultiTaskClassifier
        names, given = kind().get_params(deep=False), self.get_params(deep=False)
        shared = {name: given[name] for name in names if name in given}
        del shared["outlier_tasks"]
        last: Fitted | None = self.__dict__.get("fitted_")
        # What was chosen or, before a fit, what a search begins with.
        chosen = Structure("mean", "uniform", self.task_prior is None or "tied")
        if last is not None and last.search is not None:
            chosen = last.search.structure
        for name in ("task_prior", "ties", "fit_intercept"):
            if is_word(shared[name], "auto"):
                shared[name] = vars(chosen)[name]
        if is_word(shared["intercept_strength"], "adaptive"):
            known = None if last is None else last.intercept_strength
            shared["intercept_strength"] = 1.0 if known is None else known
        return kind(lam, theta, epsilon, **shared)


@dataclass(eq=False, repr=False)
class MultiTaskRegressorCV(RegressionTasks, CrossValidated):
    """MultiTaskRegressor with structure and strengths selected by cross-validation.

    Parameters
    ----------
    lams : array, int or None, default=None
        Values of lam to try, or their number. A number gives a geometric grid from
        lam_max, the smallest value for which all coefficients are zero, down to
        lam_max / 1000. None: 0 with adaptive ties (a mixed model), else 10 values.
    thetas : sequence of float or None, default=None
        Values of theta to try. None: 0, 0.1, 1, 10 and 100 if ``feature_prior``
        states relations whose strength is not estimated, else 1.
    epsilons : sequence of float or None, default=None
        Values of epsilon to try. None: 1 with adaptive ties, which are estimates of
        the coupling, else 0.1, 1, 10, 100 and 1000; once a structure with uniform ties
        was tried, the best value and its neighbours. The grid contains all
        combinations of lams, thetas and epsilons. Default values of thetas and
        epsilons, except those with adaptive ties, are in units of the mean sample
        weight.
    cv : int, splitter or iterable of (train, test), default=5
        Number of folds, a scikit-learn splitter, or splits. A number gives shuffled,
        reproducible folds that are stratified by task (and class). The only row of a
        task is always used for training; but if there are many such rows and intercepts
        are tied, they are held out as well. Tasks of which no row trains are predicted
        as tasks that were not seen. If no row can be held out by default, nothing is
        tuned, and a warning says so.
    scoring : None, str or callable, default=None
        Score to maximise. None is the negative weighted mean squared error over all
        held-out rows. Other scorers are used as in scikit-learn: they are called
        without sample weights, and the last column of X is the position of the task.
    n_jobs : int, optional
        Number of workers. None means 1, and -1 means all processors. They are
        threads, or processes for many short fits; results are bit-identical for any
        ``n_jobs``.
    selection : {"best", "1se"}, default="best"
        "best" selects the candidate with the best mean score. "1se" selects the
        largest lam whose mean score is within one standard error of the best.
    task_prior : {"auto", "chain", "mean", "nested"}, TaskPrior or None, default="auto"
        Which tasks are similar. "auto" tries "mean" and, if the labels of the tasks
        are numbers, dates or ordered categories, "chain"; for nested tasks (several
        columns in ``task``), it tries "nested" and "mean".
    ties : {"auto", "adaptive", "uniform"} or (d,) array, default="auto"
        How strongly the coefficients of each feature are coupled between tasks. "auto"
        tries "adaptive", estimated by REML, and "uniform".
    fit_intercept : {"auto", "tied"} or bool, default="auto"
        Whether intercepts are tied (coupled like the coefficients), free (True) or
        absent (False). "auto" tries "tied" and True. With logistic loss, True is not
        tried if a task has only one class in a training part.
    intercept_strength : float or "adaptive", default="adaptive"
        Strength of the coupling of tied intercepts; "adaptive" estimates it by REML.
    standardize : bool, default=True
        Whether to divide features by their pooled standard deviation during the fit.
        With tied intercepts, features are also centred. ``coef_`` and ``intercept_``
        are always in the units of X.
    feature_prior, penalty, feature_weights, solver, tol, max_iter, task, \
unseen_tasks, loss, dispersion, exposure, offset, crossed
        See :class:`MultiTaskRegressor`. Everything that is estimated from data, such
        as scales, ties and correlations, is estimated on each training part separately.
    outlier_tasks : bool, default=False
        Whether to also try models with outlier tasks. They are fitted with strengths
        close to those selected without outlier tasks: neighbouring values of lam, and
        the same or larger values of epsilon. They are selected if their mean score is
        better; with ``outlier_strengths``, it must be better by more than one standard
        error of the difference.
    outlier_strengths : sequence of float, optional
        Values of ``outlier_strength`` to try in addition to inf. If None, outlier
        tasks are identified by a test, as in :class:`MultiTaskRegressor`.
    device : {None, "cpu", "cuda", "cuda:1", ...}, default=None
        Where statistics of folds are held and paths are solved, as in
        :class:`MultiTaskRegressor`.
    time : str or int, optional
        Column of X that orders the rows of each task, by name or position: numbers,
        dates (also as text) or months such as 202401. It stays a feature. Folds then go
        forward: each holds out a later stretch of every task, as in
        :class:`TaskTimeSplit` (at most three; ``cv`` may be a splitter). The final
        model is fitted to all rows.
    calibrate : {"auto", "rows", "later", "tasks"}, default="auto"
        For which rows intervals hold: rows like those of the fit, later rows of known
        tasks, or rows of new tasks. "auto": "later" with ``time``, else "rows"; in both
        cases new tasks have wider intervals. With "tasks" folds hold out whole tasks,
        as in :class:`TaskGroupKFold`: structure, strengths, trees and intervals are
        those for new tasks, and known tasks have their intervals, too. With ``time`` or
        ``outlier_tasks``, or where ``cv`` is no number, only intervals of new tasks
        are made of tasks that were held out.

    Attributes
    ----------
    structure_ : dict
        Selected structure: "task_prior", "ties" and "fit_intercept", as selected or as
        given, "smooth", "slopes" and "crossed" if these were selected, and "between"
        with nested tasks: see ``between_`` in :class:`MultiTaskRegressor`.
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
        What was tried by "auto" has columns such as "param_ties".
    n_splits_ : int
        Number of splits.
    held_out_ : (n,) array
        Prediction of each row by the selected model fitted without its fold; NaN for
        rows that were never held out and for targets in several columns. Only after
        ``fit``.
    folds_ : (n,) array
        Fold in which each row was held out, or −1. Only after ``fit``.
    reliability_ : Reliability
        Held-out rows in ten parts by their prediction: mean prediction, mean target,
        and quantiles of residuals, or the log-loss. Only after ``fit``, without
        squared loss of classes.
    calibration_ : Calibration
        Distribution of held-out residuals, from which ``predict_interval`` is made.
    drift_ : dict
        Levels of tasks that drift in time, if the folds chose these: their standard
        deviation "sd", their "half_life" in units of time, and the "last" level of
        each task. Only with ``time``.
    coef_, intercept_, tasks_, objective_, dual_gap_, n_iter_, n_features_in_, \
feature_names_in_, feature_prior_, statistics_, task_weight_, task_effect_, task_r2_, \
task_sd_, intercept_sd_, noise_sd_, feature_scale_, shared_coef_, own_coef_, \
outlier_tasks_, crossed_effects_, crossed_sd_
        Results of the final fit to all rows; see :class:`MultiTaskRegressor`.

    Notes
    -----
    **Structures.** A structure is a choice of ``ties``, ``fit_intercept`` and
    ``task_prior``. Parameters that are "auto" are selected one after the other. The
    search begins with adaptive ties, tied intercepts and the mean of all tasks, i.e.
    with a mixed model. Then it tries uniform ties, free intercepts and a chain, in this
    order, each with the best values of the parameters before it. Not every combination
    is tried: there are at most four structures instead of eight. If
    :class:`SplineFeatures` and ``FeaturePrior.smooth`` describe smooth effects, the
    search first compares effects that vary between tasks, effects in common and
    straight lines. With ``ties="adaptive"`` and lam = 0, it finally tries the same
    effects in all tasks, beside intercepts of their own; they must gain more than a
    standard error of the gain over the splits. Each structure has its own grid of
    strengths; grids that are given are used for all of them. ``summary()`` lists the
    structures with their best scores.

    **Paths.** For each fold, theta and epsilon, a path over decreasing lam is computed
    with warm starts. With the default scoring, each row is read only once: statistics
    are computed for each fold, statistics of training parts are sums of them, and
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
    >>> model.structure_["ties"], len(model.cv_results_["params"])
    ('adaptive', 26)
    """

    _: KW_ONLY
    loss: str = "squared"
    dispersion: float | None = None
    exposure: Any = None
    offset: Any = None

    _losses: ClassVar[tuple[str, ...]] = REGRESSION_LOSSES
    _scores_from_statistics = True
    predict_interval = predict_interval

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
        self._need_rows("fit_statistics")
        check_parts(parts)
        self._refuse_scorings()
        return self._fit_parts(*hold_back(parts))

    @with_callbacks
    def fit_source(
        self,
        source: object,
        schema: "Schema | None" = None,
        *,
        where: object = None,
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
        self._need_rows("fit_source")
        self._refuse_scorings()
        if (
            self._family is not None
            or self.exposure is not None
            or self.offset is not None
        ):
            raise ValueError(
                'fit_source needs loss="squared" and no exposure or offset: other '
                "losses need all rows at once. Use fit."
            )
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
        if self._family is not None:
            raise ValueError(
                f'loss must be "squared" for a fit to statistics: got {self.loss!r}, '
                "which needs rows. Use fit."
            )
        root = self._begin_callbacks(None, None)
        with unchanged_on_error(self):
            *tests, always = parts
            self._targets_are_columns = False
            self._weight_unit = 1.0
            scores = [StatisticsError(test) for test in tests]
            trains, whole = leave_one_out(tests, always)
            self._adopt_features(whole)
            folds = list(map(SearchFold, trains, scores))
            self._search_and_fit(SearchData(whole, folds), root)
            assert self.fitted_.held_out is not None
            calibration = normal_calibration(tests, self.fitted_.held_out.models)
            self.fitted_ = replace(self.fitted_, calibration=calibration)
        if root is not None:
            root.call_on_fit_task_end(estimator=self)
        return self

    @property
    def _scores_by_default(self) -> bool:
        family = self._family
        own = "neg_mean_squared_error" if family is None else family.scoring[0]
        return self.scoring is None or self.scoring == own

    def _scorer(self, test: Table, tasks: Sequence[Hashable]) -> Score:
        shell = self._fixed(1.0, 1.0, 1.0)
        return bind_scorer(self.scoring, shell, test, tasks, test.y)


@dataclass(eq=False, repr=False)
class MultiTaskClassifierCV(ClassificationTasks, CrossValidated):
    """MultiTaskClassifier with structure and strengths selected by cross-validation.

    Parameters
    ----------
    lams, thetas, epsilons, cv, n_jobs, selection
        See :class:`MultiTaskRegressorCV`.
    scoring : None, str or callable, default=None
        Score to maximise. None is the negative log-loss over all held-out rows; with
        ``loss="squared"`` it is the negative squared error of scores that stand for
        −1 and +1. "task_auc" is the area under the ROC curve, averaged over the tasks
        that have both classes in the held-out rows. For other scorers, see
        :class:`MultiTaskRegressorCV`.
    task_prior, ties, fit_intercept, intercept_strength, standardize
        See :class:`MultiTaskRegressorCV`.
    feature_prior, penalty, feature_weights, solver, tol, max_iter, task, loss, \
unseen_tasks
        See :class:`MultiTaskClassifier`.
    outlier_tasks, outlier_strengths, device, crossed, time, calibrate
        See :class:`MultiTaskRegressorCV`.

    Attributes
    ----------
    structure_, lam_, theta_, epsilon_, outlier_strength_, best_score_, best_index_, \
cv_results_, n_splits_, folds_, reliability_
        See :class:`MultiTaskRegressorCV`.
    held_out_ : (n,) array
        Score x p + b of each row by the model fitted without its fold, as returned by
        ``decision_function``; see :class:`MultiTaskRegressorCV`.
    classes_, coef_, intercept_, tasks_, objective_, dual_gap_, n_iter_, \
n_features_in_, feature_names_in_, feature_prior_, task_weight_, task_effect_, \
feature_scale_, shared_coef_, own_coef_, outlier_tasks_, crossed_effects_, crossed_sd_
        Results of the final fit to all rows; see :class:`MultiTaskClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from priormtl import MultiTaskClassifierCV, one_vs_one
    >>> X, y, task = one_vs_one(*load_iris(return_X_y=True))
    >>> model = MultiTaskClassifierCV(lams=2, epsilons=[1.0], cv=3, scoring="task_auc")
    >>> model = model.fit(X, y, task=task)
    >>> bool(model.best_score_ > 0.95)
    True
    """

    _: KW_ONLY
    loss: str = "logistic"

    _takes_several: ClassVar[bool] = True

    def _scorer(self, test: Table, tasks: Sequence[Hashable]) -> Score:
        if isinstance(self.scoring, str) and self.scoring == "task_auc":
            if self._n_classes != 2:
                raise ValueError(
                    'scoring="task_auc" needs two classes: got '
                    f"{self._n_classes}. Use None, the log-loss, or one_vs_rest."
                )
            return MeanAuc(test.to_tasks(), task_places(test.tasks, tasks))
        places = task_places(test.tasks, tasks)
        codes = places if test.codes is None else places[test.codes]
        chosen = test.y if self._n_classes > 2 else test.y > 0
        targets = self._classes[codes, chosen.astype(np.intp)]
        shell = self._fixed(1.0, 1.0, 1.0)
        assert isinstance(shell, MultiTaskClassifier)
        shell._set_classes(self._classes)
        return bind_scorer(self.scoring, shell, test, tasks, targets)
