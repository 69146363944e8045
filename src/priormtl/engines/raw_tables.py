"""Raw tables in files, as ``tabular_model`` takes them: whole, or a sample and sums.

Texts, categories, dates and gaps of features stay as they are, for a ``Design`` to
learn from. ``RawTable.load`` reads a table that memory holds. Of a larger one,
``sample`` reads rows that can choose a model: whole tasks, by hashes of their labels,
or rows of some tasks, by hashes of their values, where tasks are large. Neither depends
on the order of the rows. ``summarize`` then encodes all rows by the design of the
sample, piece by piece, and adds up their statistics.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Self, TypeVar

import numpy as np
import pyarrow as pa

from priormtl._arrays import Array
from priormtl.data import (
    TaskStatistics,
    declares_order,
    from_codes,
    keep_tasks,
    summarize_tasks,
)
from priormtl.design import Design
from priormtl.engines.batches import choose_rows
from priormtl.engines.columns import (
    find_gaps,
    hash_rows,
    read_numbers,
    read_tasks,
    read_weights,
)
from priormtl.engines.files import MixedColumnError, naming
from priormtl.engines.schema import Schema, Wanted
from priormtl.engines.sources import Source, prefetch
from priormtl.exceptions import DataFileError

MOST_CELLS = 20_000_000  # rows × columns; curves need about ten times the memory
# Rows of a sample: a search over them takes about a minute.
SAMPLED_ROWS = 50_000
# Tasks of a sample of large tasks, at least: the standard deviation of effects among as
# many is known to 3 %, 1 / √(2 · 500).
SAMPLED_TASKS = 500

T = TypeVar("T")


class Frame(NamedTuple):
    """A table in memory: features with the task, targets and weights."""

    X: pa.Table
    y: np.ndarray  # (n,)
    weight: Array | None  # (n,)
    rows: int  # that were read
    dropped: int
    all_tasks: int | None = None  # of the table of which this is a sample


class RawTable(NamedTuple):
    """A table in files whose features are read as they are."""

    source: Source
    schema: Schema
    wanted: Wanted
    complete: bool = False  # whether gaps in features are treated as those in targets

    @classmethod
    def of(
        cls,
        source: Source,
        schema: Schema,
        *,
        exact: bool = False,
        complete: bool = False,
    ) -> Self:
        """Table of a source; ``exact`` keeps integers of CSV files as targets.

        Classes need the latter.
        """
        wanted = source.wanted(schema)
        if exact:
            wanted = wanted._replace(exact={*wanted.exact, schema.target})
        return cls(source, schema, wanted, complete)

    @property
    def features(self) -> tuple[str, ...]:
        """Feature columns."""
        return self.schema.feature_columns(self.source.columns)

    def settled(self, read: Callable[[Self], T]) -> tuple[T, Self]:
        """What is read, and the table with columns as text that hold marks of gaps."""
        raw = self
        while True:
            try:
                return read(raw), raw
            except MixedColumnError as error:
                column, texts = error.column, raw.wanted.texts
                if column not in self.features or column in texts:
                    raise
                wanted = raw.wanted._replace(texts={*texts, column})
                raw = raw._replace(wanted=wanted)

    def load(self, most_cells: int | None = None) -> Frame | None:
        """All rows; None if these are too many."""
        most = MOST_CELLS if most_cells is None else most_cells
        table = self.source.load(self.wanted, most_cells=most)
        if table is None:
            return None
        with naming(self.source.name):
            kept = self._without_gaps(table)
        return self._frame(kept, table.num_rows)

    def sample(self) -> Frame:
        """Rows that stand for a table which is too large for memory."""
        task = self.schema.task
        own = [name for name in self.wanted.columns if name not in self.features]
        narrow = self._replace(wanted=self.wanted._replace(columns=tuple(own)))
        labels, rows = np.zeros(0, np.uint64), 0
        counts: Array = np.zeros(0)
        for table, read in narrow._pieces():
            rows += read
            found, n = np.unique(hash_rows({task: table[task]}), return_counts=True)
            both = np.concatenate([labels, found])
            labels, places = np.unique(both, return_inverse=True)
            counts = np.bincount(places, np.concatenate([counts, n])).astype(np.float64)
        if not len(labels):
            raise self._no_rows(rows)
        # Whole tasks where enough of them fit, in the order of their hashes.
        whole = int(np.searchsorted(np.cumsum(counts), SAMPLED_ROWS, side="right"))
        chosen = labels[: max(whole, SAMPLED_TASKS)]
        share = SAMPLED_ROWS / float(counts[: len(chosen)].sum())
        parts = []
        for table, _ in self._pieces():
            is_chosen = np.isin(hash_rows({task: table[task]}), chosen)
            part = table.filter(pa.array(is_chosen))
            if share < 1.0:
                columns = {name: part[name] for name in part.column_names}
                drawn = hash_rows(columns, seed=1) < np.uint64(share * 2.0**64)
                part = part.filter(pa.array(drawn))
            parts.append(part)
        joined = pa.concat_tables(parts, promote_options="permissive")
        frame = self._frame(joined, rows)
        dropped = rows - int(counts.sum())
        return frame._replace(dropped=dropped, all_tasks=len(labels))

    def summarize(
        self,
        design: Design,
        effects: Array,
        advance: Callable[[int], None] | None = None,
    ) -> TaskStatistics:
        """Statistics of all rows, encoded by a design.

        ``effects`` of the levels of its crossed factors are taken off the targets.
        """
        total: TaskStatistics | None = None
        for rows, _ in self._pieces(advance):
            table, begin = self._of_weight(rows), 0
            while begin < table.num_rows:
                # A merge takes as long as statistics are large.
                cells = 0 if total is None else total.xx.size // 2
                count = choose_rows(len(design), cells)
                with naming(self.source.name):
                    part = self._encode(table.slice(begin, count), design, effects)
                total = part if total is None else total + part
                begin += count
        if total is None:
            raise self._no_rows(1)
        return total

    def _of_weight(self, table: pa.Table) -> pa.Table:
        """Rows of positive weight."""
        if self.schema.weight is None:
            return table
        weight = read_weights(self.schema.weight, table[self.schema.weight]).values
        return table if weight.all() else table.filter(pa.array(weight > 0))

    def _encode(
        self, table: pa.Table, design: Design, effects: Array
    ) -> TaskStatistics:
        """Statistics of some rows."""
        schema = self.schema
        as_categories(table, schema.categories or {})
        y = read_numbers(schema.target, table[schema.target]).values
        y, weight = y.astype(np.float64), None
        if schema.weight is not None:
            weight = read_numbers(schema.weight, table[schema.weight]).values
            weight = weight.astype(np.float64)
        levels = design.read_levels(table)
        if levels is not None:
            y = y - levels.forward(effects)
        ordered = declares_order(table.schema, schema.task)
        task = read_tasks(schema.task, table[schema.task], ordered=ordered)
        used, codes = np.unique(task.values, return_inverse=True)
        known = task.labels or ()
        tasks = keep_tasks(known, (known[i] for i in used))
        X = design.encode(table)
        return summarize_tasks(from_codes(X, y, codes, tasks, weight, design))

    def _pieces(
        self, advance: Callable[[int], None] | None = None
    ) -> Iterator[tuple[pa.Table, int]]:
        """Rows with task, target and weight, piece by piece, and how many were read."""
        file, begin = "", 0
        for piece in prefetch(self.source.read(self.wanted)):
            begin = begin if piece.file == file else 0
            with naming(file := piece.file):
                table = self._without_gaps(piece.table, begin)
            begin += piece.num_rows
            yield table, piece.num_rows
            if advance is not None:
                advance(piece.size)

    def _without_gaps(self, table: pa.Table, begin: int = 0) -> pa.Table:
        """Rows with task, target and weight; others are an error, or dropped."""
        schema, gone = self.schema, np.zeros(table.num_rows, dtype=bool)
        needed = (schema.task, schema.target, schema.weight)
        for column in (*needed, *(self.features if self.complete else ())):
            gaps = None if column is None else find_gaps(table[column])
            if gaps is None or not gaps.any():
                continue
            if schema.missing == "error":
                first = begin + int(np.argmax(gaps)) + 1
                raise ValueError(
                    f"column {column!r} is missing in {gaps.sum():,} of {len(gaps):,} "
                    f'rows, first in row {first}. Use missing="drop" (--missing drop) '
                    "to leave them out."
                )
            gone |= gaps
        return table.filter(pa.array(~gone)) if gone.any() else table

    def _no_rows(self, rows: int) -> DataFileError:
        if not rows:
            words = "no rows, or none that match --where"
            return DataFileError(f"{self.source.name} has {words}.")
        return DataFileError(f"{self.source.name} has no rows with task and target.")

    def _frame(self, table: pa.Table, rows: int) -> Frame:
        if not table.num_rows:
            raise self._no_rows(rows)
        schema, weight = self.schema, None
        if schema.weight is not None:
            weight = table[schema.weight].to_numpy().astype(np.float64)
        X = table.select([*self.features, schema.task])
        with naming(self.source.name):
            X = as_categories(X, schema.categories or {})
        y = table[schema.target].to_numpy()
        return Frame(X, y, weight, rows, rows - table.num_rows)


def as_categories(table: pa.Table, columns: Mapping[str, Sequence[str]]) -> pa.Table:
    """Table with these columns as categories; values that are given must be all."""
    for column, values in columns.items():
        texts = table[column].cast(pa.string())
        if values:
            strange = [t for t in texts.unique().to_pylist() if t is not None]
            strange = [text for text in strange if text not in values]
            if strange:
                raise ValueError(
                    f"column {column!r} must hold the values of --categories, "
                    f"{', '.join(values)}: got {strange[0]!r}."
                )
        place = table.column_names.index(column)
        table = table.set_column(place, column, texts.dictionary_encode())
    return table
