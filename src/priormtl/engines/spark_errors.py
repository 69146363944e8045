"""What Spark says on many lines of two languages, in one sentence."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from priormtl.exceptions import DataFileError, ModelFileError

__all__ = ["LARGEST", "refuse_large", "say_first_line", "say_plainly"]

LARGEST = 2**31 - 2**16  # bytes of a value of Spark, with room for its surroundings
LONGEST_REASON = 300
# As Spark 4 says it, then as 3.5 does: file and reason.
FILES = (
    re.compile(r"rror while reading file (\S+?)\.?\s+(.*?)\s*(?:SQLSTATE|\n)"),
    re.compile(r"(\S+) (is not a Parquet file)\b"),
    re.compile(r"File (\S+) (does not exist)\b"),
    re.compile(r"cannot be converted in file (\S+?)\.\s+(Column: .+)"),
)
CAUSE = re.compile(r"Caused by: [\w.$]+: (.+)")
MISSING_PACKAGE = "No module named 'priormtl'"
FULL_DRIVER = "spark.driver.maxResultSize"


@contextmanager
def say_plainly() -> Iterator[None]:
    """Say what went wrong far away without the traces of two languages."""
    try:
        yield
    except Exception as error:
        plain = _find_plain(str(error))
        if plain is None:
            raise
        raise plain from None


def refuse_large(size: int, shape: tuple[int, int]) -> None:
    """Fail where statistics over (d, m) are too large for one value of Spark."""
    if size > LARGEST:
        d, m = shape
        raise DataFileError(
            f"statistics of {m} tasks over {d} features must have less than "
            f"{LARGEST / 1e9:.2f} GB to travel in Spark: got {size / 1e9:.2f} GB; use "
            "fewer features, or some tasks at a time (where) and add the results."
        )


def say_first_line(error: Exception) -> str:
    """First line of what an error of Spark or Arrow says."""
    lines = [line.strip() for line in str(error).splitlines()] or [""]
    return _shorten(lines[0] or type(error).__name__)


def _find_plain(told: str) -> Exception | None:
    """Our own error on an executor, or one of Spark's that users can do away with."""
    for kind in (DataFileError, ModelFileError):
        found = re.search(rf"{kind.__name__}: (.+)", told)
        if found:
            return kind(found[1].strip())
    if MISSING_PACKAGE in told:
        return ImportError(
            "executors of Spark must find priormtl: install it where they run, or "
            "send a packed environment along (--archives).",
            name="priormtl",
        )
    if FULL_DRIVER in told:
        return ValueError(
            f"statistics must fit what Spark lets through to the driver: raise "
            f"{FULL_DRIVER} (0: no limit), or use some tasks at a time (where) and add "
            "the results."
        )
    files = (pattern.search(told) for pattern in FILES)
    file = next(filter(None, files), None)
    return None if file is None else _unreadable(file[1], file[2], told)


def _unreadable(file: str, reason: str, told: str) -> DataFileError:
    """Build the error for a file; where Spark gives no reason, the last cause is it."""
    causes = CAUSE.findall(told)
    reason = reason or (causes[-1] if causes else "Spark does not say why")
    return DataFileError(f"{file} cannot be read: {_shorten(reason)}.")


def _shorten(reason: str) -> str:
    return reason[:LONGEST_REASON].rstrip(". ")
