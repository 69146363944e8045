"""Options that say what the columns of a table mean, shared by all commands.

Some options take one of a few words, others lists of names.
"""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, BadParameter, Option

from priormtl.exceptions import unknown_name

if TYPE_CHECKING:
    from priormtl.engines import Schema


def word_of(known: tuple[str, ...]) -> Callable[[str], str]:
    """Build a parser of one of these words, which suggests the nearest for others."""

    def word(text: str) -> str:
        if text not in known:
            raise BadParameter(str(unknown_name("value", text, known)))
        return text

    return word


def word_option(*known: str, help: str) -> Any:
    """Build an option that takes one of these words."""
    return Option(parser=word_of(known), metavar="|".join(known), help=help)


Data = Annotated[
    Path, Argument(metavar="DATA", help="CSV, Parquet or Arrow file, or a folder.")
]
Task = Annotated[str, Option(metavar="COL", help="Column of the tasks.")]
Target = Annotated[str, Option(metavar="COL", help="Column of the targets.")]
Weight = Annotated[str | None, Option(metavar="COL", help="Column of the weights.")]
Features = Annotated[
    str | None, Option(metavar="A,B,C", help="Features; else all other columns.")
]
Categories = Annotated[
    list[str] | None,
    Option(metavar="COL=A,B", help="Values of a column; else those that it has."),
]
Where = Annotated[
    str | None, Option(metavar="TEXT", help="Rows to read, as 'year >= 2010'.")
]
Missing = Annotated[
    str,
    word_option(
        "error",
        "drop",
        "mean",
        help="Missing values: an error, a dropped row, or the mean.",
    ),
]
Json = Annotated[bool, Option("--json", help="Print JSON.")]


def read_schema(
    task: str,
    target: str,
    weight: str | None = None,
    features: str | None = None,
    categories: list[str] | None = None,
    missing: str = "error",
) -> "Schema":
    """What the columns of a table mean, from options as typed."""
    from priormtl.engines import Schema

    return Schema(
        task,
        target,
        weight,
        split_names(features),
        read_categories(categories),
        missing,
    )


def split_names(names: str | None) -> list[str] | None:
    """Split names at commas; names in double quotes may contain commas."""
    if names is None:
        return None
    found = next(csv.reader([names], skipinitialspace=True), [])
    return [name.strip() for name in found if name.strip()]


def read_categories(texts: list[str] | None) -> dict[str, list[str]]:
    """Columns and their values, from texts such as sex=f,m."""
    found = {}
    for text in texts or []:
        name, equals, values = text.partition("=")
        if not equals or not values:
            raise ValueError(f"--categories must look like COL=A,B: got {text!r}.")
        found[name] = split_names(values) or []
    return found
