"""Source: a table in CSV, Parquet or Arrow files, read once, file by file.

Every error names its file. Only the columns in use are read, and only rows that match
the filter; row groups and partitions (folders named like ``year=2010``) that the filter
excludes are skipped. ``prefetch`` reads the next piece in a thread while the current
one is summarised, so that at most two pieces of rows are held for reading.
"""

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds

from priormtl._lazy import cached_property
from priormtl.engines.batches import choose_rows
from priormtl.engines.columns import is_textual
from priormtl.engines.files import (
    naming,
    open_files,
    read_filter,
    repeated_name,
    shorten,
    unreadable,
)
from priormtl.engines.schema import Schema, Wanted
from priormtl.exceptions import DataFileError

PREFETCHED = 2  # batches that Arrow decodes in advance

Item = TypeVar("Item")


class Piece(NamedTuple):
    """Rows of one file, and the bytes of the file that they stand for."""

    file: str
    table: pa.Table
    size: int

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema

    @property
    def num_rows(self) -> int:
        return int(self.table.num_rows)


@dataclass(frozen=True, eq=False)
class Source:
    """A table in files, or any Arrow data set."""

    dataset: Any
    name: str
    where: Any = None  # Arrow expression

    @property
    def columns(self) -> list[str]:
        """Names of its columns, including those of its partitions."""
        return list(self.dataset.schema.names)

    @cached_property
    def size(self) -> int:
        """Bytes of the files that are read; zero if it is not in files."""
        return sum(_file_size(fragment) for fragment in self._fragments())

    def holds_text(self, column: str) -> bool:
        """Whether a column of the first file is text; an absent one is not."""
        place = self.dataset.schema.get_field_index(column)
        return place >= 0 and is_textual(self.dataset.schema.field(place).type)

    def wanted(self, schema: Schema) -> Wanted:
        """What to read for a schema; errors about columns name the source."""
        with naming(self.name):
            return schema.wanted(self.columns)

    def pieces(self, schema: Schema, batch_rows: int | None = None) -> Iterator[Piece]:
        yield from self.read(self.wanted(schema), batch_rows)

    def read(self, wanted: Wanted, batch_rows: int | None = None) -> Iterator[Piece]:
        """Columns of one file after another, in pieces; the last of a file is empty."""
        rows = batch_rows or choose_rows(len(wanted.columns))
        for fragment in self._fragments():
            file = getattr(fragment, "path", self.name)
            try:
                schema = self._schema_of(fragment, file, wanted)
                left = size = _file_size(fragment)
                for part in cut_rows(fragment, rows):
                    scanner = part.scanner(
                        schema=schema,
                        columns=list(wanted.columns),
                        filter=self.where,
                        batch_size=rows,
                        batch_readahead=PREFETCHED,
                        fragment_readahead=1,
                    )
                    for batch in scanner.to_batches():
                        table = pa.Table.from_batches([batch])
                        used = min(left, _count_bytes(table, fragment, size))
                        left -= used
                        yield Piece(file, table, used)
            except (pa.ArrowException, OSError, UnicodeError) as error:
                raise unreadable(file, error, self.columns) from None
            yield Piece(file, schema.empty_table().select(list(wanted.columns)), left)

    def _fragments(self) -> list[Any]:
        return list(self.dataset.get_fragments(filter=self.where))

    def _schema_of(self, fragment: Any, file: str, wanted: Wanted) -> pa.Schema:
        """Columns of a file with its own types, and those of its partition."""
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
            verb = "lacks" if expected - names else "also has"
            raise DataFileError(
                f"{file} must have the columns of {self.name}: it {verb} {differing}; "
                "correct it, move it away, or name the features."
            )
        if isinstance(getattr(fragment, "format", None), ds.CsvFileFormat):
            # Types are inferred from the first rows of a CSV file; fractions may
            # follow.
            for i, field in enumerate(own):
                narrow = pa.types.is_integer(field.type) or pa.types.is_null(field.type)
                if narrow and field.name not in wanted.exact:
                    own = own.set(i, pa.field(field.name, pa.float64()))
        # The metadata that pandas writes holds the order of categories.
        return pa.schema([*own, *outside], metadata=own.metadata)


def open_source(source: Any, where: Any = None) -> Source:
    """Open files for reading; only the first one is looked into.

    Parameters
    ----------
    source : path, list of paths, pyarrow.dataset.Dataset or pyarrow.Table
        A CSV, Parquet or Arrow file, or a folder of such files of one kind, searched
        recursively; folders named like ``year=2010`` add a column.
    where : str or pyarrow expression, optional
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
        try:
            dataset.scanner(filter=where)
        except (pa.ArrowException, TypeError, ValueError) as error:
            reason = shorten(str(error).splitlines()[0])
            raise ValueError(
                f"where cannot be used on these columns: {reason}."
            ) from None
    return Source(dataset, name, where)


def _refuse_names(file: str, names: Sequence[str]) -> None:
    """Fail if a column has no name, or the name of another one."""
    for name, count in Counter(names).items():
        if count > 1:
            raise repeated_name(file, name)
        if not name:
            raise DataFileError(
                f"{file} has a column without a name at position "
                f"{list(names).index('') + 1}: name it or drop it (pandas: "
                "to_csv(index=False))."
            )


def cut_rows(fragment: Any, rows: int) -> Iterator[Any]:
    """Row groups of a Parquet file that together have enough rows; else the file.

    A scan of the whole file would decode up to 1 GiB more than what is already
    summarised, and hold it until the end.
    """
    if not isinstance(fragment, ds.ParquetFileFragment):
        yield fragment
        return
    waiting: list[int] = []
    count = 0
    for group in fragment.row_groups:
        waiting.append(group.id)
        count += group.num_rows
        if count >= rows:
            yield fragment.subset(row_group_ids=waiting)
            waiting, count = [], 0
    if waiting:
        yield fragment.subset(row_group_ids=waiting)


def _count_bytes(table: pa.Table, fragment: Any, size: int) -> int:
    """Approximate bytes of a file that some of its rows stand for."""
    if isinstance(fragment, ds.ParquetFileFragment):
        return size * table.num_rows // max(1, fragment.metadata.num_rows)
    # Arrow before version 22 does not know the size of views: at least 16 bytes each.
    views = {pa.string_view(), pa.binary_view()}
    return sum(
        16 * len(column) if column.type in views else int(column.nbytes)
        for column in table.columns
    )


def _file_size(fragment: Any) -> int:
    system = getattr(fragment, "filesystem", None)
    if system is None:
        return 0
    return int(system.get_file_info(fragment.path).size or 0)


def prefetch(items: Iterator[Item]) -> Generator[Item, None, None]:
    """Yield the same items, the next one made by another thread; two are held at most.

    Examples
    --------
    >>> list(prefetch(iter("abc")))
    ['a', 'b', 'c']
    """
    with ThreadPoolExecutor(1, thread_name_prefix="priormtl-read") as pool:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item
            del item  # before the one after the next is requested
