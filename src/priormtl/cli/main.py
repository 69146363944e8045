"""The command group, and what commands share: errors, arguments and columns.

Each command is a function or a group of its name, whose module is imported when the
command is used or listed. These modules import what is slow to load inside their
functions, so that ``--help`` is fast. Errors are one line.
"""

import csv
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from inspect import Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

from typer import Argument, BadParameter, Exit, Option, Typer, echo
from typer.core import TyperGroup
from typer.main import get_command

from priormtl import __version__
from priormtl.exceptions import unknown_name

if TYPE_CHECKING:
    from rich.console import Console
    from typer.models import ArgumentInfo, OptionInfo

    from priormtl.engines import Schema, Source

Facts: TypeAlias = dict[str, Any]  # what a command has to tell, by name, for JSON
Command: TypeAlias = Callable[..., None]

COMMANDS = {
    "demo": "main",
    "fit": "fit",
    "predict": "predict",
    "report": "predict",
    "audit": "predict",
    "compare": "compare",
    "reproduce": "compare",
    "stats": "stats",
    "merge": "stats",
    "data": "data",
}  # and their modules
SETTINGS: Facts = {
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    # A group that is not asked for its own help would load pydantic to read None.
    "context_settings": {"default_map": {"help": False}},
}
# Typer exports only one of these errors, and may bring a click of its own.
UsageError = BadParameter.__bases__[0]


class LazyCommands(Mapping[str, object]):
    """Commands by name, imported when asked for."""

    def __getitem__(self, name: str) -> object:
        group = vars(import_module(f"priormtl.cli.{COMMANDS[name]}"))[name]
        if not isinstance(group, Typer):
            function, group = group, Typer(**SETTINGS)
            group.command(name)(function)
        command = get_command(group)
        command.name = name
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class LazyGroup(TyperGroup):
    """All commands; mistakes in options and arguments are answered in one line."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = LazyCommands()

    def make_context(self, *args: object, **settings: Any) -> Any:
        with one_line_usage():
            return super().make_context(*args, **settings)

    def invoke(self, ctx: object) -> Any:
        with one_line_usage():
            return super().invoke(ctx)


app = Typer(cls=LazyGroup, no_args_is_help=True, **SETTINGS)


def _show_version(wanted: bool) -> None:
    if wanted:
        echo(__version__)
        raise Exit


@app.callback()
def priormtl(
    version: Annotated[
        bool,
        Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Show the version and exit.",
        ),
    ] = False,
) -> None:
    """Multi-task learning with prior information.

    Example: priormtl demo

    Example: priormtl fit exams.csv --task school --target score --out exams.model
    """


# Errors and warnings


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Print errors about files, names and values as one line, and exit with code 2."""
    try:
        yield
    except (OSError, ValueError) as error:
        echo(f"Error: {_printable(in_options(str(error)))}", err=True)
        raise Exit(2) from None


@contextmanager
def one_line_usage() -> Iterator[None]:
    """Print click's usage errors as one line, and exit with code 2."""
    try:
        yield
    except UsageError as error:
        message = error.format_message()
        if "\n" in message:  # nothing was typed, and the help is the answer
            raise
        command = "priormtl" if error.ctx is None else error.ctx.command_path
        end = "" if message.endswith((".", "?")) else "."
        echo(f"Error: {_printable(message)}{end} See '{command} --help'.", err=True)
        raise Exit(2) from None


@contextmanager
def require_extra(command: str, extra: str) -> Iterator[None]:
    """Name the extra that a command needs if a package is not installed."""
    try:
        yield
    except ImportError as error:
        if "pip install" in str(error):  # the library has said what to do
            message = str(error)
        else:
            message = f"{command} needs {error.name}: pip install 'priormtl[{extra}]'"
        echo(f"Error: {message}", err=True)
        raise Exit(2) from None


def takes(request: type, extra: str = "cli") -> Callable[[Command], Command]:
    """Make a command of a function that takes a request, whose fields are its options.

    Mistakes, warnings and packages that are not installed are answered in one line.
    """

    def build(function: Command) -> Command:
        @wraps(function)
        def command(**options: object) -> None:
            name = function.__name__
            with require_extra(name, extra), exit_on_error(), print_warnings():
                import pyarrow  # noqa: F401  (both extras have it)

                function(request(**options))

        # Typer reads the options from the signature: required ones, then the command's
        # own, then those that it shares with others.
        known, levels = signature(request).parameters, request.__mro__
        names = dict.fromkeys(
            n for c in levels for n in vars(c).get("__annotations__", ())
        )
        fields = sorted(
            (known[n] for n in names), key=lambda one: one.default is not one.empty
        )
        command.__signature__ = Signature(fields)  # type: ignore[attr-defined]
        return command

    return build


@contextmanager
def print_warnings() -> Iterator[None]:
    """Print each warning once, as one line on standard error."""
    with warnings.catch_warnings(record=True) as caught:
        for kind in (UserWarning, RuntimeWarning):
            warnings.simplefilter("default", kind)
        yield
    for words in dict.fromkeys(str(warning.message) for warning in caught):
        echo(f"Warning: {_printable(in_options(words))}", err=True)


def in_options(text: str) -> str:
    """A message of the library with options of the command instead of parameters."""
    # What the library advises; the command standardises all features.
    advice = {
        "Raise max_iter, or use standardize=True": "Use a larger --lam",
        "Use standardize=True, or remove": "Remove",
        "Raise max_iter": "Use a larger --lam",
        "cv must leave": "--folds must leave",
        "use a cv that": "use --folds that",
        "max_iter": "--lam",
        "fit_intercept=True": "--intercepts free",
        "fit_intercept": "--intercepts",
        "sample_weight": "--weight",
        "use tabular_model": "use --model tabular",
        "in smooth.": "in --smooth.",
        "lam is chosen": "--lam is chosen",
    }
    names = "task|task_prior|ties|missing|penalty|smooth|trees|lam|--intercepts|cv"
    value = r"""["']?([^\s"';,)]+?)["']?(?=[\s;,.)]|$)"""
    for words, meant in advice.items():
        text = text.replace(words, meant)

    def option(found: re.Match[str]) -> str:
        name = found[1].lstrip("-").replace("_", "-").replace("cv", "folds")
        return f"--{name} {found[2]}"

    return re.sub(rf"(?<![\w-])({names})={value}", option, text)


def print_json(
    value: object, *, ensure_ascii: bool = True, indent: int | None = None
) -> None:
    """Print plain values as JSON; NaN and infinity become null."""
    from priormtl.rendering import to_json

    echo(to_json(value, ensure_ascii=ensure_ascii, indent=indent))


def _printable(text: str) -> str:
    """Text on one line, without control characters, which files may hold."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def check_output(out: Path | None, *inputs: object) -> None:
    """Fail before the work if its result cannot be written, or would replace an input.

    An input may also be a folder of files, or the address of a table elsewhere (text).
    """
    if out is None:
        return
    if not out.parent.is_dir():
        raise FileNotFoundError(f"folder {out.parent} does not exist. Create it first.")
    for read in inputs:
        if not isinstance(read, Path) or not out.exists() or not read.exists():
            continue
        inside = read.is_dir() and read.resolve() in out.resolve().parents
        if inside or (not read.is_dir() and out.samefile(read)):
            raise ValueError(
                f"{out} would replace the input {read}. Choose another output file."
            )


def open_console(width: int) -> "Console":
    """Console for tables, as wide as the terminal, or as given where there is none."""
    from rich.console import Console

    return Console(width=None if Console().is_terminal else width)


# Arguments


def word_of(known: tuple[str, ...]) -> Callable[[str], str]:
    """Build a parser of one of these words, which suggests the nearest for others."""

    def word(text: str) -> str:
        if text not in known:
            raise BadParameter(str(unknown_name("value", text, known)))
        return text

    return word


def word_option(*known: str, help: str) -> "OptionInfo":
    return Option(parser=word_of(known), metavar="|".join(known), help=help)


def column_option(help: str, *names: str) -> "OptionInfo":
    return Option(*names, metavar="COL", help=help)


def file_option(help: str) -> "OptionInfo":
    return Option(dir_okay=False, help=help)


def least_option(least: int, help: str) -> "OptionInfo":
    return Option(min=least, help=help)


def read_location(text: str) -> Path | str:
    """Read a path, or an address such as s3://bucket/folder, which stays text."""
    return text if "://" in text else Path(text)


def _read_delimiter(text: str) -> str:
    named = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "bar": "|"}
    found = named.get(text.lower(), text)
    if len(found) != 1:
        raise BadParameter(f"must be one character or 'tab': got {text!r}.")
    return found


def data_argument(help: str) -> "ArgumentInfo":
    return Argument(metavar="DATA", parser=read_location, help=help)


DATA = data_argument(
    "Table to read: a CSV, Parquet, Arrow or JSON lines file, a folder of such files, "
    "an address such as s3://bucket/folder, a spreadsheet, a file of JSON, Stata, SAS "
    "or SPSS, a zip archive, SQLite (data.db#table), or - for the standard input."
)
MODEL = Argument(metavar="MODEL", help="Model file of 'priormtl fit' or priormtl.save.")
NAMES = "A,B,C"
Json = Annotated[bool, Option("--json", help="Print the result as JSON.")]
Prior = Annotated[
    str | None,
    Option(
        metavar="FILE|natural",
        help="Prior knowledge about features and tasks: a TOML or CSV file, or "
        "'natural' for the 20 strongest correlations of features.",
    ),
]
Loss = Annotated[
    str,
    word_option(
        "squared",
        "poisson",
        "gamma",
        "negative_binomial",
        help="Loss of numbers: squared, or that of counts (poisson, negative_binomial) "
        "or of positive amounts (gamma).",
    ),
]
Exposure = Annotated[
    str | None,
    column_option(
        "Column of exposures, such as populations or durations, to which counts are "
        "proportional."
    ),
]
Offset = Annotated[str | None, column_option("Column of known parts of scores.")]
Weight = Annotated[str | None, column_option("Column with the weight of each row.")]


@dataclass(frozen=True, kw_only=True)
class RowOptions:
    """How a table is read, and which of its rows."""

    where: Annotated[
        str | None,
        Option(
            metavar="TEXT", help="Read only rows that match, such as 'year >= 2010'."
        ),
    ] = None
    delimiter: Annotated[
        str | None,
        Option(
            parser=_read_delimiter,
            metavar="CHAR",
            help="Character between the columns of a CSV file; detected by default.",
        ),
    ] = None
    decimal: Annotated[
        str | None,
        Option(
            parser=word_of((".", ",")),
            metavar=".|,",
            help="Decimal separator of the numbers in a CSV file; detected by default.",
        ),
    ] = None

    def open(self, data: Path) -> "Source":
        """Open a table."""
        from priormtl.engines import open_source

        dialect = {"delimiter": self.delimiter, "decimal": self.decimal}
        return open_source(data, self.where, **dialect)


class OpenTable(NamedTuple):
    """A table, and what its columns mean."""

    source: "Source"
    schema: "Schema"


@dataclass(frozen=True, kw_only=True)
class TableOptions(RowOptions):
    """A table, and what its columns mean."""

    data: Annotated[Path | None, DATA]
    target: Annotated[str | None, column_option("Column to predict.")]
    task: Annotated[
        str | None,
        Option(
            metavar="COL[,COL]",
            help="Column that contains the task of each row; for nested tasks several, "
            "from coarse to fine, such as district,school.",
        ),
    ] = None
    features: Annotated[
        str | None,
        Option(
            metavar=NAMES, help="Columns to use as features; by default, all others."
        ),
    ] = None
    drop: Annotated[
        str | None, Option(metavar=NAMES, help="Columns not to use as features.")
    ] = None
    categories: Annotated[
        list[str] | None,
        Option(
            metavar="COL[=A,B]",
            help="Treat a column as categorical, with the given values or those that "
            "occur. Can be repeated.",
        ),
    ] = None
    missing: Annotated[
        str,
        word_option(
            "error",
            "drop",
            "mean",
            help="What to do with missing values: stop with an error, drop the row, or "
            "fill in the mean of the column.",
        ),
    ] = "error"
    as_json: Json = False

    def open_table(self, weight: str | None, *others: str | None) -> OpenTable:
        """Open the table, and look up its columns; others are read as features are.

        The task must be named, since one task is hardly ever meant.
        """
        from priormtl.data import join_names
        from priormtl.engines import Schema

        assert self.data is not None
        source = self.open(self.data)
        columns, task = source.columns, self.task
        if task is None:
            texts = [name for name in columns if source.holds_text(name)]
            names = list(dict.fromkeys([*texts, *columns]))
            raise ValueError(
                f"--task COL is missing: which column of {source.name} contains the "
                f"task (school, customer, machine …) of each row? It has {names[:12]}."
            )
        if self.target is None:
            raise ValueError(f"fit needs --target COL, a column of {self.data}.")
        roles = [name for name in others if name is not None]
        for name in roles:
            if name not in columns:
                raise unknown_name("column", name, columns)
        schema = Schema(
            task if task in columns else str(join_names(split_names(task))),
            self.target,
            weight,
            split_names(",".join([self.features, *roles]) if self.features else None),
            read_categories(self.categories),
            self.missing,
            drop=split_names(self.drop) or (),
        )
        return OpenTable(source, schema)


@dataclass(frozen=True, kw_only=True)
class DemoRequest:
    """Options of the demonstration."""

    out: Annotated[
        Path, Option(file_okay=False, help="Folder for an example and its report.")
    ] = Path("demo")


@takes(DemoRequest)
def demo(request: DemoRequest) -> None:
    """Fit related tasks to few rows, with and without a prior; write a report.

    Example: priormtl demo

    Example: priormtl demo --out first-look
    """
    from priormtl.cli.demonstration import show_demonstration

    show_demonstration(request.out)


def split_names(names: str | None) -> list[str] | None:
    """Split names at commas; names in double quotes may contain commas."""
    if names is None:
        return None
    found = next(csv.reader([names], skipinitialspace=True), [])
    return [name.strip() for name in found if name.strip()]


def read_periods(text: str) -> dict[str, float | None]:
    """Columns with their periods, from a text such as hour:24,age; None: not given."""
    found: dict[str, float | None] = {}
    for name in split_names(text) or []:
        column, _, period = name.rpartition(":")
        try:
            found[column or name] = float(period) if column else None
        except ValueError:  # a colon in a name
            found[name] = None
    return found


def read_categories(texts: list[str] | None) -> dict[str, list[str]]:
    """Columns and their values, from texts such as sex=f,m."""
    found = {}
    for text in texts or []:
        name, equals, values = text.partition("=")
        if not name or (equals and not values):
            raise ValueError(
                f"--categories must look like COL or COL=A,B: got {text!r}."
            )
        found[name] = split_names(values) or []
    return found
