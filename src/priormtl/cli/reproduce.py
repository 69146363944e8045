"""priormtl reproduce: the paper's tables and figures, and what they leave open."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Exit, Option, echo

from priormtl.cli.errors import needing, one_sentence, short_warnings
from priormtl.cli.plain import to_json
from priormtl.cli.words import word_of

__all__ = ["reproduce"]

BETWEEN_LINES = 10.0  # seconds from line to line where there is no terminal
INTERRUPTED = 130
PARTS = ("table1", "table2", "figure1", "figure2", "figure3", "curves", "all")


def reproduce(
    what: Annotated[
        str,
        Argument(
            parser=word_of(PARTS),
            metavar="WHAT",
            help=f"One of: {', '.join(PARTS)}.",
        ),
    ],
    quick: Annotated[
        bool, Option("--quick", help="Few repeats, settings and images: minutes.")
    ] = False,
    jobs: Annotated[int, Option(min=1, help="Processes; results are the same.")] = 1,
    out: Annotated[
        Path, Option(file_okay=False, help="Folder of results; a run goes on there.")
    ] = Path("results"),
    data: Annotated[
        Path | None, Option(help="Folder of data sets; else PRIORMTL_DATA.")
    ] = None,
    collect: Annotated[
        bool, Option("--collect", help="Compute nothing: show what is there.")
    ] = False,
    force: Annotated[
        list[str] | None, Option(metavar="METHOD", help="Compute a method anew.")
    ] = None,
    limit: Annotated[
        float | None, Option(metavar="SECONDS", help="Give up units that take longer.")
    ] = None,
    skip_missing: Annotated[
        bool, Option("--skip-missing", help="Leave out data sets not at hand.")
    ] = False,
    page: Annotated[
        Path | None, Option(dir_okay=False, help="Page of results (all); else in OUT.")
    ] = None,
    as_json: Annotated[
        bool, Option("--json", help="Say what was done as JSON.")
    ] = False,
) -> None:
    """Compute the paper's tables and figures, and show them beside the paper's.

    What is finished is kept: run the same command again to go on, for free where
    nothing is missing.

    Example: priormtl reproduce all --quick --jobs 2

    Example: priormtl reproduce table1 --jobs 2 --out results

    Example: priormtl reproduce table2 --collect --out results
    """
    with needing("reproduce", "reproduce"):
        from priormtl import experiments  # noqa: PLC0415
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
    with one_sentence(), short_warnings(), _progress(what) as tell:
        report = experiments.reproduce(request, tell)
    _say(report, as_json)
    if report.outcome.interrupted:
        raise Exit(INTERRUPTED)
    if report.outcome.failures:
        raise Exit(1)


@contextmanager
def _progress(name: str) -> Iterator[Callable[[Any], None]]:
    """A bar in terminals, a line now and then elsewhere; both on standard error."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    # The time left is our own guess, from units of the same kind.
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


def _lines() -> Callable[[Any], None]:
    due = time.monotonic() + BETWEEN_LINES

    def tell(event: Any) -> None:
        nonlocal due
        now = time.monotonic()
        if now >= due:
            due = now + BETWEEN_LINES
            left = _spell(event.seconds_left)
            echo(f"{event.done} of {event.total}, {left} left: {event.label}", err=True)

    return tell


def _spell(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _say(report: Any, as_json: bool) -> None:
    outcome = report.outcome
    for failure in outcome.failures:
        echo(f"failed: {failure.label}: {failure.reason}", err=True)
    for name in report.left_out:
        echo(f"left out: {name} is not at hand ('priormtl data' says why)", err=True)
    if as_json:
        echo(
            to_json(
                {
                    "computed": outcome.computed,
                    "done": report.done,
                    "planned": report.planned,
                    "failed": [failure._asdict() for failure in outcome.failures],
                    "left_out": list(report.left_out),
                    "interrupted": outcome.interrupted,
                    "files": [str(path) for path in report.files],
                }
            )
        )
        return
    for path in report.files:
        echo(f"wrote {path}")
    words = f"{report.done} of {report.planned} units are there, {outcome.computed} new"
    again = "; run the same command again to go on" if outcome.interrupted else ""
    echo(words + again + ".")
