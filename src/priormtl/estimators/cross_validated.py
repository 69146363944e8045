"""MultiTaskRegressorCV, MultiTaskClassifierCV: models chosen by cross-validation.

The rows are divided once, the model is posed on every training part, and the search
scores all strengths on the held-out parts; see ``priormtl.selection``. With squared
loss training parts are merged statistics: rows are read once for the whole grid.
Parameters that are "auto" make several structures, which are searched one after the
other.
"""

import os
import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.sparse import issparse
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from priormtl._arrays import Array
from priormtl.checks import (
    check_choice,
    check_jobs,
    check_outlier_strengths,
    check_strengths,
)
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
from priormtl.estimators.intervals import PredictionIntervals
from priormtl.estimators.labels import refuse_lone_classes
from priormtl.estimators.linear import (
    LinearMultiTask,
    check_outlier_tasks,
    warn_unless_converged,
)
from priormtl.estimators.progress import (
    CallbackSupport,
    show_progress,
    with_callbacks,
)
from priormtl.estimators.regressor import (
    MultiTaskRegressor,
    RegressionTasks,
)
from priormtl.estimators.sources import count_folds, hold_back, read_source
from priormtl.estimators.splitting import (
    DEFAULT_FOLDS,
    EPSILONS,
    THETAS,
    Parts,
    bind_scorer,
    check_parts,
    make_splits,
    read_lams,
)
from priormtl.exceptions import TooLargeError
from priormtl.fitted import Fitted, Search
from priormtl.metrics import Reliability
from priormtl.model import Posed, Solver
from priormtl.priors import (
    as_feature_prior,
    curves_of,
    given_prior,
    has_nesting,
    has_order,
)
from priormtl.selection import (
    RULES,
    Calibration,
    Candidate,
    Fold,
    FoldModel,
    Grid,
    HeldOut,
    LogLoss,
    MeanAuc,
    OutlierCandidate,
    OutlierResult,
    RowError,
    Score,
    SearchResult,
    Split,
    StatisticsError,
    Structure,
    Trial,
    choose_candidate,
    choose_outliers,
    choose_structure,
    codes_among,
    count_outlier_paths,
    count_paths,
    divide,
    fit_outliers,
    hold_out,
    leave_one_out,
    normal_calibration,
    propose_outliers,
    run_jobs,
    score_folds,
    search,
    search_outliers,
    take_test,
    task_places,
)
from priormtl.uncertainty import prediction_variances

if TYPE_CHECKING:
    from priormtl.engines import Schema

CHEAP_CHAIN = 10**6  # numbers in blocks of tasks: a chain is tried in any case
TINY = 1e-20  # variance between tasks, of squared effects, that is none
FEW_ALONE = 0.1  # share of rows without company in their task that always train
TIED = ("tied", "auto")  # intercepts
MOST_NUMBERS = 2**22  # of Gram matrices (32 MB) that stand for rows in any case
# Structure of tables that are too wide for REML.
WIDE = {"ties": "uniform", "slopes": "common"}
STRUCTURE = ("task_prior", "ties", "fit_intercept")  # parameters that may be "auto"

__all__ = ["CrossValidated", "MultiTaskClassifierCV", "MultiTaskRegressorCV"]


class CrossValidated(CallbackSupport, LinearMultiTask):
    """Linear models of many tasks whose strengths are chosen on held-out rows."""

    _scores_from_statistics = False  # whether the default score needs statistics only

    def __init__(
        self,
        lams: Any = None,
        thetas: Any = None,
        epsilons: Any = None,
        *,
        cv: Any = DEFAULT_FOLDS,
        scoring: Any = None,
        n_jobs: int | None = None,
        selection: str = "best",
        feature_prior: Any = None,
        task_prior: Any = "auto",
        penalty: str = "l21",
        fit_intercept: bool | str = "auto",
        intercept_strength: float | str = "adaptive",
        feature_weights: Any = None,
        ties: Any = "auto",
        standardize: bool = True,
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int = 10_000,
        task: Any = None,
        unseen_tasks: str = "error",
        outlier_tasks: bool = False,
        outlier_strengths: Any = None,
        device: Any = None,
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
        self.ties = ties
        self.standardize = standardize
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.task = task
        self.unseen_tasks = unseen_tasks
        self.outlier_tasks = outlier_tasks
        self.outlier_strengths = outlier_strengths
        self.device = device

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
            data = table.to_tasks()
            # Training parts are merged statistics of folds where these do, else rows.
            logistic = self._uses_logistic
            by_rows = logistic or not (self.device or statistics_pay(data))
            # Even shares of classes within tasks would tell the held-out rows of small
            # tasks; free intercepts need them, and so may other scores.
            by_class = isinstance(self, ClassificationTasks) and (
                self.fit_intercept is True or not self._scores_by_default
            )
            whole_tasks = self._holds_out_tasks(table, by_rows=logistic)
            splits = make_splits(
                self.cv,
                table,
                X,
                y,
                groups,
                by_class=by_class,
                whole_tasks=whole_tasks,
            )
            whole, folds = divide(
                table,
                data,
                splits,
                by_rows=logistic or (by_rows and not whole_tasks),
                whole_tasks=whole_tasks,
                device=self.device,
            )
            for k, fold in enumerate(folds):
                if isinstance(fold.train, TaskData):
                    self._check_training(fold.train, k)
            scored = []
            for k, fold in enumerate(folds):
                scored.append((fold.train, self._judge(table, fold, k)))
            self._choose_and_fit(Parts(whole, scored), root)
            self._hold_out(table, [fold.split for fold in folds])
        if root is not None:
            root.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    @abstractmethod
    def _score_rows(self, test: Table, tasks: Sequence[Any]) -> Score:
        """Default score on held-out rows."""

    @abstractmethod
    def _scorer(self, test: Table, tasks: Sequence[Any]) -> Score:
        """Scorer of scikit-learn on held-out rows."""

    def _holds_out_tasks(self, table: Table, *, by_rows: bool) -> bool:
        """Whether folds hold out the only row of a task.

        What the other tasks say about it is part of the model where all is tied. Else
        such rows always train, which leaves few to judge by where they are many.
        """
        is_number = isinstance(self.cv, Integral) and not isinstance(self.cv, bool)
        is_tied = isinstance(self.task_prior, str) and self.fit_intercept in TIED
        if not (is_number or self.cv is None) or not is_tied or self.outlier_tasks:
            return False
        if table.codes is None or issparse(table.X):
            return False
        counts = np.bincount(table.codes[table.measured()[:, 0]])
        alone = int(np.count_nonzero(counts == 1))
        if alone <= FEW_ALONE * int(counts.sum()):
            return False
        if by_rows:  # ties must outweigh faint rows, but not all others
            return isinstance(self.ties, str) and self.ties == "adaptive"
        return len(counts) * table.X.shape[1] ** 2 <= MOST_NUMBERS

    def _check_training(self, train: TaskData, number: int) -> None:
        """Fail if nothing can be learned from a training part."""

    def _begin_callbacks(self, X: Any, y: Any) -> Any:
        """Context of scikit-learn's callbacks; None before version 1.9."""
        if not hasattr(self, "_init_callback_context"):
            return None
        # How many structures there are to search is known only with the data.
        searches: int | None = 2 if self.outlier_tasks else 1
        for name in STRUCTURE:
            value = getattr(self, name)
            if isinstance(value, str) and value == "auto":
                searches = None
        root = self._init_callback_context(max_subtasks=searches)
        return root.call_on_fit_task_begin(estimator=self, X=X, y=y)

    @property
    def _scores_by_default(self) -> bool:
        return self.scoring is None

    def _judge(self, table: Table, fold: Fold, number: int) -> Score:
        """Score on the held-out rows of a fold, by their statistics if these do."""
        by_default, part = self._scores_by_default, fold.test
        by_statistics = by_default and self._scores_from_statistics
        if by_statistics and part is not None and part.weight.any():
            return StatisticsError(part)
        test = take_test(table, fold.split, number)
        if by_default:
            return self._score_rows(test, table.tasks)
        return self._scorer(test, table.tasks)

    def _choose_and_fit(self, parts: Parts, root: Any) -> None:
        """Search, then learn from all data with what was found."""
        posed, search, trials = self._search(parts, root)
        held_out = self._refit_folds(search, trials)
        candidate, solver = search.candidate, self._solver()
        posed = posed.at(candidate.lam, candidate.theta, candidate.epsilon)
        posed, solution = posed.fit(solver, parts.whole)
        has_outliers = isinstance(candidate, OutlierCandidate)
        if isinstance(candidate, OutlierCandidate):
            # As in the search, the data say which tasks may differ, unless told.
            strength, told = candidate.outlier_strength, self.outlier_strengths
            own = strength if told is not None or np.isinf(strength) else None
            posed, solution = fit_outliers(posed, solution, solver, own)
        warn_unless_converged(solution, posed, solver)
        self._publish(parts.whole, posed, solution, has_outliers)
        if isinstance(self, PredictionIntervals):
            final = prediction_variances(posed, solution.coef)
            held_out = held_out._replace(final_variances=final)
        if self.fitted_.between:
            known = {**search.structure, "between": self.fitted_.between}
            search = replace(search, structure=known)
        self.fitted_ = replace(self.fitted_, search=search, held_out=held_out)

    def _search(self, parts: Parts, root: Any) -> tuple[Posed, Search, Sequence[Trial]]:
        """The model posed on all data, what the search found, and its splits."""
        has_outliers = check_outlier_tasks(self.outlier_tasks)
        solver, jobs = self._solver(), check_jobs(self.n_jobs)
        rule = check_choice("selection", self.selection, RULES)
        strengths = self.outlier_strengths
        if strengths is not None:
            strengths = check_outlier_strengths(strengths)
        name = type(self).__name__
        # One BLAS thread for any number of jobs: equal bits, and no threads of threads.
        with threadpool_limits(1, user_api="blas"):
            posed, plain = self._search_structures(parts, solver, jobs, root)
            best = choose_structure(plain, rule)
            epsilon, lam, theta, chosen = plain.candidates()[best]
            result: SearchResult | OutlierResult = plain
            if has_outliers:
                structure = plain.structures[chosen]
                start = OutlierCandidate(epsilon, lam, np.inf, theta)
                extra = propose_outliers(
                    posed[chosen].problem, structure.grid, start, strengths, solver
                )
                total = count_outlier_paths(extra, structure.trials)
                with show_progress(
                    self, root, f"{name}, outlier tasks", total
                ) as advance:
                    portable = self.device is None
                    found = search_outliers(
                        plain,
                        extra,
                        structure.trials,
                        solver,
                        lambda todo: run_jobs(todo, jobs, advance, portable=portable),
                    )
                result = found = replace(found, structure=chosen)
                errors = 0.0 if strengths is None else 1.0
                best = choose_outliers(found, best, errors)
        if result.unsolved:
            warnings.warn(
                f"{result.unsolved} of {result.scores.size} fits on training parts did "
                f"not reach tol={self.tol:g}, so their scores are approximate. Raise "
                "max_iter, or use standardize=True.",
                ConvergenceWarning,
                stacklevel=5,
            )
        given = self._structure(plain.structures[chosen].settings)
        kept = result.without_data()
        search = Search(kept, best, self._score_name, self.selection, given)
        return posed[chosen], search, plain.structures[chosen].trials

    @property
    def _score_name(self) -> str:
        """Name of the scoring; of the default one that of scikit-learn."""
        if self.scoring is None:
            return "neg_log_loss" if self._uses_logistic else "neg_mean_squared_error"
        return self.scoring if isinstance(self.scoring, str) else "score"

    def _refit_folds(self, search: Search, trials: Sequence[Trial]) -> HeldOut:
        """Models of the chosen candidate on the training part of each split."""
        candidate, solver, own = search.candidate, self._solver(), np.inf
        if isinstance(candidate, OutlierCandidate):
            own = candidate.outlier_strength
        lam, theta, epsilon = candidate.lam, candidate.theta, candidate.epsilon
        models, variances = list[FoldModel](), list[Array]()
        for trial in trials:
            known = trial.posed.estimated() if lam == 0 and np.isinf(own) else None
            at = trial.posed.at(lam, theta, epsilon)
            if known is None or epsilon != 1.0:
                solution = solver.solve(at.problem)
                coef = solution.coef
                if np.isfinite(own):
                    told = None if self.outlier_strengths is None else own
                    at, solution = fit_outliers(at, solution, solver, told)
                    coef = solution.point.total
                known = coef.T / trial.posed.scale, solution.intercept
            models.append(known)
            if isinstance(self, PredictionIntervals):
                coef = (known[0] * np.where(np.isfinite(at.scale), at.scale, 0.0)).T
                variances.append(prediction_variances(at, coef))
        return HeldOut(None, None, models, np.array(variances))

    def _hold_out(self, table: Table, splits: Sequence[Split]) -> None:
        """Scores of rows by the models that were not fitted to them."""
        fitted, n = self.fitted_, len(table)
        assert fitted.held_out is not None
        models, prediction = fitted.held_out.models, np.full(n, np.nan)
        dealt = np.full(n, -1)
        for k, split in enumerate(splits):
            dealt[split.test] = k
        codes, known = codes_among(table, fitted.labels)
        folds = np.where(known, dealt, -1)
        own, shared = score_folds(table.X, codes, models)
        reliability = calibration = None
        if codes is not None:
            held = own[np.maximum(folds, 0), np.arange(n)]
            prediction = np.where(folds >= 0, held, np.nan)
            if isinstance(self, PredictionIntervals):
                reliability = Reliability.of(prediction, table.y)
            elif self._uses_logistic:
                reliability = Reliability.of_scores(prediction, table.y)
        held_out = fitted.held_out._replace(prediction=prediction, folds=dealt)
        if isinstance(self, PredictionIntervals):
            rows = hold_out(table, codes, folds, own, shared, held_out.variances)
            parts = models, fitted.shape[0], len(splits), held_out.final_variances
            calibration = Calibration.of(rows, *parts)
        self.fitted_ = replace(
            fitted, held_out=held_out, reliability=reliability, calibration=calibration
        )

    def _search_structures(
        self, parts: Parts, solver: Solver, jobs: int, root: Any
    ) -> tuple[list[Posed], SearchResult]:
        """Try structures one choice after the other, each with its grid of strengths.

        The first structure has all choices at their first value. For each choice the
        other values are tried with the best of the choices before it.
        """
        choices = self._choices(parts)
        best = {name: values[0] for name, values in choices.items()}
        posed, result, said = list[Posed](), None, list[str]()
        leader: Candidate | None = None
        title = f"{type(self).__name__}, {len(parts.folds)} splits"
        for choice, values in ({"": (None,)} | choices).items():
            if posed and _is_wide(best):
                break
            tried = [best] if not choice else [{**best, choice: v} for v in values[1:]]
            for wanted in tried:
                settings = wanted
                if settings.get("task_prior") == "chain" and not _are_alike(posed):
                    continue
                with warnings.catch_warnings():
                    if choice or "ties" in choices:  # others are tried, too
                        warnings.simplefilter("ignore", UserWarning)
                    try:
                        model = self._model(**self._open(settings, parts))
                        whole = model.pose(parts.whole)
                    except TooLargeError:
                        if choice:
                            said.append(_not_tried(choice, settings))
                            continue
                        whole, settings = self._pose_wide(settings, parts)
                        said.append(_too_wide(whole))
                    near = leader if settings.get("ties") == best.get("ties") else None
                    grid = self._grid(whole, settings, near)
                    structure = Structure.of(whole, grid, parts.folds, settings)
                total = count_paths([structure])
                with show_progress(self, root, title, total) as advance:
                    scored = search([structure], solver, n_jobs=jobs, advance=advance)
                posed.append(whole)
                result = scored if result is None else result + scored
            assert result is not None
            leader = result.candidates()[choose_candidate(result, "best")]
            best = dict(result.structures[leader.structure].settings)
        assert result is not None
        for text in said:
            warnings.warn(text, UserWarning, stacklevel=6)
        return posed, result

    def _pose_wide(
        self, settings: Mapping[str, Any], parts: Parts
    ) -> tuple[Posed, dict[str, Any]]:
        """Structure of tables that are too wide: common effects; lam is searched."""
        settings = {**settings, **WIDE}
        if "smooth" in settings:
            settings["smooth"] = "straight"
        return self._model(**self._open(settings, parts)).pose(parts.whole), settings

    def _choices(self, parts: Parts) -> dict[str, tuple[Any, ...]]:
        """What the folds decide, with the values to try, the likeliest ones first."""
        found: dict[str, tuple[Any, ...]] = {}
        prior = as_feature_prior(self.feature_prior)
        adapts = isinstance(self.ties, str) and self.ties in ("auto", "adaptive")
        if adapts and curves_of(prior, parts.whole.features):
            found["smooth"] = ("varying", "common", "straight")
        # REML needs all statistics at once; those on disk are to stay there.
        whole = parts.whole
        estimates = not (isinstance(whole, TaskStatistics) and whole.is_mapped)
        if isinstance(self.ties, str) and self.ties == "auto":
            found["ties"] = ("adaptive", "uniform") if estimates else ("uniform",)
        if isinstance(self.fit_intercept, str) and self.fit_intercept == "auto":
            free = self._allows_free(parts)
            found["fit_intercept"] = ("tied", True) if free else ("tied",)
            if self.intercept_strength == "adaptive" and not estimates:
                found["fit_intercept"] = (True,)
        if self.task_prior is None:  # nothing is tied
            for name, value in {"ties": "uniform", "fit_intercept": True}.items():
                if name in found:
                    found[name] = (value,)
        if isinstance(self.task_prior, str) and self.task_prior == "auto":
            tasks = parts.whole.tasks
            found["task_prior"] = ("mean", "chain") if has_order(tasks) else ("mean",)
            if has_nesting(tasks):
                found["task_prior"] = ("nested", "mean")
        by_reml = self.lams is None or (np.iterable(self.lams) and not any(self.lams))
        if isinstance(self.ties, str) and self.ties == "adaptive" and by_reml:
            # REML takes rows that are far off for tasks that differ.
            found["slopes"] = ("varying", "common")
        return found

    def _allows_free(self, parts: Parts) -> bool:
        """Whether every task has a finite intercept of its own in every part."""
        return all(
            not isinstance(train, TaskStatistics) or bool(np.all(train.weight))
            for train, _ in parts.folds
        )

    def _structure(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Structure of a fitted model: what was chosen, and what was given."""
        given = {name: getattr(self, name) for name in STRUCTURE}
        return {**given, "task_prior": given_prior(self), **settings}

    def _open(self, settings: Mapping[str, Any], parts: Parts) -> dict[str, Any]:
        """Settings of a model with these choices and open strengths."""
        found = ("smooth", "slopes", "between")  # not parameters of a model
        chosen = {name: value for name, value in settings.items() if name not in found}
        prior = as_feature_prior(self.feature_prior)
        curves = curves_of(prior, parts.whole.features)
        curved = tuple(sorted(j for group in curves.values() for j in group))
        if settings.get("smooth") == "straight":
            chosen["left_out"] = curved
        elif settings.get("smooth") == "common":
            chosen["common"] = curved
        if settings.get("slopes") == "common":
            out = chosen.get("left_out", ())
            kept = (j for j in range(parts.whole.shape[0]) if j not in out)
            chosen["common"] = tuple(kept)
        return {"lam": 1.0, "theta": 1.0, "epsilon": 1.0, **chosen}

    def _grid(
        self, posed: Posed, settings: Mapping[str, Any], near: Candidate | None
    ) -> Grid:
        """Strengths to try with a structure; grids that were given stay as they are.

        Where REML has estimated ties and smoothness, fewer are worth trying, and also
        where the best ones of a structure with uniform ties are known.
        """
        # Strengths mean the same for rows of any weight.
        unit = self._weight_unit
        has_relations = posed.problem.prior.D.nnz > 0
        thetas = unit * np.array(THETAS if has_relations else (1.0,))
        if self.thetas is not None:
            thetas = check_strengths("thetas", self.thetas)
        if _is_wide(settings):  # a ridge that was not estimated is no help
            thetas = np.array([0.0, 1.0] if has_relations else [0.0])
            return Grid(read_lams(None, posed.problem), thetas, np.ones(1))
        epsilons, lams = unit * np.array(EPSILONS), None
        if isinstance(posed.model.ties, str) and posed.model.ties == "adaptive":
            epsilons, lams = np.ones(1), np.zeros(1)
        elif near is not None and self.epsilons is None and near.epsilon in epsilons:
            place = int(np.flatnonzero(epsilons == near.epsilon)[0])
            epsilons = epsilons[max(place - 1, 0) : place + 2]
        if self.epsilons is not None:
            epsilons = check_strengths("epsilons", self.epsilons)
        if self.lams is not None or lams is None:
            lams = read_lams(self.lams, posed.problem)
        return Grid(lams, thetas, epsilons)

    @property
    def _chosen_grid(self) -> Grid:
        """Strengths that were tried with the chosen structure."""
        search = self.fitted_.search
        assert search is not None
        return next(
            one.grid
            for one in search.result.structures
            if all(search.structure[name] == v for name, v in one.settings.items())
        )

    def _fit_tasks(self, data: TaskData | TaskStatistics) -> None:
        """Learn from other data with the structure and the strengths chosen."""
        search, held_out = self.fitted_.search, self.fitted_.held_out
        posed = self._known_model().pose(data)
        posed, solution = posed.fit(self._solver(), data)
        self._publish(data, posed, solution, has_outliers=False)
        self.fitted_ = replace(self.fitted_, search=search, held_out=held_out)

    def _fixed(self, lam: float, theta: float, epsilon: float) -> LinearMultiTask:
        """Unfitted estimator of the same model at given strengths."""
        kind = MultiTaskRegressor
        if isinstance(self, ClassificationTasks):
            kind = MultiTaskClassifier
        names = kind().get_params(deep=False)
        given = self.get_params(deep=False)
        shared = {name: given[name] for name in names if name in given}
        shared.pop("outlier_tasks", None)
        tied = True if self.task_prior is None else "tied"
        first = {"task_prior": "mean", "ties": "uniform", "fit_intercept": tied}
        last: Fitted | None = self.__dict__.get("fitted_")
        chosen = {} if last is None or last.search is None else last.search.structure
        for name, value in first.items():
            if isinstance(shared[name], str) and shared[name] == "auto":
                shared[name] = chosen.get(name, value)
        if shared["intercept_strength"] == "adaptive":
            known = None if last is None else last.intercept_strength
            shared["intercept_strength"] = 1.0 if known is None else known
        return kind(lam, theta, epsilon, **shared)


def _is_wide(settings: Mapping[str, Any]) -> bool:
    return all(settings.get(name) == value for name, value in WIDE.items())


def _too_wide(posed: Posed) -> str:
    d, m = posed.problem.shape
    return (
        f"{d:,} features and {m:,} tasks are too many to estimate which effects differ "
        "between tasks: all tasks have the same effects beside their intercepts, and "
        "lam is chosen by cross-validation."
    )


def _not_tried(choice: str, settings: Mapping[str, Any]) -> str:
    return (
        f"{choice}={settings[choice]!r} was not tried: it takes too much memory for "
        "this many tasks and features."
    )


def _are_alike(posed: Sequence[Posed]) -> bool:
    """Whether neighbouring tasks are more alike than others: a chain may help.

    Numbers may be identifiers. The test is that of lag-one autocorrelation of
    intercepts and effects, as REML has estimated them for tasks in any order, at a
    level of 5 % for all of them. It overlooks chains that the folds find (the survey
    years of GSS abortion attitudes), so that it decides only where a chain is costly.
    """
    known = [one.estimate for one in posed if one.estimate is not None]
    rows = known[-1].rows if known else np.zeros((0, 0))
    if known and rows.shape[1] * rows.shape[0] ** 2 > CHEAP_CHAIN:
        apart = rows - rows.mean(axis=1, keepdims=True)
        squares = np.sum(apart**2, axis=1)
        varies = squares > TINY * np.sum(rows**2, axis=1)
        m, k = rows.shape[1], int(varies.sum())
        if k == 0:
            return False
        lagged = np.sum(apart[varies, 1:] * apart[varies, :-1], axis=1)
        z = np.sqrt(m) * (lagged / squares[varies] + 1.0 / m)
        return bool(z.max() > norm.isf(0.05 / k))
    return True


class MultiTaskRegressorCV(PredictionIntervals, RegressionTasks, CrossValidated):
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
        are tied, they are held out as well. With other splits, every training part must
        contain every task.
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
    feature_prior, penalty, feature_weights, solver, tol, max_iter, task, unseen_tasks
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

    Attributes
    ----------
    structure_ : dict
        Selected structure: "task_prior", "ties" and "fit_intercept", as selected or as
        given, "smooth" and "slopes" if these were selected, and "between" with nested
        tasks: see ``between_`` in :class:`MultiTaskRegressor`.
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
    coef_, intercept_, tasks_, objective_, dual_gap_, n_iter_, n_features_in_, \
feature_names_in_, feature_prior_, statistics_, task_weight_, task_effect_, task_r2_, \
task_sd_, intercept_sd_, noise_sd_, feature_scale_, shared_coef_, own_coef_, \
outlier_tasks_
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

    _scores_from_statistics = True

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
            self._weight_unit = 1.0
            scores = [StatisticsError(test) for test in tests]
            trains, whole = leave_one_out(tests, always)
            self._adopt_features(whole)
            scored = list(zip(trains, scores, strict=True))
            self._choose_and_fit(Parts(whole, scored), root)
            assert self.fitted_.held_out is not None
            found = normal_calibration(tests, self.fitted_.held_out.models)
            self.fitted_ = replace(self.fitted_, calibration=found)
        if root is not None:
            root.call_on_fit_task_end(estimator=self)
        return self

    @property
    def _scores_by_default(self) -> bool:
        return self.scoring is None or self.scoring == "neg_mean_squared_error"

    def _score_rows(self, test: Table, tasks: Sequence[Any]) -> Score:
        data = test.to_tasks()
        if statistics_pay(data):
            held_out = condense(data)
            assert isinstance(held_out, TaskStatistics)
            return StatisticsError(align_tasks(held_out, tuple(tasks)))
        return RowError(data, task_places(test.tasks, tasks))

    def _scorer(self, test: Table, tasks: Sequence[Any]) -> Score:
        shell = self._fixed(1.0, 1.0, 1.0)
        return bind_scorer(self.scoring, shell, test, tasks, test.y)


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
    outlier_tasks, outlier_strengths, device
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
feature_scale_, shared_coef_, own_coef_, outlier_tasks_
        Results of the final fit to all rows; see :class:`MultiTaskClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from priormtl import MultiTaskClassifierCV, one_vs_one
    >>> X, y, task = one_vs_one(*load_iris(return_X_y=True))
    >>> model = MultiTaskClassifierCV(lams=4, scoring="task_auc").fit(X, y, task=task)
    >>> bool(model.best_score_ > 0.95)
    True
    """

    def __init__(
        self,
        lams: Any = None,
        thetas: Any = None,
        epsilons: Any = None,
        *,
        cv: Any = DEFAULT_FOLDS,
        scoring: Any = None,
        n_jobs: int | None = None,
        selection: str = "best",
        feature_prior: Any = None,
        task_prior: Any = "auto",
        penalty: str = "l21",
        fit_intercept: bool | str = "auto",
        intercept_strength: float | str = "adaptive",
        feature_weights: Any = None,
        ties: Any = "auto",
        standardize: bool = True,
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int = 10_000,
        task: Any = None,
        loss: str = "logistic",
        unseen_tasks: str = "error",
        outlier_tasks: bool = False,
        outlier_strengths: Any = None,
        device: Any = None,
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
            ties=ties,
            standardize=standardize,
            solver=solver,
            tol=tol,
            max_iter=max_iter,
            task=task,
            unseen_tasks=unseen_tasks,
            outlier_tasks=outlier_tasks,
            outlier_strengths=outlier_strengths,
            device=device,
        )
        self.loss = loss

    def _score_rows(self, test: Table, tasks: Sequence[Any]) -> Score:
        score = LogLoss if self._uses_logistic else RowError
        return score(test.to_tasks(), task_places(test.tasks, tasks))

    def _scorer(self, test: Table, tasks: Sequence[Any]) -> Score:
        if isinstance(self.scoring, str) and self.scoring == "task_auc":
            return MeanAuc(test.to_tasks(), task_places(test.tasks, tasks))
        places = task_places(test.tasks, tasks)
        codes = places if test.codes is None else places[test.codes]
        targets = self._classes[codes, (test.y > 0).astype(np.intp)]
        shell = self._fixed(1.0, 1.0, 1.0)
        assert isinstance(shell, MultiTaskClassifier)
        shell._set_classes(self._classes)
        return bind_scorer(self.scoring, shell, test, tasks, targets)

    def _check_training(self, train: TaskData, number: int) -> None:
        """Fail if free intercepts of logistic loss have no finite best value."""
        unties = self.fit_intercept == "auto" and self.task_prior is None
        if self._uses_logistic and (self.fit_intercept is True or unties):
            refuse_lone_classes(train, number)

    def _allows_free(self, parts: Parts) -> bool:
        if not self._uses_logistic:
            return super()._allows_free(parts)
        try:
            for number, (train, _) in enumerate(parts.folds):
                assert isinstance(train, TaskData)
                refuse_lone_classes(train, number)
        except ValueError:
            return False
        return True
