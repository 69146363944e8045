"""Fits as the command makes them: a table or statistics in, a model out."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from priormtl.cli.hints import hint_at_classes, hint_at_strength
from priormtl.cli.sites import add_sites, read_sites
from priormtl.data import TaskStatistics
from priormtl.engines import Schema, SourceRows
from priormtl.estimators import (
    EPSILONS,
    THETAS,
    MultiTaskClassifier,
    MultiTaskClassifierCV,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    fit_rows,
    read_source,
    read_source_rows,
)
from priormtl.exceptions import FoldsError, suggest
from priormtl.priors import FeaturePrior, PriorFile, read_prior_file

__all__ = ["Learned", "Settings", "Strengths", "fit_statistics", "fit_table"]

NATURAL = "natural"
REGRESSORS: tuple[Any, Any] = (MultiTaskRegressor, MultiTaskRegressorCV)
CLASSIFIERS: tuple[Any, Any] = (MultiTaskClassifier, MultiTaskClassifierCV)
# Zero is tried too, so that the search itself can say what priors are worth.
WITH_NOTHING = {"thetas": (0.0, *THETAS), "epsilons": (0.0, *EPSILONS)}


class Learned(NamedTuple):
    """A fitted model, and the rows that it has seen."""

    model: Any
    rows: int | None = None  # None: not known, since statistics were read
    dropped: int = 0


class Strengths(NamedTuple):
    """Strengths as given; None where they are to be searched."""

    lam: float | None
    theta: float | None
    epsilon: float | None

    @property
    def searched(self) -> tuple[str, ...]:
        """Names of those that are not given."""
        return tuple(name for name, value in self._asdict().items() if value is None)

    def settle(self, prior: str | None, task_prior: str) -> "Strengths":
        """Same strengths; those that weigh nothing are not to be searched."""
        theta, epsilon = self.theta, self.epsilon
        if prior is None:
            theta = _settle("theta", theta, "--prior")
        if task_prior == "none":
            epsilon = _settle("epsilon", epsilon, "--task-prior")
        return Strengths(self.lam, theta, epsilon)


class Settings(NamedTuple):
    """How to learn."""

    strengths: Strengths
    prior: PriorFile | FeaturePrior | None
    task_prior: str | None
    penalty: str
    folds: int = 5
    jobs: int = 1

    @classmethod
    def read(
        cls, strengths: Strengths, prior: str | None, task_prior: str, **others: Any
    ) -> "Settings":
        """Settings from what was typed; a prior file is read, its names not yet."""
        settled = strengths.settle(prior, task_prior)
        ties = None if task_prior == "none" else task_prior
        return cls(settled, _read_prior(prior), ties, **others)

    def build(self, features: Sequence[str] | None, *, classify: bool) -> Any:
        """Estimator for these features, whose names a prior file may use."""
        fixed, searching = CLASSIFIERS if classify else REGRESSORS
        shared: dict[str, Any] = {
            "feature_prior": _resolve(self.prior, features),
            "task_prior": self.task_prior,
            "penalty": self.penalty,
            "standardize": True,
        }
        if not self.strengths.searched:
            return fixed(**self.strengths._asdict(), **shared)
        given = {
            f"{name}s": [value]
            for name, value in self.strengths._asdict().items()
            if value is not None
        }
        grids: dict[str, Any] = WITH_NOTHING | given
        return searching(**grids, cv=self.folds, n_jobs=self.jobs, **shared)


def fit_table(
    data: Path,
    where: str | None,
    schema: Schema,
    settings: Settings,
    *,
    key: str | None = None,
    classify: bool = False,
    shards: Path | None = None,
) -> Learned:
    """Learn from a table: in one pass, or for classes from rows in memory."""
    _refuse_key(key, classify)
    _refuse_shards(shards, classify)
    if classify:
        rows = read_source_rows(data, schema, where=where)
        _refuse_other_classes(data, schema.target, rows)
        model = settings.build(rows.X.column_names, classify=True)
        with _offering_strengths(settings):
            fit_rows(model, rows)
        return Learned(model, rows.read, rows.dropped)
    searching = bool(settings.strengths.searched)
    if searching:
        schema = replace(schema, folds=settings.folds, key=key)
    with _offering_strengths(settings):
        found = read_source(data, schema, where=where, shards=shards)
        model = settings.build(found.parts[0].features, classify=False)
        model.fit_statistics(found.parts if searching else found.whole)
    hint_at_classes(schema.target, found.parts)
    return Learned(model, found.rows, found.dropped)


@contextmanager
def _offering_strengths(settings: Settings) -> Iterator[None]:
    """Say what else helps where rows do not suffice to choose strengths on them."""
    try:
        yield
    except FoldsError as error:
        names = _options(settings.strengths.searched)
        raise FoldsError(
            f"{error} Or choose the strengths yourself, for which none are held out: "
            f"give {names}."
        ) from None


def _options(names: Sequence[str]) -> str:
    return " and ".join(f"--{name}" for name in names)


def _refuse_key(key: str | None, classify: bool) -> None:
    if key is not None and classify:
        raise ValueError(
            "--key cannot go with --classify, whose parts are even within tasks and "
            "classes: leave one of them out."
        )


def _refuse_shards(shards: Path | None, classify: bool) -> None:
    if shards is not None and classify:
        raise ValueError(
            "--shards cannot go with --classify, which needs the rows: leave one of "
            "them out."
        )


def _refuse_other_classes(data: Path, target: str, rows: SourceRows) -> None:
    """Fail where some task shows more than two classes, or all tasks show one."""
    shown = rows.y.unique()
    for task, classes in _classes_by_task(rows):
        if len(classes) > 2 or len(shown) < 2:
            few = ", ".join(repr(value) for value in classes[:3])
            raise ValueError(
                f"{data}: column {target!r} must hold two values in each task for "
                f"--classify: task {task!r} has {len(classes)}, such as {few}; leave "
                "--classify out, or choose another target."
            )


def _classes_by_task(rows: SourceRows) -> Iterator[tuple[Any, list[Any]]]:
    table = pa.table({"task": rows.task, "class": rows.y})
    found = table.group_by("task").aggregate([("class", "distinct")]).to_pylist()
    for row in found:
        yield row["task"], row["class_distinct"]


def fit_statistics(files: Sequence[Path], settings: Settings) -> Learned:
    """Learn from files of statistics, each of which is held out once to search."""
    searched = settings.strengths.searched
    if not searched:
        whole = add_sites(files)
        model = settings.build(whole.features, classify=False)
        return Learned(model.fit_statistics(whole))
    if len(files) == 1:
        names = _options(searched)
        raise ValueError(
            f"{files[0]} alone cannot tell how strong to choose {names}: give values, "
            "or several files with --from-stats, each of which is held out once."
        )
    parts: list[TaskStatistics] = list(read_sites(files))
    model = settings.build(parts[0].features, classify=False)
    with _offering_strengths(settings):
        return Learned(model.fit_statistics(parts))


def _settle(name: str, value: float | None, option: str) -> float:
    """Strength of nothing: as given, for all that it matters, and never searched."""
    if value:
        hint_at_strength(name, option)
    return value or 0.0


def _read_prior(prior: str | None) -> PriorFile | FeaturePrior | None:
    if prior is None:
        return None
    if prior == NATURAL:
        return FeaturePrior.from_correlation()
    try:
        return read_prior_file(prior)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error} Or is it the word {NATURAL!r}?") from None
    except ValueError as error:
        raise ValueError(f"{error}{suggest([prior], [NATURAL])}") from None


def _resolve(
    prior: PriorFile | FeaturePrior | None, features: Sequence[str] | None
) -> FeaturePrior | None:
    if not isinstance(prior, PriorFile):
        return prior
    prior.check_names(features or ())
    return FeaturePrior.from_file(prior)
