"""Content: what a report says, as plain frozen data without any layout."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from priormtl._arrays import Array, Index

__all__ = ["Block", "Column", "Content", "Finding", "Number", "Table"]

Number = float | int | str | None


@dataclass(frozen=True)
class Finding:
    """One question that readers have, and its answer."""

    key: str
    question: str
    value: str  # the answer in a few words
    sentence: str
    note: str = ""  # what limits the answer
    numbers: Mapping[str, Number] | None = None  # the same for machines


@dataclass(frozen=True, eq=False)
class Column:
    """A named column: texts, or numbers where NaN is unknown."""

    name: str  # in files
    label: str  # on pages
    values: tuple[str, ...] | Array

    @property
    def is_text(self) -> bool:
        """Whether values are texts."""
        return isinstance(self.values, tuple)

    def take(self, rows: Index) -> Self:
        """Only these rows, in this order."""
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
    left_out: int = 0  # rows that had no place

    def __len__(self) -> int:
        return len(self.columns[0].values)

    def __getitem__(self, name: str) -> tuple[str, ...] | Array:
        """Values of a column."""
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
    features_left_out: int  # with a coefficient that is not zero
    tasks_left_out: int

    @property
    def is_whole(self) -> bool:
        """Whether every coefficient that is not zero is here."""
        return not self.features_left_out and not self.tasks_left_out


@dataclass(frozen=True, eq=False)
class Content:
    """All that a report says."""

    title: str
    facts: tuple[tuple[str, str], ...]
    findings: tuple[Finding, ...]
    tables: tuple[Table, ...]
    block: Block
    metric: str  # of the tasks' scores; empty where there are none

    def table(self, name: str) -> Table | None:
        """Table of this name, if there is one."""
        return next((table for table in self.tables if table.name == name), None)

    def finding(self, key: str) -> Finding:
        """Answer to one question."""
        return next(finding for finding in self.findings if finding.key == key)

    @property
    def block_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Features and tasks of the block."""
        features, tasks = self.table("features"), self.table("tasks")
        assert features is not None
        assert tasks is not None
        k, t = np.shape(self.block.values)
        names, labels = features["feature"], tasks["task"]
        return tuple(map(str, names[:k])), tuple(map(str, labels[:t]))
