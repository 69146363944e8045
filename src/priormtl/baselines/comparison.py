"""compare: many methods, tuned alike and judged on the same held-out rows."""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from threadpoolctl import threadpool_limits

from priormtl._arrays import Array
from priormtl._processes import leaving_interrupts
from priormtl.baselines.contest import (
    SMALLER_IS_BETTER,
    Contest,
    are_classes,
    open_contest,
)
from priormtl.baselines.contestants import find_contestants
from priormtl.baselines.tuned import DEFAULT_SETTINGS
from priormtl.data import build_frame, find_frame_library
from priormtl.estimators import (
    DEFAULT_FOLDS,
    check_jobs,
    hide_progress,
    show_progress,
)

__all__ = ["compare"]


class Attempt(NamedTuple):
    """One method on one split."""

    scores: Array  # of each metric; NaN if it failed
    seconds: float
    failure: str | None
    remarks: list[tuple[type[Warning], str]]  # warnings


class Summary(NamedTuple):
    """One method on all splits; NaN where it failed."""

    mean: list[float]  # of each metric
    sd: list[float]
    seconds: float


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
    chooses among about ``n_settings`` settings by five inner folds and is fitted with
    the best, features divided by their standard deviations.

    Parameters
    ----------
    X : (n, d) array, sparse matrix or data frame
        Features; with ``task="name"`` also the task's column.
    y : (n,) or (n, m)
        Targets of stacked rows, or one column per task, where missing values mark
        targets that were not measured.
    task : (n,) labels, or column of X, optional
        Task of each row: labels, a column's name in a data frame, or its position in an
        array.
    methods : "all", name, list of names, or mapping from names to estimators
        "priormtl" is ours; the others are those of ``BASELINES`` and ``REFERENCES``, in
        capitals or not.
        Estimators of your own are fitted as they are: they need ``fit(X, y,
        task=labels)`` and ``predict(X, task=labels)``, or without ``task`` where there
        are no labels.
    cv : int, splitter of scikit-learn, or iterable of (train, test)
        Outer splits, as in :class:`MultiTaskRegressorCV`.
    classify : bool, optional
        Whether targets are two classes per task. None: they are if they are text or
        truth values, or take exactly two values.
    n_settings : int
        How many settings a method tries, about.
    feature_prior, task_prior
        What ours is told, as in :class:`MultiTaskRegressor`; each has strength zero
        among the settings tried, as far as their number allows.
    n_jobs : int, optional
        Processes; None is one, −1 as many as there are processors. Scores do not depend
        on it.

    Returns
    -------
    data frame
        One row per method and metric, with columns method, metric, mean, sd (over
        splits, of the held-out rows) and seconds (to tune and fit, mean over splits).
        Metrics are ``rmse``, ``variance_explained`` and ``variance_explained_by_task``
        for numbers, ``auc`` (mean over tasks) and ``accuracy`` for classes; methods are
        ordered by the first of them, best first. The frame is of X's own library, else
        of pandas, polars or pyarrow, whichever is installed.

    Notes
    -----
    A method that fails on a split has NaN in its rows, and a FitFailedWarning says why.
    Comparisons of more than two seconds show a bar on terminals, where rich is
    installed, and write log lines of level INFO to the logger "priormtl" elsewhere.

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
    contest = open_contest(X, y, task, cv, classify=by_class)
    models = find_contestants(
        methods,
        classify=by_class,
        n_settings=n_settings,
        rows_per_task=contest.rows_per_task,
        feature_prior=feature_prior,
        task_prior=task_prior,
    )
    if not models:
        raise ValueError("methods must name at least one method: got none.")
    attempts = _run(contest, models, jobs)
    _report(attempts)
    return build_frame(_tabulate(contest.metrics, attempts), library)


def _run(
    contest: Contest, models: Mapping[str, Any], n_jobs: int
) -> dict[str, list[Attempt]]:
    """All methods on all splits, in any order."""
    pairs = [(name, k) for name in models for k in range(len(contest.splits))]
    jobs = (delayed(_attempt)(contest, name, models[name], k) for name, k in pairs)
    # Processes: threads of short steps wait for each other, which would show in the
    # seconds.
    with leaving_interrupts() if n_jobs > 1 else nullcontext():
        running = Parallel(n_jobs, return_as="generator_unordered")(jobs)
    found: dict[tuple[str, int], Attempt] = {}
    title = f"{len(models)} methods, {len(contest.splits)} splits"
    with show_progress(None, None, title, len(pairs), "fits") as advance:
        for name, number, attempt in running:
            found[name, number] = attempt
            advance()
    return {
        name: [found[name, k] for k in range(len(contest.splits))] for name in models
    }


def _attempt(
    contest: Contest, name: str, model: Any, number: int
) -> tuple[str, int, Attempt]:
    """Tune, fit and judge one method on one split."""
    scores, failure = np.full(len(contest.metrics), np.nan), None
    begin = end = perf_counter()
    # One BLAS thread in every process: equal bits for any number of jobs.
    with (
        hide_progress(),
        threadpool_limits(1, user_api="blas"),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        try:
            fitted = contest.fit(clone(model), number)
            end = perf_counter()
            scores = contest.judge(fitted, number)
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
    remarks = [(remark.category, str(remark.message)) for remark in caught]
    return name, number, Attempt(scores, end - begin, failure, remarks)


def _report(attempts: Mapping[str, Sequence[Attempt]]) -> None:
    """Warn of failures and of what methods warned of; fail if no method is left."""
    failures = {name: _failures(tries) for name, tries in attempts.items()}
    if all(failures.values()):
        name, reasons = next(iter(failures.items()))
        raise ValueError(
            f"no method could be fitted and judged on every split; {name}, split "
            f"{reasons[0][0]}: {reasons[0][1]}"
        )
    for name, tries in attempts.items():
        _warn_of(name, failures[name], tries)


def _failures(tries: Sequence[Attempt]) -> list[tuple[int, str]]:
    return [(k, one.failure) for k, one in enumerate(tries) if one.failure is not None]


def _warn_of(
    name: str, failures: Sequence[tuple[int, str]], tries: Sequence[Attempt]
) -> None:
    if failures:
        number, reason = failures[0]
        warnings.warn(
            f"{name} failed on {len(failures)} of {len(tries)} splits, its results are "
            f"NaN; split {number}: {reason}",
            FitFailedWarning,
            stacklevel=4,
        )
    first: dict[type[Warning], str] = {}
    for attempt in tries:
        for category, words in attempt.remarks:
            first.setdefault(category, words)
    for category, words in first.items():
        warnings.warn(f"{name}: {words}", category, stacklevel=4)


def _tabulate(
    metrics: Sequence[str], attempts: Mapping[str, Sequence[Attempt]]
) -> dict[str, list[Any]]:
    """Columns of the result, methods ordered by the first metric."""
    found = {name: _summarize(tries) for name, tries in attempts.items()}
    sign = 1.0 if metrics[0] in SMALLER_IS_BETTER else -1.0
    first = np.array([sign * summary.mean[0] for summary in found.values()])
    order = [list(found)[i] for i in np.argsort(first, kind="stable")]  # NaN last
    rows = [
        (name, metric, found[name].mean[j], found[name].sd[j], found[name].seconds)
        for j, metric in enumerate(metrics)
        for name in order
    ]
    names = ("method", "metric", "mean", "sd", "seconds")
    return {
        name: list(column)
        for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }


def _summarize(tries: Sequence[Attempt]) -> Summary:
    scores = np.stack([attempt.scores for attempt in tries], axis=1)
    if _failures(tries):
        unknown = [float("nan")] * len(scores)
        return Summary(unknown, unknown, float("nan"))
    # A metric may have no value on a split, for every method alike: one class only.
    known = [row[~np.isnan(row)] for row in scores]
    seconds = float(np.mean([attempt.seconds for attempt in tries]))
    return Summary([*map(_mean, known)], [*map(_spread, known)], seconds)


def _mean(values: Array) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _spread(values: Array) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else float("nan")
