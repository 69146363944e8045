"""priormtl compare: which method predicts the rows of a table best."""

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from typer import Option, echo

from priormtl._files import write_whole
from priormtl.cli.columns import Columns, Data, Json, Target, Task
from priormtl.cli.errors import needing, one_sentence, refuse_folder, short_warnings
from priormtl.cli.plain import to_json
from priormtl.cli.words import count

__all__ = ["compare"]

COLUMNS = ("method", "metric", "mean", "sd", "seconds")
DECIMALS = 3  # where no deviation says how many matter

Row = dict[str, Any]  # one of the result, by COLUMNS


def compare(
    data: Data,
    task: Task,
    target: Target,
    classify: Annotated[
        bool | None,
        Option(
            "--classify/--no-classify",
            help="Targets are two classes per task, or numbers; else as they look.",
        ),
    ] = None,
    methods: Annotated[
        str, Option(metavar="A,B,C", help="Names of methods, with commas.")
    ] = "all",
    cv: Annotated[int, Option(min=2, help="Folds, each held out once.")] = 5,
    settings: Annotated[
        int, Option(min=1, help="Settings that each method tries, about.")
    ] = 20,
    jobs: Annotated[int, Option(min=1, help="Processes; scores are the same.")] = 1,
    as_json: Json = False,
    out: Annotated[
        Path | None, Option(dir_okay=False, help="Write the results as CSV, too.")
    ] = None,
) -> None:
    """Compare methods on held-out rows, each tuned on the other rows alone.

    Numeric columns are features; of text columns, every value becomes one. Fewer
    settings and folds are faster.

    Example: priormtl compare exams.csv --task school --target score

    Example: priormtl compare exams.csv --task school --target passed --classify
    --methods priormtl,clmt --out results.csv
    """
    read_table, compare_methods = _import_tools()
    with one_sentence(), short_warnings():
        refuse_folder(out, data)
        rows = read_table(data, None, Columns(task, target))
        found = compare_methods(
            rows.X,
            rows.y,
            task=rows.task,
            methods=_read_methods(methods),
            cv=cv,
            classify=classify,
            n_settings=settings,
            n_jobs=jobs,
        ).to_pylist()
        if out is not None:
            write_whole(out, _to_csv(found))
    if as_json:
        echo(to_json(_describe(rows) | {"results": found}))
    else:
        _show(rows, found, cv)


def _import_tools() -> tuple[Any, Any]:
    with needing("compare", "cli"):
        from priormtl.baselines.compare import compare as methods  # noqa: PLC0415
        from priormtl.cli.reading import read_table  # noqa: PLC0415
    return read_table, methods


def _read_methods(methods: str) -> str | list[str]:
    names = [name.strip() for name in methods.split(",") if name.strip()]
    return "all" if names == ["all"] else names


def _to_csv(found: Sequence[Row]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return text.getvalue().encode()


def _describe(rows: Any) -> dict[str, Any]:
    return {
        "rows": rows.X.num_rows,
        "tasks": len(rows.task.unique()),
        "features": rows.X.num_columns,
        "encoded": [c.name for c in rows.encoding.columns if c.values is not None],
    }


def _show(rows: Any, found: Sequence[Row], cv: int) -> None:
    from rich.console import Console  # noqa: PLC0415

    console = Console(width=None if Console().is_terminal else 120)
    what = _describe(rows)
    words = ", ".join(
        count(what[f"{noun}s"], noun) for noun in ("row", "task", "feature")
    )
    if what["encoded"]:
        names = ", ".join(map(repr, what["encoded"]))
        words += f"; of text, every value became one: {names}"
    console.print(f"{words}.", markup=False, highlight=False, soft_wrap=True)
    console.print(_table(found))
    console.print(
        f"Mean ± sd over {cv} folds, each held out once and never used for tuning; "
        "* is best.",
        highlight=False,
        soft_wrap=True,
    )


def _table(found: Sequence[Row]) -> Any:
    from rich.table import Table  # noqa: PLC0415

    methods = list(dict.fromkeys(row["method"] for row in found))
    metrics = list(dict.fromkeys(row["metric"] for row in found))
    cells = {row["method"]: [row["method"]] for row in found}
    for metric in metrics:
        column = [row for row in found if row["metric"] == metric]
        for row, text in zip(column, _cells(metric, column), strict=True):
            cells[row["method"]].append(text)
    table = Table()
    table.add_column("method")
    for name in (*metrics, "seconds"):
        table.add_column(name.replace("_", " "), justify="right")
    seconds = {row["method"]: f"{row['seconds']:.1f}" for row in found}
    for method in methods:
        table.add_row(*cells[method], seconds[method])
    return table


def _cells(metric: str, column: Sequence[Row]) -> list[str]:
    """Mean ± sd of each method, the best one marked."""
    from priormtl.baselines.compare import SMALLER_IS_BETTER  # noqa: PLC0415

    means = [row["mean"] for row in column if not math.isnan(row["mean"])]
    pick = min if metric in SMALLER_IS_BETTER else max
    best = pick(means, default=math.nan)
    digits = _decimals(column)
    return [
        f"[bold]* {_cell(row, digits)}[/]"
        if row["mean"] == best
        else _cell(row, digits)
        for row in column
    ]


def _cell(row: Row, digits: int) -> str:
    if math.isnan(row["mean"]):
        return "failed"
    return f"{row['mean']:.{digits}f} ± {row['sd']:.{digits}f}"


def _decimals(column: Sequence[Row]) -> int:
    """Decimals that show a usual deviation to two digits."""
    spreads = [row["sd"] for row in column if row["sd"] > 0]
    if not spreads:
        return DECIMALS
    return min(12, max(0, 1 - math.floor(math.log10(median(spreads)))))
