"""priormtl report: a page that tells what a fitted model learned."""

import json
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option, echo

from priormtl.cli.errors import needing, one_sentence, refuse_folder, short_warnings
from priormtl.cli.plain import to_json

__all__ = ["report"]


def report(
    model: Annotated[Path, Argument(help="Model, as 'priormtl fit' or save wrote it.")],
    out: Annotated[Path, Option(dir_okay=False, help="Page to write.")] = Path(
        "report.html"
    ),
    data: Annotated[
        Path | None,
        Option(help="Rows to score, best new ones: CSV, Parquet, or a folder."),
    ] = None,
    task: Annotated[
        str | None, Option(metavar="COL", help="Tasks in --data; else as in the fit.")
    ] = None,
    target: Annotated[
        str | None, Option(metavar="COL", help="Targets in --data; else as in the fit.")
    ] = None,
    title: Annotated[str | None, Option(help="Heading of the page.")] = None,
    coefficients: Annotated[
        Path | None,
        Option(dir_okay=False, help="Write all coefficients, too: .csv or .parquet."),
    ] = None,
    as_json: Annotated[
        bool, Option("--json", help="Print the answers as JSON.")
    ] = False,
) -> None:
    """Write a page on a fitted model: how good, which features, did the prior help.

    The page is one file that works without a network: send it to a colleague.
    Nothing is fitted.

    Example: priormtl report exams.model --out report.html

    Example: priormtl report exams.model --data new.csv --title "Exams of 2011"
    """
    with needing("report", "cli"):
        from priormtl.cli.scored import read_known_rows  # noqa: PLC0415
        from priormtl.estimators import load  # noqa: PLC0415
        from priormtl.reports import report as make  # noqa: PLC0415
    with one_sentence(), short_warnings():
        refuse_folder(out, model, data)
        refuse_folder(coefficients, model, data)
        if out == coefficients:
            raise ValueError(f"--coefficients must be another file than --out {out}.")
        fitted = load(model)
        rows: dict[str, Any] = {}
        if data is not None:
            rows = read_known_rows(fitted, data, task=task, target=target)
        elif task is not None or target is not None:
            raise ValueError(
                "--task and --target describe --data: name that file, too."
            )
        made = make(fitted, **rows, title=title)
        made.save(out, coefficients=coefficients)
    _say(out, json.loads(made.to_json())["findings"], as_json)


def _say(out: Path, findings: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        echo(to_json({"file": str(out), "findings": findings}, ensure_ascii=False))
        return
    for finding in findings:
        echo(f"{finding['question']} {finding['value']}.")
    echo(f"wrote {out}")
