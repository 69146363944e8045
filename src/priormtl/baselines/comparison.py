"""compare: methods tuned alike and scored on the same held-out rows.

``read_comparison`` reads the rows and splits them; ``make_methods`` lists the
estimators by name; ``compare`` fits each of them on every split and tabulates means and
standard deviations of the metrics.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from threadpoolctl import threadpool_limits

from priormtl._arrays import Array, Index
from priormtl._processes import leaving_interrupts
from priormtl.baselines.tuned import (
    BASELINES,
    DEFAULT_SETTINGS,
    REFERENCES,
    match_method,
    tuned,
)
from priormtl.data import (
    Table,
    build_frame,
    find_frame_library,
    read_targets,
    split_task_column,
    take_rows,
)
from priormtl.estimators import (
    DEFAULT_FOLDS,
    MultiTaskClassifier,
    MultiTaskClassifierCV,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    check_count,
    check_jobs,
    hide_progress,
    make_splits,
    show_progress,
)
from priormtl.metrics import auc, variance_explained
from priormtl.selection import Split, take_test, take_training, task_places

REGRESSION = ("rmse", "variance_explained", "variance_explained_by_task")
CLASSIFICATION = ("auc", "accuracy")
SMALLER_IS_BETTER = ("rmse",)

OURS = "priormtl"

# Strengths as multiples of the mean rows per task, the most useful first: features are
# standardised, so this is the curvature of the loss of one task.
EPSILONS = (10.0, 0.0, 1.0, 100.0)
THETAS = (1.0, 0.0, 10.0)
FEWEST_LAMS = 2  # at the first, lam_max, all coefficients vanish
LAMS_BEFORE_OTHERS = 3  # a finer grid of lam helps more than further strengths


class SplitResult(NamedTuple):
    """One method on one split."""

    scores: Array  # of each metric; NaN if it failed
    seconds: float
    failure: str | None
    caught: list[tuple[type[Warning], str]]  # warnings


def compare(
    X: Any,
    y: Any,
    *,
    task: Any = None,
    methods: Any = "all",
    cv: Any = DEFAULT_FOLDS,
    classify: bool | None = None,
    n_settings: int = DEFAULT_SETTINGS,
    feature_prior: Any = None,
    task_prior: Any = "mean",
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
    methods : "all", name, list of names, or mapping from names to estimators
        "priormtl" is our estimator; the others are in ``BASELINES`` and
        ``REFERENCES``. Case does not matter. Estimators in a mapping are fitted as they
        are: they need ``fit(X, y, task=labels)`` and ``predict(X, task=labels)``, or
        without ``task`` where there are no labels.
    cv : int, splitter of scikit-learn, or iterable of (train, test)
        Outer splits, as in :class:`MultiTaskRegressorCV`.
    classify : bool, optional
        Whether targets are two classes per task. None: yes if they are text or
        Booleans, or take exactly two values.
    n_settings : int
        Approximate number of settings that each method tries.
    feature_prior, task_prior
        Priors of our estimator, as in :class:`MultiTaskRegressor`. Strength zero is
        among the settings tried for each, if ``n_settings`` allows it.
    n_jobs : int, optional
        Number of processes; None means one, −1 all processors. Scores are
        bit-identical for any ``n_jobs``.

    Returns
    -------
    data frame
        One row per method and metric, with columns method, metric, mean and sd (over
        the held-out rows of the splits) and seconds (to tune and fit, mean over
        splits). Metrics are ``rmse``, ``variance_explained`` and
        ``variance_explained_by_task`` for numbers, ``auc`` (mean over tasks) and
        ``accuracy`` for classes. Methods are ordered by the first metric, best first.
        The frame is of the same library as X, else of pandas, polars or pyarrow,
        whichever is installed.

    Notes
    -----
    A method that fails on a split has NaN in its rows, and a FitFailedWarning gives the
    reason. After two seconds a progress bar is shown on terminals (if rich is
    installed); elsewhere progress is logged at level INFO to the logger "priormtl".

    Examples
    --------
    >>> from priormtl.baselines import compare
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> chosen = ["priormtl", "ridge-single"]
    >>> table = compare(X, y, task=task, methods=chosen, cv=3, n_settings=5)
    >>> table.columns.tolist()
    ['method', 'metric', 'mean', 'sd', 'seconds']
    >>> sorted(table["method"].unique())
    ['priormtl', 'ridge-single']
    >>> bool((table.query("metric == 'variance_explained'")["mean"] > 0.5).all())
    True
    """
    library = find_frame_library(X)
    jobs = check_jobs(n_jobs)
    by_class = are_classes(y) if classify is None else classify
    comparison = read_comparison(X, y, task, cv, classify=by_class)
    models = make_methods(
        methods,
        classify=by_class,
        n_settings=n_settings,
        rows_per_task=comparison.rows_per_task,
        feature_prior=feature_prior,
        task_prior=task_prior,
    )
    if not models:
        raise ValueError("methods must name at least one method: got none.")
    results = _run(comparison, models, jobs)
    _warn(results)
    return build_frame(_tabulate(comparison.metrics, results), library)


def _run(
    comparison: "Comparison", models: Mapping[str, Any], n_jobs: int
) -> dict[str, list[SplitResult]]:
    """All methods on all splits, in any order."""
    n = len(comparison.splits)
    pairs = [(name, k) for name in models for k in range(n)]
    jobs = (delayed(_run_one)(comparison, name, models[name], k) for name, k in pairs)
    # Processes: threads of short steps wait for each other, which would distort the
    # seconds.
    with leaving_interrupts() if n_jobs > 1 else nullcontext():
        running = Parallel(n_jobs, return_as="generator_unordered")(jobs)
    found: dict[tuple[str, int], SplitResult] = {}
    title = f"{len(models)} methods, {n} splits"
    with show_progress(None, None, title, len(pairs), "fits") as advance:
        for name, number, result in running:
            found[name, number] = result
            advance()
    return {name: [found[name, k] for k in range(n)] for name in models}


def _run_one(
    comparison: "Comparison", name: str, model: Any, number: int
) -> tuple[str, int, SplitResult]:
    """Tune, fit and score one method on one split."""
    scores, failure = np.full(len(comparison.metrics), np.nan), None
    begin = end = perf_counter()
    # One BLAS thread in every process: equal bits for any number of jobs.
    with (
        hide_progress(),
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
        if failures[name]:
            number, reason = failures[name][0]
            warnings.warn(
                f"{name} failed on {len(failures[name])} of {len(splits)} splits, its "
                f"results are NaN; split {number}: {reason}",
                FitFailedWarning,
                stacklevel=3,
            )
        first: dict[type[Warning], str] = {}
        for result in splits:
            for category, text in result.caught:
                first.setdefault(category, text)
        for category, text in first.items():
            warnings.warn(f"{name}: {text}", category, stacklevel=3)


def _tabulate(
    metrics: Sequence[str], results: Mapping[str, Sequence[SplitResult]]
) -> dict[str, list[Any]]:
    """Columns of the result, methods ordered by the first metric."""
    rows = {}
    for name, splits in results.items():
        scores = np.stack([result.scores for result in splits])
        seconds = float(np.mean([result.seconds for result in splits]))
        if any(result.failure is not None for result in splits):
            scores, seconds = np.full_like(scores, np.nan), float("nan")
        # A metric may have no value on a split, for every method alike: one class only.
        known = [column[~np.isnan(column)] for column in scores.T]
        rows[name] = [
            (
                float(values.mean()) if len(values) else float("nan"),
                float(values.std(ddof=1)) if len(values) > 1 else float("nan"),
                seconds,
            )
            for values in known
        ]
    sign = 1.0 if metrics[0] in SMALLER_IS_BETTER else -1.0
    first = np.array([sign * row[0][0] for row in rows.values()])
    order = [list(rows)[i] for i in np.argsort(first, kind="stable")]  # NaN last
    names = ("method", "metric", "mean", "sd", "seconds")
    lines = [
        (name, metric, *rows[name][j])
        for j, metric in enumerate(metrics)
        for name in order
    ]
    return {
        name: list(column)
        for name, column in zip(names, zip(*lines, strict=True), strict=True)
    }


# Rows, splits and metrics.


@dataclass(frozen=True, eq=False)
class Comparison:
    """Rows as users gave them, splits, and metrics on the held-out rows.

    Methods see X, y and labels in the user's own types (frames, categories), so that
    names in priors keep their meaning.
    """

    X: Any  # without the task's column
    y: Any
    labels: Any  # task of each row, or None
    table: Table
    splits: list[Split]
    classes: np.ndarray | None  # (m, 2) negative and positive; None for numbers

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of what ``score`` returns, the most important first."""
        return REGRESSION if self.classes is None else CLASSIFICATION

    @property
    def rows_per_task(self) -> float:
        return float(self.table.measured().sum()) / len(self.table.tasks)

    def fit(self, model: Any, number: int) -> Any:
        rows = self.splits[number].train
        X, y = take_rows(self.X, rows), take_rows(self.y, rows)
        return model.fit(X, y, **self._task_argument(rows))

    def score(self, model: Any, number: int) -> Array:
        test = take_test(self.table, self.splits[number], number)
        # The same rows as ``test`` has: those with a measured target.
        rows = self.splits[number].test
        rows = rows[np.asarray(self.table.measured().any(axis=1))[rows]]
        X, argument = take_rows(self.X, rows), self._task_argument(rows)

        def ask(method: Callable[..., Any]) -> np.ndarray:
            return self._match(method(X, **argument), test)

        task, measured = test.codes, ~np.isnan(test.y)
        if self.classes is None:
            predicted = _finite(ask(model.predict))
            error = (test.y - predicted)[measured]
            pooled = variance_explained(test.y, predicted, task=task)
            by_task = variance_explained(test.y, predicted, task=task, average="tasks")
            return np.array([np.sqrt(np.mean(error**2)), pooled, by_task])
        classes = self.classes[self._columns(test)]
        predicted = ask(model.predict)
        scores = predicted == classes[..., 1]
        if hasattr(model, "decision_function"):
            scores = ask(model.decision_function)
        elif hasattr(model, "predict_proba"):
            # Probabilities of both classes for labelled rows, else of the second.
            shares = np.asarray(model.predict_proba(X, **argument))
            scores = self._match(shares if task is None else shares[:, 1], test)
        truth = np.where(test.y > 0, classes[..., 1], classes[..., 0])
        right = (predicted == truth)[measured]
        return np.array([auc(test.y, _finite(scores), task=task), right.mean()])

    def _columns(self, test: Table) -> Index:
        """Task of each held-out target among all tasks."""
        places = task_places(test.tasks, self.table.tasks)
        return places if test.codes is None else places[test.codes]

    def _task_argument(self, rows: Index) -> Mapping[str, Any]:
        return {} if self.labels is None else {"task": take_rows(self.labels, rows)}

    def _match(self, answers: Any, test: Table) -> np.ndarray:
        """Answers in the shape of the held-out targets."""
        array = np.asarray(answers)
        columns = test.codes is None
        wanted = (len(test), len(self.table.tasks)) if columns else (len(test),)
        if wanted[1:] == (1,) and array.ndim == 1:
            array = array[:, np.newaxis]
        if array.shape != wanted:
            raise ValueError(
                f"predictions must have the shape of the targets, {wanted}: got "
                f"{array.shape}."
            )
        return array[:, self._columns(test)] if columns else array


def read_comparison(
    X: Any, y: Any, task: Any, cv: Any, *, classify: bool
) -> Comparison:
    """Read rows and split them; every training part must hold every task."""
    labels, whole = task, X
    if task is not None and (isinstance(task, str) or not np.iterable(task)):
        X, labels = split_task_column(X, task)
    # Squared loss admits tasks of one class; a method that does not fails by itself.
    classifier = MultiTaskClassifier(loss="squared")
    reader = classifier if classify else MultiTaskRegressor()
    table = reader._read_table(X, y, labels, None, reset=True)
    # Splitters may look for the task column.
    splits = make_splits(cv, table, whole, y, by_class=classify)
    for number, split in enumerate(splits):
        take_training(table, split, number)
        take_test(table, split, number)
    classes = classifier._classes if classify else None
    return Comparison(X, y, labels, table, splits, classes)


def are_classes(y: Any) -> bool:
    """Whether targets look like classes: text, Booleans, or two numbers."""
    try:
        numbers = read_targets(y)
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
    """Names that can be compared: ours, the compared methods, simple references."""
    return (OURS, *BASELINES, *REFERENCES)


def make_methods(
    methods: Any,
    *,
    classify: bool,
    n_settings: int,
    rows_per_task: float,
    feature_prior: Any,
    task_prior: Any,
) -> dict[str, Any]:
    """Estimators by name: named methods tuned, those of users as they are."""
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
    known = list_methods()
    if isinstance(methods, str):
        methods = known if methods.casefold() == "all" else [methods]
    if not isinstance(methods, Iterable):
        raise TypeError(
            'methods must be "all", a name, names, or a mapping from names to '
            f"estimators: got {type(methods).__name__}."
        )
    count = check_count("n_settings", n_settings)
    ours = make_ours(
        count,
        rows_per_task,
        classify=classify,
        feature_prior=feature_prior,
        task_prior=task_prior,
    )
    return {
        name: ours
        if name == OURS
        else tuned(name, classify=classify, n_settings=count, standardize=True)
        for name in [match_method(name, known) for name in methods]
    }


def make_ours(
    n_settings: int,
    rows_per_task: float,
    *,
    classify: bool,
    feature_prior: Any,
    task_prior: Any,
) -> MultiTaskRegressorCV | MultiTaskClassifierCV:
    """Our search over about ``n_settings`` strengths."""

    def few(multiples: tuple[float, ...], count: int) -> list[float]:
        """The first ``count`` (at least one) of these strengths, sorted."""
        return sorted(rows_per_task * each for each in multiples[: max(1, count)])

    room = n_settings // LAMS_BEFORE_OTHERS
    thetas = [0.0] if feature_prior is None else few(THETAS, room // 2)
    epsilons = [0.0] if task_prior is None else few(EPSILONS, room // len(thetas))
    lams = max(FEWEST_LAMS, n_settings // (len(thetas) * len(epsilons)))
    kind = MultiTaskClassifierCV if classify else MultiTaskRegressorCV
    return kind(
        lams,
        thetas,
        epsilons,
        feature_prior=feature_prior,
        task_prior=task_prior,
        standardize=True,
    )
