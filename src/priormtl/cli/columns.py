"""Options that say what the columns of a table mean, for all commands that learn."""

from pathlib import Path
from typing import Annotated, Any, NamedTuple

from typer import Argument, Option

from priormtl.cli.words import read_categories, split_names, word_option

__all__ = [
    "Categories",
    "Columns",
    "Data",
    "Features",
    "Json",
    "Missing",
    "Target",
    "Task",
    "Weight",
    "Where",
]

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


class Columns(NamedTuple):
    """What columns mean, as typed."""

    task: str
    target: str
    weight: str | None = None
    features: str | None = None
    categories: list[str] | None = None
    missing: str = "error"

    def settings(self) -> dict[str, Any]:
        """Same as arguments of the engines."""
        return self._asdict() | {
            "features": split_names(self.features),
            "categories": read_categories(self.categories),
        }
