"""Files of statistics, of different rows each, over the same features."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from priormtl.data import TaskStatistics

__all__ = ["add_sites", "read_sites"]

DIGEST_BYTES = 32  # at the end of each file
MOST_NAMES = 8


def add_sites(files: Sequence[Path]) -> TaskStatistics:
    """Sum of all files, of which two are held at a time."""
    parts = read_sites(files)
    whole = next(parts)
    for file, part in zip(files[1:], parts, strict=True):
        try:
            whole = whole + part
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from None
    return whole


def read_sites(files: Sequence[Path]) -> Iterator[TaskStatistics]:
    """Statistics of each file; rows that come twice, or other features, are refused."""
    seen: dict[bytes, Path] = {}
    first: TaskStatistics | None = None
    for file in files:
        part = TaskStatistics.load(file)
        _refuse_twice(file, seen)
        first = first or part
        _refuse_other_features(file, part, files[0], first)
        yield part


def _refuse_twice(file: Path, seen: dict[bytes, Path]) -> None:
    """Fail where the same rows would count twice."""
    digest = file.read_bytes()[-DIGEST_BYTES:]
    if digest in seen:
        raise ValueError(
            f"{file} holds the same statistics as {seen[digest]}: give each file once."
        )
    seen[digest] = file


def _refuse_other_features(
    file: Path, part: TaskStatistics, first: Path, whole: TaskStatistics
) -> None:
    ours, theirs = part.features or (), whole.features or ()
    if ours == theirs and part.shape[0] == whole.shape[0]:
        return
    if set(ours) == set(theirs):
        what = f"{part.shape[0]} in another order or number"
    else:
        lacking = [name for name in theirs if name not in ours]
        besides = [name for name in ours if name not in theirs]
        sides = {"it lacks": lacking, "it has besides": besides}
        words = [f"{verb} {few[:MOST_NAMES]}" for verb, few in sides.items() if few]
        what = ", ".join(words)
    raise ValueError(
        f"{file} must have the features of {first}: {what}; make the files with the "
        "same --features and --categories."
    )
