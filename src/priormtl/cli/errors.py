"""one_sentence: what users got wrong ends a command with one line and code 2."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from typer import Exit, echo

__all__ = ["one_sentence", "refuse_folder"]


@contextmanager
def one_sentence() -> Iterator[None]:
    """Turn errors about files, names and values into one line, without traceback."""
    try:
        yield
    except (OSError, ValueError) as error:
        echo(f"Error: {error}", err=True)
        raise Exit(2) from None


def refuse_folder(out: Path | None) -> None:
    """Fail before the work if its results have no place."""
    if out is not None and not out.parent.is_dir():
        raise FileNotFoundError(f"folder {out.parent} does not exist: make it first.")
