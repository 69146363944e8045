"""priormtl data: list the data sets, convert originals, and write an example.

The example is that of the demonstration: simulated patients of eight clinics, with a
table to fit, one to predict, and a file of what is known about their measurements.
"""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Context, Option, Typer, echo

from priormtl._files import write_aside, write_whole
from priormtl.cli import main
from priormtl.exceptions import MissingDataError

if TYPE_CHECKING:
    import pyarrow as pa

    from priormtl.datasets import Finding

data = Typer(no_args_is_help=False, **main.SETTINGS)

PATIENTS, NEW, KNOWN = "patients.csv", "new-patients.csv", "known.toml"
FILES = (PATIENTS, NEW, KNOWN)
TASK, TARGET = "clinic", "after"
CLINICS, ROWS, NEW_ROWS = 8, 6, 50  # and patients of each to fit and to predict
DAYS = tuple(f"day{number}" for number in range(1, 7))
STATEMENTS = f"""\
# What is known beforehand about the measurements in {PATIENTS}.

[[group]]  # six measurements of the same blood pressure have similar effects
name = "before"
features = {json.dumps(DAYS)}

[[common]]  # these effects do not depend on the clinic
features = {json.dumps(["age", "weight", *DAYS])}

[[nonpositive]]  # no dose raises the pressure; its effect may differ between clinics
features = ["dose"]
"""


@data.callback(invoke_without_command=True)
def list_data(
    context: Context,
    home: Annotated[
        Path | None, Option(help="Folder of data sets; by default, PRIORMTL_DATA.")
    ] = None,
    as_json: main.Json = False,
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
    main.print_json({"folder": folder, "data": plain}, indent=2)


@data.command()
def convert(
    name: Annotated[str, Argument(help="Data set, as 'priormtl data' lists it.")],
    original: Annotated[list[Path], Argument(help="Original files, as published.")],
    to: Annotated[
        Path | None, Option(help="Folder to write to; by default, PRIORMTL_DATA.")
    ] = None,
    replace: Annotated[
        bool, Option("--replace", help="Overwrite an existing file.")
    ] = False,
    as_json: main.Json = False,
) -> None:
    """Convert the original files of a data set, which are not changed.

    Example: priormtl data convert school school.mat --to ~/data
    """
    from priormtl.datasets import convert_original

    with main.exit_on_error():
        made = convert_original(name, original, data_home=to, replace=replace)
    if as_json:
        main.print_json({"file": str(made.path), "verified": made.verified})
        return
    echo(f"{made.path} written.")
    if not made.verified:
        echo("Its contents differ from those published: load it with verify=False.")


@data.command()
def example(
    to: Annotated[Path, Option(file_okay=False, help="Folder to write to.")] = Path(),
    replace: Annotated[
        bool, Option("--replace", help="Overwrite existing files.")
    ] = False,
    as_json: main.Json = False,
) -> None:
    """Write an example to start with: patients in clinics, and prior knowledge.

    The patients are simulated. Fit a model to them with and without the prior file, and
    compare the errors on the new patients.

    Example: priormtl data example

    Example: priormtl data example --to first-look
    """
    with main.require_extra("data example", "cli"):
        import pyarrow  # noqa: F401
    with main.exit_on_error():
        taken = [str(to / name) for name in FILES if (to / name).exists()]
        if taken and not replace:
            raise FileExistsError(
                f"{', '.join(taken)} already exists. Choose another folder with --to, "
                "or use --replace."
            )
        written = [str(file) for file in write_example(to)]
    if as_json:
        main.print_json({"files": written})
    else:
        echo(f"wrote {', '.join(written)}")
        known, new, prior = written
        fit = f"priormtl fit {known} --task {TASK} --target {TARGET}"
        echo(
            f"Simulated patients in {CLINICS} clinics: {CLINICS * ROWS} to fit, "
            f"{CLINICS * NEW_ROWS} to predict. To see how much prior knowledge helps:\n"
            f"  {fit} --prior {prior} --out with.model\n"
            f"  {fit} --out without.model\n"
            f"  priormtl report with.model --data {new} --without without.model"
        )


def _show(place: str, findings: list["Finding"]) -> None:
    from rich.table import Table

    console = main.open_console(120)
    print_line = partial(console.print, markup=False, highlight=False, soft_wrap=True)
    styles = {"found": "green", "missing": "yellow", "changed": "red", "damaged": "red"}
    table = Table()
    for column in ("name", "what it is", "state"):
        table.add_column(column, no_wrap=True)
    for column in ("rows x features", "tasks"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("original from", overflow="fold")
    for finding in findings:
        source = finding.source
        n, d = source.shape
        state = f"[{styles[finding.state]}]{finding.state}[/]"
        counts = f"{n} x {d}", str(source.n_tasks)
        table.add_row(source.name, source.title, state, *counts, source.origin)
    console.print(table)
    print_line(place)
    if any(finding.state == "missing" for finding in findings):
        console.print("To make the missing files from their originals:")
    for finding in findings:
        missing = finding.state == "missing"
        way_out = finding.source.command if missing else finding.message
        if finding.state != "found":
            print_line(f"  {way_out}")


def draw_patients(rows: int, seed: int) -> tuple["pa.Table", "pa.Table"]:
    """Simulate patients of eight clinics: some to fit, and others to predict.

    The model is that of a multi-centre trial (Brown and Prescott, Applied Mixed Models
    in Medicine, 2015): clinics differ in their level and in the effect of the dose.
    Pressure before treatment was measured on six days, each time with an error, so
    that no single day counts for much.
    """
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    total = rows + NEW_ROWS
    clinic = np.repeat(np.arange(CLINICS), total)
    n = len(clinic)
    level = 4.0 * rng.normal(size=CLINICS)
    effect = -2.0 + 0.8 * rng.normal(size=CLINICS)  # mmHg per mg
    before = rng.normal(150.0, 12.0, n)
    columns = {
        TASK: np.array([f"clinic {number + 1}" for number in clinic]),
        "age": rng.normal(60.0, 10.0, n).round(),
        "weight": rng.normal(80.0, 12.0, n).round(),
        "dose": rng.integers(0, 5, n).astype(float),
    }
    columns |= {day: (before + rng.normal(0.0, 10.0, n)).round() for day in DAYS}
    after = 22.0 + level[clinic] + 0.85 * before + effect[clinic] * columns["dose"]
    after += 0.2 * (columns["age"] - 60.0) + 0.15 * (columns["weight"] - 80.0)
    after += rng.normal(0.0, 6.0, n)
    table = pa.table({**columns, TARGET: after.round()})
    fitted = np.arange(n) % total < rows
    return table.filter(pa.array(fitted)), table.filter(pa.array(~fitted))


def write_example(folder: Path) -> tuple[Path, ...]:
    """Write a table to fit, one to predict, and what is known; return their paths."""
    from pyarrow import csv

    folder.mkdir(parents=True, exist_ok=True)
    for name, table in zip((PATIENTS, NEW), draw_patients(ROWS, seed=0), strict=True):
        with write_aside(folder / name) as file:
            csv.write_csv(table, file)
    write_whole(folder / KNOWN, STATEMENTS.encode())
    return tuple(folder / name for name in FILES)
