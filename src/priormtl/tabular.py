"""tabular_model: from a raw data frame to predictions, with what the data ask for.

Three steps: ``TableFeatures`` turns columns of any kind into numbers and smooth curves,
the CV estimator chooses the structure and estimates by REML how much effects vary, and
``stacking`` mixes in gradient boosting where held-out rows say that interactions
matter.
"""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple, Self

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.base import (
    BaseEstimator,
    TransformerMixin,
)
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from priormtl._arrays import Array
from priormtl.checks import check_choice
from priormtl.data import (
    StrayTextError,
    as_frame,
    find_task_columns,
    join_names,
    refuse_strays,
    split_task_column,
)
from priormtl.data.columns import (
    DATES,
    DECIMAL,
    TEXTS,
    Cells,
    code_texts,
    parse_numbers,
    quote_name,
    read_cells,
    show_name,
)
from priormtl.data.encoding import FEWEST_NUMBERS, count_texts, warn_new_category
from priormtl.data.tables import column_floats
from priormtl.estimators import MultiTaskClassifierCV, MultiTaskRegressorCV
from priormtl.exceptions import absent_name, unknown_name
from priormtl.priors import FeaturePrior, as_feature_prior
from priormtl.reml import MOST_NUMBERS
from priormtl.splines import (
    LEAST_VALUES,
    Curves,
    Expansion,
    check_period,
    check_values,
)
from priormtl.stacking import StackedClassifier, StackedRegressor

KINDS = ("regressor", "classifier")
FEWEST_VALUES = 5  # distinct numbers of a column that gets a curve
N_KNOTS = 10
MOST_CATEGORIES = 100  # a text column with more, and few rows each, hardly helps
MOST_INDICATORS = 2**25  # rows × categories of a column: 256 MB
ROWS_PER_CATEGORY = 2.0
N_TICKS = 11  # deciles and both ends
# Parts of dates that repeat: their periods, also in days.
CALENDAR = {
    "hour of day": (24.0, 1.0),
    "day of week": (7.0, 7.0),
    "day of year": (365.25, 365.25),
}
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
FEWEST_PERIODS = 2.0  # that dates must cover
HEAVY_TAIL = 4.0  # interquartile ranges from the median that call for compression


def tabular_model(
    kind: str,
    *,
    task: str | Sequence[str],
    feature_prior: Any = None,
    smooth: Any = "auto",
    trees: str = "auto",
    **settings: Any,
) -> Pipeline:
    """Build a model that takes raw data frames.

    Columns may hold numbers, text, categories, booleans, dates or durations, and values
    may be missing. All columns except the task are features. The data determine which
    effects vary between tasks, which effects are smooth curves, and whether
    interactions matter.

    Parameters
    ----------
    kind : {"regressor", "classifier"}
        Whether the target is a number or one of two classes.
    task : str or list of str
        Column of the tasks. Several columns, from coarse to fine, are nested tasks:
        ``["district", "school"]``.
    feature_prior : FeaturePrior, optional
        What is known about the features.
    smooth : "auto", "none", list of str or dict, default="auto"
        Numeric columns whose effects may be curves. "auto": all with at least five
        distinct values. A mapping from columns to periods, such as
        ``{"hour": 24, "age": None}``, gives periodic curves; None: not periodic.
    trees : {"auto", "none"}, default="auto"
        Whether predictions of gradient boosting are mixed in where held-out rows say
        that they help.
    **settings
        Further parameters of :class:`MultiTaskRegressorCV` or
        :class:`MultiTaskClassifierCV`.

    Returns
    -------
    Pipeline
        Unfitted scikit-learn pipeline with the steps "features" and "model". Regressors
        also have ``predict_interval(X, coverage=0.9)``.

    Notes
    -----
    Tasks that were not seen in training are predicted by the mean of all tasks, or of
    the district where that was seen. Columns with gaps have an indicator such as
    "age missing", and missing numbers are filled with the mean of their column.
    Columns with heavy tails (values beyond four interquartile
    ranges from the median) are transformed by asinh. Dates, durations and times of day,
    also as ISO text, are numbers of days. With
    ``smooth="auto"`` they also have periodic effects of the hour of the day, the day of
    the week and the day of the year, where the dates cover at least two periods.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from priormtl import tabular_model
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame(
    ...     {"shop": np.arange(120) % 6, "price": rng.normal(size=120)}
    ... )
    >>> sales = 3.0 - 2.0 * table["price"] + table["shop"] + rng.normal(size=120)
    >>> model = tabular_model("regressor", task="shop", trees="none")
    >>> bool(model.fit(table, sales).score(table, sales) > 0.8)
    True
    """
    check_choice("kind", kind, KINDS)
    check_choice("trees", trees, ("auto", "none"))
    if not isinstance(join_names(task), str):
        raise TypeError(
            f"task must name the column of the tasks: got {type(task).__name__}."
        )
    known = as_feature_prior(feature_prior) or FeaturePrior(())
    prior = known + FeaturePrior.shrink() + FeaturePrior.smooth()
    given = {
        "task": task,
        "feature_prior": prior,
        "ties": "adaptive",
        "fit_intercept": "tied",
        "lams": (0.0,),
        "epsilons": (1.0,),
        "unseen_tasks": "shared",
        **settings,
    }
    build = MultiTaskRegressorCV if kind == "regressor" else MultiTaskClassifierCV
    model: Any = build(**given)
    if trees == "auto":
        stack = StackedRegressor if kind == "regressor" else StackedClassifier
        model = stack(model)
    straight = tuple(sorted(map(str, known.features_in_units)))
    features = TableFeatures(task, smooth, straight)
    return TabularPipeline([("features", features), ("model", model)])


class TabularPipeline(Pipeline):
    """Pipeline of :func:`tabular_model`; regressors also predict intervals."""

    @available_if(lambda self: hasattr(self.steps[-1][1], "predict_interval"))
    def predict_interval(self, X: Any, *, coverage: float = 0.9) -> Array:
        """Predict intervals that contain a given share of new targets.

        Parameters
        ----------
        X : data frame
            Rows to predict, with the task column.
        coverage : float, default=0.9
            Share of new rows whose target lies within its interval.

        Returns
        -------
        (n, 2) array
            Lower and upper end of the interval of each row; see
            :meth:`MultiTaskRegressorCV.predict_interval`.
        """
        check_is_fitted(self)
        for _, step in self.steps[:-1]:
            X = step.transform(X)
        return np.asarray(self.steps[-1][1].predict_interval(X, coverage=coverage))


# Columns of a table as numbers.


class NumberColumn(NamedTuple):
    """How a column becomes a number, with its curve if it has one."""

    name: str  # of its first feature
    source: str  # column of the table
    kind: str  # of its values: numbers, or days of dates, durations and times
    fill: float  # takes the place of missing values
    middle: float
    spread: float
    compresses: bool  # whether tails are so heavy that the column itself is compressed
    marks_gaps: bool
    curves: Curves | None = None  # of compressed values, or of the values if periodic
    ticks: tuple[float, ...] = ()  # deciles of the training values
    part: str = ""  # of the calendar: values are those of a date column

    @classmethod
    def fit(
        cls,
        name: str,
        cells: Cells,
        bends: bool | None,
        keeps_units: bool,
        period: float | None = None,
    ) -> "NumberColumn | None":
        """Learn from values; None for columns without two of them.

        ``bends`` says whether there is a curve; None: if values are many.
        """
        seen = cells.values[~cells.gaps]
        if len(seen) == 0 or np.ptp(seen) <= 1e-12 * np.abs(seen).max():
            return None
        low, middle, high = np.quantile(seen, [0.25, 0.5, 0.75])
        spread = float(high - low) or float(seen.std())
        heavy = np.abs(seen - middle).max() > HEAVY_TAIL * spread
        n_values = len(np.unique(seen))
        curved = n_values >= FEWEST_VALUES if bends is None else bends
        compresses = bool(heavy and n_values >= FEWEST_VALUES and not keeps_units)
        found = cls(
            name,
            name,
            cells.kind,
            float(middle if compresses else seen.mean()),
            float(middle),
            spread,
            compresses,
            marks_gaps=len(seen) < len(cells.values),
            ticks=tuple(np.quantile(seen, np.linspace(0.0, 1.0, N_TICKS)).tolist()),
        )
        if curved:
            check_values("smooth", name, n_values)
            bent = seen if period is not None else found._compress(seen)
            found = found._replace(curves=Curves.fit(bent, N_KNOTS, period))
        return found

    @classmethod
    def fit_calendar(cls, name: str, cells: Cells) -> "list[NumberColumn]":
        """Periodic effects of dates: parts of the calendar that repeat and vary."""
        found, seen = [], cells.values[~cells.gaps]
        for part, (period, length) in CALENDAR.items():
            n_values = len(np.unique(read_calendar(part, seen)))
            if n_values >= LEAST_VALUES and np.ptp(seen) >= FEWEST_PERIODS * length:
                values = cells._replace(values=read_calendar(part, cells.values))
                column = cls.fit(name, values, True, True, period)
                assert column is not None
                found.append(column._replace(part=part, marks_gaps=False))
        return found

    @property
    def is_date(self) -> bool:
        """Whether values are days since 1970."""
        return self.kind == DATES and not self.part

    @property
    def is_periodic(self) -> bool:
        """Whether the column has a periodic curve and no straight line."""
        return self.curves is not None and self.curves.knots is None

    @property
    def features(self) -> list[str]:
        """Names of the features."""
        wiggles = 0 if self.curves is None else self.curves.rotation.shape[1]
        found = [] if self.is_periodic else [self.name]
        found += [f"{self.name}~{number}" for number in range(1, wiggles + 1)]
        return [*found, f"{self.name} missing"] if self.marks_gaps else found

    def _compress(self, x: Array) -> Array:
        """About linear near the median, logarithmic in the tails."""
        return np.arcsinh((x - self.middle) / self.spread)

    def encode(self, x: Array) -> list[Array]:
        """Features of values, those of the part for parts of dates."""
        gaps, found = np.isnan(x), list[Array]()
        values, periodic = np.where(gaps, self.fill, x), self.is_periodic
        if not periodic:  # which jumps at the end of a period
            found.append(self._compress(values) if self.compresses else values)
        if self.curves is not None:
            found += [*self.curves(values if periodic else self._compress(values)).T]
        return [*found, gaps.astype(np.float64)] if self.marks_gaps else found


class CategoryColumn(NamedTuple):
    """Categories of a column, each of which becomes a feature.

    Of two categories one says it all. Rows that have neither, since their value is new
    or missing, then get the share of the category in training.
    """

    name: str
    source: str
    values: tuple[str, ...]  # none, if the column only says which values are missing
    share: float  # of the second of two categories
    marks_gaps: bool
    leaves_out: bool = False  # whether rare values are no category, as they are many

    @property
    def kind(self) -> str | None:
        """How the column is read; None: in any way."""
        return TEXTS if self.values else None

    @property
    def features(self) -> list[str]:
        """Names of the features."""
        values = self.values[1:] if len(self.values) == 2 else self.values
        found = [f"{self.name}={value}" for value in values]
        return [*found, f"{self.name} missing"] if self.marks_gaps else found

    def encode(self, cells: Cells) -> list[Array]:
        """One feature per category, and where values are missing."""
        gaps, found = cells.gaps, list[Array]()
        if self.values:
            place = {value: k for k, value in enumerate(self.values)}
            new = next((text for text in cells.texts if text not in place), None)
            if new is not None and not self.leaves_out:
                warn_new_category(self.source, new)
            places = [*(place.get(text, -1) for text in cells.texts), -1]
            codes = np.array(places, dtype=np.intp)[cells.values]
            if len(self.values) == 2:
                found = [np.where(codes < 0, self.share, codes).astype(np.float64)]
            else:
                found = [(codes == k).astype(np.float64) for k in range(len(place))]
        return [*found, gaps.astype(np.float64)] if self.marks_gaps else found


FeatureColumn = NumberColumn | CategoryColumn


def settle_names(columns: Sequence[FeatureColumn], task: str) -> list[FeatureColumn]:
    """Columns with names under which no two features, nor the task, are the same.

    Columns whose names look like those of features of other columns are put in
    backticks.
    """
    shown = {column.source: show_name(column.source) for column in columns}
    while True:
        named = [
            column._replace(
                name=" ".join([shown[column.source], *filter(None, [_part(column)])])
            )
            for column in columns
        ]
        counts = Counter([task, *(name for one in named for name in one.features)])
        twice = {name for name, count in counts.items() if count > 1}
        if not twice:
            return named
        # Columns that are named like a feature of another one give way, if there are.
        clashing = [column for column in named if twice.intersection(column.features)]
        own = [column for column in clashing if column.name in twice]
        for source in {column.source for column in own or clashing}:
            plain = shown[source] == source
            shown[source] = quote_name(source) if plain else f"{shown[source]}′"


def straighten(columns: Sequence[FeatureColumn], n_tasks: int) -> list[FeatureColumn]:
    """Columns without curves, if there are more than REML can take."""
    d = sum(len(column.features) for column in columns)
    if n_tasks * (d + 1) ** 2 <= MOST_NUMBERS:
        return list(columns)
    kept = [column for column in columns if not _part(column)]
    straight = [
        column._replace(curves=None) if isinstance(column, NumberColumn) else column
        for column in kept
    ]
    if any(isinstance(one, NumberColumn) and one.curves is not None for one in columns):
        warnings.warn(
            f"{len(kept):,} columns and {n_tasks:,} tasks are too many for curves: "
            "effects of numbers are straight lines. Name the columns that need a "
            "curve in smooth.",
            UserWarning,
            stacklevel=5,
        )
    return straight


def _part(column: FeatureColumn) -> str:
    return column.part if isinstance(column, NumberColumn) else ""


class TableFeatures(TransformerMixin, BaseEstimator):
    """Turn the columns of a raw table into features; the task column stays.

    Numbers, booleans, dates, durations and times of day (all three in days) become
    one feature, followed by the wiggles of their curve; see :class:`SplineFeatures`.
    Text in which all values are ISO dates or times is read as these. Dates are followed
    by the wiggles of "when hour of day", "when day of week" and "when day of year".
    Each category of a text column becomes a feature such as "colour=red". Columns with
    gaps have an indicator such as "age missing". Text columns in which most values
    occur once, or that name the task again, are left out with a warning.

    Parameters
    ----------
    task : str or list of str
        Column of the tasks, or several from coarse to fine.
    smooth : "auto", "none", list of str or dict, default="auto"
        Numeric columns that get curves. "auto": all with at least five distinct
        values. A mapping gives periods; a column with a period has only its curve.
    straight : tuple of str, default=()
        Columns that stay as they are, since something is known about their
        coefficients: these get a curve only if ``smooth`` names them.

    Attributes
    ----------
    columns_ : list of str
        Columns that are used.
    n_features_in_, feature_names_in_
        Number and names of the columns seen in ``fit``.

    Notes
    -----
    A column whose name contains "=", ends in "~" and a number, or is that of another
    feature, is shown in backticks among the features.
    """

    def __init__(
        self, task: Any, smooth: Any = "auto", straight: tuple[str, ...] = ()
    ) -> None:
        self.task = task
        self.smooth = smooth
        self.straight = straight

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn kinds of columns, categories, fillings and curves."""
        self._learn(self._frame(X, reset=True))
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit and transform, reading each column once."""
        frame = self._frame(X, reset=True)
        return self._encode(frame, self._learn(frame))

    def _learn(self, frame: nw.DataFrame[Any]) -> dict[str, Cells]:
        """Learn from a table; returns the cells of columns that are used."""
        smooth = self.smooth
        if isinstance(smooth, str) and smooth not in ("auto", "none"):
            raise ValueError(
                f'smooth must be "auto", "none", a list of columns or a mapping from '
                f"columns to periods: got {smooth!r}."
            )
        named = () if isinstance(smooth, str) else tuple(smooth)
        periods = smooth if isinstance(smooth, Mapping) else {}
        for name, period in periods.items():
            if period is not None:
                check_period("smooth", name, period)
        tasks = find_task_columns(self.task, frame.columns)
        for name in (*tasks, *named):
            if name not in frame.columns:
                raise unknown_name("column", name, frame.columns)
        columns, used = list[FeatureColumn](), dict[str, Cells]()
        labels = self._tasks(frame)
        numbers = column_floats(labels) if labels.dtype.is_numeric() else None
        for name in frame.columns:
            if name in tasks:
                continue
            cells = read_cells(frame.get_column(name))
            if holds_measurements(cells):
                cells = parse_numbers(cells)
            column: FeatureColumn | None
            parts = list[NumberColumn]()
            if cells.kind == TEXTS:
                if name in named:
                    raise ValueError(
                        f"smooth must name columns of numbers or dates: {name!r} holds "
                        "text."
                    )
                column = self._categories(name, cells, labels)
            else:
                keeps = name in self.straight
                bends = None if smooth == "auto" else name in named
                if keeps and bends is None:
                    bends = False
                column = NumberColumn.fit(name, cells, bends, keeps, periods.get(name))
                if column is None and 0 < np.count_nonzero(cells.gaps) < len(frame):
                    column = CategoryColumn(name, name, (), 0.0, True)
                elif column is not None and cells.kind == DATES and smooth == "auto":
                    parts = NumberColumn.fit_calendar(name, cells)
                elif column is not None and (
                    numbers is not None and np.array_equal(cells.values, numbers)
                ):
                    warnings.warn(
                        f"column {name!r} is equal to the task {self.task!r}; drop it, "
                        "unless the labels have a trend.",
                        UserWarning,
                        stacklevel=4,
                    )
            if column is not None:
                columns += [column, *parts]
                used[name] = cells
        if not columns:
            raise ValueError(
                "a table needs features besides its task: got no column with two "
                "values or more."
            )
        if smooth == "auto":
            columns = straighten(columns, labels.n_unique())
        self._columns = settle_names(columns, str(join_names(self.task)))
        self.columns_ = list(used)
        return used

    def _categories(self, name: str, cells: Cells, tasks: Any) -> CategoryColumn | None:
        """Categories of a column beside that of tasks; None where it holds none."""
        values, counts, n = cells.texts, count_texts(cells), len(cells.values)
        if not cells.is_declared:
            try:
                refuse_strays(name, values, counts)
            except StrayTextError as error:
                row = int(np.argmax(cells.values == values.index(error.value)))
                raise ValueError(
                    f"column {name!r} must hold numbers: got {error.value[:40]!r} in "
                    f"row {row}. Correct it, or make the column categorical, in pandas "
                    f"by astype({'category'!r})."
                ) from None
        n_seen, reason = int(counts.sum()), ""
        many = len(values) > MOST_CATEGORIES and n < ROWS_PER_CATEGORY * len(values)
        if many or n_seen == len(values) >= FEWEST_VALUES:
            reason = (
                f"has {len(values)} different texts in {n} rows and is left out: it "
                "holds no categories"
            )
        elif n_seen == n and _names_tasks(cells, tasks):
            reason = f"says the same as the task {self.task!r} and is left out"
        if reason:
            warnings.warn(f"column {name!r} {reason}.", UserWarning, stacklevel=5)
            values = ()
        gaps = n_seen < n
        if len(values) > MOST_CATEGORIES and n * len(values) > MOST_INDICATORS:
            warnings.warn(
                f"column {name!r} has {len(values):,} categories, too many for a "
                f"feature each: the {MOST_CATEGORIES} most frequent ones are kept, and "
                "the others have no effect.",
                UserWarning,
                stacklevel=5,
            )
            kept = np.sort(np.argsort(-counts, kind="stable")[:MOST_CATEGORIES])
            values = tuple(values[k] for k in kept)
            return CategoryColumn(name, name, values, 0.0, gaps, True)
        if not values or len(values) == 1:
            # One value and gaps: a single feature says which rows have it.
            mark = gaps and not values
            found = CategoryColumn(name, name, values, 0.0, mark)
            return found if gaps and n_seen else None
        return CategoryColumn(name, name, values, float(counts[1]) / n_seen, gaps)

    def transform(self, X: Any) -> Any:
        """Features and the task column, as a data frame of the same library."""
        check_is_fitted(self, "columns_")
        return self._encode(self._frame(X, reset=False), {})

    def _encode(self, frame: nw.DataFrame[Any], known: dict[str, Cells]) -> Any:
        """Features of columns, of which some were read before."""
        out: list[Any] = [self._tasks(frame)]
        for source, columns in groupby(self._columns, lambda one: one.source):
            group = list(columns)
            cells = known.pop(source, None)
            if cells is None:
                cells = read_cells(frame.get_column(source), group[0].kind)
            for column in group:
                if isinstance(column, CategoryColumn):
                    made = column.encode(cells)
                else:
                    x = cells.values
                    made = column.encode(read_calendar(column.part, x))
                out += [
                    nw.new_series(name, values, backend=frame.implementation)
                    for name, values in zip(column.features, made, strict=True)
                ]
        return frame.select(*out).to_native()

    def expansion_of(self, column: Any) -> Expansion:
        """How values of a column, or of a part of dates, become features."""
        check_is_fitted(self, "columns_")
        known = {f"{one.source} {_part(one)}".strip(): one for one in self._columns}
        known |= {one.name: one for one in self._columns}
        if column not in known:
            raise unknown_name("column", column, list(known))
        found = known[column]
        names = found.features[: -1 if found.marks_gaps else None]
        if isinstance(found, CategoryColumn):
            if not found.values:
                indicator = found.features[0]
                return Expansion(
                    lambda words: {indicator: np.array(words) == "missing"},
                    ("known", "missing"),
                )
            return Expansion(
                lambda texts: dict(
                    zip(names, found.encode(code_texts(texts)), strict=False)
                ),
                found.values,
            )

        def expand(x: Array) -> dict[str, Array]:
            return dict(zip(names, found.encode(x), strict=False))

        if found.part == "day of week":
            numbers = dict(zip(WEEKDAYS, range(7), strict=True))
            return Expansion(
                lambda days: expand(np.array([numbers[d] for d in days], float)),
                WEEKDAYS,
            )
        ticks = found.ticks
        ends = ticks[0], ticks[-1]
        if found.curves is not None and found.is_periodic:
            ends = 0.0, found.curves.width
            ticks = tuple(tick % found.curves.width for tick in ticks)
        return Expansion(expand, np.array(ticks), ends, found.is_date)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns of the result."""
        check_is_fitted(self, "columns_")
        names = [name for column in self._columns for name in column.features]
        return np.array([join_names(self.task), *names], dtype=object)

    def _frame(self, X: Any, *, reset: bool) -> nw.DataFrame[Any]:
        frame = as_frame(X)
        if frame is None:
            raise TypeError(
                f"X must be a data frame with named columns: got {type(X).__name__}."
            )
        for name in frame.columns:
            if not isinstance(name, str):
                raise TypeError(
                    f"columns of X must have text as names: got {name!r}. Rename them, "
                    "in pandas by X.columns = [str(name) for name in X.columns]."
                )
        if reset:
            validate_data(self, X, reset=True, skip_check_array=True)
            return frame
        names = frame.columns  # asking the frame again takes a time that grows with it
        present = set(names)
        for name in (*find_task_columns(self.task, names), *self.columns_):
            if name not in present:
                raise absent_name("X lacks the column", name, names)
        return frame

    def _tasks(self, frame: nw.DataFrame[Any]) -> Any:
        """Column of the tasks, joined from several if there are."""
        columns = find_task_columns(self.task, frame.columns)
        if len(columns) == 1:
            return frame.get_column(str(columns[0]))
        labels = split_task_column(frame.to_native(), columns)[1].tolist()
        name = join_names(self.task)
        return nw.new_series(name, labels, nw.String, backend=frame.implementation)


def _names_tasks(cells: Cells, tasks: Any) -> bool:
    """Whether each text belongs to one task, and each task to one text."""
    m = len(cells.texts)
    if not 1 < m == tasks.n_unique():
        return False
    labels = read_cells(tasks, TEXTS)
    return len(np.unique(cells.values * m + labels.values)) == m


def read_calendar(part: str, days: Array) -> Array:
    """Hours of the day, days of the week (Monday is 0), or of the year; "": all."""
    if part == "hour of day":
        return days % 1.0 * 24.0
    if part == "day of week":  # the first of January 1970 was a Thursday
        return np.floor(days + 3.0) % 7.0
    return days % 365.25 if part else days


def holds_measurements(cells: Cells) -> bool:
    """Whether texts are numbers, and not all whole, so that they are no codes."""
    texts = () if cells.is_declared else cells.texts
    return (
        len(texts) >= FEWEST_NUMBERS
        and all(map(DECIMAL.fullmatch, texts))
        and not all(text.strip().isdecimal() for text in texts)
    )
