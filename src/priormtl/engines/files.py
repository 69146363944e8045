"""Files of a table: which there are, of what kind, and how CSV files are written.

``open_files`` lists the files, on disk or in any file system of Arrow, checks that they
are of one kind, finds out how CSV files are written, and opens them as one Arrow data
set. What Arrow says about files that it cannot read becomes one sentence that names the
file and, where possible, column and value.
"""

import csv as text_csv
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import csv, fs

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
}
COMPRESSED = (".gz", ".bz2")


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
    files = find_files(source)
    kinds = {_kind(files.system, path): path for path in reversed(files.paths)}
    if len(kinds) > 1:
        names = " and ".join(f"{file} ({kind})" for kind, file in kinds.items())
        raise DataFileError(f"files of one table must be of one kind: got {names}.")
    kind = next(iter(kinds))
    form = ds.ParquetFileFormat() if kind == "Parquet" else ds.IpcFileFormat()
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
        return {b"PAR1": "Parquet", b"ARRO": "Arrow"}.get(content.read(4), "CSV")


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
    checked = 65_536  # bytes
    try:
        with system.open_input_stream(path, compression="detect") as content:
            start = content.read(checked)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from None
    if start.startswith(b"PK\x03\x04"):
        raise DataFileError(
            f"{path} must be a CSV, Parquet or Arrow file: it is a zip archive, such "
            "as a spreadsheet; save it as CSV."
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
    if len(start) == checked and len(lines) > 1:
        lines.pop()  # the last one may be cut
    return sniff_dialect(lines[:200], given)


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
        return DataFileError(
            f"{file}: column {names[int(conversion[1])]!r} must hold values of one "
            f"type, {conversion[3]} as in its first rows: got "
            f"{conversion[4][:60]}{row}; correct the values or, if they are "
            "categories, store the table as Parquet with this column as text."
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
