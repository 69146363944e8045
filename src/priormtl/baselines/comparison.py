"""compare: methods tuned alike and scored on the same held-out rows.

Differences are paired by split, and their intervals allow for the overlap of training
parts (``metrics.corrected_interval``).
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain
from numbers import Integral
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import FitFailedWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import has_fit_parameter
from threadpoolctl import threadpool_limits

from priormtl import data, design, estimators
from priormtl._arrays import Array, Index, Matrix
from priormtl._machine import leaving_interrupts
from priormtl.baselines import usual
from priormtl.baselines.tuned import (
    BASELINES,
    DEFAULT_SETTINGS,
    REFERENCES,
    match_method,
    tuned,
)
from priormtl.checks import check_choice, check_count, check_jobs
from priormtl.estimators.regressor import REGRESSION_LOSSES
from priormtl.estimators.splitting import with_task_column
from priormtl.losses import Family
from priormtl.metrics import auc, corrected_interval, variance_explained
from priormtl.selection import Split, take_test, take_training, task_places

SMALLER_IS_BETTER = ("rmse", "log_loss", "deviance")

OURS = "priormtl"


class SplitResult(NamedTuple):
    """One method on one split."""

    scores: Array  # of each metric; NaN if it failed
    seconds: float
    failure: str | None
    caught: list[tuple[type[Warning], str]]  # warnings


def compare(
    X: object,
    y: object,
    *,
    task: object = None,
    methods: object = "default",
    cv: object = estimators.DEFAULT_FOLDS,
    classify: bool | None = None,
    n_settings: int = DEFAULT_SETTINGS,
    feature_prior: object = None,
    task_prior: object = "auto",
    time: str | None = None,
    split: str = "rows",
    loss: str = "squared",
    exposure: str | None = None,
    offset: str | None = None,
    n_jobs: int | None = None,
) -> Any:
    """Compare methods on held-out rows, each tuned on the training rows alone.

    Every split holds out the same rows for all methods. On its training rows a method
    chooses among about ``n_settings`` settings by five inner folds and is refitted with
    the best. Features are divided by their standard deviations.

    Parameters
    ----------
    X : (n, d) array, sparse matrix or data frame
        Features; with ``task="name"`` also the task's column.
    y : (n,) or (n, m)
        Targets of stacked rows, or one column per task. Missing values in such columns
        mark targets that were not measured.
    task : (n,) labels, or column of X, optional
        Task of each row: labels, the name of a column of a data frame, or the position
        of a column of an array.
    methods : "default", "all", name, list of names, or mapping to estimators
        "priormtl" is our estimator (see Notes); the others are in ``USUAL``,
        ``BASELINES`` and ``REFERENCES``. "default" leaves out the slow ones ("fedem",
        "mtfl", "mkmtl") and those whose package is not installed
        (``priormtl[compare]``). Both leave out those that do not take such targets. A
        mapping from names to estimators may hold any estimator of scikit-learn: one
        whose ``fit`` takes ``task`` gets the labels; one with a ``task`` column of its
        own, or a Pipeline, gets X as it is; others get the position of the task as an
        additional last column of X (a category for histogram boosting).
    cv, feature_prior, task_prior
        Outer splits, and the priors of our estimator, as in
        :class:`MultiTaskRegressorCV`. Strength zero is among the settings tried for
        each prior, if ``n_settings`` allows it.
    classify : bool, optional
        Whether targets are classes: two per task, or more that are the same in all.
        None: yes if they are text or Booleans, or take exactly two values.
    n_settings : int
        Approximate number of settings that each method tries.
    time : str, optional
        Column of X, a data frame, that orders the rows of each task. Splits then go
        forward in time, unless ``split`` or ``cv`` says otherwise, inner folds of
        methods that choose by themselves do too, and "last-value" is compared.
    split : {"rows", "later", "tasks"}, default="rows"
        Question that the splits ask, where ``cv`` is a number: rows left out at random,
        later rows (also the default with ``time``), or whole tasks. Methods of the
        literature cannot predict these and fail.
    loss : {"squared", "poisson", "gamma", "negative_binomial"}, default="squared"
        What numbers as targets are: any, counts, positive amounts, or counts that vary
        more than Poisson's. Other losses than squared are judged by their deviance.
    exposure, offset : str, optional
        Columns of X, a data frame, as in :class:`MultiTaskRegressor`. Estimators in a
        mapping get them as features.
    n_jobs : int, optional
        Number of processes; None means one, −1 all processors. Scores are
        bit-identical for any ``n_jobs``.

    Returns
    -------
    data frame
        One row per method and metric, of the same library as X, else of pandas, polars
        or pyarrow, whichever is installed. Columns: method, metric, mean and sd (over
        the splits), seconds (to tune and fit, mean over splits), and difference, low
        and high: the mean difference to the best method on this metric, paired by
        split, and its 95 % interval. Metrics are ``rmse``, ``variance_explained`` and
        ``variance_explained_by_task`` for numbers, ``deviance`` (Poisson's for all
        counts) and ``rmse`` with another loss, ``log_loss`` (of probabilities clipped
        to [0.001, 0.999]; NaN without probabilities), ``auc`` (of two classes, mean
        over tasks) and ``accuracy`` for classes. Methods are ordered by the first
        metric, best first.

    Notes
    -----
    "priormtl" is what :func:`tabular_model` fits where X is a data frame with a task
    column, otherwise :class:`MultiTaskRegressorCV` or :class:`MultiTaskClassifierCV`
    with standardised features. A method that fails on a split has NaN in its rows, and
    a FitFailedWarning gives the reason. After two seconds a progress bar is shown on
    terminals (if rich is installed), elsewhere progress is logged.

    Examples
    --------
    >>> from priormtl.baselines import compare
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> chosen = ["priormtl", "ridge-single"]
    >>> table = compare(X, y, task=task, methods=chosen, cv=3, n_settings=5)
    >>> table.columns.tolist()
    ['method', 'metric', 'mean', 'sd', 'seconds', 'difference', 'low', 'high']
    >>> sorted(table["method"].unique())
    ['priormtl', 'ridge-single']
    >>> bool((table.query("metric == 'variance_explained'")["mean"] > 0.4).all())
    True
    """
    library, jobs = design.find_frame_library(X), check_jobs(n_jobs)
    check_choice("loss", loss, REGRESSION_LOSSES)
    numbers = loss != "squared"
    if numbers and classify:
        raise ValueError(f"loss={loss!r} needs numbers as targets: got classify=True.")
    by_class = not numbers and are_classes(y) if classify is None else classify
    asked = check_choice("split", split, ("rows", "later", "tasks"))
    if asked == "later" and time is None:
        raise ValueError('split="later" needs the column of time: got time=None.')
    if time is not None and asked == "rows":
        asked = "later"
    splitter = make_splitter(asked, cv, task, time)
    roles: dict[str, Any] = {"loss": loss, "exposure": exposure, "offset": offset}
    comparison = read_comparison(
        X, y, task, splitter, classify=by_class, time=time, **roles
    )
    ours = Ours(
        n_settings,
        comparison.rows_per_task,
        feature_prior,
        task_prior,
        comparison.column,
        time if asked == "later" else None,
        comparison.n_classes,
        **roles,
    )
    models = make_methods(methods, ours)
    if not models:
        raise ValueError("methods must name at least one method: got none.")
    results = _run(comparison, models, jobs)
    _warn(results)
    ratio = np.mean([len(s.test) / len(s.train) for s in comparison.splits])
    columns = _tabulate(comparison.metrics, results, float(ratio))
    return design.build_frame(columns, library)


def _run(
    comparison: "Comparison", models: Mapping[str, BaseEstimator], n_jobs: int
) -> dict[str, list[SplitResult]]:
    n = len(comparison.splits)
    pairs = [(name, k) for name in models for k in range(n)]
    jobs = (delayed(_run_one)(comparison, name, models[name], k) for name, k in pairs)
    # Processes: threads of short steps wait for each other, which would distort the
    # seconds.
    with leaving_interrupts() if n_jobs > 1 else nullcontext():
        running = Parallel(n_jobs, return_as="generator_unordered")(jobs)
    found: dict[tuple[str, int], SplitResult] = {}
    title = f"{len(models)} methods, {n} splits"
    with estimators.show_progress(None, None, title, len(pairs), "fits") as advance:
        for name, number, result in running:
            found[name, number] = result
            advance()
    return {name: [found[name, k] for k in range(n)] for name in models}


def _run_one(
    comparison: "Comparison", name: str, model: BaseEstimator, number: int
) -> tuple[str, int, SplitResult]:
    """Tune, fit and score one method on one split."""
    scores, failure = np.full(len(comparison.metrics), np.nan), None
    begin = end = perf_counter()
    # One BLAS thread in every process: equal bits for any number of jobs.
    with (
        estimators.hide_progress(),
        threadpool_limits(1, user_api="blas"),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        try:
            fitted = comparison.fit(clone(model), number)
            end = perf_counter()
            scores = comparison.score(fitted, number)
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
    told = [(warning.category, str(warning.message)) for warning in caught]
    return name, number, SplitResult(scores, end - begin, failure, told)


def _warn(results: Mapping[str, Sequence[SplitResult]]) -> None:
    """Warn of failures, and once of each kind of warning; fail if no method is left."""
    failures = {
        name: [(k, each.failure) for k, each in enumerate(splits) if each.failure]
        for name, splits in results.items()
    }
    if all(failures.values()):
        name, ((number, reason), *_) = next(iter(failures.items()))
        raise ValueError(
            f"no method could be fitted and scored on every split; {name}, split "
            f"{number}: {reason}"
        )
    for name, splits in results.items():
        first: dict[type[Warning], str] = {}
        if failed := failures[name]:
            number, reason = failed[0]
            first[FitFailedWarning] = (
                f"{name} failed on {len(failed)} of {len(splits)} splits, its results "
                f"are NaN; split {number}: {reason}"
            )
        for category, text in chain(*(result.caught for result in splits)):
            first.setdefault(category, f"{name}: {text}")
        for category, text in first.items():
            warnings.warn(text, category, stacklevel=3)


def _tabulate(
    metrics: Sequence[str], results: Mapping[str, Sequence[SplitResult]], ratio: float
) -> dict[str, list[object]]:
    """Columns of the result, methods ordered by the first metric.

    ``ratio``: rows held out for each row of training.
    """
    names, nan = list(results), float("nan")
    failed = [any(each.failure for each in results[name]) for name in names]
    every = [results[name] for name in names]
    scores = np.array([[one.scores for one in each] for each in every], np.float64)
    seconds = np.array([[one.seconds for one in each] for each in every], np.float64)
    scores[failed] = seconds[failed] = nan

    def known(values: Array) -> Array:
        # A metric may have no value on a split, for every method alike: one class only.
        return values[~np.isnan(values)]

    def mean(values: Array) -> float:
        return float(known(values).mean()) if len(known(values)) else nan

    smaller = np.array([metric in SMALLER_IS_BETTER for metric in metrics])
    losses = np.where(smaller, 1.0, -1.0) * np.apply_along_axis(mean, 1, scores)
    losses[np.isnan(losses)] = np.inf
    order = np.lexsort(losses.T[::-1])  # stable; those without a value come last
    lines = []
    for j, metric in enumerate(metrics):
        best = order[np.argmin(losses[order, j])]
        for k in order:
            values = known(scores[k, :, j])
            spread = float(values.std(ddof=1)) if len(values) > 1 else nan
            # Intervals are corrected for overlapping training parts.
            apart, ends = known(scores[k, :, j] - scores[best, :, j]), (nan, nan)
            if len(apart) > 1:
                ends = corrected_interval(apart, ratio)[:2]
            row = (mean(values), spread, float(seconds[k].mean()), mean(apart), *ends)
            lines.append((names[k], metric, *row))
    titles = ("method", "metric", "mean", "sd", "seconds", "difference", "low", "high")
    columns = zip(*lines, strict=True)
    return {name: list(column) for name, column in zip(titles, columns, strict=True)}


# Rows, splits and metrics.


@dataclass(frozen=True, eq=False)
class Comparison:
    """Rows in the user's own types, splits, and metrics on the held-out rows."""

    X: object  # without the task's column
    y: object
    labels: object  # task of each row, or None
    table: data.Table
    splits: list[Split]
    classes: np.ndarray | None  # (m, 2) negative and positive, (m, K); None: numbers
    whole: object  # X with the task's column, if it had one
    column: object = None  # name or position of that column
    time: str | None = None  # column of X that orders rows
    family: Family | None = None  # whose deviance is judged; None: squared, or classes

    @property
    def n_classes(self) -> int:
        return 0 if self.classes is None else int(self.classes.shape[1])

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of what ``score`` returns, the most important first."""
        if self.family is not None:
            return "deviance", "rmse"
        if self.classes is None:
            return "rmse", "variance_explained", "variance_explained_by_task"
        if self.n_classes > 2:
            return "log_loss", "accuracy"
        return "log_loss", "auc", "accuracy"

    @property
    def rows_per_task(self) -> float:
        return float(self.table.measured().sum()) / len(self.table.tasks)

    def fit(self, model: BaseEstimator, number: int) -> BaseEstimator:
        rows = self.splits[number].train
        if self.time is not None and isinstance(model, usual.UsualRegressor):
            model.set_params(time=self.time)
        knows = has_fit_parameter(model, "task") or self._finds_task(model)
        if self.labels is not None and not knows:
            model = WithTaskColumn(model)
        X, argument = self._features(model, rows)
        return model.fit(X, data.take_rows(self.y, rows), **argument)

    def _features(
        self, model: BaseEstimator, rows: Index
    ) -> tuple[object, Mapping[str, object]]:
        """X of these rows, and the argument that tells a method their tasks."""
        if self._finds_task(model):
            return data.take_rows(self.whole, rows), {}
        X = data.take_rows(self.X, rows)
        if self.labels is None:
            return X, {}
        return X, {"task": data.take_rows(self.labels, rows)}

    def _finds_task(self, model: BaseEstimator) -> bool:
        """Whether the model looks for the task's column by itself."""
        if self.column is None or has_fit_parameter(model, "task"):
            return False
        settings = model.get_params(deep=True) if hasattr(model, "get_params") else {}
        named = (value for key, value in settings.items() if key.endswith("__task"))
        return "steps" in settings or any(value is not None for value in named)

    def score(self, model: BaseEstimator, number: int) -> Array:
        test = take_test(self.table, self.splits[number], number)
        # The same rows as ``test`` has: those with a measured target.
        rows = self.splits[number].test
        rows = rows[np.asarray(self.table.measured().any(axis=1))[rows]]
        X, argument = self._features(model, rows)
        task, measured = test.codes, ~np.isnan(test.y)
        predicted = self._match(model.predict(X, **argument), test)
        if self.classes is None:
            predicted = _finite(predicted)
            y, means = test.y[measured], predicted[measured]
            rmse = np.sqrt(np.mean((y - means) ** 2))
            if self.family is not None:
                return np.array([usual.deviance(self.family, y, means), rmse])
            pooled = variance_explained(test.y, predicted, task=task)
            by_task = variance_explained(test.y, predicted, task=task, average="tasks")
            return np.array([rmse, pooled, by_task])
        shares, log_loss = None, np.nan
        if hasattr(model, "predict_proba"):
            shares = np.asarray(model.predict_proba(X, **argument))
        if (K := self.n_classes) > 2:
            if shares is not None and shares.shape != (len(test), K):
                raise ValueError(
                    f"predict_proba must have a column for each of {K} classes: got "
                    f"the shape {shares.shape}."
                )
            if shares is not None:
                log_loss = usual.log_loss(test.y, _finite(shares))
            right = predicted == self.classes[0, test.y.astype(np.intp)]
            return np.array([log_loss, right.mean()])
        classes = self.classes[self._columns(test)]
        scores = predicted == classes[..., 1]
        if shares is not None:
            # Probabilities of both classes for labelled rows, else of the second.
            scores = self._match(shares if task is None else shares[:, 1], test)
            log_loss = usual.log_loss(test.y[measured], _finite(scores)[measured])
        if hasattr(model, "decision_function"):
            scores = self._match(model.decision_function(X, **argument), test)
        truth = np.where(test.y > 0, classes[..., 1], classes[..., 0])
        right = (predicted == truth)[measured]
        return np.array(
            [log_loss, auc(test.y, _finite(scores), task=task), right.mean()]
        )

    def _columns(self, test: data.Table) -> Index:
        """Task of each held-out target among all tasks."""
        places = task_places(test.tasks, self.table.tasks)
        return places if test.codes is None else places[test.codes]

    def _match(self, answers: object, test: data.Table) -> np.ndarray:
        """Answers in the shape of the held-out targets."""
        array, columns = np.asarray(answers), test.codes is None
        wanted = (len(test), len(self.table.tasks)) if columns else (len(test),)
        if wanted[1:] == (1,) and array.ndim == 1:
            array = array[:, np.newaxis]
        if array.shape != wanted:
            raise ValueError(
                f"predictions must have the shape of the targets, {wanted}: got "
                f"{array.shape}."
            )
        return array[:, self._columns(test)] if columns else array


class WithTaskColumn(BaseEstimator):
    """An estimator that knows no tasks gets the task's position as a last feature."""

    def __init__(self, estimator: BaseEstimator) -> None:
        self.estimator = estimator

    def fit(self, X: object, y: object, *, task: Sequence[object]) -> "WithTaskColumn":
        codes, self.tasks_ = data.encode_labels(task, len(task))
        model, joined = (
            clone(self.estimator),
            with_task_column(data.read_matrix(X), codes),
        )
        # Histogram boosting knows categories.
        default = model.get_params().get("categorical_features", 0)
        few = len(self.tasks_) <= usual.MOST_CATEGORIES
        if default in (None, "from_dtype") and few:
            model.set_params(categorical_features=[joined.shape[1] - 1])
        self.estimator_ = model.fit(joined, y)
        return self

    def predict(self, X: object, *, task: Sequence[object]) -> np.ndarray:
        return self.estimator_.predict(self._join(X, task))

    @available_if(lambda self: hasattr(self.estimator_, "predict_proba"))
    def predict_proba(self, X: object, *, task: Sequence[object]) -> np.ndarray:
        return self.estimator_.predict_proba(self._join(X, task))

    @available_if(lambda self: hasattr(self.estimator_, "decision_function"))
    def decision_function(self, X: object, *, task: Sequence[object]) -> np.ndarray:
        return self.estimator_.decision_function(self._join(X, task))

    def _join(self, X: object, task: Sequence[object]) -> Matrix:
        codes = data.find_labels(task, self.tasks_, len(task))
        return with_task_column(data.read_matrix(X), codes)


def make_splitter(question: str, cv: object, task: object, time: object) -> object:
    """Splits that ask a question, where ``cv`` is a number of them."""
    if question == "rows" or not isinstance(cv, Integral):
        return cv
    if task is None:
        raise ValueError(f"split={question!r} needs tasks: got task=None.")
    if question == "tasks":
        return estimators.TaskGroupKFold(int(cv), task=task)
    count = min(int(cv), 3)  # the first of three trains on two fifths
    return estimators.TaskTimeSplit(count, task=task, time=time)


def read_comparison(
    X: object,
    y: object,
    task: object,
    cv: object,
    *,
    classify: bool,
    time: str | None = None,
    loss: str = "squared",
    exposure: str | None = None,
    offset: str | None = None,
) -> Comparison:
    """Read rows and split them."""
    labels, whole, column = task, X, None
    if task is not None and (isinstance(task, str) or not np.iterable(task)):
        X, labels = data.split_task_column(X, task)
        column = task
    # Without intercepts, tasks may have one class; a method may fail by itself.
    classifier = estimators.MultiTaskClassifier(fit_intercept=False)
    regressor = estimators.MultiTaskRegressor(
        loss=loss, exposure=exposure, offset=offset
    )
    reader = classifier if classify else regressor
    table = reader._read_table(X, y, labels, None, reset=True)
    # Splitters may look for the task column.
    classes = classifier._classes if classify else None
    several = 2 if classes is None else int(classes.shape[1])
    splits = estimators.make_splits(
        cv, table, whole, y, by_class=classify, n_classes=several
    )
    asks_tasks = isinstance(cv, estimators.TaskGroupKFold)
    for number, split in enumerate(splits):
        take_training(table, split, number, whole_tasks=asks_tasks or time is not None)
        take_test(table, split, number)
    family = None if classify else usual.judge_by(loss)
    return Comparison(X, y, labels, table, splits, classes, whole, column, time, family)


def are_classes(y: object) -> bool:
    """Whether targets look like classes: text, Booleans, or two numbers."""
    try:
        numbers = data.read_targets(y)
    except ValueError:
        return True
    if np.asarray(y).dtype.kind in "bSTU":
        return True
    return len(np.unique(numbers[~np.isnan(numbers)])) == 2


def _finite(values: np.ndarray) -> Array:
    numbers = np.asarray(values, dtype=np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError("predictions must be finite: some are NaN or inf.")
    return numbers


# Methods by name.


def list_methods() -> tuple[str, ...]:
    """Names that can be compared: ours, usual and compared methods, references."""
    return (OURS, *usual.USUAL, *BASELINES, *REFERENCES)


def methods_left_out(loss: str, n_classes: int, *, timed: bool) -> dict[str, str]:
    """Reasons by name why methods are compared only if they are named."""
    # Minutes for a thousand rows.
    reasons = dict.fromkeys(("fedem", "mtfl", "mkmtl"), "slow")
    for name in list_methods():
        if name in usual.USUAL and not usual.is_installed(name):
            reasons[name] = "not installed"
        elif refusal := _refusal(name, loss, n_classes):
            reasons[name] = refusal
    return reasons if timed else reasons | {"last-value": "needs time"}


def _refusal(name: str, loss: str, n_classes: int) -> str | None:
    """Why a method does not take such targets; ``n_classes`` is 0 for numbers."""
    if name == OURS:
        return None
    literature = usual.Scope(("squared",), 2)
    scope = usual.USUAL[name].scope if name in usual.USUAL else literature
    return scope.refusal(loss, n_classes)


def make_methods(methods: object, ours: "Ours") -> dict[str, BaseEstimator]:
    """Estimators by name: named methods tuned like ours, those of users as they are."""
    if isinstance(methods, Mapping):
        found = {}
        for name, model in methods.items():
            if not (hasattr(model, "fit") and hasattr(model, "predict")):
                raise TypeError(
                    "methods must map names to estimators with fit and predict: "
                    f"{name!r} is {model!r}."
                )
            found[name] = clone(model)
            # The task is passed as labels, whatever column held it.
            if "task" in found[name].get_params(deep=False):
                found[name].set_params(task=None)
        return found
    known, targets = list_methods(), (ours.loss, ours.n_classes)
    if isinstance(methods, str):
        left_out = methods_left_out(*targets, timed=ours.time is not None)
        default = [name for name in known if name not in left_out]
        fitting = [name for name in known if not _refusal(name, *targets)]
        listed = {"all": fitting, "default": default}
        methods = listed.get(methods.casefold(), [methods])
    if not isinstance(methods, Iterable):
        raise TypeError(
            'methods must be "default", "all", a name, names, or a mapping from names '
            f"to estimators: got {type(methods).__name__}."
        )
    classify = ours.n_classes > 0
    count = check_count("n_settings", ours.n_settings)

    def build(name: str) -> BaseEstimator:
        if name == OURS:
            return ours.build()
        if reason := _refusal(name, *targets):
            raise ValueError(f"{name} is {reason}: leave it out of methods.")
        if name not in usual.USUAL:
            return tuned(name, classify=classify, n_settings=count, standardize=True)
        usual.require_package(name)
        kind = usual.UsualClassifier if classify else usual.UsualRegressor
        return kind(name, **ours.roles)

    return {name: build(name) for name in [match_method(one, known) for one in methods]}


class Ours(NamedTuple):
    """Our model in a comparison."""

    n_settings: int
    rows_per_task: float
    feature_prior: object
    task_prior: object = "auto"
    column: object = None  # the task's column of X, if there is one
    time: str | None = None  # column that orders rows, where splits go forward
    n_classes: int = 0  # 0: numbers
    loss: str = "squared"
    exposure: str | None = None
    offset: str | None = None

    @property
    def roles(self) -> dict[str, Any]:
        """Parameters of regressors that say what targets are."""
        if self.n_classes:
            return {}
        return {"loss": self.loss, "exposure": self.exposure, "offset": self.offset}

    def build(self) -> BaseEstimator:
        """Build what ``tabular_model`` fits if it can find the task's column.

        Otherwise it is our search over about ``n_settings`` strengths.
        """
        prior, task_prior = self.feature_prior, self.task_prior
        if isinstance(self.column, str):
            settings = self.roles | {"time": self.time, "feature_prior": prior}
            if task_prior != "auto":
                settings["task_prior"] = task_prior
            kind = "classifier" if self.n_classes else "regressor"
            return estimators.tabular_model(kind, task=self.column, **settings)
        task_prior = "mean" if task_prior == "auto" else task_prior

        # Multiples of the curvature of the loss of one task, the mean rows per task as
        # features are standardised; the most useful first.
        def few(multiples: tuple[float, ...], count: int) -> list[float]:
            chosen = multiples[: max(1, count)]
            return sorted(self.rows_per_task * each for each in chosen)

        # A finer grid of lam, three or more, helps more than further strengths. At the
        # first lam all coefficients vanish.
        room, thetas, epsilons = self.n_settings // 3, [0.0], [0.0]
        if prior is not None:
            thetas = few((1.0, 0.0, 10.0), room // 2)
        if task_prior is not None:
            epsilons = few((10.0, 0.0, 1.0, 100.0), room // len(thetas))
        lams = max(2, self.n_settings // (len(thetas) * len(epsilons)))
        search = estimators.MultiTaskRegressorCV
        if self.n_classes:
            search = estimators.MultiTaskClassifierCV
        return search(
            lams,
            thetas,
            epsilons,
            feature_prior=prior,
            task_prior=task_prior,
            standardize=True,
            **self.roles,
        )
