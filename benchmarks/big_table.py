"""A table of any number of rows as Parquet files, drawn and written in row groups."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from benchmarks.data import MissingDataError

D, M = 28, 139
FEATURES = [f"x{j:02d}" for j in range(D)]
GROUP_ROWS = 131_072
FILE_ROWS = 32 * GROUP_ROWS
ROW_BYTES = 4 * (D + 3) + 1  # features, target, task, key; the school takes one
SPARE = 1.1


@contextmanager
def temporary_folder(rows: int) -> Iterator[Path]:
    """Make a folder with room for so many rows, which is gone afterwards."""
    with TemporaryDirectory(prefix="priormtl-rows-") as name:
        free = shutil.disk_usage(name).free
        needed = int(SPARE * rows * ROW_BYTES)
        if free < needed:
            raise MissingDataError(
                f"{rows} rows need {needed / 1e9:.1f} GB in the folder for temporary "
                f"files, which has {free / 1e9:.1f} GB: set TMPDIR to one with room."
            )
        yield Path(name)


def write_rows(folder: Path, begin: int, end: int, *, by_task: bool = False) -> None:
    """Write the rows from one number to another; results do not depend on the cut."""
    folder.mkdir(exist_ok=True)
    for first in range(begin, end, FILE_ROWS):
        last = min(end, first + FILE_ROWS)
        path = folder / f"{first:010d}.parquet"
        with parquet.ParquetWriter(
            path, SCHEMA, compression="none", use_dictionary=["school"]
        ) as writer:
            for row in range(first, last, GROUP_ROWS):
                writer.write_table(draw(row, min(last, row + GROUP_ROWS), by_task))


SCHEMA = pa.schema(
    [
        ("row", pa.int32()),
        ("task", pa.int32()),
        ("school", pa.string()),
        ("y", pa.float32()),
        *((name, pa.float32()) for name in FEATURES),
    ]
)
SCHOOLS = pa.array([f"school {i}" for i in range(M)])


def draw(begin: int, end: int, by_task: bool) -> pa.Table:
    """Rows of a group, of any task, or of few that follow each other."""
    rng = np.random.default_rng(begin)
    n = end - begin
    task = rng.integers(0, M, n, dtype=np.int32)
    if by_task:
        task = np.sort(task)
    X = rng.standard_normal((D, n), dtype=np.float32)
    y = X.sum(axis=0) + rng.standard_normal(n, dtype=np.float32)
    row = np.arange(begin, end, dtype=np.int32)
    return pa.table([row, task, SCHOOLS.take(pa.array(task)), y, *X], schema=SCHEMA)
