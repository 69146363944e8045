"""priormtl compare and reproduce: methods side by side, on a table and in the paper.

``compare`` says which method predicts the held-out rows of a table best. ``reproduce``
computes the paper's tables and figures.
"""

import csv
import io
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option, echo

from priormtl._files import write_whole
from priormtl.cli import main
from priormtl.cli.linear import read_prior, split_prior

if TYPE_CHECKING:
    from priormtl.experiments.runner import Event


def compare(
    data: main.Data,
    target: main.Target,
    task: main.Task = None,
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
    ] = "default",
    prior: main.Prior = None,
    cv: Annotated[
        int, Option(min=2, help="Number of folds, each of which is held out once.")
    ] = 5,
    time_column: Annotated[
        str | None,
        Option(
            "--time",
            metavar="COL",
            help="Column that orders the rows of each task: splits go forward in time.",
        ),
    ] = None,
    split: Annotated[
        str,
        main.word_option(
            "rows",
            "later",
            "tasks",
            help="What is held out: rows at random, later rows (with --time), or whole "
            "tasks.",
        ),
    ] = "rows",
    loss: main.Loss = "squared",
    exposure: main.Exposure = None,
    offset: main.Offset = None,
    settings: Annotated[
        int, Option(min=1, help="Approximate number of settings tried per method.")
    ] = 20,
    jobs: Annotated[
        int, Option(min=1, help="Number of processes; does not change the scores.")
    ] = 1,
    features: main.Features = None,
    drop: main.Drop = None,
    categories: main.Categories = None,
    where: main.Where = None,
    missing: main.Missing = "error",
    delimiter: main.Delimiter = None,
    decimal: main.Decimal = None,
    as_json: main.Json = False,
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

    Example: priormtl compare claims.csv --task district --target claims --loss poisson
    --exposure policies

    Example: priormtl compare panel.csv --task country --target income --time year

    Example: priormtl compare exams.csv --task school --target score --drop pupil
    --where "year >= 2010" --missing mean --prior relations.toml
    """
    with main.require_extra("compare", "cli"):
        import narwhals.stable.v2 as nw
        import pyarrow as pa

        from priormtl import engines
        from priormtl.baselines import comparison
        from priormtl.estimators import read_source_rows
        from priormtl.estimators.labels import count_classes
    with main.exit_on_error(), main.print_warnings():
        main.check_output(out, data)
        source = engines.open_source(data, where, delimiter=delimiter, decimal=decimal)
        named = main.require_task(task, source)
        names = [name.strip() for name in methods.split(",") if name.strip()]
        roles: dict[str, Any] = {"exposure": exposure, "offset": offset}
        columns = [name for name in roles.values() if name is not None]
        if features:
            features = ",".join([features, *columns])
        rows = read_source_rows(
            source,
            main.read_schema(named, target, None, features, categories, missing, drop),
        )
        roles["loss"] = loss
        wanted = names[0] if names in (["default"], ["all"]) else names
        by_class = classify
        if by_class is None:
            by_class = loss == "squared" and comparison.are_classes(rows.y)
        priors = {"task_prior": comparison.AUTO} | split_prior(
            read_prior(prior), rows.design, rows.task.unique().to_pylist()
        )
        try:
            table = pa.table([*rows.X.T, rows.task], names=[*rows.design, named])
            result = comparison.compare(
                # Some estimators need a pandas frame.
                table.to_pandas() if find_spec("pandas") else table,
                rows.y,
                task=named,
                methods=wanted,
                cv=cv,
                time=time_column,
                split=split,
                classify=by_class,
                n_settings=settings,
                n_jobs=jobs,
                **roles,
                **priors,
            )
        except ImportError as error:
            raise ValueError(str(error)) from None
        found = list(nw.from_native(result).iter_rows(named=True))
        if out is not None:
            text = io.StringIO()
            writer = csv.DictWriter(text, found[0], lineterminator="\n")
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
    ours = comparison.Ours(
        by_class,
        settings,
        1.0,
        column=named,
        time=time_column if split != "tasks" else None,
        n_classes=count_classes(rows.y),
        **roles,
        **priors,
    )
    compared = {row["method"] for row in found}
    if comparison.OURS in compared:
        facts["ours"] = ours.describe()
    if wanted == "default":
        reasons = comparison.methods_left_out(ours)
        facts["left_out"] = {
            name: why for name, why in reasons.items() if name not in compared
        }
    if as_json:
        main.print_json(facts | {"results": found})
    else:
        held = {"rows": "rows", "later": "later rows", "tasks": "whole tasks"}[split]
        held = "later rows" if time_column and split == "rows" else held
        count = min(cv, 3) if held == "later rows" else cv
        _show(facts, found, count, held)


def _show(facts: main.Facts, found: Sequence[main.Facts], cv: int, held: str) -> None:
    from rich.table import Table

    from priormtl.baselines.comparison import SMALLER_IS_BETTER
    from priormtl.rendering import count_words

    console = main.open_console(120)
    print_line = partial(console.print, markup=False, highlight=False, soft_wrap=True)
    words = ", ".join(
        count_words(facts[f"{noun}s"], noun) for noun in ("row", "task", "feature")
    )
    if facts["encoded"]:
        names = ", ".join(map(repr, facts["encoded"]))
        words += f"; text columns were one-hot encoded: {names}"
    print_line(f"{words}.")
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
    words = "" if held == "rows" else f" of {held}"
    print_line(
        f"Mean ± sd over {cv} folds{words}, none of them used for tuning; * is best."
    )
    if facts["ours"]:
        print_line(facts["ours"])
    if facts["left_out"]:
        reasons = facts["left_out"]
        names = ", ".join(f"{name} ({why})" for name, why in reasons.items())
        print_line(f"Left out unless named by --methods: {names}.")
    print_line(facts["winner"])


def _decimals(column: Sequence[main.Facts]) -> int:
    """Decimals that show a usual deviation to two digits."""
    spreads = [row["sd"] for row in column if row["sd"] > 0]
    if not spreads:
        return 3  # no deviation says how many matter
    return min(12, max(0, 1 - math.floor(math.log10(median(spreads)))))


# The paper


PARTS = ("table1", "table2", "figure1", "figure2", "figure3", "curves", "all")


def reproduce(
    what: Annotated[
        str,
        Argument(
            parser=main.word_of(PARTS),
            metavar="WHAT",
            help=f"One of: {', '.join(PARTS)}.",
        ),
    ],
    quick: Annotated[
        bool, Option("--quick", help="Few repeats, settings and images; takes minutes.")
    ] = False,
    jobs: Annotated[
        int, Option(min=1, help="Number of processes; does not change the results.")
    ] = 1,
    out: Annotated[
        Path,
        Option(file_okay=False, help="Folder for results; a later run resumes there."),
    ] = Path("results"),
    data: Annotated[
        Path | None, Option(help="Folder of data sets; by default, PRIORMTL_DATA.")
    ] = None,
    collect: Annotated[
        bool, Option("--collect", help="Only show finished results.")
    ] = False,
    force: Annotated[
        list[str] | None,
        Option(metavar="METHOD", help="Compute this method again. Can be repeated."),
    ] = None,
    limit: Annotated[
        float | None, Option(metavar="SECONDS", help="Time limit for each unit.")
    ] = None,
    skip_missing: Annotated[
        bool, Option("--skip-missing", help="Leave out missing data sets.")
    ] = False,
    page: Annotated[
        Path | None,
        Option(dir_okay=False, help="Page of all results; by default in --out."),
    ] = None,
    as_json: main.Json = False,
) -> None:
    """Compute the tables and figures of the paper, and compare them with it.

    Finished units of work are kept: run the same command again to resume.

    Example: priormtl reproduce all --quick --jobs 2

    Example: priormtl reproduce table1 --jobs 2 --out results

    Example: priormtl reproduce table2 --collect --out results
    """
    with main.require_extra("reproduce", "reproduce"):
        from priormtl import experiments
    if data is not None:
        os.environ["PRIORMTL_DATA"] = str(data)  # processes inherit it
    request = experiments.Request(
        what,
        out,
        quick=quick,
        jobs=jobs,
        limit=limit,
        force=tuple(force or ()),
        compute=not collect,
        skip_missing=skip_missing,
        page=page,
    )
    with main.exit_on_error(), main.print_warnings(), _progress(what) as tell:
        report = experiments.reproduce(request, tell)
    outcome = report.outcome
    for failure in outcome.failures:
        echo(f"failed: {failure.label}: {failure.reason}", err=True)
    for name in report.left_out:
        echo(f"left out: {name} is missing; see 'priormtl data'", err=True)
    if as_json:
        facts = {
            "computed": outcome.computed,
            "done": report.done,
            "planned": report.planned,
            "failed": [failure._asdict() for failure in outcome.failures],
            "left_out": list(report.left_out),
            "interrupted": outcome.interrupted,
            "files": [str(path) for path in report.files],
        }
        main.print_json(facts)
    else:
        for path in report.files:
            echo(f"wrote {path}")
        again = "; run the same command again to resume" if outcome.interrupted else ""
        done = f"{report.done} of {report.planned} units are finished"
        echo(f"{done}, {outcome.computed} of them new{again}.")
    if outcome.interrupted:
        raise Exit(130)
    if outcome.failures:
        raise Exit(1)


@contextmanager
def _progress(name: str) -> Iterator["Callable[[Event], None]"]:
    """A bar in terminals, a line now and then elsewhere; both on standard error."""
    if not sys.stderr.isatty():
        between = 10.0  # seconds from line to line
        due = time.monotonic() + between

        def print_line(event: "Event") -> None:
            nonlocal due
            now = time.monotonic()
            if now >= due:
                due = now + between
                left = _spell(event.seconds_left)
                line = f"{event.done} of {event.total}, {left} left: {event.label}"
                echo(line, err=True)

        yield print_line
        return
    from rich.console import Console
    from rich.progress import Progress

    # The time left is estimated by the run, from units of the same kind.
    columns = Progress.get_default_columns()[:3]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=None)

        def tell(event: "Event") -> None:
            left = _spell(event.seconds_left)
            bar.update(
                task,
                total=event.total,
                completed=event.done,
                description=f"{event.label} · {left} left",
            )

        yield tell


def _spell(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
