"""Options whose values are some words, and lists of names."""

import csv
from collections.abc import Callable
from typing import Any

from typer import BadParameter, Option

from priormtl.exceptions import unknown_name

__all__ = ["count", "read_categories", "split_names", "word_of", "word_option"]


def word_of(known: tuple[str, ...]) -> Callable[[str], str]:
    """Build a reader of one of these words, which answers others with the nearest."""

    def word(text: str) -> str:
        if text not in known:
            raise BadParameter(str(unknown_name("value", text, known)))
        return text

    return word


def word_option(*known: str, help: str) -> Any:
    """Build an option that takes one of these words."""
    return Option(parser=word_of(known), metavar="|".join(known), help=help)


def count(n: int, noun: str) -> str:
    """Say how many there are of something, such as 1 task or 2 tasks."""
    return f"{n} {noun}{'' if n == 1 else 's'}"


def split_names(names: str | None) -> list[str] | None:
    """Names between commas; those in double quotes may hold commas."""
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
