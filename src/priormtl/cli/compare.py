"""priormtl compare: which method predicts the held-out rows of a table best."""

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from typer import Option

from priormtl._files import write_whole
from priormtl.cli.columns import Data, Json, Target, Task, read_schema
from priormtl.cli.main import (
    check_output,
    exit_on_error,
    print_json,
    print_warnings,
    require_extra,
)

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
            help="Treat targets as classes or as numbers; guessed if not given.",
        ),
    ] = None,
    methods: Annotated[
        str, Option(metavar="A,B,C", help="Methods to compare, separated by commas.")
    ] = "all",
    cv: Annotated[int, Option(min=2, help="Number of cross-validation folds.")] = 5,
    settings: Annotated[
        int, Option(min=1, help="Approximate number of settings tried per method.")
    ] = 20,
    jobs: Annotated[
        int, Option(min=1, help="Number of processes; scores are the same.")
    ] = 1,
    as_json: Json = False,
    out: Annotated[
        Path | None, Option(dir_okay=False, help="Also write the results as CSV.")
    ] = None,
) -> None:
    """Compare methods on held-out rows, each tuned on the other rows alone.

    Numeric columns are features; text columns are one-hot encoded. Fewer settings and
    folds are faster.

    Example: priormtl compare exams.csv --task school --target score

    Example: priormtl compare exams.csv --task school --target passed --classify
    --methods priormtl,clmt --out results.csv
    """
    read_rows, compare_methods = _import_tools()
    with exit_on_error(), print_warnings():
        check_output(out, data)
        rows = read_rows(data, read_schema(task, target))
        names = [name.strip() for name in methods.split(",") if name.strip()]
        found: list[Row] = compare_methods(
            rows.X,
            rows.y,
            task=rows.task,
            methods="all" if names == ["all"] else names,
            cv=cv,
            classify=classify,
            n_settings=settings,
            n_jobs=jobs,
        ).to_pylist()
        if out is not None:
            text = io.StringIO()
            writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(found)
            write_whole(out, text.getvalue().encode())
    facts = {
        "rows": rows.X.num_rows,
        "tasks": len(rows.task.unique()),
        "features": rows.X.num_columns,
        "encoded": [c.name for c in rows.encoding.columns if c.values is not None],
    }
    if as_json:
        print_json(facts | {"results": found})
    else:
        _show(facts, found, cv)


def _import_tools() -> tuple[Any, Any]:
    with require_extra("compare", "cli"):
        import priormtl.engines  # noqa: F401
        from priormtl.baselines.comparison import compare as compare_methods
        from priormtl.estimators import read_source_rows
    return read_source_rows, compare_methods


def _show(facts: dict[str, Any], found: Sequence[Row], cv: int) -> None:
    from rich.console import Console
    from rich.table import Table

    from priormtl.baselines.comparison import SMALLER_IS_BETTER
    from priormtl.tables import count_words

    console = Console(width=None if Console().is_terminal else 120)
    words = ", ".join(
        count_words(facts[f"{noun}s"], noun) for noun in ("row", "task", "feature")
    )
    if facts["encoded"]:
        names = ", ".join(map(repr, facts["encoded"]))
        words += f"; text columns were one-hot encoded: {names}"
    console.print(f"{words}.", markup=False, highlight=False, soft_wrap=True)
    metrics = list(dict.fromkeys(row["metric"] for row in found))
    table = Table()
    table.add_column("method")
    for name in (*metrics, "seconds"):
        table.add_column(name.replace("_", " "), justify="right")
    cells = {row["method"]: [row["method"]] for row in found}
    for metric in metrics:
        column = [row for row in found if row["metric"] == metric]
        means = [row["mean"] for row in column if not math.isnan(row["mean"])]
        best = (min if metric in SMALLER_IS_BETTER else max)(means, default=math.nan)
        digits = _decimals(column)
        for row in column:
            text = f"{row['mean']:.{digits}f} ± {row['sd']:.{digits}f}"
            text = "failed" if math.isnan(row["mean"]) else text
            text = f"[bold]* {text}[/]" if row["mean"] == best else text
            cells[row["method"]].append(text)
    seconds = {row["method"]: f"{row['seconds']:.1f}" for row in found}
    for method, texts in cells.items():
        table.add_row(*texts, seconds[method])
    console.print(table)
    note = f"Mean ± sd over {cv} folds, none of them used for tuning; * is best."
    console.print(note, highlight=False, soft_wrap=True)


def _decimals(column: Sequence[Row]) -> int:
    """Decimals that show a usual deviation to two digits."""
    spreads = [row["sd"] for row in column if row["sd"] > 0]
    if not spreads:
        return DECIMALS
    return min(12, max(0, 1 - math.floor(math.log10(median(spreads)))))
