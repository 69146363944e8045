"""Partitions: what workers do with theirs, and how an error names them."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyarrow as pa

from priormtl.data import as_frame
from priormtl.engines.accumulate import summarize_rows
from priormtl.engines.filters import read_filter
from priormtl.engines.recipe import Recipe
from priormtl.engines.wire import from_bytes, to_bytes
from priormtl.exceptions import DataFileError

__all__ = [
    "Span",
    "merge_partitions",
    "name_all",
    "name_columns",
    "say_error",
    "summarize_partition",
]

LONGEST_REASON = 300


class Span(NamedTuple):
    """Consecutive partitions, by number."""

    first: int
    last: int

    def __str__(self) -> str:
        if self.first == self.last:
            return f"partition {self.first}"
        return f"partitions {self.first} to {self.last}"


def name_columns(rows: Any) -> list[str]:
    """Names of the columns of a partition."""
    with naming_partition("partition 0"):
        return name_all(_open(rows).columns)


def summarize_partition(
    recipe: Recipe, where: Any, columns: Sequence[str] | None, number: int, rows: Any
) -> bytes:
    """Map step, done by a worker."""
    with naming_partition(f"partition {number}"):
        table = _read(recipe, where, columns, _open(rows))
        return to_bytes(summarize_rows(recipe, table))


def merge_partitions(spans: Sequence[Sequence[int]], *contents: bytes) -> bytes:
    """Merge step, done by a worker: statistics of neighbouring partitions."""
    total, done = from_bytes(contents[0]), Span(*spans[0])
    for span, content in zip(spans[1:], contents[1:], strict=True):
        part, new = from_bytes(content), Span(*span)
        with naming_partition(f"{done} and {new} do not go together"):
            total += part
        done = Span(done.first, new.last)
    return to_bytes(total)


def _open(rows: Any) -> Any:
    """See a partition as a data frame."""
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    frame = as_frame(rows)
    if frame is None:
        raise ValueError(
            "a partition must be a table of pandas, polars or Arrow: got "
            f"{type(rows).__name__}."
        )
    return frame


def _read(
    recipe: Recipe, where: Any, columns: Sequence[str] | None, frame: Any
) -> pa.Table:
    """Rows that count, by the columns in use, always in the same order."""
    names = name_all(frame.columns)
    if columns is not None:
        _refuse_columns(recipe, names, columns)
    used = list(recipe.used_columns(names if columns is None else columns))
    if where is None:
        return frame.select(used).to_arrow().select(used)
    return _filter(frame.to_arrow(), where, names).select(used)


def name_all(columns: Iterable[Any]) -> list[str]:
    """Names of columns, which must be texts."""
    names = list(columns)
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        raise ValueError(f"column names must be texts: got {wrong[0]!r}; rename it.")
    return names


def _refuse_columns(
    recipe: Recipe, names: Sequence[str], expected: Sequence[str]
) -> None:
    lacking = [name for name in recipe.used_columns(expected) if name not in names]
    besides = [name for name in names if name not in expected]
    if lacking or (besides and recipe.features is None):
        verb = "lacks" if lacking else "has besides"
        raise ValueError(
            f"partitions must have the columns of their table: this one {verb} "
            f"{(lacking or besides)[:8]}; mend it, leave it out, or name the features."
        )


def _filter(table: pa.Table, where: Any, names: Sequence[str]) -> pa.Table:
    if isinstance(where, str):
        where = read_filter(where, names)
    try:
        return table.filter(where)
    except (pa.ArrowException, TypeError) as error:
        raise ValueError(
            f"where cannot be used on these columns: {say_error(error)}."
        ) from None


@contextmanager
def naming_partition(place: str) -> Iterator[None]:
    """Say in which partition something is wrong."""
    try:
        yield
    except (pa.ArrowException, TypeError) as error:
        raise DataFileError(f"{place} cannot be read: {say_error(error)}.") from None
    except ValueError as error:
        raise DataFileError(f"{place}: {' '.join(str(error).split())}") from None


def say_error(error: Exception) -> str:
    """What an error of others says, on one line."""
    lines = "\n".join(map(str, error.args)).splitlines()
    told = " ".join(line for line in lines if line.strip("+- "))
    return (told or type(error).__name__)[:LONGEST_REASON].rstrip(". ")
