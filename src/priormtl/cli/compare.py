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
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option, echo

from priormtl._files import write_whole
from priormtl.cli import main
from priormtl.cli.linear import read_prior, split_prior

if TYPE_CHECKING:
    from priormtl.experiments.runner import Event


@dataclass(frozen=True, kw_only=True)
class CompareRequest(main.TableOptions):
    """Options of the command, as typed."""

    classify: Annotated[
        bool | None,
        Option(
            "--classify/--no-classify",
            help="Treat targets as classes or as numbers; detected if not given.",
        ),
    ] = None
    methods: Annotated[
        str,
        Option(
            metavar=main.NAMES,
            help="Methods to compare, separated by commas; 'all' includes the slow "
            "ones (fedem, mtfl, mkmtl).",
        ),
    ] = "default"
    prior: main.Prior = None
    cv: Annotated[
        int,
        main.least_option(2, "Number of folds, each of which is held out once."),
    ] = 5
    time: Annotated[
        str | None,
        main.column_option(
            "Column that orders the rows of each task: splits go forward in time."
        ),
    ] = None
    split: Annotated[
        str,
        main.word_option(
            "rows",
            "later",
            "tasks",
            help="What is held out: rows at random, later rows (with --time), or whole "
            "tasks.",
        ),
    ] = "rows"
    loss: main.Loss = "squared"
    exposure: main.Exposure = None
    offset: main.Offset = None
    settings: Annotated[
        int, main.least_option(1, "Approximate number of settings tried per method.")
    ] = 20
    jobs: Annotated[
        int, main.least_option(1, "Number of processes; does not change the scores.")
    ] = 1
    out: Annotated[Path | None, main.file_option("Also write the results as CSV.")] = (
        None
    )


@main.takes(CompareRequest)
def compare(request: CompareRequest) -> None:
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
    import narwhals.stable.v2 as nw
    import pyarrow as pa

    from priormtl.baselines import comparison
    from priormtl.estimators import read_source_rows
    from priormtl.estimators.labels import count_classes

    out, cv, split, time = request.out, request.cv, request.split, request.time
    main.check_output(out, request.data)
    source, schema = request.open_table(None, request.exposure, request.offset)
    names = [name.strip() for name in request.methods.split(",") if name.strip()]
    wanted = names[0] if names in (["default"], ["all"]) else names
    rows = read_source_rows(source, schema)
    by_class = request.classify
    if by_class is None:
        by_class = request.loss == "squared" and comparison.are_classes(rows.y)
    tasks = rows.task.unique().to_pylist()
    shared: main.Facts = {
        "loss": request.loss,
        "exposure": request.exposure,
        "offset": request.offset,
        "task_prior": "auto",
    } | split_prior(read_prior(request.prior), rows.design, tasks)
    table = pa.table([*rows.X.T, rows.task], names=[*rows.design, schema.task])
    result = comparison.compare(
        # Some estimators need a pandas frame.
        table.to_pandas() if find_spec("pandas") else table,
        rows.y,
        task=schema.task,
        methods=wanted,
        cv=cv,
        time=time,
        split=split,
        classify=by_class,
        n_settings=request.settings,
        n_jobs=request.jobs,
        **shared,
    )
    found = list(nw.from_native(result).iter_rows(named=True))
    if out is not None:
        text = io.StringIO()
        writer = csv.DictWriter(text, found[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)
        write_whole(out, text.getvalue().encode())
    compared, left_out = {row["method"] for row in found}, {}
    if wanted == "default":
        left_out = comparison.methods_left_out(
            request.loss,
            count_classes(rows.y) if by_class else 0,
            timed=time is not None and split != "tasks",
        )
    facts = {
        "rows": len(rows.X),
        "tasks": len(tasks),
        "features": len(rows.design),
        "encoded": list(rows.design.text_sources),
        "winner": describe_winner(found),
        "ours": (
            "priormtl is what 'priormtl fit' fits by default (tabular_model)."
            if comparison.OURS in compared
            else None
        ),
        "left_out": {
            name: why for name, why in left_out.items() if name not in compared
        },
    }
    if request.as_json:
        main.print_json(facts | {"results": found})
        return
    held = {"rows": "", "later": " of later rows", "tasks": " of whole tasks"}[split]
    if time and split == "rows":
        held = " of later rows"
    folds = min(cv, 3) if "later" in held else cv
    _show(facts, found, f"{folds} folds{held}")


def _show(facts: main.Facts, found: Sequence[main.Facts], folds: str) -> None:
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
    print_line(f"Mean ± sd over {folds}, none of them used for tuning; * is best.")
    if facts["ours"]:
        print_line(facts["ours"])
    if facts["left_out"]:
        reasons = facts["left_out"]
        names = ", ".join(f"{name} ({why})" for name, why in reasons.items())
        print_line(f"Left out unless named by --methods: {names}.")
    print_line(facts["winner"])


def describe_winner(rows: Sequence[main.Facts]) -> str:
    """Sentence that names the winner, its margin with an interval, and its cost.

    ``rows`` are those of the frame that ``compare`` returns, in their order.
    """
    from priormtl.baselines.comparison import SMALLER_IS_BETTER

    metric = rows[0]["metric"]
    ranked = [
        row for row in rows if row["metric"] == metric and not math.isnan(row["mean"])
    ]
    if not ranked:
        return f"No method has a value of {metric}."
    first, score = ranked[0], f"{metric.replace('_', ' ')} {ranked[0]['mean']:.4g}"
    if len(ranked) == 1:
        return f"{first['method']} has {score}, at {first['seconds']:.2g} s a fit."
    second = ranked[1]
    margin, reach = abs(second["difference"]), (second["high"] - second["low"]) / 2.0
    interval, chance = "", ""
    if not math.isnan(reach):
        low, high = margin - reach, margin + reach
        interval = f"(95 % interval {low:.2g} to {high:.2g}) "
        chance = " The difference may be due to chance." if low <= 0 else ""
    verb = "below" if metric in SMALLER_IS_BETTER else "above"
    return (
        f"{first['method']} predicts best: {score}, {margin:.2g} {interval}{verb} "
        f"{second['method']}, the next best, at {first['seconds']:.2g} s a fit against "
        f"{second['seconds']:.2g} s.{chance}"
    )


def _decimals(column: Sequence[main.Facts]) -> int:
    """Decimals that show a usual deviation to two digits; 3 without any."""
    spreads = [row["sd"] for row in column if row["sd"] > 0]
    size = math.floor(math.log10(median(spreads))) if spreads else -2
    return min(12, max(0, 1 - size))


# The paper


PARTS = ("table1", "table2", "figure1", "figure2", "figure3", "curves", "all")


@dataclass(frozen=True, kw_only=True)
class ReproduceRequest:
    """Options of the command, as typed."""

    what: Annotated[
        str,
        Argument(
            parser=main.word_of(PARTS),
            metavar="WHAT",
            help=f"One of: {', '.join(PARTS)}.",
        ),
    ]
    quick: Annotated[
        bool, Option("--quick", help="Few repeats, settings and images; takes minutes.")
    ] = False
    jobs: Annotated[
        int, main.least_option(1, "Number of processes; does not change the results.")
    ] = 1
    out: Annotated[
        Path,
        Option(file_okay=False, help="Folder for results; a later run resumes there."),
    ] = Path("results")
    data: Annotated[
        Path | None, Option(help="Folder of data sets; by default, PRIORMTL_DATA.")
    ] = None
    collect: Annotated[
        bool, Option("--collect", help="Only show finished results.")
    ] = False
    force: Annotated[
        list[str] | None,
        Option(metavar="METHOD", help="Compute this method again. Can be repeated."),
    ] = None
    limit: Annotated[
        float | None, Option(metavar="SECONDS", help="Time limit for each unit.")
    ] = None
    skip_missing: Annotated[
        bool, Option("--skip-missing", help="Leave out missing data sets.")
    ] = False
    page: Annotated[
        Path | None, main.file_option("Page of all results; by default in --out.")
    ] = None
    as_json: main.Json = False


@main.takes(ReproduceRequest, extra="reproduce")
def reproduce(request: ReproduceRequest) -> None:
    """Compute the tables and figures of the paper, and compare them with it.

    Finished units of work are kept: run the same command again to resume.

    Example: priormtl reproduce all --quick --jobs 2

    Example: priormtl reproduce table1 --jobs 2 --out results

    Example: priormtl reproduce table2 --collect --out results
    """
    from priormtl import experiments

    if request.data is not None:
        os.environ["PRIORMTL_DATA"] = str(request.data)  # processes inherit it
    plan = experiments.Request(
        request.what,
        request.out,
        quick=request.quick,
        jobs=request.jobs,
        limit=request.limit,
        force=tuple(request.force or ()),
        compute=not request.collect,
        skip_missing=request.skip_missing,
        page=request.page,
    )
    with _progress(request.what) as tell:
        report = experiments.reproduce(plan, tell)
    outcome = report.outcome
    for failure in outcome.failures:
        echo(f"failed: {failure.label}: {failure.reason}", err=True)
    for name in report.left_out:
        echo(f"left out: {name} is missing; see 'priormtl data'", err=True)
    if request.as_json:
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
