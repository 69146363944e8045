"""priormtl reproduce: the paper's tables and figures, computed and compared."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Exit, Option, echo

from priormtl.cli.columns import Json, word_of
from priormtl.cli.main import exit_on_error, print_json, print_warnings, require_extra

BETWEEN_LINES = 10.0  # seconds from line to line where there is no terminal
PARTS = ("table1", "table2", "figure1", "figure2", "figure3", "curves", "all")


def reproduce(
    what: Annotated[
        str,
        Argument(
            parser=word_of(PARTS), metavar="WHAT", help=f"One of: {', '.join(PARTS)}."
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
    as_json: Json = False,
) -> None:
    """Compute the tables and figures of the paper, and compare them with it.

    Finished units of work are kept: run the same command again to resume.

    Example: priormtl reproduce all --quick --jobs 2

    Example: priormtl reproduce table1 --jobs 2 --out results

    Example: priormtl reproduce table2 --collect --out results
    """
    with require_extra("reproduce", "reproduce"):
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
    with exit_on_error(), print_warnings(), _progress(what) as tell:
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
        print_json(facts)
    else:
        for path in report.files:
            echo(f"wrote {path}")
        again = "; run the same command again to resume" if outcome.interrupted else ""
        done = f"{report.done} of {report.planned} units are finished"
        echo(f"{done}, {outcome.computed} of them new{again}.")
    interrupted = 130
    if outcome.interrupted:
        raise Exit(interrupted)
    if outcome.failures:
        raise Exit(1)


@contextmanager
def _progress(name: str) -> Iterator[Callable[[Any], None]]:
    """A bar in terminals, a line now and then elsewhere; both on standard error."""
    if not sys.stderr.isatty():
        due = time.monotonic() + BETWEEN_LINES

        def print_line(event: Any) -> None:
            nonlocal due
            now = time.monotonic()
            if now >= due:
                due = now + BETWEEN_LINES
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

        def tell(event: Any) -> None:
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
