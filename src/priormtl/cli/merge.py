"""priormtl merge: statistics of several sites as one."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, echo

from priormtl.cli.errors import one_sentence, refuse_folder

if TYPE_CHECKING:
    from priormtl import TaskStatistics

__all__ = ["merge"]

DIGEST_BYTES = 32  # at the end of each file
MOST_NAMES = 8


def merge(
    files: Annotated[list[Path], Argument(help="Files of 'priormtl stats'.")],
    out: Annotated[Path, Option(dir_okay=False, help="File of statistics to write.")],
    as_json: Annotated[bool, Option("--json", help="Print JSON.")] = False,
) -> None:
    """Add statistics of different rows: the result is that of all rows together.

    Tasks are matched by name; features must be the same everywhere.

    Example: priormtl merge north.stats south.stats --out all.stats
    """
    with one_sentence():
        refuse_folder(out)
        whole = _add_up(files)
        whole.save(out)
    d, m = whole.shape
    if as_json:
        told = {"file": str(out), "files": len(files), "tasks": m, "features": d}
        echo(json.dumps(told | {"weight": float(whole.weight.sum())}))
        return
    echo(f"{len(files)} files, {m} tasks, {d} features, weight {whole.weight.sum():g}.")
    echo(f"wrote {out}")


def _add_up(files: Sequence[Path]) -> "TaskStatistics":
    """Sum of all files, of which two are held at a time."""
    from priormtl import TaskStatistics  # noqa: PLC0415

    seen: dict[bytes, Path] = {}
    whole = None
    for file in files:
        part = TaskStatistics.load(file)
        _refuse_twice(file, seen)
        if whole is None:
            whole = part
            continue
        _refuse_other_features(file, part, files[0], whole)
        try:
            whole = whole + part
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from None
    assert whole is not None
    return whole


def _refuse_twice(file: Path, seen: dict[bytes, Path]) -> None:
    """Fail where the same rows would count twice."""
    digest = file.read_bytes()[-DIGEST_BYTES:]
    if digest in seen:
        raise ValueError(
            f"{file} holds the same statistics as {seen[digest]}: give each file once."
        )
    seen[digest] = file


def _refuse_other_features(
    file: Path, part: "TaskStatistics", first: Path, whole: "TaskStatistics"
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
