"""priormtl stats: what a table says about its tasks, without its rows."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Exit, Option, echo

from priormtl.cli.errors import one_sentence, refuse_folder

__all__ = ["stats"]

NEEDED = "pip install 'priormtl[cli]'"


class Missing(StrEnum):
    """What missing values mean."""

    error = "error"
    drop = "drop"
    mean = "mean"


def stats(
    data: Annotated[Path, Argument(help="CSV, Parquet or Arrow file, or a folder.")],
    task: Annotated[str, Option(metavar="COL", help="Column of the tasks.")],
    target: Annotated[str, Option(metavar="COL", help="Column of the targets.")],
    out: Annotated[Path, Option(dir_okay=False, help="File of statistics to write.")],
    weight: Annotated[
        str | None, Option(metavar="COL", help="Column of the weights.")
    ] = None,
    features: Annotated[
        str | None, Option(metavar="A,B,C", help="Features; else all other columns.")
    ] = None,
    categories: Annotated[
        list[str] | None,
        Option(metavar="COL=A,B", help="Values of a column; else those that it has."),
    ] = None,
    where: Annotated[
        str | None, Option(metavar="TEXT", help="Rows to read, as 'year >= 2010'.")
    ] = None,
    missing: Annotated[
        Missing, Option(help="Missing values: an error, a dropped row, or the mean.")
    ] = Missing.error,
    min_rows: Annotated[
        int, Option(min=1, help="Leave out tasks with fewer rows than this.")
    ] = 1,
    as_json: Annotated[bool, Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write means and products of columns, task by task: all that a fit needs.

    Tables may be larger than memory. Statistics of several sites add up by 'priormtl
    merge'; for that, texts need the same --categories everywhere. They are sums, not
    secrets: those of a task with few rows may reveal the rows, so use --min-rows
    where rows must not be shared.

    Example: priormtl stats exams.parquet --task school --target score --out a.stats

    Example: priormtl stats exams/ --task school --target score --out a.stats
    --categories sex=f,m --missing mean --where "year >= 2010" --min-rows 20
    """
    engines, show_progress = _import_tools()
    with one_sentence():
        refuse_folder(out)
        declared = _read_categories(categories or [])
        source = engines.open_source(data, where)
        with show_progress(None, None, "reading", source.size, "bytes") as advance:
            found = engines.summarize(
                source,
                task=task,
                target=target,
                weight=weight,
                features=_split(features),
                categories=declared,
                missing=missing.value,
                advance=advance,
            )
        kept = found.without_small(min_rows)
        kept.whole.save(out)
    _say(out, kept, len(found.counts) - len(kept.counts), min_rows, as_json)


def _import_tools() -> tuple[Any, Any]:
    try:
        from priormtl import engines  # noqa: PLC0415
        from priormtl.estimators import show_progress  # noqa: PLC0415
    except ImportError as error:
        echo(f"Error: stats needs {error.name}: {NEEDED}", err=True)
        raise Exit(2) from None
    return engines, show_progress


def _split(names: str | None) -> list[str] | None:
    if names is None:
        return None
    return [name.strip() for name in names.split(",") if name.strip()]


def _read_categories(texts: list[str]) -> dict[str, list[str]]:
    """Columns and their values, from texts such as sex=f,m."""
    found = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not values:
            raise ValueError(f"--categories must look like COL=A,B: got {text!r}.")
        found[name] = _split(values) or []
    return found


def _say(out: Path, kept: Any, left_out: int, min_rows: int, as_json: bool) -> None:
    d, m = kept.whole.shape
    if as_json:
        told = {"file": str(out), "rows": kept.rows, "dropped": kept.dropped}
        told |= {"tasks": m, "features": d, "left_out": left_out}
        echo(json.dumps(told))
        return
    words = f"{kept.rows} rows read, {m} tasks, {d} features"
    if kept.dropped:
        words += f"; {kept.dropped} rows dropped for missing values"
    if left_out:
        words += f"; {left_out} tasks with fewer than {min_rows} rows left out"
    echo(f"{words}.")
    echo(f"wrote {out}")
