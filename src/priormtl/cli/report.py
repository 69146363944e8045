"""priormtl report: a page on what a fitted model learned.

Rows to score are read as the model reads them: columns by the names that it remembers,
and rows without task or target left out.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option, echo

from priormtl.cli import main
from priormtl.exceptions import DataFileError, unknown_name

if TYPE_CHECKING:
    import pyarrow as pa

LARGEST_TARGET = 1e100  # as in fits


def report(
    model: Annotated[
        Path, Argument(help="Model file of 'priormtl fit' or priormtl.save.")
    ],
    out: Annotated[Path, Option(dir_okay=False, help="HTML page to write.")] = Path(
        "report.html"
    ),
    data: Annotated[
        Path | None,
        Option(
            help="Rows to score, preferably new ones: CSV, Parquet or Arrow file, or a "
            "folder."
        ),
    ] = None,
    task: Annotated[
        str | None,
        Option(metavar="COL", help="Column of --data with the tasks; else as fitted."),
    ] = None,
    target: Annotated[
        str | None,
        Option(
            metavar="COL", help="Column of --data with the targets; else as fitted."
        ),
    ] = None,
    title: Annotated[str | None, Option(help="Heading of the page.")] = None,
    coefficients: Annotated[
        Path | None,
        Option(dir_okay=False, help="Also write all coefficients to .csv or .parquet."),
    ] = None,
    as_json: Annotated[
        bool, Option("--json", help="Print the answers as JSON.")
    ] = False,
) -> None:
    """Write a page that shows what a fitted model learned.

    How good is it, which features matter, did the prior help, are there outlier tasks?
    The page is one file that works without a network. Nothing is fitted.

    Example: priormtl report exams.model --out report.html

    Example: priormtl report exams.model --data new.csv --title "Exams of 2011"
    """
    with main.require_extra("report", "cli"):
        from priormtl import engines  # noqa: F401
        from priormtl.estimators import load
        from priormtl.reports import report as build_report
    with main.exit_on_error(), main.print_warnings():
        main.check_output(out, model, data)
        main.check_output(coefficients, model, data)
        if out == coefficients:
            raise ValueError(f"--coefficients must be another file than --out {out}.")
        fitted = load(model)
        rows: dict[str, Any] = {}
        if data is not None:
            rows = read_known_rows(fitted, data, task=task, target=target)
        elif task is not None or target is not None:
            raise ValueError("--task and --target are columns of --data. Give --data.")
        made = build_report(fitted, **rows, title=title)
        made.save(out, coefficients=coefficients)
    findings = json.loads(made.to_json())["findings"]
    if as_json:
        main.print_json({"file": str(out), "findings": findings}, ensure_ascii=False)
        return
    for finding in findings:
        echo(f"{finding['question']} {finding['value']}.")
    echo(f"wrote {out}")


def read_known_rows(
    model: Any, data: Path, *, task: str | None, target: str | None
) -> dict[str, Any]:
    """X, y and task of a file, as arguments; columns are the model's own."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from priormtl.engines import naming, open_source

    encoding = getattr(model, "encoding_", None)
    names = getattr(model, "feature_names_in_", None)
    column = getattr(model, "task_column_", None) or getattr(model, "task", None)
    if task is None and isinstance(column, str):
        task = column
    if target is None and encoding is not None:
        target = encoding.target
    for option, given in (("task", task), ("target", target)):
        if given is None:
            raise ValueError(
                f"--data needs --{option} COL: this model does not remember its "
                f"{option} column."
            )
    source = open_source(data)
    try:
        table = source.dataset.to_table()
    except (pa.ArrowException, UnicodeError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise DataFileError(f"{data} cannot be read: {reason}.") from None
    with naming(str(data)):
        present = table.column_names
        if encoding is not None:
            encoding.used_columns(present)
        needed = [] if encoding is not None or names is None else list(map(str, names))
        for name in (task, target, *needed):
            if name not in present:
                raise unknown_name("column", name, present)
    table = table.filter(pc.and_(table[task].is_valid(), table[target].is_valid()))
    if encoding is not None and encoding.missing == "drop":
        table = table.filter(pa.array(~encoding.gaps(table)))
    if not table.num_rows:
        raise DataFileError(
            f"{data} must have rows with known {task!r} and {target!r}."
        )
    _check_targets(model, data, table, target)
    X: Any = table  # an encoding knows what the columns mean
    if encoding is None and names is not None:
        X = table.select(list(names))
    elif encoding is None:
        others = [name for name in present if name not in (task, target)]
        X = np.column_stack([table[name].to_numpy() for name in others])
    y, labels = table[target], table[task]
    if getattr(model, "task", None) is None:
        return {"X": X, "y": y, "task": labels}
    if model.task not in X.column_names:
        X = X.append_column(model.task, labels)
    return {"X": X, "y": y}


def _check_targets(model: Any, data: Path, table: "pa.Table", target: Any) -> None:
    """Refuse texts for a regressor, and numbers whose scores would overflow."""
    import numpy as np
    import pyarrow as pa

    column = table[target]
    if pa.types.is_string(column.type) and not hasattr(model, "classes_"):
        raise DataFileError(
            f"{data}: column {target!r} must hold numbers: got text such as "
            f"{column[0].as_py()!r}."
        )
    if pa.types.is_floating(column.type):
        values = column.to_numpy()
        wrong = values[~(np.abs(values) <= LARGEST_TARGET)]
        if len(wrong):
            raise DataFileError(
                f"{data}: column {target!r} must hold finite numbers up to "
                f"{LARGEST_TARGET:g}: got {wrong[0]:g}. Replace or drop such values."
            )
