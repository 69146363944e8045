"""Arguments that commands share: tables, model files, and what columns mean.

Some options take one of a few words, others lists of names.
"""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, BadParameter, Option

from priormtl.exceptions import unknown_name

if TYPE_CHECKING:
    from priormtl.engines import Schema, Source

MOST_NAMES = 12  # of columns that are listed


def word_of(known: tuple[str, ...]) -> Callable[[str], str]:
    """Build a parser of one of these words, which suggests the nearest for others."""

    def word(text: str) -> str:
        if text not in known:
            raise BadParameter(str(unknown_name("value", text, known)))
        return text

    return word


def word_option(*known: str, help: str) -> Any:
    return Option(parser=word_of(known), metavar="|".join(known), help=help)


def read_location(text: str) -> Path | str:
    """Read a path, or an address such as s3://bucket/folder, which stays text."""
    return text if "://" in text else Path(text)


DATA_HELP = (
    "Table to read: a CSV, Parquet or Arrow file, a folder of such files, or an "
    "address such as s3://bucket/folder."
)
Data = Annotated[Path, Argument(metavar="DATA", parser=read_location, help=DATA_HELP)]
ModelFile = Annotated[
    Path,
    Argument(metavar="MODEL", help="Model file of 'priormtl fit' or priormtl.save."),
]
Task = Annotated[
    str | None,
    Option(
        metavar="COL[,COL]",
        help="Column that contains the task of each row; for nested tasks several, "
        "from coarse to fine, such as district,school.",
    ),
]
Target = Annotated[str, Option(metavar="COL", help="Column to predict.")]
Weight = Annotated[
    str | None, Option(metavar="COL", help="Column with the weight of each row.")
]
Features = Annotated[
    str | None,
    Option(metavar="A,B,C", help="Columns to use as features; by default, all others."),
]
Drop = Annotated[
    str | None, Option(metavar="A,B,C", help="Columns not to use as features.")
]
Categories = Annotated[
    list[str] | None,
    Option(
        metavar="COL[=A,B]",
        help="Treat a column as categorical, with the given values or those that "
        "occur. Can be repeated.",
    ),
]
Where = Annotated[
    str | None,
    Option(metavar="TEXT", help="Read only rows that match, such as 'year >= 2010'."),
]
Missing = Annotated[
    str,
    word_option(
        "error",
        "drop",
        "mean",
        help="What to do with missing values: stop with an error, drop the row, or "
        "fill in the mean of the column.",
    ),
]
Prior = Annotated[
    str | None,
    Option(
        metavar="FILE|natural",
        help="Prior knowledge about features and tasks: a TOML or CSV file, or "
        "'natural' for the 20 strongest correlations of features.",
    ),
]


def _read_delimiter(text: str) -> str:
    named = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "bar": "|"}
    found = named.get(text.lower(), text)
    if len(found) != 1:
        raise BadParameter(f"must be one character or 'tab': got {text!r}.")
    return found


Delimiter = Annotated[
    str | None,
    Option(
        parser=_read_delimiter,
        metavar="CHAR",
        help="Character between the columns of a CSV file; detected by default.",
    ),
]
Decimal = Annotated[
    str | None,
    Option(
        parser=word_of((".", ",")),
        metavar=".|,",
        help="Decimal separator of the numbers in a CSV file; detected by default.",
    ),
]
Json = Annotated[bool, Option("--json", help="Print the result as JSON.")]


def read_schema(
    task: str,
    target: str,
    weight: str | None = None,
    features: str | None = None,
    categories: list[str] | None = None,
    missing: str = "error",
    drop: str | None = None,
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
        drop=split_names(drop) or (),
    )


def require_task(task: str | None, source: "Source") -> str:
    """Return the task column, or ask for it, since one task is hardly ever meant."""
    if task is not None:
        from priormtl.data import join_names

        return task if task in source.columns else str(join_names(split_names(task)))
    names = [name for name in source.columns if source.holds_text(name)]
    names += [name for name in source.columns if name not in names]
    raise ValueError(
        f"--task COL is missing: which column of {source.name} contains the task "
        f"(school, customer, machine …) of each row? It has {names[:MOST_NAMES]}."
    )


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
