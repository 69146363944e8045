"""priormtl stats and merge: statistics of a table, task by task, and their sums.

Statistics (weights, means and centred products of columns) are all that a regression
needs, and they add up: sites that may not share rows can share these, and the sum gives
the fit of all rows together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, echo

from priormtl.cli import main

if TYPE_CHECKING:
    from priormtl.data import TaskStatistics


@dataclass(frozen=True, kw_only=True)
class StatsRequest(main.TableOptions):
    """Options of the command, as typed."""

    out: Annotated[Path, main.file_option("Statistics file to write.")]
    weight: main.Weight = None
    min_rows: Annotated[
        int, main.least_option(1, "Leave out tasks with fewer rows than this.")
    ] = 1


@main.takes(StatsRequest)
def stats(request: StatsRequest) -> None:
    """Write the sufficient statistics of each task, all that a regression needs.

    Tables may be larger than memory. 'priormtl merge' adds the statistics of several
    sites; text columns then need the same --categories everywhere. Statistics are not
    anonymous: those of a task with few rows may reveal the rows. Use --min-rows before
    you share statistics outside your organisation.

    Example: priormtl stats exams.parquet --task school --target score --out a.stats

    Example: priormtl stats exams/ --task school --target score --out a.stats
    --categories sex=f,m --missing mean --where "year >= 2010" --min-rows 20
    """
    from priormtl.estimators import read_source

    out, min_rows = request.out, request.min_rows
    main.check_output(out, request.data)
    found = read_source(*request.open_table(request.weight))
    kept = found.without_small(min_rows)
    kept.whole.save(out)
    d, m = kept.whole.shape
    left_out = len(found.counts) - len(kept.counts)
    if request.as_json:
        facts = {"file": str(out), "rows": kept.rows, "dropped": kept.dropped}
        main.print_json(facts | {"tasks": m, "features": d, "left_out": left_out})
        return
    words = f"{_counts(row=kept.rows)} read, {_counts(task=m, feature=d)}"
    if kept.dropped:
        words += f"; {_counts(row=kept.dropped)} dropped for missing values"
    if left_out:
        words += f"; {_counts(task=left_out)} with fewer than {min_rows} rows left out"
    echo(f"{words}.")
    echo(f"wrote {out}")


@dataclass(frozen=True, kw_only=True)
class MergeRequest:
    """Options of the command, as typed."""

    files: Annotated[list[Path], Argument(help="Statistics files of 'priormtl stats'.")]
    out: Annotated[Path, main.file_option("Statistics file to write.")]
    as_json: main.Json = False


@main.takes(MergeRequest)
def merge(request: MergeRequest) -> None:
    """Add statistics of different rows, as if all rows had been read together.

    Tasks are matched by name. Features must be the same in all files.

    Example: priormtl merge north.stats south.stats --out all.stats
    """
    files, out = request.files, request.out
    main.check_output(out)
    whole = add_sites(files)
    whole.save(out)
    d, m = whole.shape
    weight = float(whole.weight.sum())
    if request.as_json:
        facts = {"file": str(out), "files": len(files), "tasks": m, "features": d}
        main.print_json(facts | {"weight": weight})
        return
    echo(f"{_counts(file=len(files), task=m, feature=d)}, weight {weight:g}.")
    echo(f"wrote {out}")


def _counts(**numbers: int) -> str:
    from priormtl.rendering import count_words

    return ", ".join(count_words(n, noun) for noun, n in numbers.items())


def add_sites(files: Sequence[Path]) -> "TaskStatistics":
    """Sum of all files, of which two are held in memory at a time."""
    parts = read_sites(files)
    whole = next(parts)
    for file, part in zip(files[1:], parts, strict=True):
        try:
            whole = whole + part
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from None
    return whole


def read_sites(files: Sequence[Path]) -> "Iterator[TaskStatistics]":
    """Statistics of each file; duplicate files and other features are refused."""
    from priormtl.data import TaskStatistics

    seen: dict[bytes, Path] = {}
    first: TaskStatistics | None = None
    digest_bytes = 32  # at the end of each file
    for file in files:
        part = TaskStatistics.load(file)
        digest = file.read_bytes()[-digest_bytes:]
        if digest in seen:
            raise ValueError(
                f"{file} holds the same statistics as {seen[digest]}. Give each file "
                "once."
            )
        seen[digest] = file
        first = first or part
        ours, theirs = part.features or (), first.features or ()
        if ours != theirs or part.shape[0] != first.shape[0]:
            lacking = [name for name in theirs if name not in ours][:8]
            besides = [name for name in ours if name not in theirs][:8]
            sides = {"lacks": lacking, "also has": besides}
            words = [f"{verb} {names}" for verb, names in sides.items() if names]
            what = ", ".join(words) or "has a different order or number of features"
            raise ValueError(
                f"{file} must have the features of {files[0]}: it {what}. Use the same "
                "--features and --categories for all files."
            )
        yield part
