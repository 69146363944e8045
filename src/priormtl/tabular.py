"""tabular_model: from a raw data frame to predictions, with what the data ask for.

Three steps: ``TableFeatures`` turns columns of any kind into numbers and smooth curves,
the CV estimator chooses the structure and estimates by REML how much effects vary, and
``stacking`` mixes in gradient boosting where held-out rows say that interactions
matter.
"""

import datetime
import warnings
from collections.abc import Mapping, Sequence
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
from priormtl.data.tables import column_floats
from priormtl.estimators import MultiTaskClassifierCV, MultiTaskRegressorCV
from priormtl.exceptions import absent_name, unknown_name
from priormtl.priors import FeaturePrior, as_feature_prior
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

    Columns may hold numbers, text, categories, booleans or dates, and values may be
    missing. All columns except the task are features. The data determine which effects
    vary between tasks, which effects are smooth curves, and whether interactions
    matter.

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
    the district where that was seen. Missing
    numbers are filled with the mean of their column, and an indicator such as
    "age missing" is added. Columns with heavy tails (values beyond four interquartile
    ranges from the median) are transformed by asinh. Dates are numbers of days. With
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

    name: str
    fill: float  # takes the place of missing values
    middle: float
    spread: float
    compresses: bool  # whether tails are so heavy that the column itself is compressed
    marks_gaps: bool
    curves: Curves | None  # of compressed values, or of the values if periodic
    ticks: tuple[float, ...] = ()  # deciles of the training values
    is_date: bool = False  # values are days since 1970
    part: str = ""  # of the calendar: values are those of a date column

    @classmethod
    def fit(
        cls,
        name: str,
        x: Array,
        bends: bool | None,
        keeps_units: bool,
        period: float | None = None,
    ) -> "NumberColumn | None":
        """Learn from values; None for columns without two of them.

        ``bends`` says whether there is a curve; None: if values are many.
        """
        seen = x[~np.isnan(x)]
        if len(seen) == 0 or np.ptp(seen) <= 1e-12 * np.abs(seen).max():
            return None
        low, middle, high = np.quantile(seen, [0.25, 0.5, 0.75])
        spread = float(high - low) or float(seen.std())
        heavy = np.abs(seen - middle).max() > HEAVY_TAIL * spread
        n_values = len(np.unique(seen))
        curved = n_values >= FEWEST_VALUES if bends is None else bends
        compresses = bool(heavy and n_values >= FEWEST_VALUES and not keeps_units)
        fill = float(middle if compresses else seen.mean())
        gaps = bool(np.isnan(x).any())
        ticks = tuple(np.quantile(seen, np.linspace(0.0, 1.0, N_TICKS)).tolist())
        found = cls(name, fill, float(middle), spread, compresses, gaps, None, ticks)
        if curved:
            check_values("smooth", name, n_values)
            bent = seen if period is not None else found._compress(seen)
            found = found._replace(curves=Curves.fit(bent, N_KNOTS, period))
        return found

    @classmethod
    def fit_calendar(cls, name: str, days: Array) -> "list[NumberColumn]":
        """Periodic effects of dates: parts of the calendar that repeat and vary."""
        found, seen = [], days[~np.isnan(days)]
        for part, (period, length) in CALENDAR.items():
            values = read_calendar(part, days)
            n_values = len(np.unique(values[~np.isnan(values)]))
            if n_values >= LEAST_VALUES and np.ptp(seen) >= FEWEST_PERIODS * length:
                column = cls.fit(f"{name} {part}", values, True, True, period)
                assert column is not None
                found.append(column._replace(part=part, marks_gaps=False))
        return found

    @property
    def source(self) -> str:
        """Column of the table."""
        return self.name.removesuffix(f" {self.part}") if self.part else self.name

    @property
    def is_periodic(self) -> bool:
        """Whether the column has a periodic curve and no straight line."""
        return self.curves is not None and self.curves.knots is None

    def _compress(self, x: Array) -> Array:
        """About linear near the median, logarithmic in the tails."""
        return np.arcsinh((x - self.middle) / self.spread)

    def encode(self, x: Array) -> dict[str, Array]:
        """Features of values, by name."""
        gaps = np.isnan(x)
        values, periodic = np.where(gaps, self.fill, x), self.is_periodic
        found = {}
        if not periodic:  # which jumps at the end of a period
            found[self.name] = self._compress(values) if self.compresses else values
        if self.curves is not None:
            wiggles = self.curves(values if periodic else self._compress(values))
            for number, wiggle in enumerate(wiggles.T, 1):
                found[f"{self.name}~{number}"] = wiggle
        if self.marks_gaps:
            found[f"{self.name} missing"] = gaps.astype(np.float64)
        return found


class CategoryColumn(NamedTuple):
    """Categories of a column, each of which becomes a feature."""

    name: str
    values: tuple[str, ...]

    @property
    def source(self) -> str:
        """Column of the table."""
        return self.name

    def encode(self, texts: list[str | None]) -> dict[str, Array]:
        """One feature per category, by name."""
        known = set(self.values)
        new = next(
            (text for text in texts if text is not None and text not in known), None
        )
        if new is not None and len(known) > 1:
            warnings.warn(
                f"column {self.name!r} has the new category {new!r}, among others "
                "perhaps; rows with new categories count as none of the known ones.",
                UserWarning,
                stacklevel=2,
            )
        column = np.array(texts, dtype=object)
        # Of two categories one says it all.
        values = self.values[1:] if len(self.values) == 2 else self.values
        return {f"{self.name}={v}": (column == v).astype(np.float64) for v in values}


class TableFeatures(TransformerMixin, BaseEstimator):
    """Turn the columns of a raw table into features; the task column stays.

    Numbers, truth values and dates (days) become one feature, followed by the wiggles
    of their curve; see :class:`SplineFeatures`. Dates are followed by the wiggles of
    "when hour of day", "when day of week" and "when day of year". Each category of a
    text column becomes a feature such as "colour=red". Text columns in which most
    values occur once hold no categories and are left out, with a warning.

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
    """

    def __init__(
        self, task: Any, smooth: Any = "auto", straight: tuple[str, ...] = ()
    ) -> None:
        self.task = task
        self.smooth = smooth
        self.straight = straight

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn kinds of columns, categories, fillings and curves."""
        frame = self._frame(X, reset=True)
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
        self._columns: list[NumberColumn | CategoryColumn] = []
        for name in frame.columns:
            if name in tasks:
                continue
            column: NumberColumn | CategoryColumn | None
            parts = list[NumberColumn]()
            values = _numbers(frame.get_column(name))
            bends = None if smooth == "auto" else name in named
            keeps = name in self.straight
            if keeps and bends is None:
                bends = False
            if values is not None:
                period = periods.get(name)
                column = NumberColumn.fit(name, values, bends, keeps, period)
                if column is not None and _holds_dates(frame.get_column(name)):
                    column = column._replace(is_date=True)
                    if smooth == "auto":
                        parts = NumberColumn.fit_calendar(name, values)
            elif name in named:
                raise ValueError(
                    f"smooth must name columns of numbers or dates: {name!r} holds "
                    "text."
                )
            else:
                column = _categories(name, frame.get_column(name), len(frame))
            if column is not None:
                self._columns += [column, *parts]
        if not self._columns:
            raise ValueError(
                "a table needs features besides its task: got no column with two "
                "values or more."
            )
        self.columns_ = list(dict.fromkeys(column.source for column in self._columns))
        return self

    def transform(self, X: Any) -> Any:
        """Features and the task column, as a data frame of the same library."""
        check_is_fitted(self, "columns_")
        frame = self._frame(X, reset=False)
        out: list[Any] = [self._tasks(frame)]
        for column in self._columns:
            series = frame.get_column(column.source)
            if isinstance(column, CategoryColumn):
                found = column.encode(_texts(series))
            else:
                values = _numbers(series)
                if values is None:
                    raise ValueError(
                        f"X column {column.source!r} must hold numbers, as in fit: got "
                        f"{series.dtype}."
                    )
                if column.part:
                    values = read_calendar(column.part, values)
                found = column.encode(values)
            backend = frame.implementation
            out += [nw.new_series(n, v, backend=backend) for n, v in found.items()]
        return frame.select(*out).to_native()

    def expansion_of(self, column: Any) -> Expansion:
        """How values of a column, or of a part of dates, become features."""
        check_is_fitted(self, "columns_")
        known = {one.name: one for one in self._columns}
        if column not in known:
            raise unknown_name("column", column, list(known))
        found = known[column]
        if isinstance(found, CategoryColumn):
            return Expansion(found.encode, found.values)
        if found.part == "day of week":
            numbers = dict(zip(WEEKDAYS, range(7), strict=True))
            return Expansion(
                lambda days: found.encode(np.array([numbers[d] for d in days], float)),
                WEEKDAYS,
            )
        ticks = found.ticks
        if not ticks:  # of a model that was saved by an earlier version
            reach = 2.0 * found.spread
            ticks = found.middle - reach, found.middle + reach
        ends = ticks[0], ticks[-1]
        if found.curves is not None and found.is_periodic:
            ends = 0.0, found.curves.width
            ticks = tuple(tick % found.curves.width for tick in ticks)

        def expand(x: Array) -> dict[str, Array]:
            made = found.encode(x)
            made.pop(f"{found.name} missing", None)
            return made

        return Expansion(expand, np.array(ticks), ends, found.is_date)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns of the result."""
        check_is_fitted(self, "columns_")
        names = [join_names(self.task)]
        for column in self._columns:
            if isinstance(column, CategoryColumn):
                names += column.encode([])
            else:
                names += column.encode(np.zeros(0))
        return np.array(names, dtype=object)

    def _frame(self, X: Any, *, reset: bool) -> nw.DataFrame[Any]:
        frame = as_frame(X)
        if frame is None:
            raise TypeError(
                f"X must be a data frame with named columns: got {type(X).__name__}."
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


def read_calendar(part: str, days: Array) -> Array:
    """Hours of the day, days of the week (Monday is 0), or of the year."""
    if part == "hour of day":
        return days % 1.0 * 24.0
    # The first of January 1970 was a Thursday.
    return np.floor(days + 3.0) % 7.0 if part == "day of week" else days % 365.25


def _holds_dates(series: Any) -> bool:
    kind = series.dtype
    if kind == nw.Object:
        return any(isinstance(value, datetime.date) for value in series.to_list())
    return _is_date(kind)


def _is_date(kind: Any) -> bool:
    return kind == nw.Date or isinstance(kind, nw.Datetime) or kind == nw.Datetime


def _numbers(series: Any) -> Array | None:
    """Values of a column of numbers, truth values or dates; None for other columns."""
    kind = series.dtype
    if kind == nw.Boolean:
        return np.array(
            [np.nan if v is None else float(v) for v in series.to_list()], dtype=float
        )
    if _is_date(kind):
        return _days(series.to_numpy())
    if kind.is_numeric() or series.null_count() == len(series):
        return column_floats(series)
    if kind != nw.Object:
        return None
    values = series.to_list()
    known = [v for v in values if v is not None and v == v]  # noqa: PLR0124
    if all(isinstance(v, int | float | np.number | np.bool_) for v in known):
        return np.array([np.nan if v is None else float(v) for v in values])
    return _days(values) if all(isinstance(v, datetime.date) for v in known) else None


def _days(values: Any) -> Array:
    """Days since 1970; NaN for missing dates."""
    dates = np.asarray(values, dtype="datetime64[s]")
    seconds = dates.astype(np.int64).astype(np.float64)
    return np.where(np.isnat(dates), np.nan, seconds / 86400.0)


def _texts(series: Any) -> list[str | None]:
    return [
        None if value is None or value != value else str(value)  # noqa: PLR0124
        for value in series.to_list()
    ]


def _categories(name: str, series: Any, n: int) -> CategoryColumn | None:
    """Categories of a column, or None where it holds none."""
    texts = _texts(series)
    values = tuple(sorted({text for text in texts if text is not None}))
    if series.dtype not in (nw.Categorical, nw.Enum):
        try:
            refuse_strays(name, values)
        except StrayTextError as error:
            row = texts.index(error.value)
            raise ValueError(
                f"column {name!r} must hold numbers: got {error.value[:40]!r} in row "
                f"{row}. Correct it, or make the column categorical, in pandas by "
                f"astype({'category'!r})."
            ) from None
    if len(values) > MOST_CATEGORIES and n < ROWS_PER_CATEGORY * len(values):
        warnings.warn(
            f"column {name!r} has {len(values)} different texts in {n} rows and is "
            "left out: it holds no categories.",
            UserWarning,
            stacklevel=3,
        )
        return None
    gaps = any(text is None for text in texts)
    return CategoryColumn(name, values) if len(values) > 1 - gaps else None
