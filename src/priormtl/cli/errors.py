"""one_sentence: what users got wrong ends a command with one line and code 2."""

from collections.abc import Iterator
from contextlib import contextmanager

from typer import Exit, echo

__all__ = ["one_sentence"]


@contextmanager
def one_sentence() -> Iterator[None]:
    """Turn errors about files, names and values into one line, without traceback."""
    try:
        yield
    except (OSError, ValueError) as error:
        echo(f"Error: {error}", err=True)
        raise Exit(2) from None
