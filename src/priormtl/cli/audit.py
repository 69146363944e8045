"""priormtl audit: whether the data agree with what was stated."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option, echo

from priormtl.cli.columns import Decimal, Delimiter, Where, read_location
from priormtl.cli.main import exit_on_error, print_warnings, require_extra
from priormtl.cli.report import read_known_rows


def audit(
    model: Annotated[
        Path, Argument(help="Model file of 'priormtl fit' or priormtl.save.")
    ],
    data: Annotated[
        Path,
        Argument(
            parser=read_location,
            metavar="DATA",
            help="The rows that it was fitted to: a CSV, Parquet or Arrow file, a "
            "folder of such files, or an address.",
        ),
    ],
    where: Where = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    task: Annotated[
        str | None,
        Option(metavar="COL", help="Column with the tasks; else as fitted."),
    ] = None,
    target: Annotated[
        str | None,
        Option(metavar="COL", help="Column with the targets; else as fitted."),
    ] = None,
    folds: Annotated[
        int,
        Option(min=0, help="Folds on which the prior is left out; 0: none."),
    ] = 5,
    as_json: Annotated[
        bool, Option("--json", help="Print all values as JSON.")
    ] = False,
) -> None:
    """Tell whether the data agree with the prior of a fitted model.

    Each relation, known value, sign, common and smooth effect is tested, and held-out
    rows are predicted with and without the prior.

    Example: priormtl audit sales.model sales.csv

    Example: priormtl audit sales.model sales.csv --folds 0 --json
    """
    with require_extra("audit", "cli"):
        from priormtl import engines
        from priormtl.audits import audit_prior
        from priormtl.storage import load
    with exit_on_error(), print_warnings():
        fitted = load(model)
        source = engines.open_source(data, where, delimiter=delimiter, decimal=decimal)
        rows = read_known_rows(fitted, source, task=task, target=target)
        found = audit_prior(fitted, **rows, cv=folds or None)
    echo(found.to_json() if as_json else str(found))
