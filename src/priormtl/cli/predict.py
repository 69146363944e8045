"""priormtl predict: what a model says of the rows of a table."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option, echo

from priormtl.cli.columns import Data, Json, Where
from priormtl.cli.errors import needing, one_sentence, refuse_folder, short_warnings
from priormtl.cli.plain import to_json
from priormtl.cli.words import count, word_option

__all__ = ["predict"]


def predict(
    model: Annotated[Path, Argument(metavar="MODEL", help="File of 'priormtl fit'.")],
    data: Data,
    out: Annotated[
        Path, Option(dir_okay=False, help="Table to write: .csv or .parquet.")
    ],
    task: Annotated[
        str | None, Option(metavar="COL", help="Column of the tasks; else as learned.")
    ] = None,
    identity: Annotated[
        str | None, Option("--id", metavar="COL", help="Column to keep beside it.")
    ] = None,
    unseen: Annotated[
        str | None,
        word_option(
            "error",
            "shared",
            "nearest",
            help="New tasks: an error, the mean of all, or of the nearest; else as the "
            "model says.",
        ),
    ] = None,
    where: Where = None,
    as_json: Json = False,
) -> None:
    """Predict each row of a table, which may be larger than memory.

    Columns are found by name, others are ignored. Beside the task stands the
    prediction; for two classes also the probability of the second one. Missing values
    mean what they meant when the model was learned.

    Example: priormtl predict exams.model new.csv --out predictions.csv

    Example: priormtl predict exams.model new/ --id pupil --out predictions.parquet

    Example: priormtl predict exams.model new.csv --unseen shared --out predictions.csv
    """
    with needing("predict", "cli"):
        from priormtl.cli import prediction, writing  # noqa: PLC0415
    with one_sentence(), short_warnings():
        refuse_folder(out, model, data)
        writing.check_suffix(out)
        predictor = prediction.prepare(model, task, identity, unseen)
        read, written = _predict_all(predictor, data, where, out)
    _say(out, predictor.model, read, written, as_json)


def _predict_all(
    predictor: Any, data: Path, where: str | None, out: Path
) -> tuple[int, int]:
    """Rows read, and rows written."""
    from priormtl import engines  # noqa: PLC0415
    from priormtl.cli.writing import write_pieces  # noqa: PLC0415
    from priormtl.estimators import show_progress  # noqa: PLC0415

    source = engines.open_source(data, where)
    with engines.naming(source.name):
        wanted = predictor.wanted(source.columns)
    rows = engines.choose_rows(len(predictor.encoding.features) + len(wanted.columns))
    read = written = 0
    with (
        write_pieces(out) as write,
        show_progress(None, None, "predicting", source.size, "bytes") as advance,
    ):
        for piece in source.read(wanted, rows):
            with engines.naming(piece.file):
                found = predictor.predict(piece.table)
            write(found)
            read, written = read + piece.num_rows, written + found.num_rows
            advance(piece.size)
    return read, written


def _say(out: Path, model: Any, read: int, written: int, as_json: bool) -> None:
    second = _second_class(model)
    if as_json:
        told = {"file": str(out), "rows": read, "predicted": written}
        echo(to_json(told | ({} if second is None else {"second_class": second})))
        return
    left_out = read - written
    dropped = f", {left_out} left out for missing values" if left_out else ""
    echo(f"{count(written, 'row')} predicted{dropped}.")
    if second is not None:
        echo(f"probability is that of {second!r}.")
    echo(f"wrote {out}")


def _second_class(model: Any) -> Any:
    """Label that probabilities speak of, if it is one for all tasks."""
    classes = getattr(model, "classes_", None)
    if classes is None or isinstance(classes, list):
        return None
    return classes.tolist()[1]
