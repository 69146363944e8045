"""priormtl report and audit: what a fitted model learned, and whether data agree.

Rows are read as the model reads them: columns by the names that it remembers,
and rows without task or target left out.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option, echo

from priormtl.cli.columns import (
    Decimal,
    Delimiter,
    ModelFile,
    Where,
    read_location,
    split_names,
)
from priormtl.cli.main import (
    check_output,
    exit_on_error,
    print_json,
    print_warnings,
    require_extra,
)
from priormtl.exceptions import DataFileError, unknown_name

if TYPE_CHECKING:
    import pyarrow as pa

    from priormtl.engines import Source

LARGEST_TARGET = 1e100  # as in fits


def report(
    model: ModelFile,
    out: Annotated[Path, Option(dir_okay=False, help="HTML page to write.")] = Path(
        "report.html"
    ),
    data: Annotated[
        Path | None,
        Option(
            parser=read_location,
            metavar="DATA",
            help="Rows to score, preferably new ones: a CSV, Parquet or Arrow file, a "
            "folder of such files, or an address.",
        ),
    ] = None,
    where: Where = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    task: Annotated[
        str | None,
        Option(
            metavar="COL",
            help="Column of --data with the tasks; by default, as in the fit.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        Option(
            metavar="COL",
            help="Column of --data with the targets; by default, as in the fit.",
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
    """Write a page that shows what a fitted model has learned.

    It shows how well the model predicts, which features matter, whether the prior
    helped, and which tasks are outliers. The page is one file that works offline.
    Nothing is fitted.

    Example: priormtl report exams.model --out report.html

    Example: priormtl report exams.model --data new.csv --title "Exams of 2011"
    """
    with require_extra("report", "cli"):
        from priormtl import engines
        from priormtl.reports import report as build_report
        from priormtl.storage import load
    with exit_on_error(), print_warnings():
        check_output(out, model, data)
        check_output(coefficients, model, data)
        if out == coefficients:
            raise ValueError(
                f"--coefficients and --out must be different files: both are {out}."
            )
        fitted = load(model)
        rows: dict[str, Any] = {}
        if data is not None:
            source = engines.open_source(
                data, where, delimiter=delimiter, decimal=decimal
            )
            rows = read_known_rows(fitted, source, task=task, target=target)
        elif task is not None or target is not None:
            raise ValueError("--task and --target are columns of --data. Give --data.")
        elif where is not None:
            raise ValueError("--where chooses rows of --data. Give --data.")
        named = None if data is None else data.name
        made = build_report(fitted, **rows, title=title, source=named)
        made.save(out, coefficients=coefficients)
    findings = json.loads(made.to_json())["findings"]
    if as_json:
        print_json({"file": str(out), "findings": findings}, ensure_ascii=False)
        return
    for finding in findings:
        echo(f"{finding['question']} {finding['value']}.")
    echo(f"wrote {out}")


def audit(
    model: ModelFile,
    data: Annotated[
        Path,
        Argument(
            parser=read_location,
            metavar="DATA",
            help="Rows that the model was fitted to: a CSV, Parquet or Arrow file, a "
            "folder of such files, or an address.",
        ),
    ],
    where: Where = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    task: Annotated[
        str | None,
        Option(metavar="COL", help="Column with the tasks; by default as fitted."),
    ] = None,
    target: Annotated[
        str | None,
        Option(metavar="COL", help="Column with the targets; by default as fitted."),
    ] = None,
    folds: Annotated[
        int,
        Option(min=0, help="Folds to compare fits with and without prior; 0: skip."),
    ] = 5,
    as_json: Annotated[
        bool, Option("--json", help="Print all values as JSON.")
    ] = False,
) -> None:
    """Test whether the data agree with the prior of a fitted model.

    Each statement of the prior is tested, and held-out rows are predicted with and
    without the prior.

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


def read_known_rows(
    model: Any, data: "Source | Path", *, task: str | None, target: str | None
) -> dict[str, Any]:
    """X, y and task of a table, as arguments; columns are the model's own."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from priormtl.data import join_names
    from priormtl.engines import naming, open_source
    from priormtl.engines.columns import join_tasks

    design = getattr(model, "design_", None)
    names = None if design is None else design.names
    if design is not None and design.is_plain:
        design = None
    column = getattr(model, "task_column_", None) or getattr(model, "task", None)
    tabular = model[0] if hasattr(model, "steps") else None
    if tabular is not None:
        column, names, design = tabular.task, tabular.design_.sources, None
        target = target or tabular.design_.target
    if task is not None:
        task = join_names(split_names(task))
    elif isinstance(join_names(column), str):
        task = join_names(column)
    if target is None and design is not None:
        target = design.target
    for option, given in (("task", task), ("target", target)):
        if given is None:
            raise ValueError(
                f"--data needs --{option} COL, because the model file does not name "
                f"its {option} column."
            )
    source = open_source(data)
    name = source.name
    try:
        table = source.dataset.to_table(filter=source.where)
    except (pa.ArrowException, UnicodeError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise DataFileError(f"{name} cannot be read: {reason}.") from None
    table = join_tasks(table, task)
    with naming(name):
        present = table.column_names
        if design is not None:
            design.used_columns(present)
        needed = [] if design is not None or names is None else list(map(str, names))
        for column in (task, target, *needed):
            if column not in present:
                raise unknown_name("column", column, present)
    table = table.filter(pc.and_(table[task].is_valid(), table[target].is_valid()))
    if design is not None and design.missing == "drop":
        table = table.filter(pa.array(~design.gaps(table)))
    if not table.num_rows:
        raise DataFileError(
            f"{name} must have rows with known {task!r} and {target!r}."
        )
    _check_targets(model, name, table, target)
    X: Any = table  # a design knows what the columns mean
    if design is None and names is not None:
        X = table.select(list(names))
    elif design is None:
        others = [one for one in present if one not in (task, target)]
        X = np.column_stack([table[one].to_numpy() for one in others])
    y, labels = table[target], table[task]
    if tabular is not None:
        # Columns that the fit has seen but does not use need not be there.
        columns = {
            str(one): X[one] if one in tabular.design_.sources else pa.nulls(len(y))
            for one in tabular.feature_names_in_
        }
        return {"X": pa.table(columns | {join_names(tabular.task): labels}), "y": y}
    if getattr(model, "task", None) is None:
        return {"X": X, "y": y, "task": labels}
    if join_names(model.task) not in X.column_names:
        X = X.append_column(join_names(model.task), labels)
    return {"X": X, "y": y}


def _check_targets(model: object, data: str, table: "pa.Table", target: object) -> None:
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
