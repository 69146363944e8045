"""Task labels: which tasks there are, in which order, and which row is whose.

Tasks are the sorted labels, or the categories of an ordered categorical in their
declared order. Parts of one table may each hold some of its tasks. Sorted labels merge
into sorted labels, but a declared order (January before February) must be remembered
with the absent tasks included: that is what :class:`TaskOrder` is for.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import date, datetime
from itertools import pairwise
from numbers import Real
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.dependencies import get_pyarrow

from priormtl._arrays import Array, Index
from priormtl.archive import Settings
from priormtl.design.frames import is_missing
from priormtl.exceptions import unknown_names

# Codes: which row belongs to which task.


def encode_labels(labels: Any, n: int) -> tuple[Index, tuple[Hashable, ...]]:
    """Code each of ``n`` rows by the position of its task among the tasks.

    Tasks are sorted, or in category order where ``labels`` is categorical.
    """
    codes, tasks = _code_labels(labels, n)
    unnamed = [i for i, task in enumerate(tasks) if _lacks_part(task)]
    gaps = np.isin(codes, [-1, *unnamed]) if unnamed else codes < 0
    _refuse_gaps(int(np.count_nonzero(gaps)), n)
    return codes, tasks


def _code_labels(labels: Any, n: int) -> tuple[Index, tuple[Hashable, ...]]:
    """Code of each row as in ``encode_labels``, −1 where the label is missing."""
    labels = nw.to_native(labels, pass_through=True)
    is_array = isinstance(labels, np.ndarray)
    categories = None if is_array else label_categories(labels)
    if categories is None:
        values, codes = _unique(labels, n)
        return codes, values
    if len(labels) != n:
        raise _wrong_length(labels, n)
    codes = _category_codes(labels, categories)
    used = np.flatnonzero(np.bincount(codes[codes >= 0], minlength=len(categories)))
    place = np.full(len(categories) + 1, -1, dtype=np.intp)  # the last of the code −1
    place[used] = np.arange(len(used))
    return place[codes], TaskOrder((categories[i] for i in used), categories)


def label_categories(labels: object) -> list[Hashable] | None:
    """Categories in their order, used or not; None if there is no declared order.

    Dictionaries of Arrow and categories of polars only store texts in the order in
    which they were first seen, unless their type says that they are ordered.
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
    """Whether an Arrow column has ordered categories; those of pandas always are."""
    kind = schema.field(column).type
    if not hasattr(kind, "ordered"):
        return False
    described = (schema.pandas_metadata or {}).get("columns", [])
    return bool(kind.ordered) or any(
        known.get("field_name") == column and known["pandas_type"] == "categorical"
        for known in described
    )


def mark_ordered(labels: Any) -> Any:
    pa, kind = get_pyarrow(), labels.type
    return labels.cast(pa.dictionary(kind.index_type, kind.value_type, ordered=True))


# Nested tasks: labels such as "district / school".


SEPARATOR = " / "
# Stands for a part that is missing, so that an unnamed school of a known district is
# still in its district. U+FFFF is no character: Unicode keeps it free for such uses.
UNKNOWN = "\uffff"


def join_names(task: object) -> Any:
    """Name of a column of nested tasks, "district / school"; one name stays itself."""
    if not isinstance(task, list | tuple):
        return task
    return task[0] if len(task) == 1 else SEPARATOR.join(map(str, task))


def find_task_columns(task: object, names: Sequence[Hashable]) -> tuple[Any, ...]:
    """Columns of a table that hold the tasks, from coarse to fine.

    ``task`` is one name, several, or the name of several that were joined.
    """
    parts = tuple(task) if isinstance(task, list | tuple) else (task,)
    if not parts:
        raise ValueError("task must name the column of the tasks: got an empty list.")
    joined = join_names(task)
    if joined in names:
        return (joined,)
    if len(parts) == 1 and isinstance(joined, str):
        found = tuple(joined.split(SEPARATOR))
        if any(part in names for part in found):
            return found
    return parts


def join_labels(columns: Sequence[Any], *, keep_known: bool = True) -> np.ndarray:
    """Labels "district / school" (n,) of columns from coarse to fine; None: missing.

    Where some parts are missing they are ``UNKNOWN``, or the label is missing if what
    is known is not to be kept.
    """
    paths: list[tuple[str | None, ...]] = [()]  # parts so far
    n = len(columns[0])
    codes = np.zeros(n, dtype=np.intp)  # which of them a row has
    for column in columns:
        own, labels = _code_labels(column, n)
        texts = [*map(_label_text, labels), None]  # the last of the code −1
        for text in texts:
            if text is not None and SEPARATOR in text:
                raise ValueError(
                    f'labels of nested tasks must not contain "{SEPARATOR}", which '
                    f"joins them: got {text!r}. Replace it."
                )
        pairs = codes * len(texts) + own % len(texts)
        found, codes = np.unique(pairs, return_inverse=True)
        ends = zip(*(x.tolist() for x in divmod(found, len(texts))), strict=True)
        paths = [(*paths[i], texts[j]) for i, j in ends]
    joined = [
        None
        if set(path) == {None} or (None in path and not keep_known)
        else SEPARATOR.join(UNKNOWN if part is None else part for part in path)
        for path in paths
    ]
    return _object_array(joined)[codes]


def _lacks_part(label: Hashable) -> bool:
    """Whether parts of a label of nested tasks are missing."""
    nested = isinstance(label, str) and UNKNOWN in label and SEPARATOR in label
    return nested and UNKNOWN in str(label).split(SEPARATOR)


def refuse_crossed(
    tasks: Sequence[Hashable], rows: Array | Index, columns: object
) -> None:
    """Fail if labels of nested tasks are those of columns that are crossed.

    Then most labels have one row (of ``rows``), and their last part recurs in several
    groups. Labels that start anew in each group, class 1 of each school, have more.
    """
    if not isinstance(tasks[0], str) or SEPARATOR not in tasks[0]:
        return
    paths = [t.split(SEPARATOR) for t in tasks if isinstance(t, str)]
    if len({len(path) for path in paths}) != 1 or len(paths) < len(tasks):
        return
    fine, coarse = {path[-1] for path in paths}, {tuple(path[:-1]) for path in paths}
    if () in coarse or len(tasks) < 2 * max(len(fine), len(coarse)):
        return
    if np.mean(rows <= 1) > 0.5:
        names = columns if isinstance(columns, list | tuple) else [columns]
        parts = [part for name in names for part in str(name).split(SEPARATOR)]
        if len(parts) != len(paths[0]):
            parts = ["groups", "tasks"]
        *_, group, one = parts
        raise ValueError(
            f"task must name nested columns, from coarse to fine: {group!r} and "
            f"{one!r} are crossed, since the {len(fine):,} values of {one!r} recur in "
            f"{len(coarse):,} groups and most of the {len(tasks):,} pairs have one "
            f"row. Use one of them, such as task={group!r}; the other may be a feature."
        )


def _label_text(value: Any) -> str:
    """Label as text; whole numbers alike, whether they are stored as floats or not."""
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if whole else str(value)


def find_labels(labels: object, tasks: Sequence[Hashable], n: int) -> Index:
    codes, unknown = place_labels(labels, tasks, n)
    if unknown:
        refuse_unnamed(codes, unknown, len(tasks))
        raise unknown_names("task", unknown, tasks)
    return codes


def place_labels(
    labels: object, tasks: Sequence[Hashable], n: int
) -> tuple[Index, tuple[Hashable, ...]]:
    """Position of each row's task among ``tasks``, with unknown labels after them.

    Missing labels are one more unknown label, None, the last. A single text, number or
    date is the label of all rows. (``encode_labels`` refuses it, since it may be meant
    as the name of a column.)
    """
    if isinstance(labels, np.generic) and not isinstance(labels, str):
        labels = np.full(n, labels)
    elif isinstance(labels, str | Real | date):
        labels = [labels] * n
    values, codes = _unique(labels, n)
    position = {task: i for i, task in enumerate(tasks)}
    unknown = tuple(value for value in values if value not in position)
    position |= {value: len(tasks) + k for k, value in enumerate(unknown)}
    missing = len(tasks) + len(unknown)
    places = [position[value] for value in values]
    if np.any(codes < 0):
        unknown = (*unknown, None)
    return np.array([*places, missing], dtype=np.intp)[codes], unknown


def refuse_unnamed(codes: Index, unknown: Sequence[Hashable], m: int) -> None:
    """Fail if labels, as placed among m tasks, are missing or lack a part."""
    gaps = [m + k for k, x in enumerate(unknown) if x is None or _lacks_part(x)]
    _refuse_gaps(int(np.count_nonzero(np.isin(codes, gaps))), len(codes))


def _category_codes(labels: Any, categories: list[Hashable]) -> Index:
    """Codes of a categorical, −1 where a label is missing."""
    place = {category: i for i, category in enumerate(categories)}
    if hasattr(labels, "to_pylist"):  # of pyarrow: each chunk may have other categories
        values, codes = _arrow_codes(labels)
        places = [-1 if is_missing(value) else place[value] for value in values]
        # One more entry, for the code −1.
        return np.array([*places, -1], dtype=np.intp)[codes]
    coded = getattr(labels, "cat", labels)
    if hasattr(coded, "codes"):  # of pandas
        return np.asarray(coded.codes).astype(np.intp)
    if hasattr(labels, "to_physical"):  # of polars
        physical = nw.from_native(labels.to_physical(), series_only=True)
        return physical.cast(nw.Int64).fill_null(-1).to_numpy().astype(np.intp)
    return np.array([place.get(label, -1) for label in labels], dtype=np.intp)


def _arrow_codes(labels: Any) -> tuple[list[Any], Index]:
    """Values of an Arrow array, and which of them each row has; −1 for null."""
    if not hasattr(labels.type, "ordered"):
        labels = labels.dictionary_encode()
    values: list[Any] = []
    codes = [np.zeros(0, dtype=np.intp)]
    for chunk in labels.chunks if hasattr(labels, "chunks") else [labels]:
        indices = chunk.indices.cast("int64").fill_null(-1)
        here = indices.to_numpy(zero_copy_only=False).astype(np.intp)
        codes.append(np.where(here < 0, -1, here + len(values)))
        values += chunk.dictionary.to_pylist()
    return values, np.concatenate(codes)


def _unique(labels: object, n: int) -> tuple[tuple[Hashable, ...], Index]:
    """Sorted distinct labels as Python scalars, and the code of each row.

    The code is −1 where the label is missing.
    """
    if (
        isinstance(labels, str)
        or not np.iterable(labels)
        or not hasattr(labels, "__len__")
    ):
        raise ValueError(
            f"task must be one label per row of X: got {labels!r}. For one task leave "
            "it out; a column of X is named as task= of the model."
        )
    if len(labels) != n:  # type: ignore[arg-type]
        raise _wrong_length(labels, n)
    if hasattr(labels, "to_pylist"):  # of pyarrow
        try:
            values, codes = _arrow_codes(labels)
        except NotImplementedError:  # nested types have no dictionary
            return _unique(labels.to_pylist(), n)
        # Arrow may have values that no row has, or one value in several chunks.
        used = np.flatnonzero(np.bincount(codes[codes >= 0], minlength=len(values)))
        tasks, places = _code_items([values[i] for i in used.tolist()])
        compact = np.full(len(values) + 1, -1, dtype=np.intp)  # the last of null
        compact[used] = places
        return tasks, compact[codes]
    series = nw.from_native(labels, series_only=True, pass_through=True)
    raw = series.to_numpy() if isinstance(series, nw.Series) else labels
    array = raw if isinstance(raw, np.ndarray) else _object_array(list(raw))
    if array.ndim != 1:
        raise ValueError(f"task must be one-dimensional: got shape {array.shape}.")
    if array.dtype.kind == "U" and len(array) > 1:
        # Tables are often sorted by task: then the first label of each run will do.
        first = np.concatenate([[True], array[1:] != array[:-1]])
        if 4 * np.count_nonzero(first) <= len(array):
            tasks, codes = _code_items(array[first].tolist())
            return tasks, codes[np.cumsum(first) - 1]
    if array.dtype.kind in "OTU":
        return _code_items(array.tolist())
    if isinstance(series, nw.Series) and array.dtype.kind == "f":
        # Whole numbers with gaps became floats, which cannot tell large ones apart.
        gaps = series.is_null().to_numpy()
        if gaps.any():
            return _fill_known(series.drop_nulls().to_native(), ~gaps)
    if array.dtype.kind in "fMmc" and (gaps := array != array).any():  # noqa: PLR0124
        return _fill_known(array[~gaps], ~gaps)
    if array.dtype.kind == "M":
        array = array.astype("datetime64[us]")
    distinct, codes = np.unique(array, return_inverse=True)
    return tuple(distinct.tolist()), codes.astype(np.intp)


def _fill_known(labels: object, known: Any) -> tuple[tuple[Hashable, ...], Index]:
    """Distinct labels of the rows that have one, and codes of all rows (n,)."""
    codes = np.full(len(known), -1, dtype=np.intp)
    values, codes[known] = _unique(labels, int(np.count_nonzero(known)))
    return values, codes


def _object_array(items: Sequence[object]) -> np.ndarray:
    """Array of the items themselves; NumPy alone would turn [1, "a"] into strings."""
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def _code_items(items: list[Any]) -> tuple[tuple[Hashable, ...], Index]:
    """Sorted distinct items of one kind, and the code of each; −1 where missing.

    Only passes in C look at every item: a loop would cost more than a fit.
    """
    kinds = set(map(type, items))
    if not all(issubclass(kind, str) for kind in kinds):
        if kinds - {int, bool, str, date, datetime}:  # these are never missing
            gaps = np.fromiter(map(is_missing, items), bool, len(items))
            if gaps.any():
                return _fill_known(_object_array(items)[~gaps], ~gaps)
        if all(issubclass(kind, Real) for kind in kinds):
            array = np.array(items)
            if array.dtype != object and array.tolist() == items:
                distinct, codes = np.unique(array, return_inverse=True)
                return tuple(distinct.tolist()), codes.astype(np.intp)
        elif len(kinds) > 1:
            names = sorted(kind.__name__ for kind in kinds)
            raise ValueError(
                f"task labels must be of one kind to be sorted: got {names}. "
                "Convert them to text, or pass a categorical."
            )
    try:
        values = sorted(set(items))
    except TypeError:
        raise ValueError(
            f"task labels must have an order: got {type(items[0]).__name__}. "
            "Convert them to text."
        ) from None
    place = {value: i for i, value in enumerate(values)}
    codes = np.fromiter(map(place.__getitem__, items), np.intp, len(items))
    # Subclasses of str, such as those of NumPy, are equal to plain texts.
    plain = (str(value) if isinstance(value, str) else value for value in values)
    return tuple(plain), codes


def _wrong_length(labels: Any, n: int) -> ValueError:
    return ValueError(
        f"task must have one label per row of X: got {len(labels)} labels for {n} rows."
    )


def _refuse_gaps(missing: int, n: int) -> None:
    if missing:
        raise ValueError(
            f"task must not hold missing labels: {missing} of {n} are missing. Drop "
            "these rows, or give them a label."
        )


# Orders of tasks.


class TaskOrder(tuple[Hashable, ...]):
    """Tasks in the order of ``declared``, which may name absent tasks as well.

    Examples
    --------
    >>> spring = TaskOrder(["mar", "may"], declared=["mar", "apr", "may"])
    >>> merge_tasks(spring, ("apr",))
    ('mar', 'apr', 'may')
    """

    declared: tuple[Hashable, ...]

    def __new__(cls, tasks: Iterable[Hashable], declared: Iterable[Hashable]) -> Self:
        order = super().__new__(cls, tasks)
        order.declared = tuple(declared)
        return order

    def __getnewargs__(self) -> tuple[object, ...]:
        return tuple(self), self.declared


def declared_order(tasks: Sequence[Hashable]) -> tuple[Hashable, ...] | None:
    return tasks.declared if isinstance(tasks, TaskOrder) else None


def keep_tasks(
    tasks: Sequence[Hashable], kept: Iterable[Hashable]
) -> tuple[Hashable, ...]:
    declared = declared_order(tasks)
    return tuple(kept) if declared is None else TaskOrder(kept, declared)


def merge_tasks(
    a: tuple[Hashable, ...], b: tuple[Hashable, ...]
) -> tuple[Hashable, ...]:
    """Tasks of both, in the order that either declares, else sorted.

    If no order is declared and one side holds all tasks, its order is kept.
    """
    orders = [order for order in map(declared_order, (a, b)) if order is not None]
    if not orders:
        for whole, part in ((a, b), (b, a)):
            if set(part) <= set(whole) and (set(part) != set(whole) or a == b):
                return whole
        return tuple(_sorted({*a, *b}))
    declared = orders[0] if len(orders) == 1 else join_orders(*orders)
    union = {*a, *b}
    if not union <= set(declared):
        declared = join_orders(declared, *((task,) for task in union))
    return TaskOrder((task for task in declared if task in union), declared)


def join_orders(*orders: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
    """One order that agrees with all; tasks that they leave open are sorted.

    Kahn's topological sort, with a heap for the tasks that are free to come next.

    Examples
    --------
    >>> join_orders(("jan", "feb"), ("feb", "mar", "apr"))
    ('jan', 'feb', 'mar', 'apr')
    """
    if all(order == orders[0] for order in orders):
        return orders[0]
    after: dict[Hashable, list[Hashable]] = defaultdict(list)
    waiting: Counter[Hashable] = Counter()
    for order in orders:
        for task in order:
            after[task]  # an entry also for tasks that none follows
        for earlier, later in pairwise(order):
            after[earlier].append(later)
            waiting[later] += 1
    ready: list[Any] = [task for task in _sorted(after) if not waiting[task]]
    joined: list[Hashable] = []
    while ready:
        task = heapq.heappop(ready)
        joined.append(task)
        for later in after[task]:
            waiting[later] -= 1
            if not waiting[later]:
                heapq.heappush(ready, later)
    cyclic = set(after).difference(joined)
    if cyclic:
        lists = [[task for task in order if task in cyclic] for order in orders]
        raise ValueError(
            "tasks to be merged must be in one order: categories say "
            f"{' and '.join(str(names[:8]) for names in lists if len(names) > 1)}. "
            "Give all parts the same categories, or make labels text."
        )
    return tuple(joined)


def _sorted(tasks: Iterable[Hashable]) -> list[Hashable]:
    labels = list(tasks)
    try:
        return sorted(labels)  # type: ignore[type-var]
    except TypeError:
        raise ValueError(
            "tasks to be merged must have labels of one kind: got "
            f"{sorted({type(task).__name__ for task in labels})}. Make them all text, "
            "or all numbers."
        ) from None


# Names as JSON values, and names of features that have none.


def to_plain(labels: Sequence[Hashable]) -> list[object]:
    """Labels as JSON values; only text, numbers and dates can be saved."""
    plain = list[object]()
    for label in labels:
        if isinstance(label, bool | int | float | str):
            plain.append(label)
        elif isinstance(label, datetime):
            plain.append({"datetime": label.isoformat()})
        elif isinstance(label, date):
            plain.append({"date": label.isoformat()})
        else:
            raise ValueError(
                "task labels must be text, numbers or dates to be saved: got "
                f"{label!r}."
            )
    return plain


def from_plain(values: object) -> tuple[Hashable, ...]:
    if not isinstance(values, list):
        raise TypeError("labels must be a list")
    return tuple(map(_label, values))


def tasks_to_plain(tasks: Sequence[Hashable]) -> Settings:
    declared = declared_order(tasks)
    order = None if declared is None else to_plain(declared)
    return {"tasks": to_plain(tasks), "task_order": order}


def tasks_from_plain(settings: Mapping[str, Any]) -> tuple[Hashable, ...]:
    tasks, order = from_plain(settings["tasks"]), settings.get("task_order")
    if order is None:
        return tasks
    declared = from_plain(order)
    if tasks != tuple(task for task in declared if task in set(tasks)):
        raise ValueError("tasks out of order")
    return TaskOrder(tasks, declared)


def name_features(names: Sequence[object] | None, d: int) -> tuple[str, ...]:
    """Names of d features; x0, x1, … if the data had none."""
    if names is None:
        return tuple(map(unnamed_feature, range(d)))
    return tuple(map(str, names))


def unnamed_feature(place: object) -> str:
    return f"x{place}"


def _label(value: object) -> Hashable:
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict) and set(value) == {"datetime"}:
        return datetime.fromisoformat(value["datetime"])
    if isinstance(value, dict) and set(value) == {"date"}:
        return date.fromisoformat(value["date"])
    raise TypeError("not a label")
