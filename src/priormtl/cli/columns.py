"""Options that say what the columns of a table mean, shared by all commands."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from priormtl.cli.words import read_categories, split_names, word_option

if TYPE_CHECKING:
    from priormtl.engines import Schema

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
