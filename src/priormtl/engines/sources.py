"""Tables in files, read once, file by file.

A ``Source`` reads only the columns in use, and only rows that match the filter; row
groups and partitions (folders named like ``year=2010``) that the filter excludes are
skipped. ``read_filter`` turns a text such as ``year >= 2010`` into an Arrow filter.
``prefetch`` reads the next piece in a thread while the current one is summarised, so
that at most two pieces of rows are held for reading.
"""

import ast
import math
import operator
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from priormtl._lazy import cached_property
from priormtl.design.columns import NUMBER, StrayTextError
from priormtl.engines.batches import choose_rows
from priormtl.engines.columns import (
    Hashes,
    deal_folds,
    find_gaps,
    hash_rows,
    is_textual,
    join_tasks,
)
from priormtl.engines.files import (
    Dialect,
    naming,
    open_files,
    repeated_name,
    shorten,
    unreadable,
)
from priormtl.engines.schema import FOLD, Schema, Wanted
from priormtl.exceptions import DataFileError, unknown_name

MOST_COLUMNS = 50_000  # Arrow and curves need milliseconds for each
SMALL_ROWS = 10_000  # tables with more have even folds by chance

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

    dataset: ds.Dataset
    name: str
    where: ds.Expression | None = None
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
        names = self.columns
        with naming(self.name):
            for name in schema.drop:
                if name not in names:
                    raise unknown_name("column", name, names)
            wanted = schema.wanted(names)
            if len(wanted.columns) > MOST_COLUMNS:
                raise ValueError(
                    f"at most {MOST_COLUMNS:,} columns can be read at a time: got "
                    f"{len(wanted.columns):,}; choose some of them as features."
                )
            return wanted

    def pieces(self, schema: Schema, batch_rows: int | None = None) -> Iterator[Piece]:
        pieces = self.read(self.wanted(schema), batch_rows)
        if self.even and schema.folds is not None and schema.key is None:
            pieces = deal_small(schema, schema.folds, pieces)
        yield from pieces

    def read(self, wanted: Wanted, batch_rows: int | None = None) -> Iterator[Piece]:
        """Columns of one file after another, in pieces; the last of a file is empty."""
        rows = batch_rows or choose_rows(len(wanted.columns))
        for fragment in self._fragments():
            file = self._file_of(fragment)
            try:
                schema = self._schema_of(fragment, file, wanted)
                left = size = _file_size(fragment)
                for part in cut_rows(fragment, rows):
                    scanner = part.scanner(
                        schema=schema,
                        columns=list(wanted.columns),
                        filter=self.where,
                        batch_size=rows,
                        batch_readahead=2,
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

    def load(
        self,
        wanted: Wanted,
        advance: Callable[[int], None] | None = None,
        most_cells: float = math.inf,
    ) -> pa.Table | None:
        """All rows as one table; None if it has too many cells."""
        tables, cells = [], 0
        for piece in self.read(wanted):
            tables.append(piece.table)
            cells += piece.num_rows * len(wanted.columns)
            if cells > most_cells:
                return None
            if advance is not None:
                advance(piece.size)
        try:
            return pa.concat_tables(tables, promote_options="permissive")
        except pa.ArrowException as error:
            raise DataFileError(
                f"{self.name} must hold columns of one type: {str(error).rstrip('.')}."
            ) from None

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
                        file = self._file_of(fragment)
                        inside = "" if file == self.name else f" of {file}"
                        place = f" in row {row}{inside}"
                        return StrayTextError(column, text, place)
                begin += batch.num_rows
        return error

    def _fragments(self) -> list[ds.Fragment]:
        return list(self.dataset.get_fragments(filter=self.where))

    def _file_of(self, fragment: ds.Fragment) -> str:
        return fragment.path if isinstance(fragment, ds.FileFragment) else self.name

    def _schema_of(self, fragment: ds.Fragment, file: str, wanted: Wanted) -> pa.Schema:
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
        fields = list(own)
        files = isinstance(fragment, ds.FileFragment)
        if files and isinstance(fragment.format, ds.CsvFileFormat):
            # Types are inferred from the first rows of a CSV file; fractions may
            # follow.
            for i, field in enumerate(fields):
                narrow = pa.types.is_integer(field.type) or pa.types.is_null(field.type)
                if field.name in wanted.texts:
                    fields[i] = pa.field(field.name, pa.string())
                elif narrow and field.name not in wanted.exact:
                    fields[i] = pa.field(field.name, pa.float64())
        # The metadata that pandas writes holds the order of categories.
        return pa.schema([*fields, *outside], metadata=own.metadata)


def open_source(
    source: object,
    where: object = None,
    *,
    delimiter: str | None = None,
    decimal: str | None = None,
) -> Source:
    """Open files for reading; only the first one is looked into.

    Parameters
    ----------
    source : path, address, list of these, pyarrow.dataset.Dataset or pyarrow.Table
        A CSV, Parquet, Arrow or JSON lines file, or a folder of such files of one kind,
        searched recursively; folders named like ``year=2010`` add a column.
        ``pyarrow.fs`` opens addresses such as ``s3://bucket/folder``, ``gs://…`` and
        ``hdfs://…``. Read whole: spreadsheets (``book.xlsx#sheet``), Stata, SAS and
        SPSS files (by pandas), zip archives (``all.zip#name.csv``), SQLite
        (``data.db#table``), and ``-``, the standard input.
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


def cut_rows(fragment: ds.Fragment, rows: int) -> Iterator[ds.Fragment]:
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


def _count_bytes(table: pa.Table, fragment: ds.Fragment, size: int) -> int:
    if isinstance(fragment, ds.ParquetFileFragment):
        return size * table.num_rows // max(1, fragment.metadata.num_rows)
    # Arrow before version 22 does not know the size of views: at least 16 bytes each.
    views = {pa.string_view(), pa.binary_view()}
    return sum(
        16 * len(column) if column.type in views else int(column.nbytes)
        for column in table.columns
    )


def _file_size(fragment: ds.Fragment) -> int:
    if not isinstance(fragment, ds.FileFragment):
        return 0
    return int(fragment.filesystem.get_file_info(fragment.path).size or 0)


def deal_small(schema: Schema, folds: int, pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Yield the same pieces, with a column of even folds if the table is small."""
    held: list[Piece] = []
    rows = 0
    for piece in pieces:
        held.append(piece)
        rows += piece.num_rows
        if rows > SMALL_ROWS or rows * piece.table.num_columns > 2**22:
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


# Filters.

COMPARISONS: dict[type[ast.cmpop], Callable[..., ds.Expression]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def read_filter(text: str, names: Sequence[str]) -> ds.Expression:
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

    def build(node: ast.expr) -> ds.Expression:
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

    def operand(node: ast.expr) -> ds.Expression:
        name = node.id if isinstance(node, ast.Name) else None
        if isinstance(node, ast.List) and len(node.elts) == 1:
            name = str(ast.literal_eval(node.elts[0]))
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
