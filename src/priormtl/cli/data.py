"""priormtl data: which data sets are at hand, and files made from originals."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Context, Option, Typer, echo

from priormtl.cli.columns import Json
from priormtl.cli.errors import needing, one_sentence
from priormtl.cli.lazy import SETTINGS
from priormtl.cli.plain import to_json
from priormtl.exceptions import MissingDataError

if TYPE_CHECKING:
    from priormtl.datasets import Finding

__all__ = ["app"]

app = Typer(no_args_is_help=False, **SETTINGS)
STYLES = {"found": "green", "missing": "yellow", "changed": "red", "damaged": "red"}


@app.callback(invoke_without_command=True)
def data(
    context: Context,
    home: Annotated[
        Path | None, Option(help="Folder of data sets; PRIORMTL_DATA by default.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List data sets: found, missing, changed or damaged, and where to get them.

    Example: priormtl data --home ~/data
    """
    if context.invoked_subcommand is not None:
        return
    from priormtl.datasets import SOURCES, look_for  # noqa: PLC0415

    findings = [look_for(source, home) for source in SOURCES.values()]
    if as_json:
        echo(to_json({"folder": _folder(home), "data": _plain(findings)}, indent=2))
    else:
        _show(home, findings)


@app.command()
def convert(
    name: Annotated[str, Argument(help="Its name, as 'priormtl data' lists it.")],
    original: Annotated[list[Path], Argument(help="The files as published.")],
    to: Annotated[
        Path | None, Option(help="Folder to write to; PRIORMTL_DATA by default.")
    ] = None,
    replace: Annotated[
        bool, Option("--replace", help="Overwrite an existing file.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a data set's file from its originals, which stay as they are.

    Example: priormtl data convert school school.mat --to ~/data
    """
    from priormtl.datasets import convert_original  # noqa: PLC0415

    with one_sentence():
        made = convert_original(name, original, data_home=to, replace=replace)
    if as_json:
        echo(to_json({"file": str(made.path), "verified": made.verified}))
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
    """Write an example to begin with: patients by age, and what is known of them.

    Example: priormtl data example

    Example: priormtl data example --to first-look
    """
    with needing("data example", "cli"):
        from priormtl.cli.example import FILES, write_example  # noqa: PLC0415
    with one_sentence():
        taken = [str(to / name) for name in FILES if (to / name).exists()]
        if taken and not replace:
            raise FileExistsError(
                f"{', '.join(taken)} must not be there yet: name another folder with "
                "--to, or use --replace."
            )
        written = [str(file) for file in write_example(to)]
    echo(to_json({"files": written}) if as_json else f"wrote {', '.join(written)}")


def _folder(home: Path | None) -> str | None:
    from priormtl.datasets import find_home  # noqa: PLC0415

    try:
        return str(find_home(home))
    except MissingDataError:
        return None


def _plain(findings: list["Finding"]) -> list[dict[str, Any]]:
    return [
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


def _show(home: Path | None, findings: list["Finding"]) -> None:
    from rich.console import Console  # noqa: PLC0415

    console = Console(width=None if Console().is_terminal else 120)
    console.print(_table(findings))
    console.print(_place(home), soft_wrap=True, markup=False, highlight=False)
    if any(finding.state == "missing" for finding in findings):
        console.print("What makes the missing files, once their originals are here:")
    for finding in findings:
        if finding.state != "found":
            line = f"  {_way_out(finding)}"
            console.print(line, soft_wrap=True, markup=False, highlight=False)


def _way_out(finding: "Finding") -> str:
    return finding.source.command if finding.state == "missing" else finding.message


def _table(findings: list["Finding"]) -> Any:
    from rich.table import Table  # noqa: PLC0415

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
        tasks = str(source.n_tasks)
        table.add_row(
            source.name, source.title, state, f"{n} x {d}", tasks, source.origin
        )
    return table


def _place(home: Path | None) -> str:
    from priormtl.datasets import find_home  # noqa: PLC0415

    try:
        return f"Folder: {find_home(home)}"
    except MissingDataError as error:
        return str(error)
