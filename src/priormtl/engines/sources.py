"""Source: tables in CSV, Parquet and Arrow files, read once, file by file.

Every error names the file. Of each file only the columns in use are read, and rows
that a filter lets through; row groups and partitions (folders named ``year=2010``)
that it excludes are skipped.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds

from priormtl._lazy import cached_property
from priormtl.engines.accumulate import choose_rows
from priormtl.engines.csv_values import explain_value
from priormtl.engines.files import LONGEST_REASON, open_files, same_names, unreadable
from priormtl.engines.filters import read_filter
from priormtl.engines.fragments import (
    count_bytes,
    cut_rows,
    file_size,
    widen_numbers,
)
from priormtl.engines.hashing import is_textual
from priormtl.engines.recipe import Recipe, Wanted
from priormtl.exceptions import DataFileError, FoldsError

__all__ = ["Piece", "Source", "naming", "open_source"]

AHEAD = 2  # batches that Arrow decodes beforehand


class Piece(NamedTuple):
    """Rows of one file, and the bytes of it that they stand for."""

    file: str
    table: pa.Table
    size: int

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return self.table.schema

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return int(self.table.num_rows)


@dataclass(frozen=True, eq=False)
class Source:
    """A table in files, or any data set of Arrow."""

    dataset: Any
    name: str
    where: Any = None  # expression of Arrow

    @property
    def columns(self) -> list[str]:
        """Names of its columns, and of its partitions."""
        return list(self.dataset.schema.names)

    @cached_property
    def size(self) -> int:
        """Bytes of the files that are read; zero where there are no files."""
        return sum(file_size(fragment) for fragment in self._fragments())

    def holds_text(self, column: str) -> bool:
        """Whether a column of the first file is text; one that is absent is not."""
        place = self.dataset.schema.get_field_index(column)
        return place >= 0 and is_textual(self.dataset.schema.field(place).type)

    def wanted(self, recipe: Recipe) -> Wanted:
        """What is read of it; an error about columns names it."""
        with naming(self.name):
            return recipe.wanted(self.columns)

    def pieces(self, recipe: Recipe, batch_rows: int | None = None) -> Iterator[Piece]:
        """Rows of one file after another, in pieces."""
        yield from self.read(self.wanted(recipe), batch_rows)

    def read(self, wanted: Wanted, batch_rows: int | None = None) -> Iterator[Piece]:
        """Columns of one file after another, in pieces."""
        rows = batch_rows or choose_rows(len(wanted.columns))
        for fragment in self._fragments():
            yield from self._read(fragment, wanted, rows)

    def _fragments(self) -> list[Any]:
        return list(self.dataset.get_fragments(filter=self.where))

    def _read(self, fragment: Any, wanted: Wanted, rows: int) -> Iterator[Piece]:
        """Pieces of one file."""
        file, used = getattr(fragment, "path", self.name), wanted.columns
        try:
            schema = self._schema_of(fragment, file, wanted)
            left = size = file_size(fragment)
            for batch in self._scan(fragment, schema, used, rows):
                table = pa.Table.from_batches([batch])
                part = min(left, count_bytes(table, fragment, size))
                left -= part
                yield Piece(file, table, part)
        except (pa.ArrowException, OSError, UnicodeError) as error:
            names = self.dataset.schema.names
            raise explain_value(file, names, error) or unreadable(file, error) from None
        yield Piece(file, schema.empty_table().select(list(used)), left)

    def _scan(
        self, fragment: Any, schema: pa.Schema, used: Sequence[str], rows: int
    ) -> Iterator[Any]:
        """Batches of one file."""
        for part in cut_rows(fragment, rows):
            scanner = part.scanner(
                schema=schema,
                columns=list(used),
                filter=self.where,
                batch_size=rows,
                batch_readahead=AHEAD,
                fragment_readahead=1,
            )
            yield from scanner.to_batches()

    def _schema_of(self, fragment: Any, file: str, wanted: Wanted) -> pa.Schema:
        """Columns of a file by its own types, and those of its partition."""
        own = fragment.physical_schema
        _refuse_names(file, own.names)
        keys = ds.get_partition_keys(fragment.partition_expression)
        outside = [
            self.dataset.schema.field(key) for key in keys if key not in own.names
        ]
        names = {*own.names, *(field.name for field in outside)}
        expected = set(self.columns if wanted.alone else wanted.columns)
        if expected - names or (wanted.alone and names - expected):
            differing = sorted(expected - names or names - expected)[:8]
            verb = "lacks" if expected - names else "has besides"
            raise DataFileError(
                f"{file} must have the columns of {self.name}: it {verb} {differing}; "
                "mend it, move it away, or name the features."
            )
        if isinstance(getattr(fragment, "format", None), ds.CsvFileFormat):
            own = widen_numbers(own, wanted.exact)
        # What pandas wrote beside the columns tells orders of categories.
        return pa.schema([*own, *outside], metadata=own.metadata)


def open_source(source: Any, where: Any = None) -> Source:
    """Open files for reading; only the first one is looked into.

    Parameters
    ----------
    source : path, list of paths, pyarrow.dataset.Dataset or pyarrow.Table
        A CSV, Parquet or Arrow file, or a folder of such files, of one kind, also in
        folders below it; folders named like ``year=2010`` add a column.
    where : text or pyarrow expression, optional
        Which rows to read: comparisons of columns and values, such as
        ``"year >= 2010 and colour != 'red'"``.
    """
    if isinstance(source, Source):
        dataset, name = source.dataset, source.name
        where = source.where if where is None else where
    elif isinstance(source, ds.Dataset):
        dataset, name = source, "the data set"
    elif isinstance(source, pa.Table | pa.RecordBatch):
        dataset, name = ds.dataset(source), "the table"
    else:
        dataset, name = open_files(source)
    _refuse_names(name, dataset.schema.names)
    if isinstance(where, str):
        where = read_filter(where, dataset.schema.names)
    if where is not None:
        _check_filter(dataset, where)
    return Source(dataset, name, where)


@contextmanager
def naming(file: str) -> Iterator[None]:
    """Say in which file something is wrong."""
    try:
        yield
    except FoldsError as error:
        raise FoldsError(f"{file}: {error}") from None
    except ValueError as error:
        raise DataFileError(f"{file}: {error}") from None


def _check_filter(dataset: Any, where: Any) -> None:
    try:
        dataset.scanner(filter=where)
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0][:LONGEST_REASON].rstrip(".")
        raise ValueError(f"where cannot be used on these columns: {reason}.") from None


def _refuse_names(file: str, names: Sequence[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise same_names(file, name)
        if not name:
            raise DataFileError(
                f"{file} has a column without a name at position "
                f"{list(names).index('') + 1}: name it or drop it (pandas: "
                "to_csv(index=False))."
            )
