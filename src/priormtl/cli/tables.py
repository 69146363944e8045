"""Tables from files: CSV, Parquet, or a folder of Parquet files; text becomes numbers.

What cannot be used is refused by a sentence that names the file or the column.
"""

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from priormtl.exceptions import DataFileError, unknown_name

__all__ = ["Rows", "encode_text", "read_table", "split_table"]

MOST_CODES = 100  # different texts of a column, beyond which they are hardly categories
LONGEST_REASON = 200


class Rows(NamedTuple):
    """Features, targets and tasks of a table."""

    X: pa.Table
    y: pa.ChunkedArray
    task: pa.ChunkedArray
    encoded: tuple[str, ...]  # text columns that became one column per value


def read_table(path: Path) -> pa.Table:
    """Read a CSV file, a Parquet file, or all Parquet files of a folder."""
    table = _read_folder(path) if path.is_dir() else _read_file(path)
    _refuse_names(path, table.column_names)
    if not table.num_rows:
        raise DataFileError(f"{path} has no rows.")
    return table


def split_table(table: pa.Table, *, task: str, target: str) -> Rows:
    """Take the task's and the target's column out; all others are features."""
    if task == target:
        raise ValueError(f"task and target must be two columns: both are {task!r}.")
    for name in (task, target):
        if name not in table.column_names:
            raise unknown_name("column", name, table.column_names)
    for name in table.column_names:
        _refuse_missing(name, table[name])
    features = table.drop_columns([task, target])
    if not features.num_columns:
        raise ValueError("a table needs features beside its task and target: got none.")
    X, encoded = encode_text(features)
    return Rows(X, table[target], table[task], encoded)


def encode_text(table: pa.Table) -> tuple[pa.Table, tuple[str, ...]]:
    """Numbers as they are, and one column of 0 and 1 per value of a text column."""
    columns: list[tuple[str, Any]] = []
    encoded = []
    for name in table.column_names:
        column = table[name]
        if _is_text(column.type):
            columns += _codes(name, column)
            encoded.append(name)
        else:
            columns.append((name, _numbers(name, column)))
    names = [name for name, _ in columns]
    _refuse_repeated("encoded columns", names)
    return pa.table([column for _, column in columns], names=names), tuple(encoded)


def _read_folder(path: Path) -> pa.Table:
    files = sorted(path.glob("*.parquet"))
    if not files:
        raise DataFileError(f"{path} has no files that end in .parquet.")
    parts = [_read_file(file) for file in files]
    for file, part in zip(files, parts, strict=True):
        if not part.schema.equals(parts[0].schema):
            raise DataFileError(
                f"{file} must have the columns and types of {files[0].name}: files of "
                "a folder are one table."
            )
    return pa.concat_tables(parts)


def _read_file(path: Path) -> pa.Table:
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not a file or folder.")
    with path.open("rb") as file:
        begin = file.read(4)
    if not begin:
        raise DataFileError(f"{path} is empty.")
    kind, read = ("Parquet", _read_parquet)
    if begin != b"PAR1" and path.suffix != ".parquet":
        kind, read = ("CSV", _read_csv)
    try:
        return read(path)
    except (pa.ArrowException, OSError, UnicodeError) as error:
        reason = str(error).splitlines()[0][:LONGEST_REASON].rstrip(".")
        raise DataFileError(f"{path} cannot be read as {kind}: {reason}.") from None


def _read_parquet(path: Path) -> pa.Table:
    # The file alone: names of folders are no columns.
    return parquet.ParquetFile(path).read()


def _read_csv(path: Path) -> pa.Table:
    return csv.read_csv(
        path,
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )


def _refuse_names(path: Path, names: list[str]) -> None:
    if "" in names:
        raise DataFileError(
            f"{path} has a column without a name at position {names.index('') + 1}: "
            "name it or drop it (pandas: to_csv(index=False))."
        )
    _refuse_repeated(str(path), names)


def _refuse_repeated(where: str, names: list[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise DataFileError(
                f"{where}: {count} columns have the name {name!r}; rename them."
            )


def _refuse_missing(name: str, column: pa.ChunkedArray) -> None:
    missing = column.null_count
    if pa.types.is_floating(column.type):
        missing = pc.sum(pc.is_null(column, nan_is_null=True)).as_py()
    if missing:
        raise ValueError(
            f"column {name!r} lacks {missing} of {len(column)} values: fill them, or "
            "drop the rows or the column."
        )


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return any(
        test(kind)
        for test in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_string_view,
        )
    )


def _numbers(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
    ):
        raise ValueError(
            f"column {name!r} must hold numbers or text to be a feature: got {kind}; "
            "drop it or encode it as numbers."
        )
    return column.cast(pa.float64(), safe=False)


def _codes(name: str, column: pa.ChunkedArray) -> list[tuple[str, pa.ChunkedArray]]:
    """Columns name=value, in the order of the values."""
    text = column.cast(pa.string())
    values = sorted(pc.unique(text).to_pylist())
    if len(values) > MOST_CODES:
        raise ValueError(
            f"column {name!r} holds {len(values)} different texts, such as "
            f"{values[0][:40]!r}; at most {MOST_CODES} are encoded: drop it, or write "
            "numbers with decimal points."
        )
    return [
        (f"{name}={value}", pc.equal(text, value).cast(pa.float64()))
        for value in values
    ]
