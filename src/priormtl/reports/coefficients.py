"""The whole table of coefficients as a file beside the page."""

import csv
import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from priormtl._files import write_whole
from priormtl.reports.learned import Learned

__all__ = ["save_coefficients"]


def save_coefficients(learned: Learned, path: str | os.PathLike[str]) -> None:
    """Write one row per feature and one column per task: CSV, or Parquet by name."""
    suffix = Path(path).suffix
    if suffix not in {".csv", ".parquet"}:
        raise ValueError(
            f"coefficients must be a file that ends in .csv or .parquet: got {path}."
        )
    write_whole(path, _to_csv(learned) if suffix == ".csv" else _to_parquet(learned))


def _to_csv(learned: Learned) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["feature", *learned.tasks])
    writer.writerows(_rows(learned))
    return text.getvalue().encode()


def _rows(learned: Learned) -> Iterable[list[Any]]:
    for name, row in zip(learned.features, learned.coef.T, strict=True):
        yield [name, *row.tolist()]


def _to_parquet(learned: Learned) -> memoryview:
    try:
        import pyarrow as pa  # noqa: PLC0415
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise ModuleNotFoundError(
            f"coefficients as Parquet need {error.name}: pip install "
            "'priormtl[arrow]', or name a file that ends in .csv.",
            name=error.name,
        ) from None
    columns = [pa.array(learned.features), *map(pa.array, learned.coef)]
    sink = pa.BufferOutputStream()
    table = pa.table(columns, names=["feature", *learned.tasks])
    parquet.write_table(table, sink)
    return memoryview(sink.getvalue())
