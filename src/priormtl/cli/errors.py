"""What users got wrong ends a command with one line and code 2."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from typer import BadParameter, Exit, echo

__all__ = [
    "needing",
    "one_line_usage",
    "one_sentence",
    "refuse_folder",
    "short_warnings",
]

# Typer exports but one of these errors, and may bring a click of its own.
UsageError = BadParameter.__bases__[0]


@contextmanager
def one_sentence() -> Iterator[None]:
    """Turn errors about files, names and values into one line, without traceback."""
    try:
        yield
    except (OSError, ValueError) as error:
        echo(f"Error: {_printable(str(error))}", err=True)
        raise Exit(2) from None


@contextmanager
def one_line_usage() -> Iterator[None]:
    """Turn what click says of wrong options and arguments into one line."""
    try:
        yield
    except UsageError as error:
        message = error.format_message()
        if "\n" in message:  # nothing was typed, and all help is the answer
            raise
        command = "priormtl" if error.ctx is None else error.ctx.command_path
        words = f"{_printable(_ended(message))} See '{command} --help'."
        echo(f"Error: {words}", err=True)
        raise Exit(2) from None


def _ended(message: str) -> str:
    return message if message.endswith((".", "?")) else f"{message}."


def _printable(text: str) -> str:
    """Text of one line, without what could steer a terminal: files may hold it."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


@contextmanager
def needing(command: str, extra: str) -> Iterator[None]:
    """Say which extra a command needs where a package is absent."""
    try:
        yield
    except ImportError as error:
        way_out = f"pip install 'priormtl[{extra}]'"
        echo(f"Error: {command} needs {error.name}: {way_out}", err=True)
        raise Exit(2) from None


@contextmanager
def short_warnings() -> Iterator[None]:
    """Warnings as lines on standard error, each once, without places in the source."""
    with warnings.catch_warnings(record=True) as caught:
        for kind in (UserWarning, RuntimeWarning):
            warnings.simplefilter("default", kind)
        yield
    for words in dict.fromkeys(str(warning.message) for warning in caught):
        echo(f"Warning: {_printable(words)}", err=True)


def refuse_folder(out: Path | None, *inputs: Path | None) -> None:
    """Fail before the work if its results have no place, or would replace an input."""
    if out is None:
        return
    if not out.parent.is_dir():
        raise FileNotFoundError(f"folder {out.parent} does not exist: make it first.")
    for read in inputs:
        if read is not None and _would_replace(out, read):
            raise ValueError(
                f"{out} must be another file than the input {read}, which it would "
                "replace: name another."
            )


def _would_replace(out: Path, read: Path) -> bool:
    """Whether a file to write is one that is read, also in a folder of such files."""
    if not out.exists() or not read.exists():
        return False
    if read.is_dir():
        return read.resolve() in out.resolve().parents
    return out.samefile(read)
