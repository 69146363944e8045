"""Tables in files: CSV, Parquet, Arrow, folders of them, read once, file by file.

``open_files`` lists the files, on disk or in any file system of Arrow, checks that they
are of one kind, finds out how CSV files are written, and opens them as one Arrow data
set; ``read_filter`` turns a text such as ``year >= 2010`` into an Arrow
filter. What Arrow says about files that it cannot read becomes one sentence that names
the file and, where possible, column and value.

A ``Source`` reads only the columns in use, and only rows that match the filter; row
groups and partitions (folders named like ``year=2010``) that the filter excludes are
skipped. ``prefetch`` reads the next piece in a thread while the current one is
summarised, so that at most two pieces of rows are held for reading.
"""

import ast
import csv as text_csv
import operator
import os
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import csv, fs

from priormtl._lazy import cached_property
from priormtl.data.encoding import NUMBER, StrayTextError
from priormtl.engines.batches import choose_rows
from priormtl.engines.columns import (
    Hashes,
    deal_folds,
    find_gaps,
    hash_rows,
    is_textual,
    join_tasks,
)
from priormtl.engines.schema import FOLD, Schema, Wanted
from priormtl.exceptions import DataFileError, FoldsError, suggest_file, unknown_name

SUFFIXES = {
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".arrow": "Arrow",
    ".feather": "Arrow",
    ".ipc": "Arrow",
    ".csv": "CSV",
    ".tsv": "CSV",
    ".tab": "CSV",
}
MAGIC = {b"PAR1": "Parquet", b"ARRO": "Arrow"}
COMPRESSED = (".gz", ".bz2")
HEAD_BYTES = 65_536  # of a CSV file that are checked
HEAD_LINES = 200
ZIP = b"PK\x03\x04"
GZIP = b"\x1f\x8b"
UTF16 = (b"\xff\xfe", b"\xfe\xff")
DELIMITERS = (",", ";", "\t", "|")
DECIMAL_COMMA = re.compile(r"[-+]?\d*,\d+([eE][-+]?\d+)?")
DECIMAL_POINT = re.compile(r"[-+]?\d*\.\d+([eE][-+]?\d+)?")
LONGEST_REASON = 300
LONGEST_VALUE = 60
REPEATED = re.compile(
    r"CSV file contained multiple columns named (?P<name>.*)", re.DOTALL
)
# Arrow infers types from the first block of a CSV file and keeps to them.
CONVERSION = re.compile(
    r"In CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to (\S+): "
    r"invalid value (.*)",
    re.DOTALL,
)


class Files(NamedTuple):
    """Files of one table, and where they are."""

    system: Any  # pyarrow.fs.FileSystem
    paths: list[str]
    base: str | None  # folder that was given instead of files
    name: str  # in errors


class Dialect(NamedTuple):
    """How a CSV file is written; None: found out from its first lines."""

    delimiter: str | None = None  # between columns
    decimal: str | None = None  # point of numbers


def open_files(source: Any, dialect: Dialect = Dialect()) -> tuple[Any, str]:  # noqa: B008
    """Arrow data set of a path, a folder or a list of paths, and its name in errors."""
    files = find_files(source)
    kinds = {_kind(files.system, path): path for path in reversed(files.paths)}
    if len(kinds) > 1:
        names = " and ".join(f"{file} ({kind})" for kind, file in kinds.items())
        raise DataFileError(f"files of one table must be of one kind: got {names}.")
    kind = next(iter(kinds))
    form: Any = ds.ParquetFileFormat() if kind == "Parquet" else ds.IpcFileFormat()
    if kind == "CSV":
        form = _csv(read_dialect(files.system, files.paths[0], dialect))
    base = files.base
    try:
        return ds.dataset(
            files.paths,
            format=form,
            filesystem=files.system,
            partitioning=None if base is None else ds.partitioning(flavor="hive"),
            partition_base_dir=base,
        ), files.name
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise unreadable(files.paths[0], error) from None


def find_files(source: Any) -> Files:
    """List the files of a path, a folder, an address such as s3://…, or a list."""
    if isinstance(source, str) and "://" in source:
        return _find_remote(source)
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if path.is_dir():
            inside = sorted(
                found.relative_to(path).as_posix()
                for found in path.rglob("*")
                if found.is_file()
            )
            paths = [str(path / name) for name in _choose_files(str(path), inside)]
            return Files(fs.LocalFileSystem(), paths, str(path), str(path))
        return Files(fs.LocalFileSystem(), [str(path)], None, str(path))
    if not isinstance(source, list | tuple):
        raise TypeError(
            "source must be a path, a list of paths, or a pyarrow data set: got "
            f"{type(source).__name__}."
        )
    if not source:
        raise DataFileError("source must name at least one file: got an empty list.")
    if any(isinstance(path, str) and "://" in path for path in source):
        each = [find_files(path) for path in source]
        if any(one.system != each[0].system or one.base for one in each):
            raise DataFileError(
                "a list must name files of one file system: name a folder instead."
            )
        paths = [path for one in each for path in one.paths]
        return each[0]._replace(paths=paths)
    paths = [str(Path(path)) for path in source]
    return Files(fs.LocalFileSystem(), paths, None, paths[0])


def resolve_address(address: str) -> tuple[Any, str]:
    """Find the file system of an address such as s3://…, and the path in it."""
    system, path = fs.FileSystem.from_uri(address)
    return system, path


def _find_remote(address: str) -> Files:
    try:
        system, path = resolve_address(address)
        info = system.get_file_info(path)
        if info.type == fs.FileType.NotFound:
            raise FileNotFoundError(f"{address} is not a file or folder.")
        if info.type == fs.FileType.File:
            return Files(system, [path], None, address)
        listed = system.get_file_info(fs.FileSelector(path, recursive=True))
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ImportError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise DataFileError(
            f"{address} cannot be opened: {shorten(lines[0])}."
        ) from None
    start = path.rstrip("/") + "/"
    inside = {
        one.path.split(start, 1)[-1]: one.path
        for one in sorted(listed, key=lambda one: one.path)
        if one.type == fs.FileType.File
    }
    paths = [inside[name] for name in _choose_files(address, list(inside))]
    return Files(system, paths, path, address)


def _choose_files(folder: str, names: Sequence[str]) -> list[str]:
    """Names in a folder with the suffix of a table, except hidden ones."""
    chosen = [
        name
        for name in names
        if _suffix(name) in SUFFIXES
        and not any(part[0] in "._" for part in name.split("/") if part)
    ]
    if not chosen:
        raise DataFileError(f"{folder} has no files that end in {', '.join(SUFFIXES)}.")
    return chosen


def _suffix(name: str) -> str:
    name = name.lower()
    for ending in COMPRESSED:
        name = name.removesuffix(ending)
    return Path(name).suffix


def _kind(system: Any, path: str) -> str:
    info = system.get_file_info(path)
    if info.type != fs.FileType.File:
        raise FileNotFoundError(
            f"{path} is not a file or folder.{suggest_file(Path(path))}"
        )
    if not info.size:
        raise DataFileError(f"{path} is empty.")
    if path.lower().endswith(COMPRESSED):
        return "CSV"
    known = SUFFIXES.get(_suffix(path))
    if known is not None:
        return known
    with system.open_input_stream(path, compression=None) as content:
        return MAGIC.get(content.read(4), "CSV")


# CSV files: delimiter, decimal point, and what is no CSV file.


def _csv(dialect: Dialect) -> Any:
    return ds.CsvFileFormat(
        parse_options=csv.ParseOptions(
            delimiter=dialect.delimiter or ",", newlines_in_values=True
        ),
        convert_options=csv.ConvertOptions(
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            decimal_point=dialect.decimal or ".",
        ),
    )


def read_dialect(system: Any, path: str, given: Dialect) -> Dialect:
    """Find out how a CSV file is written; fail if it is something else."""
    try:
        with system.open_input_stream(path, compression="detect") as content:
            start = content.read(HEAD_BYTES)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from None
    if start.startswith(ZIP):
        raise DataFileError(
            f"{path} must be a CSV, Parquet or Arrow file: it is a zip archive, such "
            "as a spreadsheet; save it as CSV."
        )
    if start.startswith(GZIP):
        raise DataFileError(
            f"{path} is compressed with gzip: its name must end in .gz to be read."
        )
    if start.startswith(UTF16) or b"\0" in start:
        raise DataFileError(
            f"{path} must be a CSV file in UTF-8: it has zero bytes or the byte order "
            "mark of UTF-16; save it as UTF-8."
        )
    lines = start.decode("utf-8", errors="replace").splitlines()
    if len(start) == HEAD_BYTES and len(lines) > 1:
        lines.pop()  # the last one may be cut
    return sniff_dialect(lines[:HEAD_LINES], given)


def sniff_dialect(lines: Sequence[str], given: Dialect = Dialect()) -> Dialect:  # noqa: B008
    """Delimiter and decimal point of the first lines of a CSV file.

    The delimiter is the one that gives most columns, of those that give the same number
    of columns in all lines, if there are such. A decimal comma is one in numbers of a
    file whose columns are not separated by commas and that has no decimal points.

    Examples
    --------
    >>> sniff_dialect(["town;size", "Ulm;1,5", "Bonn;2,25"])
    Dialect(delimiter=';', decimal=',')
    """

    def cut(delimiter: str) -> list[list[str]]:
        found = text_csv.reader(lines, delimiter=delimiter, strict=False)
        try:
            return [row for row in found if row]
        except text_csv.Error:
            return []

    def worth(delimiter: str) -> tuple[bool, int]:
        widths = [len(row) for row in cut(delimiter)] or [1]
        return widths[0] > 1 and len(set(widths)) == 1, widths[0]

    delimiter = given.delimiter or max(DELIMITERS, key=worth)
    decimal = given.decimal
    if decimal is None:
        cells = [cell.strip() for row in cut(delimiter)[1:] for cell in row]
        commas = any(map(DECIMAL_COMMA.fullmatch, cells))
        points = any(map(DECIMAL_POINT.fullmatch, cells))
        decimal = "," if delimiter != "," and commas and not points else "."
    return Dialect(delimiter, decimal)


# Filters.

COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def read_filter(text: str, names: Sequence[str]) -> Any:
    """Arrow expression of comparisons of columns with values, with and, or, not.

    Names with spaces are written in backticks. The text is parsed, never run.

    Examples
    --------
    >>> print(read_filter("year >= 2010 and colour != 'red'", ["year", "colour"]))
    ((year >= 2010) and (colour != "red"))
    """
    refusal = ValueError(
        'where must compare columns with values, such as "year >= 2010 and colour != '
        f"'red'\": got {text!r}."
    )

    def build(node: ast.expr) -> Any:
        if isinstance(node, ast.BoolOp):
            join = operator.and_ if isinstance(node.op, ast.And) else operator.or_
            return reduce(join, map(build, node.values))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ~build(node.operand)
        if isinstance(node, ast.Compare) and all(
            type(op) in COMPARISONS for op in node.ops
        ):
            sides = [operand(side) for side in (node.left, *node.comparators)]
            steps = zip(node.ops, sides[:-1], sides[1:], strict=True)
            found = [COMPARISONS[type(op)](left, right) for op, left, right in steps]
            return reduce(operator.and_, found)
        raise refusal

    def operand(node: ast.expr) -> Any:
        name = node.id if isinstance(node, ast.Name) else None
        if isinstance(node, ast.List) and len(node.elts) == 1:
            name = str(getattr(node.elts[0], "value", ""))
        if name is not None:
            if name not in names:
                raise unknown_name("column", name, names)
            return pc.field(name)
        try:
            value = ast.literal_eval(node)
        except ValueError:
            raise refusal from None
        if not isinstance(value, bool | int | float | str):
            raise refusal
        return pc.scalar(value)

    # Names in backticks become lists, which filters do not have otherwise.
    pieces = text.split("`")
    pieces[1::2] = [f"[{piece!r}]" for piece in pieces[1::2]]
    try:
        tree = ast.parse("".join(pieces).strip(), mode="eval")
    except (SyntaxError, ValueError):
        raise refusal from None
    if len(pieces) % 2 == 0:  # a single backtick
        raise refusal
    return build(tree.body)


# Errors.


@contextmanager
def naming(file: str) -> Iterator[None]:
    try:
        yield
    except StrayTextError:  # named, with its row, by Source.locating
        raise
    except FoldsError as error:
        raise FoldsError(f"{file}: {error}") from None
    except ValueError as error:
        raise DataFileError(f"{file}: {error}") from None


def unreadable(file: str, error: Exception, names: Sequence[str] = ()) -> DataFileError:
    """Build the error for a file that Arrow cannot read; ``names`` are its columns."""
    conversion = CONVERSION.search(str(error))
    if conversion is not None and int(conversion[1]) < len(names):
        row = "" if conversion[2] is None else f" in row {conversion[2]}"
        return DataFileError(
            f"{file}: column {names[int(conversion[1])]!r} must hold values of one "
            f"type, {conversion[3]} as in its first rows: got "
            f"{conversion[4][:LONGEST_VALUE]}{row}; correct the values or, if they are "
            "categories, store the table as Parquet with this column as text."
        )
    repeated = REPEATED.search(str(error))
    if repeated is not None:
        return repeated_name(file, repeated["name"])
    lines = str(error).splitlines() or [type(error).__name__]
    # Arrow names the file up to twice before it gives the reason.
    reason = lines[0].split(f"'{file}': ")[-1]
    return DataFileError(f"{file} cannot be read: {shorten(reason)}.")


def repeated_name(file: str, name: str) -> DataFileError:
    return DataFileError(
        f"{file}: several columns have the name {name!r}; rename all but one."
    )


def shorten(reason: str) -> str:
    """Return a reason without its full stop, cut to a readable length."""
    return reason[:LONGEST_REASON].rstrip(". ")


# Reading.

SMALL_ROWS = 10_000  # tables with more rows have even folds by chance
SMALL_CELLS = 2**22  # that are held in memory to deal them: 32 MB
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
    even: bool = False  # whether rows of small tables are dealt evenly to folds

    @property
    def columns(self) -> list[str]:
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
        with naming(self.name):
            for name in schema.drop:
                if name not in self.columns:
                    raise unknown_name("column", name, self.columns)
            return schema.wanted(self.columns)

    def pieces(self, schema: Schema, batch_rows: int | None = None) -> Iterator[Piece]:
        pieces = self.read(self.wanted(schema), batch_rows)
        if self.even and schema.folds is not None and schema.key is None:
            pieces = deal_small(schema, schema.folds, pieces)
        yield from pieces

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
                        yield Piece(file, join_tasks(table, wanted.task), used)
            except (pa.ArrowException, OSError, UnicodeError) as error:
                raise unreadable(file, error, self.columns) from None
            rest = schema.empty_table().select(list(wanted.columns))
            yield Piece(file, join_tasks(rest, wanted.task), left)

    @contextmanager
    def locating(self) -> Iterator[None]:
        """Name the row of a text among numbers."""
        try:
            yield
        except StrayTextError as error:
            raise DataFileError(f"{self.name}: {self._locate(error)}") from None

    def _locate(self, error: StrayTextError) -> StrayTextError:
        """Same error, with the first row that is no number."""
        column = error.column
        for fragment in self._fragments():
            begin = 0
            for batch in fragment.to_batches(columns=[column]):
                texts = batch.column(0).cast(pa.string()).to_pylist()
                for row, text in enumerate(texts, begin + 1):
                    if text is not None and not NUMBER.fullmatch(text):
                        file = getattr(fragment, "path", self.name)
                        inside = "" if file == self.name else f" of {file}"
                        place = f" in row {row}{inside}"
                        return StrayTextError(column, text, place)
                begin += batch.num_rows
        return error

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


def open_source(
    source: Any,
    where: Any = None,
    *,
    delimiter: str | None = None,
    decimal: str | None = None,
) -> Source:
    """Open files for reading; only the first one is looked into.

    Parameters
    ----------
    source : path, address, list of these, pyarrow.dataset.Dataset or pyarrow.Table
        A CSV, Parquet or Arrow file, or a folder of such files of one kind, searched
        recursively; folders named like ``year=2010`` add a column. ``pyarrow.fs`` opens
        addresses such as ``s3://bucket/folder``, ``gs://…`` and ``hdfs://…``.
    where : str or pyarrow expression, optional
        Which rows to read: comparisons of columns and values, such as
        ``"year >= 2010 and colour != 'red'"``.
    delimiter, decimal : str, optional
        Character between the columns and decimal point of CSV files. By default both
        are found out from the first lines of the first file.
    """
    if isinstance(source, Source):
        if where is None:
            return source
        dataset, name = source.dataset, source.name
    elif isinstance(source, ds.Dataset):
        dataset, name = source, "the data set"
    elif isinstance(source, pa.Table | pa.RecordBatch):
        dataset, name = ds.dataset(source), "the table"
    else:
        dataset, name = open_files(source, Dialect(delimiter, decimal))
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


def deal_small(schema: Schema, folds: int, pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Yield the same pieces, with a column of even folds if the table is small."""
    held: list[Piece] = []
    rows = 0
    for piece in pieces:
        held.append(piece)
        rows += piece.num_rows
        if rows > SMALL_ROWS or rows * piece.table.num_columns > SMALL_CELLS:
            yield from held
            yield from pieces
            return
    if not held:
        return
    with naming(held[0].file):
        used = schema.used_columns(held[0].table.column_names)
        hashes = np.concatenate([_hash(piece, used, schema.seed) for piece in held])
        tasks = np.concatenate([_hash(piece, [schema.task]) for piece in held])
    # Rows that are dropped for missing values do not take turns.
    special = (schema.task, schema.target, schema.weight)
    needed = [name for name in used if name in special or schema.missing != "mean"]
    gaps = [_any_gaps(piece.table.select(needed)) for piece in held]
    whole = np.flatnonzero(~np.concatenate(gaps))
    dealt = np.zeros(rows, dtype=np.int32)
    dealt[whole] = deal_folds(hashes[whole], tasks[whole], folds)
    begin = 0
    for piece in held:
        end = begin + piece.num_rows
        column = pa.array(dealt[begin:end])
        yield piece._replace(table=piece.table.append_column(FOLD, column))
        begin = end


def _hash(piece: Piece, names: Sequence[str], seed: int = 0) -> Hashes:
    return hash_rows({name: piece.table[name] for name in names}, seed)


def _any_gaps(table: pa.Table) -> np.ndarray:
    found = np.zeros(table.num_rows, dtype=bool)
    for column in table.columns:
        gaps = find_gaps(column)
        if gaps is not None:
            found |= gaps
    return found


def prefetch(items: Iterator[Item]) -> Generator[Item, None, None]:
    """Yield the same items, the next one made by another thread; two are held."""
    with ThreadPoolExecutor(1, thread_name_prefix="priormtl-read") as pool:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item
            del item  # before the one after the next is requested
