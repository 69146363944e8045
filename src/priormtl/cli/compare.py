"""priormtl compare: which method predicts the held-out rows of a table best."""

import csv
import io
import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from typer import Option

from priormtl._files import write_whole
from priormtl.cli import columns, main
from priormtl.cli.linear import read_prior, split_prior

COLUMNS = ("method", "metric", "mean", "sd", "seconds", "difference", "low", "high")
DEFAULT = "default"

Row = dict[str, Any]  # one of the result, by COLUMNS


def compare(
    data: columns.Data,
    target: columns.Target,
    task: columns.Task = None,
    classify: Annotated[
        bool | None,
        Option(
            "--classify/--no-classify",
            help="Treat targets as classes or as numbers; detected if not given.",
        ),
    ] = None,
    methods: Annotated[
        str,
        Option(
            metavar="A,B,C",
            help="Methods to compare, separated by commas; 'all' includes the slow "
            "ones (fedem, mtfl, mkmtl).",
        ),
    ] = DEFAULT,
    prior: columns.Prior = None,
    cv: Annotated[
        int, Option(min=2, help="Number of folds, each of which is held out once.")
    ] = 5,
    settings: Annotated[
        int, Option(min=1, help="Approximate number of settings tried per method.")
    ] = 20,
    jobs: Annotated[
        int, Option(min=1, help="Number of processes; does not change the scores.")
    ] = 1,
    features: columns.Features = None,
    drop: columns.Drop = None,
    categories: columns.Categories = None,
    where: columns.Where = None,
    missing: columns.Missing = "error",
    delimiter: columns.Delimiter = None,
    decimal: columns.Decimal = None,
    as_json: columns.Json = False,
    out: Annotated[
        Path | None, Option(dir_okay=False, help="Also write the results as CSV.")
    ] = None,
) -> None:
    """Compare methods on held-out rows, each tuned on the other rows only.

    'priormtl' is our model. The others are usual methods (ridge regression with task
    dummies, mixed models, LightGBM, GPBoost, histogram boosting, random forests),
    multi-task methods of the literature, and ridge regression for each task and for all
    rows. Methods whose packages are not installed are left out; install them with
    pip install 'priormtl[compare]'. Text columns are one-hot encoded. Fewer settings
    and folds take less time.

    Example: priormtl compare exams.csv --task school --target score

    Example: priormtl compare exams.csv --task school --target passed --classify
    --methods priormtl,lightgbm,mixed-model --out results.csv

    Example: priormtl compare exams.csv --task school --target score --drop pupil
    --where "year >= 2010" --missing mean --prior relations.toml
    """
    with main.require_extra("compare", "cli"):
        import narwhals.stable.v2 as nw
        import pyarrow as pa

        from priormtl import engines
        from priormtl.baselines import comparison
        from priormtl.estimators import read_source_rows
    with main.exit_on_error(), main.print_warnings():
        main.check_output(out, data)
        source = engines.open_source(data, where, delimiter=delimiter, decimal=decimal)
        named = columns.require_task(task, source)
        names = [name.strip() for name in methods.split(",") if name.strip()]
        rows = read_source_rows(
            source,
            columns.read_schema(
                named, target, None, features, categories, missing, drop
            ),
        )
        wanted: Any = names[0] if names in ([DEFAULT], ["all"]) else names
        by_class = comparison.are_classes(rows.y) if classify is None else classify
        priors = {"task_prior": comparison.AUTO} | split_prior(
            read_prior(prior), rows.design, rows.task.unique().to_pylist()
        )
        try:
            table = pa.table([*rows.X.T, rows.task], names=[*rows.design, named])
            result = compare_methods(
                # Some estimators need a pandas frame.
                table.to_pandas() if find_spec("pandas") else table,
                rows.y,
                task=named,
                methods=wanted,
                cv=cv,
                classify=by_class,
                n_settings=settings,
                n_jobs=jobs,
                **priors,
            )
        except ImportError as error:
            raise ValueError(str(error)) from None
        found = list(nw.from_native(result).iter_rows(named=True))
        if out is not None:
            text = io.StringIO()
            writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(found)
            write_whole(out, text.getvalue().encode())
    facts = {
        "rows": len(rows.X),
        "tasks": len(rows.task.unique()),
        "features": len(rows.design),
        "encoded": list(rows.design.text_sources),
        "winner": comparison.describe_winner(found),
        "ours": None,
        "left_out": {},
    }
    if any(row["method"] == comparison.OURS for row in found):
        model = comparison.make_ours(
            settings,
            1.0,
            classify=by_class,
            column=named,
            **priors,
        )
        facts["ours"] = comparison.describe_ours(model)
    if wanted == DEFAULT:
        facts["left_out"] = comparison.methods_left_out(classify=by_class)
    if as_json:
        main.print_json(facts | {"results": found})
    else:
        _show(facts, found, cv)


def compare_methods(*arguments: object, **settings: Any) -> Any:
    """Run the comparison of the library, which is imported when it is needed."""
    from priormtl.baselines.comparison import compare

    return compare(*arguments, **settings)


def _show(facts: dict[str, Any], found: Sequence[Row], cv: int) -> None:
    from rich.console import Console
    from rich.table import Table

    from priormtl.baselines.comparison import SMALLER_IS_BETTER
    from priormtl.rendering import count_words

    console = Console(width=None if Console().is_terminal else 120)
    words = ", ".join(
        count_words(facts[f"{noun}s"], noun) for noun in ("row", "task", "feature")
    )
    if facts["encoded"]:
        names = ", ".join(map(repr, facts["encoded"]))
        words += f"; text columns were one-hot encoded: {names}"
    plain: dict[str, Any] = {"markup": False, "highlight": False, "soft_wrap": True}
    console.print(f"{words}.", **plain)
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
            if math.isnan(row["mean"]):  # no probabilities, or no fit
                text = "failed" if math.isnan(row["seconds"]) else "–"
            text = f"[bold]* {text}[/]" if row["mean"] == best else text
            cells[row["method"]].append(text)
    seconds = {row["method"]: f"{row['seconds']:.1f}" for row in found}
    for method, texts in cells.items():
        table.add_row(*texts, seconds[method])
    console.print(table)
    note = f"Mean ± sd over {cv} folds, none of them used for tuning; * is best."
    console.print(note, **plain)
    if facts["ours"]:
        console.print(facts["ours"], **plain)
    if facts["left_out"]:
        reasons = facts["left_out"]
        names = ", ".join(f"{name} ({why})" for name, why in reasons.items())
        console.print(f"Left out unless named by --methods: {names}.", **plain)
    console.print(facts["winner"], **plain)


def _decimals(column: Sequence[Row]) -> int:
    """Decimals that show a usual deviation to two digits."""
    spreads = [row["sd"] for row in column if row["sd"] > 0]
    decimals = 3  # where no deviation says how many matter
    if not spreads:
        return decimals
    return min(12, max(0, 1 - math.floor(math.log10(median(spreads)))))
