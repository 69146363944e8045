"""tabular_model: from a raw data frame to predictions, with what the data ask for.

Three steps: ``TableFeatures`` turns columns of any kind into numbers and smooth curves,
the CV estimator chooses the structure and estimates by REML how much effects vary, and
``stacked`` mixes in gradient boosting where held-out rows say that interactions
matter.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from priormtl._arrays import Array
from priormtl.checks import check_choice
from priormtl.data import (
    find_task_columns,
    join_names,
    split_offset_columns,
    split_task_column,
)
from priormtl.design import Encoded, Expansion, as_frame, learn_table, read_times
from priormtl.design.columns import NUMBERS, Cells
from priormtl.estimators.cross_validated import (
    MultiTaskClassifierCV,
    MultiTaskRegressorCV,
)
from priormtl.estimators.labels import count_classes
from priormtl.estimators.sources import reading
from priormtl.estimators.stacked import StackedClassifier, StackedRegressor
from priormtl.estimators.summary import ModelSummary
from priormtl.exceptions import TooLargeError, absent_name, unknown_name
from priormtl.fitted import Fitted, Sample, show_part
from priormtl.priors import FeaturePrior, as_feature_prior

if TYPE_CHECKING:
    from priormtl.engines import Frame, RawTable, Schema

KINDS = ("regressor", "classifier")
# A search takes some 200 evaluations of REML, of the cube of this each: a minute.
MOST_COLUMNS = 1500
# Numbers in statistics of tables that are too large for memory: 512 MB. REML holds a
# few copies of them.
MOST_NUMBERS = 2**26


def tabular_model(
    kind: str,
    *,
    task: str | Sequence[str],
    feature_prior: object = None,
    smooth: object = "auto",
    trees: str = "auto",
    crossed: object = "auto",
    time: str | None = None,
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
        Whether the target is a number or one of several classes.
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
        that they help. They are grown with the loss of the model.
    crossed : "auto", "none", str or list of str, default="auto"
        Columns whose levels have effects of their own in all tasks, shrunk as REML
        says, such as the teacher of pupils in many schools. "auto": text columns with
        at least 20 values, and numbers or dates whose values recur in most tasks, if
        held-out rows say that this helps; none with ``outlier_tasks=True``, and none
        with more than two classes, where all text columns are shrunken features.
    time : str, optional
        Column that orders the rows of each task: numbers, dates (also as text), or
        months such as 202401. It stays a feature. The model is then chosen, and
        intervals are made, for later rows of each task.
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
    Tasks that were not seen in training, and rows whose task is missing, are predicted
    by the mean of all tasks, or of the district where that was seen. Columns with gaps
    have an indicator such as "age missing", and missing numbers are filled with the
    mean of their column. Columns with heavy tails (values beyond four interquartile
    ranges from the median) are transformed by asinh. Dates, durations and times of day,
    also as text, are numbers of days. With
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
    if time is not None and not isinstance(time, str):
        raise TypeError(f"time must name a column: got {type(time).__name__}.")
    given = {
        "task": task,
        "time": time,
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
    if settings.get("outlier_tasks") and isinstance(crossed, str) and crossed == "auto":
        crossed = "none"
    known_parts = settings.get("exposure"), settings.get("offset")
    classify = kind == "classifier"
    features = TableFeatures(
        task, smooth, straight, crossed, *known_parts, time, classify
    )
    return TabularPipeline([("features", features), ("model", model)])


class TabularPipeline(Pipeline):
    """Pipeline of :func:`tabular_model`; regressors also predict intervals."""

    def __getattr__(self, name: str) -> Any:
        """Fitted attributes of the model are those of the pipeline, too."""
        steps = self.__dict__.get("steps")
        last = steps[-1][1].__dict__.get("fitted_") if steps else None
        return show_part(self, last, name)

    def fit_source(
        self,
        source: object,
        schema: "Schema | None" = None,
        *,
        where: object = None,
        **columns: Any,
    ) -> Self:
        """Fit the model to tables in files of any size.

        Parameters
        ----------
        source, schema, where, target, weight, features, categories
            See :meth:`MultiTaskRegressor.fit_source`. ``task`` is that of the model.
        missing : {"error", "drop"}, default="error"
            How to treat rows without task, target or weight: raise an error, or drop
            them. Features may have gaps, as in ``fit``.

        Returns
        -------
        self
            The model that ``fit`` finds, if memory holds the table: up to 20 million
            cells.

        Notes
        -----
        Of larger tables, a sample of 50,000 rows chooses the model: how columns become
        features, what varies between tasks, trees, effects of crossed levels, and
        intervals. The sample has whole tasks, or rows of at least 500 tasks. All rows
        are then summarised in one more pass, and the chosen linear model, with the
        variances of its effects, is fitted to them, with the certificate of ``fit``.
        ``fitted_.sample`` and the summary tell the size of the sample. This needs
        squared loss, no ``time`` and no outlier tasks, and statistics of up to 512 MB:
        where curves make them larger, effects of numbers are straight lines.

        Examples
        --------
        >>> import numpy as np, pyarrow as pa
        >>> from priormtl import tabular_model
        >>> x, shop = np.arange(60) % 7, np.arange(60) % 6
        >>> rows = pa.table({"shop": shop, "price": x, "sales": 3.0 * x + shop})
        >>> model = tabular_model("regressor", task="shop", trees="none")
        >>> model = model.fit_source(rows, target="sales")
        >>> bool(model.score(rows, rows["sales"].to_numpy()) > 0.99)
        True
        """
        from priormtl import engines  # noqa: PLC0415

        features: TableFeatures = self.steps[0][1]
        columns = {"task": features.task, **columns}
        schema = engines.Schema.of(schema, **columns)
        if schema.features is not None:
            used = dict.fromkeys([*schema.features, *features.offset_columns])
            schema = replace(schema, features=tuple(used))
        opened = engines.open_source(source, where)
        is_classifier = isinstance(_unfitted_part(self), MultiTaskClassifierCV)
        raw = engines.RawTable.of(opened, schema, exact=is_classifier)
        frame, raw = raw.settled(engines.RawTable.load)
        if frame is None:
            if reason := self.needs_memory():
                raise ValueError(
                    f"{opened.name} is too large for memory, which fit_source needs "
                    f"with {reason}. Read some of its rows, by where, or use "
                    "engines.fit, which fits linear models of any loss."
                )
            sample, raw = raw.settled(engines.RawTable.sample)
            return self.fit_raw(raw, sample)
        return self.fit_raw(raw, frame)

    def needs_memory(self) -> str | None:
        """What needs all rows in memory; None if a sample and statistics will do."""
        features, linear = self.steps[0][1], _unfitted_part(self)
        if isinstance(linear, MultiTaskClassifierCV):
            return "classes"
        if linear.loss != "squared":
            return f"loss={linear.loss!r}"
        for name in ("time", "exposure", "offset"):
            if vars(features)[name] is not None:
                return name
        return "outlier_tasks=True" if linear.outlier_tasks else None

    def fit_raw(self, raw: "RawTable", frame: "Frame") -> Self:
        """Fit a table in files, of which ``frame`` holds all rows, or a sample."""
        model = clone(self)
        features, last = model.steps[0][1], model.steps[-1][1]
        X = features.fit_transform(frame.X, frame.y)
        m, is_sample = frame.all_tasks or 0, frame.all_tasks is not None
        if m * len(X.design) ** 2 > MOST_NUMBERS and features.smooth == "auto":
            warnings.warn(
                f"{len(X.design)} features with curves are too many for {m:,} tasks of "
                "a table that memory does not hold: effects of numbers are straight "
                "lines. Name the columns that need a curve in smooth.",
                UserWarning,
                stacklevel=3,
            )
            features.set_params(smooth="none")
            X = features.fit_transform(frame.X, frame.y)
            features.set_params(smooth="auto")
        if m * len(X.design) ** 2 > MOST_NUMBERS:
            raise TooLargeError(
                f"statistics of {m:,} tasks and {len(X.design)} features must have at "
                f"most {MOST_NUMBERS:,} numbers: use fewer columns, or engines.fit, "
                "which fits any number of tasks to features that are numbers."
            )
        stacked = isinstance(last, StackedRegressor | StackedClassifier)
        unseen = is_sample and m > len(frame.X[raw.schema.task].unique())
        known_tasks = {"sees_tasks": not unseen} if stacked else {}
        last.fit(X, frame.y, sample_weight=frame.weight, **known_tasks)
        if is_sample:
            linear = linear_part(model)
            known: Fitted = linear.fitted_
            size = Sample(len(frame.y), known.shape[0], frame.rows - frame.dropped)
            effects = np.zeros(0) if known.crossed is None else known.crossed.effects
            assert known.design is not None
            with reading(self, raw.source) as advance:
                whole = raw.summarize(known.design, effects, advance)
            linear._extend(whole, size)
            if linear is not last:
                last._follow()
        self.steps = model.steps
        return self

    @property
    def fitted_(self) -> Fitted:
        """What the model learned; summaries, reports, files and plots read it."""
        return self.steps[-1][1].fitted_

    def name_source(self, data: str, target: str) -> None:
        """Remember the names of the file and the target column, for reports."""
        features, last, linear = self.steps[0][1], self.steps[-1][1], linear_part(self)
        features.design_ = replace(features.design_, target=target)
        for step in {id(one): one for one in (linear, last)}.values():
            # Not the design of the features: folds may decide against its factors.
            assert step.fitted_.design is not None
            design = replace(step.fitted_.design, target=target)
            step.fitted_ = replace(step.fitted_, data_name=data, design=design)
        linear._adopt(linear.fitted_)

    def summary(self, level: float | None = None) -> ModelSummary:
        """Summary of the linear model; see :meth:`MultiTaskRegressor.summary`."""
        check_is_fitted(self)
        return self.steps[-1][1].summary(level)

    def update(self, X: object, y: object) -> Self:
        """Add new tasks, or new rows of known ones, without another fit.

        Parameters
        ----------
        X : data frame
            Rows with the columns of the fit.
        y : (n,) array
            Their targets.

        Returns
        -------
        self
            The same model; see :meth:`MultiTaskRegressor.update`.
        """
        check_is_fitted(self)
        X = self[:-1].transform(X)
        self.steps[-1][1].update(X, y)
        return self

    @available_if(lambda self: hasattr(self.steps[-1][1], "predict_interval"))
    def predict_interval(self, X: object, *, coverage: float = 0.9) -> Array:
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
        X = self[:-1].transform(X)
        return np.asarray(self.steps[-1][1].predict_interval(X, coverage=coverage))


def linear_part(model: Any) -> Any:
    """Linear model of a pipeline, boosting aside; other models are their own."""
    last = model[-1] if isinstance(model, Pipeline) else model
    stacked = isinstance(last, StackedRegressor | StackedClassifier)
    return last.model_ if stacked else last


def _unfitted_part(model: Pipeline) -> Any:
    """Linear model of a pipeline as it was given."""
    last = model.steps[-1][1]
    stacked = isinstance(last, StackedRegressor | StackedClassifier)
    return last.model if stacked else last


# Columns of a table as features.


class TableFeatures(TransformerMixin, BaseEstimator):
    """Turn the columns of a raw table into features; the task column stays.

    Numbers, booleans, dates, durations and times of day (all three in days) become
    one feature, followed by the wiggles of their curve; see :class:`SplineFeatures`.
    Text in which all values are dates, times or durations ("2h 15m", "36:15") is read
    as these, and text such as "1,234", "$5" or "12 kg", all in one unit, as numbers;
    "<5" is 5, with a warning. Marks such as "n/a" are gaps. Dates are followed
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
    crossed : "auto", "none", str or list of str, default="auto"
        Columns that become crossed factors; see :func:`tabular_model`.
    exposure, offset : str, optional
        Columns that are no features; see :class:`MultiTaskRegressor`.
    classify : bool, default=False
        Whether targets are classes. With more than two of them "auto" is "none".

    Attributes
    ----------
    design_ : Design
        What each column became.
    n_features_in_, feature_names_in_
        Number and names of the columns seen in ``fit``.

    Notes
    -----
    A column whose name contains "=", ends in "~" and a number, or is that of another
    feature, is shown in backticks among the features.
    """

    def __init__(
        self,
        task: object,
        smooth: object = "auto",
        straight: tuple[str, ...] = (),
        crossed: object = "auto",
        exposure: str | None = None,
        offset: str | None = None,
        time: str | None = None,
        classify: bool = False,
    ) -> None:
        self.task = task
        self.smooth = smooth
        self.straight = straight
        self.crossed = crossed
        self.exposure = exposure
        self.offset = offset
        self.time = time
        self.classify = classify

    def fit(self, X: object, y: object = None) -> Self:
        """Learn kinds of columns, categories, fillings and curves."""
        frame, labels, _ = self._split(X, reset=True)
        self._learn(frame, labels, y)
        return self

    def fit_transform(self, X: object, y: object = None) -> Encoded:
        """Fit and transform, reading each column once."""
        frame, labels, offset = self._split(X, reset=True)
        return self._encode(frame, labels, offset, self._learn(frame, labels, y))

    def _learn(
        self, frame: nw.DataFrame[Any], labels: Any, y: object
    ) -> dict[str, Cells]:
        """Learn from a table; returns the cells of columns that are used."""
        crossed = self.crossed
        if self.classify and isinstance(crossed, str) and crossed == "auto":
            # Models of more than two classes have no crossed factors.
            n_classes = 0 if y is None else count_classes(y)
            crossed = "auto" if n_classes <= 2 else "none"
        tasks = find_task_columns(self.task, frame.columns)
        design, used = learn_table(
            frame,
            str(join_names(self.task)),
            [str(name) for name in tasks],
            labels,
            self.smooth,
            self.straight,
            crossed,
            self.time,
        )
        targets: Any = np.ravel(y) if isinstance(y, np.ndarray | Sequence) else y
        for name, cells in used.items():
            if cells.kind == NUMBERS and np.array_equal(cells.values, targets):
                warnings.warn(
                    f"column {name!r} is equal to the target; drop it, unless it is "
                    "known before the target.",
                    UserWarning,
                    stacklevel=4,
                )
        straight = design.straighten()
        # More curves than rows are hardly told apart, and take long from 500 on.
        most = min(MOST_COLUMNS, max(500, len(labels)))
        is_wide = len(design) > most and len(straight) < len(design)
        if is_wide and self.smooth == "auto":
            warnings.warn(
                f"{len(design.sources):,} columns are too many for curves: effects of "
                "numbers are straight lines. Name the columns that need a curve in "
                "smooth.",
                UserWarning,
                stacklevel=4,
            )
            design = straight
        self.design_ = design
        return used

    def transform(self, X: object) -> Encoded:
        """Features and task labels of the rows of a table."""
        check_is_fitted(self, "design_")
        encoded = self._encode(*self._split(X, reset=False), {})
        self.design_.warn_outside(encoded.X)
        return encoded

    def _encode(
        self,
        frame: nw.DataFrame[Any],
        labels: Any,
        offset: Array | None,
        cells: dict[str, Cells],
    ) -> Encoded:
        X = self.design_.encode(frame, cells)
        levels = self.design_.read_levels(frame, cells)
        time = None
        if (column := self.design_.time) is not None:
            series, kind = frame.get_column(column), self.design_.kind_of(column)
            time = read_times(series, f"time column {column!r}", kind)
        return Encoded(self.design_, X, labels.to_native(), levels, offset, time)

    @property
    def offset_columns(self) -> list[str]:
        """Columns that are known parts of scores."""
        return [name for name in (self.exposure, self.offset) if name is not None]

    def expansion_of(self, column: object) -> Expansion:
        """How values of a column, or of a part of dates, become features."""
        check_is_fitted(self, "design_")
        return self.design_.expansion_of(column)

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """Names of the features."""
        check_is_fitted(self, "design_")
        return np.array(self.design_.names, dtype=object)

    def _split(
        self, X: object, *, reset: bool
    ) -> tuple[nw.DataFrame[Any], Any, Array | None]:
        """Table without its offsets, task labels, and known parts of scores."""
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
        names = frame.columns  # asking the frame again takes a time that grows with it
        tasks, present = find_task_columns(self.task, names), set(names)
        if reset:
            validate_data(self, X, reset=True, skip_check_array=True)
            for name in tasks:
                if name not in present:
                    raise unknown_name("column", name, names)
        else:
            time = [self.design_.time] if self.design_.time else []
            for name in (*tasks, *self.design_.sources, *time):
                if name not in present:
                    raise absent_name("X lacks the column", name, names)
        if len(tasks) == 1:
            labels = frame.get_column(str(tasks[0]))
        else:  # joined from coarse to fine
            joined = split_task_column(frame.to_native(), tasks)[1].tolist()
            backend, name = frame.implementation, join_names(self.task)
            labels = nw.new_series(name, joined, nw.String, backend=backend)
        if not self.offset_columns:
            return frame, labels, None
        roles = self.exposure, self.offset
        offset = split_offset_columns(frame.to_native(), *roles)[1]
        return frame.drop(self.offset_columns), labels, offset
