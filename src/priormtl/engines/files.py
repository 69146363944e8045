"""Files of one table: which they are, of which kind, and opened as one data set."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import csv

from priormtl.engines.csv_beginnings import refuse_other_kinds
from priormtl.exceptions import DataFileError, suggest_file

__all__ = ["LONGEST_REASON", "open_files", "same_names", "unreadable"]

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
REPEATED = re.compile(
    r"CSV file contained multiple columns named (?P<name>.*)", re.DOTALL
)


def open_files(source: Any) -> tuple[Any, str]:
    """Data set of a path, a folder or a list of paths, and what to call it."""
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
    if kind == "CSV":
        refuse_other_kinds(files[0])
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
        raise FileNotFoundError(f"{file} is not a file or folder.{suggest_file(file)}")
    if not file.stat().st_size:
        raise DataFileError(f"{file} is empty.")
    known = SUFFIXES.get(_suffix(file))
    if known is not None:
        return known
    with file.open("rb") as content:
        return MAGIC.get(content.read(4), "CSV")


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


def unreadable(file: str, error: Exception) -> DataFileError:
    """Build the error for a file that Arrow cannot read."""
    repeated = REPEATED.search(str(error))
    if repeated is not None:
        return same_names(file, repeated["name"])
    lines = str(error).splitlines() or [type(error).__name__]
    # Arrow names the file up to twice before it comes to the point.
    reason = lines[0].split(f"'{file}': ")[-1]
    return DataFileError(
        f"{file} cannot be read: {reason[:LONGEST_REASON].rstrip('.')}."
    )


def same_names(file: str, name: str) -> DataFileError:
    """Build the error for columns that cannot be told apart."""
    return DataFileError(
        f"{file}: several columns have the name {name!r}; rename all but one."
    )
