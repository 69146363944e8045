"""Fits of tasks where their rows are: blocks of tasks, tables of coefficients, files.

Rows are brought together by task once: in spill files (`fit`), by a shuffle of Dask or
Spark (`dask.fit`, `spark.fit`). Each part then holds blocks of tasks (`data.Block`),
and a fit takes passes over them, which send sums of d × d numbers; see
`priormtl.partitioned`. Coefficients come back to the one who asked, or are written to
Parquet files where they are computed, one per part, beside a file of what tasks share.
"""

import contextlib
import json
import os
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

from priormtl._arrays import Array
from priormtl.data import (
    Block,
    HeldTasks,
    SortedRows,
    Sums,
    Tasks,
    add_sums,
    check_min_rows,
    label_array,
)
from priormtl.design import Design, as_frame
from priormtl.engines import batches
from priormtl.engines.columns import hash_rows, join_tasks
from priormtl.engines.files import naming
from priormtl.engines.schema import Column, Layout, Schema, join_layouts
from priormtl.engines.shards import Spill
from priormtl.engines.sources import Source, open_source, prefetch
from priormtl.exceptions import ModelFileError
from priormtl.losses import find_family

T = TypeVar("T")

SHARED = "_shared.json"  # readers of Parquet folders skip names with underscores
TASK, INTERCEPT = "task", "(intercept)"
BUCKETS = 64
BUCKET = 2**25  # bytes of a spill file that is read at once; larger ones are split
KIND = "coefficients of tasks"


@runtime_checkable
class Estimator(Protocol):
    """An estimator that can be fitted to blocks of tasks."""

    def fit_blocks(
        self, tasks: Tasks, design: Design, *, collect: bool = True
    ) -> "Learned":
        """Fit tasks where they are; collect coefficients, or leave them there."""


class Learned(Protocol):
    """What a fit has learned, as this module needs it; see `PartitionedFit`."""

    @property
    def model(self) -> Any: ...
    @property
    def readout(self) -> Any: ...
    @property
    def shared_coef(self) -> Array: ...
    @property
    def shared_intercept(self) -> float: ...
    @property
    def objective(self) -> float: ...
    @property
    def gap(self) -> float: ...


class PartTasks(Tasks, Protocol):
    """Tasks in parts that can write files."""

    def write(self, step: "Write") -> None:
        """Let each part write a file of its own."""


Write = Callable[[str, Iterable[Block]], int]  # name of a file, and what it is about


# Rows of a part of the tasks, as blocks.


class Recipe(NamedTuple):
    """How rows become blocks."""

    schema: Schema
    layout: Layout
    loss: str
    min_rows: int = 1  # of a task; those of fewer rows are left out

    @property
    def features(self) -> list[str]:
        """Columns that become features."""
        return list(self.schema.features or ())

    def on(self, columns: Iterable[str]) -> "tuple[Recipe, list[str]]":
        """The same for a table of these columns, all numbers, and those in use."""
        columns = list(columns)
        features = self.schema.feature_columns(columns)
        schema = Schema.of(self.schema, features=features)
        recipe = self._replace(schema=schema, layout=number_layout(features))
        return recipe, list(self.schema.used_columns(columns))

    def blocks(self, table: pa.Table) -> list[Block]:
        """Blocks of rows of whole tasks."""
        if table.num_rows == 0:
            return []
        reading = batches.read_batch(self.schema, table)
        rows, y = reading.rows, reading.target
        X = batches.fill_slots(self.layout, reading.features, rows.weight).X
        counts = rows.row_counts()
        if self.min_rows > 1:
            large = counts >= self.min_rows
            kept = large[rows.codes]
            X, y, weight = X[kept], y[kept], rows.weight[kept]
            labels = label_array(
                [t for t, k in zip(rows.tasks, large, strict=True) if k]
            )
            counts = counts[large]
        else:
            weight, labels = rows.weight, label_array(rows.tasks)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
        family = find_family(self.loss, 1.0 if "binomial" in self.loss else None)
        if self.loss == "logistic":
            y = code_classes(self.schema.target, y)
        elif family is not None:
            family.check(y, weighted=self.schema.weight is not None)
        sorted_rows = SortedRows(labels, starts, X, y, weight)
        held = HeldTasks.of(sorted_rows, as_rows=family is not None)
        return list(held.blocks)


def code_classes(name: str, y: Array) -> Array:
    """Classes 0 and 1 as −1 and +1."""
    if not np.all((y == 0.0) | (y == 1.0)):
        wrong = y[(y != 0.0) & (y != 1.0)][0]
        raise ValueError(
            f"column {name!r} must hold 0 and 1 for a classifier of tasks where they "
            f"are: got {wrong:g}; code its classes so."
        )
    return 2.0 * y - 1.0


def fit_parts(
    model: Estimator,
    schema: Schema,
    bring: "Callable[[Recipe], AbstractContextManager[tuple[PartTasks, Recipe]]]",
    out: str | os.PathLike[str] | None,
    min_rows: int,
) -> Learned:
    """Fit tasks that an engine brings together, and knows the layout of."""
    if not isinstance(model, Estimator):
        raise TypeError(
            "model must be a MultiTaskRegressor or a MultiTaskClassifier to fit tasks "
            f"where they are: got {type(model).__name__}. Use adaptive ties "
            '(ties="adaptive", lam=0), or choose strengths on a sample of the tasks.'
        )
    if schema.folds is not None or schema.key is not None:
        raise ValueError("folds and key must be None: a fit has no folds.")
    if schema.missing == "mean":
        raise ValueError(
            "missing must be 'error' or 'drop' to fit tasks where they are: got "
            "'mean'; fill the gaps beforehand."
        )
    check_min_rows(min_rows)
    path = None if out is None else Path(out).absolute()
    if path and path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ValueError(f"out must be a new or empty folder: got {str(path)!r}.")
    loss = str(vars(model).get("loss", "squared"))
    with bring(Recipe(schema, Layout(()), loss, min_rows)) as (tasks, recipe):
        design = recipe.layout.design(recipe.schema)
        found = model.fit_blocks(tasks, design, collect=path is None)
        if path is not None:
            path.mkdir(parents=True, exist_ok=True)
            tasks.write(partial(write_part, found, design, str(path)))
            write_shared(found, design, str(path))
    return found


def number_layout(columns: Iterable[str]) -> Layout:
    """Layout of columns that all hold numbers."""
    return Layout(tuple(Column(name) for name in columns))


def read_layout(schema: Schema, table: pa.Table) -> Layout | None:
    """Layout of some rows; None if there are none."""
    return batches.read_batch(schema, table).layout if table.num_rows else None


def join_all(layouts: Iterable[Layout | None]) -> Layout:
    """Layout of all rows."""
    total: Layout | None = None
    for layout in layouts:
        if layout is not None:
            total = layout if total is None else join_layouts(total, layout)
    if total is None:
        raise ValueError("there must be rows to learn from: the table has none.")
    return total


# Steps of a part.


def add_part(step: Callable[[Block], Sums], blocks: Iterable[Block]) -> Sums:
    """Sums over the blocks of a part; empty if it has none."""
    with threadpool_limits(1, user_api="blas"):
        return add_sums(map(step, blocks))


def map_part(step: Callable[[Block], T], blocks: Iterable[Block]) -> Iterator[T]:
    """What a step says of each block."""
    with threadpool_limits(1, user_api="blas"):
        yield from map(step, blocks)


def some_sums(found: Sums | None) -> Sums:
    """Sums, of which there are some."""
    if not found:
        raise ValueError("there must be rows to learn from: the table has none.")
    return found


# Tables of coefficients.


def coef_table(found: Learned, design: Design, block: Block) -> pa.Table:
    """Coefficients of the tasks of a block: task, intercept, a column per feature."""
    with threadpool_limits(1, user_api="blas"):
        table = found.readout._replace(precision=None).table(block)
    columns = {TASK: pa.array(table.tasks.tolist())}
    columns[INTERCEPT] = pa.array(table.coef[:, 0])
    for j, name in enumerate(design.names):
        columns[name] = pa.array(table.coef[:, 1 + j])
    return pa.table(columns)


def write_part(
    found: Learned, design: Design, folder: str, name: str, blocks: Iterable[Block]
) -> int:
    """Write coefficients of blocks to one Parquet file; return the number of tasks.

    The file is written under another name first: if a step is repeated, or done twice
    at once, an equal file takes its place.
    """
    count, place = 0, Path(folder)
    handle, temporary = tempfile.mkstemp(prefix="_", dir=place)
    os.close(handle)
    try:
        writer = None
        for block in blocks:
            table = coef_table(found, design, block)
            if writer is None:
                writer = pq.ParquetWriter(temporary, table.schema)
            writer.write_table(table)
            count += table.num_rows
        if writer is not None:
            writer.close()
            Path(temporary).replace(place / name)
    finally:
        with contextlib.suppress(FileNotFoundError):
            Path(temporary).unlink()
    return count


def write_shared(found: Learned, design: Design, folder: str) -> None:
    """Write what tasks share, once all parts are there."""
    plain = {
        "kind": KIND,
        "loss": found.model.loss,
        "intercept": found.shared_intercept,
        "coefficients": found.shared_coef.tolist(),
        "design": design.to_plain(),
        "objective": found.objective,
        "gap": found.gap,
    }
    temporary = Path(folder) / f"{SHARED}.part"
    temporary.write_text(json.dumps(plain), encoding="utf-8")
    temporary.replace(Path(folder) / SHARED)


class CoefFolder(NamedTuple):
    """A folder of coefficients, for predictions."""

    folder: str
    loss: str
    intercept: float
    coefficients: Array
    design: Design

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> "CoefFolder":
        """Read what tasks share."""
        path = Path(folder)
        try:
            plain = json.loads((path / SHARED).read_text(encoding="utf-8"))
            if plain["kind"] != KIND:
                raise ValueError(plain["kind"])
            return cls(
                str(path),
                str(plain["loss"]),
                float(plain["intercept"]),
                np.array(plain["coefficients"], dtype=np.float64),
                Design.from_plain(plain["design"]),
            )
        except (OSError, LookupError, TypeError, ValueError, AttributeError):
            raise ModelFileError(
                f"{path} is not a complete folder of coefficients: fit with out= again."
            ) from None

    def renamed(self) -> dict[str, str]:
        """Columns of coefficients, and names under which no table has them."""
        names = (INTERCEPT, *self.design.names)
        return {name: f"\0{k}" for k, name in enumerate(names)}

    def files(self) -> list[str]:
        """Files of coefficients."""
        return sorted(map(str, Path(self.folder).glob("part-*.parquet")))

    def read(self, file: str, task: str) -> pa.Table:
        """Coefficients of a file under names that no table has, by tasks."""
        table, names = pq.read_table(file), {**self.renamed(), TASK: task}
        return table.rename_columns([names[name] for name in table.column_names])

    def predict(self, rows: pa.Table | Any) -> Array:
        """Predicted means of rows that have been joined with coefficients.

        Rows of unseen tasks, which have none, get what tasks share.
        """
        frame = as_frame(rows)
        assert frame is not None
        X = self.design.encode(rows)
        found = [
            np.asarray(frame[name].to_numpy(), dtype=np.float64)
            for name in self.renamed().values()
        ]
        own = np.column_stack(found) if found else np.zeros((len(X), 0))
        shared = np.concatenate([[self.intercept], self.coefficients])
        coef = np.where(np.isnan(own[:, :1]), shared, own)
        scores = coef[:, 0] + np.einsum("ij,ij->i", np.asarray(X), coef[:, 1:])
        family = find_family(self.loss, 1.0 if "binomial" in self.loss else None)
        return scores if family is None else family.mean(scores)


# Files on one machine.


class FileTasks(NamedTuple):
    """Blocks in files, of which one is held at a time."""

    files: tuple[Path, ...]
    folder: Path

    @classmethod
    def store(cls, blocks: Iterable[Block], folder: Path) -> "FileTasks":
        """Write blocks to files of a folder."""
        place, files = Path(tempfile.mkdtemp(dir=folder)), []
        for number, block in enumerate(blocks):
            path = place / f"{number}.block"
            with path.open("wb") as file:
                pickle.dump(block, file, protocol=5)
            files.append(path)
        return cls(tuple(files), folder)

    def add(self, step: Callable[[Block], Sums]) -> Sums:
        return some_sums(add_part(step, self._read()))

    def collect(self, step: Callable[[Block], T]) -> list[T]:
        return list(map_part(step, self._read()))

    def mapped(self, step: Callable[[Block], Block]) -> "FileTasks":
        return FileTasks.store(map_part(step, self._read()), self.folder)

    def write(self, step: Write) -> None:
        for number, path in enumerate(self.files):
            step(f"part-{number:05d}.parquet", [read_block(path)])

    def _read(self) -> Iterator[Block]:
        return prefetch(map(read_block, self.files))


def read_block(path: Path) -> Block:
    """Block that this process has written."""
    with path.open("rb") as file:
        block: Block = pickle.load(file)
    return block


def fit(
    model: Estimator,
    source: object,
    schema: Schema | None = None,
    *,
    where: object = None,
    out: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    min_rows: int = 1,
    **columns: Any,
) -> Learned:
    """Fit many tasks from files that do not fit into memory, with any loss.

    The source is read once. Rows are written to temporary files, brought together by
    task; then every step of the fit is one pass over them. Memory holds the rows of
    some tasks, however many there are.

    Parameters
    ----------
    model : MultiTaskRegressor or MultiTaskClassifier
        With ``task_prior="mean"`` (or None and ``lam`` above zero). It is fitted,
        unless ``out`` is given. Targets of classifiers are 0 and 1.
    source, schema, where, **columns
        See :func:`priormtl.engines.summarize`.
    out : path, optional
        New or empty folder, to which coefficients are written as Parquet files instead
        of being collected: a column of tasks, the intercept, and a column per feature.
    folder : path, optional
        Folder for temporary files, which take as much room as the rows in use.
    min_rows : int, default=1
        Tasks with fewer rows are left out.

    Returns
    -------
    PartitionedFit
        What tasks share, how they deviate from it, objective and duality gap.
    """
    schema, opened = Schema.of(schema, **columns), open_source(source, where)

    @contextmanager
    def bring(recipe: Recipe) -> Iterator[tuple[FileTasks, Recipe]]:
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            with opened.locating(), Spill(temporary, BUCKETS) as spill:
                recipe = recipe._replace(layout=_spread(recipe.schema, opened, spill))
                with naming(opened.name):
                    blocks = _gather(recipe, spill)
                    tasks = FileTasks.store(blocks, Path(temporary))
            yield tasks, recipe

    return fit_parts(model, schema, bring, out, min_rows)


def _spread(schema: Schema, opened: Source, spill: Spill) -> Layout:
    """Write rows to spill files by hashes of their tasks; return their layout."""
    wanted = opened.wanted(schema)
    layouts: dict[Layout, None] = {}
    for piece in prefetch(
        opened.pieces(schema, batches.choose_rows(len(wanted.columns)))
    ):
        with naming(piece.file):
            table = join_tasks(piece.table, schema.task)
            names = schema.feature_columns(table.column_names)
            if all(holds_numbers(table.schema.field(name).type) for name in names):
                layouts[number_layout(names)] = None
            else:
                layouts[batches.read_batch(schema, table).layout] = None
            _scatter(table, schema.task, spill, 0)
    return join_all(layouts)


def _scatter(table: pa.Table, task: str, spill: Spill, depth: int) -> None:
    """Write rows to spill files by digits of hashes of their tasks."""
    digits = hash_rows({task: table[task]}) // BUCKETS**depth % BUCKETS
    spill.scatter(table, np.arange(len(digits)), digits.astype(np.intp))


def _gather(recipe: Recipe, spill: Spill, depth: int = 1) -> Iterator[Block]:
    """Blocks of the rows of one spill file after the other; large ones are split."""
    most_depth = 4  # rows of one task stay together
    for bucket in range(spill.buckets):
        tables = spill.read(bucket)
        if spill.sizes[bucket] > BUCKET and depth < most_depth:
            with Spill(spill.folder, BUCKETS) as smaller:
                for table in tables:
                    _scatter(table, recipe.schema.task, smaller, depth)
                spill.drop(bucket)
                yield from _gather(recipe, smaller, depth + 1)
        elif spill.sizes[bucket]:
            whole = pa.concat_tables(tables, promote_options="permissive")
            spill.drop(bucket)
            yield from recipe.blocks(whole)


def holds_numbers(kind: pa.DataType) -> bool:
    """Whether a column of this type holds numbers without doubt."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
    )
