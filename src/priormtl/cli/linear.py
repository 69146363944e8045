"""Linear models of 'priormtl fit': plain estimators, from statistics where possible.

Strengths that are not given are tuned by cross-validation, zero included, so that the
search itself shows what a prior adds. Regression needs one pass over the table, which
may be larger than memory; classification reads its rows into memory.
"""

import warnings
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from priormtl.cli.main import Facts
from priormtl.exceptions import FoldsError, suggest

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from priormtl.data import TaskStatistics
    from priormtl.design import Design
    from priormtl.engines import Schema, Source
    from priormtl.estimators import ModelSummary
    from priormtl.priors import FeaturePrior, PriorFile

MOST_LISTED = 8  # features and statements
EFFECTS = ("mean", "lowest", "highest")


# Fits


class Fitted(NamedTuple):
    """A fitted model, and the rows that it has seen."""

    model: "BaseEstimator"
    rows: int | None = None  # None: unknown, since statistics were read
    dropped: int = 0


class Settings(NamedTuple):
    """What is fitted, and how it is tuned."""

    strengths: dict[str, float | None]  # lam, theta, epsilon; None: to be tuned
    prior: object  # PriorFile, FeaturePrior or None
    structure: Facts  # task_prior, ties, ... as far as they are given
    penalty: str
    folds: int
    jobs: int

    @property
    def tuned(self) -> list[str]:
        """Names of the strengths that are not given."""
        return [name for name, value in self.strengths.items() if value is None]

    def build(
        self,
        features: Sequence[str] | None,
        tasks: Collection[Hashable],
        *,
        classify: bool,
        **columns: object,
    ) -> "BaseEstimator":
        """Estimator for these features and tasks, whose names a prior file may use.

        ``columns`` are those of the task and of crossed factors, if it reads a table.
        """
        from priormtl import estimators
        from priormtl.design import Design
        from priormtl.selection import EPSILONS, THETAS

        shared: Facts = {
            "penalty": self.penalty,
            "standardize": True,
            **self.structure,
            **split_prior(self.prior, Design.of_names(features or ()), tasks),
            **columns,
        }
        if not self.tuned:
            fixed = estimators.MultiTaskRegressor
            kind = estimators.MultiTaskClassifier if classify else fixed
            return kind(**shared | self.strengths)
        grids: Facts = {"thetas": THETAS, "epsilons": (0.0, *EPSILONS)}
        for name, value in self.strengths.items():
            if value is not None:
                grids[f"{name}s"] = [value]
        shared |= {"cv": self.folds, "n_jobs": self.jobs}
        search = estimators.MultiTaskRegressorCV
        if classify:
            search = estimators.MultiTaskClassifierCV
        return search(**shared | grids)

    @contextmanager
    def explain_folds(self) -> Iterator[None]:
        """Say what else helps if the rows do not suffice to tune strengths."""
        try:
            yield
        except FoldsError as error:
            raise FoldsError(
                f"{error} Or give {self.options}, so that no rows are held out."
            ) from None

    @property
    def options(self) -> str:
        """Options of the strengths that are tuned."""
        return " and ".join(f"--{name}" for name in self.tuned)


def read_prior(prior: str | None) -> "FeaturePrior | PriorFile | None":
    from priormtl.priors import FeaturePrior, read_prior_file

    if prior is None:
        return None
    if prior == "natural":
        return FeaturePrior.from_correlation()
    try:
        return read_prior_file(prior)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{error} For correlations, use --prior natural."
        ) from None
    except ValueError as error:
        raise ValueError(f"{error}{suggest([prior], ['natural'])}") from None


def has_rows(prior: object) -> bool:
    """Whether a prior has rows of D, whose strength is theta."""
    from priormtl.priors import PriorFile

    if not isinstance(prior, PriorFile):
        return prior is not None
    exact = ("nonnegative", "nonpositive", "common")
    return any(one.kind not in exact for one in prior.feature_relations)


def split_prior(
    prior: object, features: "Design", tasks: Collection[Hashable]
) -> Facts:
    """Parameters of estimators from what ``read_prior`` has read.

    Names in a file must be those of features and tasks.
    """
    from priormtl.priors import FeaturePrior, PriorFile, TaskPrior

    if not isinstance(prior, PriorFile):
        return {"feature_prior": prior}
    prior.check_names(features)
    prior = prior.match_tasks(list(tasks))
    found: Facts = {"feature_prior": None}
    if prior.feature_relations:
        found["feature_prior"] = FeaturePrior.from_file(prior)
    if prior.task_relations:
        found["task_prior"] = TaskPrior.from_file(prior)
    return found


def fit_numbers(
    source: "Source",
    schema: "Schema",
    settings: Settings,
    key: str | None,
    shards: Path | None,
) -> Fitted:
    """Fit a regressor to statistics of a table, read in one pass.

    Wide tables of few rows, whose statistics would be far larger, are fitted to rows.
    """
    from priormtl.estimators import fit_rows, read_source, read_source_rows

    many_columns = 100  # from which statistics may be far larger than rows
    wide = len(schema.feature_columns(source.columns)) > many_columns
    kept = key is None and shards is None and not source.holds_text(schema.target)
    few_bytes = 2**26  # of files that are read twice
    many_numbers = 4  # of statistics, for each number of the rows
    if wide and kept and source.size <= few_bytes:
        rows = read_source_rows(source, schema)
        labels = rows.task.unique().to_pylist()
        if len(labels) * rows.X.shape[1] > many_numbers * len(rows.X):
            model = settings.build(rows.design, labels, classify=False)
            with settings.explain_folds():
                fit_rows(model, rows)
            return Fitted(model, rows.read, rows.dropped)
    if settings.tuned:
        schema = replace(schema, folds=settings.folds, key=key)
    with settings.explain_folds():
        found = read_source(source, schema, shards=shards)
        tasks = dict.fromkeys(task for part in found.parts for task in part.tasks)
        model = settings.build(found.parts[0].features, tasks, classify=False)
        model.fit_statistics(found.parts if settings.tuned else found.whole)
    hint_at_classes(schema.target, found.parts)
    return Fitted(model, found.rows, found.dropped)


def fit_classes(source: "Source", schema: "Schema", settings: Settings) -> Fitted:
    """Fit a classifier to the rows of a table, in memory."""
    from priormtl.estimators import fit_rows, read_source_rows

    rows = read_source_rows(source, schema)
    check_classes(source.name, schema.target, rows.y.to_pylist())
    tasks = rows.task.unique().to_pylist()
    model = settings.build(rows.design, tasks, classify=True)
    with settings.explain_folds():
        fit_rows(model, rows)
    return Fitted(model, rows.read, rows.dropped)


def fit_crossed(
    source: "Source",
    schema: "Schema",
    settings: Settings,
    crossed: Sequence[str],
    *,
    classify: bool,
) -> Fitted:
    """Fit to the rows of a table, in memory, with crossed factors."""
    from priormtl.cli import tabular
    from priormtl.design import as_frame, learn_plain
    from priormtl.engines.raw_tables import MOST_CELLS, RawTable

    if schema.missing == "mean":
        raise ValueError(
            "--missing mean cannot be combined with --crossed for a linear model. Use "
            "--missing drop or --model tabular."
        )
    raw = RawTable.of(source, schema, exact=classify, complete=True)
    frame, _ = raw.settled(RawTable.load)
    if frame is None:
        raise ValueError(
            f"--crossed needs rows in memory: {source.name} has more than "
            f"{MOST_CELLS:,} cells. Omit it, or read fewer rows and columns."
        )
    if not classify:
        tabular.check_numbers(frame, schema, source.name)
    tasks = frame.X[schema.task].unique().to_pylist()
    features = as_frame(frame.X.drop_columns(schema.task))
    assert features is not None
    design, _ = learn_plain(features, crossed)
    columns = {"task": schema.task, "crossed": list(crossed)}
    model = settings.build(design, tasks, classify=classify, **columns)
    with settings.explain_folds():
        model.fit(frame.X, frame.y, sample_weight=frame.weight)
    named = replace(model.design_, task=schema.task, target=schema.target)
    model._adopt(replace(model.fitted_, design=named))
    return Fitted(model, frame.rows, frame.dropped)


def fit_statistics(files: Sequence[Path], settings: Settings) -> Fitted:
    """Fit to files of statistics, each of which is held out once to tune."""
    from priormtl.cli.stats import add_sites, read_sites

    if not settings.tuned:
        whole = add_sites(files)
        model = settings.build(whole.features, whole.tasks, classify=False)
        return Fitted(model.fit_statistics(whole))
    if len(files) == 1:
        raise ValueError(
            f"{files[0]} alone is not enough to tune {settings.options}. Give values, "
            "or several files with --from-stats, each of which is held out once."
        )
    parts = list(read_sites(files))
    tasks = dict.fromkeys(task for part in parts for task in part.tasks)
    model = settings.build(parts[0].features, tasks, classify=False)
    with settings.explain_folds():
        return Fitted(model.fit_statistics(parts))


def check_classes(data: str, target: str, labels: Iterable[object]) -> None:
    """Fail if values are hardly classes."""
    classes, most = list(dict.fromkeys(labels)), 50  # with coefficients in all tasks
    if len(classes) > most:
        few = ", ".join(repr(value) for value in classes[:3])
        raise ValueError(
            f"{data}: column {target!r} must hold at most {most} classes for "
            f"--classify: got {len(classes):,}, such as {few}. Omit --classify or "
            "choose another target."
        )


def hint_at_classes(target: str, parts: "Sequence[TaskStatistics]") -> None:
    """Warn if all targets are 0 or 1, which is a matter for ``--classify``."""
    import numpy as np

    rounding = 1e-9  # of sums over many rows
    varied = any(np.any(part.yy > rounding * part.weight) for part in parts)
    for part in parts:
        # y² - y is positive for all whole numbers but 0 and 1.
        squares = part.yy + part.weight * part.y_mean**2
        sums = part.weight * part.y_mean
        varied &= bool(np.all(np.abs(squares - sums) <= rounding * part.weight))
    if varied:
        warn_of_classes(target)


def warn_of_classes(target: str) -> None:
    warnings.warn(
        f"all values of {target!r} are 0 or 1 and were fitted as numbers. Use "
        "--classify for classes and their probabilities.",
        stacklevel=3,
    )


# What is printed


def describe(fitted: Fitted, out: Path) -> Facts:
    """Summary of a fit, for JSON."""
    summary: ModelSummary = fitted.model.summary()
    search, scores = summary.search, {}
    # No score is defined if no fold has both classes.
    if search is not None and isfinite(score := summary.cv_score or 0.0):
        scores[search.metric] = score
        if search.is_error:
            scores[search.metric] = error = max(0.0, -score)
            if variance := summary.target_variance:
                scores["R²"] = 1.0 - error / variance
    return {
        "file": str(out),
        "model": "linear",
        "rows": fitted.rows,
        "dropped": fitted.dropped,
        **common_facts(summary),
        **{one.name: one.value for one in summary.strengths},
        "searched": [one.name for one in summary.strengths if one.candidates > 1],
        "folds": None if search is None else search.scores.shape[1],
        "scores": scores,
    }


def common_facts(summary: "ModelSummary", omitted: Collection[str] = ()) -> Facts:
    """What is told of linear and tabular models alike; some features have no effect."""
    certificate = summary.certificate
    assert certificate is not None
    strongest = []
    shown = [one for one in summary.features if one.name not in omitted]
    for one in shown[:MOST_LISTED]:
        # Change of the target by one standard deviation of the feature.
        effects = [one.scale * value for value in (one.mean, one.least, one.most)]
        found: Facts = dict(zip(EFFECTS, effects, strict=True))
        if summary.classes:  # whose mean tells nothing
            means = summary.class_means(one.name).items()
            del found["mean"]
            found["by_class"] = {str(label): one.scale * x for label, x in means}
        strongest.append({"feature": one.name, **found})
    return {
        "tasks": summary.n_tasks,
        "classes": [str(one) for one in summary.classes],
        "features": summary.n_features,
        "used_features": summary.n_selected,
        "objective": certificate.objective,
        "gap": certificate.gap,
        "relative_gap": certificate.relative,
        "became": {one.column: one.became for one in summary.columns},
        "crossed": {
            one.column: {"levels": one.levels, "sd": one.sd} for one in summary.crossed
        },
        # What known values, signs and common effects came to.
        "statements": [str(one) for one in summary.statements if one.kind != "smooth"],
        "strongest": strongest,
    }


def to_lines(facts: Facts, reason: str) -> Iterator[str]:
    """Summary of a fit as lines of text."""
    from priormtl.rendering import count_words, join_words

    tasks = count_words(facts["tasks"], "task")
    features = count_words(facts["features"], "feature")
    rows = "Statistics of "
    if facts["rows"] is not None:
        dropped = facts["dropped"]
        left_out = f" ({dropped:,} dropped for missing values)" if dropped else ""
        rows = f"{count_words(facts['rows'], 'row')}{left_out}, "
    yield f"{rows}{tasks}, {features}."
    if facts["crossed"]:
        yield from column_lines(facts)
    yield f"Model: linear ({reason})."
    strengths = [f"{name} {facts[name]:.4g}" for name in ("lam", "theta", "epsilon")]
    if facts["searched"]:
        found = join_words(facts["searched"])
        tuned = f"; {found} tuned by {facts['folds']}-fold cross-validation"
        yield f"Strengths: {', '.join(strengths)}{tuned}."
    else:
        yield f"Strengths as given: {', '.join(strengths)}."
    if facts["scores"]:
        words = [f"{name} {value:.4g}" for name, value in facts["scores"].items()]
        yield f"On held-out rows: {', '.join(words)}."
    yield f"Relative duality gap {max(facts['relative_gap'], 0.0):.1g}."
    yield from statement_lines(facts)
    verb = "is" if facts["used_features"] == 1 else "are"
    used = f"{facts['used_features']:,} of {features} {verb} used"
    if not facts["strongest"]:
        yield f"{used}."
        return
    found = (
        "mean over tasks by class" if facts["classes"] else "mean and range over tasks"
    )
    yield f"{used}; effects of one standard deviation, {found}:"
    yield from strongest_lines(facts)


def column_lines(facts: Facts) -> Iterator[str]:
    """What columns became, and how much the levels of crossed factors differ."""
    from priormtl.estimators.summary import ColumnSummary, spell_columns

    columns = [ColumnSummary(*one) for one in facts["became"].items()]
    if columns:
        yield f"Columns: {spell_columns(columns)}."
    for column, found in facts["crossed"].items():
        size = f"standard deviation of effects {found['sd']:.4g}"
        yield f"Crossed: {found['levels']:,} levels of {column}, {size}."


def statement_lines(facts: Facts) -> Iterator[str]:
    """A line for each of the first statements of the prior."""
    found = facts["statements"]
    yield from (f"Prior: {one}." for one in found[:MOST_LISTED])
    if len(found) > MOST_LISTED:
        yield f"… and {len(found) - MOST_LISTED} more statements."


def strongest_lines(facts: Facts) -> Iterator[str]:
    """A line for each of the strongest features: mean and range of its effect.

    With more than two classes, the mean of each of them, largest first.
    """
    if facts["classes"]:
        most = 4  # classes
        width = max(len(one["feature"]) for one in facts["strongest"])
        for one in facts["strongest"]:
            words = [f"{label} {x:+.3g}" for label, x in one["by_class"].items()]
            shown = ", ".join(words[:most] + ["…"] * (len(words) > most))
            yield f"  {one['feature'].ljust(width)}  {shown}"
        return
    cells = [
        (one["feature"], *(f"{one[name]:+.3g}" for name in EFFECTS))
        for one in facts["strongest"]
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for name, *numbers in cells:
        padded = [text.rjust(w) for text, w in zip(numbers, widths[1:], strict=True)]
        mean, lowest, highest = padded
        yield f"  {name.ljust(widths[0])}  {mean}  ({lowest} … {highest})"
