"""priormtl data: list the data sets, convert originals, and write an example.

The example is that of the demonstration: 442 patients of scikit-learn's diabetes data,
in five age groups, with a table to fit, one to predict, and relations of features.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Context, Option, Typer, echo

from priormtl._files import write_aside, write_whole
from priormtl.cli.columns import Json
from priormtl.cli.main import SETTINGS, exit_on_error, print_json, require_extra
from priormtl.exceptions import MissingDataError

if TYPE_CHECKING:
    import pyarrow as pa

    from priormtl.datasets import Finding

app = Typer(no_args_is_help=False, **SETTINGS)
STYLES = {"found": "green", "missing": "yellow", "changed": "red", "damaged": "red"}

PATIENTS, NEW, RELATIONS = "patients.csv", "new-patients.csv", "relations.toml"
FILES = (PATIENTS, NEW, RELATIONS)
TRAINING_ROWS = 300
FEATURES = (
    "sex",
    "bmi",
    "pressure",
    "cholesterol",
    "ldl",
    "hdl",
    "ratio",
    "triglycerides",
    "glucose",
)
OLDEST = (35, 45, 55, 65, 79)  # of each age group
YOUNGEST = (19, *(age + 1 for age in OLDEST[:-1]))
KNOWN = """\
# What is known beforehand about the measurements in patients.csv.

[[similar]]  # LDL is most of the cholesterol
features = ["cholesterol", "ldl"]

[[opposite]]  # the ratio is that of cholesterol to HDL
features = ["hdl", "ratio"]

[[similar]]  # somebody thought so: `priormtl report` shows whether data agree
features = ["bmi", "pressure"]
"""


@app.callback(invoke_without_command=True)
def data(
    context: Context,
    home: Annotated[
        Path | None, Option(help="Folder of data sets; PRIORMTL_DATA by default.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the data sets, their state, and where to get them.

    Example: priormtl data --home ~/data
    """
    if context.invoked_subcommand is not None:
        return
    from priormtl.datasets import SOURCES, check_source, find_home

    findings = [check_source(source, home) for source in SOURCES.values()]
    folder, place = None, ""
    try:
        folder = str(find_home(home))
    except MissingDataError as error:
        place = str(error)
    if not as_json:
        _show(place if folder is None else f"Folder: {folder}", findings)
        return
    plain = [
        {
            "name": finding.source.name,
            "title": finding.source.title,
            "file": finding.source.file,
            "state": finding.state,
            "message": finding.message,
            "rows": finding.source.shape[0],
            "features": finding.source.shape[1],
            "tasks": finding.source.n_tasks,
            "kind": finding.source.kind,
            "origin": finding.source.origin,
            "originals": list(finding.source.originals),
            "command": finding.source.command,
        }
        for finding in findings
    ]
    print_json({"folder": folder, "data": plain}, indent=2)


@app.command()
def convert(
    name: Annotated[str, Argument(help="Data set, as 'priormtl data' lists it.")],
    original: Annotated[list[Path], Argument(help="Original files, as published.")],
    to: Annotated[
        Path | None, Option(help="Folder to write to; PRIORMTL_DATA by default.")
    ] = None,
    replace: Annotated[
        bool, Option("--replace", help="Overwrite an existing file.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make the file of a data set from its original files, which are not changed.

    Example: priormtl data convert school school.mat --to ~/data
    """
    from priormtl.datasets import convert_original

    with exit_on_error():
        made = convert_original(name, original, data_home=to, replace=replace)
    if as_json:
        print_json({"file": str(made.path), "verified": made.verified})
        return
    echo(f"{made.path} written.")
    if not made.verified:
        echo("Its contents differ from those published: load it with verify=False.")


@app.command()
def example(
    to: Annotated[Path, Option(file_okay=False, help="Folder to write to.")] = Path(),
    replace: Annotated[
        bool, Option("--replace", help="Overwrite existing files.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write an example to start with: patients by age, and relations of features.

    Example: priormtl data example

    Example: priormtl data example --to first-look
    """
    with require_extra("data example", "cli"):
        import pyarrow  # noqa: F401
    with exit_on_error():
        taken = [str(to / name) for name in FILES if (to / name).exists()]
        if taken and not replace:
            raise FileExistsError(
                f"{', '.join(taken)} exists already. Choose another folder with --to, "
                "or use --replace."
            )
        written = [str(file) for file in write_example(to)]
    if as_json:
        print_json({"files": written})
    else:
        echo(f"wrote {', '.join(written)}")


def _show(place: str, findings: list["Finding"]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if Console().is_terminal else 120)
    plain: dict[str, Any] = {"soft_wrap": True, "markup": False, "highlight": False}
    table = Table()
    for column in ("name", "what it is", "state"):
        table.add_column(column, no_wrap=True)
    for column in ("rows x features", "tasks"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("original from", overflow="fold")
    for finding in findings:
        source = finding.source
        n, d = source.shape
        state = f"[{STYLES[finding.state]}]{finding.state}[/]"
        counts = f"{n} x {d}", str(source.n_tasks)
        table.add_row(source.name, source.title, state, *counts, source.origin)
    console.print(table)
    console.print(place, **plain)
    if any(finding.state == "missing" for finding in findings):
        console.print("To make the missing files from their originals:")
    for finding in findings:
        missing = finding.state == "missing"
        way_out = finding.source.command if missing else finding.message
        if finding.state != "found":
            console.print(f"  {way_out}", **plain)


def read_patients() -> "pa.Table":
    """442 patients: age group, nine measurements, and progression after a year."""
    import numpy as np
    import pyarrow as pa
    from sklearn.datasets import load_diabetes

    found = load_diabetes(scaled=False)
    age, values = found.data[:, 0], found.data[:, 1:]
    groups = np.array(
        [f"{low}-{high}" for low, high in zip(YOUNGEST, OLDEST, strict=True)]
    )
    columns = {"age": groups[np.searchsorted(OLDEST, age)]}
    columns |= dict(zip(FEATURES, values.T, strict=True))
    return pa.table({**columns, "progression": found.target})


def write_example(folder: Path) -> tuple[Path, ...]:
    """Write a table to fit, one to predict, and relations; return their paths."""
    import numpy as np
    from pyarrow import csv

    table = read_patients()
    order = np.random.default_rng(0).permutation(table.num_rows)
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in ((PATIENTS, order[:TRAINING_ROWS]), (NEW, order[TRAINING_ROWS:])):
        with write_aside(folder / name) as file:
            csv.write_csv(table.take(rows), file)
    write_whole(folder / RELATIONS, KNOWN.encode())
    return tuple(folder / name for name in FILES)
