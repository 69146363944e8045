"""Files of a table: which there are, of what kind, and how CSV files are written.

``open_files`` lists the files, on disk or in any file system of Arrow, checks that they
are of one kind, finds out how CSV files are written, and opens them as one Arrow data
set. Spreadsheets, files of statistics packages, zip archives, SQLite and the standard
input are read whole, by pandas where Arrow has no reader (``read_whole``). What goes
wrong becomes one sentence that names the file and, where possible, column and value.
"""

import csv as text_csv
import json as text_json
import os
import re
import sqlite3
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import csv, feather, fs, json, parquet

from priormtl.design.columns import StrayTextError
from priormtl.exceptions import DataFileError, FoldsError, suggest_file

SUFFIXES = {
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".arrow": "Arrow",
    ".feather": "Arrow",
    ".ipc": "Arrow",
    ".csv": "CSV",
    ".tsv": "CSV",
    ".tab": "CSV",
    ".jsonl": "JSON lines",
    ".ndjson": "JSON lines",
}
COMPRESSED = (".gz", ".bz2")
CHECKED = 65_536  # bytes that are looked into


class Files(NamedTuple):
    """Files of one table, and where they are."""

    system: fs.FileSystem
    paths: list[str]
    base: str | None  # folder that was given instead of files
    name: str  # in errors


class Dialect(NamedTuple):
    """How a CSV file is written; None: found out from its first lines."""

    delimiter: str | None = None  # between columns
    decimal: str | None = None  # point of numbers


def open_files(source: object, dialect: Dialect = Dialect()) -> tuple[ds.Dataset, str]:  # noqa: B008
    """Arrow data set of a path, a folder or a list of paths, and its name in errors."""
    table = read_whole(source, dialect)
    if table is not None:
        return ds.dataset(table), "standard input" if str(source) == "-" else str(
            source
        )
    files = find_files(source)
    kinds = {_kind(files.system, path): path for path in reversed(files.paths)}
    if len(kinds) > 1:
        names = " and ".join(f"{file} ({kind})" for kind, file in kinds.items())
        raise DataFileError(f"files of one table must be of one kind: got {names}.")
    kind = next(iter(kinds))
    forms = {"Parquet": ds.ParquetFileFormat, "JSON lines": ds.JsonFileFormat}
    form = forms.get(kind, ds.IpcFileFormat)()
    if kind == "CSV":
        form = _csv(read_dialect(files.system, files.paths[0], dialect))
    base = files.base
    try:
        found = ds.dataset(
            files.paths,
            format=form,
            filesystem=files.system,
            partitioning=None if base is None else ds.partitioning(flavor="hive"),
            partition_base_dir=base,
        )
        _ = found.schema.names  # decoded here
        return found, files.name
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise unreadable(files.paths[0], error) from None


def find_files(source: object) -> Files:
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


def resolve_address(address: str) -> tuple[fs.FileSystem, str]:
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


def _kind(system: fs.FileSystem, path: str) -> str:
    try:
        info = system.get_file_info(path)
    except pa.ArrowInvalid:  # no path at all
        info = fs.FileInfo(path, fs.FileType.NotFound)
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
        return {b"PAR1": "Parquet", b"ARRO": "Arrow"}.get(content.read(4), "CSV")


# Tables that are read whole.


def read_whole(source: object, dialect: Dialect = Dialect()) -> pa.Table | None:  # noqa: B008
    """Table of a source that cannot be read in pieces; None for all others."""
    if not isinstance(source, str | os.PathLike):
        return None
    name = os.fspath(source)
    if name == "-":
        return _read_content("standard input", sys.stdin.buffer.read(), dialect)
    is_sqlite = name.startswith(SQLITE)
    name = name.removeprefix(SQLITE)
    if re.match(r"\w+(\+\w+)?://", name):
        _refuse_address(name)
        return None
    path, _, inner = name.partition("#")
    suffix = ".sqlite" if is_sqlite else Path(path).suffix.lower()
    if suffix in UNREAD:
        raise DataFileError(
            f"{path} cannot be read, nor any file that ends in {suffix}: save the "
            "table as CSV or Parquet."
        )
    if is_sqlite and not Path(path).is_file():
        raise FileNotFoundError(f"{path} is not a file.{suggest_file(Path(path))}")
    if suffix not in WHOLE or not Path(path).is_file():
        return None
    if not Path(path).stat().st_size:
        raise DataFileError(f"{path} is empty.")
    try:
        return WHOLE[suffix](path, inner, dialect)
    except ImportError as error:
        raise DataFileError(
            f"{path} needs a package to be read: {shorten(str(error))}."
        ) from None
    except (ValueError, KeyError, OSError, zipfile.BadZipFile, sqlite3.Error) as error:
        if isinstance(error, DataFileError):
            raise
        raise unreadable(path, error) from None


def _read_content(name: str, content: bytes, dialect: Dialect) -> pa.Table:
    """Table of the bytes of a Parquet, Arrow, JSON lines or CSV file."""
    if not content:
        raise DataFileError(f"{name} is empty.")
    stream = pa.BufferReader(content)
    try:
        if content.startswith(b"PAR1"):
            return parquet.read_table(stream)
        if content.startswith(b"ARROW1"):
            return feather.read_table(stream)
        if content.lstrip().startswith(b"{"):
            return json.read_json(stream)
        lines = _text_lines(name, content[:CHECKED], whole=len(content) <= CHECKED)
        form = _csv(sniff_dialect(lines, dialect))
        options = {
            "convert_options": form.default_fragment_scan_options.convert_options
        }
        return csv.read_csv(stream, parse_options=form.parse_options, **options)
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise unreadable(name, error) from None


def _read_by_pandas(path: str, inner: str, dialect: Dialect) -> pa.Table:
    """Table of a statistics package, or a sheet: the one named, or the first."""
    try:
        import pandas as pd  # noqa: PLC0415
    except ImportError:
        raise ImportError("pip install pandas") from None
    readers = {".dta": pd.read_stata, ".sas7bdat": pd.read_sas, ".sav": pd.read_spss}
    read = readers.get(Path(path).suffix.lower())
    frame = read(path) if read else pd.read_excel(path, sheet_name=inner or 0)
    frame.columns = frame.columns.astype(str)
    with _one_type(path):
        return pa.Table.from_pandas(frame, preserve_index=False)


@contextmanager
def _one_type(name: str) -> Iterator[None]:
    try:
        yield
    except pa.ArrowException as error:
        reason = shorten(" ".join(map(str, error.args)))
        raise DataFileError(
            f"{name} must hold values of one type in each column: {reason}."
        ) from None


def _read_json(path: str, inner: str, dialect: Dialect) -> pa.Table:
    content = Path(path).read_bytes()
    if content.lstrip().startswith(b"{"):
        return _read_content(path, content, dialect)
    rows = text_json.loads(content)
    if not all(isinstance(row, dict) for row in rows):
        raise DataFileError(f"{path} must hold a list of objects, one for each row.")
    with _one_type(path):
        return pa.Table.from_pylist(rows)


def _read_zip(path: str, inner: str, dialect: Dialect) -> pa.Table:
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if _suffix(name) in SUFFIXES]
        if not names:
            raise DataFileError(
                f"{path} must hold a CSV, Parquet, Arrow or JSON lines file: it has "
                f"{', '.join(archive.namelist()[:8]) or 'none'}."
            )
        chosen = _choose_inner(path, inner, names, "file")
        return _read_content(f"{path}#{chosen}", archive.read(chosen), dialect)


def _read_sqlite(path: str, inner: str, dialect: Dialect) -> pa.Table:
    with closing(
        sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)
    ) as base:
        found = base.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
        )
        names = [name for (name,) in found if not name.startswith("sqlite_")]
        chosen = _choose_inner(path, inner, names, "table").replace('"', '""')
        rows = base.execute(f'SELECT * FROM "{chosen}"')
        heads = [head[0] for head in rows.description]
        columns = list(zip(*rows, strict=True)) or [()] * len(heads)
    with _one_type(f"{path}#{chosen}"):
        return pa.table([pa.array(c) for c in columns], names=heads)


def _choose_inner(path: str, inner: str, names: Sequence[str], kind: str) -> str:
    """What is named behind the path, or the only one there is."""
    if inner in names:
        return inner
    if not inner and len(names) == 1:
        return names[0]
    listed = ", ".join(names[:8]) or "none"
    raise DataFileError(
        f"{path} must be followed by the {kind} to read, such as "
        f"{Path(path).name}#{names[0] if names else 'name'}: it has {listed}."
    )


def _refuse_address(address: str) -> None:
    """Fail for addresses that no file system of Arrow opens."""
    if SQL.match(address):
        raise DataFileError(
            f"{SQL.sub('…', address)} is the address of a database: "
            "read it in Python (pandas.read_sql) or store the table as Parquet."
        )
    if re.match("(https?|ftp)://", address):
        raise DataFileError(f"{address} must be downloaded first: name the file.")


SQLITE = "sqlite:///"
SQL = re.compile(
    r"(sqlite|postgres(ql)?|mysql|mariadb|mssql|oracle|duckdb|snowflake)(\+\w+)?://.*"
)
BY_PANDAS = (".xlsx", ".xls", ".xlsm", ".ods", ".dta", ".sas7bdat", ".sav")
UNREAD = (
    *(".pkl", ".pickle", ".rds", ".rda", ".rdata", ".h5", ".hdf5", ".mat", ".npy"),
    *(".npz", ".xml", ".html", ".htm", ".pdf", ".doc", ".docx", ".avro", ".orc"),
)
WHOLE: Mapping[str, Callable[[str, str, Dialect], pa.Table]] = {
    ".zip": _read_zip,
    ".json": _read_json,
    **dict.fromkeys((".db", ".sqlite", ".sqlite3"), _read_sqlite),
    **dict.fromkeys(BY_PANDAS, _read_by_pandas),
}


# CSV files: delimiter, decimal point, and what is no CSV file.


def _csv(dialect: Dialect) -> ds.CsvFileFormat:
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


def read_dialect(system: fs.FileSystem, path: str, given: Dialect) -> Dialect:
    """Find out how a CSV file is written; fail if it is something else."""
    try:
        with system.open_input_stream(path, compression="detect") as content:
            start = content.read(CHECKED)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from None
    return sniff_dialect(_text_lines(path, start, whole=len(start) < CHECKED), given)


def _text_lines(path: str, start: bytes, *, whole: bool) -> list[str]:
    """First lines of what should be a CSV file; the last of a part may be cut."""
    if start.startswith(b"PK\x03\x04"):
        raise DataFileError(
            f"{path} must be a CSV, Parquet or Arrow file: it is a zip archive or a "
            "spreadsheet, whose name must end in .zip or .xlsx to be read; rename "
            "it, or save it as CSV."
        )
    if start.startswith(b"\x1f\x8b"):
        raise DataFileError(
            f"{path} is compressed with gzip: its name must end in .gz to be read."
        )
    if start.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in start:
        raise DataFileError(
            f"{path} must be a CSV file in UTF-8: it has zero bytes or the byte order "
            "mark of UTF-16; save it as UTF-8."
        )
    lines = start.decode("utf-8", errors="replace").splitlines()
    if not whole and len(lines) > 1:
        lines.pop()
    return lines[:200]


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

    delimiter = given.delimiter or max((",", ";", "\t", "|"), key=worth)
    decimal = given.decimal
    if decimal is None:
        cells = [cell.strip() for row in cut(delimiter)[1:] for cell in row]
        number = r"[-+]?\d*{}\d+([eE][-+]?\d+)?"
        commas = any(re.fullmatch(number.format(","), cell) for cell in cells)
        points = any(re.fullmatch(number.format(r"\."), cell) for cell in cells)
        decimal = "," if delimiter != "," and commas and not points else "."
    return Dialect(delimiter, decimal)


# Errors.


class MixedColumnError(DataFileError):
    """A text after the first rows of a column of a CSV file, which are numbers."""

    def __init__(self, message: str, column: str) -> None:
        self.column = column
        super().__init__(message)


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
    # Arrow infers types from the first block of a CSV file and keeps to them.
    conversion = re.search(
        r"In CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to (\S+): "
        r"invalid value (.*)",
        str(error),
        re.DOTALL,
    )
    if conversion is not None and int(conversion[1]) < len(names):
        row = "" if conversion[2] is None else f" in row {conversion[2]}"
        column = names[int(conversion[1])]
        return MixedColumnError(
            f"{file}: column {column!r} must hold values of one type, {conversion[3]} "
            f"as in its first rows: got {conversion[4][:60]}{row}; correct the values "
            "or, if they are categories, store the table as Parquet with this column "
            "as text.",
            column,
        )
    several = "CSV file contained multiple columns named "
    if several in str(error):
        return repeated_name(file, str(error).partition(several)[2])
    if isinstance(error, UnicodeError):
        return DataFileError(
            f"{file} must be text in UTF-8: its column names are not; save it as UTF-8."
        )
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
    return reason[:300].rstrip(". ")
