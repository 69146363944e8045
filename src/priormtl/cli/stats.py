"""priormtl stats: what a table says about its tasks, without its rows."""

from pathlib import Path
from typing import Annotated, Any

from typer import Option, echo

from priormtl.cli.columns import (
    Categories,
    Data,
    Features,
    Json,
    Missing,
    Target,
    Task,
    Weight,
    Where,
    read_schema,
)
from priormtl.cli.errors import needing, one_sentence, refuse_folder, short_warnings
from priormtl.cli.plain import to_json
from priormtl.cli.words import count

__all__ = ["stats"]


def stats(
    data: Data,
    task: Task,
    target: Target,
    out: Annotated[Path, Option(dir_okay=False, help="File of statistics to write.")],
    weight: Weight = None,
    features: Features = None,
    categories: Categories = None,
    where: Where = None,
    missing: Missing = "error",
    min_rows: Annotated[
        int, Option(min=1, help="Leave out tasks with fewer rows than this.")
    ] = 1,
    as_json: Json = False,
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
    with needing("stats", "cli"):
        import priormtl.engines  # noqa: F401, PLC0415
        from priormtl.estimators import read_source  # noqa: PLC0415
    with one_sentence(), short_warnings():
        refuse_folder(out, data)
        schema = read_schema(task, target, weight, features, categories, missing)
        found = read_source(data, schema, where=where)
        kept = found.without_small(min_rows)
        kept.whole.save(out)
    _say(out, kept, len(found.counts) - len(kept.counts), min_rows, as_json)


def _say(out: Path, kept: Any, left_out: int, min_rows: int, as_json: bool) -> None:
    d, m = kept.whole.shape
    if as_json:
        told = {"file": str(out), "rows": kept.rows, "dropped": kept.dropped}
        told |= {"tasks": m, "features": d, "left_out": left_out}
        echo(to_json(told))
        return
    rows, tasks = count(kept.rows, "row"), count(m, "task")
    words = f"{rows} read, {tasks}, {count(d, 'feature')}"
    if kept.dropped:
        words += f"; {count(kept.dropped, 'row')} dropped for missing values"
    if left_out:
        words += f"; {count(left_out, 'task')} with fewer than {min_rows} rows left out"
    echo(f"{words}.")
    echo(f"wrote {out}")
