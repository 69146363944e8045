"""Source: tables in CSV, Parquet and Arrow files, read once, file by file.

Every error names the file. Of each file only the columns in use are read, and rows
that a filter lets through; row groups and partitions (folders named ``year=2010``)
that it excludes are skipped.
"""

import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import csv

from priormtl._lazy import cached_property
from priormtl.engines.accumulate import choose_rows
from priormtl.engines.filters import read_filter
from priormtl.engines.hashing import is_textual
from priormtl.engines.recipe import Recipe, Wanted
from priormtl.exceptions import DataFileError

__all__ = ["Piece", "Source", "naming", "open_source"]

SUFFIXES = {
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".arrow": "Arrow",
    ".feather": "Arrow",
    ".ipc": "Arrow",
    ".csv": "CSV",
}
MAGIC = {b"PAR1": "Parquet", b"ARRO": "Arrow"}
LONGEST_REASON = 200
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
        return sum(_file_size(fragment) for fragment in self._fragments())

    def holds_text(self, column: str) -> bool:
        """Whether a column of the first file is text; one that is absent is not."""
        place = self.dataset.schema.get_field_index(column)
        return place >= 0 and is_textual(self.dataset.schema.field(place).type)

    def pieces(self, recipe: Recipe, batch_rows: int | None = None) -> Iterator[Piece]:
        """Rows of one file after another, in pieces."""
        yield from self.read(recipe.wanted(self.columns), batch_rows)

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
            left = size = _file_size(fragment)
            for batch in self._scan(fragment, schema, used, rows):
                table = pa.Table.from_batches([batch])
                part = min(left, _bytes_of(table, fragment, size))
                left -= part
                yield Piece(file, table, part)
        except (pa.ArrowException, OSError, UnicodeError) as error:
            raise unreadable(file, error) from None
        yield Piece(file, schema.empty_table().select(list(used)), left)

    def _scan(
        self, fragment: Any, schema: pa.Schema, used: Sequence[str], rows: int
    ) -> Iterator[Any]:
        """Batches of one file."""
        for part in _cut(fragment, rows):
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
            own = _wide_numbers(own, wanted.exact)
        return pa.schema([*own, *outside])


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
        dataset, name = _open_files(source)
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
    except ValueError as error:
        raise DataFileError(f"{file}: {error}") from None


def unreadable(file: str, error: Exception) -> DataFileError:
    """Build the error for a file that Arrow cannot read."""
    lines = str(error).splitlines() or [type(error).__name__]
    # Arrow names the file up to twice before it comes to the point.
    reason = lines[0].split(f"'{file}': ")[-1]
    return DataFileError(
        f"{file} cannot be read: {reason[:LONGEST_REASON].rstrip('.')}."
    )


def _open_files(source: Any) -> tuple[Any, str]:
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        files, base = (_list_files(path), path) if path.is_dir() else ([path], None)
    elif isinstance(source, list | tuple):
        files, base = [Path(path) for path in source], None
    else:
        raise TypeError(
            "source must be a path, a list of paths, or a data set of pyarrow: got "
            f"{type(source).__name__}."
        )
    if not files:
        raise DataFileError(f"{source} must name files: got none.")
    kind = _one_kind(files)
    try:
        return ds.dataset(
            [str(file) for file in files],
            format=_format(kind),
            partitioning=None if base is None else ds.partitioning(flavor="hive"),
            partition_base_dir=None if base is None else str(base),
        ), str(base or files[0])
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise unreadable(str(files[0]), error) from None


def _list_files(folder: Path) -> list[Path]:
    """Files whose names end like tables, but hidden ones, in order."""
    files = sorted(
        path
        for path in folder.rglob("*")
        if _suffix(path) in SUFFIXES
        and not any(part[0] in "._" for part in path.relative_to(folder).parts)
        and path.is_file()
    )
    if not files:
        raise DataFileError(f"{folder} has no files that end in {', '.join(SUFFIXES)}.")
    return files


def _suffix(file: Path) -> str:
    """Ending of a name; CSV files may be compressed."""
    name = file.name.lower()
    return ".csv" if name.endswith((".csv.gz", ".csv.bz2")) else Path(name).suffix


def _one_kind(files: Sequence[Path]) -> str:
    kinds = {_kind(file): file for file in reversed(files)}
    if len(kinds) > 1:
        names = " and ".join(f"{file} ({kind})" for kind, file in kinds.items())
        raise DataFileError(f"files of one table must be of one kind: got {names}.")
    return next(iter(kinds))


def _kind(file: Path) -> str:
    """Kind of a file by its name, else by its first bytes."""
    if not file.is_file():
        raise FileNotFoundError(f"{file} is not a file or folder.")
    if not file.stat().st_size:
        raise DataFileError(f"{file} is empty.")
    known = SUFFIXES.get(_suffix(file))
    if known is not None:
        return known
    with file.open("rb") as content:
        return MAGIC.get(content.read(4), "CSV")


def _cut(fragment: Any, rows: int) -> Iterator[Any]:
    """Row groups of a Parquet file, those with few rows put together; else all of it.

    A scan of more would run ahead of whoever is slower than it, up to 1 GiB, and hold
    what it read until its end.
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


def _format(kind: str) -> Any:
    if kind == "Parquet":
        return ds.ParquetFileFormat()
    if kind == "Arrow":
        return ds.IpcFileFormat()
    return ds.CsvFileFormat(
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )


def _wide_numbers(schema: pa.Schema, exact: Collection[str]) -> pa.Schema:
    """Types guessed from the beginning of a CSV file: fractions may come later."""
    for i, field in enumerate(schema):
        guess = field.type
        narrow = pa.types.is_integer(guess) or pa.types.is_null(guess)
        if narrow and field.name not in exact:
            schema = schema.set(i, pa.field(field.name, pa.float64()))
    return schema


def _check_filter(dataset: Any, where: Any) -> None:
    try:
        dataset.scanner(filter=where)
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0][:LONGEST_REASON].rstrip(".")
        raise ValueError(f"where cannot be used on these columns: {reason}.") from None


def _refuse_names(file: str, names: Sequence[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise DataFileError(
                f"{file}: {count} columns have the name {name!r}; rename them."
            )
        if not name:
            raise DataFileError(
                f"{file} has a column without a name at position "
                f"{list(names).index('') + 1}: name it or drop it (pandas: "
                "to_csv(index=False))."
            )


def _bytes_of(table: pa.Table, fragment: Any, size: int) -> int:
    """Bytes of a file that some of its rows stand for, about."""
    if not isinstance(fragment, ds.ParquetFileFragment):
        return int(table.nbytes)
    return size * table.num_rows // max(1, fragment.metadata.num_rows)


def _file_size(fragment: Any) -> int:
    """Bytes of a file; zero for what is none, or gone."""
    system = getattr(fragment, "filesystem", None)
    if system is None:
        return 0
    return int(system.get_file_info(fragment.path).size or 0)
