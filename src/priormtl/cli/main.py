"""The command group: commands are loaded when used, and errors are one line.

Each command is a function or a group of its name, whose module is imported when the
command is used or listed. These modules import what is slow to load inside their
functions, so that ``--help`` is fast.
"""

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

from typer import BadParameter, Exit, Option, Typer, echo
from typer.core import TyperGroup
from typer.main import get_command

from priormtl import __version__

COMMANDS = {
    "demo": "main",
    "fit": "fit",
    "predict": "predict",
    "report": "report",
    "audit": "report",
    "compare": "compare",
    "reproduce": "reproduce",
    "stats": "stats",
    "merge": "stats",
    "data": "data",
}  # and their modules
SETTINGS: dict[str, Any] = {
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    # A group that is not asked for its own help would load pydantic to read None.
    "context_settings": {"default_map": {"help": False}},
}
# Typer exports only one of these errors, and may bring a click of its own.
UsageError = BadParameter.__bases__[0]


class LazyCommands(Mapping[str, Any]):
    """Commands by name, imported when asked for."""

    def __getitem__(self, name: str) -> Any:
        group = getattr(import_module(f"priormtl.cli.{COMMANDS[name]}"), name)
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


def demo(
    out: Annotated[
        Path, Option(file_okay=False, help="Folder for an example and its report.")
    ] = Path("demo"),
) -> None:
    """Fit related tasks to few rows, with and without a prior; write a report.

    Example: priormtl demo

    Example: priormtl demo --out first-look
    """
    with require_extra("demo", "cli"):
        from priormtl.cli.demonstration import show_demonstration
    with exit_on_error():
        show_demonstration(out)


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
        way_out = f"pip install 'priormtl[{extra}]'"
        echo(f"Error: {command} needs {error.name}: {way_out}", err=True)
        raise Exit(2) from None


@contextmanager
def print_warnings() -> Iterator[None]:
    """Print each warning once, as one line on standard error."""
    with warnings.catch_warnings(record=True) as caught:
        for kind in (UserWarning, RuntimeWarning):
            warnings.simplefilter("default", kind)
        yield
    for words in dict.fromkeys(str(warning.message) for warning in caught):
        echo(f"Warning: {_printable(in_options(words))}", err=True)


# What the library advises, in words of the command, which standardises all features.
ADVICE = {
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
OPTIONS = ("task", "task_prior", "ties", "missing", "penalty", "smooth", "trees", "lam")
ASSIGNED = re.compile(
    rf"""(?<![\w-])({"|".join(OPTIONS)}|--intercepts|cv)=["']?([^\s"';,)]+?)["']?(?=[\s;,.)]|$)"""
)


def in_options(text: str) -> str:
    """A message of the library with options of the command instead of parameters."""
    for words, meant in ADVICE.items():
        text = text.replace(words, meant)

    def option(found: re.Match[str]) -> str:
        name = found[1].lstrip("-").replace("_", "-").replace("cv", "folds")
        return f"--{name} {found[2]}"

    return ASSIGNED.sub(option, text)


def print_json(value: object, **layout: Any) -> None:
    """Print plain values as JSON; NaN and infinity become null."""
    from priormtl.rendering import to_json

    echo(to_json(value, **layout))


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
