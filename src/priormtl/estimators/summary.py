"""ModelSummary: what a fitted model learned, as data that can be shown anywhere."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date
from typing import Any, TypeVar

import numpy as np
from scipy.stats import norm

from priormtl._arrays import Array
from priormtl.archive import Settings
from priormtl.checks import check_choice
from priormtl.design import (
    Categories,
    Curve,
    Design,
    Gap,
    Levels,
    Line,
    build_frame,
    find_frame_library,
)
from priormtl.design.columns import NUMBERS
from priormtl.estimators.statements import StatementSummary, read_statements
from priormtl.fitted import Certificate, Fitted, Search
from priormtl.rendering import (
    NOTHING,
    Table,
    Tabled,
    build_table,
    count_words,
    join_words,
    spell_number,
)
from priormtl.selection import mean_scores
from priormtl.uncertainty import StandardErrors


@dataclass(frozen=True)
class Strength:
    """One of lam, theta and epsilon."""

    name: str
    value: float
    candidates: int  # how many were tried; 1: it was set by hand


@dataclass(frozen=True)
class FeatureSummary:
    """A selected feature: its coefficient over the tasks, in the units of X."""

    name: str
    mean: float
    least: float
    most: float
    norm: float  # over tasks, of coefficients as they were penalised
    scale: float  # what the feature was divided by
    # With summary(level): of the effect that tasks share, and how it varies.
    error: float | None = None  # standard error
    lower: float | None = None
    upper: float | None = None
    between: float | None = None  # standard deviation between tasks, by REML


@dataclass(frozen=True)
class ClassSummary:
    """Effect of a selected feature on the score of a class, the mean over tasks."""

    feature: str
    label: Hashable
    mean: float
    error: float  # standard error of the effect that tasks share
    lower: float
    upper: float


@dataclass(frozen=True)
class TaskSummary:
    """One task."""

    task: Hashable
    weight: float  # rows: the sum of their weights
    r2: float | None  # on the training rows; None for classes and constant targets
    intercept: float
    norm: float  # of its coefficients as they were penalised
    is_outlier: bool
    # Prediction at the pooled means of all features, minus the mean of all tasks.
    effect: float | None = None
    error: float | None = None  # its standard error, with summary(level)
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True)
class ColumnSummary:
    """What a column of the table became."""

    column: str
    became: str  # in words, such as "curve" or "4 categories"


@dataclass(frozen=True)
class CrossedSummary:
    """A crossed factor: a column whose levels have effects of their own."""

    column: str
    levels: int
    sd: float  # standard deviation of the effects, by REML; zero: it has none


@dataclass(frozen=True)
class HorizonSummary:
    """Held-out later rows, up to some time after the last training row of the task."""

    horizon: float  # in units of time
    error: float  # root mean squared error
    coverage: float  # share of rows in intervals of 90 %
    rows: int


@dataclass(frozen=True)
class LevelSummary:
    """Effect of one level of a crossed factor, the same in all tasks."""

    column: str
    level: Hashable  # text, number or date
    effect: float
    error: float  # standard error
    lower: float | None = None  # with summary(level)
    upper: float | None = None


Effect = TypeVar("Effect", TaskSummary, LevelSummary)


@dataclass(frozen=True)
class FeaturePriorSummary:
    """How far the coefficients are from what was known of the features."""

    n_relations: int
    violation: float  # ‖D P − C‖²
    cost: float  # theta/2 ‖D P − C‖²
    share: float  # of the objective
    words: str  # number and kind of the statements


@dataclass(frozen=True)
class StructureSummary:
    """A structure that a search tried, at its best strengths."""

    structure: str  # in words
    candidates: int  # how many strengths were tried with it
    score: float  # mean of its best candidate; an error where the metric is one
    difference: float  # score minus that of the chosen structure
    chosen: bool


@dataclass(frozen=True, eq=False)
class SearchSummary:
    """Cross-validated scores of all candidates on all splits."""

    metric: str
    is_error: bool  # smaller is better; then scores are errors
    strengths: Mapping[str, Array]  # of each candidate
    scores: Array  # (candidates, splits); NaN where a score is not defined
    best: int  # the chosen candidate
    structures: tuple[str, ...] = ()  # of each candidate, in words; (): one was given

    def compare_structures(self) -> tuple[StructureSummary, ...]:
        """Structures that were tried, best first; empty where one was given."""
        means, found = self.means, []
        goodness = np.where(
            np.isnan(means), -np.inf, -means if self.is_error else means
        )
        labels = np.array(self.structures, dtype=object)
        for name in dict.fromkeys(self.structures):
            places = np.flatnonzero(labels == name)
            best = places[np.argmax(goodness[places])]
            found.append((name, len(places), best))
        found.sort(key=lambda one: -goodness[one[2]])
        own = next((k for name, _, k in found if name == labels[self.best]), 0)
        return tuple(
            StructureSummary(
                name,
                count,
                float(means[k]),
                float(means[k] - means[own]),
                name == labels[self.best],
            )
            for name, count, k in found
        )

    @property
    def means(self) -> Array:
        """Mean of each candidate over the splits in which its score is defined."""
        return mean_scores(self.scores)

    @property
    def standard_error(self) -> float:
        """Standard error of the chosen candidate's mean; NaN below two splits."""
        known = self.scores[self.best][~np.isnan(self.scores[self.best])]
        if len(known) < 2:
            return float("nan")
        return float(known.std(ddof=1) / np.sqrt(len(known)))


FRAMES = {
    "features": FeatureSummary,
    "tasks": TaskSummary,
    "strengths": Strength,
    "structures": StructureSummary,
    "statements": StatementSummary,
    "columns": ColumnSummary,
    "crossed": CrossedSummary,
    "levels": LevelSummary,
    "horizons": HorizonSummary,
    "class_effects": ClassSummary,
}


@dataclass(frozen=True, repr=False)
class ModelSummary(Tabled):
    """Summary of a fitted model.

    It contains all values; only the text layouts shorten long tables. Values that a
    model does not have are None. ``str`` gives plain text, and notebooks display HTML.
    See ``to_latex``, ``to_markdown``, ``to_html`` and ``to_frame`` for other formats.

    Examples
    --------
    >>> from priormtl import MultiTaskRegressor
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> summary = MultiTaskRegressor(lam=20.0).fit(X, y, task=task).summary()
    >>> summary.n_selected, summary.certificate.relative < 1e-5
    (3, True)
    """

    model: str
    loss: str
    penalty: str | None
    intercepts: str | None  # free, none, tied
    standardized: bool
    weight: float  # rows: the sum of their weights
    n_tasks: int
    n_features: int
    n_selected: int
    named: bool  # False: features without names are called x0, x1, …
    strengths: tuple[Strength, ...]
    chosen_by: str
    cv_score: float | None
    scoring: str | None
    certificate: Certificate | None
    features: tuple[FeatureSummary, ...]  # selected ones, largest norm first
    tasks: tuple[TaskSummary, ...]
    outliers: tuple[Hashable, ...] | None  # None: not asked for
    feature_prior: FeaturePriorSummary | None
    task_prior: str | None
    outlier_strength: float | None
    feature_names: tuple[str, ...]  # of all features
    # Of all tasks together; None for classes, and without the statistics of the fit.
    target_variance: float | None = field(compare=False)
    coef: Array = field(compare=False)  # (tasks, features), in the units of X
    own_coef: Array | None = field(compare=False)  # task-specific part of it
    search: SearchSummary | None = field(compare=False)
    ties: str | None = None  # task coupling: uniform, adaptive, given
    # What cross-validation tried; empty where the structure was given.
    structures: tuple[StructureSummary, ...] = ()
    # What each known value, sign, common and smooth effect came to.
    statements: tuple[StatementSummary, ...] = ()
    columns: tuple[ColumnSummary, ...] = ()  # empty where they have no names
    crossed: tuple[CrossedSummary, ...] = ()
    is_stochastic: bool = False  # whether their likelihood was estimated by probes
    levels: tuple[LevelSummary, ...] = ()  # of all crossed factors
    drift: str | None = None  # of levels of tasks in time, in words
    intervals: str | None = None  # for which rows they hold; None: there are none
    sample: str | None = None  # rows that chose the model; None: all of them
    new_task_error: float | None = None  # held-out error for tasks that are not seen
    horizons: tuple[HorizonSummary, ...] = ()  # of later rows, where time was given
    wiggles: frozenset[str] = frozenset()  # features that bend a curve, of no use alone
    # More than two, which have scores of their own; then there is a task for each class
    # of each task ("task: class"), and means of features over them tell nothing.
    classes: tuple[Hashable, ...] = ()
    class_effects: tuple[ClassSummary, ...] = ()  # of more than two, with a level
    library: Any = field(default=None, compare=False)  # of frames
    level: float | None = None  # of intervals; None: there are none
    errors: str | None = None  # "conditional" or "bootstrap": how they were found
    noise: float | None = None  # standard deviation of the noise, with a level
    # (tasks, features) standard errors of coef; NaN for features not selected
    coef_error: Array | None = field(default=None, compare=False)

    def _tables(self) -> list[Table]:
        return list(summary_tables(self))

    def class_means(self, feature: str) -> dict[Hashable, float]:
        """Mean coefficient over tasks of each of more than two classes.

        Parameters
        ----------
        feature : str
            Name of the feature.

        Returns
        -------
        dict
            From classes to means, furthest from zero first.
        """
        column = self.coef[:, self.feature_names.index(feature)]
        means = column.reshape(-1, len(self.classes)).mean(axis=0).tolist()
        found = zip(self.classes, means, strict=True)
        return dict(sorted(found, key=lambda one: -abs(one[1])))

    def to_frame(self, table: str = "features", library: object = None) -> Any:
        """Return one table as a data frame.

        Parameters
        ----------
        table : {"features", "tasks", "strengths", "structures", "statements", \
"columns", "crossed", "levels", "horizons", "class_effects"}, default="features"
            Selected features (with means for each of more than two classes), tasks,
            strengths with the number of candidates, structures that
            cross-validation tried, with their best scores, statements
            of the feature prior, with what they came to, columns of the table, with
            what they became, crossed factors, all levels of these, with their
            effects, errors and coverage of later rows, or effects on each of more
            than two classes, with a level.
        library : str, optional
            "pandas", "polars" or "pyarrow". By default the library of the training
            data, or the first of these that is installed.
        """
        rows = vars(self)[check_choice("table", table, tuple(FRAMES))]
        names = [field.name for field in fields(FRAMES[table])]
        columns = {name: [vars(row)[name] for row in rows] for name in names}
        if table == "features" and self.classes:  # the mean over classes tells nothing
            means = [self.class_means(one.name) for one in self.features]
            del columns["mean"]
            for label in self.classes:
                columns[f"mean: {label}"] = [one[label] for one in means]
        for name in {"task", "level"} & {*columns}:
            columns[name] = plain_labels(columns[name])
        chosen = library or self.library or find_frame_library(None)
        return build_frame(columns, chosen)


# summarize_fitted: from what a fit learned to a ModelSummary.

QUESTION_WORDS = {
    "rows": "rows like those of the fit",
    "later": "later rows of each task",
    "tasks": "rows of new tasks",
}
INTERCEPTS: dict[object, str] = {True: "free", False: "none", "tied": "tied"}


def read_fitted(model: Any) -> Fitted:
    """What a model learned: ours, pipelines of ``tabular_model``, or any with coef_."""
    known = getattr(model, "fitted_", None)
    if isinstance(known, Fitted):
        return known
    if getattr(model, "coef_", None) is None:
        raise TypeError(
            "model must be a fitted linear model with coef_: got "
            f"{type(model).__name__}. Call fit first."
        )
    coef = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    tasks, certificate = getattr(model, "tasks_", range(len(coef))), None
    names = getattr(model, "feature_names_in_", None)
    if names is not None and len(names) != coef.shape[1]:
        names = None
    gap = getattr(model, "dual_gap_", None)
    if gap is not None:
        certificate = Certificate(float(model.objective_), float(gap), model.n_iter_)
    return Fitted(
        type(model).__name__,
        None,
        np.asarray(tasks),
        coef,
        np.broadcast_to(getattr(model, "intercept_", 0.0), len(coef)),
        certificate,
        None if names is None else Design.of_names(names.tolist()),
        classes=getattr(model, "_classes", None),
        library=getattr(model, "_frame_library", None),
    )


def summarize_model(model: object) -> ModelSummary:
    """Summarise any fitted linear model."""
    return summarize_fitted(read_fitted(model))


def summarize_fitted(
    fitted: Fitted, errors: StandardErrors | None = None, level: float | None = None
) -> ModelSummary:
    """Show what a fit learned, with intervals where there are standard errors.

    Each of more than two classes of a task is shown as a task.
    """
    classes: tuple[Hashable, ...] = ()
    if fitted.n_classes > 1 and fitted.classes is not None:
        classes = tuple(fitted.classes[0].tolist())
    weight, n_tasks = float(_task_weight(fitted).sum()), fitted.shape[0]
    fitted = fitted.by_class()
    z = 0.0 if level is None else float(norm.ppf(0.5 + 0.5 * level))
    (m, d), model, outliers = fitted.shape, fitted.model, fitted.outlier_tasks
    crossed, calibration = fitted.crossed, fitted.calibration
    features = _features(fitted, None if classes else errors, z)
    class_effects = tuple(_class_effects(fitted, errors, features, classes, z))
    coef_error = None
    if errors is not None:
        coef_error, at = np.full((m, d), np.nan), errors.selected
        coef_error[:, at] = errors.coef / fitted.units[at]
    ties = drift = None
    if model is not None and fitted.task_prior is not None:
        ties = model.ties if isinstance(model.ties, str) else "given"
    if fitted.drift is not None:
        unit = "" if fitted.span is None else f" in units of {fitted.span.column}"
        drift = (
            f"standard deviation {spell_number(fitted.drift.sd)}, half-life "
            f"{spell_number(fitted.drift.half_life)}{unit}"
        )
    curves = {} if fitted.design is None else fitted.design.wiggles()
    horizons = () if calibration is None else calibration.horizons.tolist()
    return ModelSummary(
        model=fitted.estimator,
        loss=fitted.loss,
        penalty=None if model is None else model.penalty,
        intercepts=None if model is None else INTERCEPTS[model.fit_intercept],
        standardized=False if model is None else model.standardize,
        weight=weight,
        n_tasks=n_tasks,
        n_features=d,
        n_selected=len(features),
        named=fitted.design is not None,
        strengths=tuple(_strengths(fitted)),
        **_searched(fitted.search),
        certificate=fitted.certificate,
        features=features,
        tasks=_tasks(fitted, errors, z),
        outliers=None if outliers is None else tuple(outliers.tolist()),
        feature_prior=_feature_prior(fitted),
        task_prior=_task_prior(fitted),
        outlier_strength=fitted.outliers and float(fitted.outliers.strength),
        target_variance=fitted.target_variance,
        feature_names=fitted.names,
        coef=fitted.coef,
        own_coef=fitted.outliers and fitted.outliers.own_coef,
        ties=ties,
        statements=read_statements(
            fitted, None if model is None else model.theta, len(classes)
        ),
        columns=tuple(_columns(fitted)),
        crossed=_crossed(fitted),
        is_stochastic=crossed is not None and crossed.is_stochastic,
        levels=tuple(_levels(fitted, z)),
        drift=drift,
        intervals=calibration and QUESTION_WORDS[calibration.question],
        sample=fitted.sample and fitted.sample.words,
        new_task_error=calibration and calibration.new_error,
        horizons=tuple(HorizonSummary(h, e, c, int(n)) for h, e, c, n in horizons),
        wiggles=frozenset(fitted.names[j] for at in curves.values() for j in at),
        classes=classes,
        class_effects=class_effects,
        library=fitted.library,
        level=level,
        errors=errors and errors.kind,
        noise=None if errors is None else float(errors.noise[0]),
        coef_error=coef_error,
    )


WITH_GAPS = ", with gaps for "


def _columns(fitted: Fitted) -> Iterator[ColumnSummary]:
    """What each column became in this model; those that are left out come last."""
    design, model = fitted.design, fitted.model
    if design is None:
        return
    unused = set() if model is None else set(model.left_out)
    used = {one.column for one in _crossed(fitted)}
    words, marks = dict[str, list[str]](), dict[str, str]()
    kinds = dict[str, str]()
    for term, places in design.columns:
        own = words.setdefault(term.source, [])
        if isinstance(term, Line | Curve) and term.reads != NUMBERS:
            kinds[term.source] = f" ({term.reads})"
        if isinstance(term, Line):
            own.append("straight line")
            if term.unit:
                kinds[term.source] = f" (in {term.unit})"
        elif isinstance(term, Categories):
            n = len(term.values)
            own.append(f"{n:,} categories" if n > 1 else "1 category")
        elif isinstance(term, Levels) and term.source in used:
            own.append(count_words(len(term.values), "crossed level"))
        elif isinstance(term, Curve) and not unused.issuperset(
            range(places.start, places.stop)
        ):
            if term.part:
                own.append(f"curve of the {term.part}")
            elif term.is_periodic:
                own.append("periodic curve")
            else:  # it has a straight line, too
                own[:] = ["curve"]
        elif isinstance(term, Gap) and term.alone:
            own.append("indicator of missing values")
        elif isinstance(term, Gap) and term.marks:
            marks[term.source] = WITH_GAPS + join_words(map(repr, term.marks))
    for column, own in words.items():
        became = (join_words(own) or "nothing") + kinds.get(column, "")
        yield ColumnSummary(column, became + marks.get(column, ""))
    for column, reason in design.left_out.items():
        if column not in words:
            yield ColumnSummary(column, f"left out ({reason})")


def spell_columns(columns: Sequence[ColumnSummary]) -> str:
    """What columns became, in one line: those that became the same together."""
    groups, parts, most = dict[str, list[str]](), [], 6
    for one in columns:
        groups.setdefault(one.became, []).append(one.column)
    for became, names in groups.items():
        shown = ", ".join(names[:most])
        if len(names) > most:
            shown += f" and {len(names) - most} more"
        if became.startswith("left out"):
            parts.append(f"{shown} {became}")
        elif became[0].isdigit():
            parts.append(f"{shown} as {became}{' each' if len(names) > 1 else ''}")
        elif len(names) == 1:
            parts.append(f"{shown} as {'an' if became[0] in 'aeiou' else 'a'} {became}")
        else:
            form, gaps, marks = became.partition(WITH_GAPS)
            single = " and " not in form and " of " not in form
            parts.append(f"{shown} as {form}{'s' if single else ''}{gaps}{marks}")
    return "; ".join(parts)


def _crossed(fitted: Fitted) -> tuple[CrossedSummary, ...]:
    """Crossed factors, without those that folds have decided against."""
    if fitted.crossed is None or fitted.design is None:
        return ()
    return tuple(
        CrossedSummary(term.source, len(term.values), sd)
        for term, sd in zip(
            fitted.design.crossed, fitted.crossed.sd.tolist(), strict=True
        )
        if sd > 0 or not term.is_extra
    )


def _levels(fitted: Fitted, z: float) -> Iterator[LevelSummary]:
    """Levels of crossed factors, in order; with intervals if z > 0."""
    if fitted.crossed is None:
        return
    errors = fitted.crossed_values(fitted.crossed.errors)
    effects = fitted.crossed_values(fitted.crossed.effects)
    for one in _crossed(fitted):
        for level, effect in effects[one.column].items():
            error = errors[one.column][level]
            ends = (effect - z * error, effect + z * error) if z else (None, None)
            yield LevelSummary(one.column, level, effect, error, *ends)


def _strengths(fitted: Fitted) -> Iterator[Strength]:
    for name in ("lam", "theta", "epsilon") if fitted.model is not None else ():
        tried = 1
        if fitted.search is not None:
            tried = len(np.unique(fitted.search.table[f"param_{name}"]))
        yield Strength(name, vars(fitted.model)[name], tried)


SCORES = {  # of a search, by the name of its scoring
    "neg_mean_squared_error": "negative mean squared error",
    "neg_log_loss": "negative log-loss",
    "task_auc": "area under the curve",
}


def _searched(search: Search | None) -> Settings:
    """What a summary says of the search."""
    if search is None:
        nothing = dict.fromkeys(("cv_score", "scoring", "search"))
        return {"chosen_by": "set by hand", **nothing}
    rule = ", within one standard error" if search.rule == "1se" else ""
    count, summary = len(search.result.scores), summarize_search(search)
    return {
        "chosen_by": f"chosen among {count} on {search.n_splits} splits{rule}",
        "cv_score": float(search.table["mean_test_score"][search.best]),
        "scoring": SCORES.get(search.scoring, search.scoring),
        "search": summary,
        "structures": summary.compare_structures(),
    }


def summarize_search(search: Search) -> SearchSummary:
    """Scores of all candidates; errors where the scoring is one."""
    table = search.table
    metric = {"task_auc": "AUC"}.get(search.scoring, search.scoring)
    is_error, structures = metric.startswith("neg_"), tuple[str, ...]()
    if choices := [name for name in STRUCTURES if name in table["params"][0]]:
        # What was chosen among, in words, for each candidate.
        structures = tuple(
            ", ".join(spell_choice(name, one[name]) for name in choices)
            for one in table["params"]
        )
    scores = np.stack(
        [table[f"split{k}_test_score"] for k in range(search.n_splits)], axis=1
    )
    return SearchSummary(
        metric.removeprefix("neg_").replace("_", " "),
        is_error,
        {
            name: np.ma.filled(table[f"param_{name}"].astype(float), np.nan)
            for name in ("lam", "theta", "epsilon", "outlier_strength")
            if f"param_{name}" in table
        },
        -scores if is_error else scores,
        search.best,
        structures,
    )


STRUCTURES: dict[str, dict[object, str]] = {  # in the order of words
    "ties": {"adaptive": "adaptive coupling", "uniform": "uniform coupling"},
    "fit_intercept": {"tied": "tied intercepts", True: "free intercepts"},
    "task_prior": {
        "mean": "mean of all tasks",
        "chain": "chain of tasks",
        "nested": "nested tasks",
    },
    "smooth": {
        "varying": "smooth effects by task",
        "common": "smooth effects in common",
        "straight": "straight lines",
    },
    "slopes": {"varying": "slopes by task", "common": "slopes in common"},
    "crossed": {},  # names of columns
    "drift": {None: "constant levels", "ou": "levels that drift"},
    "trend": {
        "curve": "curves of time",
        "line": "lines of time",
        "common": "a line of time in common",
        "level": "no trend",
    },
}


def spell_choice(name: str, value: Any) -> str:
    """One part of a structure in words."""
    if name == "crossed":
        columns = join_words(value)
        return f"effects of each {columns}" if columns else "no crossed factors"
    return STRUCTURES[name].get(value, f"{name}={value}")


def _task_weight(fitted: Fitted) -> Array:
    known = fitted.task_weight
    return np.full(fitted.shape[0], np.nan) if known is None else known


def _features(
    fitted: Fitted, errors: StandardErrors | None, z: float
) -> tuple[FeatureSummary, ...]:
    """Selected features, largest norm first."""
    coef, scale, names = fitted.coef, fitted.units, fitted.names
    with np.errstate(over="ignore"):
        norms = np.linalg.norm(coef * scale, axis=0)
        means = coef.mean(axis=0)
    selected = np.flatnonzero(coef.any(axis=0))
    order = selected[np.argsort(-norms[selected], kind="stable")]
    columns = np.stack([means, coef.min(axis=0), coef.max(axis=0), norms, scale])
    rows = [FeatureSummary(names[j], *columns[:, j].tolist()) for j in order]
    if errors is None:
        return tuple(rows)
    place = np.searchsorted(errors.selected, order)
    both = errors.shared[place] / scale[order], errors.between[place] / scale[order]
    found = []
    for row, error, sd in zip(rows, *(part.tolist() for part in both), strict=True):
        ends = {"lower": row.mean - z * error, "upper": row.mean + z * error}
        between = sd if np.isfinite(sd) else None
        found.append(replace(row, error=error, between=between, **ends))
    return tuple(found)


def _class_effects(
    fitted: Fitted,
    errors: StandardErrors | None,
    features: Sequence[FeatureSummary],
    classes: tuple[Hashable, ...],
    z: float,
) -> Iterator[ClassSummary]:
    """Effects of features on each of more than two classes, where errors are known."""
    if errors is None or not classes:
        return
    K, (m, d) = len(classes), fitted.shape
    means = fitted.coef.reshape(m // K, K, d).mean(axis=0)
    sizes = errors.shared.reshape(K, -1) / fitted.units[errors.selected]
    for one in features:
        j = fitted.names.index(one.name)
        column = int(np.searchsorted(errors.selected, j))
        for label, row, sd in zip(classes, means, sizes, strict=True):
            mean, error = float(row[j]), float(sd[column])
            ends = mean - z * error, mean + z * error
            yield ClassSummary(one.name, label, mean, error, *ends)


def _tasks(
    fitted: Fitted, errors: StandardErrors | None, z: float
) -> tuple[TaskSummary, ...]:
    m, unknown = fitted.shape[0], np.full(fitted.shape[0], None)
    r2 = np.full(m, np.nan) if fitted.task_r2 is None else fitted.task_r2
    with np.errstate(over="ignore"):
        norms = np.linalg.norm(fitted.coef * fitted.units, axis=1).tolist()
    effects = unknown if fitted.task_effect is None else fitted.task_effect
    # Without intercepts there are no errors of effects.
    sizes = unknown if errors is None or not len(errors.effect) else errors.effect
    outliers = () if fitted.outlier_tasks is None else fitted.outlier_tasks.tolist()
    rows = zip(
        fitted.labels,
        _task_weight(fitted).tolist(),
        [None if np.isnan(value) else value for value in r2.tolist()],
        fitted.intercept.tolist(),
        norms,
        effects.tolist(),
        sizes.tolist(),
        strict=True,
    )
    tasks = []
    for label, weight, fit, intercept, size, effect, error in rows:
        known = weight, fit, intercept, size, label in outliers, effect, error
        lower = None if error is None else effect - z * error
        upper = None if error is None else effect + z * error
        tasks.append(TaskSummary(label, *known, lower, upper))
    return tuple(tasks)


def _feature_prior(fitted: Fitted) -> FeaturePriorSummary | None:
    prior, model, scale = fitted.feature_prior, fitted.model, fitted.units
    if prior is None or model is None or fitted.certificate is None:
        return None
    D, targets = prior.rows_in_units(scale, fitted.labels)
    penalised = fitted.shared_coef * scale
    with np.errstate(over="ignore"):
        misfits = D @ penalised.T - (0.0 if targets is None else targets.values)
        violation = float(np.sum(misfits**2))
    objective, cost = fitted.certificate.objective, 0.5 * model.theta * violation
    share = cost / objective if objective > 0 else 0.0
    words = str(prior.words)
    return FeaturePriorSummary(int(D.shape[0]), violation, cost, float(share), words)


def _task_prior(fitted: Fitted) -> str | None:
    if fitted.model is None:
        return None
    prior = fitted.task_prior
    if prior is None:
        return "none"
    # From coarse to fine, where groups are in groups.
    ratios = [spell_number(ratio) for ratio in fitted.between]
    shown = f", coupling between groups {' and '.join(ratios)} of that within"
    return prior.words + (shown if ratios else "")


# Tables of a summary: the fit, the selected features and the tasks; long ones cut.

MOST_ROWS = 20
MOST_NAMES = 8

LOSSES = {
    "squared": "squared error",
    "logistic": "logistic",
    "poisson": "Poisson",
    "gamma": "gamma",
    "negative_binomial": "negative binomial",
}
PENALTIES = {
    "l21": "whole features enter or leave (l21)",
    "nuclear": "tasks share a subspace (nuclear)",
}
TIES = {
    "uniform": "equal for all features",
    "adaptive": "estimated for each feature (REML)",
    "given": "weighted by feature",
}
INTERCEPT_WORDS = {
    "free": "one per task",
    "none": "none",
    "tied": "coupled like the coefficients",
}


def summary_tables(summary: "ModelSummary") -> Iterator[Table]:
    """What was fitted, what was selected, and how the tasks fare."""
    level = f"{100 * (summary.level or 0.0):g} % intervals"
    ends = ("effect", "error", "lower", "upper")
    yield _fit_table(summary)
    if summary.statements:
        rows = [(one.statement, one.words) for one in summary.statements]
        heads, most = ("statement", "came to"), MOST_ROWS
        yield build_table("Statements", heads, rows, most=most, what="statements")
    if len(summary.structures) > 1 and summary.search is not None:
        yield build_table(
            f"Structures tried, best {summary.search.metric} of each",
            ("structure", "best score", "difference"),
            [
                (one.structure + " (chosen)" * one.chosen, one.score, one.difference)
                for one in summary.structures
            ],
        )
    yield _feature_table(summary)
    if summary.class_effects:
        yield build_table(
            f"Effects on classes that tasks share, {level} ({summary.errors})",
            ("feature", "class", "mean", "error", "lower", "upper"),
            [
                (c.feature, str(c.label), c.mean, c.error, c.lower, c.upper)
                for c in summary.class_effects
                if c.feature not in summary.wiggles
            ],
            most=MOST_ROWS,
            what="effects",
        )
    yield _task_table(summary)
    if any(one.error is not None for one in summary.tasks):
        yield build_table(
            f"Tasks at average features, difference to the mean of all tasks, {level}",
            ("task", "rows", *ends),
            [
                (str(one.task), _count(one.weight), *_interval(one))
                for one in rank_effects(summary.tasks)
            ],
            most=MOST_ROWS,
            what="tasks",
        )
    if summary.crossed:
        title = "Crossed factors, effects of levels that are the same in all tasks"
        if summary.is_stochastic:
            title += " (likelihood estimated by random probes)"
        factors = [(one.column, one.levels, one.sd) for one in summary.crossed]
        yield build_table(title, ("column", "levels", "standard deviation"), factors)
        if summary.level is not None:
            yield build_table(
                f"Levels that stand out, {level}",
                ("column", "level", *ends),
                [
                    (one.column, str(one.level), *_interval(one))
                    for one in rank_effects(summary.levels)
                ],
                most=MOST_ROWS,
                what="levels",
            )
    if summary.horizons:
        yield build_table(
            "Held-out later rows, by time since the last row of the task",
            ("up to", "error", "in 90 % interval", "rows"),
            [
                (h.horizon, h.error, f"{h.coverage:.0%}", h.rows)
                for h in summary.horizons
            ],
        )


def _interval(one: TaskSummary | LevelSummary) -> tuple[float | None, ...]:
    return one.effect, one.error, one.lower, one.upper


def _count(weight: float) -> int | float:
    """Whole numbers are shown in full, other sums of weights to four digits."""
    return int(weight) if weight.is_integer() else weight


def _fit_table(summary: "ModelSummary") -> Table:
    counts = [
        f"{summary.weight:.10g} row{'' if summary.weight == 1 else 's'}",
        count_words(summary.n_tasks, "task"),
        *([f"{len(summary.classes)} classes"] if summary.classes else []),
        count_words(summary.n_features, "feature"),
    ]
    scale = "their standard deviation" if summary.standardized else "nothing"
    rows = [
        ("loss", "multinomial" if summary.classes else LOSSES[summary.loss]),
        ("penalty", PENALTIES.get(summary.penalty or "", NOTHING)),
        ("intercepts", INTERCEPT_WORDS.get(summary.intercepts or "", NOTHING)),
        ("features divided by", scale),
        ("task coupling", TIES.get(summary.ties or "", NOTHING)),
        *([] if summary.drift is None else [("levels drift", summary.drift)]),
        *((one.name, spell_number(one.value)) for one in summary.strengths),
        ("strengths", summary.chosen_by),
    ]
    if summary.cv_score is not None:
        score = f"{spell_number(summary.cv_score)} ({summary.scoring})"
        rows.append(("mean score", score))
    if (proof := summary.certificate) is not None:
        gap, relative = spell_number(proof.gap), spell_number(proof.relative)
        rows += [
            ("objective", spell_number(proof.objective)),
            ("above the optimum by at most", f"{gap}, {relative} of the objective"),
            ("steps", str(proof.n_iter)),
        ]
    prior = summary.feature_prior
    known = "none" if prior is None else prior.words
    if prior is not None and prior.n_relations:
        known += f", violated by {spell_number(prior.violation)}, "
        known += f"{100 * prior.share:.2g} % of the objective"
    rows += [
        ("selected", f"{summary.n_selected} of {summary.n_features} features"),
        ("task prior", summary.task_prior or NOTHING),
        ("feature prior", known),
    ]
    if summary.sample is not None:
        rows.append(("structure, trees and intervals from", summary.sample))
    if summary.intervals is not None:
        rows.append(("intervals hold for", summary.intervals))
    if summary.outliers is not None:
        shown = ", ".join(str(task) for task in summary.outliers[:MOST_NAMES])
        if len(summary.outliers) > MOST_NAMES:
            shown += f", … ({len(summary.outliers)} in all)"
        rows.append(("outlier tasks", shown or "none"))
    return build_table(f"{summary.model}: {', '.join(counts)}", ("", "fit"), rows)


def _feature_table(summary: "ModelSummary") -> Table:
    shown = [f for f in summary.features if f.name not in summary.wiggles]
    rows: list[tuple[object, ...]]
    rows = [(f.name, f.mean, f.least, f.most, f.norm) for f in shown]
    heads = ["feature", "mean", "min", "max", "norm"]
    title = "Selected features, coefficients over tasks"
    if summary.classes:
        title = "Selected features, mean coefficients over tasks by class"
        heads = ["feature", "largest means", "min", "max", "norm"]
        rows = [
            (f.name, spell_means(summary.class_means(f.name)), *row[2:])
            for f, row in zip(shown, rows, strict=True)
        ]
    if summary.level is not None and summary.errors and not summary.classes:
        title += f", {100 * summary.level:g} % intervals ({summary.errors})"
        heads[2:2] = ["error", "lower", "upper", "between tasks"]
        rows = [
            (*row[:2], f.error, f.lower, f.upper, f.between, *row[2:])
            for row, f in zip(rows, shown, strict=True)
        ]
    table = build_table(title, tuple(heads), rows, most=MOST_ROWS, what="features")
    bends = len(summary.features) - len(shown)
    note = f"{bends} features that bend curves are not listed: plot_effect shows these."
    return replace(table, notes=(*table.notes, note)) if bends else table


def spell_means(means: Mapping[Hashable, float]) -> str:
    """Means of the classes with the largest ones, such as "car 2.1, train −1.3"."""
    shown = [f"{label} {spell_number(x, 3)}" for label, x in means.items()]
    most = 4  # classes of a feature
    return ", ".join(shown[:most] + ["…"] * (len(shown) > most))


def _task_table(summary: "ModelSummary") -> Table:
    marked = bool(summary.outliers)
    heads = ("task", "rows", "R²", "intercept", "norm", *["outlier"] * marked)
    rows = [
        (
            str(one.task),
            _count(one.weight),
            one.r2,
            one.intercept,
            one.norm,
            *["yes" if one.is_outlier else ""] * marked,
        )
        for one in summary.tasks
    ]
    title = "Tasks, R² on the training rows"
    if all(one.r2 is None for one in summary.tasks):
        title, heads = "Tasks", (*heads[:2], *heads[3:])
        rows = [(*row[:2], *row[3:]) for row in rows]
    return build_table(title, heads, rows, most=MOST_ROWS, what="tasks")


def rank_effects(found: Sequence[Effect]) -> list[Effect]:
    """Tasks or levels with effects, furthest from zero in standard errors first."""
    ratios = [abs(one.effect or 0.0) / (one.error or np.inf) for one in found]
    order = np.argsort(np.negative(ratios), kind="stable")
    return [found[k] for k in order if found[k].error]


def plain_labels(tasks: Sequence[Hashable]) -> list[Hashable]:
    """Task labels as every library of frames takes them."""
    plain = all(isinstance(task, str | int | float | date) for task in tasks)
    return list(tasks) if plain else [str(task) for task in tasks]
