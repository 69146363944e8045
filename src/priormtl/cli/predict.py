"""priormtl predict, report and audit: what a model file says about rows of a table.

Columns are found by the names that the model remembers. ``predict`` reads the table
batch by batch; predictions are written to CSV or Parquet as they are made, to a file
that appears only when it is complete. ``report`` and ``audit`` read all rows with a
task and a target, and ``report`` those without a task if the model predicts new ones.
"""

import json
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from typer import Option, echo

from priormtl.cli import main
from priormtl.exceptions import DataFileError, unknown_name

if TYPE_CHECKING:
    import pyarrow as pa
    from sklearn.base import BaseEstimator
    from typer.models import OptionInfo

    from priormtl._arrays import Array
    from priormtl.design import Design
    from priormtl.engines import Source
    from priormtl.estimators.tabular import TableFeatures


@dataclass(frozen=True, kw_only=True)
class PredictRequest(main.RowOptions):
    """Options of ``predict``, as typed."""

    model: Annotated[Path, main.MODEL]
    data: Annotated[Path, main.DATA]
    out: Annotated[Path, main.file_option("Table to write: .csv or .parquet.")]
    task: Annotated[
        str | None,
        main.column_option("Column with the tasks; by default, as in the fit."),
    ] = None
    identity: Annotated[
        list[str] | None,
        main.column_option("Column to copy to the output. Can be repeated.", "--id"),
    ] = None
    unseen: Annotated[
        str | None,
        main.word_option(
            "error",
            "shared",
            help="How to predict tasks that were not seen during fit: stop with an "
            "error, or use the mean of all tasks (shared); by default, as set in the "
            "model.",
        ),
    ] = None
    interval: Annotated[
        float | None,
        Option(
            metavar="SHARE",
            help="Add the columns lower and upper, an interval that contains this "
            "share of new targets, such as 0.9.",
        ),
    ] = None
    as_json: main.Json = False


@main.takes(PredictRequest)
def predict(request: PredictRequest) -> None:
    """Predict each row of a table, which may be larger than memory.

    Columns are found by name; other columns are ignored. The output contains the task
    and the prediction, and for classifiers also the probability of the second class, or
    with more than two classes of each, such as probability_car.
    Missing values are treated as in the fit. Rows without a task are predicted as those
    of new tasks.

    Example: priormtl predict exams.model new.csv --out predictions.csv

    Example: priormtl predict exams.model new/ --id pupil --id year
    --out predictions.parquet

    Example: priormtl predict exams.model new.csv --unseen shared --out predictions.csv

    Example: priormtl predict exams.model new.csv --interval 0.9 --out predictions.csv
    """
    from priormtl import engines
    from priormtl.data import find_task_columns
    from priormtl.estimators import show_progress
    from priormtl.rendering import count_words

    read, written, out = 0, 0, request.out
    main.check_output(out, request.model, request.data)
    if out.suffix.lower() not in (endings := (".csv", ".parquet")):
        raise unknown_name("ending of --out", out.suffix, endings)
    predictor = prepare(
        request.model, request.task, request.identity, request.unseen, request.interval
    )
    source = request.open(request.data)
    with engines.naming(source.name):
        kept, used = predictor.kept, predictor.used_columns(source.columns)
    exact = {*kept, *find_task_columns(predictor.task, source.columns)}
    exact |= {*predictor.design.text_sources}  # whose integers stay integers
    marked = predictor.design.marks
    wanted = engines.Wanted(used, exact, texts=marked)
    size = engines.choose_rows(len(predictor.design) + len(used))
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
    predictor.warn_of_unseen()
    # Classes may differ between tasks; then probabilities have no common name.
    fitted, second = predictor.model.fitted_, None
    shared = fitted.is_classifier and not isinstance(predictor.model.classes_, list)
    if shared and (shared := len(predictor.model.classes_) == 2):
        second = predictor.model.classes_.tolist()[1]
    if request.as_json:
        facts = {"file": str(out), "rows": read, "predicted": written}
        main.print_json(facts | ({"second_class": second} if shared else {}))
        return
    gone = read - written
    dropped = f", {gone:,} dropped for missing values" if gone else ""
    echo(f"{count_words(written, 'row')} predicted{dropped}.")
    if shared:
        echo(f"probability is that of {second!r}.")
    echo(f"wrote {out}")


def known_column(what: str) -> "OptionInfo":
    return main.column_option(
        f"Column of DATA with the {what}; by default, as in the fit."
    )


@dataclass(frozen=True, kw_only=True)
class ReportRequest(main.RowOptions):
    """Options of ``report``, as typed."""

    model: Annotated[Path, main.MODEL]
    out: Annotated[Path, main.file_option("HTML page to write.")] = Path("report.html")
    data: Annotated[
        Path | None,
        Option(
            parser=main.read_location,
            metavar="DATA",
            help="Rows to score, preferably new ones: a table as 'priormtl fit' "
            "reads it.",
        ),
    ] = None
    task: Annotated[str | None, known_column("tasks")] = None
    target: Annotated[str | None, known_column("targets")] = None
    without: Annotated[
        Path | None,
        main.file_option("Model fitted without the prior: compare errors on DATA."),
    ] = None
    title: Annotated[str | None, Option(help="Heading of the page.")] = None
    coefficients: Annotated[
        Path | None,
        main.file_option("Also write all coefficients to .csv or .parquet."),
    ] = None
    as_json: main.Json = False


@main.takes(ReportRequest)
def report(request: ReportRequest) -> None:
    """Write a page that shows what a fitted model has learned.

    It shows how well the model predicts, which features matter, whether the prior
    helped, and which tasks are outliers. The page is one file that works offline.
    Nothing is fitted.

    Example: priormtl report exams.model --out report.html

    Example: priormtl report exams.model --data new.csv --title "Exams of 2011"

    Example: priormtl report with.model --without without.model --data new.csv
    """
    from priormtl.reports import report as build_report
    from priormtl.storage import load

    model, data, out = request.model, request.data, request.out
    main.check_output(out, model, data)
    main.check_output(request.coefficients, model, data)
    if out == request.coefficients:
        raise ValueError(
            f"--coefficients and --out must be different files: both are {out}."
        )
    fitted, rows = load(model), main.Facts()
    plain = None if request.without is None else load(request.without)
    if data is not None:
        source = request.open(data)
        scored = [fitted] if plain is None else [fitted, plain]
        rows = read_known_rows(
            fitted,
            source,
            task=request.task,
            target=request.target,
            all_named=not all(map(predicts_new_tasks, scored)),
        )
    elif request.task is not None or request.target is not None:
        raise ValueError("--task and --target are columns of --data. Give --data.")
    elif request.where is not None:
        raise ValueError("--where chooses rows of --data. Give --data.")
    elif plain is not None:
        raise ValueError("--without compares errors on --data. Give --data.")
    named = None if data is None else data.name
    made = build_report(
        fitted, **rows, without=plain, title=request.title, source=named
    )
    made.save(out, coefficients=request.coefficients)
    findings = json.loads(made.to_json())["findings"]
    if request.as_json:
        main.print_json({"file": str(out), "findings": findings}, ensure_ascii=False)
        return
    for finding in findings:
        echo(f"{finding['question']} {finding['value']}.")
    echo(f"wrote {out}")


@dataclass(frozen=True, kw_only=True)
class AuditRequest(main.RowOptions):
    """Options of ``audit``, as typed."""

    model: Annotated[Path, main.MODEL]
    data: Annotated[
        Path,
        main.data_argument(
            "Rows that the model was fitted to: a table as 'priormtl fit' reads it."
        ),
    ]
    task: Annotated[str | None, known_column("tasks")] = None
    target: Annotated[str | None, known_column("targets")] = None
    folds: Annotated[
        int,
        main.least_option(0, "Folds to compare fits with and without prior; 0: skip."),
    ] = 5
    as_json: main.Json = False


@main.takes(AuditRequest)
def audit(request: AuditRequest) -> None:
    """Test whether the data agree with the prior of a fitted model.

    Each statement of the prior is tested, and held-out rows are predicted with and
    without the prior.

    Example: priormtl audit sales.model sales.csv

    Example: priormtl audit sales.model sales.csv --folds 0 --json
    """
    from priormtl.audits import audit_prior
    from priormtl.storage import load

    fitted, source = load(request.model), request.open(request.data)
    rows = read_known_rows(fitted, source, task=request.task, target=request.target)
    found = audit_prior(fitted, **rows, cv=request.folds or None)
    echo(found.to_json() if request.as_json else str(found))


# Predictions


class Predictor(NamedTuple):
    """A model, and the columns of a table that it needs."""

    model: "BaseEstimator"
    task: str | None  # column of the table; a pipeline may call it otherwise
    kept: tuple[str, ...]  # columns that are copied beside the predictions
    coverage: float | None  # of intervals
    unseen: Counter[Hashable]  # rows of tasks that were not seen in the fit, or of None

    @property
    def features(self) -> "TableFeatures | None":
        """First step of a pipeline of ``tabular_model``; None for linear models."""
        from priormtl.estimators import TabularPipeline

        return self.model[0] if isinstance(self.model, TabularPipeline) else None

    @property
    def design(self) -> "Design":
        found = self.features
        return self.model.fitted_.design if found is None else found.design_

    def used_columns(self, names: list[str]) -> tuple[str, ...]:
        """Columns to read from a table with these columns."""
        from priormtl.data import find_task_columns

        sources = self.design.sources
        if self.features is None:
            sources = self.design.used_columns(names)
        else:
            sources = plain_columns(self.features)
        own = self.kept if self.task is None else (*self.kept, self.task)
        found: list[str] = []
        for name in (*own, *sources):
            # The task may be joined from several columns.
            parts = find_task_columns(name, names) if name == self.task else [name]
            found += map(str, parts)
        for name in found:
            if name not in names:
                raise unknown_name("column", name, names)
        return tuple(dict.fromkeys(found))

    def predict(self, table: "pa.Table") -> "pa.Table":
        """Kept columns and predictions; missing values are treated as in the fit."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        from priormtl.data import UNKNOWN
        from priormtl.engines.columns import join_tasks

        is_joined = self.task is not None and self.task not in table.column_names
        table = join_tasks(table, self.task, keep_known=True)
        table, arguments = self._read(table)
        rows, fitted = table.num_rows, self.model.fitted_

        def ask(method: Callable[..., "Array"], *shape: int, **more: object) -> "Array":
            # Models refuse tables without rows.
            return method(**arguments, **more) if rows else np.empty((0, *shape))

        added = ("prediction", "probability", "lower", "upper")
        names = [f"{n}_given" if n in added else n for n in self.kept]
        found = table.select(list(self.kept))
        if is_joined:  # missing parts are empty in the output
            spelled = pc.replace_substring(found[self.task], UNKNOWN, "")
            place = found.column_names.index(self.task)
            found = found.set_column(place, self.task, spelled)
        found = found.rename_columns(names)
        values = pa.array(ask(self.model.predict))
        if fitted.is_classifier:
            # Rows of a batch need not show all classes, from which the type follows.
            kind = pa.array(np.ravel(self.model.classes_).tolist()).type
            values = pa.array(values.to_pylist(), kind)
        found = found.append_column("prediction", values)
        if fitted.is_classifier and fitted.loss == "logistic":
            classes = np.asarray(self.model.classes_)
            several = classes.ndim == 1 and len(classes) != 2
            shares = ask(self.model.predict_proba, len(classes) if several else 2)
            if several:
                for one, share in zip(classes.tolist(), shares.T, strict=True):
                    name = f"probability_{one}"
                    found = found.append_column(name, pa.array(share.copy()))
            else:
                found = found.append_column("probability", pa.array(shares[:, 1]))
        if self.coverage is not None:
            ends = ask(self.model.predict_interval, 2, coverage=self.coverage)
            for name, part in zip(("lower", "upper"), ends.T, strict=True):
                found = found.append_column(name, pa.array(part.copy()))
        return found

    def _read(self, table: "pa.Table") -> tuple["pa.Table", main.Facts]:
        """Rows that are predicted, and the arguments of the model for them."""
        import pyarrow as pa

        from priormtl.design.frames import is_missing

        if self.features is not None:
            assert self.task is not None
            labels = table[self.task]
            known = set(self.model.fitted_.labels)
            for pair in labels.value_counts().to_pylist():
                label = None if is_missing(pair["values"]) else pair["values"]
                if label not in known:
                    self.unseen[label] += pair["counts"]
            return table, {"X": as_fitted(self.features, table, labels)}
        if self.design.missing == "drop":
            gaps = self.design.gaps(table)
            if self.task is not None and not predicts_new_tasks(self.model):
                gaps = gaps | table[self.task].is_null().to_numpy()
            table = table.filter(pa.array(~gaps)) if gaps.any() else table
        labels = self.model.fitted_.labels[:1] * table.num_rows  # a model of one task
        if self.task is not None:
            labels = table[self.task]
        plain = self.design.is_plain
        X = table.select(list(self.design)) if plain else table
        return table, {"X": X, "task": labels}

    def warn_of_unseen(self) -> None:
        """Say once how many rows have no task, or one that the fit has not seen."""
        from priormtl.data import UNKNOWN
        from priormtl.rendering import count_words

        named = self.unseen.copy()
        unnamed, found = named.pop(None, 0), list[str]()
        if named:
            rows = count_words(named.total(), "row")
            tasks = count_words(len(named), "task")
            example = next(iter(named))
            if isinstance(example, str):
                example = example.replace(UNKNOWN, "")
            found.append(f"{rows} of {tasks} not seen in the fit, such as {example!r},")
        if unnamed:
            found.append(f"{count_words(unnamed, 'row')} without a task")
        if found:
            warnings.warn(
                f"{' and '.join(found)} were predicted by what all tasks share.",
                stacklevel=2,
            )


def predicts_new_tasks(model: "BaseEstimator") -> bool:
    """Whether rows are predicted that have no task, or one not seen in the fit."""
    from priormtl.estimators import linear_part

    return bool(linear_part(model).unseen_tasks == "shared")


def plain_columns(features: "TableFeatures") -> tuple[str, ...]:
    """Columns that a pipeline reads, beside the task."""
    time = features.design_.time  # which is no feature where it has one value
    known = () if time is None else (time,)
    return (*features.design_.sources, *features.offset_columns, *known)


def as_fitted(
    features: "TableFeatures", table: "pa.Table", labels: "pa.ChunkedArray"
) -> "pa.Table":
    """Table as a pipeline expects it; columns that it does not use may be absent."""
    import pyarrow as pa

    from priormtl.data import find_task_columns, join_names

    seen = list(map(str, features.feature_names_in_))
    tasks = find_task_columns(features.task, seen)
    columns = {join_names(features.task): labels}
    for name in seen:
        if name not in tasks:
            used = name in plain_columns(features)
            columns[name] = table[name] if used else pa.nulls(len(labels))
    return pa.table(columns)


def prepare(
    path: Path,
    task: str | None,
    identity: list[str] | None,
    unseen: str | None = None,
    coverage: float | None = None,
) -> Predictor:
    """Load a model, and find out which columns of a table it needs."""
    from priormtl.data import join_names
    from priormtl.estimators import TabularPipeline, linear_part
    from priormtl.selection import check_coverage
    from priormtl.storage import load

    model = load(path)
    linear, fitted = linear_part(model), model.fitted_
    column = task and join_names(main.split_names(task))
    if coverage is not None:
        coverage = check_coverage(coverage, "--interval")
        if fitted.is_classifier:
            raise ValueError(f"--interval needs a regressor: {path} is a classifier.")
    if unseen is not None:
        linear.set_params(unseen_tasks=unseen)
    if isinstance(model, TabularPipeline):
        column = column or join_names(model[0].task)
    else:
        if fitted.design is None:
            raise DataFileError(
                f"{path} must contain the names of its features to find them in a "
                "table. Fit it to a data frame."
            )
        named = join_names(model.task)
        column = column or fitted.design.task or (named if named else None)
        if not isinstance(column, str) and len(fitted.tasks) > 1:
            raise ValueError(
                f"{path} does not say which column contains the tasks. Give --task COL."
            )
        column = column if isinstance(column, str) else None
        model.set_params(task=None)  # labels are given
    kept = [*(identity or ()), *([] if column is None else [column])]
    copied = tuple(dict.fromkeys(kept))
    return Predictor(model, column, copied, coverage, Counter())


@contextmanager
def write_batches(out: Path) -> Iterator[Callable[["pa.Table"], None]]:
    """Yield a function that appends tables to a file, which appears when complete."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    from priormtl._files import write_aside

    build = {".csv": csv.CSVWriter, ".parquet": parquet.ParquetWriter}
    with write_aside(out) as temporary, ExitStack() as stack:
        opened: list[tuple[csv.CSVWriter | parquet.ParquetWriter, pa.Schema]] = []

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


# Rows with targets


def read_known_rows(
    model: "BaseEstimator",
    data: "Source | Path",
    *,
    task: str | None,
    target: str | None,
    all_named: bool = True,
) -> main.Facts:
    """X, y and task of a table, as arguments; columns are the model's own.

    Rows without a target are left out, and those without a task if all are to have one.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    from sklearn.pipeline import Pipeline

    from priormtl.data import join_names
    from priormtl.engines import naming, open_source
    from priormtl.engines.columns import join_tasks

    features = model[0] if isinstance(model, Pipeline) else None
    design = model.fitted_.design if features is None else features.design_
    column = model.task if features is None else features.task
    if design is not None:
        column, target = design.task or column, target or design.target
    if task is not None or isinstance(join_names(column), str):
        task = join_names(column if task is None else main.split_names(task))
    for option, given in (("task", task), ("target", target)):
        if given is None:
            raise ValueError(
                f"--data needs --{option} COL, because the model file does not name "
                f"its {option} column."
            )
    source = open_source(data)
    try:
        table = source.dataset.to_table(filter=source.where)
    except (pa.ArrowException, UnicodeError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise DataFileError(f"{source.name} cannot be read: {reason}.") from None
    table = join_tasks(table, task, keep_known=not all_named)
    present = table.column_names
    encodes = design is not None and features is None and not design.is_plain
    with naming(source.name):
        needed = () if design is None else design.sources
        if encodes:
            needed = design.used_columns(present)
        for name in (task, target, *needed):
            if name not in present:
                raise unknown_name("column", name, present)
    known = table[target].is_valid()
    table = table.filter(pc.and_(known, table[task].is_valid()) if all_named else known)
    if encodes and design.missing == "drop":
        table = table.filter(pa.array(~design.gaps(table)))
    if not table.num_rows:
        raise DataFileError(
            f"{source.name} must have rows with known {task!r} and {target!r}."
        )
    y, labels = table[target], table[task]
    _check_targets(model, source.name, target, y)
    if features is not None:
        return {"X": as_fitted(features, table, labels), "y": y}
    X = table  # a design knows what the columns mean
    if design is None:
        others = [name for name in present if name not in (task, target)]
        X = np.column_stack([table[name].to_numpy() for name in others])
    elif not encodes:
        X = table.select(list(design.names))
    named = join_names(model.task)
    if named is None:
        return {"X": X, "y": y, "task": labels}
    if named not in X.column_names:
        X = X.append_column(named, labels)
    return {"X": X, "y": y}


def _check_targets(
    model: "BaseEstimator", data: str, target: object, column: "pa.ChunkedArray"
) -> None:
    """Refuse texts for a regressor, and numbers whose scores would overflow."""
    import numpy as np
    import pyarrow as pa

    if pa.types.is_string(column.type) and not model.fitted_.is_classifier:
        raise DataFileError(
            f"{data}: column {target!r} must hold numbers: got text such as "
            f"{column[0].as_py()!r}."
        )
    if pa.types.is_floating(column.type):
        largest, values = 1e100, column.to_numpy()  # as in fits
        wrong = values[~(np.abs(values) <= largest)]
        if len(wrong):
            raise DataFileError(
                f"{data}: column {target!r} must hold finite numbers up to "
                f"{largest:g}: got {wrong[0]:g}. Replace or drop such values."
            )
