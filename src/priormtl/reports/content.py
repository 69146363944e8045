"""Content of a report as plain frozen data, and how its numbers and names are written.

A report answers five questions (``Finding``), lists the tables behind the answers
(``Table``) and holds the largest coefficients (``Block``). How that is shown is up to
:mod:`priormtl.reports.rendering`.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.rendering import spell_number

Number = float | int | str | None
LONGEST_LABEL = 120  # characters; longer names are cut
MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class Finding:
    """One question that readers have, and its answer."""

    key: str
    question: str
    value: str  # the answer in a few words
    sentence: str
    note: str = ""  # limits of the answer
    numbers: Mapping[str, Number] | None = None  # the same for programs


@dataclass(frozen=True, eq=False)
class Column:
    """A named column: texts, or numbers where NaN is unknown."""

    name: str  # in files
    label: str  # on pages
    values: tuple[str, ...] | Array

    @classmethod
    def of(cls, name: str, label: str, values: Iterable[object]) -> Self:
        """Labels as texts, if the first value is one; else numbers, None as NaN."""
        found = list(values)
        if found and isinstance(found[0], str):
            return cls(name, label, tuple(map(spell_label, found)))
        return cls(name, label, np.array(found, dtype=np.float64))

    @property
    def is_text(self) -> bool:
        return isinstance(self.values, tuple)

    def take(self, rows: Index) -> Self:
        if isinstance(self.values, tuple):
            return replace(self, values=tuple(self.values[i] for i in rows))
        return replace(self, values=self.values[rows])


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length under a title."""

    name: str
    title: str
    columns: tuple[Column, ...]
    note: str = ""
    left_out: int = 0  # rows that did not fit on the page

    def __len__(self) -> int:
        return len(self.columns[0].values)

    def __getitem__(self, name: str) -> tuple[str, ...] | Array:
        return next(c.values for c in self.columns if c.name == name)

    def take(self, rows: Index) -> Self:
        """Only these rows, in this order; the others are counted."""
        columns = tuple(column.take(rows) for column in self.columns)
        gone = len(self) - len(rows)
        return replace(self, columns=columns, left_out=self.left_out + gone)


@dataclass(frozen=True, eq=False)
class Block:
    """Coefficients of the first listed features in the listed tasks."""

    values: Array  # (features, tasks)
    features_left_out: int  # with a nonzero coefficient
    tasks_left_out: int


@dataclass(frozen=True, eq=False)
class Content:
    """All that a report says."""

    title: str
    facts: tuple[tuple[str, str], ...]
    findings: tuple[Finding, ...]
    tables: tuple[Table, ...]
    block: Block
    metric: str  # of the scores by task; empty if there are none

    def table(self, name: str) -> Table | None:
        return next((table for table in self.tables if table.name == name), None)

    def finding(self, key: str) -> Finding:
        return next(finding for finding in self.findings if finding.key == key)

    @property
    def block_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        features, tasks = self.table("features"), self.table("tasks")
        assert features is not None
        assert tasks is not None
        k, t = np.shape(self.block.values)
        names, labels = features["feature"], tasks["task"]
        return tuple(map(str, names[:k])), tuple(map(str, labels[:t]))


def spell(number: float, digits: int = 4) -> str:
    """Write a number as in tables, but without exponent below ten million."""
    if math.isnan(number):
        return "unknown"
    text = spell_number(number, digits)
    if abs(number) < 1e7 and ("e+" in text or abs(number) >= 1e4):
        return f"{float(f'{number:.{digits}g}'):,.0f}".replace("-", MINUS)
    return text


def percent(share: float) -> str:
    """Write a share as a percentage of two or three digits."""
    value = 100.0 * share
    digits = 0 if abs(value) >= 9.95 else 1
    return f"{value:.{digits}f} %".replace("-", MINUS)


def spell_label(label: object) -> str:
    """Name of a feature or task as text that any file can hold."""
    # Halves of surrogate pairs have no place in UTF-8.
    text = str(label).encode("utf-8", "replace").decode("utf-8")
    cut = len(text) > LONGEST_LABEL
    return f"{text[: LONGEST_LABEL - 1]}…" if cut else text
