"""Task labels: which tasks there are, in which order, and which row is whose."""

from collections.abc import Hashable, Sequence
from datetime import date
from numbers import Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.dependencies import get_pyarrow

from priormtl._arrays import Index
from priormtl.data.orders import TaskOrder, join_orders
from priormtl.exceptions import unknown_names

__all__ = [
    "arrow_categories",
    "declares_order",
    "encode_labels",
    "find_labels",
    "is_missing",
    "label_categories",
    "mark_ordered",
    "place_labels",
]


def encode_labels(labels: Any, n: int) -> tuple[Index, tuple[Hashable, ...]]:
    """Code each of ``n`` rows by the position of its task among the tasks.

    Tasks are sorted, or in category order where ``labels`` is categorical.
    """
    categories = label_categories(labels)
    if categories is not None:
        return _encode_categories(_listed(labels), categories, n)
    values, codes = _unique(_as_labels(labels, n))
    return codes, values


def label_categories(labels: Any) -> list[Hashable] | None:
    """Categories in their order, used or not; None where labels have none.

    Dictionaries of Arrow and categories of polars are only a way to store texts, in
    the order in which they were first seen, unless they are said to be ordered.
    """
    if hasattr(labels, "type") and hasattr(labels.type, "ordered"):  # of pyarrow
        return list(arrow_categories(labels)) if labels.type.ordered else None
    series = nw.from_native(labels, series_only=True, pass_through=True)
    if isinstance(series, nw.Series) and isinstance(series.dtype, nw.Enum):
        return list(series.dtype.categories)
    if isinstance(series, nw.Series) and series.implementation.is_pandas_like():
        labels = getattr(labels, "cat", labels)
    if hasattr(labels, "categories") and hasattr(labels, "codes"):  # of pandas
        return list(labels.categories)
    return None


def arrow_categories(labels: Any) -> tuple[Hashable, ...]:
    """Values of the dictionary of an Arrow array, of all its chunks."""
    chunks = labels.chunks if hasattr(labels, "chunks") else [labels]
    found = dict.fromkeys(tuple(chunk.dictionary.to_pylist()) for chunk in chunks)
    return join_orders(*found) if found else ()


def declares_order(schema: Any, column: str) -> bool:
    """Whether an Arrow column has categories in an order, as pandas' always have."""
    kind = schema.field(column).type
    if not hasattr(kind, "ordered"):
        return False
    described = (schema.pandas_metadata or {}).get("columns", [])
    return bool(kind.ordered) or any(
        known.get("field_name") == column and known["pandas_type"] == "categorical"
        for known in described
    )


def mark_ordered(labels: Any) -> Any:
    """Arrow array whose type says that its categories are in an order."""
    pa, kind = get_pyarrow(), labels.type
    return labels.cast(pa.dictionary(kind.index_type, kind.value_type, ordered=True))


def find_labels(labels: Any, tasks: Sequence[Hashable], n: int) -> Index:
    """Position of each row's task among known ``tasks``; unknown ones are an error."""
    codes, unknown = place_labels(labels, tasks, n)
    if unknown:
        raise unknown_names("task", unknown, tasks)
    return codes


def place_labels(
    labels: Any, tasks: Sequence[Hashable], n: int
) -> tuple[Index, tuple[Hashable, ...]]:
    """Position of each row's task among ``tasks`` and the unknown ones after them.

    A single text, number or date is the label of all rows. (Where tasks are learned it
    is refused, since it may be meant as the name of a column.)
    """
    values, codes = _unique(_as_labels(_for_all_rows(labels, n), n))
    position = {task: i for i, task in enumerate(tasks)}
    unknown = tuple(value for value in values if value not in position)
    position |= {value: len(tasks) + k for k, value in enumerate(unknown)}
    places = np.array([position[value] for value in values], dtype=np.intp)[codes]
    return places, unknown


def _for_all_rows(labels: Any, n: int) -> Any:
    """One label as many; labels of rows as they are."""
    if isinstance(labels, np.generic) and not isinstance(labels, str):
        return np.full(n, labels)
    return [labels] * n if isinstance(labels, str | Real | date) else labels


def _listed(labels: Any) -> list[Any]:
    """Labels of a categorical, one by one."""
    return labels.to_pylist() if hasattr(labels, "to_pylist") else list(labels)


def _encode_categories(
    labels: list[Any], categories: list[Hashable], n: int
) -> tuple[Index, tuple[Hashable, ...]]:
    """Codes and used categories, in category order."""
    _check_length(labels, n)
    _refuse_missing(labels)
    position = {category: i for i, category in enumerate(categories)}
    codes = np.array([position[label] for label in labels], dtype=np.intp)
    used, compact = np.unique(codes, return_inverse=True)
    tasks = TaskOrder((categories[i] for i in used), categories)
    return compact.astype(np.intp), tasks


def _as_labels(labels: Any, n: int) -> np.ndarray:
    """Labels as a 1-D array of one kind, without missing ones."""
    if (
        isinstance(labels, str)
        or not np.iterable(labels)
        or not hasattr(labels, "__len__")
    ):
        raise ValueError(
            f"task must be one label per row of X: got {labels!r}; for one task leave "
            "it out, and name a column of X as task= of the model."
        )
    _check_length(labels, n)
    labels = labels.to_pylist() if hasattr(labels, "to_pylist") else labels
    series = nw.from_native(labels, series_only=True, pass_through=True)
    raw = series.to_numpy() if isinstance(series, nw.Series) else labels
    array = raw if isinstance(raw, np.ndarray) else _object_array(list(raw))
    if array.ndim != 1:
        raise ValueError(f"task must be one-dimensional: got shape {array.shape}.")
    if array.dtype == object or array.dtype.kind == "T":
        return _one_kind(array.tolist())
    if array.dtype.kind in "fMmc":
        _refuse_gaps(int(np.count_nonzero(array != array)), n)  # noqa: PLR0124
    if array.dtype.kind == "M":
        return array.astype("datetime64[us]")
    return array


def _object_array(items: list[Any]) -> np.ndarray:
    """Array of the items themselves; NumPy alone would turn [1, "a"] into strings."""
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def _one_kind(items: list[Any]) -> np.ndarray:
    """Native array where all labels are text or all are numbers, else objects."""
    _refuse_missing(items)
    if all(isinstance(item, str) for item in items):
        # As they are: NumPy's strings drop nulls at the end and are all equally long.
        return _object_array([str(item) for item in items])
    if all(isinstance(item, Real) for item in items):
        array = np.array(items)
        return array if array.tolist() == items else _object_array(items)
    if len({type(item) for item in items}) > 1:
        kinds = sorted({type(item).__name__ for item in items})
        raise ValueError(
            f"task labels must be of one kind to be put in order: got {kinds}; "
            "convert them to text or pass a categorical."
        )
    return _object_array(items)


def _check_length(labels: Any, n: int) -> None:
    if len(labels) != n:
        raise ValueError(
            f"task must have one label per row of X: got {len(labels)} labels for "
            f"{n} rows."
        )


def _refuse_missing(items: list[Any]) -> None:
    _refuse_gaps(sum(is_missing(item) for item in items), len(items))


def _refuse_gaps(missing: int, n: int) -> None:
    if missing:
        raise ValueError(
            f"task must not hold missing labels: {missing} of {n} are; drop or name "
            "those rows."
        )


def is_missing(item: Any) -> bool:
    """Whether a value is None, NaN, NaT or NA."""
    # NaN and NaT differ from themselves; pandas' NA refuses to say.
    if item is None or type(item).__name__ == "NAType":
        return True
    return isinstance(item, Real | date | np.generic) and bool(item != item)  # noqa: PLR0124


def _unique(array: np.ndarray) -> tuple[tuple[Hashable, ...], Index]:
    """Sorted distinct labels as Python scalars, and the code of each row."""
    if array.dtype == object:
        values = _sorted(array.tolist())
        position = {value: i for i, value in enumerate(values)}
        codes = np.array([position[item] for item in array.tolist()], dtype=np.intp)
        return tuple(values), codes
    distinct, codes = np.unique(array, return_inverse=True)
    return tuple(distinct.tolist()), codes.astype(np.intp)


def _sorted(items: list[Any]) -> list[Any]:
    try:
        return sorted(set(items))
    except TypeError:
        kind = type(items[0]).__name__
        raise ValueError(
            f"task labels must have an order: got {kind}; convert them to text."
        ) from None
