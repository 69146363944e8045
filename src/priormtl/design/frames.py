"""Data frames of pandas, polars and pyarrow: columns as numbers, and frames of results.

All libraries are read through narwhals. Results are built as frames of the library that
the user passed.
"""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from importlib.util import find_spec
from numbers import Real
from typing import Any, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
from scipy.sparse import issparse

from priormtl._arrays import Array, Matrix
from priormtl._numerics import LARGEST

Frame: TypeAlias = nw.DataFrame[Any]
LIBRARIES = ("pandas", "polars", "pyarrow")


def as_frame(table: object) -> Frame | None:
    """View ``table`` as a narwhals data frame; None if it is not one."""
    try:
        frame = nw.from_native(table, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        twice = ", ".join(line.strip("- ") for line in str(error).splitlines()[1:])
        raise ValueError(
            f"columns of a table must have different names: got {twice}; rename them."
        ) from None
    if isinstance(frame, nw.LazyFrame):
        raise ValueError(
            f"a table such as X must be in memory: got a lazy {type(table).__name__}. "
            "Call its collect() or compute() first."
        )
    return frame if isinstance(frame, nw.DataFrame) else None


def column_names(table: object) -> tuple[str, ...] | None:
    """Names of the columns of a frame; None if it is none, or names are not text."""
    frame = as_frame(table)
    if frame is None or not all(isinstance(name, str) for name in frame.columns):
        return None
    return tuple(frame.columns)


def frame_values(frame: Frame, table: str) -> Array:
    """All columns as numbers (n, d); ``table`` is what errors call the frame."""
    columns = [_column_values(column, table) for column in frame.iter_columns()]
    return np.column_stack(columns) if columns else np.empty((len(frame), 0))


def _column_values(column: Any, table: str) -> Array:
    kind = column.dtype
    if not (kind.is_numeric() or kind == nw.Boolean or _holds_numbers(column)):
        raise ValueError(
            f"{table} column {column.name!r} must be numeric: got {kind}. Encode it as "
            "numbers, drop it, or name it as the task column."
        )
    return series_floats(column)


def column_floats(column: Any, kind: Any = None) -> Array:
    """Values of one column, NaN where missing; infinite values are an error."""
    kind = column.dtype if kind is None else kind
    # Plain arrays are numbers already: narwhals takes longer to ask than to give them.
    is_plain = kind.is_numeric() and kind not in (nw.Int128, nw.UInt128)
    values = column.to_numpy() if is_plain or kind == nw.Boolean else None
    if values is not None and values.dtype.kind in "bif":
        values = values.astype(np.float64, copy=False)
    elif column.null_count() == len(column):  # its type may not be known
        return np.full(len(column), np.nan)
    else:
        values = _column_values(column, "X")
    refuse_infinite(values, column.name)
    return values


def refuse_infinite(values: Array, name: str) -> None:
    """Fail if a column has infinite values, or larger ones than can be squared."""
    known = np.where(np.isnan(values), 0.0, values)
    if not np.max(np.abs(known), initial=0.0) <= LARGEST:
        raise not_finite(known[:, np.newaxis], [name])


def _holds_numbers(column: Any) -> bool:
    """Whether a column of objects, or of a type narwhals lacks, holds only numbers."""
    if column.dtype == nw.Unknown:  # narwhals before 2.24 has no half floats
        return column.to_numpy().dtype == np.float16
    if column.dtype != nw.Object:
        return False
    return all(
        isinstance(v, int | float | Decimal | np.number) for v in column.to_list()
    )


def series_floats(column: Any) -> Array:
    """Values of a numeric series, NaN where missing."""
    if column.dtype == nw.Object:
        try:
            return np.array(column.to_list(), dtype=np.float64)
        except OverflowError:  # integers of Python have no limit
            return np.full(len(column), 2.0 * LARGEST)  # refused as too large
    # Arrow casts no integers beyond 2⁵³, and NumPy has none of 128 bits.
    if column.dtype.is_integer() and column.dtype not in (nw.Int128, nw.UInt128):
        values = column.fill_null(0).to_numpy().astype(np.float64)
        return np.where(column.is_null().to_numpy(), np.nan, values)
    return column.cast(nw.Float64).to_numpy().astype(np.float64, copy=False)


def not_finite(X: Matrix, names: list[str] | None) -> ValueError:
    """Name the first column with NaN, infinity or numbers too large to square."""
    values = X.data if issparse(X) else X
    columns = X.tocoo().col if issparse(X) else np.arange(X.shape[1])
    wrong = ~(np.abs(values) <= LARGEST)
    first = int(columns[wrong][0] if issparse(X) else np.argmax(wrong.any(axis=0)))
    name = repr(names[first]) if names else str(first)
    values = X[:, [first]].toarray() if issparse(X) else X[:, first]
    if np.isnan(values).any():
        what, way_out = "NaN", "fill or drop the missing values"
    elif np.isinf(values).any():
        what, way_out = "inf", "replace or drop the infinite values"
    else:
        what, way_out = f"values beyond {LARGEST:g}", "rescale it"
    return ValueError(f"X must be finite: column {name} contains {what}; {way_out}.")


def is_missing(item: object) -> bool:
    """Whether a value is None, NaN, NaT or NA."""
    # NaN and NaT differ from themselves; pandas' NA refuses to say.
    if item is None or type(item).__name__ == "NAType":
        return True
    return isinstance(item, Real | date | np.generic) and bool(item != item)  # noqa: PLR0124


def find_frame_library(like: object) -> str:
    """Name of the library of a frame; for other tables the first one installed."""
    frame = as_frame(like)
    if frame is not None:
        return str(frame.implementation.value)
    for name in LIBRARIES:
        if find_spec(name) is not None:
            return name
    raise ImportError(
        "results are a data frame: install pandas, polars or pyarrow, for example by "
        "pip install pandas."
    )


def build_frame(columns: Mapping[str, Any], library: Any) -> Any:
    """Frame of a library, from columns by name."""
    return nw.from_dict(dict(columns), backend=library).to_native()
