"""Options whose values are words, and lists of names."""

import csv
from collections.abc import Callable
from typing import Any

from typer import BadParameter, Option

from priormtl.exceptions import unknown_name


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
