"""priormtl predict: predict the rows of a table, batch by batch.

Columns are found by the names that the model remembers. Predictions are written to CSV
or Parquet as they are made, to a file that appears only when it is complete.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from typer import Option, echo

from priormtl.cli.columns import (
    Data,
    Decimal,
    Delimiter,
    Json,
    ModelFile,
    Where,
    split_names,
    word_option,
)
from priormtl.cli.main import (
    check_output,
    exit_on_error,
    print_json,
    print_warnings,
    require_extra,
)
from priormtl.exceptions import DataFileError, unknown_name

if TYPE_CHECKING:
    import pyarrow as pa

    from priormtl.design import Design

WRITTEN = ("prediction", "probability", "lower", "upper")  # columns that are added
ENDINGS = (".csv", ".parquet")


def predict(
    model: ModelFile,
    data: Data,
    out: Annotated[
        Path, Option(dir_okay=False, help="Table to write: .csv or .parquet.")
    ],
    task: Annotated[
        str | None,
        Option(metavar="COL", help="Column with the tasks; by default, as in the fit."),
    ] = None,
    identity: Annotated[
        list[str] | None,
        Option(
            "--id", metavar="COL", help="Column to copy to the output. Can be repeated."
        ),
    ] = None,
    unseen: Annotated[
        str | None,
        word_option(
            "error",
            "shared",
            "nearest",
            help="How to predict tasks that were not seen during fit: stop with an "
            "error, use the mean of all tasks (shared), or the nearest task; by "
            "default, as set in the model.",
        ),
    ] = None,
    interval: Annotated[
        float | None,
        Option(
            metavar="SHARE",
            help="Add the columns lower and upper, an interval that contains this "
            "share of new targets, such as 0.9.",
        ),
    ] = None,
    where: Where = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    as_json: Json = False,
) -> None:
    """Predict each row of a table, which may be larger than memory.

    Columns are found by name; other columns are ignored. The output contains the task
    and the prediction, and for classifiers also the probability of the second class.
    Missing values are treated as in the fit.

    Example: priormtl predict exams.model new.csv --out predictions.csv

    Example: priormtl predict exams.model new/ --id pupil --id year
    --out predictions.parquet

    Example: priormtl predict exams.model new.csv --unseen shared --out predictions.csv

    Example: priormtl predict exams.model new.csv --interval 0.9 --out predictions.csv
    """
    with require_extra("predict", "cli"):
        from priormtl import engines
        from priormtl.data import find_task_columns
        from priormtl.estimators import show_progress
        from priormtl.rendering import count_words
    read = written = 0
    with exit_on_error(), print_warnings():
        check_output(out, model, data)
        if out.suffix.lower() not in ENDINGS:
            raise unknown_name("ending of --out", out.suffix, ENDINGS)
        predictor = prepare(model, task, identity, unseen, interval)
        source = engines.open_source(data, where, delimiter=delimiter, decimal=decimal)
        with engines.naming(source.name):
            kept, used = predictor.kept, predictor.used_columns(source.columns)
        exact = {*kept, *find_task_columns(predictor.task, source.columns)}
        exact |= {*predictor.text_columns}
        wanted = engines.Wanted(used, exact, task=predictor.task)
        size = engines.choose_rows(predictor.width + len(used))
        with (
            write_batches(out) as write,
            show_progress(None, None, "predicting", source.size, "bytes") as advance,
        ):
            for batch in source.read(wanted, size):
                with engines.naming(batch.file):
                    found = predictor.predict(batch.table)
                write(found)
                read, written = read + batch.num_rows, written + found.num_rows
                advance(batch.size)
        if isinstance(predictor, TablePredictor):
            predictor.warn_of_unseen()
    # Classes may differ between tasks; then probabilities have no common name.
    classes: Any = getattr(predictor.model, "classes_", None)
    shared = classes is not None and not isinstance(classes, list)
    second = classes.tolist()[1] if shared else None
    if as_json:
        facts = {"file": str(out), "rows": read, "predicted": written}
        print_json(facts | ({"second_class": second} if shared else {}))
        return
    gone = read - written
    dropped = f", {gone:,} dropped for missing values" if gone else ""
    echo(f"{count_words(written, 'row')} predicted{dropped}.")
    if shared:
        echo(f"probability is that of {second!r}.")
    echo(f"wrote {out}")


# Predictions


class Predictor(NamedTuple):
    """A model, and the columns of a table that it needs."""

    model: Any
    design: "Design"
    task: str | None  # column
    kept: tuple[str, ...]  # columns that are copied beside the predictions
    coverage: float | None = None  # of intervals

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.design)

    @property
    def text_columns(self) -> list[str]:
        """Columns of categories, whose integers stay integers."""
        return list(self.design.text_sources)

    def used_columns(self, names: list[str]) -> tuple[str, ...]:
        """Columns to read from a table with these columns."""
        kept = _raw_columns(self.kept, self.task, names)
        return tuple(dict.fromkeys([*kept, *self.design.used_columns(names)]))

    def predict(self, table: "pa.Table") -> "pa.Table":
        """Kept columns and predictions; rows with gaps are dropped as in the fit."""
        import numpy as np
        import pyarrow as pa

        model, design = self.model, self.design
        if design.missing == "drop":
            gaps = design.gaps(table)
            if self.task is not None:
                gaps = gaps | table[self.task].is_null().to_numpy()
            table = table.filter(pa.array(~gaps)) if gaps.any() else table
        names = [f"{n}_given" if n in WRITTEN else n for n in self.kept]
        found = table.select(list(self.kept)).rename_columns(names)
        rows = table.num_rows
        labels = [model.tasks_.tolist()[0]] * rows  # a model of one task
        if self.task is not None:
            labels = table[self.task]
        if design.is_plain:
            table = table.select(list(design))
        values = model.predict(table, task=labels) if rows else np.empty(0)
        shares = None
        if hasattr(model, "predict_proba"):
            shares = np.empty((0, 2))
            if rows:
                shares = model.predict_proba(table, task=labels)
        found = _append(found, model, values, shares)
        if self.coverage is None:
            return found
        ends = np.empty((0, 2))
        if rows:
            ends = model.predict_interval(table, task=labels, coverage=self.coverage)
        return _append_interval(found, ends)


class TablePredictor(NamedTuple):
    """A pipeline of ``tabular_model``, and the columns of a table that it needs."""

    model: Any
    task: str  # column of the table; the pipeline may call it otherwise
    kept: tuple[str, ...]
    unseen: dict[Any, int]  # rows of tasks that were not seen in the fit
    known: frozenset[Any]
    coverage: float | None = None  # of intervals

    @property
    def width(self) -> int:
        return int(self.model[-1].n_features_in_)

    @property
    def text_columns(self) -> list[str]:
        return list(self.model[0].design_.text_sources)

    def used_columns(self, names: list[str]) -> tuple[str, ...]:
        used = (self.task, *self.kept, *self.model[0].design_.sources)
        return tuple(dict.fromkeys(_raw_columns(used, self.task, names)))

    def predict(self, table: "pa.Table") -> "pa.Table":
        """Kept columns and predictions; gaps of features are filled as in the fit."""
        import numpy as np
        import pyarrow as pa

        from priormtl.data import find_task_columns, join_names

        features, rows = self.model[0], table.num_rows
        names = [f"{n}_given" if n in WRITTEN else n for n in self.kept]
        found = table.select(list(self.kept)).rename_columns(names)
        if table[self.task].null_count:
            raise ValueError(
                f"column {self.task!r} must name the task of each row: "
                f"{table[self.task].null_count:,} are missing. Use --where, or give "
                "them a name: new tasks are predicted by what all tasks share."
            )
        if rows:
            for pair in table[self.task].value_counts().to_pylist():
                if pair["values"] not in self.known:
                    label = pair["values"]
                    self.unseen[label] = self.unseen.get(label, 0) + pair["counts"]
        # Columns that the fit has seen but does not use need not be there.
        seen = list(map(str, features.feature_names_in_))
        tasks = find_task_columns(features.task, seen)
        columns = {join_names(features.task): table[self.task]}
        for name in seen:
            if name not in tasks:
                used = name in features.design_.sources
                columns[name] = table[name] if used else pa.nulls(rows)
        frame = pa.table(columns)
        values = self.model.predict(frame) if rows else np.empty(0)
        shares = None
        if self.model.fitted_.is_classifier:
            shares = self.model.predict_proba(frame) if rows else np.empty((0, 2))
        found = _append(found, self.model, values, shares)
        if self.coverage is None:
            return found
        ends = np.empty((0, 2))
        if rows:
            ends = self.model.predict_interval(frame, coverage=self.coverage)
        return _append_interval(found, ends)

    def warn_of_unseen(self) -> None:
        """Say once how many rows have tasks that were not seen in the fit."""
        if self.unseen:
            from priormtl.rendering import count_words

            rows = count_words(sum(self.unseen.values()), "row")
            tasks, first = (
                count_words(len(self.unseen), "task"),
                next(iter(self.unseen)),
            )
            warnings.warn(
                f"{rows} of {tasks} not seen in the fit, such as {first!r}, were "
                "predicted by what all tasks share.",
                stacklevel=2,
            )


def _raw_columns(used: tuple[str, ...], task: object, names: list[str]) -> list[str]:
    """Columns of a table with these names; the task may be joined from several."""
    from priormtl.data import find_task_columns

    found: list[str] = []
    for name in used:
        found += map(str, find_task_columns(name, names)) if name == task else [name]
    for name in found:
        if name not in names:
            raise unknown_name("column", name, names)
    return found


def _append(found: "pa.Table", model: object, values: Any, shares: Any) -> "pa.Table":
    """Table with predictions and probabilities as further columns."""
    import numpy as np
    import pyarrow as pa

    if not hasattr(model, "classes_"):
        return found.append_column("prediction", pa.array(values))
    # Rows of a batch need not show all classes, from which the type follows.
    kind = pa.array(np.ravel(model.classes_).tolist()).type
    found = found.append_column("prediction", pa.array(values.tolist(), kind))
    if shares is not None:
        found = found.append_column("probability", pa.array(shares[:, 1]))
    return found


def _append_interval(found: "pa.Table", ends: Any) -> "pa.Table":
    """Table with both ends of intervals as further columns."""
    import pyarrow as pa

    lower, upper = (pa.array(part.copy()) for part in ends.T)
    return found.append_column("lower", lower).append_column("upper", upper)


def prepare(
    path: Path,
    task: str | None,
    identity: list[str] | None,
    unseen: str | None = None,
    coverage: float | None = None,
) -> Predictor | TablePredictor:
    """Load a model, and find out which columns of a table it needs."""
    from priormtl.data import join_names
    from priormtl.estimators import TabularPipeline, linear_part
    from priormtl.selection import check_coverage
    from priormtl.storage import load

    model = load(path)
    if task is not None:
        task = join_names(split_names(task))
    if coverage is not None:
        coverage = check_coverage(coverage, "--interval")
        if not hasattr(model, "predict_interval"):
            raise ValueError(f"--interval needs a regressor: {path} is a classifier.")
    if isinstance(model, TabularPipeline):
        linear = linear_part(model)
        if unseen is not None:
            linear.set_params(unseen_tasks=unseen)
        column = task or join_names(model[0].task)
        known = frozenset(linear.tasks_.tolist())
        copied = tuple(dict.fromkeys([*(identity or ()), column]))
        return TablePredictor(model, column, copied, {}, known, coverage)
    design = model.fitted_.design
    if design is None:
        raise DataFileError(
            f"{path} must contain the names of its features to find them in a table. "
            "Fit it to a data frame."
        )
    named = join_names(model.task)
    named = named if isinstance(named, str) else None
    column = task or design.task or named
    if column is None and len(model.tasks_) > 1:
        raise ValueError(
            f"{path} does not say which column contains the tasks. Give --task COL."
        )
    model.set_params(task=None)  # labels are given
    if unseen is not None:
        model.set_params(unseen_tasks=unseen)
    kept = [*(identity or ()), *([] if column is None else [column])]
    return Predictor(model, design, column, tuple(dict.fromkeys(kept)), coverage)


@contextmanager
def write_batches(out: Path) -> Iterator[Callable[["pa.Table"], None]]:
    """Yield a function that appends tables to a file, which appears when complete."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    from priormtl._files import write_aside

    build = {".csv": csv.CSVWriter, ".parquet": parquet.ParquetWriter}
    with write_aside(out) as temporary, ExitStack() as stack:
        opened: list[tuple[Any, pa.Schema]] = []

        def write(table: pa.Table) -> None:
            if not opened:
                # CSV does not know dictionaries.
                schema = pa.schema(
                    field.with_type(field.type.value_type)
                    if pa.types.is_dictionary(field.type)
                    else field
                    for field in table.schema
                )
                writer = build[out.suffix.lower()](temporary, schema)
                opened.append((stack.enter_context(writer), schema))
            [(writer, schema)] = opened
            writer.write_table(table.cast(schema))

        try:
            yield write
        except pa.ArrowException as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise ValueError(f"{out} cannot be written: {reason}.") from None
